"""A coding agent that plans before it changes anything, within permission rules."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import trio
from agentrail import (
    Agent,
    AgentrailError,
    ApprovalRequired,
    Blueprint,
    Event,
    Provider,
    Session,
    ToolExecutionEnd,
    ToolExecutionStart,
    open_supervisor,
)
from agentrail.events import Approval, PluginEvent, SubagentEvent, ToolBlocked
from agentrail.plugins import Permissions
from agentrail.tools import builtin
from offline_coder import Offline

# A program that adds prices up, and a test of it that fails. Both need `sh` and nothing else.
PROGRAM = 'sum=0\nfor price in "$@"; do\n    sum=$price\ndone\necho "$sum"\n'
TEST = 'found=$(sh total.sh 3 4)\n[ "$found" = 7 ] || { echo "3 and 4 gave $found"; exit 1; }\necho passed\n'
SETTINGS = {"user.name": "Ada", "user.email": "ada@example.org", "commit.gpgsign": "false"}

DENY = ["shell(git push *)"]
ASK = ["shell(git rebase *)", "shell(git reset *)"]
ALLOW = ["shell(sh test_total.sh)", *(f"shell(git {verb} *)" for verb in ("diff", "show", "add", "commit"))]

# It has a shell like its leader, and its own rules: both must allow a call.
REVIEWER = Agent(
    name="reviewer",
    description="Reviews a commit and lists its faults.",
    system_prompt="You review. Look at the last commit.",
    tools=builtin("read_file", "grep", "shell"),
    permissions={
        "mode": "strict",
        "allow": ["read_file", "grep", "shell(git show *)", "shell(git push *)"],
    },
)


RULES = {
    "mode": "accept_edits",
    "deny": DENY,
    "ask": ASK,
    "allow": ALLOW,
    # These change no file, and the calls of a sub-agent are judged when it makes them.
    "pure_tools": ["task", "write_todos", "compact_conversation"],
    # Reading a plan takes time: the question waits indefinitely.
    "timeout_seconds": 0,
}

CODER = (
    Blueprint.coding()
    .override(name="coder", system_prompt="You mend programs. Run the test before you commit.")
    .with_tools(*builtin("exit_plan"))
    .with_agents(REVIEWER)
    .with_plugins((Permissions, RULES))
)


def git(directory: Path, *words: str) -> None:
    """Run git there, before there is an agent."""
    subprocess.run(["git", *words], cwd=directory, check=True)  # noqa: S603, S607 - words of ours, and your git


def make_repository(directory: Path) -> None:
    """Write a program, its test and a first commit into an empty directory."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        message = f"{directory} is not empty and not a git repository; name another directory"
        raise FileExistsError(message)
    (directory / "total.sh").write_text(PROGRAM)
    (directory / "test_total.sh").write_text(TEST)
    git(directory, "init", "-q")
    # The agent commits in a sandbox, where the settings of your home are hidden, so the repository names the author.
    for name, value in SETTINGS.items():
        git(directory, "config", name, value)
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "Add prices up")


def shown(name: str, arguments: Mapping[str, object]) -> str:
    """Return a call in one line: the tool and its main argument."""
    about = [str(arguments[key]) for key in ("command", "path", "subagent_type") if key in arguments]
    return f"{name} {' '.join(about)}".rstrip()


