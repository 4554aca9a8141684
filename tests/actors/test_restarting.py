"""Section E of the conformance scenarios, on running supervisors: what is asked of a child that is restarting."""

from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.errors import AlreadyPresent, ChildRestarting
from agentrail.otp.supervision_types import ChildCounts
from tests.actors.rig import on_virtual_time, settled, statuses


@asynccontextmanager
async def looping(stage):
    """Open a supervisor whose child `a` has crashed and is in its first vain attempt to start."""
    async with stage.open(children=[stage.Looping("a")], intensity=1_000_000) as supervisor:
        stage.crash("a")
        await settled()
        assert stage.seen("init") == ["init a", "init a"]
        yield supervisor


@pytest.mark.scenario("S-071")
@on_virtual_time
async def test_not_active(stage):
    """It counts among the specs and the workers only."""
    async with looping(stage) as supervisor:
        assert await supervisor.count_children() == ChildCounts(specs=1, active=0, supervisors=0, workers=1)
        assert statuses(await supervisor.which_children()) == {"a": "restarting"}


@pytest.mark.scenario("S-072")
@pytest.mark.scenario("S-073")
@pytest.mark.scenario("S-074")
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda supervisor, _: supervisor.restart_child("a"), ChildRestarting),
        (lambda supervisor, _: supervisor.delete_child("a"), ChildRestarting),
        (lambda supervisor, stage: supervisor.start_child(stage.W("a")), AlreadyPresent),
    ],
    ids=["restart", "delete", "start"],
)
@on_virtual_time
async def test_what_is_refused(stage, call, error):
    """Restarting and deleting it, and starting another one of its id."""
    async with looping(stage) as supervisor:
        with pytest.raises(error):
            await call(supervisor, stage)


@pytest.mark.scenario("S-075")
@on_virtual_time
async def test_terminate_child_ends_the_loop(stage):
    """At once; then it is `stopped`, nothing more is attempted, and it can be deleted."""
    async with looping(stage) as supervisor:
        began = trio.current_time()
        await supervisor.terminate_child("a")
        assert trio.current_time() == began
        assert statuses(await supervisor.which_children()) == {"a": "stopped"}
        await trio.sleep(10)
        assert stage.seen("init") == []
        await supervisor.delete_child("a")
        assert await supervisor.which_children() == ()


@pytest.mark.scenario("S-076")
@on_virtual_time
async def test_stopping_does_not_wait_for_the_loop(stage):
    """The attempt under way is cancelled, and there is no other."""
    async with looping(stage) as supervisor:
        began = trio.current_time()
        await supervisor.stop()
        assert trio.current_time() == began
        assert stage.seen("init") == []


@pytest.mark.scenario("S-078")
@on_virtual_time
async def test_dynamic_child_by_its_old_handle(stage):
    """`terminate_child` with the handle of its last instance returns, the retry is off, and the child is gone."""
    async with stage.open("dynamic", [stage.Looping("t")], intensity=1_000_000) as supervisor:
        old = (await supervisor.start_instance()).handle
        stage.crash("t")
        await settled()
        assert (await supervisor.count_children()).specs == 1
        await supervisor.terminate_child(old)
        assert (await supervisor.count_children()).specs == 0
        stage.seen()
        await trio.sleep(10)
        assert stage.seen("init") == []
