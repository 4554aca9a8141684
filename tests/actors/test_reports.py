"""Where reports go: to the observer, else to the logger `agentrail.actors`."""

import logging

import pytest

from agentrail.actors import open_supervisor, subtree
from agentrail.actors.actor_registry import Registry
from agentrail.actors.dead_letters import dead_letters
from agentrail.errors import AlreadyStarted, InternalError
from agentrail.otp import supervision
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Crashed
from agentrail.otp.supervision_types import CountChildrenCall, InstanceExited, SupervisorRequest
from tests.actors.rig import Tabled, on_virtual_time, settled

LOGGER = "agentrail.actors"


def logged(caplog, level):
    """Return the messages of one level."""
    return [
        record.getMessage() for record in caplog.records if (record.name, record.levelno) == (LOGGER, level)
    ]


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
