"""The mailbox: one order, a bound for outsiders, and others get their turn."""

import itertools

import pytest
import trio
import trio.testing

from agentrail.actors.mailbox import Mailbox, MailboxStatistics, dead_letters
from agentrail.errors import InvalidSpec, MailboxFull
from agentrail.otp.exits import Normal


async def test_messages_come_out_in_the_order_in_which_they_came():
    """Whoever put them, and whether they count or not."""
    mailbox = Mailbox(capacity=10)
    mailbox.put_nowait("one")
    mailbox.put_notice("two")
    mailbox.put_nowait("three")
    assert [await mailbox.get() for _ in range(3)] == ["one", "two", "three"]


async def test_a_reader_waits_for_the_first_message():
    """`get` on an empty mailbox parks its task and wakes it with the message."""
    mailbox = Mailbox()
    got = []

    async def read() -> None:
        got.append(await mailbox.get())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.put_nowait("here")
    assert got == ["here"]


def test_outsiders_meet_a_bound():
    """`MailboxFull` tells the sender how many wait; nothing that was accepted is lost."""
    mailbox = Mailbox(capacity=2)
    mailbox.put_nowait(1)
    mailbox.put_nowait(2)
    with pytest.raises(MailboxFull, match="2 messages wait already, at most 2 may: try again later"):
        mailbox.put_nowait(3)
    assert mailbox.statistics() == MailboxStatistics(waiting=2, high_water=2, accepted=2, rejected=1)


def test_notices_meet_no_bound():
    """What the actor is owed always fits, and takes no place from outsiders."""
    mailbox = Mailbox(capacity=1)
    for number in range(1000):
        mailbox.put_notice(number)
    mailbox.put_nowait("from outside")
    assert mailbox.statistics().waiting == 1001


async def test_taking_a_message_makes_room():
    """Only messages from outside free a place for the next."""
    mailbox = Mailbox(capacity=1)
    mailbox.put_notice("notice")
    mailbox.put_nowait("one")
    await mailbox.get()
    with pytest.raises(MailboxFull):
        mailbox.put_nowait("two")
    await mailbox.get()
    mailbox.put_nowait("two")
    assert mailbox.statistics() == MailboxStatistics(waiting=1, high_water=2, accepted=3, rejected=1)


async def test_a_cancelled_get_has_taken_nothing():
    """Cancelled while it waits, or before it begins: the next reader gets the message."""
    mailbox = Mailbox()
    with trio.CancelScope() as waiting:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mailbox.get)
            await trio.testing.wait_all_tasks_blocked()
            waiting.cancel()
    mailbox.put_nowait("kept")
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.get()
    assert scope.cancelled_caught
    assert await mailbox.get() == "kept"


async def test_a_full_mailbox_does_not_starve_others():
    """Another task gets its turn at least once in 64 messages."""
    mailbox = Mailbox(capacity=1000)
    for number in range(1000):
        mailbox.put_nowait(number)
    turns = []
    reading = trio.CancelScope()

    async def count_turns() -> None:
        with reading:
            while True:
                turns.append(mailbox.statistics().waiting)
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        for _ in range(1000):
            await mailbox.get()
        reading.cancel()
    gaps = [before - after for before, after in itertools.pairwise(turns)]
    # One turn less at either end: who comes first there is drawn too.
    assert len(turns) >= 1000 // 64 - 2
    # Twice, because Trio runs those who are ready in random order: the reader last, and then first.
    assert max(gaps) <= 2 * 64


async def test_control_overtakes():
    """A stop is read before ten thousand messages that wait, and takes no place from them."""
    mailbox = Mailbox(capacity=10_000)
    for number in range(10_000):
        mailbox.put_nowait(number)
    mailbox.put_control("stop")
    mailbox.put_control("and then")
    assert [await mailbox.get() for _ in range(3)] == ["stop", "and then", 0]


@pytest.mark.scenario("S-209")
async def test_full_and_drop_oldest():
    """The oldest message from outside makes room, never a notice; it is counted, and a dead letter."""
    mailbox = Mailbox(capacity=2, overflow="drop_oldest")
    mailbox.put_notice("notice")
    for number in range(3):
        mailbox.put_nowait(number)
    assert [await mailbox.get() for _ in range(3)] == ["notice", 1, 2]
    assert mailbox.statistics().dropped == 1
    assert dead_letters().count == 1
    assert mailbox.statistics().handled == 3


@pytest.mark.scenario("S-209")
async def test_full_and_dead_letter():
    """The new message is a dead letter, and the sender is not told."""
    mailbox = Mailbox(capacity=2, overflow="dead_letter")
    for number in range(3):
        mailbox.put_nowait(number)
    assert [await mailbox.get() for _ in range(2)] == [0, 1]
    assert (mailbox.statistics().dropped, dead_letters().count) == (1, 1)


