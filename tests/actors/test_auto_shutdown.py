"""Section H of the conformance scenarios, on running supervisors: children whose end ends their supervisor."""

import pytest

from agentrail.actors import subtree
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Normal, Shutdown
from tests.actors.rig import Boom, gives_up, on_virtual_time, settled, statuses

DOWN = Shutdown("auto_shutdown")


def significant(stage, name, restart="transient"):
    """Make a child that matters."""
    return stage.W(name, restart=restart, significant=True)


@pytest.mark.scenario("S-118")
@pytest.mark.scenario("S-120")
@pytest.mark.parametrize(("restart", "outcome"), [("transient", Normal()), ("temporary", Boom("b"))])
@on_virtual_time
async def test_any(stage, restart, outcome):
    """The rest is stopped in reverse order, the supervisor ends with `Shutdown`, and the body goes on."""
    children = [stage.W("a"), significant(stage, "b", restart), stage.W("c")]
    async with stage.open(children=children, auto_shutdown="any_significant") as supervisor:
        stage.end("b", outcome)
        assert await supervisor.wait() == DOWN
        assert stage.seen("stopping") == ["stopping c", "stopping a"]


@pytest.mark.scenario("S-121")
@pytest.mark.scenario("S-122")
@on_virtual_time
async def test_all(stage):
    """The first of two changes nothing, the second ends the supervisor."""
    children = [significant(stage, "a"), significant(stage, "b"), stage.W("c")]
    async with stage.open(children=children, auto_shutdown="all_significant") as supervisor:
        stage.end("a")
        await settled()
        assert statuses(await supervisor.which_children()) == {"a": "stopped", "b": "running", "c": "running"}
        stage.end("b")
        assert await supervisor.wait() == DOWN


@pytest.mark.scenario("S-123")
@on_virtual_time
async def test_all_and_terminate_child(stage):
    """One that was terminated counts as not running, and does not trigger anything itself."""
    children = [significant(stage, "a"), significant(stage, "b")]
    async with stage.open(children=children, auto_shutdown="all_significant") as supervisor:
        await supervisor.terminate_child("a")
        await settled()
        assert supervisor.exit_reason is None
        stage.end("b")
        assert await supervisor.wait() == DOWN


@pytest.mark.scenario("S-124")
@pytest.mark.parametrize("auto", ["never", "any_significant", "all_significant"])
@pytest.mark.parametrize("outcome", [Normal(), Shutdown("x"), Boom("a")], ids=repr)
@on_virtual_time
async def test_not_significant(stage, auto, outcome):
    """It may end as it likes."""
    children = [stage.W("a", restart="temporary"), stage.W("b")]
    async with stage.open(children=children, auto_shutdown=auto) as supervisor:
        stage.end("a", outcome)
        await settled()
        assert supervisor.exit_reason is None
        assert statuses(await supervisor.which_children()) == {"b": "running"}


@pytest.mark.scenario("S-125")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@on_virtual_time
async def test_bystander(stage, strategy):
    """One that is stopped because of a sibling does not trigger it; the group runs again."""
    children = [stage.W("a"), significant(stage, "b")]
    async with stage.open(strategy, children, auto_shutdown="any_significant") as supervisor:
        stage.crash("a")
        await settled()
        assert statuses(await supervisor.which_children()) == {"a": "running", "b": "running"}


@pytest.mark.scenario("S-127")
@on_virtual_time
async def test_permanent_child_supervisor_that_shuts_itself_down(stage):
    """Its parent restarts it each time, and each time counts."""
    flags = stage.flags(auto_shutdown="any_significant")
    sub = ChildSpec("sub", subtree(flags, [significant(stage, "b")]))
    with gives_up():
        async with stage.open(children=[sub], intensity=2) as supervisor:
            for _ in range(2):
                stage.end("b")
                await settled()
                assert statuses(await supervisor.which_children()) == {"sub": "running"}
            stage.end("b")
            await supervisor.wait()
    assert stage.seen("started") == ["started b"] * 3


@pytest.mark.scenario("S-128")
@on_virtual_time
async def test_dynamic_all(stage):
    """It ends when the last of its children has."""
    template = significant(stage, "t", "temporary")
    async with stage.open("dynamic", [template], auto_shutdown="all_significant") as supervisor:
        for _ in range(2):
            await supervisor.start_instance()
        first, second = stage.instances["t"]
        first.order.set()
        await settled()
        assert supervisor.exit_reason is None
        second.order.set()
        assert await supervisor.wait() == DOWN
