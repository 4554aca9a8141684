"""Section A of the conformance scenarios, on running supervisors: how one comes up, or does not."""

import gc
import weakref

import pytest
import trio
import trio.testing

from agentrail.actors import IGNORE, open_supervisor, subtree, worker
from agentrail.actors.actor_registry import Registry
from agentrail.errors import AlreadyStarted, InvalidSpec, SupervisorStartFailed
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags, check_child_specs
from agentrail.otp.exits import Shutdown
from agentrail.otp.supervision_types import ChildCounts, Started
from tests.actors.rig import is_boom, on_virtual_time, statuses

EMPTY = ChildCounts(specs=0, active=0, supervisors=0, workers=0)


@pytest.mark.scenario("S-001")
@on_virtual_time
async def test_empty_start(stage):
    """A supervisor without children is ready at once and has nothing to count."""
    began = trio.current_time()
    async with stage.open() as supervisor:
        assert await supervisor.count_children() == EMPTY
        assert trio.current_time() == began


@pytest.mark.scenario("S-002")
@on_virtual_time
async def test_start_order(stage):
    """One at a time: the init of the next does not begin before the one before it has reported started."""
    stage.plans["a"].append(3.0)
    async with stage.open(children=map(stage.W, "abc")):
        assert stage.seen() == [f"{word} {name}" for name in "abc" for word in ("init", "started")]


@pytest.mark.scenario("S-003")
@on_virtual_time
async def test_start_is_synchronous(stage):
    """Entering takes exactly as long as the child takes, and then it can be used."""
    stage.plans["a"].append(2.0)
    began = trio.current_time()
    async with stage.open(children=[stage.W("a")]) as supervisor:
        assert trio.current_time() - began == 2.0
        assert supervisor.handle("a").exit_reason is None
        assert statuses(await supervisor.which_children()) == {"a": "running"}


@pytest.mark.scenario("S-004")
@on_virtual_time
async def test_second_child_fails(stage):
    """The error names it and carries its reason; the first was stopped, the third never started, one report."""
    with pytest.raises(SupervisorStartFailed) as caught:
        async with stage.open(children=[stage.W("a"), stage.F("b"), stage.W("c")]):
            pytest.fail("it never came up")
    assert caught.value.child_id == "b"
    assert is_boom(caught.value.reason.cause, "init of b")
    assert stage.instances["a"][0].told == Shutdown()
    assert "init c" not in stage.log
    assert stage.kinds() == [("start_error", "b")]


@pytest.mark.scenario("S-005")
@on_virtual_time
async def test_rollback_is_reverse(stage):
    """Each is gone before the next is asked."""
    for name in "abc":
        stage.cleanups[name] = 1.0
    with pytest.raises(SupervisorStartFailed):
        async with stage.open(children=[*map(stage.W, "abc"), stage.F("d")]):
            pytest.fail("it never came up")
    in_order = [f"{word} {name}" for name in "cba" for word in ("stopping", "gone")]
    assert [entry for entry in stage.seen("stopping", "gone") if entry != "gone d"] == in_order


@pytest.mark.scenario("S-006")
@on_virtual_time
async def test_init_of_a_subtree_says_ignore(stage):
    """No grandchild, no task, no error."""

    async def init():
        return IGNORE

    async with stage.open() as supervisor:
        started = await supervisor.start_child(ChildSpec("sub", subtree(init)))
        assert (started.handle, started.info) == (None, None)
    assert stage.kinds() == []


@pytest.mark.scenario("S-008")
@on_virtual_time
async def test_ignored_permanent_start(stage):
    """No handle; the spec stays, without a process."""
    stage.plans["a"].append("ignore")
    async with stage.open() as supervisor:
        assert await supervisor.start_child(stage.W("a")) == Started(None, None)
        (child,) = await supervisor.which_children()
        assert (child.status, child.handle) == ("stopped", None)
        assert await supervisor.count_children() == ChildCounts(specs=1, active=0, supervisors=0, workers=1)


@pytest.mark.scenario("S-009")
@pytest.mark.parametrize("initial", [True, False])
@on_virtual_time
async def test_ignored_temporary_start(stage, initial):
    """It is not listed, wherever it came from."""
    stage.always["a"] = "ignore"
    spec = stage.W("a", restart="temporary")
    async with stage.open(children=[spec] if initial else []) as supervisor:
        if not initial:
            assert await supervisor.start_child(spec) == Started(None, None)
        assert await supervisor.count_children() == EMPTY


@pytest.mark.scenario("S-010")
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@on_virtual_time
async def test_ignored_start_in_a_dynamic_supervisor(stage, restart):
    """Nothing is stored, and the supervisor stops without an error report."""
    stage.always["t"] = "ignore"
    async with stage.open("dynamic", [stage.W("t", restart=restart)]) as supervisor:
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


@pytest.mark.scenario("S-012")
@pytest.mark.scenario("S-013")
@pytest.mark.scenario("S-020")
@pytest.mark.parametrize(
    ("strategy", "children", "code"),
    [
        ("one_for_one", lambda stage: [stage.W("a"), stage.W("a")], "duplicate_id"),
        ("one_for_one", lambda stage: [stage.W("a"), {"start": stage.start("b")}], "missing_id"),
        ("one_for_one", lambda stage: [stage.W("a"), {"id": "b"}], "missing_start"),
        ("dynamic", lambda _: [], "one_template"),
        ("dynamic", lambda stage: [stage.W("a"), stage.W("b")], "one_template"),
    ],
)
@on_virtual_time
async def test_refused_before_anything_starts(stage, strategy, children, code):
    """Each with its own code, and the log stays empty."""
    with pytest.raises(InvalidSpec) as caught:
        async with stage.open(strategy, children(stage)):
            pytest.fail("it never came up")
    assert caught.value.code == code
    assert stage.log == []


@pytest.mark.scenario("S-015")
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("restart", "sometimes", "invalid_restart"),
        ("shutdown_seconds", -1, "invalid_shutdown"),
        ("kind", "manager", "invalid_kind"),
        ("start", 42, "invalid_start"),
    ],
)
@on_virtual_time
async def test_bad_field_values(stage, field, value, code):
    """Refused at opening, by `start_child`, and by `check_child_specs`."""
    spec = {"id": "a", "start": stage.start("a"), field: value}
    with pytest.raises(InvalidSpec) as caught:
        check_child_specs([spec])
    assert caught.value.code == code
    with pytest.raises(InvalidSpec) as caught:
        async with stage.open(children=[spec]):
            pytest.fail("it never came up")
    assert caught.value.code == code
    async with stage.open() as supervisor:
        with pytest.raises(InvalidSpec) as caught:
            await supervisor.start_child(spec)
        assert caught.value.code == code
        assert await supervisor.count_children() == EMPTY
    assert stage.log == []


@pytest.mark.scenario("S-017")
@pytest.mark.scenario("S-018")
@pytest.mark.parametrize(("restart", "auto"), [("permanent", "any_significant"), ("transient", "never")])
@on_virtual_time
async def test_bad_significant(stage, restart, auto):
    """Refused at opening and by `start_child`."""
    spec = {"id": "a", "start": stage.start("a"), "restart": restart, "significant": True}
    with pytest.raises(InvalidSpec) as caught:
        async with stage.open(children=[spec], auto_shutdown=auto):
            pytest.fail("it never came up")
    assert caught.value.code == "bad_significant"
    async with stage.open(auto_shutdown=auto) as supervisor:
        with pytest.raises(InvalidSpec) as caught:
            await supervisor.start_child(spec)
        assert caught.value.code == "bad_significant"


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
