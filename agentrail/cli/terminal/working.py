"""The status line: current work, elapsed time and cost. Events in, one row out. Reads no clock.

The elapsed time comes from the terminal's clock, independent of the server, so that a hanging server is noticed.
"""

from typing import Final

from attrs import evolve, frozen

from agentrail import events
from agentrail.cli.terminal.inks import Ink, draw_line
from agentrail.events import TERMINAL, Event
from agentrail.messages import TokenUsage

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER: Final = "|/-\\"
TURNS_PER_SECOND: Final = 10
_CHARACTERS_OF_TOKEN: Final = 4
"""Estimated characters of a token: the provider counts streamed tokens only at the end."""
_WAITS: Final = "waiting for you"
_MANY: Final = 10_000
_MINUTE: Final = 60


@frozen(kw_only=True)
class Working:
    """The current work of a session.

    Attributes:
        since: Start of its cycle in seconds of the drawing clock, or None while it is idle.
        read: Input tokens of this cycle.
        written: Output tokens of this cycle.
        streamed: Characters of the unfinished response.
        cost_usd: The cost of the cycle, or None if a price is missing.
        spent_usd: The cost of the session in this chat, or None if a price is missing.
    """

    since: float | None = None
    what: str = ""
    read: int = 0
    written: int = 0
    streamed: int = 0
    cost_usd: float | None = 0.0
    spent_usd: float | None = 0.0
    queued: int = 0
    stopping: bool = False

    @property
    def is_at_work(self) -> bool:
        """Whether a cycle runs."""
        return self.since is not None


def after(working: Working, event: Event, now: float) -> Working:
    """Return the current work after an event at `now`."""
    match event:
        case events.AgentStart():
            spent, queued = working.spent_usd, max(working.queued - 1, 0) if working.queued else 0
            return Working(since=now, what="preparing", spent_usd=spent, queued=queued)
        case events.PromptQueued():
            return evolve(working, queued=working.queued + 1)
        case events.PromptDropped() | events.PromptTaken() | events.PromptRejected():
            return evolve(working, queued=max(working.queued - 1, 0))
        case events.RequestStart(model=model, attempt=attempt):
            again = f", attempt {attempt}" if attempt > 1 else ""
            return evolve(working, what=f"asking {model}{again}", streamed=0)
        case events.ThinkingDelta(delta=delta):
            return evolve(working, what="thinking", streamed=working.streamed + len(delta))
        case events.MessageDelta(delta=delta):
            return evolve(working, what="writing", streamed=working.streamed + len(delta))
        case events.StreamStalled(elapsed_seconds=seconds):
            return evolve(working, what=f"nothing has come for {seconds:.0f} s")
        case events.StatusUpdate(text=text):
            return evolve(working, what=text)
        case events.ResponseComplete(usage=usage):
            return _counted(evolve(working, what="reading the answer", streamed=0), usage)
        case events.Retry(delay_ms=delay_ms):
            return evolve(working, what=f"trying again in {delay_ms / 1000:.0f} s", streamed=0)
        case events.CompactStart():
            return evolve(working, what="summing up the conversation")
        case events.AgentSuspended() | events.ApprovalRequired() | events.AskUser():
            return evolve(working, what=_WAITS)
        case events.AgentResumed() | events.ToolExecutionEnd():
            return evolve(working, what="going on")
        case _ if type(event) in TERMINAL:
            return Working(spent_usd=working.spent_usd, queued=working.queued)
        case _:
            return working


def _counted(working: Working, usage: TokenUsage) -> Working:
    def sum_of(one: float | None) -> float | None:
        return None if one is None or usage.cost_usd is None else one + usage.cost_usd

    return evolve(
        working,
        read=working.read + usage.input,
        written=working.written + usage.output,
        cost_usd=sum_of(working.cost_usd),
        spent_usd=sum_of(working.spent_usd),
    )


def draw_working(working: Working, running: tuple[str, ...], now: float, ink: Ink) -> str:
    """Draw the line, the most important facts first: a narrow terminal cuts off the rest."""
    if working.since is None:
        return ""
    elapsed = max(now - working.since, 0.0)
    spinner = SPINNER if ink.is_unicode else ASCII_SPINNER
    is_seen = running and working.what != _WAITS
    what = f"running {', '.join(running)}" if is_seen else working.what
    what = "stopping" if working.stopping else what
    written = working.written + working.streamed // _CHARACTERS_OF_TOKEN
    facts = [
        show_seconds(elapsed),
        *([f"↑{show_count(working.read)} ↓{show_count(written)} tokens"] if working.read or written else []),
        *([f"${working.cost_usd:.4f}"] if working.cost_usd else []),
        *([f"{working.queued} queued"] if working.queued else []),
        "Ctrl-C stops",
    ]
    turn = spinner[int(elapsed * TURNS_PER_SECOND) % len(spinner)]
    # In a narrow terminal the seconds must stay visible, because they show that it is alive.
    room = max(ink.width - 24, 12) if len(what) + 12 > ink.width else len(what)
    shown = what if len(what) <= room else f"{what[: room - 1]}…"
    if ink.width < 24:  # noqa: PLR2004 - same number
        return draw_line(((f"{turn} ", "asks"), (f"{facts[0]} ", ""), (shown, "dim")), ink)
    return draw_line(((f"{turn} ", "asks"), (shown, ""), (f" · {' · '.join(facts)}", "dim")), ink)


def show_seconds(seconds: float) -> str:
    """Format a duration, in whole seconds."""
    whole = int(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE:02} s"


def show_count(count: int) -> str:
    """Format a number of tokens, large ones in thousands."""
    return f"{count:,}" if count < _MANY else f"{count / 1000:.1f}k"
