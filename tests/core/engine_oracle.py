"""The session on the gen_statem engine, as it once ran: the oracle for the order in which a step does things.

The engine says what a postponed event, a state change and a zero timeout are, and its own tests hold it to OTP. So a
session whose signals go through it shows in which order a step has to come out, whoever writes the loop.
"""

from agentrail.core.protocol.effects import Effect, End
from agentrail.core.protocol.signals import Signal
from agentrail.core.session import cycle, teardown
from agentrail.core.session.machine import TAKERS, settle_step
from agentrail.core.session.state import Phase, SessionData, SessionState
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.transitions import Verdict, is_ephemeral_signal, verdict
from agentrail.otp import statem
from agentrail.otp.exits import Shutdown, describe

Transition = statem.Transition[Phase, SessionData]


class SessionMachine:
    """The rules of a session as a callback module; every step of it happens at one time."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def handle(self, event: statem.MachineEvent, phase: Phase, data: SessionData) -> Transition:
        match event:
            case statem.Info(signal):
                return self._judge(signal, phase, data)  # type: ignore[arg-type]  # nothing else is sent to it
            case statem.TimedOut():
                step = StepContext(data, self.at_ms)
                if step.data.stopping is not None and teardown.may_end(step):
                    teardown.finish_session(step)
                    return statem.Keep(
                        step.close(), [*_performed(step), statem.NextEvent(statem.Internal("over"))]
                    )
                return _transition(step, settle_step(step, cycle.start_next(step)))
            case _:
                return statem.Stop(Shutdown(data.stopping))

    def _judge(self, signal: Signal, phase: Phase, data: SessionData) -> Transition:
        suspended = phase is Phase.IDLE and data.cycle is not None
        step = StepContext(data, self.at_ms, suspended=suspended)
        match verdict(phase, data, signal):
            case Verdict.TAKE:
                return _transition(step, settle_step(step, TAKERS[type(signal)](step, phase, signal)))
            case Verdict.DROP:
                step.data.dropped += not is_ephemeral_signal(signal)
                return statem.Keep(step.close())
            case _:
                return statem.Keep(actions=[statem.Postpone()])


def engine_of(state: SessionState) -> statem.Engine[Phase, SessionData]:
    engine, _ = statem.start_statem(SessionMachine(0), statem.Init(state.phase, state.data), now=0.0)
    return engine


def step(
    engine: statem.Engine[Phase, SessionData], signal: Signal
) -> tuple[statem.Engine[Phase, SessionData], tuple[Effect, ...]]:
    """One step of a session on the engine."""
    engine, wanted = statem.step_statem(SessionMachine(signal.at_ms), engine, statem.Info(signal), now=0.0)
    return engine, tuple(map(_effect_of, wanted))


def _transition(step: StepContext, after: Phase) -> Transition:
    data, actions = step.data, _performed(step)
    is_free = data.cycle is None and data.teardown is None
    if after is Phase.IDLE and (
        (data.stopping is not None and teardown.may_end(step)) or (data.queue and is_free)
    ):
        actions = [*actions, statem.StateTimeout(0.0)]
    return statem.NextState(after, step.close(), actions)


def _performed(step: StepContext) -> list[statem.TransitionAction]:
    return [statem.Perform(effect) for effect in step.effects]


def _effect_of(wanted: statem.EngineEffect) -> Effect:
    match wanted:
        case statem.Perform(effect):
            return effect  # type: ignore[return-value]  # all that a session performs is one
        case statem.Terminate(reason):
            return End(describe(reason))
        case _:
            raise AssertionError(wanted)
