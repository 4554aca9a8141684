"""A start whose caller goes, at whatever instant, leaves neither child nor spec; what was there before stays."""

import pytest
import trio

from agentrail.actors import worker
from agentrail.otp.child_specs import ChildSpec
from tests.actors.rig import on_virtual_time, settled, statuses

STATIC = ["one_for_one", "one_for_all", "rest_for_one"]


class CancelAtStep(trio.abc.Instrument):
    def __init__(self, steps_left, scope):
        self.steps_left = steps_left
        self.scope = scope

    def before_task_step(self, task):
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
    for _ in range(3):
        await trio.lowlevel.checkpoint()
    task_status.started()
    await trio.sleep_forever()


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
