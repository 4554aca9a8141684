"""How long to wait before a server is tried again. Pure."""

from typing import Final

FIRST_SECONDS: Final = 0.25
MOST_SECONDS: Final = 10.0

STEADY_SECONDS: Final = 5.0
"""How long a connection has to last for the next attempt to count as the first one again."""

_MOST_DOUBLINGS: Final = 16


def reconnect_seconds(attempt: int, jitter: float, *, asked: float | None = None) -> float:
    """Say how long to wait before an attempt."""
    doubled = FIRST_SECONDS * float(1 << min(attempt, _MOST_DOUBLINGS))
    delay = min(doubled, MOST_SECONDS) * (0.5 + jitter / 2)
    return delay if asked is None else max(delay, min(max(asked, 0.0), 60.0))
