"""One alarm for many mailboxes: which is woken, when, and what is left of those that were withdrawn or replaced."""

import gc
import math
import weakref

import pytest
import trio
import trio.testing

from agentrail.runtime.session_clock import Alarm
from tests.actors.rig import on_virtual_time

TEN_YEARS = 10 * 365 * 86_400.0


class Sleeper:
    """In place of a mailbox: writes down when it is woken."""

    def __init__(self, woken: list[object], name: object = None) -> None:
        self._woken = woken
        self._name = name

    def wake(self) -> None:
        """Write it down."""
        self._woken.append((self._name, trio.current_time()))


@pytest.fixture
def woken() -> list[object]:
    """Who was woken, each with the time."""
    return []


@pytest.fixture
async def alarm(nursery):
    """An alarm that runs."""
    alarm = Alarm()
    nursery.start_soon(alarm.run)
    await trio.testing.wait_all_tasks_blocked()
    return alarm


@on_virtual_time
async def test_each_is_woken_once_at_its_earliest_time(alarm, woken):
    """Also one that is set for earlier than all others while the alarm sleeps; then it may be set for later."""
    late, moved, gone, first = (Sleeper(woken, name) for name in ("late", "moved", "gone", "first"))
    for one, at in (
        (late, 30.0),
        (moved, 20.0),
        (moved, 10.0),
        (moved, 15.0),
        (gone, 25.0),
        (gone, math.inf),
    ):
        alarm.wake_at(one, at)
    await trio.sleep_until(2)
    alarm.wake_at(first, 4.0)
    await trio.sleep_until(12)
    alarm.wake_at(moved, 40.0)
    await trio.sleep_until(60)
    assert woken == [("first", 4.0), ("moved", 10.0), ("late", 30.0), ("moved", 40.0)]


@on_virtual_time
async def test_past_and_far(alarm, woken):
    """A time that has passed wakes at once, and one in ten years then."""
    alarm.wake_at(Sleeper(woken, "far"), TEN_YEARS)
    alarm.wake_at(Sleeper(woken, "past"), -1.0)
    await trio.sleep(1)
    assert woken == [("past", 0.0)]
    await trio.sleep_until(2 * TEN_YEARS)
    assert woken == [("past", 0.0), ("far", TEN_YEARS)]


@on_virtual_time
async def test_a_thousand_in_one_millisecond_leave_others_their_turn(alarm, woken, nursery):
    """All are woken in order, and another task runs between them."""
    between: list[int] = []

    async def other() -> None:
        while True:
            between.append(len(woken))
            await trio.lowlevel.checkpoint()

    for number in range(1_000):
        alarm.wake_at(Sleeper(woken, number), 1 + number / 1e6)
    trio.lowlevel.current_clock().jump(2)
    nursery.start_soon(other)
    with trio.fail_after(1):
        while len(woken) < 1_000:
            await trio.lowlevel.checkpoint()
    assert [name for name, _ in woken] == list(range(1_000))
    assert len({0 < count < 1_000 and count for count in between}) > 5


@on_virtual_time
async def test_withdrawn_times_leave_nothing(alarm, woken):
    """A hundred thousand that are set, set for earlier and withdrawn do not make it grow, and few are still held."""
    sleepers: list[weakref.ref[Sleeper]] = []
    for number in range(100_000):
        sleeper = Sleeper(woken)
        sleepers.append(weakref.ref(sleeper))
        alarm.wake_at(sleeper, TEN_YEARS)
        alarm.wake_at(sleeper, TEN_YEARS / 2)
        alarm.wake_at(sleeper, math.inf)
        if number % 1_000 == 0:
            await trio.lowlevel.checkpoint()
    gc.collect()
    assert sum(one() is not None for one in sleepers) < 50
    await trio.sleep_until(2 * TEN_YEARS)
    assert woken == []
