"""Tasks: how often a value may be asked for, and what `shutdown` gives of a task that has none."""

import math

import pytest
import trio

from agentrail.actors import cleanup_scope
from agentrail.errors import ActorDown, CallTimeout, InvalidSpec, NoMailbox
from agentrail.otp.exits import Killed, Normal, Shutdown
from tests.actors.rig import Tabled, boom, is_boom, on_virtual_time
from tests.otp.rig import obey


def pool(stage):
    return stage.open("dynamic", [stage.W("unused")])


async def answer(value, seconds):
    await trio.sleep(seconds)
    return value


@pytest.mark.scenario("S-208")
@pytest.mark.parametrize("value", ["value", None])
@on_virtual_time
async def test_value_can_be_asked_for_again(stage, value):
    """`result` waits the first time and gives the same value ever after, `None` too."""
    async with pool(stage) as tasks:
        task = await tasks.start_task(answer, value, 1.0)
        began_at = trio.current_time()
        assert await task.result() is value
        assert trio.current_time() == began_at + 1.0
        assert await task.result(timeout_seconds=0) is value
        assert await task.shutdown() is value
        assert task.handle.exit_reason == Normal()


@on_virtual_time
async def test_shutdown_of_a_task_at_work(stage):
    """It is stopped, and its exit reason is the outcome; after the timeout it is killed, and with `None` there is none."""

    async def slow():
        try:
            await trio.sleep_forever()
        finally:
            with cleanup_scope():
                await trio.sleep(1_000)

    async with pool(stage) as tasks:
        task = await tasks.start_task(answer, 1, 100_000)
        assert await task.result(timeout_seconds=None) == 1
        task = await tasks.start_task(trio.sleep_forever)
        assert await task.shutdown() == Shutdown()
        assert (await tasks.count_children()).active == 0
        for timeout, reason, seconds in ((None, Shutdown(), 1_000.0), (2.0, Killed(), 2.0)):
            task = await tasks.start_task(slow)
            began_at = trio.current_time()
            assert await task.shutdown(timeout_seconds=timeout) == reason
            assert trio.current_time() == began_at + seconds


@on_virtual_time
async def test_a_shutdown_whose_caller_is_cancelled(stage):
    """The stop goes on, and the task is still killed after the timeout: its clean-up has no other limit."""

    async def slow():
        try:
            await trio.sleep_forever()
        finally:
            with cleanup_scope():
                await trio.sleep(1_000)

    async with pool(stage) as tasks:
        task = await tasks.start_task(slow)
        began_at = trio.current_time()
        with trio.move_on_after(1):
            await task.shutdown(timeout_seconds=2.0)
        assert await task.handle.wait() == Killed()
        assert trio.current_time() == began_at + 2.0


@on_virtual_time
async def test_results_that_do_not_come(stage):
    """Of one that was given up each further call raises `CallTimeout` at once; of a crash `ActorDown` with the reason."""

    async def crash():
        boom("task")

    async with pool(stage) as tasks:
        task = await tasks.start_task(answer, "late", 2.0)
        with pytest.raises(CallTimeout):
            await task.result(timeout_seconds=1.0)
        assert await task.handle.wait() == Normal()
        for _ in range(2):
            with pytest.raises(CallTimeout, match="result"):
                await task.result(timeout_seconds=math.inf)

        task = await tasks.start_task(crash)
        for _ in range(2):
            with pytest.raises(ActorDown) as caught:
                await task.result()
            assert is_boom(caught.value.reason, "task")
        assert is_boom(await task.shutdown(), "task")


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
@on_virtual_time
async def test_times_that_are_none(stage, seconds):
    """A `ValueError`, and the task goes on."""
    async with pool(stage) as tasks:
        task = await tasks.start_task(trio.sleep_forever)
        for wait in (task.result, task.shutdown):
            with pytest.raises(ValueError, match=str(seconds)):
                await wait(timeout_seconds=seconds)
        assert task.handle.exit_reason is None


@on_virtual_time
async def test_tasks_that_are_not_started(stage):
    """One that reports to a worker, which has no mailbox; and a plain function, where it is given."""
    async with pool(stage) as tasks, stage.open(children=[stage.W("w")]) as supervisor:
        with pytest.raises(NoMailbox, match="worker"):
            await tasks.start_task(trio.sleep_forever, report_to=supervisor.handle("w"))
        with pytest.raises(InvalidSpec, match="write `async def`"):
            await tasks.start_task(lambda: None)
        assert await tasks.which_children() == ()


@on_virtual_time
async def test_link_to_an_actor_that_has_ended(stage):
    """The task is as one whose partner ended: it goes too."""
    async with pool(stage) as tasks, stage.play(Tabled({"s1": obey})) as handle:
        await handle.stop()
        task = await tasks.start_task(trio.sleep_forever, linked_to=handle)
        reason = await task.handle.wait()
        assert "NoProcess" in reason.type
