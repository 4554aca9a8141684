"""What is legal: phase × signal → take, postpone, drop, and the phases that may follow. Total, and the only place that says so.

The table speaks of phases and kinds; `verdict` narrows it by ids, because an outcome is only welcome from an effect that
is still open, and by whose that is (`AWAITED_BY`). What a signal that is taken means stands elsewhere, by the `TAKERS` of `machine.py`.

The diagram and the table in docs/reference/session.md are drawn from here.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from agentrail.core.protocol import signals
from agentrail.core.session import owners
from agentrail.core.session.state import Known, Phase, SessionState
from agentrail.core.session.step_context import is_ephemeral


class Verdict(enum.Enum):
    """What the table says about a signal. A missing cell is a bug, not a verdict."""

    TAKE = "take"
    """The machine decides what it means."""
    POSTPONE = "postpone"
    """Legal, not now: delivered again after the next change of phase."""
    DROP = "drop"
    """Legal and late: it is not waited for any more; counted, an ephemeral one by the shell and not here."""


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
    signals.GoOn:                  _row("IR",   "R",    "S",      "E"),  # not postponed: what it would answer is not known then
    signals.Steer:                 _row("IR",   "RI",   "S",      "ERI"),  # in idle it is a prompt, or wakes a cycle that is suspended
    signals.AbortCycle:            _row("IR",   "IR",   "IS",     "IRE"),  # IDLE too: that nothing was left to stop is an answer; of a prompt that waits, or has ended, nothing is stopped
    signals.AbortTool:             _row("IR",   "R",    "S",      "ERI"),  # a survivor can be meant in any phase
    signals.StopSession:           _row("I",    "I",    "I",      "I"),
    signals.ReplyQuery:            _row("I",    "R",    "S",      "E"),  # answered when the cycle is over; without one, at once
    signals.StatusQuery:           _row("I",    "R",    "S",      "E"),
    signals.MessagesQuery:         _row("I",    "R",    "S",      "E"),
    signals.SnapshotQuery:         _row("I",    "R",    "S",      "E"),
    signals.ReceiptQuery:          _row("I",    "R",    "S",      "E"),  # behind whatever the caller sent before it
    signals.Approve:               _row("IER",  "R",    "S",      "ERI"),  # a user who decides too late or too early hears which it was
    signals.Reject:                _row("IR",   "R",    "S",      "ERI"),  # as Approve
    signals.Respond:               _row("IR",   "R",    "S",      "ERI"),  # as Approve
    signals.Decline:               _row("IR",   "R",    "S",      "ERI"),  # as Approve
    signals.RevokeRule:            _row("I",    "R",    "S",      "E"),  # what was let run by the rule runs; the next call asks
    signals.AgentCommand:          _row("I",    "R",    "S",      "E"),  # agents outlive a cycle, and are asked beside one
    signals.AnswerCall:            _row("IR",   "R",    "S",      "ERI"),  # as Approve
    signals.ToolAsked:             _row("I",    "R",    "S",      "E"),  # a tool that asks too late hears that no answer will come
    signals.ToolWantsChild:        _row("I",    "R",    "S",      "E"),  # as ToolAsked; a survivor may ask in any phase
    signals.ChangeModel:           _row("I",    "R",    "S",      "E"),  # a request that is out keeps its model
    signals.ToolSourceReported:    _row("I",    "R",    "S",      "E"),  # whatever it is busy with, people hear of it
    signals.UpdatePluginOpts:      _row("I",    "R",    "S",      "E"),  # applied when the session is idle
    signals.ChangePlugins:         _row("I",    P,      P,        P),  # between two cycles only, so no hook of an old version runs after
    signals.ChangeTools:           _row("I",    "R",    "S",      "E"),  # calls under way keep their tools
    signals.Compact:               _row("IR",   "R",    "S",      "E"),  # now in idle, else before the next request
    signals.SessionBegan:          _row("I",    D,      D,        D),  # the first signal of a life, and there is one first
    signals.Restarted:             _row("IR",   "IR",   "IR",     "IRE"),  # whatever ran died with the old actor
    signals.Recovered:             _row("IRE",  "RI",   "SRI",    "ERI"),  # each open effect is decided; the third in a row changes nothing
    signals.Parked:                _row("I",    "I",    "I",      "I"),
    signals.StepCrashed:           _row("IRE",  "RI",   "SRI",    "ERI"),
    signals.BudgetLent:            _row("I",    "R",    "S",      "E"),  # between two cycles mostly, but the session may be prompted by others
    signals.PluginLagged:          _row("I",    "R",    "S",      "E"),
    signals.StreamStarted:         _row(D,      "RS",   D,        D),
    signals.ChunksArrived:         _row(D,      D,      "S",      D),
    signals.ResponseCompleted:     _row(D,      "REI",  "SERI",   D),  # RUNNING too: a response may come in one piece
    signals.StreamFailed:          _row(D,      "RI",   "SRI",    D),
    signals.ToolProgressed:        _row(D,      D,      D,        "E"),  # a survivor's progress belongs to no cycle any more
    signals.ChildStarted:          _row("I",    "R",    "S",      "E"),  # as ToolFinished: the call of a child may survive its cycle
    signals.ChildPublished:        _row("I",    "R",    "S",      "E"),
    signals.ToolEmitted:           _row(D,      D,      D,        "E"),  # as ToolProgressed
    signals.ToolAnsweredEarly:     _row(D,      D,      D,        "ERI"),  # as ToolProgressed: a survivor has its answer already
    signals.ToolFinished:          _row("IR",   "R",    "S",      "ERI"),  # everywhere: a call that survived an abort ends when it ends; IR: it may wake the session
    signals.HostJudged:            _row(D,      D,      D,        "ERI"),  # a call that waits for the host has a batch
    signals.HostTold:              _row("I",    "R",    "S",      "ERI"),  # as ToolFinished: an abort does not wait for it
    signals.AgentIdled:            _row("IR",   "R",    "S",      "ERI"),  # agents outlive a cycle; IR: one that wakes the session
    signals.AgentEnded:            _row("IR",   "R",    "S",      "ERI"),  # as AgentIdled
    signals.TimerFired:            _row("IRE",  "RI",   "SRI",    "ERI"),  # STREAMING too: a stream may fall silent
    signals.PluginRequestFinished: _row("IRE",  "RI",   "S",      "E"),  # plugins may ask at any time
    signals.ContextGathered:       _row(D,      "RI",   D,        D),  # a request waits for it, which may be more than is left to spend
    signals.TeardownFinished:      _row("IR",   "R",    "S",      "ERI"),  # behind an abort in idle; of calls that were stopped, anywhere
})
# fmt: on


def verdict(phase: Phase, data: Known, signal: signals.Signal) -> Verdict:
    """Read the table; an outcome that is not waited for is dropped, whatever the cell says."""
    cell = LEGALITY[type(signal)][phase].verdict
    if cell is T and isinstance(signal, signals.EffectOutcome) and not is_awaited(data, signal):
        return D
    return cell


def is_ephemeral_signal(signal: signals.Signal) -> bool:
    """Say whether a journal holds no record of a signal: what it says is over when it was said.

    Chunks are recorded where something comes of them; late ones bring nothing, and progress and what a child streams never do.
    So the state must not know of a late one, or a session that comes back from its journal would be another.
    """
    kind = type(signal)
    if kind is signals.ChildPublished:
        published: Any = signal
        return is_ephemeral(published.event)
    return kind is signals.ToolProgressed or kind is signals.ChunksArrived


def is_late_ephemeral(state: SessionState, signal: signals.Signal) -> bool:
    """Say whether a signal comes to nothing in this state and is not counted there: the shell does that."""
    return is_ephemeral_signal(signal) and not state.ended and verdict(state.phase, state.data, signal) is D


def is_awaited(data: Known, outcome: signals.EffectOutcome) -> bool:
    """Say whether this outcome is waited for: the effect is open, and what owns it is told such things."""
    return type(data.open.get(outcome.effect_id)) in AWAITED_BY[type(outcome)]


AWAITED_BY: Final[Mapping[type[signals.EffectOutcome], frozenset[type[owners.Owner]]]] = MappingProxyType(
    {
        signals.StreamStarted: frozenset({owners.OfStream}),
        signals.ChunksArrived: frozenset({owners.OfStream}),
        signals.ResponseCompleted: frozenset({owners.OfStream, owners.OfSummary}),
        signals.StreamFailed: frozenset({owners.OfStream, owners.OfSummary}),
        # What a call says that is answered already belongs to no cycle.
        signals.ToolProgressed: frozenset({owners.OfCall}),
        signals.ToolEmitted: frozenset({owners.OfCall}),
        signals.ToolAnsweredEarly: frozenset({owners.OfCall}),
        signals.ChildStarted: frozenset({owners.OfCall, owners.OfSurvivor, owners.OfChild, owners.OfAgent}),
        signals.ChildPublished: frozenset({owners.OfCall, owners.OfSurvivor, owners.OfChild, owners.OfAgent}),
        signals.AgentIdled: frozenset({owners.OfAgent}),
        signals.AgentEnded: frozenset({owners.OfAgent}),
        signals.ToolFinished: frozenset(
            {owners.OfCall, owners.OfSurvivor, owners.OfStoppedCall, owners.OfChild, owners.OfLoan}
        ),
        signals.HostJudged: frozenset({owners.OfHostCheck}),
        signals.HostTold: frozenset({owners.OfHostReport}),
        signals.TimerFired: frozenset(
            {
                owners.OfStallTimer,
                owners.OfPause,
                owners.OfSummaryTimer,
                owners.OfRetry,
                owners.OfInteraction,
                owners.OfAgentWait,
                owners.OfHoldTimer,
            }
        ),
        signals.PluginRequestFinished: frozenset(
            {owners.OfTranscript, owners.OfPluginRequest, owners.OfHeldHook}
        ),
        signals.ContextGathered: frozenset({owners.OfContext}),
        signals.TeardownFinished: frozenset({owners.OfDrain, owners.OfTeardown}),
    }
)
"""Whose effects an outcome may come from, by its class; from any other it is late, or a mistake of the shell."""
