"""Events as text for the user, or as a line of JSON for a program. No I/O here."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from attrs import define, field, frozen

from agentrail.cli.chat_notices import innermost, is_for_user, notice_of, show_milliseconds
from agentrail.cli.markdown_blocks import MarkdownBlocks
from agentrail.cli.stdio import without_controls
from agentrail.core.policy.tags import rest_of
from agentrail.events import (
    STEP_MARKS,
    TERMINAL,
    Event,
    EventsLost,
    MessageDelta,
    PlanCompleted,
    PlanGenerated,
    PlanStep,
    PlanStepCompleted,
    RequestStart,
    ResponseComplete,
    SessionParked,
    SessionRestarted,
    StreamError,
    SubagentEvent,
    ThinkingDelta,
    TodoChange,
    TodoStatus,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.messages import CallId, JsonObject

ENDS_OF_WORDS: Final = (
    RequestStart,
    ResponseComplete,
    StreamError,
    EventsLost,
    SessionRestarted,
    SessionParked,
    *TERMINAL,
)
"""Events after which an answer receives no more text. All others leave it open, whenever they arrive."""

OutputStream: TypeAlias = Literal["out", "err"]

MAX_ARGUMENTS: Final = 160
MAX_OUTCOME: Final = 100
MAX_DRAWN_ROWS: Final = 20
_TODO_MARKS: Final[Mapping[TodoStatus, str]] = {
    "pending": " ",
    "in_progress": "~",
    "completed": "x",
    "cancelled": "-",
}
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_DIM: Final = "\x1b[2m"
_NORMAL: Final = "\x1b[22m"


@frozen
class Piece:
    stream: OutputStream
    text: str


Pieces: TypeAlias = tuple[Piece, ...]


@frozen(kw_only=True)
class ChatStyle:
    out_is_terminal: bool = False
    err_is_terminal: bool = False
    dims: bool = False


@frozen
class _RunningCall:
    shown: str
    at_ms: int | None


_MISSED: Final = "\n\n(a part was missed while the connection was down; this is the whole answer)\n\n"


@define(eq=False)
class DeltaText:
    """The deltas of the current response. A client that is not connected meanwhile misses some of them."""

    _deltas: list[str] = field(factory=list)

    def take(self, event: Event) -> str:
        """Return the text to show: a delta, or at the end of a response its missed end, or all of it if another part was missed."""
        if isinstance(event, MessageDelta):
            self._deltas.append(event.delta)
            return event.delta
        if not isinstance(event, ENDS_OF_WORDS):
            return ""
        streamed, self._deltas = "".join(self._deltas), []
        text = event.message.text if isinstance(event, ResponseComplete) else streamed
        rest = rest_of(text, streamed)
        if rest is not None:
            return rest
        whole = rest_of(text, "") or ""
        pairs = enumerate(zip(streamed, whole, strict=False))
        same = next((place for place, (one, other) in pairs if one != other), len(whole))
        # Otherwise a plugin has replaced the text that was streamed.
        is_part = len(streamed) < len(whole) and whole.endswith(streamed[same:])
        return f"{_MISSED}{whole}" if is_part else ""


def _told_of(step: PlanStep) -> str:
    came = step.result if step.error is None else step.error
    return step.content if came is None else f"{step.content}: {came}"


class Transcript:
    """Turns events into pieces. Tracks the running calls and any unfinished line.

    Remarks during a streaming answer are held until its paragraph, fence, list or table ends, so that nothing is split.
    """

    def __init__(self, look: ChatStyle) -> None:
        self._look = look
        self._open: OutputStream | None = None
        self._answer = MarkdownBlocks()
        self._streamed = DeltaText()
        self._held: list[Piece] = []
        self._calls: dict[CallId, _RunningCall] = {}
        self._latest_call: CallId | None = None

    def feed(self, event: Event) -> Pieces:
        """Return the output for an event. Most have none."""
        words = self._words(self._streamed.take(event))
        ended = self.end_words() if isinstance(event, ENDS_OF_WORDS) else ()
        return (*words, *ended, *self._show(event))

    def _show(self, event: Event) -> Pieces:
        match event:
            case ThinkingDelta(delta=delta):
                return self._thoughts(delta)
            case ToolExecutionStart(name=name, call_id=call_id, arguments=arguments):
                return self._call(call_id, f"{name}({show_arguments(arguments)})", _at_ms(event))
            case ToolExecutionEnd():
                return self._outcome(event)
            case PlanGenerated(plan=plan):
                return self._list("plan", [(STEP_MARKS[step.status], _told_of(step)) for step in plan.steps])
            case PlanStepCompleted(step=step):
                came = "" if step.result is None else f" ({step.result})"
                return self.remark(f"{step.id} is done: {_shortened(step.content + came, MAX_OUTCOME)}")
            case PlanCompleted(plan=plan):
                return self.remark(f"the plan is done, {len(plan.steps)} steps")
            case TodoChange(todos=todos):
                return self._list("todos", [(_TODO_MARKS[todo.status], todo.content) for todo in todos])
            case SubagentEvent():
                inner = innermost(event)
                return self._show(inner) if is_for_user(inner) else ()
            case _:
                notice = notice_of(event)
                return () if notice is None else self.remark(notice)

    def remark(self, text: str) -> Pieces:
        """Write a remark on its own line, at the next place that does not split an answer."""
        return self._tell(on_one_line(text))

    def note(self, text: str) -> Pieces:
        """Write a note on its own line at once. This ends a streaming answer."""
        return (*self.end_words(), *self._tell(on_one_line(text)))

    def invite(self) -> Pieces:
        before, self._open = self.end_words(), "out"
        return (*before, Piece("out", "> "))

    def line_typed(self) -> None:
        self._open = None

    def end_words(self) -> Pieces:
        self._answer.finish()
        return (*self._end_line(), *self._release())

    def _end_line(self) -> Pieces:
        stream, self._open = self._open, None
        return () if stream is None else (Piece(stream, "\n"),)

    def _release(self) -> Pieces:
        held, self._held = self._held, []
        return tuple(held)

    def _tell(self, *lines: str) -> Pieces:
        self._latest_call = None
        told = [Piece("err", f"{self._dimmed(line)}\n") for line in lines]
        if self._answer.is_between:
            return (*self._end_line(), *told)
        self._held += told
        return ()

    def _list(self, title: str, rows: Sequence[tuple[str, str]]) -> Pieces:
        told = [f"{title}:" if rows else f"{title}: none"]
        told += [
            f"  [{mark}] {_shortened(on_one_line(text), MAX_OUTCOME)}" for mark, text in rows[:MAX_DRAWN_ROWS]
        ]
        if len(rows) > MAX_DRAWN_ROWS:
            told.append(f"  … and {len(rows) - MAX_DRAWN_ROWS} more")
        return self._tell(*told)

    def _words(self, text: str) -> Pieces:
        shown = without_controls(text) if self._look.out_is_terminal else text
        if not shown:
            return ()
        pieces = [*(self._end_line() if self._open == "err" else ())]
        for part in _LINES.findall(shown) if self._held else (shown,):
            self._answer.feed(part)
            pieces.append(Piece("out", part))
            if self._answer.is_between:
                pieces += self._release()
        self._open = None if shown.endswith("\n") else "out"
        self._latest_call = None
        return tuple(pieces)

    def _thoughts(self, text: str) -> Pieces:
        shown = without_controls(text)
        if not self._look.err_is_terminal or not shown:
            return ()
        before = self._end_line() if self._open == "out" else ()
        self._open = None if shown.endswith("\n") else "err"
        return (*before, Piece("err", self._dimmed(shown)))

    def _call(self, call_id: CallId, shown: str, at_ms: int | None) -> Pieces:
        pieces = self.remark(f"→ {shown}")
        self._calls[call_id] = _RunningCall(shown, at_ms)
        self._latest_call = call_id
        return pieces

    def _outcome(self, event: ToolExecutionEnd) -> Pieces:
        started = self._calls.pop(event.call_id, _RunningCall(event.name, None))
        mark = "✗" if event.result.is_error else "✓"
        # Directly after its call a result needs no name. Between those of other calls it does.
        whose = "" if self._latest_call == event.call_id else f" {started.shown}:"
        first, more_lines = first_line(event.result.words)
        facts = [f"+{more_lines} lines"] if more_lines else []
        ended_at_ms = _at_ms(event)
        if started.at_ms is not None and ended_at_ms is not None:
            facts.append(show_milliseconds(ended_at_ms - started.at_ms))
        behind = f" ({', '.join(facts)})" if facts else ""
        return self._tell(f"  {mark}{whose} {first}{behind}")

    def _dimmed(self, text: str) -> str:
        return f"{_DIM}{text}{_NORMAL}" if self._look.dims else text


def json_line(event: Event) -> Pieces:
    # Imported here: it loads every signal, and JSON output is not interactive.
    from agentrail.core.wire.codec import encode_event

    text = encode_event(event).decode()
    if not text.isprintable():
        # What would move the cursor or reorder a line is in a string, where JSON can escape it.
        text = "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
    return (Piece("out", f"{text}\n"),)


# --- parts of lines


def on_one_line(text: str) -> str:
    return without_controls(" ".join(text.split()))


def show_arguments(arguments: JsonObject) -> str:
    shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return _shortened(on_one_line(shown), MAX_ARGUMENTS)


def first_line(text: str) -> tuple[str, int]:
    """Return the first non-empty line, and the number of those after it."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "nothing", 0
    return _shortened(on_one_line(lines[0]), MAX_OUTCOME), len(lines) - 1


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _at_ms(event: Event) -> int | None:
    return event.meta.at_ms if event.meta is not None else None
