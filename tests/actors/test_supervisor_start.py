"""Section A of the conformance scenarios, on running supervisors: how one comes up, or does not."""

import gc
import weakref

import pytest
import trio
import trio.testing

from agentrail.actors import IGNORE, open_supervisor, subtree, worker
from agentrail.actors.actor_registry import Registry
from agentrail.errors import AlreadyStarted, InvalidSpec, SupervisorStartFailed
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.exits import Shutdown
from agentrail.otp.supervision_types import ChildCounts, Started
from tests.actors.rig import is_boom, on_virtual_time, statuses

EMPTY = ChildCounts(specs=0, active=0, supervisors=0, workers=0)


@pytest.mark.scenario("S-001", "S-002", "S-003")
@on_virtual_time
async def test_start_order(stage):
    """One at a time, each after the one before it has reported started; entering takes exactly as long as that."""
    began = trio.current_time()
    async with stage.open() as supervisor:
        assert await supervisor.count_children() == EMPTY
        assert trio.current_time() == began
    stage.plans["a"].append(3.0)
    async with stage.open(children=map(stage.W, "abc")) as supervisor:
        assert stage.seen() == [f"{word} {name}" for name in "abc" for word in ("init", "started")]
        assert trio.current_time() - began == 3.0
        assert supervisor.handle("a").exit_reason is None
        assert statuses(await supervisor.which_children()) == dict.fromkeys("abc", "running")


@pytest.mark.scenario("S-004", "S-005")
@on_virtual_time
async def test_a_child_that_fails(stage):
    """The error names it and carries its reason; those before it are stopped in reverse, each gone before the next is asked."""
    for name in "abc":
        stage.cleanups[name] = 1.0
    with pytest.raises(SupervisorStartFailed) as caught:
        async with stage.open(children=[*map(stage.W, "abc"), stage.F("d"), stage.W("e")]):
            pytest.fail("it never came up")
    assert caught.value.child_id == "d"
    assert is_boom(caught.value.reason.cause, "init of d")
    assert stage.instances["a"][0].told == Shutdown()
    assert "init e" not in stage.log
    assert stage.kinds() == [("start_error", "d")]
    in_order = [f"{word} {name}" for name in "cba" for word in ("stopping", "gone")]
    assert [entry for entry in stage.seen("stopping", "gone") if entry != "gone d"] == in_order


@pytest.mark.scenario("S-006", "S-008", "S-009", "S-010")
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@on_virtual_time
async def test_ignored_start(stage, restart):
    """No handle, no grandchild, no error; a spec stays, without a process, unless it is temporary or of an instance."""

    async def init():
        return IGNORE

    stage.always["a"] = stage.always["b"] = "ignore"
    async with stage.open(children=[stage.W("a", restart=restart)]) as supervisor:
        for spec in (stage.W("b", restart=restart), ChildSpec("sub", subtree(init), restart)):
            assert await supervisor.start_child(spec) == Started(None, None)
        kept = 0 if restart == "temporary" else 3
        children = await supervisor.which_children()
        assert [(child.status, child.handle) for child in children] == [("stopped", None)] * kept
        assert (await supervisor.count_children()).specs == kept
    async with stage.open("dynamic", [stage.W("a", restart=restart)]) as supervisor:
        assert await supervisor.start_instance() == Started(None, None)
        assert await supervisor.count_children() == EMPTY
    assert stage.kinds() == []


@pytest.mark.scenario("S-011")
@on_virtual_time
async def test_extra_information(stage):
    """The caller gets this very object, also of `restart_child`; the supervisor keeps no reference."""

    class Info:
        pass

    made = []

    async def informative(task_status):
        info = Info()
        made.append(weakref.ref(info))
        task_status.started(info)
        del info
        await trio.sleep_forever()

    async with stage.open() as supervisor:
        started = await supervisor.start_child(ChildSpec("a", worker(informative)))
        assert started.info is made[0]()
        await supervisor.terminate_child("a")
        started = await supervisor.restart_child("a")
        assert started.info is made[1]()
        del started
        gc.collect()
        assert [each() for each in made] == [None, None]


@pytest.mark.scenario("S-012", "S-013", "S-015", "S-017", "S-018", "S-020")
@pytest.mark.parametrize(
    ("specs", "flags", "code"),
    [
        ([{}, {}], {}, "duplicate_id"),
        ([{}, {"id": None}], {}, "missing_id"),
        ([{}, {"start": None}], {}, "missing_start"),
        ([], {"strategy": "dynamic"}, "one_template"),
        ([{}, {"id": "b"}], {"strategy": "dynamic"}, "one_template"),
        ([{"restart": "sometimes"}], {}, "invalid_restart"),
        ([{"shutdown_seconds": -1}], {}, "invalid_shutdown"),
        ([{"kind": "manager"}], {}, "invalid_kind"),
        ([{"start": 42}], {}, "invalid_start"),
        ([{"shutdown": 3}], {}, "unknown_field"),
        ([{"significant": True}], {"auto_shutdown": "any_significant"}, "bad_significant"),
        ([{"restart": "transient", "significant": True}], {}, "bad_significant"),
    ],
)
@on_virtual_time
async def test_refused_before_anything_starts(stage, specs, flags, code):
    """Each with its own code, at opening and by `start_child`; the log stays empty."""
    whole = [{"id": "a", "start": stage.start("a"), **spec} for spec in specs]
    given = [{name: value for name, value in spec.items() if value is not None} for spec in whole]
    with pytest.raises(InvalidSpec) as caught:
        async with stage.open(children=given, **flags):
            pytest.fail("it never came up")
    assert caught.value.code == code
    if len(given) == 1:
        async with stage.open(**flags) as supervisor:
            with pytest.raises(InvalidSpec) as caught:
                await supervisor.start_child(given[0])
            assert caught.value.code == code
            assert await supervisor.count_children() == EMPTY
    assert stage.log == []


@pytest.mark.scenario("S-019")
@on_virtual_time
async def test_name_taken(stage):
    """The error has the first one's handle, nothing was started, and the first one is untouched."""
    with Registry() as registry:
        flags = SupervisorFlags("one_for_one")
        async with open_supervisor(flags, [stage.W("a")], name=registry.name("top")) as first:
            with pytest.raises(AlreadyStarted) as caught:
                async with open_supervisor(flags, [stage.W("b")], name=registry.name("top")):
                    pytest.fail("the name is taken")
            assert caught.value.handle is first
            assert "init b" not in stage.log
            assert statuses(await first.which_children()) == {"a": "running"}
            assert registry.lookup("top") is first
        assert registry.lookup("top") is None


@on_virtual_time
async def test_a_supervisor_that_cannot_begin_holds_no_name(stage):
    """Its children have arguments that are too deep to be copied; the next one gets the name."""
    deep = []
    for _ in range(10_000):
        deep = [deep]
    with Registry() as registry:
        flags = SupervisorFlags("one_for_one")
        with pytest.raises(RecursionError):
            async with open_supervisor(flags, [stage.W("a", deep)], name=registry.name("top")):
                pytest.fail("it cannot begin")
        assert registry.lookup("top") is None
        async with open_supervisor(flags, [stage.W("b")], name=registry.name("top")) as second:
            assert registry.lookup("top") is second
