"""What is legal: phase × signal → take, postpone, drop, and the phases that may follow. Total, and the only place that says so.

The table speaks of phases and kinds; `verdict` narrows it by ids, because an outcome is only welcome from an effect that
is still open, and by whose that is (`AWAITED_BY`). What a signal that is taken means stands elsewhere, by the `TAKERS` of `machine.py`.

The diagram and the table in docs/reference/session.md are drawn from here.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from agentrail.core.protocol import signals
from agentrail.core.session.owners import (
    OfCall,
    OfChild,
    OfDrain,
    OfHeldHook,
    OfHoldTimer,
    OfInteraction,
    OfLoan,
    OfPause,
    OfPluginRequest,
    OfRetry,
    OfStallTimer,
    OfStoppedCall,
    OfStream,
    OfSummary,
    OfSummaryTimer,
    OfSurvivor,
    OfTeardown,
    OfTranscript,
    Owner,
)
from agentrail.core.session.state import Known, Phase


class Verdict(enum.Enum):
    """What the table says about a signal. A missing cell is a bug, not a verdict."""

    TAKE = "take"
    """The machine decides what it means."""
    POSTPONE = "postpone"
    """Legal, not now: delivered again after the next change of phase."""
    DROP = "drop"
    """Legal and late: it is not waited for any more; counted."""


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
LEGALITY: Final[Mapping[type[signals.Signal], Mapping[Phase, Cell]]] = MappingProxyType({
    #                                   IDLE    RUNNING STREAMING EXECUTING_TOOLS
    signals.Prompt:                _row("IRE",  "R",    "S",      "E"),  # not postponed: the caller hears the position at once
    signals.Steer:                 _row("IR",   "RI",   "S",      "ERI"),  # in idle it is a prompt, or wakes a cycle that is suspended
    signals.AbortCycle:            _row("IR",   "IR",   "I",      "IR"),  # IDLE too: that nothing was left to stop is an answer
    signals.AbortTool:             _row("IR",   "R",    "S",      "ERI"),  # a survivor can be meant in any phase
    signals.StopSession:           _row("I",    "I",    "I",      "I"),
    signals.ReplyQuery:            _row("I",    "R",    "S",      "E"),  # answered when the cycle is over; without one, at once
    signals.StatusQuery:           _row("I",    "R",    "S",      "E"),
    signals.MessagesQuery:         _row("I",    "R",    "S",      "E"),
    signals.SnapshotQuery:         _row("I",    "R",    "S",      "E"),
    signals.Approve:               _row("IER",  "R",    "S",      "ERI"),  # a user who decides too late or too early hears which it was
    signals.Reject:                _row("IR",   "R",    "S",      "ERI"),  # as Approve
    signals.Respond:               _row("IR",   "R",    "S",      "ERI"),  # as Approve
    signals.ToolAsked:             _row("I",    "R",    "S",      "E"),  # a tool that asks too late hears that no answer will come
    signals.ToolWantsChild:        _row("I",    "R",    "S",      "E"),  # as ToolAsked; a survivor may ask in any phase
    signals.ChangeModel:           _row("I",    "R",    "S",      "E"),  # a request that is out keeps its model
    signals.UpdatePluginOpts:      _row("I",    "R",    "S",      "E"),  # applied when the session is idle
    signals.ChangePlugins:         _row("I",    P,      P,        P),  # between two cycles only, so no hook of an old version runs after
    signals.ChangeTools:           _row("I",    "R",    "S",      "E"),  # calls under way keep their tools
    signals.Compact:               _row("IR",   "R",    "S",      "E"),  # now in idle, else before the next request
    signals.SessionBegan:          _row("I",    D,      D,        D),  # the first signal of a life, and there is one first
    signals.Restarted:             _row("IR",   "IR",   "IR",     "IR"),  # whatever ran died with the old actor
    signals.Parked:                _row("I",    "I",    "I",      "I"),
    signals.StepCrashed:           _row("IRE",  "RI",   "SRI",    "ERI"),
    signals.PluginLagged:          _row("I",    "R",    "S",      "E"),
    signals.StreamStarted:         _row(D,      "RS",   D,        D),
    signals.ChunksArrived:         _row(D,      D,      "S",      D),
    signals.ResponseCompleted:     _row(D,      "REI",  "SERI",   D),  # RUNNING too: a response may come in one piece
    signals.StreamFailed:          _row(D,      "RI",   "SRI",    D),
    signals.ToolProgressed:        _row(D,      D,      D,        "E"),  # a survivor's progress belongs to no cycle any more
    signals.ChildStarted:          _row("I",    "R",    "S",      "E"),  # as ToolFinished: the call of a child may survive its cycle
    signals.ChildPublished:        _row("I",    "R",    "S",      "E"),
    signals.ToolEmitted:           _row(D,      D,      D,        "E"),  # as ToolProgressed
    signals.ToolFinished:          _row("I",    "R",    "S",      "ERI"),  # everywhere: a call that survived an abort ends when it ends
    signals.TimerFired:            _row("IRE",  "RI",   "SRI",    "ERI"),  # STREAMING too: a stream may fall silent
    signals.PluginRequestFinished: _row("IRE",  "RI",   "S",      "E"),  # plugins may ask at any time
    signals.TeardownFinished:      _row("IR",   "R",    "S",      "ERI"),  # behind an abort in idle; of calls that were stopped, anywhere
})
# fmt: on


def verdict(phase: Phase, data: Known, signal: signals.Signal) -> Verdict:
    """Read the table; an outcome that is not waited for is dropped, whatever the cell says."""
    cell = LEGALITY[type(signal)][phase].verdict
    if cell is T and isinstance(signal, signals.EffectOutcome) and not is_awaited(data, signal):
        return D
    return cell


def is_awaited(data: Known, outcome: signals.EffectOutcome) -> bool:
    """Say whether this outcome is waited for: the effect is open, and what owns it is told such things."""
    return type(data.open.get(outcome.effect_id)) in AWAITED_BY[type(outcome)]


AWAITED_BY: Final[Mapping[type[signals.EffectOutcome], frozenset[type[Owner]]]] = MappingProxyType(
    {
        signals.StreamStarted: frozenset({OfStream}),
        signals.ChunksArrived: frozenset({OfStream}),
        signals.ResponseCompleted: frozenset({OfStream, OfSummary}),
        signals.StreamFailed: frozenset({OfStream, OfSummary}),
        # What a call says that is answered already belongs to no cycle.
        signals.ToolProgressed: frozenset({OfCall}),
        signals.ToolEmitted: frozenset({OfCall}),
        signals.ChildStarted: frozenset({OfCall, OfSurvivor, OfChild}),
        signals.ChildPublished: frozenset({OfCall, OfSurvivor, OfChild}),
        signals.ToolFinished: frozenset({OfCall, OfSurvivor, OfStoppedCall, OfChild, OfLoan}),
        signals.TimerFired: frozenset(
            {OfStallTimer, OfPause, OfSummaryTimer, OfRetry, OfInteraction, OfHoldTimer}
        ),
        signals.PluginRequestFinished: frozenset({OfTranscript, OfPluginRequest, OfHeldHook}),
        signals.TeardownFinished: frozenset({OfDrain, OfTeardown}),
    }
)
"""Whose effects an outcome may come from, by its class; from any other it is late, or a mistake of the shell."""
