"""Restart decisions: whether a child is restarted, how often, and after which wait."""

from bisect import bisect_left, insort

from agentrail.otp.child_specs import Backoff, ChildSpec, Restart, ShutdownTime
from agentrail.otp.exits import ExitReason, InitFailed, Killed, Normal, Shutdown, Stuck, is_clean


def admit_restart(
    restarts: tuple[float, ...], now: float, intensity: int, period: float
) -> tuple[tuple[float, ...], bool]:
    """Count one more restart. Return the restarts of the period and whether they are within the budget.

    Source: OTP, supervisor, "maximum restart intensity"; OTP counts whole seconds.
    """
    # A binary search, not a filter: a loop under a huge intensity restarts thousands of times within one
    # period.
    start = bisect_left(restarts, x=True, key=lambda then: now - then <= period)
    kept = list(restarts[start:])
    insort(kept, now)  # a queued exit may be older than the latest restart
    return tuple(kept[-intensity - 1 :]), len(kept) <= intensity


def wait_before_restart(backoff: Backoff, in_a_row: int, draw: float) -> float:
    """Return the wait in seconds after `in_a_row` restarts. `draw` is a random number in [0, 1)."""
    try:
        seconds = backoff.initial_seconds * backoff.factor**in_a_row
    except OverflowError:
        seconds = backoff.maximum_seconds
    return min(backoff.maximum_seconds, seconds) * (1 + backoff.jitter * draw)


def has_recovered(backoff: Backoff, ran_seconds: float) -> bool:
    """Return whether a child ran long enough to reset its count of restarts in a row."""
    enough = backoff.reset_after_seconds
    if enough is None:
        enough = (backoff.initial_seconds + backoff.maximum_seconds) / 2
    return ran_seconds >= enough


def is_restart_worthy(restart: Restart, reason: ExitReason) -> bool:
    """Return whether a child of this restart type is restarted after this end."""
    return restart == "permanent" or (restart == "transient" and not is_clean(reason))


def is_expected_stop(spec: ChildSpec, asked: ShutdownTime | None, reason: ExitReason) -> bool:
    """Return whether a stopped child ended as expected. Any other end is a `shutdown_error`."""
    match reason:
        case Shutdown(detail=None):
            return True
        case Killed():
            return (spec.shutdown_seconds if asked is None else asked) == "brutal_kill"
        case Normal() | Shutdown():
            return spec.restart != "permanent"
        case _:
            return False


def left_behind(reason: ExitReason) -> Stuck | None:
    """Return the process that a failed start left behind: it was killed, did not obey, and will exit later."""
    return reason.cause if isinstance(reason, InitFailed) and isinstance(reason.cause, Stuck) else None


def is_cancelled_start(reason: ExitReason) -> bool:
    """Return whether a start ended because it was cancelled, so that there is nothing to report."""
    return isinstance(reason, InitFailed) and reason.why in ("cancelled", "stopped")
