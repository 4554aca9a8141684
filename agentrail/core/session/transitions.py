"""The transition table of a session: for each phase and signal, the verdict and the possible next phases.

The table is total.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from agentrail.core.protocol import signals
from agentrail.core.session import effect_owners
from agentrail.core.session.state import Known, Phase, SessionState
from agentrail.core.session.step_context import is_ephemeral


class Verdict(enum.Enum):
    """Whether a signal is accepted in a phase. A missing cell is a bug, not a verdict."""

    TAKE = "take"
    """Call the signal's handler."""
    POSTPONE = "postpone"
    """Accepted, but later: delivered again after the next change of phase."""
    DROP = "drop"
    """Too late. Counted here, or by the shell if the signal is ephemeral."""


class Cell(msgspec.Struct, frozen=True, gc=False):
    """One entry of the table."""

    verdict: Verdict
    followed_by: frozenset[Phase]


_INITIALS: Final[Mapping[str, Phase]] = MappingProxyType({phase.name[0]: phase for phase in Phase})


def _row(*cells: str | Verdict) -> Mapping[Phase, Cell]:
    """Parse a row. A string accepts the signal and lists the initials of the next phases."""
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
"""Accepted in every phase. The phase stays the same."""
_GOES_ON: Final = _row("IR", "R", "S", "ERI")
"""Accepted in every phase. The signal may resume a suspended cycle or complete the batch."""
_ANYTHING: Final = _row("IRE", "RI", "SRI", "ERI")
"""Accepted in every phase. The signal may end the phase in any way."""
_OVER: Final = _row("I", "I", "I", "I")

# fmt: off
_CALLS: Final[Mapping[type[signals.Signal], _Row]] = {
    #                           IDLE   RUNNING STREAMING EXECUTING_TOOLS
    signals.Prompt:        _row("IRE", "R",    "S",      "E"),  # not postponed: the caller gets its position at once
    signals.GoOn:          _row("IR",  "R",    "S",      "E"),  # not postponed: the end of the conversation is not known yet
    signals.Steer:         _row("IR",  "RI",   "S",      "ERI"),  # in idle it becomes a prompt, or resumes a suspended cycle
    signals.AbortCycle:    _row("IR",  "IR",   "IS",     "IRE"),  # IDLE may stay IDLE: the caller still gets a receipt
    signals.AbortTool:     _GOES_ON,  # a surviving call can be aborted in any phase
    signals.StopSession:   _OVER,
    # In every phase: the answer is in the session's state, or the change waits for nothing. Running calls and
    # requests keep their settings.
    **dict.fromkeys((
        signals.ReplyQuery, signals.StatusQuery, signals.MessagesQuery, signals.SnapshotQuery, signals.ReceiptQuery,
        signals.RevokeRule, signals.AgentCommand, signals.ToolAsked, signals.ToolWantsChild, signals.ToolSourceReported,
        signals.ChangeModel, signals.ChangeTools, signals.UpdatePluginOpts, signals.BudgetLent, signals.PluginLagged,
    ), _ALWAYS),
    signals.ChangePlugins: _row("I",   _P,     _P,       _P),  # postponed until idle, so that no hook of an old version runs later
    signals.Compact:       _row("IR",  "R",    "S",      "E"),  # at once in idle, otherwise before the next request
    # A decision that comes too late or too early is refused with the reason.
    # Approved calls run, and so does a call whose tool gave it a question to wait for.
    **dict.fromkeys((signals.Approve, signals.Respond, signals.Decline), _row("IER", "R", "S", "ERI")),
    **dict.fromkeys((signals.Reject, signals.AnswerCall), _GOES_ON),
    # Lifecycle of the session.
    signals.SessionBegan:  _row("I",   _D,     _D,       _D),  # the first signal of an incarnation, and sent exactly once
    signals.Restarted:     _row("IR",  "IR",   "IR",     "IRE"),  # running work died with the old actor
    signals.Recovered:     _ANYTHING,  # every open effect is decided, the third in a row changes nothing
    signals.StepCrashed:   _ANYTHING,
    signals.Parked:        _OVER,
}
_OUTCOMES: Final[Mapping[type[Any], tuple[_Row, tuple[type[effect_owners.Owner], ...]]]] = {
    # Of a request. The whole answer may arrive at once, so RUNNING accepts it too.
    signals.StreamStarted:     (_row(_D, "RS",  _D,     _D), (effect_owners.OfStream,)),
    signals.ChunksArrived:     (_row(_D, _D,    "S",    _D), (effect_owners.OfStream,)),
    signals.ResponseCompleted: (_row(_D, "REI", "SERI", _D), (effect_owners.OfStream, effect_owners.OfSummary)),
    signals.StreamFailed:      (_row(_D, "RI",  "SRI",  _D), (effect_owners.OfStream, effect_owners.OfSummary)),
    signals.ContextGathered:   (_row(_D, "RI",  _D,     _D), (effect_owners.OfContext,)),  # it may exceed the remaining budget
    # Of a call. Output of a survivor belongs to no cycle, but its end counts, and may wake the session.
    signals.ToolProgressed:    (_row(_D, _D,    _D,     "E"), (effect_owners.OfCall,)),
    signals.ToolEmitted:       (_row(_D, _D,    _D,     "E"), (effect_owners.OfCall,)),
    signals.ToolAnsweredEarly: (_row(_D, _D,    _D,     "ERI"), (effect_owners.OfCall,)),
    signals.ToolFinished:      (_GOES_ON, (effect_owners.OfCall, effect_owners.OfSurvivor, effect_owners.OfStoppedCall, effect_owners.OfChild, effect_owners.OfLoan)),
    signals.HostJudged:        (_row(_D, _D,    _D,     "ERI"), (effect_owners.OfHostCheck,)),  # a call that waits for the host has a batch
    signals.HostTold:          (_row("I", "R",  "S",    "ERI"), (effect_owners.OfHostReport,)),  # an abort does not wait for it
    # Of a child or an agent. Both can outlive a cycle.
    signals.ChildStarted:      (_ALWAYS, (effect_owners.OfCall, effect_owners.OfSurvivor, effect_owners.OfChild, effect_owners.OfAgent)),
    signals.ChildPublished:    (_ALWAYS, (effect_owners.OfCall, effect_owners.OfSurvivor, effect_owners.OfChild, effect_owners.OfAgent)),
    signals.AgentIdled:        (_GOES_ON, (effect_owners.OfAgent,)),
    signals.AgentEnded:        (_GOES_ON, (effect_owners.OfAgent,)),
    # Of plugins, which may make requests at any time, of timers, and of a teardown, after an abort in idle or for
    # calls stopped in any phase.
    signals.PluginRequestFinished: (_row("IRE", "RI", "S", "E"), (effect_owners.OfTranscript, effect_owners.OfPluginRequest, effect_owners.OfHeldHook)),
    signals.TimerFired:        (_ANYTHING, (
        effect_owners.OfStallTimer, effect_owners.OfPause, effect_owners.OfSummaryTimer, effect_owners.OfRetry,
        effect_owners.OfInteraction, effect_owners.OfAgentWait, effect_owners.OfHoldTimer,
    )),
    signals.TeardownFinished:  (_GOES_ON, (effect_owners.OfDrain, effect_owners.OfTeardown)),
}
# fmt: on
LEGALITY: Final[Mapping[type[signals.Signal], _Row]] = MappingProxyType(
    {**_CALLS, **{kind: row for kind, (row, _) in _OUTCOMES.items()}}
)
AWAITED_BY: Final[Mapping[type[signals.EffectOutcome], frozenset[type[effect_owners.Owner]]]] = (
    MappingProxyType({kind: frozenset(whose) for kind, (_, whose) in _OUTCOMES.items()})
)
"""The owners that expect each class of outcome. From any other owner, it is late or a bug in the shell."""


