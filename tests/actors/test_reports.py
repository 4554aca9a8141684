"""Where reports go: to the observer, else to the logger `agentrail.actors`."""

import logging

import pytest

from agentrail.actors import open_pool, open_supervisor, subtree
from agentrail.actors.actor_registry import Registry
from agentrail.actors.dead_letters import dead_letters
from agentrail.errors import AlreadyStarted, InternalError, InvalidSpec
from agentrail.otp import supervision
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Crashed
from agentrail.otp.pool import PoolFlags
from agentrail.otp.statem import Keep
from agentrail.otp.supervision_types import CountChildrenCall, InstanceExited, SupervisorRequest
from tests.actors.rig import Tabled, on_virtual_time, settled

LOGGER = "agentrail.actors"


def logged(caplog, level):
    return [
        record.getMessage() for record in caplog.records if (record.name, record.levelno) == (LOGGER, level)
    ]


@on_virtual_time
async def test_an_async_observer_or_listener_is_refused(stage):
    """Nothing would await it, so each report would be lost; it is refused where it is given."""

    async def hear(report):
        raise AssertionError(report)

    with Registry() as registry:
        for name, given in (
            ("observer", lambda: open_supervisor(stage.flags(), observer=hear).__aenter__()),
            ("observer", lambda: open_supervisor(stage.flags(), observer=5).__aenter__()),
            ("observer", lambda: open_pool(hear, PoolFlags(1), observer=hear).__aenter__()),
            ("listener", lambda: registry.add_listener(hear)),
        ):
            with pytest.raises(
                InvalidSpec, match=f"{name} is .*: expected a function without `async`"
            ) as caught:
                await given()
            assert (caught.value.code, caught.value.field) == (f"invalid_{name}", name)


@on_virtual_time
async def test_a_name_that_is_taken_is_no_crash(stage, caplog):
    """Who comes second is told who has it, its init is not run, and the log has a line and no traceback."""
    with Registry() as registry:
        first, second = (Tabled({}, Keep(), name=registry.name("n")) for _ in "ab")
        async with open_supervisor(stage.flags(), [ChildSpec("a", first.start)]) as supervisor:
            one = supervisor.handle("a")
            with pytest.raises(AlreadyStarted, match=rf"key 'n' is held by .*'{one.id}'.*`handle`") as caught:
                await supervisor.start_child(ChildSpec("b", second.start))
            assert caught.value.handle is registry.lookup("n") is one
            assert second.log == []
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
                InternalError, match=r"a CountChildrenCall crashed .*skipped \(KeyError.*report it"
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
    assert [("which is a bug" in error, "KeyError" in error.splitlines()[-1]) for error in errors] == [
        (True, True)
    ] * 3


def test_dead_letters_outside_of_a_run():
    """There are none, and to ask is no error."""
    assert (dead_letters().count, dead_letters().by_type) == (0, {})
