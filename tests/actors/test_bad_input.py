"""The table "Bad input gets" of the specification, row by row: which error, and what its message tells."""

import math

import pytest

from agentrail.actors import change_code, machine, open_partitions, worker
from agentrail.actors.actor_registry import Registry
from agentrail.actors.introspection import get_state, get_status, resume, suspend
from agentrail.actors.monitor import monitor
from agentrail.errors import (
    AgentrailError,
    AlreadyRegistered,
    ChildStartFailed,
    InvalidSpec,
    NoMailbox,
    NotOwner,
    NotSuspended,
    RegistryClosed,
)
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.exits import InitFailed, describe
from agentrail.otp.statem import Call, Keep, Reply
from tests.actors.rig import Tabled, on_virtual_time


def refused(caught, code, *words, field=None):
    """Check the code, the field, and that the message has all that a reader needs."""
    assert isinstance(caught.value, AgentrailError)
    assert caught.value.code == code
    assert field is None or caught.value.field == field
    for word in words:
        assert word in str(caught.value), f"{word!r} is missing in: {caught.value}"


@pytest.mark.parametrize("made", [ChildSpec, SupervisorFlags])
def test_unknown_keyword(made):
    """Where it is no mapping Python itself refuses it."""
    with pytest.raises(TypeError, match="restrat"):
        made(restrat="permanent")


@pytest.mark.scenario("S-016")
@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ({"strategy": "all"}, "invalid_strategy", ("strategy", "'all'", "'one_for_one'")),
        ({"intensity": -1}, "invalid_intensity", ("intensity", "-1", "an integer from 0")),
        ({"intensity": math.inf}, "invalid_intensity", ("inf",)),
        ({"intensity": True}, "invalid_intensity", ("True",)),
        ({"period_seconds": 0}, "invalid_period", ("period_seconds", "0", "finite", "above 0")),
        ({"period_seconds": math.inf}, "invalid_period", ("inf",)),
        ({"period_seconds": math.nan}, "invalid_period", ("nan",)),
        ({"period_seconds": "5"}, "invalid_period", ("'5'",)),
        ({"auto_shutdown": "always"}, "invalid_auto_shutdown", ("'always'", "'never'")),
        ({"backoff": 1.0}, "invalid_backoff", ("1.0", "Backoff")),
        ({"max_children": 0, "strategy": "dynamic"}, "invalid_max_children", ("max_children", "0")),
        ({"max_children": True, "strategy": "dynamic"}, "invalid_max_children", ("True",)),
        ({"max_children": 3}, "invalid_max_children", ("'one_for_one'", "'dynamic'")),
    ],
    ids=str,
)
@on_virtual_time
async def test_flags(stage, flags, code, words):
    """Flag, value, and what is allowed."""
    with pytest.raises(InvalidSpec) as caught:
        async with stage.open(**flags):
            pytest.fail("it never came up")
    refused(caught, code, *words, field=next(iter(flags)))


@on_virtual_time
async def test_start_that_is_no_coroutine_function(stage):
    """Its name is told."""

    def synchronous():
        pass

    async with stage.open() as supervisor:
        for start in (lambda: synchronous, lambda: worker(synchronous)):
            with pytest.raises(InvalidSpec, match="synchronous") as caught:
                await supervisor.start_child({"id": "a", "start": start()})
            refused(caught, "invalid_start")


@on_virtual_time
async def test_worker_that_ends_before_it_reported_started(stage):
    """`InitFailed("returned")`, and the words."""
    stage.always["a"] = "return"
    async with stage.open() as supervisor:
        with pytest.raises(ChildStartFailed) as caught:
            await supervisor.start_child(stage.W("a"))
        assert "ended before it reported started" in describe(caught.value.reason)
        assert isinstance(caught.value.reason, InitFailed)
        assert caught.value.reason.why == "returned"


@on_virtual_time
async def test_worker_has_no_mailbox(stage):
    """None of the ways to send it something."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        handle = supervisor.handle("a")
        with pytest.raises(NoMailbox, match=r"is a worker; use machine\(\)"):
            handle.cast("x")
        with pytest.raises(NoMailbox, match=r"is a worker; use machine\(\)"):
            handle.info("x")
        with pytest.raises(NoMailbox, match=r"is a worker; use machine\(\)"):
            await handle.send("x")
        with pytest.raises(NoMailbox, match=r"is a worker; use machine\(\)"):
            await handle.call("x")
        with pytest.raises(NoMailbox, match=r"is a worker; use machine\(\)"):
            monitor(handle, deliver_to=handle)


@on_virtual_time
async def test_registry(stage):
    """A taken key names its owner; a stranger's update the key; a closed one says so."""
    with Registry() as registry:
        async with stage.open(children=map(stage.W, "ab")) as supervisor:
            registry.register("key", supervisor.handle("a"))
            with pytest.raises(AlreadyRegistered, match=r"'key'.*'a'"):
                registry.register("key", supervisor.handle("b"))
            with pytest.raises(NotOwner, match="'key'"):
                registry.update_value("key", 1)
            registry.close()
            with pytest.raises(RegistryClosed, match="'key'"):
                registry.lookup("key")


@pytest.mark.parametrize("count", [-1, 5])
@on_virtual_time
async def test_resize(count):
    """The bounds are told."""
    made = machine(lambda: Tabled({"s1": Keep()}))
    async with open_partitions(made, 4) as partitions:
        with pytest.raises(InvalidSpec, match=r"0.*4") as caught:
            await partitions.resize(count)
        refused(caught, "invalid_partitions", str(count))


@pytest.mark.parametrize("options", [{"capacity": 0}, {"capacity": -1}, {"overflow": "explode"}], ids=str)
@on_virtual_time
async def test_mailbox(options):
    """A bound below 1, and a policy that is none: the message has the four."""
    with pytest.raises(InvalidSpec) as caught:
        machine(lambda: Tabled({"s1": Keep()})).with_options(**options)
    words = ("reject", "drop_oldest", "dead_letter", "block") if "overflow" in options else ("capacity",)
    refused(caught, "invalid_mailbox", *words)


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
@on_virtual_time
async def test_timeouts(stage, seconds):
    """A time that is none is a `ValueError` with the value."""
    door = Tabled(
        {"s1": lambda event: Keep(actions=[Reply(event.to, None)] if isinstance(event, Call) else [])}
    )
    async with stage.play(door) as handle:
        with pytest.raises(ValueError, match=str(seconds)):
            await handle.call("x", timeout_seconds=seconds)
        with pytest.raises(ValueError, match=str(seconds)):
            await handle.stop(timeout_seconds=seconds)
        assert handle.exit_reason is None
        for look in (get_state, get_status, suspend, resume):
            with pytest.raises(ValueError, match=str(seconds)):
                await look(handle, timeout_seconds=seconds)
        assert handle.exit_reason is None
    async with stage.open() as supervisor:
        with pytest.raises(ValueError, match=str(seconds)):
            await supervisor.stop(timeout_seconds=seconds)


@on_virtual_time
async def test_change_code_of_a_running_actor(stage):
    """Suspend first."""
    async with stage.play(Tabled({"s1": Keep()})) as handle:
        with pytest.raises(NotSuspended, match="suspend first"):
            await change_code(handle, Tabled({"s1": Keep()}), None)
