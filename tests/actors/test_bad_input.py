"""The table "Bad input gets" of the specification, row by row: which error, and what its message tells."""

import math

import pytest
import trio
import trio.testing

from agentrail.actors.actor import change_code, current_actor, machine, worker
from agentrail.actors.introspection import get_state, get_status, resume, suspend
from agentrail.actors.monitor import monitor
from agentrail.actors.registry import Registry
from agentrail.actors.supervisor import open_partitions
from agentrail.errors import (
    AgentrailError,
    AlreadyRegistered,
    CallingSelf,
    ChildStartFailed,
    InvalidSpec,
    NoMailbox,
    NotOwner,
    NotSuspended,
    RegistryClosed,
    WouldDeadlock,
    WrongChildKey,
)
from agentrail.otp.child_specs import Backoff, ChildSpec, SupervisorFlags
from agentrail.otp.exits import InitFailed, describe
from agentrail.otp.statem import Call, Keep, Limits, Perform, Reply
from tests.actors.rig import Tabled, on_virtual_time
from tests.otp.rig import said


def refused(caught, code, *words, field=None):
    """Check the code, the field, and that the message has all that a reader needs."""
    assert isinstance(caught.value, AgentrailError)
    assert caught.value.code == code
    assert field is None or caught.value.field == field
    for word in words:
        assert word in str(caught.value), f"{word!r} is missing in: {caught.value}"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            {"restart": "never"},
            "invalid_restart",
            ("restart", "'never'", "'permanent'", "'transient'", "'temporary'"),
        ),
        ({"significant": 1}, "invalid_significant", ("significant", "1", "True or False")),
        ({"kind": "boss"}, "invalid_kind", ("kind", "'boss'", "'worker'", "'supervisor'")),
        (
            {"shutdown_seconds": -1},
            "invalid_shutdown",
            ("shutdown_seconds", "-1", "'brutal_kill'", "'infinity'"),
        ),
        ({"shutdown_seconds": math.nan}, "invalid_shutdown", ("nan",)),
        ({"start_timeout_seconds": 0}, "invalid_start_timeout", ("start_timeout_seconds", "0", "'infinity'")),
        ({"start_timeout_seconds": math.nan}, "invalid_start_timeout", ("nan",)),
        ({"start_timeout_seconds": "5"}, "invalid_start_timeout", ("'5'",)),
        ({"restart": ["permanent"]}, "invalid_restart", ("['permanent']",)),
        ({"id": None}, "missing_id", ("None",)),
        ({"start": 42}, "invalid_start", ("start", "42")),
        ({"start": print}, "invalid_start", ("print",)),
        ({"restrat": "permanent"}, "unknown_field", ("'restrat'", "'restart'")),
    ],
    ids=str,
)
@on_virtual_time
async def test_spec(stage, change, code, words):
    """Field, value, and what is allowed; of an unknown key the nearest known one."""
    spec = {"id": "a", "start": stage.start("a"), **change}
    with pytest.raises(InvalidSpec) as caught:
        async with stage.open(children=[spec]):
            pytest.fail("it never came up")
    refused(caught, code, *words, field=next(iter(change)))
    assert stage.log == []


@pytest.mark.parametrize("missing", ["id", "start"])
@on_virtual_time
async def test_missing_key(stage, missing):
    """The message names it."""
    spec = {"id": "a", "start": stage.start("a")}
    del spec[missing]
    async with stage.open() as supervisor:
        with pytest.raises(InvalidSpec) as caught:
            await supervisor.start_child(spec)
        refused(caught, f"missing_{missing}", f"'{missing}'", field=missing)


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
async def test_back_off():
    """A back-off that shrinks is none."""
    with pytest.raises(InvalidSpec) as caught:
        Backoff(1.0, 0.5)
    refused(caught, "invalid_backoff", "maximum_seconds", "0.5")


@pytest.mark.parametrize(
    ("flags", "children", "code", "words"),
    [
        ({}, ["a", "a"], "duplicate_id", ("'a'",)),
        ({"strategy": "dynamic"}, [], "one_template", ("0",)),
        ({"strategy": "dynamic"}, ["a", "b"], "one_template", ("2",)),
    ],
)
@on_virtual_time
async def test_specs_together(stage, flags, children, code, words):
    """The id, or how many templates were given."""
    with pytest.raises(InvalidSpec) as caught:
        async with stage.open(children=map(stage.W, children), **flags):
            pytest.fail("it never came up")
    refused(caught, code, *words)


@pytest.mark.parametrize(
    ("restart", "auto", "words"),
    [
        ("permanent", "any_significant", ("significant", "restart")),
        ("transient", "never", ("significant", "auto_shutdown")),
    ],
)
@on_virtual_time
async def test_significant(stage, restart, auto, words):
    """The message names both fields."""
    with pytest.raises(InvalidSpec) as caught:
        async with stage.open(children=[stage.W("a", restart=restart, significant=True)], auto_shutdown=auto):
            pytest.fail("it never came up")
    refused(caught, "bad_significant", *words)


