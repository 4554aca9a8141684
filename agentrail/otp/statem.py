"""The state machine engine: OTP's gen_statem as a pure function, one `step_statem` per incoming event.

This module is the entry point. Types are in `statem_types`, the work of a step is in `statem_turn`. A machine handles
events in this order: events inserted by a handler, events replayed after a state change, the rest of the queue,
timeouts that were due at once, and finally the mailbox. There is no clock, mailbox or I/O here: time comes in
as `now` or from a function that is passed in, and all output is effects.
"""

from typing import Final, NoReturn

from msgspec import structs

from agentrail.otp.exits import ExitReason, Redact, check_reason, keep
from agentrail.otp.guarded_calls import show
from agentrail.otp.statem_turn import EngineRun
from agentrail.otp.statem_types import (
    KEEP,
    ArmTimer,
    Call,
    CancelTimer,
    Cast,
    Clock,
    D,
    DeadLetter,
    DisarmTimer,
    Engine,
    EngineEffect,
    EnteringMachine,
    EventTimeout,
    Hibernate,
    Incoming,
    Info,
    Init,
    Internal,
    Keep,
    KeepType,
    Limits,
    Machine,
    MachineEvent,
    NamedTimeout,
    NextEvent,
    NextState,
    Note,
    Perform,
    PerformEffect,
    Postpone,
    RefuseCall,
    Repeat,
    Reply,
    RequestFor,
    S,
    SendReply,
    StateTimeout,
    Stop,
    StopAndReply,
    Terminate,
    TimedOut,
    TimerDue,
    Transition,
    TransitionAction,
    UpdateTimer,
)
from agentrail.otp.timers import EVENT_TIMER, STATE_TIMER, Timer, TimerIndex, TimerKey, TimerKind

__all__ = [
    "EVENT_TIMER",
    "KEEP",
    "STATE_TIMER",
    "ArmTimer",
    "Call",
    "CancelTimer",
    "Cast",
    "Clock",
    "DeadLetter",
    "DisarmTimer",
    "Engine",
    "EngineEffect",
    "EnteringMachine",
    "EventTimeout",
    "Hibernate",
    "Incoming",
    "Info",
    "Init",
    "Internal",
    "Keep",
    "KeepType",
    "Limits",
    "Machine",
    "MachineEvent",
    "NamedTimeout",
    "NextEvent",
    "NextState",
    "Note",
    "Perform",
    "PerformEffect",
    "Postpone",
    "RefuseCall",
    "Repeat",
    "Reply",
    "RequestFor",
    "SendReply",
    "StateTimeout",
    "Stop",
    "StopAndReply",
    "Terminate",
    "TimedOut",
    "Timer",
    "TimerDue",
    "TimerIndex",
    "TimerKey",
    "TimerKind",
    "Transition",
    "TransitionAction",
    "UpdateTimer",
    "start_statem",
    "step_statem",
    "stop_statem",
]

DEFAULT_LIMITS: Final = Limits()


def start_statem(  # noqa: PLR0913 - a pure function receives everything as arguments
    machine: Machine[S, D],
    init: Init[S, D],
    *,
    now: float,
    limits: Limits = DEFAULT_LIMITS,
    redact: Redact = keep,
    clock: Clock | None = None,
) -> tuple[Engine[S, D], tuple[EngineEffect, ...]]:
    """Start a machine: run the actions of `init`, enter the first state, handle inserted events.

    Source: OTP, gen_statem:init/1 and "state enter calls".
    """
    run = EngineRun(machine, Engine(init.state, init.data, limits), now, redact, clock)
    run.run(None, init.actions)
    return run.result()


def step_statem(  # noqa: PLR0913 - same as `start_statem`
    machine: Machine[S, D],
    engine: Engine[S, D],
    event: Incoming,
    *,
    now: float,
    redact: Redact = keep,
    clock: Clock | None = None,
) -> tuple[Engine[S, D], tuple[EngineEffect, ...]]:
    """Handle one event and everything that follows from it, until only the mailbox can bring more.

    Raises:
        ValueError: Your move: the event is not a `Call`, `Cast`, `Info` or `TimerDue`.

    Source: OTP, gen_statem, "the exact order" of transition actions.
    """
    if isinstance(event, TimerDue):
        timer = engine.timers.get(event.key)
        if timer is None or timer.epoch != event.epoch or engine.stopped is not None:
            return engine, ()
        run = EngineRun(machine, engine, now, redact, clock)
        run.timers = engine.timers.drop(event.key)
        run.run(TimedOut(event.key.kind, event.key.name, timer.content))
        return run.result()
    if not isinstance(event, (Cast, Info, Call)):
        _refuse(event)
    if engine.stopped is not None:
        too_late = (
            RefuseCall(event.to, "stopped") if isinstance(event, Call) else DeadLetter(event, "stopped")
        )
        return engine, (too_late,)
    run = EngineRun(machine, engine, now, redact, clock)
    run.run(event)
    return run.result()


def stop_statem(engine: Engine[S, D], reason: ExitReason) -> tuple[Engine[S, D], tuple[EngineEffect, ...]]:
    """Stop the machine from outside, between two steps. A machine that has ended stays unchanged.

    Raises:
        TypeError: Your move: the reason is not an exit reason.
    """
    check_reason(reason)
    if engine.stopped is not None:
        return engine, ()
    return structs.replace(engine, stopped=reason), (Terminate(reason),)


def _refuse(event: object) -> NoReturn:
    message = f"expected Call, Cast, Info or TimerFired from outside, got {show(event)}: wrap it in a Cast"
    raise ValueError(message)
