"""Sections B, C and D of the conformance scenarios, on running supervisors: who is restarted, how often, and with whom."""

import itertools
import time
from contextlib import nullcontext

import pytest
import trio

from agentrail.actors import cleanup_scope, subtree, worker
from agentrail.actors.monitor import monitor
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Normal, Shutdown
from agentrail.otp.supervision_types import ChildCounts
from agentrail.testing.held import held
from tests.actors.rig import GAVE_UP, Boom, boom, gives_up, is_boom, on_virtual_time, settled, statuses

EMPTY = ChildCounts(specs=0, active=0, supervisors=0, workers=0)


def end_as(stage, name, how):
    """Let a child crash, or end with a reason."""
    if how == "crash":
        stage.crash(name)
    else:
        stage.end(name, how)


# --- B. restart types


@pytest.mark.scenario("S-022", "S-023", "S-024", "S-025", "S-026", "S-027")
@pytest.mark.scenario("S-029", "S-030", "S-031", "S-032")
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("how", [Normal(), Shutdown(), Shutdown("budget exhausted"), "crash"], ids=str)
@on_virtual_time
async def test_restart_types(stage, restart, how):
    """A permanent child comes back after any end, a transient one after a crash; a temporary one is gone, its id free."""
    is_clean = how != "crash"
    async with stage.open(children=[stage.W("a", restart=restart)]) as supervisor:
        old, counts = supervisor.handle("a"), await supervisor.count_children()
        watch = monitor(old)
        end_as(stage, "a", how)
        reason = (await watch.wait()).reason
        assert reason == how if is_clean else is_boom(reason, "a")
        assert old.exit_reason == reason
        await settled()
        if restart == "temporary":
            assert await supervisor.count_children() == EMPTY
            new = (await supervisor.start_child(stage.W("a", restart=restart))).handle
        elif restart == "transient" and is_clean:
            down = ChildCounts(specs=1, active=0, supervisors=0, workers=1)
            assert await supervisor.count_children() == down
            new = (await supervisor.restart_child("a")).handle
        else:
            assert await supervisor.count_children() == counts
            new = supervisor.handle("a")
        assert new is supervisor.handle("a")
        assert (new is old, new.exit_reason) == (False, None)
        assert (old.incarnation, new.incarnation) == (1, 1 if restart == "temporary" else 2)
        assert stage.seen("started") == ["started a"] * 2
    assert (stage.kinds() == []) == (is_clean and restart != "permanent")


@pytest.mark.scenario("S-034")
@on_virtual_time
async def test_arguments_of_a_restart(stage):
    """The new instance gets the list as it was first given."""
    given = ["first"]
    async with stage.open(children=[stage.W("a", given)]):
        given.append("by the giver")
        stage.instances["a"][-1].arguments[0].append("by the child")
        stage.crash("a")
        await settled()
        assert stage.instances["a"][-1].arguments == (["first"],)


# --- C. intensity


async def crash_at(stage, name, *seconds):
    """Let a child crash at these times, from when it began."""
    began = trio.current_time()
    for moment in seconds:
        await trio.sleep_until(began + moment)
        stage.crash(name)
        await settled()


@pytest.mark.scenario("S-036")
@on_virtual_time
async def test_exact_boundary(stage):
    """The third crash within the period is one too many, and all children are stopped."""
    with gives_up():
        async with stage.open(children=[stage.W("a"), stage.W("b")], intensity=2) as supervisor:
            await crash_at(stage, "a", 0, 1)
            assert statuses(await supervisor.which_children()) == {"a": "running", "b": "running"}
            assert stage.seen("started").count("started a") == 3
            await crash_at(stage, "a", 1)
            await trio.sleep_forever()
    assert stage.seen("started", "stopping") == ["stopping b"]
    assert [report.child_id for report in stage.reports if report.kind == "shutdown"] == ["a"]


@pytest.mark.scenario("S-037", "S-038", "S-039")
@pytest.mark.parametrize(
    ("flags", "crashes", "starts", "lives"),
    [
        ({"intensity": 0}, (0,), 1, False),
        ({"period_seconds": 1.0}, (0, 2.1, 4.2, 6.3), 5, True),
        ({}, (0, 5.0), 2, False),
        ({}, (0, 5.01), 3, True),
    ],
    ids=["intensity 0", "the window slides", "its edge is inside", "just outside"],
)
@on_virtual_time
async def test_window(stage, flags, crashes, starts, lives):
    """Only crashes within the period add up, and its edge is part of it."""
    with nullcontext() if lives else gives_up():
        async with stage.open(children=[stage.W("a")], **flags):
            await crash_at(stage, "a", *crashes)
            if not lives:
                await trio.sleep_forever()
    assert stage.seen("started") == ["started a"] * starts


