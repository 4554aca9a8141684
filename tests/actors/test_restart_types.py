"""Sections B and C of the conformance scenarios, on running supervisors: who is restarted, and how often."""

import itertools
import time

import pytest
import trio

from agentrail.actors import subtree, worker
from agentrail.actors.monitor import monitor
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Normal, Shutdown
from agentrail.otp.supervision_types import ChildCounts
from agentrail.testing.held import held
from tests.actors.rig import GAVE_UP, boom, gives_up, is_boom, on_virtual_time, settled, statuses

EMPTY = ChildCounts(specs=0, active=0, supervisors=0, workers=0)


def end_as(stage, name, how):
    """Let a child crash, or end with a reason."""
    if how == "crash":
        stage.crash(name)
    else:
        stage.end(name, how)


# --- B. restart types


@pytest.mark.scenario("S-022")
@pytest.mark.scenario("S-023")
@pytest.mark.scenario("S-024")
@pytest.mark.parametrize("how", [Normal(), Shutdown("x"), "crash"], ids=str)
@on_virtual_time
async def test_permanent_child_is_restarted_after_any_end(stage, how):
    """With a new handle and the next incarnation number; the counts are unchanged."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        old, counts = supervisor.handle("a"), await supervisor.count_children()
        end_as(stage, "a", how)
        await settled()
        new = supervisor.handle("a")
        assert (old.incarnation, new.incarnation) == (1, 2)
        assert old is not new
        assert (
            (old.exit_reason, new.exit_reason is None) == (how, True)
            if how != "crash"
            else is_boom(old.exit_reason)
        )
        assert await supervisor.count_children() == counts


@pytest.mark.scenario("S-025")
@pytest.mark.scenario("S-026")
@pytest.mark.scenario("S-027")
@pytest.mark.parametrize("how", [Normal(), Shutdown(), Shutdown("budget exhausted")], ids=str)
@on_virtual_time
async def test_transient_child_that_ended_cleanly_keeps_its_spec(stage, how):
    """It is not restarted, `restart_child` starts it again, and a monitor sees why it ended."""
    async with stage.open(children=[stage.W("a", restart="transient")]) as supervisor:
        watch = monitor(supervisor.handle("a"))
        stage.end("a", how)
        assert (await watch.wait()).reason == how
        await settled()
        assert await supervisor.count_children() == ChildCounts(specs=1, active=0, supervisors=0, workers=1)
        assert stage.seen("started") == ["started a"]
        assert (await supervisor.restart_child("a")).handle is supervisor.handle("a")
        assert stage.seen("started") == ["started a"]


@pytest.mark.scenario("S-029")
@pytest.mark.scenario("S-030")
@pytest.mark.scenario("S-031")
@pytest.mark.parametrize("how", [Normal(), Shutdown("x"), "crash"], ids=str)
@on_virtual_time
async def test_temporary_child_disappears(stage, how):
    """It is not restarted, and its id is free at once."""
    async with stage.open(children=[stage.W("a", restart="temporary")]) as supervisor:
        end_as(stage, "a", how)
        await settled()
        assert await supervisor.count_children() == EMPTY
        assert (await supervisor.start_child(stage.W("a", restart="temporary"))).handle is supervisor.handle(
            "a"
        )


@pytest.mark.scenario("S-032")
@on_virtual_time
async def test_no_error_report_on_a_clean_end(stage):
    """Transient and temporary children may go."""
    ends = list(itertools.product(["transient", "temporary"], [Normal(), Shutdown(), Shutdown("x")]))
    children = [stage.W(place, restart=restart) for place, (restart, _) in enumerate(ends)]
    async with stage.open(children=children):
        for place, (_, reason) in enumerate(ends):
            stage.end(place, reason)
        await settled()
        assert all(stage.alive(place) == 0 for place in range(len(ends)))
    assert stage.kinds() == []


@pytest.mark.scenario("S-033")
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@on_virtual_time
async def test_one_report_on_a_crash(stage, restart):
    """With the real reason, for each restart type."""
    async with stage.open(children=[stage.W("a", restart=restart)]):
        stage.crash("a")
        await settled()
    reports = [report for report in stage.reports if report.kind == "child_terminated"]
    assert [(report.child_id, report.restart, is_boom(report.reason, "a")) for report in reports] == [
        ("a", restart, True)
    ]


@pytest.mark.scenario("S-033")
@on_virtual_time
async def test_one_report_when_a_permanent_child_ends_normally(stage):
    """It was to stay."""
    async with stage.open(children=[stage.W("a")]):
        stage.end("a")
        await settled()
    reports = [report for report in stage.reports if report.kind == "child_terminated"]
    assert [(report.child_id, report.reason) for report in reports] == [("a", Normal())]


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


@pytest.mark.scenario("S-037")
@on_virtual_time
async def test_intensity_0(stage):
    """The first crash is too many; nothing was restarted."""
    with gives_up():
        async with stage.open(children=[stage.W("a")], intensity=0):
            stage.crash("a")
            await trio.sleep_forever()
    assert stage.seen("init") == ["init a"]


@pytest.mark.scenario("S-038")
@on_virtual_time
async def test_window_slides(stage):
    """A crash every 2.1 s is never more than one within 1 s."""
    async with stage.open(children=[stage.W("a")], period_seconds=1.0):
        await crash_at(stage, "a", 0, 2.1, 4.2, 6.3)
        assert stage.seen("started") == ["started a"] * 5


@pytest.mark.scenario("S-039")
@on_virtual_time
async def test_edge_of_the_window_is_inside(stage):
    """Crashes at 0 and exactly 5.0 s are one too many."""
    with gives_up():
        async with stage.open(children=[stage.W("a")]):
            await crash_at(stage, "a", 0, 5.0)
            await trio.sleep_forever()
    assert stage.seen("started") == ["started a"] * 2


@pytest.mark.scenario("S-039")
@on_virtual_time
async def test_just_outside_the_window(stage):
    """Crashes at 0 and 5.01 s are not."""
    async with stage.open(children=[stage.W("a")]):
        await crash_at(stage, "a", 0, 5.01)
        assert stage.seen("started") == ["started a"] * 3


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


@pytest.mark.scenario("S-045")
@on_virtual_time
async def test_simultaneous_crashes_in_a_group(stage):
    """One restart is counted, the whole group runs anew, and the second crash is a `shutdown_error`."""
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


@pytest.mark.scenario("S-046")
@on_virtual_time
async def test_simultaneous_crashes_one_for_one(stage):
    """Two restarts are counted, so the supervisor gives up."""
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
