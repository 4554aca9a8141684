"""`FakeClock`: ten minutes take no time, and dates repeat.

    trio.run(main, clock=FakeClock())

It moves whenever all tasks wait. It does not see threads and child processes at work, and jumps past them: a deadline passes
while a thread reads a file. `threads_hold(clock)` lets it wait for threads; tests of child processes use the real clock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import trio.testing

from agentrail.outside import RealMachine, installed
from agentrail.runtime.clock import set_now_ms

T = TypeVar("T")

THREAD_SECONDS: Final = 5.0
"""How long a thread may work without a task that moves, in real seconds, before a clock that waits for it jumps all the same."""


def FakeClock() -> trio.testing.MockClock:  # noqa: N802 - stands for a class: Trio's is final, and Trio knows no other
    """Make a clock for `trio.run` that jumps to the next deadline when there is nothing else to do.

    The dates in signals and events are derived from it; they begin at today's, or where `set_date` says.
    """
    return trio.testing.MockClock(autojump_threshold=0)


def set_date(at_ms: int = 1_700_000_000_000) -> None:
    """Let signals and events have this date, in milliseconds since 1970; inside of a Trio run.

    The same program with the same date publishes the same events, dates included.
    """
    set_now_ms(at_ms)


@contextmanager
def threads_hold(clock: trio.testing.MockClock) -> Iterator[None]:
    """Let a clock stand still while a function that was offloaded is at work: for the runs that begin in this block.

        clock = FakeClock()
        with threads_hold(clock):
            trio.run(main, clock=clock)

    It covers what the library does in threads (stores, files of the workspace, tools that are not async), not threads of your own. A
    function that works longer than `THREAD_SECONDS` is jumped past, so that a tool which hangs still meets its deadline.

    Args:
        clock: One of `FakeClock()`, for one run at a time.
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
        # Not infinite: the tests of what hangs in a thread wait for a deadline that only a jump brings.
        self._clock.autojump_threshold = THREAD_SECONDS
        try:
            return await super().offload(
                function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter
            )
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._clock.autojump_threshold = self._threshold
