"""Sections G and H of the conformance scenarios, on running supervisors: how a tree ends, and children whose end ends it."""

import itertools
import os
import subprocess
import tempfile
import threading

import pytest
import trio

from agentrail.actors import cleanup_scope, current_actor, subtree, worker
from agentrail.actors.monitor import link, monitor, unlink
from agentrail.errors import SupervisorGaveUp
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import ActorExit, Killed, Normal, Shutdown
from tests.actors.rig import Boom, Tabled, gives_up, is_boom, on_virtual_time, settled, statuses
from tests.otp.rig import obey

KINDS = ["permanent", "transient", "temporary"]


@pytest.mark.scenario("S-099", "S-100", "S-101", "S-102")
@pytest.mark.parametrize(
    ("shutdown", "seconds", "reason", "errors"),
    [
        (0.2, 0.2, Killed(), [("shutdown_error", "a")]),
        ("brutal_kill", 0.0, Killed(), []),
        ("infinity", 60.0, Shutdown(), []),
    ],
)
@on_virtual_time
async def test_shutdown_time(stage, shutdown, seconds, reason, errors):
    """A stubborn child has exactly this time, a machine ends at once; only a brutal kill calls no `terminate`."""
    door = Tabled({"s1": obey})
    children = [
        stage.Stubborn("a", shutdown_seconds=shutdown),
        ChildSpec("door", door.start, shutdown_seconds=shutdown),
    ]
    async with stage.open(children=children) as supervisor:
        handles = supervisor.handle("a"), supervisor.handle("door")
        began = trio.current_time()
        summary = await supervisor.stop()
    is_brutal = shutdown == "brutal_kill"
    assert stage.instances["a"][0].ended_at - began == pytest.approx(seconds, abs=1e-9)
    assert is_brutal or stage.instances["a"][0].told == Shutdown()
    assert door.ends == ([] if is_brutal else [Shutdown()])
    assert [handle.exit_reason for handle in handles] == [reason, Killed() if is_brutal else Shutdown()]
    assert (summary.stuck, summary.seconds) == (0, pytest.approx(seconds, abs=1e-9))
    assert stage.kinds() == errors
    assert {one.reason for one in stage.reports if one.kind == "shutdown_error"} <= {Killed()}


@pytest.mark.scenario("S-100")
@on_virtual_time
async def test_kill_that_became_necessary_is_an_error_whatever_the_child_says(stage):
    """It overran its time and then claims a clean end: one `shutdown_error`, and the summary counts it as killed."""

    async def pretender(task_status):
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with cleanup_scope():
                await trio.sleep(60)
            raise ActorExit(Shutdown())

    children = [ChildSpec("a", worker(pretender), shutdown_seconds=0.2)]
    async with stage.open(children=children) as supervisor:
        handle = supervisor.handle("a")
        summary = await supervisor.stop()
    assert (handle.exit_reason, summary.killed, summary.ended) == (Shutdown(), 1, 0)
    assert stage.kinds() == [("shutdown_error", "a")]


@pytest.mark.scenario("S-103", "S-107")
@on_virtual_time
async def test_worst_case(stage):
    """Under a static supervisor times add up; a dynamic one asks all at once, and each is killed at its own time."""
    async with stage.open(children=map(stage.Stubborn, "abc")) as supervisor:
        summary = await supervisor.stop()
    assert (summary.seconds, summary.killed) == (pytest.approx(15.0, abs=1e-9), 3)
    async with stage.open("dynamic", [stage.Stubborn("t")]) as supervisor:
        for seconds in (1, 2, 3):
            await supervisor.start_child(stage.Stubborn(seconds, shutdown_seconds=float(seconds)))
        await supervisor.start_instance()
        began = trio.current_time()
        summary = await supervisor.stop()
    assert (summary.seconds, summary.killed) == (pytest.approx(5.0, abs=1e-9), 4)
    ended = [stage.instances[name][0].ended_at - began for name in (1, 2, 3, "t")]
    assert ended == pytest.approx([1.0, 2.0, 3.0, 5.0], abs=1e-9)


@pytest.mark.scenario("S-104")
@on_virtual_time
async def test_exits_during_the_stop(stage):
    """None is restarted, the supervisor ends with `Shutdown`, and each `Down` carries the child's own reason."""
    ends = list(itertools.product(KINDS, [Normal(), Shutdown(), Shutdown("x"), Boom("x")]))
    children = [stage.W(place, restart=restart) for place, (restart, _) in enumerate(ends)]
    stage.cleanups["last"] = 1.0
    async with stage.open(children=[*children, stage.W("last")]) as supervisor:
        watches = [monitor(supervisor.handle(place)) for place in range(len(ends))]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.stop)
            await settled()
            for place, (_, outcome) in enumerate(ends):
                stage.end(place, outcome)
            downs = [(await watch.wait()).reason for watch in watches]
        assert supervisor.exit_reason == Shutdown()
    for (_, outcome), reason in zip(ends, downs, strict=True):
        assert is_boom(reason) if isinstance(outcome, Boom) else reason == outcome
    assert all(len(stage.instances[place]) == 1 for place in range(len(ends)))


