"""What may not take a tree down, or let it stop late: garbage, deep errors, crash loops, inits that do not obey."""

import math
from contextlib import nullcontext

import pytest
import trio

from agentrail.actors import SupervisorFlags, SupervisorInit, get_state, open_supervisor, subtree, worker
from agentrail.actors.actor_handle import cell_of
from agentrail.actors.actor_registry import Registry
from agentrail.errors import (
    ActorDown,
    AlreadyStarted,
    ChildStartFailed,
    InvalidSpec,
    NoMailbox,
    SupervisorStopping,
)
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import (
    Killed,
    Shutdown,
)
from agentrail.otp.statem import Cast, Keep, Limits, Stop
from agentrail.testing.held import held
from tests.actors.rig import Boom, Tabled, gives_up, on_virtual_time, settled, statuses


@pytest.mark.parametrize("flags", [None, "one_for_one", {"strategy": "one_for_one"}], ids=repr)
@on_virtual_time
async def test_flags_that_are_none_are_refused_at_every_door(stage, flags):
    """Before anything is started or changed."""
    words = r"SupervisorFlags\(strategy, …\), got"
    with pytest.raises(InvalidSpec, match=words):
        async with open_supervisor(flags):
            pytest.fail("it opened")
    with pytest.raises(InvalidSpec, match=words):
        subtree(flags)

    async def find():
        return SupervisorInit(flags)

    async with stage.open(children=[stage.W("a")]) as supervisor:
        for wrong in (flags, SupervisorFlags):
            with pytest.raises(InvalidSpec, match=words) as caught:
                await supervisor.reconfigure(wrong, [])
            assert (caught.value.code, caught.value.field) == ("invalid_flags", "flags")
        with pytest.raises(ChildStartFailed, match="SupervisorFlags"):
            await supervisor.start_child(ChildSpec("sub", subtree(find)))
        assert statuses(await supervisor.which_children()) == {"a": "running"}


@on_virtual_time
async def test_what_raises_when_it_is_looked_at_is_the_callers_matter(stage):
    """Ids and specs are somebody's objects: a supervisor does not fall over them, nor do they keep it from stopping."""

    def fail(*_):
        raise ValueError

    class Hostile:
        __hash__ = __eq__ = __repr__ = fail

    class Seldom(dict):
        __iter__ = fail

    async with stage.open(children=[stage.W("a")]) as supervisor:
        for call in (
            lambda: supervisor.terminate_child(Hostile()),
            lambda: supervisor.restart_child(Hostile()),
            lambda: supervisor.delete_child(Hostile()),
            lambda: supervisor.get_child_spec(Hostile()),
            lambda: supervisor.start_child(Seldom(id="x")),
            lambda: supervisor.start_child(None),
            lambda: supervisor.reconfigure(stage.flags(), [None]),
            lambda: supervisor.reconfigure(stage.flags(), None),
        ):
            with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it is, it comes to its caller
                await call()
        with pytest.raises(InvalidSpec, match="id is <Hostile"):
            ChildSpec(Hostile(), stage.start("x"))
        with pytest.raises(InvalidSpec, match="children is None: expected child specs"):
            await supervisor.reconfigure(stage.flags(), None)
        assert statuses(await supervisor.which_children()) == {"a": "running"}


@on_virtual_time
async def test_what_is_no_machine_is_not_called(stage):
    """A supervisor refuses a call at once, by its handle and by an address; no worker has a state; the words say what to do."""
    below = ChildSpec("below", subtree(stage.flags()))
    async with stage.open(children=[below, stage.W("w")]) as supervisor:
        began = trio.current_time()
        for target in (supervisor, supervisor.handle("below"), supervisor.address("below")):
            with pytest.raises(NoMailbox, match="call its methods"):
                await target.call("hello", timeout_seconds=None)
        for target, words in ((supervisor, "call its methods"), (supervisor.handle("w"), "use machine")):
            with pytest.raises(NoMailbox, match=words):
                await get_state(target)
        for bad in (-1, math.nan, "5"):
            with pytest.raises(ValueError, match="timeout_seconds"):
                await supervisor.call("hello", timeout_seconds=bad)
        assert trio.current_time() == began
        assert supervisor.handle("w").statistics().accepted == 0
        handle = supervisor.handle("below")
        await supervisor.terminate_child("below")
        with pytest.raises(ActorDown):
            await handle.call("hello")


