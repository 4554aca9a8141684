"""`step(state, signal) -> (state, effects)`: the only door through which a session advances.

What is legal stands in `legality.py`; what happens stands in `_take`; nothing else decides. The machine is written for
the gen_statem engine of `otp/statem.py`, whose states are the four phases: a postponed signal is replayed when the phase
changes, and the next prompt, or the end, is a state timeout of zero, so it comes after all that was postponed and before
anything from the mailbox.

No clock, no id, no randomness and no I/O: they arrive inside signals.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, assert_never

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
from agentrail.core.effects import Effect, End, Refuse, look_of
from agentrail.core.gates import call_ids_of
from agentrail.core.hooking import ask, errand_finished, somebody_listens
from agentrail.core.hooks import RequestFailed, RequestResult, SessionStarted
from agentrail.core.importing import import_messages
from agentrail.core.legality import Verdict, verdict
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
    SignalId,
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
    UpdatePluginOpts,
)
from agentrail.core.stack import EMPTY_STACK, NO_STATES, PluginStates, Stack
from agentrail.core.state import Phase, SessionConfig, SessionData, SessionState
from agentrail.core.toolbox import Toolbox
from agentrail.core.work import Work
from agentrail.errors import InternalError, MailboxFull, SessionDown
from agentrail.events import AbortReceipt, PluginSlow, SessionStart, SignalQuarantined
from agentrail.messages import Message
from agentrail.otp import statem
from agentrail.otp.exits import Crashed, Shutdown, describe
from agentrail.otp.statem import (
    Call,
    EngineEffect,
    Info,
    Internal,
    Keep,
    NextEvent,
    NextState,
    Note,
    PerformEffect,
    Postpone,
    RefuseCall,
    StateTimeout,
    Terminate,
    TimedOut,
)

Transition: TypeAlias = statem.Transition[Phase, SessionData]

_GOODBYE: Final = "goodbye"


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
    engine, _ = statem.start(_MACHINE, statem.Init(Phase.IDLE, data), now=0.0)
    return SessionState(engine)


def step(state: SessionState, signal: Signal) -> tuple[SessionState, tuple[Effect, ...]]:
    """Return the complete next state and the effects to carry out, in order.

    Total: every pair of phase and signal has a verdict. On a session that has ended nothing happens any more.

    Raises:
        InternalError: Ours: a bug. The state that was given is as good as before; the shell puts the signal aside.
    """
    if state.ended:
        return state, ()
    incoming = Call(signal.signal_id, signal) if isinstance(signal, Asked) else Info(signal)
    try:
        now = signal.at_ms / 1000
    except (TypeError, OverflowError) as error:  # no clock says that; a bug of whoever made the signal
        message = (
            f"{type(signal).__name__} has the time {signal.at_ms!r:.50}: expected milliseconds since 1970"
        )
        raise InternalError(message) from error
    engine, wanted = statem.step(_MACHINE, state.engine, incoming, now=now)
    effects = [
        wish.effect if type(wish) is PerformEffect else _effect(wish)
        for wish in wanted
        if type(wish) is not Note
    ]
    return SessionState(engine), tuple(effects)  # type: ignore[arg-type]  # all that a `Work` performs is an Effect


class _SessionMachine:
    """The session as a gen_statem callback module: one event in, one transition out."""

    def handle(self, event: statem.Event, phase: Phase, data: SessionData) -> Transition:
        match event:
            case Info(message) | Call(request=message):
                # `step` sends nothing but signals; a `cast` here would cost every delta of every stream.
                return self._judge(message, phase, data)  # type: ignore[arg-type]
            case TimedOut(content=int(at_ms)):
                work = Work(data, at_ms)
                if teardown.is_over(work):
                    teardown.say_goodbye(work)
                    return Keep(work.data, [*work.actions, NextEvent(Internal(data.stopping))])
                after = cycle.start_next(work)
                return _transition(
                    work, phase, after if work.abort is None else teardown.abort_by_plugin(work)
                )
            case _:  # the `Internal` from above: nothing else is ever sent to this machine
                return statem.Stop(Shutdown(data.stopping))

    def _judge(self, signal: Signal, phase: Phase, data: SessionData) -> Transition:
        work = Work(data, signal.at_ms)
        match verdict(phase, data, signal):
            case Verdict.TAKE:
                after = _take(work, phase, signal)
                if work.abort is not None:
                    after = teardown.abort_by_plugin(work)
                if (
                    work.data is data
                ):  # a question: nothing begins or ends, and a postponed one carries an old time
                    return Keep(actions=work.actions)
                return _transition(work, phase, after)
            case Verdict.DROP:
                work.change(dropped=data.dropped + 1)
                return Keep(work.data)
            case Verdict.POSTPONE:
                return Keep(actions=(Postpone(),))
            case unreachable:
                assert_never(unreachable)


_MACHINE: Final = _SessionMachine()


def _take(work: Work, phase: Phase, signal: Signal) -> Phase:
    """Say what a signal means; frequent ones stand first, because classes are tried in this order."""
    match signal:
        case ChunksArrived():
            return response.arrived(work, signal)
        case ToolFinished():
            return batch.tool_finished(work, phase, signal)
        case ResponseCompleted(message=message, usage=usage) if work.data.compaction is not None:
            compacting.summarised(work, message.text, usage)
        case ResponseCompleted():
            return response.completed(work, phase, signal)
        case StreamStarted():
            return response.started(work)
        case Prompt():
            return prompts.admit(work, phase, signal)
        case ToolProgressed():
            batch.tool_progressed(work, signal)
        case ChildPublished():
            children.published(work, signal)
        case ChildStarted():
            children.started(work, signal)
        case ToolEmitted():
            batch.tool_emitted(work, signal)
        case StreamFailed(usage=usage) if work.data.compaction is not None:
            return cycle.go_on_after_compaction(work, compacting.failed(work, usage))
        case StreamFailed():
            return response.failed(work, phase, signal)
        case Steer():
            return prompts.steer(work, phase, signal)
        case TimerFired():
            return _time_has_come(work, phase, signal)
        case Approve():
            return decisions.approve(work, phase, signal)
        case Reject():
            return decisions.reject(work, phase, signal)
        case Respond():
            return decisions.respond(work, phase, signal)
        case ToolAsked():
            batch.tool_asked(work, signal)
        case AbortTool():
            return batch.abort_tool(work, phase, signal)
        case Abort():
            return teardown.abort(work, signal)
        case Stop():
            return teardown.stop(work, signal)
        case TeardownFinished(effect_id=effect_id) if effect_id in work.data.drains:
            return batch.drained(work, phase, effect_id)
        case TeardownFinished():
            teardown.settled(work, signal)
        case SwitchModel():
            settings.switch_model(work, signal)
        case ChangeTools():
            settings.change_tools(work, signal)
        case UpdatePluginOpts():
            settings.update_plugin_opts(work, phase, signal)
        case ChangePlugins():
            settings.change_plugins(work, signal)
        case ErrandFinished(effect_id=effect_id, result=result) if _is_writing(work, effect_id):
            return cycle.go_on_after_compaction(work, compacting.saved(work, result))
        case ErrandFinished(effect_id=effect_id, result=result) if _is_held_for(work, effect_id):
            return _go_on_held(work, phase, result)
        case ErrandFinished():
            errand_finished(work, signal)
        case ReplyQuery(signal_id=to):
            cycle.wait_for_reply(work, to)
        case StatusQuery(signal_id=to, at_ms=at_ms):
            work.reply(to, status_of(phase, work.data, at_ms))
        case MessagesQuery(signal_id=to):
            work.reply(to, work.data.history.messages[:])
        case SnapshotQuery(signal_id=to, at_ms=at_ms):
            work.reply(to, snapshot_of(phase, work.data, at_ms))
        case Started():
            work.change(started_at_ms=signal.at_ms)
            data = work.data
            work.publish(
                SessionStart(model=data.model.model, tools=data.tools.names, plugins=data.stack.names)
            )
            if somebody_listens(work, SessionStarted):
                ask(work, SessionStarted())
                if work.abort is not None:
                    return teardown.refuse_session(work)
        case Restarted():
            return teardown.restarted(work, signal)
        case Parked():
            return teardown.parked(work, signal)
        case StepCrashed():
            return _put_aside(work, phase, signal)
        case PluginLagged(plugin=plugin, hook=hook, milliseconds=milliseconds):
            work.publish(PluginSlow(plugin=plugin, hook=hook, milliseconds=milliseconds))
        case Compact():
            return _compact(work, phase, signal)
        case _:
            assert_never(signal)
    return phase


def _is_held_for(work: Work, effect_id: EffectId) -> bool:
    held = work.data.held
    return held is not None and effect_id in (held.effect_id, held.timer)


def _go_on_held(work: Work, phase: Phase, result: RequestResult, *, is_late: bool = False) -> Phase:
    """Go on where a hook waited."""
    held = holding.now_held(work)
    if held.prompt is not None:
        return prompts.go_on(work, phase, held.prompt, result, is_late=is_late)
    holding.go_on_asking(work, result, is_late=is_late)
    if work.data.held is not None or held.stop_reason is None:
        return phase
    return cycle.finish_judged(work, held.stop_reason)


def _is_writing(work: Work, effect_id: EffectId) -> bool:
    compaction = work.data.compaction
    return compaction is not None and compaction.effect_id == effect_id


def _compact(work: Work, phase: Phase, signal: Compact) -> Phase:
    """Shorten the history: at once where nothing goes on, else before the next request."""
    data = work.data
    if data.stopping is not None:
        work.refuse(signal.signal_id, SessionDown(data.config.session_id, data.stopping))
        return phase
    if data.compaction is None:  # else the one that goes on serves, and its end is the answer
        work.change(compact_asked=signal.reason or "asked")
    work.reply(signal.signal_id, None)
    is_free = phase is Phase.IDLE and data.cycle is None and data.teardown is None
    return Phase.RUNNING if is_free and compacting.begin(work) else phase


def _time_has_come(work: Work, phase: Phase, signal: TimerFired) -> Phase:
    """Wake whoever set the timer: a request that is out or between two attempts, a call between two attempts, or what waits for people."""
    compaction = work.data.compaction
    if compaction is not None and compacting.is_timer(compaction, signal.effect_id):
        return cycle.go_on_after_compaction(work, compacting.stop_waiting(work))
    stream = work.data.stream
    if stream is not None and stream.effect_id == signal.effect_id:
        return cycle.send_request(work)
    if stream is not None and look_of(stream.effect_id) == signal.effect_id:
        return response.look_at_silence(work, phase, signal)
    if _is_held_for(work, signal.effect_id):
        # What a judge used that is given up nobody knows, so all that was reserved for it is booked.
        return _go_on_held(work, phase, RequestFailed(error=holding.TOO_LATE, usage=None), is_late=True)
    if any(interaction.timer == signal.effect_id for interaction in work.data.interactions):
        return decisions.time_is_up(work, phase, signal)
    return batch.pause_is_over(work, signal)


def _put_aside(work: Work, phase: Phase, signal: StepCrashed) -> Phase:
    """Say that a signal was put aside, and stand in for it where somebody waits: its caller, or the cycle itself."""
    work.change(quarantined=work.data.quarantined + 1)
    work.publish(SignalQuarantined(signal_kind=signal.signal_kind, error=signal.error))
    work.refuse(signal.asked_by, InternalError(signal.error.message))
    if signal.owed_by is None:
        return phase
    failed = StreamFailed(at_ms=signal.at_ms, effect_id=signal.owed_by, error=signal.error)
    finished = ToolFinished(
        at_ms=signal.at_ms,
        effect_id=signal.owed_by,
        text=signal.error.message,
        is_error=True,
        started_at_ms=signal.at_ms,
    )
    settled = TeardownFinished(at_ms=signal.at_ms, effect_id=signal.owed_by, receipt=AbortReceipt())
    fired = TimerFired(at_ms=signal.at_ms, effect_id=signal.owed_by)
    undone = ErrandFinished(
        at_ms=signal.at_ms, effect_id=signal.owed_by, result=RequestFailed(error=signal.error, usage=None)
    )
    for stand_in in (failed, finished, settled, fired, undone):
        if verdict(phase, work.data, stand_in) is Verdict.TAKE:
            return _take(work, phase, stand_in)
    return phase


def _transition(work: Work, before: Phase, after: Phase) -> Transition:
    """Turn what was worked out into a transition; in idle, look whether the session is over or a prompt waits."""
    actions: list[Any] = work.actions
    held = work.data.held
    if held is not None and held.prompt is not None and (after is Phase.IDLE) is (work.data.cycle is None):
        holding.back_to_queue(work)  # it was judged beside a suspended cycle, which goes on now, or is over
    # Both wait for a timeout of zero, because it comes after all that was postponed: who asked first is answered first.
    if after is Phase.IDLE:
        settings.apply_updates(work)
    data = work.data
    is_free = data.cycle is None and data.teardown is None
    if after is Phase.IDLE and (teardown.is_over(work) or (data.queue and is_free)):
        actions.append(StateTimeout(0.0, content=work.at_ms))
    if after is before:
        return Keep(work.data, actions)
    return NextState(after, work.data, actions)


def _effect(wanted: EngineEffect) -> Effect:
    """Translate what the engine wants into an effect of the session."""
    match wanted:
        case RefuseCall(to, why):
            return Refuse(SignalId(str(to)), MailboxFull(f"too many callers wait already ({why})"))
        case Terminate(Crashed() as crash):
            raise InternalError(describe(crash))
        case Terminate(reason):
            return End(describe(reason))
        case _:
            message = f"the session machine asked for {wanted!r}, which sessions do not carry out"
            raise InternalError(message)
