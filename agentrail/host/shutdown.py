"""Division of time when a host closes: one budget for the whole close. Pure."""

from typing import Final

from attrs import frozen

_TAIL_SECONDS: Final = 10.0
_STREAM_SECONDS: Final = 5.0
_REST_SECONDS: Final = 2.5

LEAST_SECONDS: Final = 1.0
"""Time for a plugin's `stop`, in seconds, when no time is left."""


@frozen(kw_only=True)
class ClosingPlan:
    """Deadlines for the phases of a close. Time that a phase does not use is left to the others.

    Attributes:
        served_by: Deadline for a server to wait for requests' hooks, so that it can close its connections in time.
    """

    cycles_by: float
    stream_seconds: float
    served_by: float
    requests_by: float
    done_by: float


def decide_closing(now: float, shutdown_timeout: float, *, has_store: bool) -> ClosingPlan:
    """Divide the time. Ten seconds or half of the total are reserved for the end and not available to cycles."""
    tail = min(shutdown_timeout / 2, _TAIL_SECONDS)
    done_by = now + shutdown_timeout
    return ClosingPlan(
        cycles_by=done_by - tail,
        stream_seconds=min(_STREAM_SECONDS, tail / 2),
        served_by=done_by - tail / 4,
        requests_by=done_by - (min(tail / 4, _REST_SECONDS) if has_store else 0.0),
        done_by=done_by,
    )
