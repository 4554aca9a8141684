"""How the time is shared when a host is closed: one budget for all of it, from whatever side it is closed, and however often.

Pure: instants go in and come out. What is done in each part is not said here.
"""

from typing import Final

from attrs import frozen

_TAIL_SECONDS: Final = 10.0
_STREAM_SECONDS: Final = 5.0
_REST_SECONDS: Final = 2.5

LEAST_SECONDS: Final = 1.0
"""What a plugin has for its `stop` when there is no time left."""


@frozen(kw_only=True)
class ClosingPlan:
    """Until when each part of a close may last; what comes early leaves its time to the others.

    Attributes:
        cycles_by: Until when cycles are waited for, `drain_delay` before that included.
        stream_seconds: How long streams may take to read their last word.
        served_by: Until when a server waits for what requests owe to plugins, so that it can close its connections in time.
        requests_by: Until when what requests owe to plugins is done; then it is cut.
        done_by: Until when the rest is: sessions, plugins.
    """

    cycles_by: float
    stream_seconds: float
    served_by: float
    requests_by: float
    done_by: float


def decide_closing(now: float, shutdown_timeout: float, *, has_store: bool) -> ClosingPlan:
    """Share the time out.

    The last part, ten seconds or half of it, is kept from the cycles, however long they may take: streams that end without a word and
    sessions that are cut where they are would be worse than an answer more.
    """
    tail = min(shutdown_timeout / 2, _TAIL_SECONDS)
    done_by = now + shutdown_timeout
    return ClosingPlan(
        cycles_by=done_by - tail,
        stream_seconds=min(_STREAM_SECONDS, tail / 2),
        served_by=done_by - tail / 4,
        requests_by=done_by - (min(tail / 4, _REST_SECONDS) if has_store else 0.0),
        done_by=done_by,
    )
