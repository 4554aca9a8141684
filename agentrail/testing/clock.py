"""`FakeClock`: ten minutes take no time, and dates repeat.

    trio.run(main, clock=FakeClock())

It advances whenever all tasks wait. It does not see working threads and child processes, and jumps past them: a deadline
passes while a thread reads a file. `threads_hold(clock)` makes it wait for threads. Tests of child processes need the real clock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import trio.testing

from agentrail.outside import RealMachine, installed
from agentrail.runtime.session_clock import set_now_ms

T = TypeVar("T")

THREAD_SECONDS: Final = 5.0
"""Real seconds that a thread may work without a task making progress, before a clock that waits for it jumps anyway."""


def FakeClock() -> trio.testing.MockClock:  # noqa: N802 - named like a class: Trio's is final, and Trio accepts no other
    """Create a clock for `trio.run` that jumps to the next deadline when all tasks are waiting.

    The dates in signals and events are derived from it. They start at today's date, or at the date of `set_date`.
    """
    return trio.testing.MockClock(autojump_threshold=0)


def set_date(at_ms: int = 1_700_000_000_000) -> None:
    """Set the date of signals and events, in milliseconds since 1970. Call this inside of a Trio run.

    The same program with the same date publishes the same events, dates included.
    """
    set_now_ms(at_ms)


@contextmanager
def threads_hold(clock: trio.testing.MockClock) -> Iterator[None]:
    """Stop a clock while an offloaded function is running, for the runs that start in this block.

        clock = FakeClock()
        with threads_hold(clock):
            trio.run(main, clock=clock)

    It covers the library's own threads (stores, files of the workspace, tools that are not async), not yours. The clock jumps
    past a function that runs longer than `THREAD_SECONDS`, so that a hanging tool still meets its deadline.

    Args:
        clock: A `FakeClock()`, for one run at a time.
    """
    with installed(_MachineThatHolds(clock)):
        yield


class _MachineThatHolds(RealMachine):
    __slots__ = ("_at_work", "_clock", "_threshold")

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self._clock = clock
        self._at_work = 0
        self._threshold = 0.0

    async def offload(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        if not self._at_work:
            self._threshold = self._clock.autojump_threshold
        self._at_work += 1
        # Not infinite: tests of functions that hang in a thread wait for a deadline that only a jump reaches.
        self._clock.autojump_threshold = THREAD_SECONDS
        try:
            return await super().offload(
                function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter
            )
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._clock.autojump_threshold = self._threshold
