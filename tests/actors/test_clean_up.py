"""Clean-up code has its time, whatever cancels the actor around it, and then it is cut (2.6, 2.9)."""

import math
from contextlib import suppress
from typing import Any

import pytest
import trio
from attrs import define, field

from agentrail.actors import cleanup_scope, worker
from agentrail.actors.monitor import link
from agentrail.errors import SupervisorGaveUp
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Killed, Shutdown
from tests.actors.rig import Boom, boom, on_virtual_time, settled

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


@define(eq=False)
class Scene:
    """What a way of cancelling can reach."""

    stage: Any
    supervisor: Any
    scope: trio.CancelScope
    tidy: Tidy

    @property
    def handle(self):
        """The one that cleans up."""
        return self.supervisor.handle("tidy")


async def stop_the_supervisor(scene):
    """As its owner, or a child of it, does."""
    await scene.supervisor.stop()


async def terminate_the_child(scene):
    """As an operator does."""
    await scene.supervisor.terminate_child("tidy")


async def stop_the_child(scene):
    """Behind the back of its supervisor."""
    await scene.handle.stop(timeout_seconds=None)


async def let_the_group_restart(scene):
    """As a bystander."""
    scene.stage.crash("b")


async def let_the_supervisor_give_up(scene):
    """A second crash within the period."""
    scene.stage.crash("b")
    await settled()
    scene.stage.crash("b")


async def shut_down_automatically(scene):
    """A significant sibling has done its work."""
    scene.stage.end("significant")


async def cancel_the_block(scene):
    """From outside."""
    scene.scope.cancel(reason="the test")
    await trio.lowlevel.checkpoint()


async def raise_in_the_body(_scene):
    """A bug of the caller."""
    boom("body")


async def interrupt_a_sibling(scene):
    """Ctrl-C lands in any task."""

    async def interrupted(task_status):
        task_status.started()
        await trio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    await scene.supervisor.start_child(ChildSpec("interrupted", worker(interrupted)))


async def crash_a_linked_actor(scene):
    """It takes the other one along."""
    link(scene.handle, scene.supervisor.handle("b"))
    scene.stage.crash("b")


async def tell_it_to_exit(scene):
    """By a signal."""
    scene.handle.exit(Shutdown("enough"))


async def cancel_a_scope_of_its_own(scene):
    """A timeout of its own, for one."""
    scene.tidy.ends_by_itself.set()


BY_THE_SUPERVISOR = [
    stop_the_supervisor,
    terminate_the_child,
    let_the_group_restart,
    let_the_supervisor_give_up,
    shut_down_automatically,
    cancel_the_block,
    raise_in_the_body,
    interrupt_a_sibling,
]
BY_OTHERS = [stop_the_child, crash_a_linked_actor, tell_it_to_exit, cancel_a_scope_of_its_own]

every_way = pytest.mark.parametrize("way", [*BY_THE_SUPERVISOR, *BY_OTHERS], ids=lambda way: way.__name__)


async def cancelled(way, stage, tidy):
    """Run the worker, let it be cancelled in some way, and give its handle when it has ended."""
    children = [
        stage.W("significant", restart="transient", significant=True),
        ChildSpec("tidy", worker(tidy.serve), restart="temporary", shutdown_seconds=GRACE_SECONDS),
        stage.W("b"),
    ]
    strategy = "one_for_all" if way is let_the_group_restart else "one_for_one"
    handles = []
    with suppress(Boom, KeyboardInterrupt, SupervisorGaveUp), trio.CancelScope() as scope:
        async with stage.open(strategy, children, auto_shutdown="any_significant") as supervisor:
            handles.append(supervisor.handle("tidy"))
            await settled()
            await way(Scene(stage, supervisor, scope, tidy))
            await handles[0].wait()
    assert not math.isnan(tidy.told_at), "it was never cancelled"
    return handles[0]


@pytest.mark.at(15)
@every_way
@on_virtual_time
async def test_clean_up_has_its_time(stage, way):
    """Three seconds of clean-up come to their end, whatever cancels what is around them."""
    tidy = Tidy(3.0)
    handle = await cancelled(way, stage, tidy)
    assert tidy.is_done
    assert tidy.ended_at - tidy.told_at == pytest.approx(3.0)
    assert handle.exit_reason != Killed()


@pytest.mark.at(15)
@every_way
@on_virtual_time
async def test_clean_up_without_an_end_is_cut(stage, way):
    """When the shutdown time is over, or five seconds where nobody's ladder has an end."""
    tidy = Tidy(math.inf)
    handle = await cancelled(way, stage, tidy)
    assert not tidy.is_done
    limit = GRACE_SECONDS if way in BY_THE_SUPERVISOR else UNASKED_SECONDS
    assert tidy.ended_at - tidy.told_at == pytest.approx(limit)
    assert (handle.exit_reason == Killed()) == (way is not cancel_a_scope_of_its_own)


@pytest.mark.at(15)
@every_way
@on_virtual_time
async def test_clean_up_may_allow_itself_less(stage, way):
    """The time that it sets itself is kept under every cancellation, and does not count as a kill."""
    tidy = Tidy(math.inf, own_seconds=2.0)
    handle = await cancelled(way, stage, tidy)
    assert tidy.ended_at - tidy.told_at == pytest.approx(2.0)
    assert handle.exit_reason != Killed()
