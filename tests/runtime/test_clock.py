"""The clocks of the shell: virtual dates, and timers that fire in the order of their times, between the messages."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from agentrail.actors.mailbox import Mailbox
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import TimerFired
from agentrail.runtime.clock import MAX_IN_A_ROW, SessionTimers, now_ms
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


async def letters(timers: SessionTimers, mailbox: Mailbox[str], count: int) -> list[str]:
    """Take so many letters; a timer is shown by its id."""
    taken: list[str] = []

    def handle(letter: str | TimerFired) -> bool:
        taken.append(letter.effect_id if isinstance(letter, TimerFired) else letter)
        return len(taken) < count

    await timers.serve(mailbox, Actor(handle))
    return taken


@on_virtual_time
async def test_dates_are_those_of_the_clock_that_everything_waits_by():
    """A day of virtual time is a day on the clock of signals, to the millisecond, and it never goes back."""
    before = now_ms()
    await trio.sleep(86_400)
    assert now_ms() - before == 86_400_000


@on_virtual_time
async def test_a_timer_fires_at_its_time(timers, mailbox):
    """Not before, with the date of that moment, and with a random number for whoever wants to spread retries."""
    began = now_ms()
    timers.set(W1, began + 120_000)
    taken: list[object] = []
    await timers.serve(mailbox, Actor(taken.append))
    (fired,) = taken
    assert isinstance(fired, TimerFired)
    assert (fired.effect_id, fired.at_ms) == (W1, began + 120_000)
    assert 0 <= fired.jitter < 1


@on_virtual_time
async def test_a_timer_fires_once(timers, mailbox):
    """When it has fired it is over: what comes next is the next message."""
    timers.set(W1, now_ms() + 10)
    assert await letters(timers, mailbox, 1) == [W1]
    mailbox.put_nowait("later")
    assert await letters(timers, mailbox, 1) == ["later"]


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
async def test_a_message_does_not_wait_for_a_timer(timers, mailbox):
    """What is sent before a timer's time is taken before it, and the timer still fires at its own time."""
    began = now_ms()
    timers.set(W1, began + 10_000)
    mailbox.put_nowait("now")
    assert await letters(timers, mailbox, 1) == ["now"]
    assert now_ms() == began
    assert await letters(timers, mailbox, 1) == [W1]
    assert now_ms() == began + 10_000


@on_virtual_time
async def test_a_message_wakes_a_loop_that_waits_for_a_timer(timers, mailbox, nursery):
    """A loop that sleeps until a timer hears what is sent meanwhile, at once."""
    began = now_ms()
    timers.set(W1, began + 10_000)

    async def send_later() -> None:
        await trio.sleep(4)
        mailbox.put_nowait("in between")

    nursery.start_soon(send_later)
    assert await letters(timers, mailbox, 1) == ["in between"]
    assert now_ms() == began + 4_000


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
async def test_a_timer_whose_time_has_passed_fires_at_once(timers, mailbox):
    """As after a restart, when a question had expired while the session was down."""
    began = now_ms()
    timers.set(W1, began - 60_000)
    assert await letters(timers, mailbox, 1) == [W1]
    assert now_ms() == began


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
        await timers.serve(mailbox, Actor(handle))
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
    await timers.serve(mailbox, Actor(handle))
    assert turns - began >= 18  # twenty rows; which task of a batch comes first is drawn


@on_virtual_time
async def test_the_timers_of_one_session_are_no_other_ones(timers, mailbox):
    """Sessions without any share an empty table; what is set is in a table of its own, also when there was none again."""
    other = SessionTimers()
    for _ in range(2):
        timers.set(W1, now_ms() + 10)
        other.cancel(W1)
        with trio.fail_after(1):
            assert await letters(timers, mailbox, 1) == [W1]
        timers.cancel(W1)


@on_virtual_time
async def test_as_long_as_something_is_at_work_one_scope_does_for_all_waits(
    timers, mailbox, nursery, monkeypatch
):
    """A stream of a hundred deltas, each waited for beside the limit of its silence, costs one, and an idle session holds none."""
    made = 0

    scope = trio.CancelScope

    def counted(**options: float) -> object:
        nonlocal made
        made += 1
        return scope(**options)

    seen: list[object] = []

    def handle(letter: object) -> bool:
        if isinstance(letter, TimerFired):
            timers.set(W1, now_ms() + 1_000)
        seen.append(letter)
        return len(seen) < 110

    async def stream() -> None:
        for number in range(100):
            await trio.sleep(0.01)
            timers.set(W1, now_ms() + 1_000)
            mailbox.put_nowait(str(number))

    timers.set(W1, now_ms() + 1_000)
    nursery.start_soon(stream)
    monkeypatch.setattr(trio, "CancelScope", counted)
    began = now_ms()
    await timers.serve(mailbox, Actor(handle, is_idle=False))
    monkeypatch.undo()
    assert [letter for letter in seen if isinstance(letter, str)] == [*map(str, range(100))]
    assert now_ms() - began == 1_000 + 10 * 1_000  # each timer at its time
    # A sleep is one of its own; and two woke it for limits that the stream had put off.
    assert made - 100 == 1 + 10 + 2
