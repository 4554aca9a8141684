"""Section F of the conformance scenarios, on running supervisors: the API."""

import functools
import gc
from contextlib import suppress

import pytest
import trio

from agentrail.actors import current_actor, open_supervisor, subtree, worker
from agentrail.actors.actor_types import takes_task_status
from agentrail.actors.reply_slots import ReplyTo
from agentrail.errors import (
    ActorDown,
    AlreadyPresent,
    AlreadyStarted,
    ChildNotFound,
    ChildRunning,
    ChildStartFailed,
    WouldDeadlock,
)
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.exits import InitFailed, NoProcess
from agentrail.otp.supervision_types import ChildCounts
from tests.actors.rig import Tabled, is_boom, on_virtual_time, settled, statuses
from tests.garbage import without_collector
from tests.otp.rig import obey


@pytest.mark.scenario("S-079", "S-080", "S-081", "S-082", "S-083", "S-087")
@on_virtual_time
async def test_calls_about_a_child(stage):
    """What is refused of a running child, of one without a process, and of none; each refusal leaves all as it was."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        handle = supervisor.handle("a")
        with pytest.raises(AlreadyStarted) as caught:
            await supervisor.start_child(stage.W("a"))
        assert caught.value.handle is handle
        for call in (supervisor.restart_child, supervisor.delete_child):
            with pytest.raises(ChildRunning):
                await call("a")
        assert (supervisor.handle("a"), handle.exit_reason) == (handle, None)

        for _ in range(2):
            assert await supervisor.terminate_child("a") is None
        with pytest.raises(AlreadyPresent):
            await supervisor.start_child(stage.W("a"))
        with pytest.raises(ActorDown):
            supervisor.handle("a")
        assert stage.seen("started", "gone") == ["started a", "gone a"]

        stage.plans["a"].append("fail")
        with pytest.raises(ChildStartFailed):
            await supervisor.restart_child("a")
        assert statuses(await supervisor.which_children()) == {"a": "stopped"}
        assert (await supervisor.restart_child("a")).handle is supervisor.handle("a")

        for key in ("nobody", ["unhashable"]):
            for name in ("terminate_child", "restart_child", "delete_child", "get_child_spec"):
                with pytest.raises(ChildNotFound):
                    await getattr(supervisor, name)(key)
        with pytest.raises(ChildNotFound, match="'nobody'"):
            supervisor.handle("nobody")
    with pytest.raises(ActorDown):
        supervisor.handle("nobody")


@pytest.mark.scenario("S-085", "S-086", "S-090")
@on_virtual_time
async def test_specs_that_are_not_kept(stage):
    """Neither of a start that fails, nor of a temporary child that was terminated; all others count."""
    below = ChildSpec("sub", subtree(stage.flags(), [stage.W("below")]))
    children = [stage.W("a", restart="temporary"), stage.W("b"), stage.W("c"), below]
    async with stage.open(children=children) as supervisor:
        with pytest.raises(
            ChildStartFailed, match=r"child 'x' did not start \(.*\): fix that and start it"
        ) as caught:
            await supervisor.start_child(stage.F("x"))
        assert isinstance(caught.value.reason, InitFailed)
        assert caught.value.reason.why == "raised"
        assert is_boom(caught.value.reason.cause, "init of x")
        assert stage.kinds() == [("start_error", "x")]

        await supervisor.terminate_child("a")
        for call in (supervisor.delete_child, supervisor.restart_child):
            with pytest.raises(ChildNotFound):
                await call("a")
        await supervisor.terminate_child("b")
        assert await supervisor.count_children() == ChildCounts(specs=3, active=2, supervisors=1, workers=2)


@pytest.mark.scenario("S-092")
@on_virtual_time
async def test_calls_on_a_dead_supervisor(stage):
    """Every one raises `ActorDown` with `NoProcess()`."""
    async with stage.open("dynamic", [stage.W("t")]) as supervisor:
        handle = (await supervisor.start_instance()).handle
    calls = [
        lambda: supervisor.start_child(stage.W("a")),
        supervisor.start_instance,
        lambda: supervisor.start_task(trio.sleep, 1),
        lambda: supervisor.terminate_child(handle),
        lambda: supervisor.restart_child("a"),
        lambda: supervisor.delete_child("a"),
        supervisor.which_children,
        supervisor.count_children,
        lambda: supervisor.get_child_spec("a"),
        lambda: supervisor.reconfigure(stage.flags("dynamic"), [stage.W("t")]),
        supervisor.stop,
    ]
    began = trio.current_time()
    for call in calls:
        with pytest.raises(ActorDown) as caught:
            await call()
        assert caught.value.reason == NoProcess()
    assert trio.current_time() == began


@pytest.mark.scenario("S-093")
@on_virtual_time
async def test_api_during_a_slow_stop(stage):
    """Questions are answered at once, another child stops sooner, and a second caller joins the first."""
    returned = []
    stage.cleanups["slow"] = 3.0
    async with stage.open(children=[stage.W("slow"), stage.W("b")]) as supervisor:
        began = trio.current_time()

        async def terminate(name, label):
            await supervisor.terminate_child(name)
            returned.append((label, trio.current_time() - began))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(terminate, "slow", "first")
            await settled()
            assert statuses(await supervisor.which_children()) == {"slow": "stopping", "b": "running"}
            assert (await supervisor.count_children()).specs == 2
            await terminate("b", "other")
            nursery.start_soon(terminate, "slow", "second")
        assert returned[0] == ("other", 0.0)
        assert sorted(returned[1:]) == [("first", 3.0), ("second", 3.0)]


@pytest.mark.scenario("S-094")
@on_virtual_time
async def test_child_calls_its_supervisor_from_its_init_and_its_end(stage):
    """It is told who is there; a call that would wait for itself raises `WouldDeadlock`."""
    heard = []

    async def curious(task_status):
        supervisor = current_actor().supervisor
        heard.append(statuses(await supervisor.which_children()))
        with pytest.raises(WouldDeadlock):
            await supervisor.start_child(stage.W("late"))
        task_status.started()
        await trio.sleep_forever()

    class Curious(Tabled):
        async def terminate(self, reason, state, data):
            heard.append(statuses(await current_actor().supervisor.which_children()))

    children = [ChildSpec("a", worker(curious)), ChildSpec("b", Curious({"s1": obey}).start)]
    with trio.fail_after(60):
        async with stage.open(children=children) as supervisor:
            await supervisor.terminate_child("b")
    assert heard == [{"a": "starting", "b": "stopped"}, {"a": "running", "b": "stopping"}]


@pytest.mark.check
@pytest.mark.scenario("S-096")
@on_virtual_time
async def test_ten_thousand_children(stage):
    """All of them start, all of them are gone, and the counts are 0."""

    async def idle(task_status):
        task_status.started()
        await trio.sleep_forever()

    async with stage.open("dynamic", [ChildSpec("t", worker(idle), restart="temporary")]) as supervisor:
        handles = [(await supervisor.start_instance()).handle for _ in range(10_000)]
        assert (await supervisor.count_children()).active == 10_000
        async with trio.open_nursery() as nursery:
            for handle in handles:
                nursery.start_soon(supervisor.terminate_child, handle)
        assert await supervisor.count_children() == ChildCounts(specs=0, active=0, supervisors=0, workers=0)


@pytest.mark.scenario("S-097")
@on_virtual_time
async def test_reconfigure(stage):
    """New flags and specs apply; what runs keeps its handle; a missing id stays; a new one has no process."""
    async with stage.open(children=[stage.W("a"), stage.W("b")], intensity=1) as supervisor:
        before = [supervisor.handle(name) for name in "ab"]
        specs = [stage.W("a", 1, restart="transient"), stage.W("new")]
        await supervisor.reconfigure(stage.flags(intensity=3), specs)
        assert [supervisor.handle(name) for name in "ab"] == before
        known = {"a": "running", "b": "running", "new": "stopped"}
        assert statuses(await supervisor.which_children()) == known
        spec = await supervisor.get_child_spec("a")
        assert (spec.restart, spec.start.arguments.positional) == ("transient", ("a", 1))
        for _ in range(3):
            stage.crash("a")
            await settled()
        assert statuses(await supervisor.which_children()) == known
        assert stage.seen("started").count("started a") == 4
        assert stage.instances["a"][-1].arguments == (1,)


@on_virtual_time
async def test_start_child_soon_waits_for_nothing(stage):
    """The child starts at the supervisor's next turn; what is refused is refused without a word; after the end nobody is there."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        supervisor.start_child_soon(stage.W("b"))
        supervisor.start_child_soon(stage.W("b"))
        assert stage.seen("started") == ["started a"]
        await settled()
        assert stage.seen("started") == ["started b"]
    with pytest.raises(ActorDown):
        supervisor.start_child_soon(stage.W("c"))


