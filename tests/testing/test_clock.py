"""`threads_hold`: a clock that jumps waits for functions that were offloaded."""

import time

import pytest
import trio

from agentrail import outside
from agentrail.testing import clock as clock_module
from agentrail.testing.clock import FakeClock, threads_hold

SECONDS = 0.2  # that a thread works, by the real clock
DEADLINE = 60.0  # virtual, and passed in no time by a clock that jumps


async def passes_a_deadline() -> bool:
    """Whether a minute is over before a fifth of a second of a thread is."""
    with trio.move_on_after(DEADLINE) as scope:
        await outside.offload(time.sleep, SECONDS, abandon_on_cancel=True)
    return scope.cancelled_caught


def test_what_works_too_long_is_jumped_past(monkeypatch):
    """A tool that hangs in a thread meets its deadline."""
    monkeypatch.setattr(clock_module, "THREAD_SECONDS", SECONDS / 10)
    with threads_hold(clock := FakeClock()):
        assert trio.run(passes_a_deadline, clock=clock)


@pytest.mark.parametrize("ends_badly", [False, True])
def test_it_jumps_again_when_the_last_thread_is_done(ends_badly):
    """Also when one raises; two at once are counted."""

    def work() -> None:
        time.sleep(SECONDS / 10)
        if ends_badly:
            raise ValueError

    async def wait() -> float:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(do)
        began_at = time.perf_counter()
        await trio.sleep(DEADLINE)
        return time.perf_counter() - began_at

    async def do() -> None:
        try:
            await outside.offload(work)
        except ValueError:
            assert ends_badly

    clock = FakeClock()
    clock.autojump_threshold = 0.01
    with threads_hold(clock):
        assert trio.run(wait, clock=clock) < clock_module.THREAD_SECONDS / 2
    assert clock.autojump_threshold == 0.01
