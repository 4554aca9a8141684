"""One error leaves a nursery, in place of a group: that of its block before a cancellation."""

import weakref

import pytest
import trio

from agentrail.actors.deferred_error import ungrouped
from tests.garbage import without_collector


class Wrong(Exception):
    """An error of a block."""


async def leave_with(error):
    """Leave the block of a nursery, whose task is cancelled together with it."""
    with ungrouped():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                if error is not None:
                    raise error


async def cancelled_with(error):
    """Cancel such a block, and return what left it."""
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await leave_with(error)
        except BaseException as left:  # noqa: ASYNC103, BLE001 - what leaves it is looked at
            return left
    return None


@pytest.mark.parametrize("error", [Wrong(), ExceptionGroup("of the block", [Wrong(), KeyError()])], ids=str)
async def test_an_error_of_the_block_comes_before_the_cancellation(error):
    """As it is, also if it is a group of its own."""
    assert await cancelled_with(error) is error


async def test_a_cancellation_is_not_in_a_group():
    """`except trio.Cancelled` catches it."""
    assert type(await cancelled_with(None)) is trio.Cancelled


async def test_an_error_of_a_task_is_raised_as_it_is():
    """It ends the block."""
    error = Wrong()

    async def fail():
        raise error

    async def wait_for_it():
        with ungrouped():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)
                await trio.sleep_forever()

    with pytest.raises(Wrong) as raised:
        await wait_for_it()
    assert raised.value is error


async def test_a_block_without_an_error_raises_none():
    """Nothing is raised, and its result stays."""
    with ungrouped():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.checkpoint)


async def fail_in_a_nursery():
    with ungrouped():
        async with trio.open_nursery():
            raise Wrong


async def test_its_error_is_freed_without_the_collector():
    """It refers neither to the group nor to a frame that refers to it."""
    known = None
    with without_collector():
        try:
            await fail_in_a_nursery()
        except Wrong as error:
            known = weakref.ref(error)
        await trio.lowlevel.checkpoint()
        assert known is not None
        assert known() is None
