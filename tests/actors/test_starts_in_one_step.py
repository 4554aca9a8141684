"""A worker that does not report itself is up when it is started: one step of its supervisor, and the same order as ever.

Trio draws the order in which tasks have their turn, so what would be wrong every other time is tried many times.
"""

import pytest
import trio
import trio.testing

from agentrail.actors.actor import machine, worker
from agentrail.actors.handle import cell_of
from agentrail.actors.registry import Registry
from agentrail.actors.supervisor import open_supervisor
from agentrail.errors import ChildStartFailed
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.exits import Shutdown
from agentrail.otp.supervision_types import ChildCounts
from tests.actors.rig import Tabled, on_virtual_time, settled, statuses

TIMES = 40
NOTHING = ChildCounts(specs=0, active=0, supervisors=0, workers=0)


async def quick():
    """Be up at once."""
    await trio.sleep_forever()


async def slow(task_status):
    """Say when it is up."""
    task_status.started()
    await trio.sleep_forever()


def steps_of(supervisor):
    """How many signals its reducer has seen."""
    return cell_of(supervisor).core.steps


@pytest.mark.parametrize(
    ("start", "steps"),
    [
        (worker(quick), 1),
        (quick, 1),
        (worker(slow), 2),
        (machine(lambda: Tabled({})), 2),
        (worker(quick).with_options(name=Registry().name("x")), 2),
    ],
)
@on_virtual_time
async def test_how_many_steps_a_start_takes(stage, start, steps):
    """One, for what has nothing to say between its start and its being up; a name may be taken, so that is found out first."""
    async with stage.open() as supervisor:
        before = steps_of(supervisor)
        started = await supervisor.start_child(ChildSpec("x", start))
        assert steps_of(supervisor) - before == steps
        assert (started.handle.incarnation, started.info) == (1, None)
        assert supervisor.handle("x") is started.handle


@on_virtual_time
async def test_an_instance_is_one_step_too(stage):
    """Of the template, with its arguments and those of the call."""
    seen = []

    async def note(*arguments):
        seen.append(arguments)
        await trio.sleep_forever()

    template = ChildSpec("x", worker(note, 1))
    async with open_supervisor(SupervisorFlags("dynamic"), [template]) as supervisor:
        before = steps_of(supervisor)
        started = await supervisor.start_instance(2)
        assert (steps_of(supervisor) - before, seen) == (1, [(1, 2)])
        await supervisor.terminate_child(started.handle)


@on_virtual_time
async def test_who_starts_a_worker_finds_what_its_first_step_did(stage):
    """The caller goes on behind the first step of what it started, and never before it."""
    begun = []

    async def note():
        begun.append("begun")
        await trio.sleep_forever()

    async with stage.open() as supervisor:
        for number in range(TIMES):
            await supervisor.start_child(ChildSpec(number, note))
            assert len(begun) == number + 1


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@on_virtual_time
async def test_in_a_group_starts_go_one_at_a_time(stage, strategy):
    """Two calls at once: the second child begins behind the first step of the first one."""
    begun = []

    async def note(name):
        begun.append(name)
        await trio.sleep_forever()

    async with stage.open(strategy) as supervisor, trio.open_nursery() as nursery:
        for number in range(TIMES):
            pair = [(number, "a"), (number, "b")]
            for name in pair:
                supervisor.start_child_soon(ChildSpec(name, worker(note, name)))
            await settled()
            assert begun[-2:] == pair
        nursery.cancel_scope.cancel()


@on_virtual_time
async def test_a_caller_that_has_gone_gets_no_child(stage):
    """It went before its call was taken: what it started never takes a step, and nothing of it stays."""
    begun = []

    async def note():
        begun.append("begun")

    async with stage.open() as supervisor:
        for _ in range(TIMES):
            with trio.CancelScope() as scope:
                scope.cancel()
                await supervisor.start_child(ChildSpec("x", note))
            await settled()
            assert await supervisor.count_children() == NOTHING
    assert begun == []
    assert stage.kinds() == []


class CancelOnceDecided(trio.abc.Instrument):
    """Cancels a scope as soon as the step is over in which a task was started, and wakes who waits for that."""

    def __init__(self, scope):
        self.scope = scope
        self.is_decided = False
        self.decided = trio.Event()

    def task_spawned(self, task):
        """The child is on its way."""
        self.is_decided = True

    def after_task_step(self, task):
        """All that was decided with it is carried out."""
        if self.is_decided:
            self.scope.cancel()
            self.decided.set()


@on_virtual_time
async def test_a_caller_that_goes_before_the_first_step_gets_no_child(stage):
    """Its answer was decided and waits for the first step: nobody takes it, so the start is undone, and the spec with it."""
    async with stage.open() as supervisor:
        for _ in range(TIMES):
            with trio.CancelScope() as scope:
                instrument = CancelOnceDecided(scope)
                trio.lowlevel.add_instrument(instrument)
                await supervisor.start_child(ChildSpec("x", quick))
            trio.lowlevel.remove_instrument(instrument)
            assert scope.cancelled_caught
            await settled()
            assert await supervisor.count_children() == NOTHING
            assert cell_of(supervisor).core.runs == {}
    assert stage.kinds() == []


@on_virtual_time
async def test_no_caller_sees_a_start_that_is_undone(stage):
    """Who asks when the caller goes finds a child that is being stopped, and none that runs."""
    seen = []

    async def look(supervisor, decided):
        await decided.wait()
        seen.append(statuses(await supervisor.which_children()))

    async with stage.open() as supervisor, trio.open_nursery() as nursery:
        for _ in range(TIMES):
            with trio.CancelScope() as scope:
                instrument = CancelOnceDecided(scope)
                nursery.start_soon(look, supervisor, instrument.decided)
                await settled()
                trio.lowlevel.add_instrument(instrument)
                await supervisor.start_child(ChildSpec("x", worker(quick), "temporary"))
            trio.lowlevel.remove_instrument(instrument)
            await settled()
    assert [each for each in seen if each != {"x": "stopping"}] == []
    assert len(seen) == TIMES


async def start_and_stop(supervisor, start):
    """Start a child and stop it, both before the supervisor looks; give what the one who starts is told."""
    told = []

    async def ask():
        try:
            told.append(await supervisor.start_child(ChildSpec("x", start, "temporary")))
        except ChildStartFailed as error:
            told.append(error)

    mailbox = cell_of(supervisor).core.mailbox
    mailbox.hold()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await settled()
            nursery.start_soon(supervisor.terminate_child, "x")
            await settled()
            mailbox.release()
    assert await supervisor.count_children() == NOTHING
    return told


@on_virtual_time
async def test_a_stop_right_behind_a_start_answers_both(stage):
    """The one who starts learns that it was up, and the one who stops that it is gone; the child took no step."""
    begun = []

    async def note():
        begun.append("begun")

    async with stage.open() as supervisor:
        (started,) = await start_and_stop(supervisor, note)
        assert (begun, started.handle.exit_reason) == ([], Shutdown())
    assert stage.kinds() == []


@on_virtual_time
async def test_a_stop_right_behind_a_start_that_reports_itself_still_fails_it(stage):
    """As ever: it was not up, so its caller is told that it did not start."""
    async with stage.open() as supervisor:
        (told,) = await start_and_stop(supervisor, worker(slow))
        assert isinstance(told, ChildStartFailed)
