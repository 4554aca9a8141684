"""Where reports go: to the observer, else to the logger `agentrail.actors`."""

import logging

import pytest

from agentrail.actors.actor import subtree
from agentrail.actors.dead_letters import dead_letters
from agentrail.actors.supervisor import open_supervisor
from agentrail.otp.child_specs import ChildSpec
from tests.actors.rig import on_virtual_time, settled

LOGGER = "agentrail.actors"


def logged(caplog, level):
    """Return the messages of one level."""
    return [
        record.getMessage() for record in caplog.records if (record.name, record.levelno) == (LOGGER, level)
    ]


@on_virtual_time
async def test_without_an_observer_reports_are_logged(stage, caplog):
    """One line each, with kind, child, supervisor and reason: a warning, and for debugging what is progress."""
    caplog.set_level(logging.DEBUG, LOGGER)
    async with open_supervisor(stage.flags(), [stage.W("a")]):
        assert logged(caplog, logging.WARNING) == []
        assert logged(caplog, logging.DEBUG) == ["progress: child 'a' of 'root': "]
        stage.crash("a")
        await settled()
        [line] = logged(caplog, logging.WARNING)
        assert line.startswith("child_terminated: child 'a' of 'root': crashed: ")
        assert line.endswith("Boom: a")


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
    [error] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert error.name == LOGGER
    assert "is dropped" in error.getMessage()
    assert error.exc_info is not None
    assert str(error.exc_info[1]) == "the observer is broken"
    assert [line.split(":")[0] for line in logged(caplog, logging.WARNING)] == ["child_terminated"]


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
