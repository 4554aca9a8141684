"""The supervisor: OTP's supervisor behaviour as a pure function, one `step_supervisor` per signal.

The door and nothing else: what is said here is named in `supervision_types`, what is known in `supervision_state`.
`supervision_requests` answers calls, `supervision_sweeps` starts and restarts, `supervision_stops` stops. No clock, no
chance and no process in here: both come with each signal, and who carries out the effects owns the processes.

    >>> from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
    >>> from agentrail.otp.exits import Crashed
    >>> async def serve():
    ...     pass
    >>> state, effects = begin_supervisor("top", SupervisorFlags("one_for_one"), [ChildSpec("a", serve)], at_seconds=0.0)
    >>> (start,) = effects
    >>> state, _ = step_supervisor(state, InstanceStarted(start.token, "handle of a", at_seconds=0.1, draw=0.5))
    >>> state.phase
    'running'
    >>> state, effects = step_supervisor(state, InstanceExited(start.token, Crashed("KeyError", "x"), at_seconds=9.0, draw=0.5))
    >>> [type(effect).__name__ for effect in effects]
    ['Report', 'StartChild']
"""

from collections.abc import Hashable, Iterable

from msgspec import structs

from agentrail.otp.child_specs import Spec, SupervisorFlags, check_child_specs, check_flags
from agentrail.otp.exits import ExitReason
from agentrail.otp.restarts import admit_restart, is_cancelled_start, left_behind
from agentrail.otp.supervision_requests import cancel, serve, undo_start
from agentrail.otp.supervision_starts import come_up, end_start
from agentrail.otp.supervision_state import Child, ChildPhase, SupervisorState, Sweep, remember_exit
from agentrail.otp.supervision_step import SupervisorStep
from agentrail.otp.supervision_stops import (
    begin_ending,
    finish_ending,
    finish_stop,
    finish_stuck,
    start_failed,
    take_down,
    tell_who_waits,
)
from agentrail.otp.supervision_sweeps import advance, decide_after_exit, decide_after_failed_start
from agentrail.otp.supervision_types import (
    NO_CALLER,
    AnswerUntaken,
    InstanceExited,
    InstanceIgnored,
    InstanceStarted,
    InstanceStartFailed,
    InstanceStopped,
    InstanceStuck,
    RequestCancelled,
    RetryDue,
    Started,
    StopRequested,
    SupervisionEffect,
    SupervisionSignal,
    SupervisorRequest,
    Token,
)

__all__ = ["admit_restart", "begin_supervisor", "step_supervisor"]


def begin_supervisor(
    name: Hashable, flags: SupervisorFlags, specs: Iterable[Spec], *, at_seconds: float
) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
    """Begin a supervisor: check everything, then start the first child.

    Source: OTP, supervisor:init/1.
    """
    check_flags(flags)
    checked = check_child_specs(specs, flags=flags)
    step = SupervisorStep(SupervisorState(name=name, flags=flags), at_seconds, 0.0)
    if step.is_dynamic:
        (step.template,) = (spec.accepted() for spec in checked)
    else:
        for number, spec in enumerate(checked):
            step.add(Child(number=number, spec=spec.accepted()))
    step.sweep = Sweep(course="up", cursor=0)
    _settle(step)
    return step.result()


def step_supervisor(
    state: SupervisorState, signal: SupervisionSignal
) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
    """Decide what follows from one signal, until only another one could bring more. Total: no signal makes it raise.

    Source: OTP, supervisor.
    """
    step = SupervisorStep(state, signal.at_seconds, signal.draw)
    match signal:
        case SupervisorRequest():
            if signal.request_id != NO_CALLER:
                step.requests = step.requests.put(signal.request_id, -1)
            serve(step, signal, handle=signal.handle)
        case RequestCancelled(request_id=request_id):
            cancel(step, request_id)
        case AnswerUntaken(child=number, is_new=is_new):
            undo_start(step, number, is_new=is_new)
        case StopRequested(reason=reason):
            begin_ending(step, reason)
        case RetryDue(token=token):
            _on_retry(step, token)
        case _:
            child = step.owner(signal.token)
            if child is None or not _on_process(step, child, signal):
                step.dropped += 1
    _settle(step)
    return step.result()


# --- what a process says


