"""A worker that does not report itself is up when it is started: one step of its supervisor, and the same order as ever.

Trio draws the order in which tasks have their turn, so what would be wrong every other time is tried many times.
"""

import trio
import trio.testing

from agentrail.actors.actor_handle import cell_of
from agentrail.errors import ChildStartFailed
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Shutdown
from agentrail.otp.supervision_types import ChildCounts
from tests.actors.rig import on_virtual_time, settled

TIMES = 40
NOTHING = ChildCounts(specs=0, active=0, supervisors=0, workers=0)


@on_virtual_time
async def test_a_caller_that_has_gone_gets_no_child(stage):
    """It went before its call was taken: what it started never takes a step, and nothing of it stays."""
    begun = []

    async def note():
        begun.append("begun")

    async with stage.open() as supervisor:
        for _ in range(TIMES):
            with trio.CancelScope() as scope:
                scope.cancel()
                await supervisor.start_child(ChildSpec("x", note))
            await settled()
            assert await supervisor.count_children() == NOTHING
    assert begun == []
    assert stage.kinds() == []


async def start_and_stop(supervisor, start):
    """Start a child and stop it, both before the supervisor looks; give what the one who starts is told."""
    told = []

    async def ask():
        try:
            told.append(await supervisor.start_child(ChildSpec("x", start, "temporary")))
        except ChildStartFailed as error:
            told.append(error)

    mailbox = cell_of(supervisor).core.mailbox
    mailbox.hold()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await settled()
            nursery.start_soon(supervisor.terminate_child, "x")
            await settled()
            mailbox.release()
    assert await supervisor.count_children() == NOTHING
    return told


@on_virtual_time
async def test_a_stop_right_behind_a_start_answers_both(stage):
    """The one who starts learns that it was up, and the one who stops that it is gone; the child took no step."""
    begun = []

    async def note():
        begun.append("begun")

    async with stage.open() as supervisor:
        (started,) = await start_and_stop(supervisor, note)
        assert (begun, started.handle.exit_reason) == ([], Shutdown())
    assert stage.kinds() == []