class _Object:
    async def method(self, task_status):
        """Report itself."""

    async def __call__(self, task_status):
        """Report itself."""


async def _plain(first, *, task_status):
    """Report itself."""


async def _silent(first):
    """Do not; what a variable is called is nobody's business."""
    task_status = first
    await trio.lowlevel.checkpoint()
    return task_status


def _decorated(function):
    @functools.wraps(function)
    async def around(*args, **kwargs):
        return await function(*args, **kwargs)

    return around


@pytest.mark.parametrize(
    ("function", "reports"),
    [
        (_plain, True),
        (_silent, False),
        (_Object().method, True),
        (_Object(), True),
        (_decorated(_plain), True),
        (_decorated(_silent), False),
        (functools.partial(_plain, 1), True),
        (dict, False),
    ],
)
def test_a_worker_reports_itself_if_it_has_the_parameter(function, reports):
    """Read from the code of plain functions and methods, and from the signature of all else."""
    assert takes_task_status(function) is reports


async def test_a_call_that_is_refused_is_freed_without_the_collector():
    """The traceback of its error once held the slot of the reply, which held the error."""
    async with open_supervisor(SupervisorFlags("one_for_one")) as supervisor:
        gc.collect()
        before = {id(one) for one in gc.get_objects()}
        with without_collector():
            for _ in range(3):
                with suppress(ChildNotFound):
                    await supervisor.terminate_child("nobody")
            kinds = ChildNotFound | ReplyTo
            assert {id(one) for one in gc.get_objects() if isinstance(one, kinds)} <= before
