"""The clocks of the shell: virtual dates, and timers that fire in the order of their times, between the messages."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from agentrail.actors.mailbox import Mailbox
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import TimerFired
from agentrail.runtime.session_clock import MAX_IN_A_ROW, Alarm, SessionTimers, now_ms
from tests.runtime.rig import on_virtual_time


class Actor:
    """One whose messages and timers a function is given."""

    def __init__(self, handle: Callable[[Any], object], *, is_idle: bool = True) -> None:
        self._handle = handle
        self.is_idle = is_idle

    def handle(self, item: object) -> bool:
        """Give it on; what the function says decides whether it was the last one."""
        return bool(self._handle(item))


W1, W2, W3 = map(EffectId, ("w1", "w2", "w3"))


@pytest.fixture
def timers() -> SessionTimers:
    """A session's timers."""
    return SessionTimers()


@pytest.fixture
def mailbox() -> Mailbox[str]:
    """A session's mailbox, with texts for messages."""
    return Mailbox()


async def serve(timers: SessionTimers, mailbox: Mailbox[str], actor: Actor) -> None:
    """Serve an actor, with an alarm of its own."""
    alarm: Alarm[Mailbox[str]] = Alarm()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(alarm.run)
        await timers.serve(mailbox, actor, alarm)
        nursery.cancel_scope.cancel()


async def letters(timers: SessionTimers, mailbox: Mailbox[str], count: int) -> list[str]:
    """Take so many letters; a timer is shown by its id."""
    taken: list[str] = []

    def handle(letter: str | TimerFired) -> bool:
        taken.append(letter.effect_id if isinstance(letter, TimerFired) else letter)
        return len(taken) < count

    await serve(timers, mailbox, Actor(handle))
    return taken


@on_virtual_time
async def test_many_timers_fire_in_the_order_of_their_times(timers, mailbox):
    """However they were set."""
    began = now_ms()
    for effect_id, delay_ms in ((W2, 2_000), (W3, 3_000), (W1, 1_000)):
        timers.set(effect_id, began + delay_ms)
    assert await letters(timers, mailbox, 3) == [W1, W2, W3]
    assert now_ms() == began + 3_000


@on_virtual_time
async def test_a_cancelled_timer_never_fires(timers, mailbox):
    """The others do; cancelling one that has fired, or never was, is fine."""
    began = now_ms()
    timers.set(W1, began + 1_000)
    timers.set(W2, began + 2_000)
    timers.cancel(W1)
    assert await letters(timers, mailbox, 1) == [W2]
    timers.cancel(W2)
    timers.cancel(W3)
    assert now_ms() == began + 2_000


@on_virtual_time
async def test_timers_that_are_due_come_before_what_waits(timers, mailbox):
    """Whoever sent after a timer's time came later, so the timer is heard first; messages keep their order."""
    began = now_ms()
    timers.set(W1, began + 1_000)
    timers.set(W2, began + 2_000)
    await trio.sleep(5)
    mailbox.put_nowait("one")
    mailbox.put_nowait("two")
    assert await letters(timers, mailbox, 4) == [W1, W2, "one", "two"]


@on_virtual_time
async def test_whoever_is_cancelled_while_waiting_loses_nothing(timers, mailbox):
    """The timer stays set and the message where it is; what was handled is not given a second time."""
    timers.set(W1, now_ms() + 10_000)
    with trio.move_on_after(1) as waited:
        await letters(timers, mailbox, 1)
    assert waited.cancelled_caught
    assert await letters(timers, mailbox, 1) == [W1]

    timers.set(W2, now_ms() + 10_000)
    heard: list[str] = []
    with trio.CancelScope() as scope:

        def handle(letter: str | TimerFired) -> bool:
            heard.append(str(letter))
            scope.cancel()
            return True

        for number in range(2 * MAX_IN_A_ROW):
            mailbox.put_nowait(str(number))
        await serve(timers, mailbox, Actor(handle))
    assert scope.cancelled_caught
    rest = await letters(timers, mailbox, 2 * MAX_IN_A_ROW - len(heard) + 1)
    assert [*heard, *rest] == [*map(str, range(2 * MAX_IN_A_ROW)), W2]


@pytest.mark.parametrize("timer_ms", [None, 60_000])
@on_virtual_time
async def test_a_full_mailbox_does_not_hold_the_loop(timers, mailbox, nursery, timer_ms):
    """After sixty-four messages in a row others have their turn, also where each message brings the next one."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    nursery.start_soon(other)
    if timer_ms is not None:
        timers.set(W1, now_ms() + timer_ms)
    began = turns
    handled = 0

    def handle(_: object) -> bool:
        nonlocal handled
        handled += 1
        mailbox.put_nowait("one more")  # so there is always one
        return bool(handled < 20 * MAX_IN_A_ROW)

    mailbox.put_nowait("the first")
    await serve(timers, mailbox, Actor(handle))
    assert turns - began >= 18  # twenty rows; which task of a batch comes first is drawn
