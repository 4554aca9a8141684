"""The edge of ports that await."""

import pytest
import trio

from agentrail.errors import ErrorInfo
from agentrail.runtime.crashes import crash_edge


def as_data(error: Exception) -> ErrorInfo:
    """Make data of an error."""
    return ErrorInfo(code="crashed", message=repr(error))


def test_an_interrupt_is_nobodys_bug():
    """It leaves as it is, and out of a group without the crashes beside it."""
    with pytest.raises(KeyboardInterrupt), crash_edge(as_data):
        raise KeyboardInterrupt
    group = BaseExceptionGroup("", [KeyboardInterrupt(), ValueError("x")])
    with pytest.raises(KeyboardInterrupt), crash_edge(as_data):
        raise group


async def test_a_crash_while_it_is_cancelled_has_nobody_left_to_tell():
    """The cancellation is all that leaves."""

    async def fails_to_clean_up(task_status):
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            message = "x"
            raise ValueError(message)

    with trio.CancelScope() as scope, crash_edge(as_data):
        async with trio.open_nursery() as nursery:
            await nursery.start(fails_to_clean_up)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
