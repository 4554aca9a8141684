"""`step(state, signal) -> (state, effects)`: the only door through which a session advances.

What is legal stands in `legality.py`; who takes a signal stands in `TAKERS`; nothing else decides. This is the order:

| | what happens in a step | as long as |
|---|---|---|
| 1 | the signal is taken, dropped or postponed, as the table says | |
| 2 | an abort that a plugin wanted breaks the cycle off; what waits for idle is applied | 1, 3 or 4 has taken something |
| 3 | what was postponed is judged anew, oldest first, in front of what is still to be judged | the phase has changed |
| 4 | in idle the session ends if it is to end, or the oldest prompt that waits begins | nothing is left to judge |

So who asked first is answered first: the next prompt, or the end, comes after all that was postponed, and before anything
from the mailbox. All that a step does it does at the time of its signal, to one draft that is frozen at its end.

No clock, no id, no randomness and no I/O: they arrive inside signals.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, assert_never

import msgspec

from agentrail.core import (
    batch,
    children,
    compacting,
    cycle,
    decisions,
    holding,
    prompts,
    response,
    settings,
    teardown,
)
from agentrail.core.budget import Ledger
from agentrail.core.effects import Effect, End
from agentrail.core.gates import call_ids_of
from agentrail.core.hooking import ask, errand_finished, somebody_listens
from agentrail.core.hooks import RequestFailed, RequestResult, SessionStarted
from agentrail.core.importing import import_messages
from agentrail.core.legality import LEGALITY, Verdict, verdict
from agentrail.core.owners import (
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
from agentrail.core.projection import snapshot_of, status_of
from agentrail.core.request import EffectId
from agentrail.core.signals import (
    Abort,
    AbortTool,
    Approve,
    Asked,
    ChangePlugins,
    ChangeTools,
    ChildPublished,
    ChildStarted,
    ChunksArrived,
    Compact,
    ErrandFinished,
    MessagesQuery,
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
from agentrail.core.stack import EMPTY_STACK, NO_STATES, PluginStates, Stack
from agentrail.core.state import BreakOff, Known, Next, Phase, SessionConfig, SessionData, SessionState
from agentrail.core.toolbox import Toolbox
from agentrail.core.work import Work
from agentrail.errors import InternalError, MailboxFull, SessionDown
from agentrail.events import AbortReceipt, PluginSlow, SessionStart, SignalQuarantined
from agentrail.messages import Message
from agentrail.otp.edges import travels
from agentrail.otp.exits import Crashed, Shutdown, describe

MAX_POSTPONED: Final = 1_000
"""How many signals may wait for another phase; one more is refused."""

_FAR_FUTURE_MS: Final = 2**53  # clocks say less, and nearly all times are such; others are looked at closely
_TAKE: Final = Verdict.TAKE
_IDLE: Final = Phase.IDLE  # a name costs a look into a table, a member of an enumeration ten times that

S = TypeVar("S", bound=Signal)
A = TypeVar("A", bound=Asked)
Take: TypeAlias = Callable[[Work, Phase, Any], Next]
"""Says what a signal means, which may be taken in this phase; gives what follows."""

_Ending: TypeAlias = (
    ResponseCompleted | StreamFailed | ToolFinished | TimerFired | ErrandFinished | TeardownFinished
)
"""The outcomes that end an effect."""


def new_session(
    config: SessionConfig,
    tools: Toolbox,
    stack: Stack = EMPTY_STACK,
    plugin_states: PluginStates = NO_STATES,
    messages: Sequence[Message] = (),
) -> SessionState:
    """Make the state of a session that has not begun; its first signal is `Started`.

    Args:
        config: How it is set up.
        tools: What its model may call.
        stack: Its plugins.
        plugin_states: Their first states.
        messages: The conversation that it goes on with, from wherever; what is wrong with it is repaired.
    """
    data = SessionData(
        config=config,
        model=config.model,
        tools=tools,
        stack=stack,
        plugin_states=plugin_states,
        ledger=Ledger(budget=config.budget) if config.budget is not None else None,
    )
    if messages:
        history, repairs = import_messages(messages)
        call_ids = call_ids_of(history.messages)
        data = msgspec.structs.replace(data, history=history, repairs=repairs, call_ids=call_ids)
    return SessionState(Phase.IDLE, data)


def step(state: SessionState, signal: Signal) -> tuple[SessionState, tuple[Effect, ...]]:
    """Return the complete next state and the effects to carry out, in order.

    Total: every pair of phase and signal has a verdict. On a session that has ended nothing happens any more.

    Raises:
        InternalError: Ours: a bug. The state that was given is as good as before; the shell puts the signal aside.
    """
    if state.ended:
        return state, ()
    given: Any = signal  # a compiled module would take the annotation at its word, and that is in doubt here
    at_ms = given.at_ms
    if type(at_ms) is not int or not 0 <= at_ms < _FAR_FUTURE_MS:
        _check_time(signal)
    work = Work(state.data, at_ms)
    try:
        phase, postponed, ended = _advance(work, state.phase, state.postponed, signal)
        after = SessionState(phase, work.close(), postponed, ended)
    except BaseException as error:  # noqa: ASYNC103 - a bug of ours is an error of the step, whatever class it has
        if travels(error):
            raise
        crash = Crashed.from_exception(error)
    else:
        return after, tuple(work.effects)
    # Out here, so that it carries no frames along: what they hold is of no use to whoever keeps the error.
    raise InternalError(describe(crash))


def _check_time(signal: Signal) -> None:
    given: Any = signal  # its annotation is what is in doubt, and a compiled module would take it at its word
    try:
        is_time = math.isfinite(given.at_ms)
    except (TypeError, OverflowError):
        is_time = False
    if not is_time:  # no clock says that; a bug of whoever made the signal
        message = (
            f"{type(signal).__name__} has the time {given.at_ms!r:.50}: expected milliseconds since 1970"
        )
        raise InternalError(message)


def _advance(
    work: Work, phase: Phase, postponed: tuple[Signal, ...], signal: Signal
) -> tuple[Phase, tuple[Signal, ...], bool]:
    """Take a signal, and all that follows from it, until only the mailbox could bring more.

    Returns:
        The phase, what is postponed, and whether the session is over.
    """
    todo: list[Signal] = [signal]  # the next one last
    while True:
        before = phase
        if todo:
            judged = todo.pop()
            judgement = verdict(phase, work.data, judged)
            if judgement is _TAKE:
                phase = settled(work, TAKERS[type(judged)](work, phase, judged))
            elif judgement is Verdict.DROP:
                work.data.dropped += 1
            else:
                postponed = _postponed(work, postponed, judged)
        elif phase is not _IDLE:
            return phase, postponed, False
        elif teardown.is_over(work):
            teardown.say_goodbye(work)
            work.ask(End(describe(Shutdown(work.data.stopping))))
            return phase, postponed, True
        elif work.data.queue and work.data.cycle is None and work.data.teardown is None:
            phase = settled(work, cycle.start_next(work))
        else:
            return phase, postponed, False
        if postponed and phase is not before:
            todo += reversed(postponed)
            postponed = ()


def settled(work: Work, after: Next) -> Phase:
    """Do what is due whenever something was taken, whatever it was; gives the phase that follows."""
    if type(after) is BreakOff:
        after = teardown.abort_by_plugin(work, after.reason)
    held = work.data.held
    if held is not None and held.prompt is not None and (after is Phase.IDLE) is (work.data.cycle is None):
        holding.back_to_queue(work)  # it was judged beside a suspended cycle, which goes on now, or is over
    if work.data.wishes or work.data.loans:
        children.look_after(work)
    if after is _IDLE:
        settings.apply_updates(work)
    return after


def _postponed(work: Work, postponed: tuple[Signal, ...], signal: Signal) -> tuple[Signal, ...]:
    if len(postponed) < MAX_POSTPONED:
        return (*postponed, signal)
    if not isinstance(signal, Asked):
        message = f"{MAX_POSTPONED} signals are postponed, and nobody waits for this {type(signal).__name__} who could be told"
        raise InternalError(message)
    work.refuse(signal.signal_id, MailboxFull("too many callers wait already (postpone queue)"))
    return postponed


# --- what each signal means


def _go_on_held(work: Work, phase: Phase, result: RequestResult, *, is_late: bool = False) -> Next:
    """Go on where a hook waited."""
    held = holding.now_held(work)
    if held.prompt is not None:
        return prompts.go_on(work, phase, held.prompt, result, is_late=is_late)
    outcome = holding.go_on_asking(work, result, is_late=is_late)
    if work.data.held is not None or held.stop_reason is None:
        return phase
    return cycle.finish_judged(work, held.stop_reason, outcome)


def _compact(work: Work, phase: Phase, signal: Compact) -> Phase:
    """Shorten the history: at once where nothing goes on, else before the next request."""
    data = work.data
    if data.stopping is not None:
        work.refuse(signal.signal_id, SessionDown(data.config.session_id, data.stopping))
        return phase
    if data.compaction is None:  # else the one that goes on serves, and its end is the answer
        work.data.compact_asked = signal.reason or "asked"
    work.reply(signal.signal_id, None)
    is_free = phase is Phase.IDLE and data.cycle is None and data.teardown is None
    return Phase.RUNNING if is_free and compacting.begin(work) else phase


def _ended(work: Work, phase: Phase, signal: _Ending) -> Next:
    """Take what an effect came to: it is open no more, and whoever owned it goes on."""
    owner = work.ended(signal.effect_id)
    match owner, signal:
        case OfStream(), ResponseCompleted():
            return response.completed(work, phase, signal)
        case OfCall(call_id), ToolFinished():
            return batch.call_finished(work, phase, signal, call_id)
        case OfStream(), StreamFailed():
            return response.failed(work, phase, signal)
        case OfStallTimer(), TimerFired():
            return response.look_at_silence(work, phase, signal)
        case OfPause(), TimerFired():
            return cycle.send_request(work)
        case OfRetry(call_id), TimerFired():
            return batch.pause_is_over(work, call_id)
        case OfStoppedCall(call_id), ToolFinished():
            return batch.stopped_call_ended(work, phase, signal, call_id)
        case OfSurvivor(call_id), ToolFinished():
            return batch.survivor_finished(work, phase, signal, call_id)
        case OfChild(), ToolFinished():
            return batch.child_ended(work, phase, signal)
        case OfLoan(), ToolFinished():
            return batch.loan_ended(work, phase, signal)
        case OfInteraction(interaction_id), TimerFired():
            return decisions.time_is_up(work, phase, interaction_id)
        case OfPluginRequest() as asked, ErrandFinished():
            errand_finished(work, asked, signal)
            return phase
        case OfHeldHook(), ErrandFinished():
            return _go_on_held(work, phase, signal.result)
        case OfHoldTimer(), TimerFired():
            # What a judge used that is given up nobody knows, so all that was reserved for it is booked.
            return _go_on_held(work, phase, RequestFailed(error=holding.TOO_LATE, usage=None), is_late=True)
        case OfSummary(), ResponseCompleted():
            compacting.summarised(work, signal.message.text, signal.usage)
            return phase
        case OfSummary() | OfTranscript(), StreamFailed():
            return cycle.go_on_after_compaction(work, compacting.failed(work, signal.usage))
        case OfSummaryTimer(), TimerFired():
            return cycle.go_on_after_compaction(work, compacting.stop_waiting(work))
        case OfTranscript(), ErrandFinished():
            return cycle.go_on_after_compaction(work, compacting.saved(work, signal.result))
        case OfDrain(), TeardownFinished():
            return batch.drained(work, phase)
        case OfTeardown(), TeardownFinished():
            teardown.settled(work, signal.receipt)
            return phase
        case _:
            message = f"{type(signal).__name__} came for {type(owner).__name__}, which does not wait for that"
            raise InternalError(message)


def _put_aside(work: Work, phase: Phase, signal: StepCrashed) -> Next:
    """Say that a signal was put aside, and stand in for it where somebody waits: its caller, or the cycle itself."""
    work.data.quarantined += 1
    work.publish(SignalQuarantined(signal_kind=signal.signal_kind, error=signal.error))
    work.refuse(signal.asked_by, InternalError(signal.error.message))
    if signal.owed_by is None:
        return phase
    owner = work.data.open.get(signal.owed_by)
    if owner is None:
        return phase
    return _ended(work, phase, _stand_in(owner, signal, signal.owed_by))


def _stand_in(owner: Owner, signal: StepCrashed, effect_id: EffectId) -> _Ending:
    """Make the outcome that stands for the one that crashed the core."""
    at_ms, error = signal.at_ms, signal.error
    match owner:
        case OfStream() | OfSummary() | OfTranscript():  # no summary: what makes use of one may crash again
            return StreamFailed(at_ms=at_ms, effect_id=effect_id, error=error)
        case OfCall() | OfSurvivor() | OfStoppedCall() | OfChild() | OfLoan():
            return ToolFinished(
                at_ms=at_ms, effect_id=effect_id, text=error.message, is_error=True, started_at_ms=at_ms
            )
        case OfDrain() | OfTeardown():
            return TeardownFinished(at_ms=at_ms, effect_id=effect_id, receipt=AbortReceipt())
        case OfPluginRequest() | OfHeldHook():
            result = RequestFailed(error=error, usage=None)
            return ErrandFinished(at_ms=at_ms, effect_id=effect_id, result=result)
        case OfStallTimer() | OfPause() | OfSummaryTimer() | OfRetry() | OfInteraction() | OfHoldTimer():
            return TimerFired(at_ms=at_ms, effect_id=effect_id)
        case _ as never:
            assert_never(never)


def _start(work: Work, phase: Phase, signal: Started) -> Phase:
    work.data.started_at_ms = signal.at_ms
    data = work.data
    work.publish(SessionStart(model=data.model.model, tools=data.tools.names, plugins=data.stack.names))
    if somebody_listens(work, SessionStarted):
        abort = ask(work, SessionStarted()).abort
        if abort is not None:
            return teardown.refuse_session(work, abort)
    return phase


def _wait_for_reply(work: Work, signal: ReplyQuery) -> None:
    cycle.wait_for_reply(work, signal.signal_id)


def _messages_of(_: Phase, data: Known, __: int) -> tuple[Message, ...]:
    return data.history.messages[:]


def _plugin_lagged(work: Work, signal: PluginLagged) -> None:
    work.publish(PluginSlow(plugin=signal.plugin, hook=signal.hook, milliseconds=signal.milliseconds))


def _by(kind: type[S], take: Callable[[Work, Phase, S], Next]) -> tuple[type[Any], Take]:
    return kind, take


def _in_any(kind: type[S], take: Callable[[Work, S], Next]) -> tuple[type[Any], Take]:
    """Let a function take a signal that wants to know of no phase."""

    def taken(work: Work, _: Phase, signal: S) -> Next:
        return take(work, signal)

    return kind, taken


def _staying(kind: type[S], take: Callable[[Work, S], None]) -> tuple[type[Any], Take]:
    """Let a function take a signal that changes no phase."""

    def taken(work: Work, phase: Phase, signal: S) -> Phase:
        take(work, signal)
        return phase

    return kind, taken


def _telling(kind: type[A], tell: Callable[[Phase, Known, int], object]) -> tuple[type[Any], Take]:
    """Let a function answer a question from what the session knows, in its phase and at the time of the question."""

    def taken(work: Work, phase: Phase, signal: A) -> Phase:
        work.reply(signal.signal_id, tell(phase, work.data, signal.at_ms))
        return phase

    return kind, taken


_GIVEN: Final = dict(
    (
        _by(Prompt, prompts.admit),
        _by(Steer, prompts.steer),
        _in_any(Abort, teardown.abort),
        _by(AbortTool, batch.abort_tool),
        _in_any(Stop, teardown.stop),
        _staying(ReplyQuery, _wait_for_reply),
        _telling(StatusQuery, status_of),
        _telling(MessagesQuery, _messages_of),
        _telling(SnapshotQuery, snapshot_of),
        _by(Approve, decisions.approve),
        _by(Reject, decisions.reject),
        _by(Respond, decisions.respond),
        _staying(ToolAsked, batch.tool_asked),
        _staying(ToolWantsChild, children.wanted),
        _staying(SwitchModel, settings.switch_model),
        _by(UpdatePluginOpts, settings.update_plugin_opts),
        _staying(ChangePlugins, settings.change_plugins),
        _staying(ChangeTools, settings.change_tools),
        _by(Compact, _compact),
        _by(Started, _start),
        _in_any(Restarted, teardown.restarted),
        _in_any(Parked, teardown.parked),
        _by(StepCrashed, _put_aside),
        _staying(PluginLagged, _plugin_lagged),
        _in_any(StreamStarted, response.started),
        _by(ChunksArrived, response.arrived),
        _by(ResponseCompleted, _ended),
        _by(StreamFailed, _ended),
        _staying(ToolProgressed, batch.tool_progressed),
        _staying(ChildStarted, children.started),
        _staying(ChildPublished, children.published),
        _staying(ToolEmitted, batch.tool_emitted),
        _by(ToolFinished, _ended),
        _by(TimerFired, _ended),
        _by(ErrandFinished, _ended),
        _by(TeardownFinished, _ended),
    )
)
# Total: a row of the table without a taker fails when this is imported.
TAKERS: Final[Mapping[type[Signal], Take]] = MappingProxyType({kind: _GIVEN[kind] for kind in LEGALITY})
"""Who takes a signal, by its class."""
