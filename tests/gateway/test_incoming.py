"""Bodies are bounded while they come: in size, in time, and all together."""

import pytest
import trio

from agentrail.gateway.request_parser import BodyReader, CallerLeft
from tests.runtime.rig import on_virtual_time

LEFT = {"type": "http.disconnect"}


def piece(body, *, more=True):
    """A part of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


def coming(*messages, every=0.0):
    """A connection on which these come, one after so many seconds; then nothing."""
    waiting = list(messages)

    async def receive():
        await trio.sleep(every)
        if not waiting:
            await trio.sleep_forever()
        return waiting.pop(0)

    receive.waiting = waiting
    return receive


@on_virtual_time
async def test_who_leaves_in_the_middle_is_not_answered():
    """What had come is forgotten."""
    reader = BodyReader()
    with pytest.raises(CallerLeft):
        await reader.read(coming(piece(b"x"), LEFT), {}, 100)
    assert reader.held_bytes == 0