@pytest.mark.scenario("S-040")
@on_virtual_time
async def test_failed_restarts_count(stage):
    """After the crash exactly as many starts are attempted as the intensity allows."""
    stage.plans["a"].append("up")
    stage.always["a"] = "fail"
    with gives_up():
        async with stage.open(children=[stage.W("a")], intensity=4):
            stage.crash("a")
            await trio.sleep_forever()
    assert stage.seen("init") == ["init a"] * 5


@pytest.mark.scenario("S-041")
@on_virtual_time
async def test_recovery_within_the_budget(stage):
    """Two failed inits and one that succeeds are three restarts."""
    stage.plans["a"] += ["up", "fail", "fail", "up"]
    with gives_up():
        async with stage.open(children=[stage.W("a")], intensity=5) as supervisor:
            await crash_at(stage, "a", 0)
            assert statuses(await supervisor.which_children()) == {"a": "running"}
            assert stage.seen("init") == ["init a"] * 4
            await crash_at(stage, "a", 0, 0)  # five have been counted now
            assert statuses(await supervisor.which_children()) == {"a": "running"}
            await crash_at(stage, "a", 0)
            await trio.sleep_forever()


@pytest.mark.scenario("S-043")
@on_virtual_time
async def test_what_does_not_count(stage):
    """Neither what was asked for, nor ends that restart nothing; a first real crash is still restarted."""
    async with stage.open(children=[stage.W("a"), stage.W("t", restart="transient")]) as supervisor:
        for number in range(10):
            await supervisor.terminate_child("a")
            await supervisor.restart_child("a")
            await supervisor.start_child(stage.W(number, restart="temporary"))
            stage.crash(number)
            stage.end("t")
            await settled()
            await supervisor.restart_child("t")
        old = supervisor.handle("a")
        stage.crash("a")
        await settled()
        assert supervisor.handle("a") is not old


@pytest.mark.scenario("S-044")
@on_virtual_time
async def test_group_restart_counts_once(stage):
    """The first crash restarts all three; the second within the window is too many."""
    with gives_up():
        async with stage.open("one_for_all", map(stage.W, "abc")):
            await crash_at(stage, "b", 0)
            assert stage.seen("started") == [*("started a", "started b", "started c") * 2]
            await crash_at(stage, "b", 0)
            await trio.sleep_forever()
    assert stage.seen("started") == []


@pytest.mark.scenario("S-045", "S-046")
@on_virtual_time
async def test_simultaneous_crashes(stage):
    """In a group one restart is counted, and the second crash is a `shutdown_error`; one for one they are one too many."""
    async with stage.open("one_for_all", map(stage.W, "abc")) as supervisor:
        before = [supervisor.handle(name) for name in "abc"]
        async with held(supervisor):
            stage.crash("a")
            await settled()
            stage.crash("c")
            await settled()
        await settled()
        assert not {supervisor.handle(name) for name in "abc"} & set(before)
        assert stage.kinds() == [("child_terminated", "a"), ("shutdown_error", "c")]
    stage.seen()
    with gives_up():
        async with stage.open(children=map(stage.W, "abc")) as supervisor:
            async with held(supervisor):
                stage.crash("a", "b")
                await settled()
            await trio.sleep_forever()
    assert stage.seen("stopping")[0] == "stopping c"


@pytest.mark.scenario("S-047")
@pytest.mark.parametrize("restart", ["transient", "permanent"])
@on_virtual_time
async def test_giving_up_is_a_clean_end(stage, restart):
    """A transient supervisor stays down; a permanent one comes back, with its initial children only."""
    sub = ChildSpec("sub", subtree(stage.flags(), [stage.W("a")]), restart=restart)
    async with stage.open(children=[sub]) as supervisor:
        below = supervisor.handle("sub")
        await below.start_child(stage.W("added"))
        await crash_at(stage, "a", 0, 0)
        assert below.exit_reason == GAVE_UP
        if restart == "transient":
            assert statuses(await supervisor.which_children()) == {"sub": "stopped"}
        else:
            again = supervisor.handle("sub")
            assert statuses(await again.which_children()) == {"a": "running"}


