"""How slow this machine is now: bounds of processor time are scaled with it."""

import time
from typing import Final

QUIET_SECONDS: Final = 0.0065
"""What `slowness` takes where nobody else works."""


def slowness() -> float:
    """Say how much slower than the machine of the figures this one is now: neighbours share its caches."""
    began_at = time.thread_time()
    sum(number * number for number in range(200_000))
    return max(1.0, (time.thread_time() - began_at) / QUIET_SECONDS)
