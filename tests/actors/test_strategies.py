"""Section D of the conformance scenarios, on running supervisors: which children an exit concerns."""

import pytest
import trio

from agentrail.actors import cleanup_scope, subtree, worker
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Normal, Shutdown
from agentrail.otp.supervision_types import ChildCounts
from tests.actors.rig import Boom, gives_up, on_virtual_time, settled, statuses

STATIC = ["one_for_one", "one_for_all", "rest_for_one"]
GROUPS = ["one_for_all", "rest_for_one"]


@pytest.mark.scenario("S-052")
@pytest.mark.scenario("S-053")
@pytest.mark.scenario("S-054")
@pytest.mark.parametrize(
    ("strategy", "stopped", "started"),
    [("one_for_one", "", "b"), ("one_for_all", "dca", "abcd"), ("rest_for_one", "dc", "bcd")],
)
@on_virtual_time
async def test_whom_a_crash_of_b_concerns(stage, strategy, stopped, started):
    """Each is gone before the next is asked, all before the first start; the others keep their handles."""
    async with stage.open(strategy, map(stage.W, "abcd")) as supervisor:
        before = {name: supervisor.handle(name) for name in "abcd"}
        stage.seen()
        stage.crash("b")
        await settled()
        after = {name: supervisor.handle(name) for name in "abcd"}
        assert stage.seen("stopping", "gone", "started") == [
            "gone b",
            *(f"{word} {name}" for name in stopped for word in ("stopping", "gone")),
            *(f"started {name}" for name in started),
        ]
        assert {name for name in "abcd" if before[name] is not after[name]} == set(started)
        assert {stage.instances[name][0].told for name in stopped} <= {Shutdown()}
        assert {name for name in "abcd" if before[name].exit_reason is not None} == set(started)


@pytest.mark.scenario("S-055")
@on_virtual_time
async def test_rest_for_one_last_child(stage):
    """Only that one is restarted."""
    async with stage.open("rest_for_one", map(stage.W, "abcd")) as supervisor:
        before = [supervisor.handle(name) for name in "abc"]
        stage.seen()
        stage.crash("d")
        await settled()
        assert stage.seen("stopping", "started") == ["started d"]
        assert [supervisor.handle(name) for name in "abc"] == before


@pytest.mark.scenario("S-057")
@on_virtual_time
async def test_temporary_sibling_is_stopped_and_forgotten(stage):
    """A group restart does not bring it back."""
    children = [stage.W("a"), stage.W("b", restart="temporary"), stage.W("c")]
    async with stage.open("one_for_all", children) as supervisor:
        stage.seen()
        stage.crash("a")
        await settled()
        assert stage.seen("stopping", "started") == ["stopping c", "stopping b", "started a", "started c"]
        assert statuses(await supervisor.which_children()) == {"a": "running", "c": "running"}


@pytest.mark.scenario("S-058")
@pytest.mark.scenario("S-059")
@pytest.mark.parametrize("strategy", GROUPS)
@pytest.mark.parametrize(("restart", "outcome"), [("temporary", Boom("b")), ("transient", Normal())])
@on_virtual_time
async def test_exit_that_is_not_worth_a_restart(stage, strategy, restart, outcome):
    """The siblings are untouched."""
    children = [stage.W("a"), stage.W("b", restart=restart), stage.W("c")]
    async with stage.open(strategy, children) as supervisor:
        before = [supervisor.handle(name) for name in "ac"]
        stage.seen()
        stage.end("b", outcome)
        await settled()
        assert stage.seen("stopping", "started") == []
        assert [supervisor.handle(name) for name in "ac"] == before


@pytest.mark.scenario("S-060")
@pytest.mark.scenario("S-061")
@pytest.mark.parametrize("earlier", ["ended", "terminated"])
@on_virtual_time
async def test_group_revives_what_had_no_process(stage, earlier):
    """A transient child that had finished, and one that was terminated, run again."""
    children = [stage.W("a"), stage.W("b", restart="transient")]
    async with stage.open("one_for_all", children) as supervisor:
        if earlier == "ended":
            stage.end("b")
        else:
            await supervisor.terminate_child("b")
        await settled()
        assert statuses(await supervisor.which_children())["b"] == "stopped"
        stage.crash("a")
        await settled()
        assert statuses(await supervisor.which_children()) == {"a": "running", "b": "running"}


@pytest.mark.scenario("S-062")
@on_virtual_time
async def test_group_restart_that_fails_half_way(stage):
    """What the failed attempt had started is stopped, and the group begins anew; each attempt counts."""
    stage.plans["b"] += ["up", "fail", "up"]
    with gives_up():
        async with stage.open("one_for_all", [stage.W("a"), stage.W("b")], intensity=5) as supervisor:
            stage.seen()
            stage.crash("b")
            await settled()
            assert stage.seen("stopping", "started", "init") == [
                *("stopping a", "init a", "started a", "init b"),
                *("stopping a", "init a", "started a", "init b", "started b"),
            ]
            for _ in range(3):  # the third, fourth and fifth restart
                stage.crash("a")
                await settled()
            assert statuses(await supervisor.which_children()) == {"a": "running", "b": "running"}
            stage.crash("a")
            await trio.sleep_forever()