@pytest.mark.scenario("S-048")
@on_virtual_time
async def test_escalation(stage):
    """Three levels of intensity 1: the leaf is started eight times, then the top gives up."""
    starts = []

    async def doomed():
        starts.append(trio.current_time())
        boom("always")

    low = subtree(stage.flags(), [ChildSpec("leaf", worker(doomed))])
    middle = subtree(stage.flags(), [ChildSpec("low", low)])
    with gives_up():
        async with stage.open(children=[ChildSpec("middle", middle)]):
            await trio.sleep_forever()
    assert len(starts) == 8
    assert len(set(starts)) == 1


@pytest.mark.scenario("S-050")
@on_virtual_time
async def test_restart_loop_yields(stage):
    """Others get their turn between the attempts, questions are answered, and `terminate_child` ends it."""
    stage.plans["a"].append("up")
    stage.always["a"] = "fail"
    turns = 0
    async with stage.open(children=[stage.W("a")], intensity=1_000_000) as supervisor:
        stage.crash("a")
        while stage.log.count("init a") < 20:
            await trio.lowlevel.checkpoint()
            turns += 1
        assert turns >= 19
        assert statuses(await supervisor.which_children()) == {"a": "restarting"}
        await supervisor.terminate_child("a")
        attempts = stage.log.count("init a")
        assert attempts < 200
        await settled()
        assert stage.log.count("init a") == attempts
        assert statuses(await supervisor.which_children()) == {"a": "stopped"}


@pytest.mark.scenario("S-051")
@on_virtual_time
async def test_wall_clock_jumps(stage, monkeypatch):
    """Only the monotonic clock counts: 6 s apart is far, 1 s apart is near, whatever the wall says."""
    wall = itertools.cycle([0.0, 4e9, 1e9])
    monkeypatch.setattr(time, "time", lambda: next(wall))
    with gives_up():
        async with stage.open(children=[stage.W("a")]):
            await crash_at(stage, "a", 0, 6)
            assert stage.seen("started") == ["started a"] * 3
            await crash_at(stage, "a", 1)
            await trio.sleep_forever()


STATIC = ["one_for_one", "one_for_all", "rest_for_one"]
GROUPS = ["one_for_all", "rest_for_one"]


@pytest.mark.scenario("S-052", "S-053", "S-054", "S-055")
@pytest.mark.parametrize(
    ("strategy", "crashed", "stopped", "started"),
    [
        ("one_for_one", "b", "", "b"),
        ("one_for_all", "b", "dca", "abcd"),
        ("rest_for_one", "b", "dc", "bcd"),
        ("rest_for_one", "d", "", "d"),
    ],
)
@on_virtual_time
async def test_whom_a_crash_concerns(stage, strategy, crashed, stopped, started):
    """Each is gone before the next is asked, all before the first start; the others keep their handles."""
    async with stage.open(strategy, map(stage.W, "abcd")) as supervisor:
        before = {name: supervisor.handle(name) for name in "abcd"}
        stage.seen()
        stage.crash(crashed)
        await settled()
        after = {name: supervisor.handle(name) for name in "abcd"}
        assert stage.seen("stopping", "gone", "started") == [
            f"gone {crashed}",
            *(f"{word} {name}" for name in stopped for word in ("stopping", "gone")),
            *(f"started {name}" for name in started),
        ]
        assert {name for name in "abcd" if before[name] is not after[name]} == set(started)
        assert {stage.instances[name][0].told for name in stopped} <= {Shutdown()}
        assert {name for name in "abcd" if before[name].exit_reason is not None} == set(started)


@pytest.mark.scenario("S-057", "S-060", "S-061")
@on_virtual_time
async def test_what_a_group_restart_brings_back(stage):
    """Not a temporary child, which is stopped; but a transient one that had finished, and one that was terminated."""
    children = [
        stage.W("a"),
        stage.W("b", restart="temporary"),
        stage.W("c", restart="transient"),
        stage.W("d"),
    ]
    async with stage.open("one_for_all", children) as supervisor:
        stage.end("c")
        await supervisor.terminate_child("d")
        await settled()
        known = {"a": "running", "b": "running", "c": "stopped", "d": "stopped"}
        assert statuses(await supervisor.which_children()) == known
        stage.seen()
        stage.crash("a")
        await settled()
        assert stage.seen("stopping", "started") == ["stopping b", "started a", "started c", "started d"]
        assert statuses(await supervisor.which_children()) == dict.fromkeys("acd", "running")


@pytest.mark.scenario("S-058", "S-059")
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
