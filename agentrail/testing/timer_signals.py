"""A signal of a timer during a block, for code that may not end."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def timer_signal(
    number: int, timer: int, ring: Callable[[int, FrameType | None], None], seconds: float, again: float = 0.0
) -> Iterator[None]:
    """Call a handler after some seconds, and then every `again` seconds. Only the main thread gets signals."""
    before = signal.signal(number, ring)
    signal.setitimer(timer, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
