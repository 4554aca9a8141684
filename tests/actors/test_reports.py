"""Where reports go: to the observer, else to the logger `agentrail.actors`."""

import logging
import re
from contextlib import suppress

import pytest
import trio

from agentrail.actors.actor import subtree, worker
from agentrail.actors.dead_letters import dead_letters
from agentrail.actors.registry import Registry
from agentrail.actors.supervisor import SupervisorGaveUp, open_supervisor
from agentrail.errors import AlreadyStarted, ChildStartFailed, InternalError
from agentrail.otp import supervision
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Crashed, Killed
from agentrail.otp.statem import Keep, Perform, Stop
from agentrail.otp.supervision_types import CountChildrenCall, InstanceExited, SupervisorRequest
from tests.actors.rig import GAVE_UP, Boom, Tabled, boom, is_boom, on_virtual_time, settled

LOGGER = "agentrail.actors"


def logged(caplog, level):
    """Return the messages of one level."""
    return [
        record.getMessage() for record in caplog.records if (record.name, record.levelno) == (LOGGER, level)
    ]


@on_virtual_time
async def test_without_an_observer_reports_are_logged(stage, caplog):
    """A record each, with kind, child, supervisor and reason: of a crash an error, for debugging what is progress."""
    caplog.set_level(logging.DEBUG, LOGGER)
    async with open_supervisor(stage.flags(), [stage.W("a")]):
        assert logged(caplog, logging.WARNING) == []
        assert logged(caplog, logging.DEBUG) == ["progress: child 'a' of 'root': "]
        stage.crash("a")
        await settled()
        [crash] = logged(caplog, logging.ERROR)
        assert crash.startswith("child_terminated: child 'a' of 'root': crashed: ")
        assert logged(caplog, logging.WARNING) == []


async def _crash_in_init(task_status):
    boom("init")


def _crash_in_handle(event):
    boom("handle")


@pytest.mark.parametrize("place", ["life", "init", "handle", "terminate", "perform"])
@on_virtual_time
async def test_a_crash_is_one_record_with_its_traceback(stage, caplog, place):
    """Of level error, wherever in an actor it was raised; file and line stand in the message too."""
    work = {"life": _crash_later, "init": _crash_in_init}
    if place in work:
        start = worker(work[place])
    else:
        table = {
            "handle": _crash_in_handle,
            "terminate": Stop(),
            "perform": Keep(actions=[Perform(_boom_later)]),
        }
        tabled = Tabled({"s1": lambda *_: table[place]} if place != "handle" else {"s1": _crash_in_handle})
        tabled.at_end = Boom("terminate") if place == "terminate" else None
        start = tabled.start
    async with open_supervisor(stage.flags()) as supervisor:
        with suppress(ChildStartFailed):
            started = await supervisor.start_child(ChildSpec("a", start, "temporary"))
            if place not in work:
                started.handle.cast("go")
        await settled()
    [crash] = logged(caplog, logging.ERROR)
    first, *lines = crash.splitlines()
    assert first.split(":")[0] == ("start_error" if place == "init" else "child_terminated")
    assert re.search(r"Boom: \w+ \(\w+\.py:\d+\)$", first)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].endswith("Boom: " + {"life": "later", "perform": "later"}.get(place, place))


@on_virtual_time
async def test_whoever_is_told_of_a_crash_reads_its_place(stage):
    """The refusal of a start and the error of a block name file and line."""

    async def live():
        async with stage.open(intensity=0) as supervisor:
            with pytest.raises(ChildStartFailed, match=r"Boom: init \(rig\.py:\d+\)"):
                await supervisor.start_child(ChildSpec("b", worker(_crash_in_init)))
            await supervisor.start_child(ChildSpec("a", worker(_crash_later)))
            await trio.sleep_forever()

    with pytest.raises(SupervisorGaveUp) as caught:
        await live()
    assert re.search(
        r"child 'a' ended once too often.*Boom: later \(test_reports\.py:\d+\)", str(caught.value)
    )
    assert caught.value.child_id == "a"
    assert is_boom(caught.value.cause, "later")


@on_virtual_time
async def test_giving_up_names_whoever_it_began_with(stage):
    """Of a tree in which one supervisor after the other gave up: the way down, and the first error."""
    deep = ChildSpec("deep", subtree(stage.flags(intensity=0), [stage.W("leaf")]))
    mid = ChildSpec("mid", subtree(stage.flags(intensity=0), [deep]))

    async def live():
        async with stage.open(children=[mid], intensity=0):
            stage.crash("leaf")
            await trio.sleep_forever()

    with pytest.raises(
        SupervisorGaveUp, match="child 'mid', in it child 'deep', in it child 'leaf' ended"
    ) as caught:
        await live()
    assert (caught.value.child_id, caught.value.reason) == ("mid", GAVE_UP)
    assert is_boom(caught.value.cause, "leaf")


