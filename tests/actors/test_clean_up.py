"""Clean-up code has its time, whatever cancels the actor around it, and then it is cut (2.6, 2.9)."""

import gc
import math
import weakref
from contextlib import suppress

import pytest
import trio
from attrs import define, field

from agentrail.actors import cleanup_scope, worker
from agentrail.actors.actor_handle import ActorCell
from agentrail.actors.monitor import link, monitor
from agentrail.errors import SupervisorGaveUp
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Killed, Shutdown
from tests.actors.rig import Boom, Tabled, boom, on_virtual_time, settled
from tests.garbage import without_collector
from tests.otp.rig import obey

GRACE_SECONDS = 4.0
"""The shutdown time of the child: what a stop by its supervisor leaves it."""

UNASKED_SECONDS = 5.0
"""What it has when anything else ends it."""


@define(eq=False)
class Tidy:
    """A worker that has something to put away, and notes how far it came.

    Attributes:
        seconds: How long that takes.
        own_seconds: What it allows itself.
        told_at: When it was cancelled.
        ended_at: When its clean-up was over.
        is_done: Whether it came to the end of it.
        ends_by_itself: Set when it is to be cancelled by a scope of its own.
    """

    seconds: float
    own_seconds: float | None = None
    told_at: float = math.nan
    ended_at: float = math.nan
    is_done: bool = False
    ends_by_itself: trio.Event = field(factory=trio.Event)

    async def serve(self, task_status) -> None:
        """Wait for a cancellation, and put things away."""
        task_status.started()
        with trio.CancelScope() as own:
            try:
                await self.ends_by_itself.wait()
                own.cancel(reason="the test")
                await trio.sleep_forever()
            finally:
                self.told_at = trio.current_time()
                try:
                    with cleanup_scope(self.own_seconds):
                        await trio.sleep(self.seconds)
                        self.is_done = True
                finally:
                    self.ended_at = trio.current_time()


async def cancel(way, stage, supervisor, scope, tidy):
    handle = supervisor.handle("tidy")

    async def interrupted(task_status):
        task_status.started()
        await trio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    match way:
        case "stop of the supervisor":
            await supervisor.stop()
        case "terminate_child":
            await supervisor.terminate_child("tidy")
        case "restart of the group":
            stage.crash("b")
        case "giving up":
            stage.crash("b")
            await settled()
            stage.crash("b")
        case "automatic shutdown":
            stage.end("significant")
        case "cancellation of the block":
            scope.cancel(reason="the test")
            await trio.lowlevel.checkpoint()
        case "error in the body":
            boom("body")
        case "interrupt of a sibling":
            await supervisor.start_child(ChildSpec("interrupted", worker(interrupted)))
        case "stop of the child":  # behind the back of its supervisor
            await handle.stop(timeout_seconds=None)
        case "crash of a linked actor":
            link(handle, supervisor.handle("b"))
            stage.crash("b")
        case "exit signal":
            handle.exit(Shutdown("enough"))
        case "scope of its own":
            tidy.ends_by_itself.set()


BY_THE_SUPERVISOR = [
    *("stop of the supervisor", "terminate_child", "restart of the group", "giving up"),
    *("automatic shutdown", "cancellation of the block", "error in the body", "interrupt of a sibling"),
]
BY_OTHERS = ["stop of the child", "crash of a linked actor", "exit signal", "scope of its own"]


async def cancelled(way, stage, tidy):
    """Run the worker, let it be cancelled in some way, and give its handle when it has ended."""
    children = [
        stage.W("significant", restart="transient", significant=True),
        ChildSpec("tidy", worker(tidy.serve), restart="temporary", shutdown_seconds=GRACE_SECONDS),
        stage.W("b"),
    ]
    strategy = "one_for_all" if way == "restart of the group" else "one_for_one"
    handles = []
    with suppress(Boom, KeyboardInterrupt, SupervisorGaveUp), trio.CancelScope() as scope:
        async with stage.open(strategy, children, auto_shutdown="any_significant") as supervisor:
            handles.append(supervisor.handle("tidy"))
            await settled()
            await cancel(way, stage, supervisor, scope, tidy)
            await handles[0].wait()
    assert not math.isnan(tidy.told_at), "it was never cancelled"
    return handles[0]


@pytest.mark.at(15)
@pytest.mark.parametrize("way", [*BY_THE_SUPERVISOR, *BY_OTHERS])
@on_virtual_time
async def test_clean_up_has_its_time(stage, way):
    """Whatever cancels it: three seconds come to their end, what has no end is cut, and who allows itself less is no kill."""
    limit = GRACE_SECONDS if way in BY_THE_SUPERVISOR else UNASKED_SECONDS
    for tidy, seconds, is_killed in (
        (Tidy(3.0), 3.0, False),
        (Tidy(math.inf), limit, way != "scope of its own"),
        (Tidy(math.inf, own_seconds=2.0), 2.0, False),
    ):
        handle = await cancelled(way, stage, tidy)
        assert tidy.is_done == (tidy.seconds == 3.0)
        assert tidy.ended_at - tidy.told_at == pytest.approx(seconds)
        assert (handle.exit_reason == Killed()) == is_killed


@on_virtual_time
async def test_an_actor_that_ended_is_freed_without_the_collector(stage):
    """With its handle, a machine as well as a worker; a monitor gives the handle that somebody holds, or one for all who ask later."""
    machine = Tabled({"s1": obey}).start
    async with stage.open() as supervisor:
        gc.collect()
        with without_collector():
            for start in (worker(trio.sleep_forever), machine):
                handle = (await supervisor.start_child(ChildSpec("freed", start, restart="temporary"))).handle
                watching = monitor(handle)
                await handle.stop()
                await settled()
                assert watching.handle is handle
                freed = weakref.ref(handle)
                del handle
                assert freed() is None
                again = watching.handle
                assert again is watching.handle
                assert (again.id, again.exit_reason) == ("freed", (await watching.wait()).reason)
                del again, watching
                assert not [
                    one for one in gc.get_objects() if isinstance(one, ActorCell) and one.id == "freed"
                ]
