"""What is legal: phase × signal → take, postpone, drop, and the phases that may follow. Total, and the only place that says so.

The table speaks of phases and kinds; `verdict` narrows it by ids, because an outcome is only welcome from an effect that
is still open. What a signal that is taken means stands elsewhere, by the `TAKERS` of `machine.py`.

The diagram and the table in docs/reference/session.md are drawn from here.
"""

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from agentrail.core.compacting import is_timer
from agentrail.core.effects import look_of
from agentrail.core.open_calls import CallState, Stage
from agentrail.core.request import EffectId
from agentrail.core.signals import (
    Abort,
    AbortTool,
    Approve,
    ChangePlugins,
    ChangeTools,
    ChildPublished,
    ChildStarted,
    ChunksArrived,
    Compact,
    ErrandFinished,
    MessagesQuery,
    Outcome,
    Parked,
    PluginLagged,
    Prompt,
    Reject,
    ReplyQuery,
    Respond,
    ResponseCompleted,
    Restarted,
    Signal,
    SnapshotQuery,
    Started,
    StatusQuery,
    Steer,
    StepCrashed,
    Stop,
    StreamFailed,
    StreamStarted,
    SwitchModel,
    TeardownFinished,
    TimerFired,
    ToolAsked,
    ToolEmitted,
    ToolFinished,
    ToolProgressed,
    ToolWantsChild,
    UpdatePluginOpts,
)
from agentrail.core.state import Known, Phase, Stream


class Verdict(enum.Enum):
    """What the table says about a signal. A missing cell is a bug, not a verdict."""

    TAKE = "take"
    """The machine decides what it means."""
    POSTPONE = "postpone"
    """Legal, not now: delivered again after the next change of phase."""
    DROP = "drop"
    """Legal and late: nobody waits for it; counted."""


class Cell(msgspec.Struct, frozen=True, gc=False):
    """What the table says about a signal in a phase.

    Attributes:
        verdict: Whether it is welcome.
        followed_by: Where its step may leave the session, with all that follows in it: the phases that are possible at all.
    """

    verdict: Verdict
    followed_by: frozenset[Phase]


_INITIALS: Final[Mapping[str, Phase]] = MappingProxyType({phase.name[0]: phase for phase in Phase})


def _row(*cells: str | Verdict) -> Mapping[Phase, Cell]:
    """Read a row: a signal that is taken is written as the initials of the phases that may follow; else none follows."""
    return MappingProxyType(
        {
            phase: Cell(Verdict.TAKE, frozenset(_INITIALS[initial] for initial in cell))
            if isinstance(cell, str)
            else Cell(cell, frozenset({phase}))
            for phase, cell in zip(Phase, cells, strict=True)  # strict: a missing cell fails at import
        }
    )


T, P, D = Verdict.TAKE, Verdict.POSTPONE, Verdict.DROP
# fmt: off
LEGALITY: Final[Mapping[type[Signal], Mapping[Phase, Cell]]] = MappingProxyType({
    #                       IDLE    RUNNING STREAMING EXECUTING_TOOLS
    Prompt:            _row("IRE",  "R",    "S",      "E"),  # not postponed: whoever prompts hears the position at once
    Steer:             _row("IR",   "RI",   "S",      "ERI"),  # in idle it is a prompt, or wakes a cycle that is suspended
    Abort:             _row("IR",   "IR",   "I",      "IR"),  # IDLE too: that nothing was left to stop is an answer
    AbortTool:         _row("IR",   "R",    "S",      "ERI"),  # a survivor can be meant in any phase
    Stop:              _row("I",    "I",    "I",      "I"),
    ReplyQuery:        _row("I",    "R",    "S",      "E"),  # answered when the cycle is over; without one, at once
    StatusQuery:       _row("I",    "R",    "S",      "E"),
    MessagesQuery:     _row("I",    "R",    "S",      "E"),
    SnapshotQuery:     _row("I",    "R",    "S",      "E"),
    Approve:           _row("IER",  "R",    "S",      "ERI"),  # whoever decides too late or too early hears which it was
    Reject:            _row("IR",   "R",    "S",      "ERI"),  # as Approve
    Respond:           _row("IR",   "R",    "S",      "ERI"),  # as Approve
    ToolAsked:         _row("I",    "R",    "S",      "E"),  # whoever asks too late hears that nobody will answer
    ToolWantsChild:    _row("I",    "R",    "S",      "E"),  # as ToolAsked; a survivor may ask in any phase
    SwitchModel:       _row("I",    "R",    "S",      "E"),  # a request that is out keeps its model
    UpdatePluginOpts:  _row("I",    "R",    "S",      "E"),  # applied when the session is idle
    ChangePlugins:     _row("I",    P,      P,        P),  # between two cycles only, so no hook of an old version runs after
    ChangeTools:       _row("I",    "R",    "S",      "E"),  # calls under way keep their tools
    Compact:           _row("IR",   "R",    "S",      "E"),  # now in idle, else before the next request
    Started:           _row("I",    D,      D,        D),  # the first signal of a life, and there is one first
    Restarted:         _row("IR",   "IR",   "IR",     "IR"),  # whatever ran died with the old actor
    Parked:            _row("I",    "I",    "I",      "I"),
    StepCrashed:       _row("IRE",  "RI",   "SRI",    "ERI"),
    PluginLagged:      _row("I",    "R",    "S",      "E"),
    StreamStarted:     _row(D,      "RS",   D,        D),
    ChunksArrived:     _row(D,      D,      "S",      D),
    ResponseCompleted: _row(D,      "REI",  "SERI",   D),  # RUNNING too: a response may come in one piece
    StreamFailed:      _row(D,      "RI",   "SRI",    D),
    ToolProgressed:    _row(D,      D,      D,        "E"),  # a survivor's progress belongs to no cycle any more
    ChildStarted:      _row("I",    "R",    "S",      "E"),  # as ToolFinished: the call of a child may survive its cycle
    ChildPublished:    _row("I",    "R",    "S",      "E"),
    ToolEmitted:       _row(D,      D,      D,        "E"),  # as ToolProgressed
    ToolFinished:      _row("I",    "R",    "S",      "ERI"),  # everywhere: a call that survived an abort ends when it ends
    TimerFired:        _row("IRE",  "RI",   "SRI",    "ERI"),  # STREAMING too: whoever streams may fall silent
    ErrandFinished:    _row("IRE",  "RI",   "S",      "E"),  # plugins may ask at any time
    TeardownFinished:  _row("IR",   "R",    "S",      "ERI"),  # behind an abort in idle; of calls that were stopped, anywhere
})
# fmt: on