@on_virtual_time
async def test_a_kill_has_no_culprit(stage):
    """Then there is nobody to name."""

    async def live():
        async with stage.open(children=[stage.W("a")]) as supervisor:
            supervisor.kill()
            await trio.sleep_forever()

    with pytest.raises(SupervisorGaveUp) as caught:
        await live()
    assert (caught.value.reason, caught.value.child_id, caught.value.cause) == (Killed(), None, None)


@on_virtual_time
async def test_a_name_that_is_taken_is_no_crash(stage, caplog):
    """Who comes second is told, and the log has a line and no traceback."""
    with Registry() as registry:
        start = Tabled({}).start.with_options(name=registry.name("n"))
        async with open_supervisor(stage.flags(), [ChildSpec("a", start)]) as supervisor:
            with pytest.raises(AlreadyStarted):
                await supervisor.start_child(ChildSpec("b", start))
    assert logged(caplog, logging.ERROR) == []
    assert [line.split(":")[0] for line in logged(caplog, logging.WARNING)] == ["start_error"]


@on_virtual_time
async def test_a_bug_of_the_reducer_costs_one_call(stage, caplog, monkeypatch):
    """It is logged with its traceback, its caller is told, and the supervisor works on; of a signal it is a crash."""
    step = supervision.step_supervisor

    def buggy(state, signal):
        if state.name == "below" and isinstance(signal, hated[0]):
            raise KeyError(signal.at_seconds)
        return step(state, signal)

    hated = [SupervisorRequest]
    below = ChildSpec("below", subtree(stage.flags(), [stage.W("a")]))
    async with stage.open(children=[below]) as supervisor:
        inner = supervisor.handle("below")
        with monkeypatch.context() as patch:
            patch.setattr(supervision, "step_supervisor", buggy)
            with pytest.raises(
                InternalError, match=r"a CountChildrenCall crashed .*put aside \(KeyError.*report it"
            ):
                await inner.count_children()
            inner._core.post(CountChildrenCall())  # noqa: SLF001 - nobody waits for this one
            await settled()
            hated[0] = InstanceExited
            stage.crash("a")
            await inner.wait()
        assert isinstance(inner.exit_reason, Crashed)
        await settled()
        assert supervisor.handle("below").incarnation == 2
    errors = logged(caplog, logging.ERROR)
    assert [("has a bug" in error, "KeyError" in error.splitlines()[-1]) for error in errors] == [
        (True, True)
    ] * 3


async def _crash_later(task_status):
    task_status.started()
    await _boom_later()


async def _boom_later():
    await trio.lowlevel.checkpoint()
    message = "later"
    raise Boom(message)


@on_virtual_time
async def test_children_inherit_the_observer(stage, caplog):
    """Reports of a supervisor below go to the observer of the root, and then not to the log."""
    caplog.set_level(logging.DEBUG, LOGGER)
    below = subtree(stage.flags(), [stage.W("a")])
    async with stage.open(children=[ChildSpec("below", below)]):
        stage.crash("a")
        await settled()
    assert ("child_terminated", "below", "a") in [
        (report.kind, report.supervisor, report.child_id) for report in stage.reports
    ]
    assert logged(caplog, logging.WARNING) == logged(caplog, logging.DEBUG) == []


@on_virtual_time
async def test_observer_that_raises_is_dropped(stage, caplog):
    """After one line with its error; what follows goes to the log, and no child notices anything."""
    asked = []

    def observe(report):
        asked.append(report.kind)
        message = "the observer is broken"
        raise ValueError(message)

    async with open_supervisor(stage.flags(), [stage.W("a")], observer=observe) as supervisor:
        first = supervisor.handle("a")
        stage.crash("a")
        await settled()
        assert supervisor.handle("a").incarnation == first.incarnation + 1
    assert asked == ["progress"]
    error, crash = logged(caplog, logging.ERROR)
    assert "is dropped" in error
    assert error.endswith("ValueError: the observer is broken\n")
    assert crash.startswith("child_terminated: ")


@on_virtual_time
async def test_messages_and_exit_signals_to_a_supervisor(stage):
    """It ignores and reports them; only its parent and its owner end a supervisor."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        supervisor.cast("a message")
        supervisor.info("another one")
        await settled()
        assert [report.kind for report in stage.reports] == ["progress", "unknown_message", "unknown_message"]
        assert supervisor.exit_reason is None


def test_dead_letters_outside_of_a_run():
    """There are none, and to ask is no error."""
    assert (dead_letters().count, dead_letters().by_type) == (0, {})


@pytest.mark.parametrize("count", [1, 10, 25])
@on_virtual_time
async def test_flood_of_dead_letters_is_no_flood_of_lines(stage, caplog, count):
    """All are counted, and the 1st, 10th, 100th … are logged, by type and without contents."""
    async with stage.open("dynamic", [stage.W("t")]) as tasks:
        closed = tasks
    for _ in range(count):
        closed.cast("hunter2")
    assert dead_letters().by_type == {"str": count}
    lines = logged(caplog, logging.WARNING)
    assert len([line for line in lines if line.startswith("dead letter")]) == len(str(count))
    assert "hunter2" not in caplog.text
