"""Starting and stopping in order, one child at a time; and what becomes of a child that ended by itself.

A sweep holds no list of what is left to do: it has a cursor, and the next child is looked up in the start order. So it
does not matter what happened to the others meanwhile, and a step costs the same however many they are.
"""

from typing import Final, assert_never

from msgspec import structs

from agentrail.otp.exits import ExitReason, InitFailed, Shutdown, is_clean
from agentrail.otp.restarts import admit_restart, has_recovered, is_restart_worthy, wait_before_restart
from agentrail.otp.supervision_ledger import Ledger
from agentrail.otp.supervision_state import Child, Phase, Sweep
from agentrail.otp.supervision_stops import begin_ending, stop_child, take_down
from agentrail.otp.supervision_types import Culprit

GAVE_UP: Final = Shutdown("max_restart_intensity")
SHUT_DOWN: Final = Shutdown("auto_shutdown")


# --- sweeps


def advance(ledger: Ledger, sweep: Sweep) -> bool:
    """Take the next step of a sweep; `False` if something has to come first."""
    match sweep.course:
        case "down":
            return _advance_down(ledger, sweep)
        case "up":
            return _advance_up(ledger, sweep)
        case "wait":
            return _advance_waiting(ledger, sweep)
        case _:
            assert_never(sweep.course)


def _advance_down(ledger: Ledger, sweep: Sweep) -> bool:
    found = ledger.children.last(below=sweep.cursor)
    if found is None or found[0] < sweep.low:
        _arrive_down(ledger, sweep)
        return True
    number, child = found
    if number != sweep.trigger and stop_child(ledger, child):
        return False
    ledger.sweep = structs.replace(sweep, cursor=number)
    return True


def _arrive_down(ledger: Ledger, sweep: Sweep) -> None:
    """Note that nothing of the group is left: a stop is over, a group waits or goes up."""
    if ledger.is_stopping:
        ledger.sweep = None
        return
    trigger = ledger.children.get(sweep.trigger)
    if sweep.delay_seconds is not None and trigger is not None:
        ledger.sweep = structs.replace(sweep, course="wait", delay_seconds=None)
        ledger.schedule_retry(trigger, sweep.delay_seconds)
    elif _is_blocked(ledger, sweep):
        ledger.sweep = structs.replace(sweep, course="wait")
    else:
        ledger.sweep = structs.replace(sweep, course="up", cursor=sweep.low)


def _advance_waiting(ledger: Ledger, sweep: Sweep) -> bool:
    trigger = ledger.children.get(sweep.trigger)
    if trigger is None or trigger.retry or ledger.starter is not None or _is_blocked(ledger, sweep):
        return False
    # Down once more, as OTP does: somebody may have started one of the group meanwhile.
    ledger.sweep = structs.replace(sweep, course="down", cursor=ledger.next_number)
    return True


def _is_blocked(ledger: Ledger, sweep: Sweep) -> bool:
    """Tell whether something of the group is stuck: a new instance would meet an old one."""
    return ledger.stuck.first(sweep.low) is not None


def _advance_up(ledger: Ledger, sweep: Sweep) -> bool:
    latest = ledger.children.get(sweep.cursor - 1)
    if latest is not None and latest.phase is Phase.STARTING:
        return False
    found = ledger.children.first(sweep.cursor)
    if found is None:
        ledger.sweep = None
        ledger.phase = "running"
        return True
    number, child = found
    ledger.sweep = structs.replace(sweep, cursor=number + 1)
    ledger.start(child)  # idle: a sweep goes up when all of its children are down, and calls wait for its end
    return True


# --- ends and restarts


def judge_exit(ledger: Ledger, child: Child, reason: ExitReason, at_seconds: float) -> None:
    """Decide what follows from the end of a child that nobody had asked to end.

    Args:
        ledger: Of this step.
        child: As it is on the books.
        reason: How it ended.
        at_seconds: When its end arrived, which may be some time ago.
    """
    spec = child.spec
    if spec.restart == "permanent" or not is_clean(reason):
        ledger.report("child_terminated", child, reason, at_seconds=at_seconds)
    if is_restart_worthy(spec.restart, reason):
        backoff = ledger.flags.backoff
        if backoff is not None and has_recovered(backoff, at_seconds - child.started_seconds):
            child = structs.replace(child, in_a_row=0)
        restart(ledger, child, reason, at_seconds, Phase.IDLE)
        return
    ledger.leave(child)
    _shut_down_if_significant(ledger, child)


def _shut_down_if_significant(ledger: Ledger, child: Child) -> None:
    if child.spec.significant and (
        ledger.flags.auto_shutdown == "any_significant"
        or (ledger.flags.auto_shutdown == "all_significant" and not ledger.significant)
    ):
        begin_ending(ledger, SHUT_DOWN)


def judge_failed_start(ledger: Ledger, child: Child, reason: ExitReason, phase: Phase) -> None:
    """Decide what follows from a start that failed and that no caller waits for.

    Args:
        ledger: Of this step.
        child: As it is on the books.
        reason: Why it did not start.
        phase: `STUCK` if it is still there, else `IDLE`.
    """
    if ledger.phase == "starting":
        take_down(ledger, child, phase)
        begin_ending(ledger, InitFailed("child", cause=reason, child_id=child.spec.id))
    else:
        restart(ledger, child, reason, ledger.now, phase, failed=True)


def restart(  # noqa: PLR0913 - what is known of an end
    ledger: Ledger, child: Child, reason: ExitReason, at_seconds: float, phase: Phase, *, failed: bool = False
) -> None:
    """Start a child again, and its group with it; or give up, or give this child up if it has a budget of its own.

    Args:
        ledger: Of this step.
        child: As it is on the books.
        reason: How it ended, or why it did not start.
        at_seconds: When its end arrived.
        phase: `STUCK` if a failed start is still there, else `IDLE`.
        failed: A start failed, so this retry goes to the back of the queue.
    """
    flags = ledger.flags
    sweep = ledger.sweep
    if sweep is not None and sweep.course == "wait" and child.number >= sweep.low:
        # Somebody started it while its group waits for a retry, which will start it again with the rest.
        ledger.leave(child)
        return
    is_apart = flags.intensity_per == "child"
    counted, go_ahead = admit_restart(
        child.restarts if is_apart else ledger.restarts, at_seconds, flags.intensity, flags.period_seconds
    )
    if is_apart:
        child = structs.replace(child, restarts=counted)
    else:
        ledger.restarts = counted
    if not go_ahead:
        ledger.report("shutdown", child, GAVE_UP)
        take_down(ledger, child, phase)
        if is_apart:  # as the supervisor of its own would have ended: cleanly, one level up
            _shut_down_if_significant(ledger, child)
        else:
            begin_ending(ledger, GAVE_UP, culprit=Culprit(child.spec.id, reason, child.handle))
        return
    delay = 0.0 if failed else None
    if flags.backoff is not None:
        delay = wait_before_restart(flags.backoff, child.in_a_row, ledger.draw)
    child = structs.replace(child, phase=phase, restarting=True, in_a_row=child.in_a_row + 1)
    ledger.save(child)
    if ledger.is_grouped:
        low = child.number if flags.strategy == "rest_for_one" else 0
        ledger.sweep = Sweep(
            course="down", low=low, cursor=ledger.next_number, trigger=child.number, delay_seconds=delay
        )
    elif delay is None:
        ledger.start(child)
    else:
        ledger.schedule_retry(child, delay)
