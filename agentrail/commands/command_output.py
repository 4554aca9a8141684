"""The output of commands: lines for the user, the same in every client."""

from collections.abc import Iterable, Iterator, Sequence

from agentrail.commands.slash_command import CommandRow
from agentrail.core.journal.turn_index import CallBehind, PastTurn
from agentrail.core.session.views import ChildSession, Status
from agentrail.events import STEP_MARKS, PlanStep, Todo, read_steps
from agentrail.messages import AssistantMessage, Message, TokenUsage, UserMessage
from agentrail.plugins.plan_steps import followed


def show_commands(rows: Sequence[CommandRow]) -> tuple[str, ...]:
    return tuple(map(show_row, rows))


def show_row(row: CommandRow) -> str:
    head = f"/{row.name}" + (f" {row.arguments}" if row.arguments else "")
    source = "" if row.source == "built in" else f" ({row.source})"
    why = "" if row.why_not is None else f" [not here: {row.why_not}]"
    return f"{head}: {row.description}{source}{why}"


def show_status(status: Status) -> str:
    tools = ", ".join(tool.name for tool in status.running_tools)
    parts = [
        f"{status.phase}, turn {status.turn}" if status.turn else status.phase,
        f"model {status.model}",
        f"{status.messages} messages",
        f"{status.usage.total} tokens",
        *(["waits for you"] if status.suspended or status.all_approvals or status.all_questions else []),
        *([f"{len(status.queued)} prompts wait"] if status.queued else []),
        *([f"running: {tools}"] if tools else []),
        *([f"{len(status.children)} sub-agents"] if status.children else []),
        *([f"{status.restarts} restarts"] if status.restarts else []),
    ]
    return " · ".join(parts)


def show_spent(usage: TokenUsage) -> tuple[str, ...]:
    about = " (partly estimated)" if usage.estimated else ""
    cost = "unknown: a price is missing" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    return (
        f"cost: {cost}{about}",
        f"read: {usage.input:,} tokens, {usage.cache_read:,} of them from a cache; written: {usage.output:,}",
    )


MAX_LISTED_TURNS = 30


def show_turns(turns: Sequence[PastTurn]) -> tuple[str, ...]:
    """List the turns that a conversation can go back to, the latest last. A long list starts with the number of omitted turns."""
    found = [turn for turn in turns if turn.counts]
    if not found:
        return ("no turn has finished: there is nothing to go back to",)
    left_out = len(found) - MAX_LISTED_TURNS
    return (
        *([f"… and {left_out} before these"] if left_out > 0 else []),
        *(f"{turn.number}  {show_turn(turn)}" for turn in found[-MAX_LISTED_TURNS:]),
        f"/rewind {found[-1].number} goes back to the end of turn {found[-1].number}",
    )


def show_calls_behind(calls: Sequence[CallBehind]) -> tuple[str, ...]:
    """List the external effects since the turn that a session went back to. They are not undone."""
    left_out = len(calls) - MAX_LISTED_TURNS
    return (
        *(
            f"  {one.outcome}: {one.name} {_shortened(one.summary)}".rstrip()
            for one in calls[:MAX_LISTED_TURNS]
        ),
        *([f"  … and {left_out} more"] if left_out > 0 else []),
    )


def show_turn(turn: PastTurn) -> str:
    asked = f"> {_shortened(turn.asked)} · " if turn.asked else ""
    return f"{asked}{_shortened(turn.said) or 'no words'}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


_SHORT = 48


def show_session_tree(status: Status) -> tuple[str, ...]:
    return tuple(_tree(status.session_id, status, None, 0))


def _tree(session_id: str, status: Status | None, agent: str | None, depth: int) -> Iterator[str]:
    state = "not known" if status is None else _at_work(status)
    named = f" ({agent})" if agent else ""
    yield f"{'  ' * depth}{session_id}{named}: {state}"
    for tool in () if status is None else status.running_tools:
        how = (
            ", in the background"
            if tool.detached or tool.survivor
            else ", being stopped"
            if tool.stopping
            else ""
        )
        yield f"{'  ' * (depth + 1)}→ {tool.name}{how}"
    below: Iterable[ChildSession] = () if status is None else status.children
    for child in below:
        yield from _tree(child.session_id, child.status, child.agent, depth + 1)


def _at_work(status: Status) -> str:
    waiting = len(status.approvals) + len(status.questions) + len(status.client_calls)
    parts = [
        f"{status.phase}, turn {status.turn}" if status.turn else status.phase,
        status.model,
        *(["being stopped"] if status.tearing_down else []),
        *([f"{waiting} wait for users"] if waiting else []),
        *([f"{len(status.queued)} prompts wait"] if status.queued else []),
    ]
    return " · ".join(parts)


def show_agents(names: Sequence[str], status: Status) -> tuple[str, ...]:
    """List the agent that a session was handed over to, the agents that may work for it, and those that do."""
    acting = () if status.agent is None else (f"it works as {status.agent}",)
    known = f"available agents: {', '.join(names)}" if names else "no agents are available"
    at_work = [
        f"running: {child.agent or 'an agent'}, {child.session_id}"
        + ("" if child.status is None else f", {child.status.phase}")
        for child in status.children
    ]
    return (*acting, known, *at_work)


def plan_in(messages: Sequence[Message]) -> tuple[PlanStep, ...]:
    steps: tuple[PlanStep, ...] = ()
    for message in messages:
        if isinstance(message, UserMessage) and message.origin == "prompt":
            steps = ()
        elif isinstance(message, AssistantMessage):
            written = read_steps(message.text)
            steps = followed(steps, written) if written else steps
    return steps


_TODO_MARKS = {"pending": " ", "in_progress": "~", "completed": "x", "cancelled": "-"}


def show_plan_lines(steps: Sequence[PlanStep], todos: Sequence[Todo]) -> tuple[str, ...]:
    lines = ["plan:", *(line for step in steps for line in _lines_of(step))] if steps else []
    if todos:
        lines += ["todos:", *(f"  [{_TODO_MARKS[todo.status]}] {todo.content}" for todo in todos)]
    return tuple(lines) or ("there is no plan and there are no todos",)


def _lines_of(step: PlanStep) -> Iterator[str]:
    yield f"  [{STEP_MARKS[step.status]}] {step.content}"
    for name, said in (
        ("result", step.result),
        ("error", step.error),
        *(("note", note) for note in step.notes),
    ):
        if said is not None:
            yield f"      {name}: {said}"
