"""Research with a plan, three agents that look at the same time, and a report whose citations are places in documents."""

import argparse
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import trio
from agentrail import (
    Agent,
    AgentrailError,
    Blueprint,
    Provider,
    ResponseComplete,
    Session,
    ToolExecutionEnd,
    open_supervisor,
)
from agentrail.events import CitationUnknown, PlanStepCompleted
from agentrail.plugins import Citations, Planning
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.tools import builtin
from offline_model import Offline

PAPERS = Path(__file__).parent / "papers"
MAX_REPEATS = 1

# It reads only the papers. `plugins=[]`: it needs no plan of its own.
RESEARCHER = Agent(
    name="researcher",
    description="Looks up one part of a question in the papers.",
    system_prompt=(
        "You look things up with kb_search. Answer in a line for each finding, `part: what is written [source] (passage id)`, "
        "with source and id as the passage has them; or `part: nothing is written`."
    ),
    tools=builtin("kb_search"),
    plugins=[],
    max_turns=8,
    background=True,
)

LEADER = Blueprint(
    "leader",
    system_prompt=(
        "You lead three researchers. Start one for each part of the question with spawn_agent, all three in one response, and wait for them with "
        "wait_agents. Then read each passage that they name with kb_read. Your last answer is the report, in Markdown: a section for each part, "
        "each sentence with its [source], nothing that no passage says; at the end your plan with every step ticked."
    ),
    tools=builtin("kb_read"),
    agents=[RESEARCHER],
    plugins=[(Planning, {"min_prompt_length": 1}), Citations],
    max_turns=20,
)


class NoReport(Exception):
    """The answer still cites sources without a passage after a second request."""


def read_papers(papers: Path, directory: str) -> list[str]:
    """Put the papers into a knowledge base for all users, and report the result for each."""
    store = SqliteKnowledge(directory)
    try:
        store.open_base("", "papers", readers=["*"])
        added = [
            store.add("", "papers", paper.name, paper.read_bytes()) for paper in sorted(papers.glob("*.md"))
        ]
    finally:
        store.close()
    return [f"{one.path}: {one.reason or one.state}" for one in added]


async def ask(session: Session, prompt: str, tell: Callable[[str], None]) -> tuple[str, tuple[str, ...]]:
    """Return the last answer and its citations without a passage. Report progress to `tell`."""
    made_up: tuple[str, ...] = ()
    async with session.stream(prompt, raise_on_failure=True) as events:
        async for event in events:
            match event:
                case PlanStepCompleted(step=step):
                    tell(f"[x] {step.content}")
                case ToolExecutionEnd(name="spawn_agent", result=result):
                    tell(result.text.partition(". ")[0])
                case ResponseComplete():
                    made_up = ()  # only the last answer is the report
                case CitationUnknown(citations=citations):
                    made_up = citations
                case _:
                    pass
    return events.reply.text, made_up


async def research(session: Session, question: str, tell: Callable[[str], None]) -> str:
    """The whole workflow is a function over a session: ask, look at the citations, and ask again.

    Raises:
        NoReport: The second answer cites sources without a passage, too.
    """
    report, made_up = await ask(session, question, tell)
    for _ in range(MAX_REPEATS):
        if not made_up:
            break
        named = ", ".join(made_up)
        tell(f"made up: {named}")
        again = f"No passage that you read holds {named}. Read the passages again, and write the report without it."
        report, made_up = await ask(session, again, tell)
    if made_up:
        message = (
            f"no report is written: asked again, it still cites what no passage holds, {', '.join(made_up)}"
        )
        raise NoReport(message)
    return report


async def run(
    question: str, papers: Path, tell: Callable[[str], None], model: str | Provider | None = None
) -> str:
    """Read the papers, do the research and return the report. Temporary files are removed."""
    with tempfile.TemporaryDirectory(prefix="research-") as directory:
        for line in await trio.to_thread.run_sync(read_papers, papers, directory):
            tell(line)
        async with open_supervisor(knowledge=f"sqlite:{directory}") as supervisor:
            session = await supervisor.start_session(LEADER, model=model or Offline())
            return await research(session, question, tell)


async def stop_on_first(signals: AsyncIterator[int], work: trio.CancelScope) -> None:
    """Cancel the work when a signal comes. It is a value here: an exception would come up in the midst of some agent."""
    async for _ in signals:
        work.cancel()


async def attempt(question: str, papers: Path, file: Path, model: str | None) -> str | int:
    """Write the report and return the argument of `sys.exit`: 0, an error text, or 130 after Ctrl-C."""
    outcome: str | int = 130
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_first, signals, nursery.cancel_scope)
            try:
                outcome = keep(await run(question, papers, print, model), file)
            except (AgentrailError, NoReport, OSError) as why:
                outcome = f"research.py: {why}"
            nursery.cancel_scope.cancel()
    return outcome


def keep(report: str, file: Path) -> str | int:
    """Write the report. If that fails, print it, because it has been paid for."""
    try:
        file.write_text(report, encoding="utf-8")
    except OSError as why:
        print(report)
        return f"research.py: {file} cannot be written, the report stands above: {why}"
    print(f"{file} is written")
    return 0


def main(arguments: list[str] | None = None) -> None:
    """Answer a question with a report. Ctrl-C ends the research without one."""
    parser = argparse.ArgumentParser(prog="research.py", description=__doc__)
    parser.add_argument("question", help="the question, with optional parts after a colon: '…: cost, noise'")
    parser.add_argument("--papers", type=Path, default=PAPERS, help="a directory of Markdown files")
    parser.add_argument("--report", type=Path, default=Path("report.md"), help="the file to write")
    parser.add_argument("--model", help="a real model, such as anthropic:claude-sonnet-4-5 (default: rules)")
    given = parser.parse_args(arguments)
    if not given.question.strip():
        parser.error("the question is empty; name a topic")
    if not any(given.papers.glob("*.md")):
        parser.error(f"--papers {given.papers}: expected a directory with Markdown files (*.md), found none")
    if given.report.is_dir() or not given.report.parent.is_dir():
        parser.error(f"--report {given.report}: expected a file in a directory that is there")
    if outcome := trio.run(attempt, given.question, given.papers, given.report, given.model):
        sys.exit(outcome)


if __name__ == "__main__":
    main()
