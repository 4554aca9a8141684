"""The mailbox: one order, a bound for outsiders, and others get their turn."""

import threading

import pytest
import trio
import trio.testing

from agentrail.actors.dead_letters import dead_letters
from agentrail.actors.deadlines import take_in_turn
from agentrail.actors.mailbox import Mailbox
from agentrail.errors import MailboxFull
from agentrail.otp.exits import Normal


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
        assert [await take_in_turn(mailbox, None) for _ in range(2)] == ["first", "second"]
    assert mailbox.statistics().waiting == 0


@pytest.mark.scenario("S-209")
async def test_close_lets_all_go_who_wait_for_room():
    """Each of many senders goes on; what they send, and all that comes later, is a dead letter."""
    mailbox = Mailbox(capacity=1, overflow="block")
    mailbox.put_nowait("first")
    before = dead_letters().count
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(mailbox.put, number)
            await trio.testing.wait_all_tasks_blocked()
            mailbox.close(Normal())
    assert dead_letters().count == before + 5
    mailbox.put_nowait("later")
    mailbox.put_notice("later")
    mailbox.put_control("later")
    assert dead_letters().count == before + 6
    assert mailbox.statistics().waiting == 0


@pytest.mark.scenario("S-209")
async def test_room_beyond_the_bound_wakes_nobody():
    """What may not be refused goes in although it is full; `put` waits for room, in order, and `put_nowait` is refused."""
    mailbox = Mailbox(capacity=1, overflow="block")
    mailbox.put_nowait("first")
    with pytest.raises(MailboxFull):
        mailbox.put_nowait("refused")
    mailbox.put_nowait("owed", bounded=False)
    assert mailbox.statistics().user.waiting == 2
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for name in ("second", "third"):
                nursery.start_soon(mailbox.put, name)
                await trio.testing.wait_all_tasks_blocked()
            taken = [await take_in_turn(mailbox, None)]
            await trio.testing.wait_all_tasks_blocked()
            assert mailbox.statistics().user.waiting == 1
            taken += [await take_in_turn(mailbox, None) for _ in range(3)]
    assert taken == ["first", "owed", "second", "third"]


async def test_a_message_from_a_thread_of_its_own_is_refused_and_the_reader_goes_on():
    """As with all of Trio. The reader wakes up for the next message of its own run."""
    mailbox = Mailbox()
    taken = []

    async def read():
        taken.append(await take_in_turn(mailbox, None))
        taken.append(await take_in_turn(mailbox, None))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            errors = []

            def send():
                try:
                    mailbox.put_nowait("foreign")
                except RuntimeError as error:
                    errors.append(error)

            thread = threading.Thread(target=send)
            thread.start()
            thread.join()
            assert "async context" in str(errors)
            mailbox.put_nowait("own")
    assert taken == ["foreign", "own"]


@pytest.mark.scenario("S-209")
async def test_the_oldest_is_dropped_by_its_place():
    """Never a notice, and not by comparing: messages are other people's objects, and some cannot be compared."""

    class Touchy:
        def __eq__(self, other):
            raise TypeError

        __hash__ = None

    mailbox = Mailbox(capacity=2, overflow="drop_oldest")
    messages = [Touchy() for _ in range(3)]
    mailbox.put_notice(messages[0])
    for message in messages:
        mailbox.put_nowait(message)
    got = [await take_in_turn(mailbox, None) for _ in range(3)]
    assert [id(message) for message in got] == [id(messages[place]) for place in (0, 1, 2)]
    assert (mailbox.statistics().dropped, mailbox.statistics().handled, dead_letters().count) == (1, 3, 1)
