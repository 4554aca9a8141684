"""Ordered starts and stops, one child at a time, and decisions after a child ended on its own."""

from typing import Final, assert_never

from msgspec import structs

from agentrail.otp.exits import ExitReason, InitFailed, Shutdown, is_clean
from agentrail.otp.restarts import admit_restart, has_recovered, is_restart_worthy, wait_before_restart
from agentrail.otp.supervision_state import Child, ChildPhase, Sweep
from agentrail.otp.supervision_step import SupervisorStep
from agentrail.otp.supervision_stops import begin_ending, stop_child, take_down
from agentrail.otp.supervision_types import Culprit

GAVE_UP: Final = Shutdown("max_restart_intensity")
SHUT_DOWN: Final = Shutdown("auto_shutdown")


# --- sweeps


def advance(step: SupervisorStep, sweep: Sweep) -> bool:
    """Take the next step of a sweep. Return False if something else has to happen first."""
    match sweep.course:
        case "down":
            return _advance_down(step, sweep)
        case "up":
            return _advance_up(step, sweep)
        case "wait":
            return _advance_waiting(step, sweep)
        case _:
            assert_never(sweep.course)


def _advance_down(step: SupervisorStep, sweep: Sweep) -> bool:
    found = step.children.last(below=sweep.cursor)
    if found is None or found[0] < sweep.low:
        _arrive_down(step, sweep)
        return True
    number, child = found
    if number != sweep.trigger and stop_child(step, child):
        return False
    step.sweep = structs.replace(sweep, cursor=number)
    return True


def _arrive_down(step: SupervisorStep, sweep: Sweep) -> None:
    """Handle the end of a downward sweep: a stop is over, a group waits or starts again."""
    if step.is_stopping:
        step.sweep = None
        return
    trigger = step.children.get(sweep.trigger)
    if sweep.delay_seconds is not None and trigger is not None:
        step.sweep = structs.replace(sweep, course="wait", delay_seconds=None)
        step.schedule_retry(trigger, sweep.delay_seconds)
    elif _is_blocked(step, sweep):
        step.sweep = structs.replace(sweep, course="wait")
    else:
        step.sweep = structs.replace(sweep, course="up", cursor=sweep.low)


def _advance_waiting(step: SupervisorStep, sweep: Sweep) -> bool:
    trigger = step.children.get(sweep.trigger)
    if trigger is None or trigger.retry or step.starter is not None or _is_blocked(step, sweep):
        return False
    # Down once more, as OTP does: a caller may have started a child of the group in the meantime.
    step.sweep = structs.replace(sweep, course="down", cursor=step.next_number)
    return True


def _is_blocked(step: SupervisorStep, sweep: Sweep) -> bool:
    """Return whether a child of the group is stuck: a new instance would meet an old one."""
    return step.stuck.first(sweep.low) is not None


def _advance_up(step: SupervisorStep, sweep: Sweep) -> bool:
    latest = step.children.get(sweep.cursor - 1)
    if latest is not None and latest.phase is ChildPhase.STARTING:
        return False
    found = step.children.first(sweep.cursor)
    if found is None:
        step.sweep = None
        step.phase = "running"
        return True
    number, child = found
    step.sweep = structs.replace(sweep, cursor=number + 1)
    step.start(child)  # idle: a sweep goes up only when all its children are down, and calls wait for its end
    return True


# --- ends and restarts


def decide_after_exit(step: SupervisorStep, child: Child, reason: ExitReason, at_seconds: float) -> None:
    """Decide what follows from the end of a child that was not asked to end."""
    spec = child.spec
    if spec.restart == "permanent" or not is_clean(reason):
        step.report("child_terminated", child, reason, at_seconds=at_seconds)
    if is_restart_worthy(spec.restart, reason):
        backoff = step.flags.backoff
        if backoff is not None and has_recovered(backoff, at_seconds - child.started_seconds):
            child = structs.replace(child, in_a_row=0)
        restart(step, child, reason, at_seconds, ChildPhase.IDLE)
        return
    step.leave(child)
    _shut_down_if_significant(step, child)


def _shut_down_if_significant(step: SupervisorStep, child: Child) -> None:
    if child.spec.significant and (
        step.flags.auto_shutdown == "any_significant"
        or (step.flags.auto_shutdown == "all_significant" and not step.significant)
    ):
        begin_ending(step, SHUT_DOWN)


def decide_after_failed_start(
    step: SupervisorStep, child: Child, reason: ExitReason, phase: ChildPhase
) -> None:
    """Decide what follows from a failed start without a waiting caller."""
    if step.phase == "starting":
        take_down(step, child, phase)
        begin_ending(step, InitFailed("child", cause=reason, child_id=child.spec.id))
    else:
        restart(step, child, reason, step.now, phase, failed=True)


def restart(  # noqa: PLR0913 - the facts of an end
    step: SupervisorStep,
    child: Child,
    reason: ExitReason,
    at_seconds: float,
    phase: ChildPhase,
    *,
    failed: bool = False,
) -> None:
    """Restart a child, and its group with it.

    If the restart budget is spent, give up, or give up only this child if it has its own budget.
    """
    flags = step.flags
    sweep = step.sweep
    if sweep is not None and sweep.course == "wait" and child.number >= sweep.low:
        # A caller started it while its group waits for a retry, which will restart it with the others.
        step.leave(child)
        return
    is_apart = flags.intensity_per == "child"
    counted, go_ahead = admit_restart(
        child.restarts if is_apart else step.restarts, at_seconds, flags.intensity, flags.period_seconds
    )
    if is_apart:
        child = structs.replace(child, restarts=counted)
    else:
        step.restarts = counted
    if not go_ahead:
        step.report("shutdown", child, GAVE_UP)
        take_down(step, child, phase)
        if is_apart:  # like the end of a supervisor of its own: clean, one level up
            _shut_down_if_significant(step, child)
        else:
            begin_ending(step, GAVE_UP, culprit=Culprit(child.spec.id, reason, child.handle))
        return
    delay = 0.0 if failed else None
    if flags.backoff is not None:
        delay = wait_before_restart(flags.backoff, child.in_a_row, step.draw)
    child = structs.replace(child, phase=phase, restarting=True, in_a_row=child.in_a_row + 1)
    step.save(child)
    if step.is_grouped:
        low = child.number if flags.strategy == "rest_for_one" else 0
        step.sweep = Sweep(
            course="down", low=low, cursor=step.next_number, trigger=child.number, delay_seconds=delay
        )
    elif delay is None:
        step.start(child)
    else:
        step.schedule_retry(child, delay)