@on_virtual_time
async def test_calls_of_the_other_strategy(stage):
    """`start_instance` on a static supervisor, an id on a dynamic one: the strategy, and what to use."""
    async with stage.open(children=[stage.W("a")]) as static:
        with pytest.raises(InvalidSpec, match=r"'one_for_one'.*start_child"):
            await static.start_instance()
    async with stage.open("dynamic", [stage.W("t")]) as dynamic:
        for call in (dynamic.terminate_child, dynamic.restart_child, dynamic.delete_child):
            with pytest.raises(WrongChildKey, match="handle"):
                await call("t")


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


@pytest.mark.parametrize("verb", ["call", "stop"])
@on_virtual_time
async def test_calling_oneself(stage, verb):
    """From the actor's own task it can only wait for ever; the id is told."""

    async def lonely(task_status):
        me = current_actor().handle
        with pytest.raises(CallingSelf, match="'lonely'"):
            await (me.call("x") if verb == "call" else me.stop())
        task_status.started()
        await trio.sleep_forever()

    async with stage.open(children=[ChildSpec("lonely", worker(lonely))]) as supervisor:
        assert supervisor.handle("lonely").exit_reason is None


@pytest.mark.parametrize("verb", ["call", "stop"])
@on_virtual_time
async def test_machine_that_calls_itself(stage, verb):
    """Not in its init and not in its `terminate`, the two that a machine may await in; told so it serves, and ends."""
    refusals = []

    async def turn_to_itself():
        me = current_actor().handle
        with pytest.raises(CallingSelf, match="'lonely'") as caught:
            await (me.call("x") if verb == "call" else me.stop())
        refusals.append(caught.value)

    class Lonely(Tabled):
        async def init(self):
            await turn_to_itself()
            return await super().init()

        async def terminate(self, reason, state, data):
            await turn_to_itself()

    made = Lonely({"s1": lambda event: Keep(actions=[Reply(event.to, "here")])})
    with trio.fail_after(60):
        async with stage.open(children=[ChildSpec("lonely", made.start)]) as supervisor:
            assert await supervisor.handle("lonely").call("are you there?") == "here"
    assert len(refusals) == 2


@on_virtual_time
async def test_changing_call_from_the_callers_own_end(stage):
    """From `terminate`, a call that has to wait for the stop names itself, and the child that is being stopped."""
    refusals = []

    class Clinging(Tabled):
        async def terminate(self, reason, state, data):
            supervisor = current_actor().supervisor
            for call in (supervisor.restart_child, supervisor.delete_child, supervisor.terminate_child):
                with pytest.raises(WouldDeadlock) as caught:
                    await call("clinging")
                refusals.append(str(caught.value))

    with trio.fail_after(60):
        async with stage.open(children=[ChildSpec("clinging", Clinging({"s1": Keep()}).start)]) as supervisor:
            await supervisor.terminate_child("clinging")
    for name, message in zip(("restart_child", "delete_child", "terminate_child"), refusals, strict=True):
        assert message.startswith(f"{name} would wait for child 'clinging', which is being stopped")


@on_virtual_time
async def test_changing_call_from_the_callers_own_start(stage):
    """It names the call, and the child that is being started."""

    async def impatient(task_status):
        with pytest.raises(
            WouldDeadlock, match=r"start_child would wait for child 'impatient', which is being started"
        ):
            await current_actor().supervisor.start_child(stage.W("x"))
        task_status.started()
        await trio.sleep_forever()

    with trio.fail_after(60):
        async with stage.open("one_for_all", [ChildSpec("impatient", worker(impatient))]) as supervisor:
            assert supervisor.handle("impatient").exit_reason is None


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


@on_virtual_time
async def test_hold_limit(stage):
    """An address that could hold nothing is refused."""
    async with stage.open(children=[stage.W("a")]) as supervisor:
        with pytest.raises(InvalidSpec) as caught:
            supervisor.address("a", hold_limit=0)
        refused(caught, "invalid_mailbox", "0")


@on_virtual_time
async def test_postpone_limit():
    """Below 1 it is no limit."""
    with pytest.raises(InvalidSpec) as caught:
        Limits(postponed=0)
    refused(caught, "invalid_mailbox", "postponed", "0")


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


@on_virtual_time
async def test_call_from_a_task_of_its_own_is_no_self_call(stage):
    """`CallingSelf` is about the actor's own task; a task of its nursery may ask, and is answered."""
    answers = []

    def react(event):
        if isinstance(event, Call):
            return Keep(actions=[Reply(event.to, said(event))])
        if said(event) != "ask yourself":
            return Keep()

        async def ask():
            answers.append(await current_actor().handle.call("from my nursery"))

        return Keep(actions=[Perform(ask)])

    async with stage.play(Tabled({"s1": react})) as handle:
        handle.cast("ask yourself")
        await trio.testing.wait_all_tasks_blocked()
        assert answers == ["from my nursery"]