@pytest.mark.scenario("S-106")
@on_virtual_time
async def test_child_cannot_detach(stage):
    """It takes away every link and monitor that it can reach, and still belongs to its supervisor."""

    async def sly(task_status):
        me = current_actor()
        monitor(me.supervisor).cancel()
        unlink(me.handle, me.supervisor)
        task_status.started()
        await trio.sleep_forever()

    with trio.fail_after(60):
        async with stage.open(children=[ChildSpec(name, worker(sly)) for name in "ab"]) as supervisor:
            handle = supervisor.handle("a")
            await supervisor.terminate_child("a")
            assert handle.exit_reason == Shutdown()


@pytest.mark.scenario("S-108")
@on_virtual_time
async def test_nested(stage):
    """Depth first and reverse; a child supervisor is completely gone before its next sibling is asked."""
    for name in ("x1", "x2", "y1", "y2"):
        stage.cleanups[name] = 1.0

    def below(name, inner):
        return ChildSpec(name, subtree(stage.flags(), inner))

    tree = below(
        "top", [below("x", [stage.W("x1"), stage.W("x2")]), below("y", [stage.W("y1"), stage.W("y2")])]
    )
    async with stage.open(children=[tree]):
        pass
    assert stage.seen("stopping", "gone") == [
        *("stopping y2", "gone y2", "stopping y1", "gone y1"),
        *("stopping x2", "gone x2", "stopping x1", "gone x1"),
    ]


@pytest.mark.scenario("S-109")
@on_virtual_time
async def test_stop_is_idempotent(stage):
    """Both callers return when it is down, with one summary; each child was asked once, and keeps its first reason."""
    summaries = []
    stage.cleanups["b"] = 2.0
    async with stage.open(children=map(stage.W, "ab")) as supervisor:
        handle = supervisor.handle("b")

        async def stop():
            summaries.append((await supervisor.stop(), trio.current_time()))

        async with trio.open_nursery() as nursery:
            handle.exit(Shutdown("first"))
            await settled()
            handle.exit(Shutdown("second"))
            nursery.start_soon(stop)
            nursery.start_soon(stop)
    assert summaries[0] == summaries[1]
    assert handle.exit_reason == Shutdown("first")
    assert stage.seen("stopping") == ["stopping b", "stopping a"]


@pytest.mark.scenario("S-110")
@on_virtual_time
async def test_stop_from_inside_a_child(stage):
    """It is cancelled at this await, its clean-up runs, and nothing hangs."""
    seen = []

    async def suicidal():
        try:
            await current_actor().supervisor.stop()
            seen.append("returned")
        finally:
            with cleanup_scope():
                await trio.sleep(1)
                seen.append(current_actor().stop_reason)

    with trio.fail_after(60):
        async with stage.open(children=[stage.W("a"), ChildSpec("b", worker(suicidal))]) as supervisor:
            assert await supervisor.wait() == Shutdown()
    assert seen == [Shutdown()]


@pytest.mark.scenario("S-111")
@on_virtual_time
async def test_crash_in_clean_up(stage):
    """It is a `shutdown_error`, a is still stopped after b, and the supervisor ends with `Shutdown`."""
    stage.cleanups["b"] = Boom("clean-up of b")
    async with stage.open(children=map(stage.W, "abc")) as supervisor:
        await supervisor.stop()
    assert supervisor.exit_reason == Shutdown()
    assert stage.seen("stopping") == ["stopping c", "stopping b", "stopping a"]
    assert [
        (one.kind, is_boom(one.reason, "clean-up of b")) for one in stage.reports if one.kind != "progress"
    ] == [("shutdown_error", True)]


@pytest.mark.scenario("S-113")
@on_virtual_time
async def test_supervisor_itself_is_killed(stage):
    """Nothing is left below it, and its reason is `Killed`."""
    low = subtree(stage.flags(), [stage.Stubborn("leaf")])
    children = [stage.W("a"), ChildSpec("low", low)]
    began = trio.current_time()
    with gives_up(Killed()):
        async with stage.open(children=children) as supervisor:
            below = supervisor.handle("low")
            supervisor.kill()
            await trio.sleep_forever()
    assert (supervisor.exit_reason, below.exit_reason) == (Killed(), Killed())
    assert stage.alive("leaf") == stage.alive("a") == 0
    assert trio.current_time() == began


