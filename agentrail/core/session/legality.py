"""What is legal: phase × signal → take, postpone, drop, and the phases that may follow. Total, and the only place that says so.

The table speaks of phases and kinds; `verdict` narrows it by ids, because an outcome is only welcome from an effect that
is still open, and by whose that is (`AWAITED_BY`). What a signal that is taken means stands elsewhere, by the `TAKERS` of `machine.py`.

The diagram and the table in docs/reference/session.md are drawn from here.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

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


_P, _D = Verdict.POSTPONE, Verdict.DROP
_Row: TypeAlias = Mapping[Phase, Cell]

_ALWAYS: Final = _row("I", "R", "S", "E")
"""Taken in every phase, and the phase stays."""
_GOES_ON: Final = _row("IR", "R", "S", "ERI")
"""Taken in every phase: it may wake a suspended cycle, or close the batch."""
_ANYTHING: Final = _row("IRE", "RI", "SRI", "ERI")
"""Taken in every phase, and may end it in any way."""
_OVER: Final = _row("I", "I", "I", "I")

# fmt: off
_CALLS: Final[Mapping[type[signals.Signal], _Row]] = {
    #                           IDLE   RUNNING STREAMING EXECUTING_TOOLS
    signals.Prompt:        _row("IRE", "R",    "S",      "E"),  # not postponed: the caller hears the position at once
    signals.GoOn:          _row("IR",  "R",    "S",      "E"),  # not postponed: what it would answer is not known then
    signals.Steer:         _row("IR",  "RI",   "S",      "ERI"),  # in idle it is a prompt, or wakes a cycle that is suspended
    signals.AbortCycle:    _row("IR",  "IR",   "IS",     "IRE"),  # the same phase too: that nothing was left to stop is an answer
    signals.AbortTool:     _GOES_ON,  # a survivor can be meant in any phase
    signals.StopSession:   _OVER,
    # Always: the answer is what the session knows, or a change that waits for nothing. Calls and requests under way keep what they have.
    **dict.fromkeys((
        signals.ReplyQuery, signals.StatusQuery, signals.MessagesQuery, signals.SnapshotQuery, signals.ReceiptQuery,
        signals.RevokeRule, signals.AgentCommand, signals.ToolAsked, signals.ToolWantsChild, signals.ToolSourceReported,
        signals.ChangeModel, signals.ChangeTools, signals.UpdatePluginOpts, signals.BudgetLent, signals.PluginLagged,
    ), _ALWAYS),
    signals.ChangePlugins: _row("I",   _P,     _P,       _P),  # always, but waits for idle, so no hook of an old version runs after
    signals.Compact:       _row("IR",  "R",    "S",      "E"),  # now in idle, else before the next request
    # A user who decides too late or too early hears which it was.
    signals.Approve:       _row("IER", "R",    "S",      "ERI"),
    **dict.fromkeys((signals.Reject, signals.Respond, signals.Decline, signals.AnswerCall), _GOES_ON),
    # The life of the session.
    signals.SessionBegan:  _row("I",   _D,     _D,       _D),  # the first signal of a life, and there is one first
    signals.Restarted:     _row("IR",  "IR",   "IR",     "IRE"),  # whatever ran died with the old actor
    signals.Recovered:     _ANYTHING,  # each open effect is decided; the third in a row changes nothing
    signals.StepCrashed:   _ANYTHING,
    signals.Parked:        _OVER,
}
_OUTCOMES: Final[Mapping[type[Any], tuple[_Row, tuple[type[owners.Owner], ...]]]] = {
    # Of a request: an answer may come in one piece, so RUNNING takes it too.
    signals.StreamStarted:     (_row(_D, "RS",  _D,     _D), (owners.OfStream,)),
    signals.ChunksArrived:     (_row(_D, _D,    "S",    _D), (owners.OfStream,)),
    signals.ResponseCompleted: (_row(_D, "REI", "SERI", _D), (owners.OfStream, owners.OfSummary)),
    signals.StreamFailed:      (_row(_D, "RI",  "SRI",  _D), (owners.OfStream, owners.OfSummary)),
    signals.ContextGathered:   (_row(_D, "RI",  _D,     _D), (owners.OfContext,)),  # it may be more than is left to spend
    # Of a call: what a survivor says belongs to no cycle any more, but it ends when it ends, and may wake the session.
    signals.ToolProgressed:    (_row(_D, _D,    _D,     "E"), (owners.OfCall,)),
    signals.ToolEmitted:       (_row(_D, _D,    _D,     "E"), (owners.OfCall,)),
    signals.ToolAnsweredEarly: (_row(_D, _D,    _D,     "ERI"), (owners.OfCall,)),
    signals.ToolFinished:      (_GOES_ON, (owners.OfCall, owners.OfSurvivor, owners.OfStoppedCall, owners.OfChild, owners.OfLoan)),
    signals.HostJudged:        (_row(_D, _D,    _D,     "ERI"), (owners.OfHostCheck,)),  # a call that waits for the host has a batch
    signals.HostTold:          (_row("I", "R",  "S",    "ERI"), (owners.OfHostReport,)),  # an abort does not wait for it
    # Of a child or an agent, which outlive a cycle.
    signals.ChildStarted:      (_ALWAYS, (owners.OfCall, owners.OfSurvivor, owners.OfChild, owners.OfAgent)),
    signals.ChildPublished:    (_ALWAYS, (owners.OfCall, owners.OfSurvivor, owners.OfChild, owners.OfAgent)),
    signals.AgentIdled:        (_GOES_ON, (owners.OfAgent,)),
    signals.AgentEnded:        (_GOES_ON, (owners.OfAgent,)),
    # Of plugins, which may ask at any time; of timers; of a teardown: after an abort in idle, of calls that were stopped anywhere.
    signals.PluginRequestFinished: (_row("IRE", "RI", "S", "E"), (owners.OfTranscript, owners.OfPluginRequest, owners.OfHeldHook)),
    signals.TimerFired:        (_ANYTHING, (
        owners.OfStallTimer, owners.OfPause, owners.OfSummaryTimer, owners.OfRetry,
        owners.OfInteraction, owners.OfAgentWait, owners.OfHoldTimer,
    )),
    signals.TeardownFinished:  (_GOES_ON, (owners.OfDrain, owners.OfTeardown)),
}
# fmt: on
LEGALITY: Final[Mapping[type[signals.Signal], _Row]] = MappingProxyType(
    {**_CALLS, **{kind: row for kind, (row, _) in _OUTCOMES.items()}}
)
AWAITED_BY: Final[Mapping[type[signals.EffectOutcome], frozenset[type[owners.Owner]]]] = MappingProxyType(
    {kind: frozenset(whose) for kind, (_, whose) in _OUTCOMES.items()}
)
"""Whose effects an outcome may come from, by its class; from any other it is late, or a mistake of the shell."""


def verdict(phase: Phase, data: Known, signal: signals.Signal) -> Verdict:
    """Read the table; an outcome that is not waited for is dropped, whatever the cell says."""
    cell = LEGALITY[type(signal)][phase].verdict
    if cell is Verdict.TAKE and isinstance(signal, signals.EffectOutcome):
        is_awaited = type(data.open.get(signal.effect_id)) in AWAITED_BY[type(signal)]
        return cell if is_awaited else _D
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
    return is_ephemeral_signal(signal) and not state.ended and verdict(state.phase, state.data, signal) is _D