@pytest.mark.scenario("S-064")
@pytest.mark.parametrize("strategy", [*STATIC, "dynamic"])
@on_virtual_time
async def test_no_overlap(stage, strategy):
    """No new instance ever finds the lock of its predecessor taken, although clean-up takes time."""
    taken = []

    def locking(name):
        lock = trio.Lock()

        async def hold(*_):
            taken.append((name, lock.locked()))
            async with lock:
                try:
                    await stage.start(name).function(name, task_status=trio.TASK_STATUS_IGNORED)
                finally:
                    with cleanup_scope():
                        await trio.sleep(1)

        return ChildSpec(name, worker(hold))

    names = "abc" if strategy != "dynamic" else "a"
    async with stage.open(strategy, map(locking, names), intensity=10) as supervisor:
        if strategy == "dynamic":
            await supervisor.start_instance()
        await settled()
        for name in names:
            stage.crash(name)
            await trio.sleep(10)
            assert stage.alive(name) == 1
    assert not any(was_taken for _, was_taken in taken)
    assert len(taken) >= 2 * len(names)


@pytest.mark.scenario("S-065")
@on_virtual_time
async def test_sibling_crashes_while_it_is_being_stopped(stage):
    """There is one `shutdown_error`, no extra restart is counted, and the group comes back."""
    stage.cleanups["c"] = Boom("clean-up of c")
    async with stage.open("one_for_all", map(stage.W, "abc")) as supervisor:
        stage.crash("a")
        await settled()
        assert statuses(await supervisor.which_children()) == dict.fromkeys("abc", "running")
        assert stage.kinds() == [("child_terminated", "a"), ("shutdown_error", "c")]
        del stage.cleanups["c"]


@pytest.mark.scenario("S-066")
@on_virtual_time
async def test_stop_request_during_a_group_restart(stage):
    """What had been started is stopped in reverse order, and the rest is never started."""
    async with stage.open("one_for_all", map(stage.W, "abcd")) as supervisor:
        stage.plans["c"].append(10.0)
        stage.crash("a")
        await settled()
        stage.seen()
        await supervisor.stop()
        assert stage.seen("init", "started", "stopping") == ["stopping c", "stopping b", "stopping a"]


@pytest.mark.scenario("S-067")
@on_virtual_time
async def test_dynamic_children_are_restarted_with_their_own_arguments(stage):
    """One crashes; the other keeps its handle."""

    async def with_arguments(name, task_status):
        await stage.start(name).function(name, "own", name, task_status=task_status)

    async with stage.open("dynamic", [ChildSpec("t", worker(with_arguments))]) as supervisor:
        await supervisor.start_instance("one")
        two = (await supervisor.start_instance("two")).handle
        stage.crash("one")
        await settled()
        assert [instance.arguments for instance in stage.instances["one"]] == [("own", "one")] * 2
        children = await supervisor.which_children()
        assert two in {child.handle for child in children}
        assert {child.incarnation for child in children} == {1, 2}


@pytest.mark.scenario("S-068")
@on_virtual_time
async def test_ignored_restart_of_a_dynamic_child(stage):
    """The child is removed, the counts are right, and the supervisor stops without an error."""
    stage.plans["t"] += ["up", "up", "ignore"]
    async with stage.open("dynamic", [stage.W("t")]) as supervisor:
        await supervisor.start_instance()
        await supervisor.start_instance()
        stage.crash("t")
        await settled()
        assert await supervisor.count_children() == ChildCounts(specs=1, active=1, supervisors=0, workers=1)
        await supervisor.stop()
    assert stage.kinds() == [("child_terminated", "t")]


@pytest.mark.scenario("S-069")
@on_virtual_time
async def test_restart_of_a_tree(stage):
    """One subtree uses up its budget: the whole tree is new, and what was added below is gone."""
    children = [
        ChildSpec("left", subtree(stage.flags(), [stage.W("l")])),
        ChildSpec("right", subtree(stage.flags(), [stage.W("r")])),
    ]
    async with stage.open("one_for_all", children) as supervisor:
        before = {name: supervisor.handle(name) for name in ("left", "right")}
        for name, handle in before.items():
            await handle.start_child(stage.W(f"added {name}"))
        old = before["left"].handle("l"), before["right"].handle("r")
        stage.crash("r")
        await settled()
        stage.crash("r")
        await settled()
        after = {name: supervisor.handle(name) for name in ("left", "right")}
        new = after["left"].handle("l"), after["right"].handle("r")
        assert not {*before.values(), *old} & {*after.values(), *new}
        assert [statuses(await handle.which_children()) for handle in after.values()] == [
            {"l": "running"},
            {"r": "running"},
        ]