@pytest.mark.scenario("S-209")
async def test_full_and_block():
    """`put` waits for room, senders in their order; `put_nowait` is refused."""
    mailbox = Mailbox(capacity=1, overflow="block")
    mailbox.put_nowait("first")
    with pytest.raises(MailboxFull):
        mailbox.put_nowait("refused")
    async with trio.open_nursery() as nursery:
        for name in ("second", "third"):
            nursery.start_soon(mailbox.put, name)
            await trio.testing.wait_all_tasks_blocked()
        assert mailbox.statistics().waiting == 1
        assert [await mailbox.get() for _ in range(3)] == ["first", "second", "third"]


@pytest.mark.scenario("S-209")
async def test_cancelled_put_has_put_nothing():
    """Whether it waited for room or had not begun; the place that it waited for goes to the next."""
    mailbox = Mailbox(capacity=1, overflow="block")
    mailbox.put_nowait("first")
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(mailbox.put, "second")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await mailbox.put("never")
        assert [await mailbox.get() for _ in range(2)] == ["first", "second"]
    assert mailbox.statistics().waiting == 0


async def test_close_lets_nobody_wait():
    """Senders that waited for room go on; what they send, and all that comes later, is a dead letter."""
    mailbox = Mailbox(capacity=1, overflow="block")
    mailbox.put_nowait("first")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.put, "second")
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close(Normal())
    before = dead_letters().count
    mailbox.put_nowait("later")
    mailbox.put_notice("later")
    mailbox.put_control("later")
    assert dead_letters().count == before + 1
    assert mailbox.statistics().waiting == 0


async def test_lanes_are_counted():
    """How many wait in each, and the most that ever did."""
    mailbox = Mailbox(capacity=5)
    for _ in range(3):
        mailbox.put_nowait("user")
    mailbox.put_notice("notice")
    mailbox.put_control("control")
    assert await mailbox.get() == "control"
    assert await mailbox.get() == "user"
    lanes = mailbox.statistics()
    assert [(lane.waiting, lane.high_water) for lane in (lanes.user, lanes.notices, lanes.control)] == [
        (2, 3),
        (1, 1),
        (0, 1),
    ]


@pytest.mark.parametrize("options", [{"capacity": 0}, {"capacity": True}, {"overflow": "explode"}], ids=str)
def test_a_mailbox_that_cannot_be(options):
    """A bound below 1 and an unknown policy are refused."""
    with pytest.raises(InvalidSpec) as caught:
        Mailbox(**options)
    assert caught.value.code == "invalid_mailbox"


@pytest.mark.scenario("S-209")
async def test_close_lets_all_go_who_wait_for_room():
    """Each of many senders goes on, and what it sends is a dead letter: none waits for a room that never comes."""
    mailbox = Mailbox(capacity=1, overflow="block")
    mailbox.put_nowait("first")
    before = dead_letters().count
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(mailbox.put, number)
            await trio.testing.wait_all_tasks_blocked()
            mailbox.close(Normal())
    assert dead_letters().count == before + 5


@pytest.mark.scenario("S-209")
async def test_room_beyond_the_bound_wakes_nobody():
    """What may not be refused goes in although it is full; senders wait until there is room again."""
    mailbox = Mailbox(capacity=1, overflow="block")
    mailbox.put_nowait("first")
    mailbox.put_nowait("owed", bounded=False)
    assert mailbox.statistics().user.waiting == 2
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for name in ("second", "third"):
                nursery.start_soon(mailbox.put, name)
                await trio.testing.wait_all_tasks_blocked()
            taken = [await mailbox.get()]
            await trio.testing.wait_all_tasks_blocked()
            assert mailbox.statistics().user.waiting == 1
            taken += [await mailbox.get() for _ in range(3)]
    assert taken == ["first", "owed", "second", "third"]


@pytest.mark.scenario("S-209")
async def test_the_oldest_is_dropped_by_its_place():
    """Not by comparing: messages are other people's objects, and some cannot be compared."""

    class Touchy:
        def __eq__(self, other):
            raise TypeError

        __hash__ = None

    mailbox = Mailbox(capacity=2, overflow="drop_oldest")
    messages = [Touchy() for _ in range(3)]
    mailbox.put_notice(messages[0])
    for message in messages:
        mailbox.put_nowait(message)
    got = [await mailbox.get() for _ in range(3)]
    assert [id(message) for message in got] == [id(messages[place]) for place in (0, 1, 2)]


async def test_the_way_of_a_message_stands_beside_it():
    """`via` is that of the message taken last; a notice, and what came directly, has none."""
    mailbox = Mailbox()
    mailbox.put_nowait("one", via="address")
    mailbox.put_nowait("two")
    mailbox.put_notice("three")
    seen = [(await mailbox.get(), mailbox.via) for _ in range(3)]
    assert seen == [("one", "address"), ("two", None), ("three", None)]