@pytest.mark.parametrize(
    "options",
    [{"trap_exits": True}, {"capacity": 5}, {"overflow": "block"}, {"limits": Limits(postponed=1)}],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(stage, options):
    """A worker and a supervisor read no messages; a machine takes all of them, and none of another type."""
    [name] = options
    for start, what in ((worker(trio.sleep_forever), "a worker"), (subtree(stage.flags()), "a supervisor")):
        with pytest.raises(InvalidSpec, match=f"{name} is .*{what}.*machine") as caught:
            start.with_options(**options)
        assert (caught.value.code, caught.value.field) == ("invalid_start", name)
    assert getattr(Tabled({}).start.with_options(**options).options, name) == options[name]
    for wrong in ({"trap_exits": "yes"}, {"limits": None}, {"name": "n"}):
        with pytest.raises(InvalidSpec, match=": expected "):
            Tabled({}).start.with_options(**wrong)


# --- crash loops


@pytest.mark.parametrize("strategy", ["one_for_one", "dynamic"])
@pytest.mark.parametrize(
    "what", ["which_children", "count_children", "tree", "stop", "start_child", "terminate_child"]
)
@on_virtual_time
async def test_a_restart_storm_starves_nobody(stage, strategy, what):
    """A hundred children that crash as soon as they are up: each call is answered before each of them crashed ten times."""
    crashes = []
    cut = trio.CancelScope()

    async def crash(task_status):
        task_status.started()
        crashes.append(1)
        if len(crashes) > 100 * 100:  # they would go on for ever
            cut.cancel()
        raise Boom

    flags = stage.flags(strategy, intensity=10_000_000)
    children = (
        [stage.W("t")] if strategy == "dynamic" else [ChildSpec(number, crash) for number in range(100)]
    )
    calls = {
        "start_child": lambda: supervisor.start_child(stage.W("x")),
        "terminate_child": lambda: supervisor.terminate_child(calm),
    }
    async with open_supervisor(flags, children, observer=lambda _: None) as supervisor:
        with cut:
            calm = (await supervisor.start_child(stage.W("calm"))).handle if strategy == "dynamic" else 5
            if strategy == "dynamic":
                for number in range(100):
                    supervisor.start_child_soon(ChildSpec(number, crash))
            before = len(crashes)
            await calls.get(what, getattr(supervisor, what))()
            assert len(crashes) - before < 1_000
        assert not cut.cancelled_caught


# --- stops


@on_virtual_time
async def test_a_supervisor_is_down_when_stop_returns(stage):
    """Its reason is known and its name is free, whoever Trio lets go first; of the root and of a subtree."""
    for _ in range(50):
        with Registry() as registry:
            name = registry.name("x")
            async with open_supervisor(stage.flags(), name=name) as supervisor:
                summary = await supervisor.stop(Shutdown("enough"))
                assert supervisor.exit_reason == summary.reason == Shutdown("enough")
                assert registry.lookup("x") is None
                with pytest.raises(ActorDown):
                    await supervisor.stop()
            async with stage.open(
                children=[ChildSpec("s", subtree(stage.flags()).with_options(name=name), "temporary")]
            ) as s:
                below = s.handle("s")
                await below.stop()
                assert (below.exit_reason, registry.lookup("x")) == (Shutdown(), None)


@pytest.mark.parametrize("way", ["kill", "cancellation", "timeout"])
@on_virtual_time
async def test_a_subtree_that_does_not_obey_in_its_init_is_stuck(stage, way):
    """As any other child: the kill of the root is answered, it is reported once, and nothing below is started any more."""

    async def find():
        with trio.CancelScope(shield=True):  # noqa: ASYNC101 - this is what nobody may do
            await trio.sleep(1000)
        return SupervisorInit(stage.flags(), [stage.W("below")])

    async def start():
        timeout = {"start_timeout_seconds": 2.0, "shutdown_seconds": 3.0} if way == "timeout" else {}
        with pytest.raises((SupervisorStopping, ChildStartFailed)):
            await supervisor.start_child(ChildSpec("sub", subtree(find), **timeout))
        done.append(trio.current_time() - began)

    began, done = trio.current_time(), []
    scope = trio.CancelScope()
    with gives_up(Killed()) if way == "kill" else nullcontext(), scope:
        async with stage.open(stop_within_seconds=5.0) as supervisor, trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await settled()
            if way == "kill":
                supervisor.kill()
                assert (await supervisor.stop(timeout_seconds=50)).stuck == 1
                assert trio.current_time() - began == pytest.approx(1.0)
            elif way == "cancellation":
                scope.cancel()
                await trio.sleep_forever()
    assert [report.kind for report in stage.reports if report.kind == "stuck"] == ["stuck"]
    assert "init below" not in stage.log
    if way == "timeout":
        assert done == [pytest.approx(6.0)]


@on_virtual_time
async def test_a_name_of_a_start_that_failed_is_told_to_its_own_caller(stage):
    """Two starts that fail behind each other do not mix up their errors."""
    with Registry() as registry:
        taken = Tabled({"s1": lambda _: Keep()}).start.with_options(name=registry.name("n"))
        stage.always["f"] = "fail"
        async with stage.open(children=[ChildSpec("m", taken)]) as supervisor:
            errors = []

            async def ask(spec):
                try:
                    await supervisor.start_child(spec)
                except (AlreadyStarted, ChildStartFailed) as error:
                    errors.append(type(error))

            async with held(supervisor), trio.open_nursery() as nursery:
                nursery.start_soon(ask, ChildSpec("two", taken))
                nursery.start_soon(ask, stage.W("f"))
                await settled()
                cell_of(supervisor).mailbox.release()
                await settled()
                cell_of(supervisor).mailbox.hold()
            assert set(errors) == {AlreadyStarted, ChildStartFailed}
            supervisor.handle("m").cast(Cast("still there"))


@on_virtual_time
async def test_a_start_that_is_cancelled_before_its_first_step_runs_nothing(stage):
    """Trio would let it run until its first checkpoint."""
    async with stage.open() as supervisor:
        async with held(supervisor):
            with trio.move_on_after(1):
                await supervisor.start_child(stage.W("x"))
        await settled()
    assert stage.log == []


@pytest.mark.parametrize(
    ("shutdown", "is_asked", "cut_after"),
    [("infinity", False, 5.0), (2.0, False, 2.0), (50.0, False, 5.0), (2.0, True, 2.0)],
)
@on_virtual_time
async def test_a_terminate_that_takes_too_long_is_killed(stage, shutdown, is_asked, cut_after):
    """When the shutdown time is over; if nobody asked for the end, nobody's ladder has one: after five seconds at most."""

    class Slow(Tabled):
        async def terminate(self, reason, state, data):
            await trio.sleep(60)

    start = Slow({"s1": lambda _: Stop()}).start
    children = [ChildSpec("m", start, "temporary", shutdown_seconds=shutdown)]
    async with stage.open(children=children) as supervisor:
        handle, began = supervisor.handle("m"), trio.current_time()
        if is_asked:
            await supervisor.terminate_child("m")
        else:
            handle.cast("go")
        assert await handle.wait() == Killed()
        assert trio.current_time() - began == cut_after
