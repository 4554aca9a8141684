"""A start whose caller goes, at whatever instant, leaves neither child nor spec; what was there before stays."""

import pytest
import trio

from agentrail.actors.actor import IGNORE, machine, subtree, worker
from agentrail.otp.child_specs import ChildSpec
from tests.actors.rig import Tabled, on_virtual_time, settled, statuses

STATIC = ["one_for_one", "one_for_all", "rest_for_one"]


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope before the n-th step of any task."""

    def __init__(self, steps_left, scope):
        self.steps_left = steps_left
        self.scope = scope

    def before_task_step(self, task):
        """Count down."""
        self.steps_left -= 1
        if self.steps_left == 0:
            self.scope.cancel(reason="cancel at every step")


async def cancelled_everywhere(call, check):
    """Make a call again and again, cancelled at its first step, its second, until it gets through; check each time."""
    step, is_through = 0, False
    while not is_through:
        step += 1
        assert step < 1000
        with trio.CancelScope() as scope:
            instrument = CancelAtStep(step, scope)
            trio.lowlevel.add_instrument(instrument)
            try:
                await call()
                is_through = True
            finally:
                trio.lowlevel.remove_instrument(instrument)
        await settled()
        if not is_through:
            await check()
    return step


async def slow(task_status):
    """Come up in a few steps."""
    for _ in range(3):
        await trio.lowlevel.checkpoint()
    task_status.started()
    await trio.sleep_forever()


async def quick():
    """Be up at once."""
    await trio.sleep_forever()


async def nothing(task_status):
    """Have nothing to run."""
    await trio.lowlevel.checkpoint()
    task_status.started(IGNORE)


def starts(stage):
    """Make every kind of start."""
    return {
        "worker": worker(slow),
        "worker that is up at once": worker(quick),
        "ignored": worker(nothing),
        "machine": machine(lambda: Tabled({})),
        "subtree": subtree(stage.flags(), [stage.W("leaf")]),
    }


@pytest.mark.parametrize("strategy", STATIC)
@pytest.mark.parametrize("kind", ["worker", "worker that is up at once", "ignored", "machine", "subtree"])
@on_virtual_time
async def test_start_child(stage, strategy, kind):
    """Cancelled at every step of anybody, in every order that Trio draws."""
    async with stage.open(strategy, [stage.W("a")]) as supervisor:

        async def nothing_is_left():
            counts = await supervisor.count_children()
            assert (counts.specs, counts.active) == (1, 1)

        spec = ChildSpec("x", starts(stage)[kind])
        assert await cancelled_everywhere(lambda: supervisor.start_child(spec), nothing_is_left) > 2
        assert [child.id for child in await supervisor.which_children()] == ["a", "x"]
        assert stage.kinds() == []


@pytest.mark.parametrize("kind", ["worker", "worker that is up at once", "machine", "subtree"])
@on_virtual_time
async def test_start_instance(stage, kind):
    """No instance that nobody knows."""
    async with stage.open("dynamic", [ChildSpec("t", starts(stage)[kind])]) as supervisor:

        async def nothing_is_left():
            assert (await supervisor.count_children()).specs == 0

        await cancelled_everywhere(supervisor.start_instance, nothing_is_left)
        assert (await supervisor.count_children()).active == 1
        assert stage.kinds() == []


@on_virtual_time
async def test_start_task(stage):
    """No task that nobody waits for."""
    async with stage.open("dynamic", [stage.W("t")]) as supervisor:

        async def nothing_is_left():
            assert (await supervisor.count_children()).specs == 0

        await cancelled_everywhere(lambda: supervisor.start_task(trio.sleep_forever), nothing_is_left)


@pytest.mark.parametrize("strategy", STATIC)
@on_virtual_time
async def test_restart_child(stage, strategy):
    """The child has no process, and its spec stays."""
    async with stage.open(strategy, [ChildSpec("x", worker(slow)), stage.W("b")]) as supervisor:
        await supervisor.terminate_child("x")

        async def as_before():
            assert statuses(await supervisor.which_children()) == {"x": "stopped", "b": "running"}

        await cancelled_everywhere(lambda: supervisor.restart_child("x"), as_before)
        assert statuses(await supervisor.which_children()) == {"x": "running", "b": "running"}


@on_virtual_time
async def test_a_caller_that_goes_when_its_time_is_over_and_the_child_is_up(stage):
    """Both at one instant, two hundred times: Trio decides by chance who goes first."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        for number in range(200):
            stage.plans[number].append(1.0)
            with trio.move_on_after(1) as scope:
                await supervisor.start_child(stage.W(number))
            await settled()
            known = [child.id for child in await supervisor.which_children()]
            assert known == (["a"] if scope.cancelled_caught else ["a", number])
            if not scope.cancelled_caught:
                await supervisor.terminate_child(number)
                await supervisor.delete_child(number)


@on_virtual_time
async def test_what_is_undone_nobody_has_seen(stage):
    """A call that came before the cancellation and is answered after the start finds the id free, or being freed."""
    came_up = trio.Event()

    async def up(task_status):
        task_status.started()
        came_up.set()
        scope.cancel()
        await trio.sleep_forever()

    async with stage.open() as supervisor, trio.open_nursery() as nursery:

        async def look():
            await came_up.wait()
            assert statuses(await supervisor.which_children()).get("x") in {None, "stopping"}
            assert (await supervisor.start_child(stage.W("x"))).handle is not None

        nursery.start_soon(look)
        with trio.CancelScope() as scope:
            await supervisor.start_child(ChildSpec("x", up))
        assert scope.cancelled_caught