class Screen:
    """Shows the agent's work and asks the user for decisions."""

    def __init__(self, session: Session, confirm: Callable[[str], str]) -> None:
        self.session = session
        self.confirm = confirm
        self.calls: dict[str, str] = {}

    async def show(self, event: Event) -> None:
        """Show one event, or answer it."""
        match event:
            case SubagentEvent(event=inner):
                await self.show(inner)
            case ApprovalRequired(approval=approval):
                await self.decide(approval)
            case ToolExecutionStart():
                self.calls[event.call_id] = shown(event.name, event.arguments)
            case ToolBlocked():
                print(f"  {self.calls.pop(event.call_id, event.name)}: {event.reason}")
            case ToolExecutionEnd() if event.call_id in self.calls and event.name != "exit_plan":
                why = f": {event.result.text.partition(chr(10))[0]}" if event.result.is_error else ""
                print(f"  {self.calls.pop(event.call_id)}{why}")
            case PluginEvent(name="plan_approved", payload={"mode": mode}):
                print(f"  mode: {mode}")
            case _:
                pass

    async def decide(self, approval: Approval) -> None:
        """Ask the user about a call: `yes`, `no`, or words that the model reads."""
        if approval.tool == "exit_plan":
            asked = f"{approval.arguments['plan']}\napprove? "
        else:
            asked = f"  {shown(approval.tool, approval.arguments)}? "
        words = await trio.to_thread.run_sync(self.confirm, asked, abandon_on_cancel=True)
        if words == "yes":
            await self.session.approve(approval.id)
        elif words in {"no", ""}:
            await self.session.reject(approval.id)
        else:
            await self.session.reject(approval.id, words, auto_resume=True)


async def plan_first(session: Session) -> None:
    """Restrict it to reading until a plan is approved. The previous mode then holds again."""
    await session.update_plugin_opts("Permissions", mode="plan")


async def work(session: Session, task: str, confirm: Callable[[str], str]) -> str:
    """Run a task, show its work, and return its last answer."""
    screen = Screen(session, confirm)
    async with session.stream(task, raise_on_failure=True) as events:
        async for event in events:
            await screen.show(event)
    return events.reply.text or "A person said no; nothing was done."


async def serve(
    tasks: Callable[[], str | None],
    confirm: Callable[[str], str],
    directory: Path,
    model: str | Provider | None = None,
    *,
    unconfined: bool = False,
) -> None:
    """Run the tasks one after the other. `/plan` returns to planning."""
    # The offline model runs four fixed commands and your own. Commands of a real model are confined, unless you
    # pass `--unconfined`.
    is_free = unconfined or model is None
    async with open_supervisor(shell_fallback="unconfined" if is_free else "refuse") as supervisor:
        session = await supervisor.start_session(CODER, model=model or Offline(), working_dir=str(directory))
        await plan_first(session)
        while (task := await trio.to_thread.run_sync(tasks, abandon_on_cancel=True)) is not None:
            try:
                if task == "/plan":
                    await plan_first(session)
                else:
                    print(await work(session, task, confirm))
            except AgentrailError as why:
                print(f"No answer, {type(why).__name__}: {why}")


def main(arguments: list[str] | None = None) -> None:
    """Run the typed tasks, one per line. Ctrl-D ends the program."""
    parser = argparse.ArgumentParser(prog="coding.py", description=__doc__)
    parser.add_argument("directory", type=Path, nargs="?", help="a git repository, or where to make one")
    parser.add_argument("--model", help="a real model, such as anthropic:claude-sonnet-4-5 (default: rules)")
    parser.add_argument(
        "--unconfined", action="store_true", help="without bubblewrap, run commands with all your rights"
    )
    given = parser.parse_args(arguments)
    if shutil.which("git") is None:
        parser.error("git is not installed, and this is about a git repository: install it")

    def next_task() -> str | None:
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        return line.strip() if line else None

    def confirm(asked: str) -> str:
        print(asked, end="", flush=True)
        return sys.stdin.readline().strip()

    with tempfile.TemporaryDirectory() as temporary:
        directory: Path = (given.directory or Path(temporary) / "shop").absolute()
        try:
            if not (directory / ".git").exists():
                make_repository(directory)
                print("A new git repository, in which a test fails.")
            run = partial(serve, next_task, confirm, directory, given.model, unconfined=given.unconfined)
            trio.run(run)
        except (AgentrailError, OSError, subprocess.CalledProcessError) as why:
            sys.exit(f"coding.py: {why}")
    print()


if __name__ == "__main__":
    main()