# What `verdict` reads in each step, in two lookups: the verdicts by phase, and the owners that an outcome must have.
VERDICTS: Final = {
    kind: ({phase: cell.verdict for phase, cell in row.items()}, AWAITED_BY.get(kind))  # type: ignore[arg-type]  # none of the calls is in it
    for kind, row in LEGALITY.items()
}


def verdict(phase: Phase, data: Known, signal: signals.Signal) -> Verdict:
    """Look up the table. An outcome that its owner does not expect is dropped in any phase."""
    by_phase, awaited_by = VERDICTS[type(signal)]
    found = by_phase[phase]
    if awaited_by is None or found is not Verdict.TAKE:
        return found
    outcome: Any = signal
    return found if type(data.open.get(outcome.effect_id)) in awaited_by else _D


def is_ephemeral_signal(signal: signals.Signal) -> bool:
    """Return whether the journal keeps no record of a signal. Its content matters only at the moment it arrives.

    Chunks are recorded if they have an effect. Late chunks have none, and neither progress nor a child's stream is
    ever recorded.
    The state must therefore not count late ones, or a session restored from its journal would differ.
    """
    kind = type(signal)
    if kind is signals.ChildPublished:
        published: Any = signal
        return is_ephemeral(published.event)
    return kind is signals.ToolProgressed or kind is signals.ChunksArrived


def is_late_ephemeral(state: SessionState, signal: signals.Signal) -> bool:
    """Return whether a signal has no effect in this state and is counted by the shell instead."""
    return is_ephemeral_signal(signal) and not state.ended and verdict(state.phase, state.data, signal) is _D
