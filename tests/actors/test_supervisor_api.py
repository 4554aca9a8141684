"""Section F of the conformance scenarios, on running supervisors: the API."""

import functools

import pytest
import trio

from agentrail.actors import current_actor, open_supervisor, subtree, worker
from agentrail.actors.actor_types import takes_task_status
from agentrail.errors import (
    ActorDown,
    AlreadyPresent,
    AlreadyStarted,
    ChildNotFound,
    ChildRunning,
    ChildStartFailed,
    TooManyChildren,
    WouldDeadlock,
    WrongChildKey,
)
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import InitFailed, NoProcess
from agentrail.otp.supervision_types import ChildCounts
from tests.actors.rig import Tabled, is_boom, on_virtual_time, settled, statuses
from tests.otp.rig import obey


@pytest.mark.scenario("S-079")
@on_virtual_time
async def test_start_child_with_the_id_of_a_running_child(stage):
    """It raises `AlreadyStarted` with the live handle, and starts nothing."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        with pytest.raises(AlreadyStarted) as caught:
            await supervisor.start_child(stage.W("a"))
        assert caught.value.handle is supervisor.handle("a")
        assert stage.seen("started") == ["started a"]


@pytest.mark.scenario("S-080")
@on_virtual_time
async def test_start_child_with_the_id_of_a_spec_without_a_process(stage):
    """It raises `AlreadyPresent`."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        await supervisor.terminate_child("a")
        with pytest.raises(AlreadyPresent):
            await supervisor.start_child(stage.W("a"))
        assert stage.alive("a") == 0


@pytest.mark.scenario("S-081")
@on_virtual_time
async def test_terminate_child_is_idempotent(stage):
    """Both calls return."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        assert await supervisor.terminate_child("a") is None
        assert await supervisor.terminate_child("a") is None
        assert stage.seen("started", "gone") == ["started a", "gone a"]


@pytest.mark.scenario("S-082")
@on_virtual_time
async def test_unknown_id(stage):
    """Each call that names a child raises `ChildNotFound`."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        for call in ("terminate_child", "restart_child", "delete_child", "get_child_spec"):
            with pytest.raises(ChildNotFound):
                await getattr(supervisor, call)("nobody")
        with pytest.raises(ChildNotFound):
            supervisor.handle("nobody")


@pytest.mark.scenario("S-083")
@on_virtual_time
async def test_restart_and_delete_of_a_running_child(stage):
    """Both raise `ChildRunning`, and the child runs on."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        handle = supervisor.handle("a")
        for call in (supervisor.restart_child, supervisor.delete_child):
            with pytest.raises(ChildRunning):
                await call("a")
        assert supervisor.handle("a") is handle
        assert handle.exit_reason is None


@pytest.mark.scenario("S-085")
@on_virtual_time
async def test_temporary_child_is_gone_when_it_was_terminated(stage):
    """Afterwards nobody knows its id."""
    async with stage.open(children=[stage.W("a", restart="temporary")]) as supervisor:
        await supervisor.terminate_child("a")
        for call in (supervisor.delete_child, supervisor.restart_child):
            with pytest.raises(ChildNotFound):
                await call("a")


@pytest.mark.scenario("S-086")
@on_virtual_time
async def test_start_child_that_fails(stage):
    """It raises `ChildStartFailed` with the reason, and the spec is not kept."""
    async with stage.open() as supervisor:
        with pytest.raises(ChildStartFailed) as caught:
            await supervisor.start_child(stage.F("a"))
        assert isinstance(caught.value.reason, InitFailed)
        assert caught.value.reason.why == "raised"
        assert is_boom(caught.value.reason.cause, "init of a")
        assert await supervisor.which_children() == ()


@pytest.mark.scenario("S-087")
@on_virtual_time
async def test_restart_child_that_fails(stage):
    """It raises `ChildStartFailed`, and the spec stays without a process."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        await supervisor.terminate_child("a")
        stage.plans["a"].append("fail")
        with pytest.raises(ChildStartFailed):
            await supervisor.restart_child("a")
        assert statuses(await supervisor.which_children()) == {"a": "stopped"}
        assert (await supervisor.restart_child("a")).handle is supervisor.handle("a")


@pytest.mark.scenario("S-088")
@pytest.mark.parametrize("strategy", ["rest_for_one", "one_for_all"])
@on_virtual_time
async def test_terminate_child_does_not_cascade(stage, strategy):
    """All siblings keep their handles."""
    async with stage.open(strategy, map(stage.W, "abc")) as supervisor:
        before = [supervisor.handle(name) for name in "bc"]
        await supervisor.terminate_child("a")
        assert [supervisor.handle(name) for name in "bc"] == before
        assert stage.seen("gone") == ["gone a"]


