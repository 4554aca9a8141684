"""The mailbox: one order, a bound for outsiders, and others get their turn."""

import itertools

import pytest
import trio
import trio.testing

from agentrail.actors.mailbox import Mailbox, MailboxStatistics
from agentrail.errors import MailboxFull


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
