"""What journals say about going back: where turns end, and what happened outside behind a record. Pure; steps come in."""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from agentrail.core.journal.folding import Walked
from agentrail.core.protocol.effects import Effect, Publish, RunTool, SpawnChild
from agentrail.core.session.asked_forms import summary_of
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import SessionState
from agentrail.events import ToolExecutionEnd, ToolKilled
from agentrail.messages import CallId, PromptRef
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
    """Name the calls that may have changed something outside which is not taken back: those that are not harmless to run twice.

    Args:
        steps: Of the records behind the number.

    Returns:
        Each call once, in the order in which they began.
    """
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
        case _:
            return
    known = found.get(call_id)
    if known is not None and known.outcome == "running":
        found[call_id] = msgspec.structs.replace(known, outcome=outcome)


def turns_in(steps: Iterable[Walked]) -> Iterator[int]:
    """Give the number of the record behind which each turn is over, in order: the first turn of the first cycle comes first.

    A turn that is not over has none.

    Args:
        steps: Of all records, from the first one on.
    """
    running = _NO_TURN
    for walked in steps:
        now = _turn_of(walked.after)
        if running not in (now, _NO_TURN):
            yield walked.record.seq
        running = now


_HARMLESS = frozenset({"pure", "idempotent"})
_NO_TURN: tuple[PromptRef | None, int] = (None, 0)


def _turn_of(state: SessionState) -> tuple[PromptRef | None, int]:
    cycle = state.data.cycle
    return _NO_TURN if cycle is None or cycle.turn == 0 else (cycle.ref, cycle.turn)


def _call_of(state: SessionState, call_id: CallId) -> CallState | None:
    data = state.data
    return next((one for one in (*data.batch, *data.survivors) if one.call.call_id == call_id), None)