def verdict(phase: Phase, data: Known, signal: Signal) -> Verdict:
    """Read the table; an outcome that nobody waits for is dropped, whatever the cell says."""
    cell = LEGALITY[type(signal)][phase].verdict
    if cell is T and isinstance(signal, Outcome) and not is_awaited(data, signal):
        return D
    return cell


def is_awaited(data: Known, outcome: Outcome) -> bool:
    """Say whether the effect that this came from is still open."""
    return _AWAITED[type(outcome)](data, outcome.effect_id)


def _is_call_running(data: Known, effect_id: EffectId) -> bool:
    return _stands(data.batch.waiting_for(effect_id), _RUNNING)


def _is_child_running(data: Known, effect_id: EffectId) -> bool:
    attempt = data.loans.get(effect_id)
    if attempt is None:
        return False
    return _is_call_running(data, attempt) or _is_in(data.survivors, attempt, _RUNNING)


def _is_call_out(data: Known, effect_id: EffectId) -> bool:
    return (
        _stands(data.batch.waiting_for(effect_id), _NOT_ENDED)
        or _is_in(data.survivors, effect_id, _NOT_ENDED)
        or effect_id
        in data.loans  # of a tool, or answered long ago, but what the child used is to be counted
    )


def _is_teardown(data: Known, effect_id: EffectId) -> bool:
    return effect_id in data.drains or (data.teardown is not None and data.teardown.effect_id == effect_id)


def _is_errand(data: Known, effect_id: EffectId) -> bool:
    return _is_of_compaction(data, effect_id) or any(one.effect_id == effect_id for one in data.errands)


def _is_timer(data: Known, effect_id: EffectId) -> bool:
    return (
        (data.compaction is not None and is_timer(data.compaction, effect_id))
        or (data.stream is not None and _timer_of(data.stream) == effect_id)
        or any(interaction.timer == effect_id for interaction in data.interactions)
        or (data.held is not None and data.held.timer == effect_id)
        or _stands(data.batch.waiting_for(effect_id), _PAUSING)
    )


def _is_streaming(data: Known, effect_id: EffectId) -> bool:
    stream = data.stream
    return stream is not None and stream.effect_id == effect_id and not stream.pausing


def _is_request(data: Known, effect_id: EffectId) -> bool:
    return _is_streaming(data, effect_id) or _is_of_compaction(data, effect_id)


_AWAITED: Final[Mapping[type[Outcome], Callable[[Known, EffectId], bool]]] = MappingProxyType(
    {
        StreamStarted: _is_streaming,
        ChunksArrived: _is_streaming,
        ResponseCompleted: _is_request,
        StreamFailed: _is_request,
        ToolProgressed: _is_call_running,
        ToolEmitted: _is_call_running,
        ChildStarted: _is_child_running,
        ChildPublished: _is_child_running,
        ToolFinished: _is_call_out,
        TimerFired: _is_timer,
        ErrandFinished: _is_errand,
        TeardownFinished: _is_teardown,
    }
)
"""Whether the effect that an outcome came from is still open, by the class of the outcome."""


def _timer_of(stream: Stream) -> EffectId:
    return stream.effect_id if stream.pausing else look_of(stream.effect_id)


_RUNNING: Final[frozenset[Stage]] = frozenset({"running"})
_NOT_ENDED: Final[frozenset[Stage]] = frozenset({"running", "stopping"})
_PAUSING: Final[frozenset[Stage]] = frozenset({"pausing"})


def _is_of_compaction(data: Known, effect_id: EffectId) -> bool:
    return data.compaction is not None and data.compaction.effect_id == effect_id


def _stands(call: CallState | None, stages: frozenset[Stage]) -> bool:
    return call is not None and call.stage in stages


def _is_in(calls: tuple[CallState, ...], effect_id: EffectId, stages: frozenset[Stage]) -> bool:
    return any(call.effect_id == effect_id and call.stage in stages for call in calls)
