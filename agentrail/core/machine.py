"""`step(state, signal) -> (state, effects)`: the only door through which a session advances.

What is legal stands in `legality.py`; what happens stands in `_take`; nothing else decides. The machine is written for
the gen_statem engine of `otp/statem.py`, whose states are the four phases: a postponed signal is replayed when the phase
changes, and the next prompt is a state timeout of zero, so it comes after all that was postponed and before anything from
the mailbox.

No clock, no id, no randomness and no I/O: they arrive inside signals.
"""

from typing import Any, Final, TypeAlias, assert_never, cast

from agentrail.core import batch, cycle, response, teardown
from agentrail.core.effects import Effect, End, Refuse, Reply
from agentrail.core.legality import Verdict, verdict
from agentrail.core.projection import status_of
from agentrail.core.signals import (
    Abort,
    Approve,
    Asked,
    ChunksArrived,
    Compact,
    MessagesQuery,
    Parked,
    Prompt,
    Reject,
    ReplyQuery,
    Respond,
    ResponseCompleted,
    Restarted,
    Signal,
    SignalId,
    Started,
    StatusQuery,
    Steer,
    StepCrashed,
    Stop,
    StreamFailed,
    StreamStarted,
    TeardownFinished,
    ToolFinished,
    ToolProgressed,
)
from agentrail.core.state import Phase, SessionConfig, SessionData, SessionState
from agentrail.core.toolbox import Toolbox
from agentrail.core.work import Work
from agentrail.errors import InternalError, MailboxFull, NotAvailable
from agentrail.events import SessionStart, SignalQuarantined
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
    PerformEffect,
    Postpone,
    RefuseCall,
    SendReply,
    StateTimeout,
    Terminate,
    TimedOut,
)

Transition: TypeAlias = statem.Transition[Phase, SessionData]

_GOODBYE: Final = "goodbye"


def new_session(config: SessionConfig, tools: Toolbox) -> SessionState:
    """Make the state of a session that has not begun; its first signal is `Started`."""
    data = SessionData(config=config, tools=tools)
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
    engine, wanted = statem.step(_MACHINE, state.engine, incoming, now=signal.at_ms / 1000)
    return SessionState(engine), tuple(map(_effect, wanted))


class _SessionMachine:
    """The session as a gen_statem callback module: one event in, one transition out."""

    def handle(self, event: statem.Event, phase: Phase, data: SessionData) -> Transition:
        match event:
            case Info(message) | Call(request=message):
                return self._judge(cast("Signal", message), phase, data)
            case TimedOut(content=int(at_ms)):
                work = Work(data, at_ms)
                return _transition(work, phase, cycle.start_next(work))
            case Internal(content=reason):
                return statem.Stop(Shutdown(str(reason)))
            case _:
                message = f"the session machine is never sent {event!r}"
                raise AssertionError(message)

    def _judge(self, signal: Signal, phase: Phase, data: SessionData) -> Transition:
        work = Work(data, signal.at_ms)
        match verdict(phase, data, signal):
            case Verdict.TAKE:
                return _transition(work, phase, _take(work, phase, signal))
            case Verdict.DROP:
                work.change(dropped=data.dropped + 1)
                return Keep(work.data)
            case Verdict.POSTPONE:
                return Keep(actions=(Postpone(),))
            case Verdict.REFUSE:
                if isinstance(signal, Asked):
                    kind = type(signal).__name__
                    message = (
                        f"this version of agentrail takes no {kind} yet: see the README for what is there"
                    )
                    work.refuse(signal.signal_id, NotAvailable(message))
                return Keep(actions=work.actions)
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
        case ResponseCompleted():
            return response.completed(work, signal)
        case StreamStarted():
            return response.started(work)
        case Prompt():
            return cycle.admit(work, phase, signal)
        case ToolProgressed():
            batch.tool_progressed(work, signal)
        case StreamFailed():
            return response.failed(work, phase, signal)
        case Abort():
            return teardown.abort(work, phase, signal)
        case Stop():
            return teardown.stop(work, phase, signal)
        case TeardownFinished():
            teardown.settled(work, signal)
        case ReplyQuery(signal_id=to):
            cycle.answer_last(work, to)
        case StatusQuery(signal_id=to, at_ms=at_ms):
            work.reply(to, status_of(phase, work.data, at_ms))
        case MessagesQuery(signal_id=to):
            work.reply(to, work.data.history.messages[:])
        case Started():
            work.change(started_at_ms=signal.at_ms)
            work.publish(SessionStart(model=work.data.config.model, tools=work.data.tools.names))
        case Restarted():
            return teardown.restarted(work, phase, signal)
        case Parked():
            return teardown.parked(work, signal)
        case StepCrashed():
            work.change(quarantined=work.data.quarantined + 1)
            work.publish(SignalQuarantined(signal_kind=signal.signal_kind, error=signal.error))
            work.refuse(signal.asked_by, InternalError(signal.error.message))
        case Steer() | Approve() | Reject() | Respond() | Compact():
            message = f"the table refuses {signal!r}"
            raise AssertionError(message)
        case _:
            assert_never(signal)
    return phase


def _transition(work: Work, before: Phase, after: Phase) -> Transition:
    """Turn what was worked out into a transition; in idle, look whether the session is over or a prompt waits."""
    actions: list[Any] = work.actions
    if after is Phase.IDLE:
        if teardown.is_over(work):
            teardown.say_goodbye(work)
            actions.append(NextEvent(Internal(work.data.stopping)))
        elif work.data.queue and work.data.teardown is None:
            actions.append(StateTimeout(0.0, content=work.at_ms))
    if after is before:
        return Keep(work.data, actions)
    return NextState(after, work.data, actions)


def _effect(wanted: EngineEffect) -> Effect:
    """Translate what the engine wants into an effect of the session."""
    match wanted:
        case PerformEffect(wish):
            return cast("Effect", wish)
        case SendReply(to, value):
            return Reply(SignalId(str(to)), value)
        case RefuseCall(to, why):
            return Refuse(SignalId(str(to)), MailboxFull(f"too many callers wait already ({why})"))
        case Terminate(Crashed() as crash):
            raise InternalError(describe(crash))
        case Terminate(reason):
            return End(describe(reason))
        case _:
            message = f"the session machine asked for {wanted!r}, which sessions do not carry out"
            raise InternalError(message)
