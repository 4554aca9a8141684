"""`FakeClock`: ten minutes take no time, and dates repeat.

    trio.run(main, clock=FakeClock())

It moves whenever all tasks wait. It does not see threads and child processes at work, and jumps past them: their tests
use the real clock.
"""

import trio.testing

from agentrail.runtime.clock import set_now_ms


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