def _on_process(
    step: SupervisorStep,
    child: Child,
    signal: InstanceStarted
    | InstanceIgnored
    | InstanceStartFailed
    | InstanceExited
    | InstanceStopped
    | InstanceStuck,
) -> bool:
    """Take what the process of a child says; `False` if that is nothing it can say now."""
    match child.phase, signal:
        case ChildPhase.STARTING, InstanceStarted():
            come_up(step, child, signal.handle, signal.info)
        case ChildPhase.STARTING, InstanceIgnored():
            _on_ignored(step, child)
        case ChildPhase.STARTING, InstanceStartFailed(reason=reason):
            _on_failed(step, child, reason)
        case ChildPhase.RUNNING, InstanceExited(reason=reason):
            _on_exit(step, child, reason)
        case ChildPhase.STOPPING, InstanceStopped(reason=reason, forced=forced):
            finish_stop(step, child, reason, forced=forced)
        case ChildPhase.STOPPING, InstanceExited(reason=reason):  # it had ended before it was asked
            finish_stop(step, child, reason)
        case ChildPhase.STOPPING, InstanceStuck():
            finish_stuck(step, child, step.flags.stuck_after_seconds)
        case ChildPhase.STUCK, InstanceExited(reason=reason) | InstanceStopped(reason=reason):
            _on_late_end(step, child, reason)
        case _:
            return False
    return True


def _on_ignored(step: SupervisorStep, child: Child) -> None:
    if child.doomed:
        tell_who_waits(step, child)
        step.leave(child)
        return
    end_start(step, child, Started(None))
    step.leave(structs.replace(child, fresh=False))


def _on_failed(step: SupervisorStep, child: Child, reason: ExitReason) -> None:
    stuck = left_behind(reason)
    if child.doomed:
        if stuck is not None:
            finish_stuck(step, child, stuck.seconds)
            return
        if not is_cancelled_start(reason):
            step.report("shutdown_error", child, reason)
        tell_who_waits(step, child)
        step.leave(child)
        return
    step.report("start_error", child, reason)
    if stuck is not None:
        step.report("stuck", child, stuck)
    phase = ChildPhase.IDLE if stuck is None else ChildPhase.STUCK
    child = remember_exit(child, reason, step.now)
    if child.starter is not None or step.is_stopping:
        end_start(step, child, start_failed(child, reason))
        take_down(step, child, phase)
    else:
        decide_after_failed_start(step, child, reason, phase)


def _on_exit(step: SupervisorStep, child: Child, reason: ExitReason) -> None:
    if step.is_stopping:
        finish_stop(step, child, reason)
        return
    child = remember_exit(child, reason, step.now)
    if step.is_sweeping or step.starter is not None:
        # As in OTP, where the supervisor would not have looked yet: what is under way comes to its end first.
        exited = structs.replace(child, phase=ChildPhase.EXITED, exit_reason=reason, exit_seconds=step.now)
        step.save(exited)
        step.exits = step.exits.put(step.place(), child.number)
    else:
        decide_after_exit(step, child, reason, step.now)


def _on_late_end(step: SupervisorStep, child: Child, reason: ExitReason) -> None:
    if step.phase != "ended":  # else it says so itself, to its parent or by the end of its block
        step.report("late_end", child, reason)
    if not child.restarting:
        step.leave(child)
        return
    child = structs.replace(child, phase=ChildPhase.IDLE, attempt=0)
    step.save(child)
    _retry(step, child)


# --- going on


def _on_retry(step: SupervisorStep, token: Token) -> None:
    child = step.children.get(token.child)
    if child is None or child.retry != token.attempt:
        step.dropped += 1
        return
    child = structs.replace(child, retry=0)
    step.save(child)
    _retry(step, child)


def _retry(step: SupervisorStep, child: Child) -> None:
    """Start a child again that waited for it, unless it waits for more than that, or with its group."""
    is_trigger = step.sweep is not None and step.sweep.trigger == child.number
    if child.phase is ChildPhase.IDLE and not child.retry and not is_trigger and not step.is_stopping:
        step.start(child)


def _settle(step: SupervisorStep) -> None:
    """Do all that needs no further signal, in this order: sweeps, ends that wait for judgement, calls that wait."""
    while _go_on(step):
        pass


def _go_on(step: SupervisorStep) -> bool:
    if step.sweep is not None and advance(step, step.sweep):
        return True
    if step.is_sweeping and not step.is_stopping:
        return False
    if step.starter is None and (waiting := step.exits.first()) is not None:
        place, number = waiting
        step.exits = step.exits.drop(place)
        child = step.children.get(number)
        if child is not None and child.phase is ChildPhase.EXITED and child.exit_reason is not None:
            decide_after_exit(step, child, child.exit_reason, child.exit_seconds)
        return True
    if (entry := step.pending.first()) is not None:
        step.pending = step.pending.drop(entry[0])
        _serve_if_wanted(step, entry[1])
        return True
    if step.starter is None and (entry := step.starts.first()) is not None:
        step.starts = step.starts.drop(entry[0])
        _serve_if_wanted(step, entry[1])
        return True
    if step.phase == "stopping" and step.ending is not None and step.sweep is None and not step.open:
        finish_ending(step, step.ending)
    return False


def _serve_if_wanted(step: SupervisorStep, request: SupervisorRequest) -> None:
    if request.request_id == NO_CALLER or step.requests.get(request.request_id) is not None:
        serve(step, request)