@pytest.mark.scenario("S-114", "S-115", "S-116")
@on_virtual_time
async def test_what_a_supervisor_ignores(stage):
    """A shutdown and a crash of strangers, and messages: each is reported, and the supervisor works on."""
    foreign = stage.W("s", restart="temporary")
    async with stage.open(children=[stage.W("a")]) as supervisor, stage.open(children=[foreign]) as other:
        supervisor.exit(Shutdown(), sender=other.handle("s"))
        supervisor.cast("hello?")
        supervisor.info("hello?")
        await settled()
        ignored = [("ignored_exit", None), ("unknown_message", None), ("unknown_message", None)]
        assert sorted(stage.kinds()) == ignored

        link(supervisor, other.handle("s"))
        stage.crash("s")
        await settled()
        assert [one.kind for one in stage.reports if is_boom(one.reason, "s")].count("ignored_exit") == 1
        assert statuses(await supervisor.which_children()) == {"a": "running"}


async def _hoard(task_status):
    """Take one of everything that could be left behind, and give it back on the way out."""
    woken = threading.Event()
    thread = threading.Thread(target=woken.wait)
    thread.start()
    directory = tempfile.mkdtemp()
    reading, writing = os.pipe()
    sleeper = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - it starts at once
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 600)
            task_status.started(directory)
            await trio.sleep_forever()
    finally:
        woken.set()
        thread.join()
        os.rmdir(directory)  # noqa: PTH106 - a path as text
        os.close(reading)
        os.close(writing)
        sleeper.kill()
        sleeper.wait()


@pytest.mark.scenario("S-117")
@pytest.mark.parametrize("way", ["end of block", "stop", "cancellation", "giving up", "kill"])
@on_virtual_time
async def test_nothing_left(stage, way):
    """No task, thread, subprocess, descriptor or temporary file, whichever way it ended; `no_orphans` looks."""
    directories = []
    low = subtree(stage.flags(intensity=0), [ChildSpec("hoard", worker(_hoard)), stage.W("leaf")])
    with trio.CancelScope() as scope:
        try:
            async with stage.open(children=[stage.W("a"), ChildSpec("low", low)], intensity=0) as supervisor:
                directories.append(
                    (await supervisor.handle("low").start_child(ChildSpec("more", _hoard))).info
                )
                match way:
                    case "stop":
                        await supervisor.stop()
                    case "cancellation":
                        scope.cancel(reason="the test")
                        await trio.sleep_forever()
                    case "giving up":
                        stage.crash("a")
                        await trio.sleep_forever()
                    case "kill":
                        supervisor.kill()
                        await trio.sleep_forever()
        except SupervisorGaveUp:
            assert way in {"giving up", "kill"}
    assert scope.cancelled_caught == (way == "cancellation")
    assert not os.path.exists(directories[0])  # noqa: PTH110, ASYNC240 - a path as text
    assert stage.alive("a") == stage.alive("leaf") == 0


# --- 2.9: the block


@on_virtual_time
async def test_forced_stop_has_a_limit(stage):
    """After `stop_within_seconds` all that is left is killed at once."""
    children = [stage.Stubborn(name, shutdown_seconds=50.0) for name in "abc"]
    began = trio.current_time()
    with trio.move_on_after(1):
        async with stage.open(children=children, stop_within_seconds=60.0):
            await trio.sleep_forever()
    assert trio.current_time() - began == pytest.approx(61.0)
    assert all(stage.instances[name][0].ended_at - began <= 61.0 + 1e-6 for name in "abc")


DOWN = Shutdown("auto_shutdown")


def significant(stage, name, restart="transient"):
    return stage.W(name, restart=restart, significant=True)


@pytest.mark.scenario("S-118", "S-120")
@pytest.mark.parametrize(("restart", "outcome"), [("transient", Normal()), ("temporary", Boom("b"))])
@on_virtual_time
async def test_any(stage, restart, outcome):
    """The rest is stopped in reverse order, the supervisor ends with `Shutdown`, and the body goes on."""
    children = [stage.W("a"), significant(stage, "b", restart), stage.W("c")]
    async with stage.open(children=children, auto_shutdown="any_significant") as supervisor:
        stage.end("b", outcome)
        assert await supervisor.wait() == DOWN
        assert stage.seen("stopping") == ["stopping c", "stopping a"]


@pytest.mark.scenario("S-121", "S-122")
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
