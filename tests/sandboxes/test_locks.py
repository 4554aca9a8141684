"""One after another for each key, in the order in which they came."""

import trio
from trio.testing import wait_all_tasks_blocked

from agentrail.sandboxes.locks import KeyedLocks


async def test_one_key_is_held_by_one_in_the_order_of_asking():
    """And a lock that nobody wants any more is forgotten."""
    locks, seen = KeyedLocks(), []

    async def hold(key: str, number: int) -> None:
        async with locks.hold(key):
            seen.append((key, number))
            await trio.lowlevel.checkpoint()
            seen.append((key, -number))

    async with trio.open_nursery() as nursery, locks.hold("a"):
        for number in (1, 2, 3):
            nursery.start_soon(hold, "a", number)
            await wait_all_tasks_blocked()
        await hold("b", 9)
        assert len(locks) == 1
    assert seen == [("b", 9), ("b", -9), ("a", 1), ("a", -1), ("a", 2), ("a", -2), ("a", 3), ("a", -3)]
    assert len(locks) == 0


async def test_who_stops_waiting_has_never_asked():
    """The next one gets it all the same."""
    locks = KeyedLocks()
    async with locks.hold("a"):
        with trio.move_on_after(0):
            async with locks.hold("a"):
                raise AssertionError
    with trio.fail_after(5):
        async with locks.hold("a"):
            assert len(locks) == 1
    assert len(locks) == 0
