"""Facts for going back in a journal: the ends of turns, and external effects after a record. Pure, from replayed steps."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec.structs import replace

from agentrail.core.journal.fold import Walked
from agentrail.core.journal.record import REWOUND, Record, decode_rewound
from agentrail.core.protocol.effects import Effect, Publish, RunTool, SpawnChild
from agentrail.core.session.approval_details import summary_of
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
"""Effect class of a call's tool, or `session` for a call answered by a child session."""

OutcomeBehind: TypeAlias = Literal["running", "done", "failed", "unknown"]
"""Outcome of a call: still running, a result, an error (earlier effects unknown), or stopped with unknown effects."""


class CallBehind(Value, frozen=True, kw_only=True):
    """A call that began after the record to which a session goes back. Its external effects are not undone.

    Attributes:
        number: Number of the record that started it.
        call_id: The call.
        name: Its tool.
        effect_class: Effect class of the tool.
        outcome: How it ended by the last record.
        summary: Its command line, or its arguments, at most 200 characters.
    """

    number: int
    call_id: CallId
    name: str
    effect_class: CallClass
    outcome: OutcomeBehind = "running"
    summary: str = ""


def calls_behind(steps: Iterable[Walked]) -> tuple[CallBehind, ...]:
    """Return the calls that may have had external effects: those whose tools are not harmless to run twice."""
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
    """Record the end of a call. The result of a call stopped while running comes later, and does not report its effects."""
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
    # A stopped call is answered with an error, which does not report its effects. Its own late value does.
    if known is not None and (known.outcome == "running" or (is_late and known.outcome == "unknown")):
        found[call_id] = replace(known, outcome=outcome)


class PastTurn(Value, frozen=True, kw_only=True):
    """A finished turn: a session can go back to its end, and a fork can start there.

    Attributes:
        number: Counted from 1 over all cycles of the journal, including those that no longer count.
        record: The record after which it is over.
        asked: The prompt of its cycle. Empty if there was none. At most 200 characters, on one line, same as `said`.
        said: The model's text. Empty for no text, and for a turn that failed.
        counts: Whether the current conversation includes it. A session that went back to before it does not.
    """

    number: int
    record: int
    asked: str = ""
    said: str = ""
    counts: bool = True


def past_turns(steps: Iterable[Walked]) -> tuple[PastTurn, ...]:
    """Return the finished turns, in order: the first turn of the first cycle comes first.

    A turn that is not over is left out.
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
        if walked.record.kind == REWOUND:
            # After the end of a turn that it cut off, which then does not count.
            standing.go_back(walked.record)
        running = now
    counting = standing.turns()
    return tuple([turn if turn.number in counting else replace(turn, counts=False) for turn in found])


class _Standing:
    """The turns of the conversation, by record: a rewind removes some, and another one can restore them."""

    def __init__(self) -> None:
        self._before: list[int] = []
        self._records: list[int] = []
        self._last: list[int] = []

    def end_turn(self, record: int) -> None:
        self._before.append(self._last[-1] if self._last else 0)
        self._note(record, len(self._before))

    def go_back(self, record: Record) -> None:
        """Record that the session went back to its state after a record."""
        number = decode_rewound(record.body).number  # it was decoded before, when it was stepped
        place = bisect_right(self._records, number)
        self._note(record.seq, self._last[place - 1] if place else 0)

    def turns(self) -> frozenset[int]:
        found = set()
        turn = self._last[-1] if self._last else 0
        while turn:
            found.add(turn)
            turn = self._before[turn - 1]
        return frozenset(found)

    def _note(self, record: int, last: int) -> None:
        self._records.append(record)
        self._last.append(last)


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
