"""Stopping one child, and stopping the supervisor itself. Nothing in here starts anything."""

from typing import Final, assert_never

from msgspec import structs

from agentrail import errors
from agentrail.otp.exits import ExitReason, InitFailed, Killed, Stuck, describe
from agentrail.otp.guarded_calls import show
from agentrail.otp.persistent_maps import Table
from agentrail.otp.restarts import is_expected_stop
from agentrail.otp.supervision_state import Child, ChildPhase, Ending, Sweep
from agentrail.otp.supervision_step import SupervisorStep
from agentrail.otp.supervision_types import Culprit, EndSupervisor, RequestId, StopSummary

_CANCELLED: Final = InitFailed("cancelled")


def stop_child(step: SupervisorStep, child: Child, *, kill: bool = False) -> bool:
    """Stop a child in any phase, and do not start it again. Return whether the supervisor must wait for its process."""
    how = "brutal_kill" if kill else child.spec.shutdown_seconds
    match child.phase:
        case ChildPhase.RUNNING:
            step.stop(child, how)
            return True
        case ChildPhase.STARTING:
            if kill or not child.doomed:
                step.cancel_start(child, how)
            return True
        case ChildPhase.STOPPING:
            if kill:
                step.stop(child, how)
            return True
        case ChildPhase.EXITED:
            finish_stop(step, child, child.exit_reason or Killed(), at_seconds=child.exit_seconds)
        case ChildPhase.IDLE:
            if child.restarting:
                step.leave(step.cancel_retry(child))
        case ChildPhase.STUCK:
            if child.restarting:
                step.save(step.cancel_retry(child))
        case _:
            assert_never(child.phase)
    return False


def finish_stop(
    step: SupervisorStep,
    child: Child,
    reason: ExitReason,
    *,
    forced: bool = False,
    at_seconds: float | None = None,
) -> None:
    """Record that a stopped child has ended: report an unexpected end, answer the waiting callers."""
    if forced or not is_expected_stop(child.spec, child.asked, reason):
        step.report("shutdown_error", child, reason, at_seconds=at_seconds)
    ending = step.ending
    if ending is not None:
        killed = forced or isinstance(reason, Killed)
        step.ending = structs.replace(
            ending, ended=ending.ended + (not killed), killed=ending.killed + killed
        )
    tell_who_waits(step, child)
    step.leave(child)


def finish_stuck(step: SupervisorStep, child: Child, seconds: float) -> None:
    """Record that a child did not obey its kill: its id is blocked until it ends, and all other work continues."""
    step.report("stuck", child, Stuck(seconds))
    tell_who_waits(step, child)
    take_down(step, child, ChildPhase.STUCK)


def take_down(step: SupervisorStep, child: Child, phase: ChildPhase) -> None:
    """Record that a child has no process, or, in the phase `STUCK`, one that did not obey its kill."""
    if phase is not ChildPhase.STUCK:
        step.leave(child)
        return
    if step.starter == child.number:
        step.starter = None
    step.save(structs.replace(child, phase=phase, restarting=False, starter=None, joined=()))


def tell_who_waits(step: SupervisorStep, child: Child) -> None:
    """Answer the callers that wait for the stop of this child, and the one that waits in vain for its start."""
    for request_id in child.joined:
        step.answer(request_id, None)
    if child.starter is None:
        return
    if step.is_stopping:
        step.answer(child.starter, stopping(step))
    else:
        step.answer(child.starter, start_failed(child, _CANCELLED))


def start_failed(child: Child, reason: ExitReason) -> errors.ChildStartFailed:
    """Return the error for a caller whose child did not start."""
    message = f"child {show(child.spec.id)} did not start ({describe(reason)}): fix that and start it again"
    return errors.ChildStartFailed(message, reason=reason)


def stopping(step: SupervisorStep) -> errors.SupervisorStopping:
    """Return the error for a changing call while the supervisor stops."""
    message = f"supervisor {show(step.name)} is stopping and accepts no changes; wait for its end"
    return errors.SupervisorStopping(message)


# --- the supervisor itself


def begin_ending(
    step: SupervisorStep,
    reason: ExitReason,
    *,
    caller: RequestId | None = None,
    culprit: Culprit | None = None,
) -> None:
    """Start to stop, unless a stop is under way: static children one after the other, instances all at once."""
    if step.summary is not None:
        step.answer(caller, step.summary)
        return
    killing = isinstance(reason, Killed)
    before = step.ending
    ending = before or Ending(reason=reason, since_seconds=step.now, culprit=culprit)
    if caller is not None:
        ending = structs.replace(ending, callers=(*ending.callers, caller))
    if before is not None and (before.killing or not killing):
        step.ending = ending
        return
    step.ending = structs.replace(ending, reason=reason, killing=killing)
    step.phase = "stopping"
    step.starter = None
    step.exits = Table()
    if step.is_dynamic or killing:
        step.sweep = None
        for _, child in [*step.children.items()][::-1]:
            stop_child(step, child, kill=killing)
    else:
        step.sweep = Sweep(course="down", cursor=step.next_number)


def finish_ending(step: SupervisorStep, ending: Ending) -> None:
    """Record the end of the supervisor, once there is nothing left to wait for."""
    for _, report in sorted((entry for _, entry in ending.errors.items()), key=lambda entry: entry[0]):
        step.effects.append(report)
    stuck = step.stuck.count
    seconds = step.now - ending.since_seconds
    summary = StopSummary(ending.reason, ending.ended, ending.killed, stuck, seconds)
    for request_id in ending.callers:
        step.answer(request_id, summary)
    step.summary = summary
    step.phase = "ended"
    step.ending = structs.replace(ending, callers=())
    step.effects.append(EndSupervisor(ending.reason, stuck, ending.culprit))
