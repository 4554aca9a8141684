"""What journals say about going back: where turns end, and what happened outside behind a record. Pure; steps come in."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from agentrail.core.journal.folding import Walked
from agentrail.core.journal.record import REWOUND, Record, decode_rewound
from agentrail.core.protocol.effects import Effect, Publish, RunTool, SpawnChild
from agentrail.core.session.asked_forms import summary_of
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import SessionState
from agentrail.events import (
    PromptQueued,
    PromptReceived,
    ResponseComplete,
    ToolExecutionEnd,
    ToolKilled,
    ToolTookEffect,
)
from agentrail.messages import CallId, PromptRef, Text
from agentrail.structs import Value

CallClass: TypeAlias = Literal["once", "reconcilable", "idempotent", "pure", "session"]
"""What a tool promises about being run twice; `session` of a call that another session worked for."""

OutcomeBehind: TypeAlias = Literal["running", "done", "failed", "unknown"]
"""How a call ended: it has not; with a result; with an error, which says nothing of what it did before; or it was stopped at work, and
no one knows what it did."""


class CallBehind(Value, frozen=True, kw_only=True):
    """A call that began behind the record to which a session goes back: what it did outside stays done.

    Attributes:
        number: Of the record that let it begin.
        call_id: Which call.
        name: Its tool.
        effect_class: What that promises about being run twice.
        outcome: How it ended by the last record.
        summary: What it was about: its command line, or its arguments; at most 200 characters.
    """

    number: int
    call_id: CallId
    name: str
    effect_class: CallClass
    outcome: OutcomeBehind = "running"
    summary: str = ""


def calls_behind(steps: Iterable[Walked]) -> tuple[CallBehind, ...]:
    """Name the calls that may have changed something outside which is not taken back: those that are not harmless to run twice."""
    found: dict[CallId, CallBehind] = {}
    for walked in steps:
        for effect in walked.effects:
            kind: CallClass
            if isinstance(effect, RunTool):
                one = _call_of(walked.after, effect.call_id)
                kind = one.spec.effect_class if one is not None and one.spec is not None else "once"
            elif isinstance(effect, SpawnChild):
                kind = "session"
            else:
                _note_end(found, effect)
                continue
            if kind not in _HARMLESS and effect.call_id not in found:
                found[effect.call_id] = CallBehind(
                    number=walked.record.seq,
                    call_id=effect.call_id,
                    name=effect.name,
                    effect_class=kind,
                    summary=summary_of(effect.arguments),
                )
    return tuple(found.values())


def _note_end(found: dict[CallId, CallBehind], effect: Effect) -> None:
    """Note how a call ended; of one that was stopped at work the result comes behind, and does not say what it did."""
    match effect:
        case Publish(event=ToolKilled(call_id=call_id)):
            outcome: OutcomeBehind = "unknown"
        case Publish(event=ToolExecutionEnd(call_id=call_id, result=result)):
            lost = result.text.startswith("[Outcome unknown")
            outcome = "unknown" if lost else "failed" if result.is_error else "done"
        case Publish(event=ToolTookEffect(call_id=call_id, result=result)):
            outcome = "failed" if result.is_error else "done"
        case _:
            return
    known = found.get(call_id)
    is_late = isinstance(effect.event, ToolTookEffect)
    # A stopped call is answered with an error, which says nothing of what it did; its own late value does.
    if known is not None and (known.outcome == "running" or (is_late and known.outcome == "unknown")):
        found[call_id] = msgspec.structs.replace(known, outcome=outcome)


class PastTurn(Value, frozen=True, kw_only=True):
    """A turn that is over: where a session can be gone back to, and a fork can begin.

    Attributes:
        number: Counted from 1 over all cycles of the journal, also over those that do not count any more.
        record: Behind which record it is over.
        asked: The prompt of its cycle; empty where there was none. At most 200 characters, on one line, as `said`.
        said: What the model said in it; empty for no words, and for a turn that failed.
        counts: Whether the conversation as it stands has it; a session that went back to what was before it has it not.
    """

    number: int
    record: int
    asked: str = ""
    said: str = ""
    counts: bool = True


def turns_in(steps: Iterable[Walked]) -> Iterator[int]:
    """Give the number of the record behind which each turn is over; as of `past_turns`."""
    return (turn.record for turn in past_turns(steps))


def past_turns(steps: Iterable[Walked]) -> tuple[PastTurn, ...]:
    """Name the turns that are over, in order: the first turn of the first cycle comes first.

    A turn that is not over is not among them.
    """
    asked: dict[PromptRef, str] = {}
    found: list[PastTurn] = []
    standing = _Standing()
    running, said = _NO_TURN, ""
    for walked in steps:
        for effect in walked.effects:
            match effect:
                case Publish(event=PromptReceived(ref=ref, content=c) | PromptQueued(ref=ref, content=c)):
                    asked[ref] = _beginning_of("".join([one.text for one in c if isinstance(one, Text)]))
                case Publish(event=ResponseComplete(message=message)):
                    said = _beginning_of(message.text)
                case _:
                    pass
        now = _turn_of(walked.after)
        if running not in (now, _NO_TURN):
            prompt = "" if running[0] is None else asked.get(running[0], "")
            number, record = len(found) + 1, walked.record.seq
            found.append(PastTurn(number=number, record=record, asked=prompt, said=said))
            standing.end_turn(record)
            said = ""
        if (
            walked.record.kind == REWOUND
        ):  # behind the end of a turn that it cut off, which does not count then
            standing.go_back(walked.record)
        running = now
    counting = standing.turns()
    return tuple([turn if turn.number in counting else _without(turn) for turn in found])


class _Standing:
    """Which turns the conversation has, by record: going back takes some away, and going forth again brings them back."""

    def __init__(self) -> None:
        """Begin before the first turn."""
        self._before: list[int] = []
        self._records: list[int] = []
        self._last: list[int] = []

    def end_turn(self, record: int) -> None:
        """Note that one more turn is over."""
        self._before.append(self._last[-1] if self._last else 0)
        self._note(record, len(self._before))

    def go_back(self, record: Record) -> None:
        """Note that the session went back to what it was behind a record."""
        number = decode_rewound(record.body).number  # it was read already, as it was stepped
        place = bisect_right(self._records, number)
        self._note(record.seq, self._last[place - 1] if place else 0)

    def turns(self) -> frozenset[int]:
        """Give the numbers of those that it has now."""
        found = set()
        turn = self._last[-1] if self._last else 0
        while turn:
            found.add(turn)
            turn = self._before[turn - 1]
        return frozenset(found)

    def _note(self, record: int, last: int) -> None:
        self._records.append(record)
        self._last.append(last)


def _without(turn: PastTurn) -> PastTurn:
    return msgspec.structs.replace(turn, counts=False)


def _beginning_of(text: str) -> str:
    return " ".join(text[: 4 * _MAX_WORDS].split())[:_MAX_WORDS]


_MAX_WORDS = 200
_HARMLESS = frozenset({"pure", "idempotent"})
_NO_TURN: tuple[PromptRef | None, int] = (None, 0)


def _turn_of(state: SessionState) -> tuple[PromptRef | None, int]:
    cycle = state.data.cycle
    return _NO_TURN if cycle is None or cycle.turn == 0 else (cycle.ref, cycle.turn)


def _call_of(state: SessionState, call_id: CallId) -> CallState | None:
    data = state.data
    return next((one for one in (*data.batch, *data.survivors) if one.call.call_id == call_id), None)