@pytest.mark.scenario("S-089")
@on_virtual_time
async def test_keys_of_a_dynamic_supervisor(stage):
    """No id; no living stranger; and a dead handle is fine."""
    async with (
        stage.open("dynamic", [stage.W("t")]) as supervisor,
        stage.open(children=[stage.W("s")]) as other,
    ):
        mine, stranger = (await supervisor.start_instance()).handle, other.handle("s")
        with pytest.raises(WrongChildKey):
            await supervisor.terminate_child("t")
        with pytest.raises(ChildNotFound):
            await supervisor.terminate_child(stranger)
        assert stranger.exit_reason is None
        await supervisor.terminate_child(mine)
        assert mine.exit_reason is not None
        assert await supervisor.terminate_child(mine) is None


@pytest.mark.scenario("S-090")
@on_virtual_time
async def test_counts(stage):
    """Specs and kinds count with or without a process, `active` only with one."""
    children = [*map(stage.W, "abc"), ChildSpec("sub", subtree(stage.flags(), [stage.W("below")]))]
    async with stage.open(children=children) as supervisor:
        await supervisor.terminate_child("b")
        assert await supervisor.count_children() == ChildCounts(specs=4, active=3, supervisors=1, workers=3)


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
async def test_child_calls_its_supervisor_from_its_init(stage):
    """It is told who is there; a call that would wait for itself raises `WouldDeadlock`."""
    heard = []

    async def curious(task_status):
        supervisor = current_actor().supervisor
        heard.append(statuses(await supervisor.which_children()))
        with pytest.raises(WouldDeadlock):
            await supervisor.start_child(stage.W("late"))
        task_status.started()
        await trio.sleep_forever()

    with trio.fail_after(60):
        async with stage.open(children=[ChildSpec("a", worker(curious))]):
            assert heard == [{"a": "starting"}]


@pytest.mark.scenario("S-094")
@on_virtual_time
async def test_child_calls_its_supervisor_while_it_is_terminated(stage):
    """From `terminate` it is told that it is stopping."""
    heard = []

    class Curious(Tabled):
        async def terminate(self, reason, state, data):
            heard.append(statuses(await current_actor().supervisor.which_children()))

    with trio.fail_after(60):
        async with stage.open(children=[ChildSpec("a", Curious({"s1": obey}).start)]) as supervisor:
            await supervisor.terminate_child("a")
            assert heard == [{"a": "stopping"}]


@pytest.mark.scenario("S-095")
@on_virtual_time
async def test_max_children_counts_those_that_are_restarting(stage):
    """With one place, taken by a child that comes up slowly, there is no second instance."""
    async with stage.open("dynamic", [stage.W("t")], max_children=1) as supervisor:
        await supervisor.start_instance()
        stage.plans["t"].append(5.0)
        stage.crash("t")
        await settled()
        with pytest.raises(TooManyChildren):
            await supervisor.start_instance()


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
    """New flags apply; what runs keeps its handle; a missing id stays; a new one has no process."""
    async with stage.open(children=[stage.W("a"), stage.W("b")], intensity=1) as supervisor:
        before = [supervisor.handle(name) for name in "ab"]
        await supervisor.reconfigure(stage.flags(intensity=3), [stage.W("a"), stage.W("new")])
        assert [supervisor.handle(name) for name in "ab"] == before
        known = {"a": "running", "b": "running", "new": "stopped"}
        assert statuses(await supervisor.which_children()) == known
        for _ in range(3):
            stage.crash("a")
            await settled()
        assert statuses(await supervisor.which_children()) == known
        assert stage.seen("started").count("started a") == 4


@on_virtual_time
async def test_handle_of_a_child_without_a_process(stage):
    """`handle` raises `ActorDown`, and `ChildNotFound` only for an id that nobody has."""
    async with open_supervisor(stage.flags(), [stage.W("a")]) as supervisor:
        await supervisor.terminate_child("a")
        with pytest.raises(ActorDown):
            supervisor.handle("a")


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


@on_virtual_time
async def test_children_that_are_counted_apart(stage):
    """One that crashes too often is given up alone: reported, gone, and the block goes on."""
    async with stage.open("dynamic", [stage.W("template")], intensity=0, intensity_per="child") as supervisor:
        await supervisor.start_child(stage.W("a"))
        await supervisor.start_child(stage.W("b"))
        stage.crash("a")
        await settled()
        assert [child.id for child in (await supervisor.tree()).children] == ["b"]
        assert ("shutdown", "a") in stage.kinds("progress")


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
