"""Bad input row by row, and what is asked of actors that are dead, of another kind, or not up yet: which error, in which words."""

import math
from functools import partial

import pytest
import trio

from agentrail.actors import (
    IGNORE,
    Registry,
    cleanup_scope,
    get_state,
    link,
    machine,
    open_partitions,
    open_supervisor,
    render_tree,
    subtree,
    unlink,
    worker,
)
from agentrail.actors.dead_letters import dead_letters
from agentrail.actors.introspection import get_status, resume, suspend
from agentrail.actors.mailbox import Mailbox
from agentrail.actors.monitor import monitor
from agentrail.errors import (
    ActorDown,
    AgentrailError,
    CallTimeout,
    ChildNotFound,
    ChildStartFailed,
    InvalidSpec,
    NoMailbox,
)
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.exits import InitFailed, NoProcess, Shutdown, describe
from agentrail.otp.statem import Call, Keep, Reply
from agentrail.testing.held import held
from tests.actors.rig import Tabled, boom, on_virtual_time, settled, statuses
from tests.otp.rig import obey


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


@on_virtual_time
async def test_start_that_is_no_coroutine_function(stage):
    """Its name is told; and so is what a machine and a registry take."""

    def synchronous():
        pass

    async with stage.open() as supervisor:
        for start in (lambda: synchronous, lambda: worker(synchronous)):
            with pytest.raises(InvalidSpec, match="synchronous") as caught:
                await supervisor.start_child({"id": "a", "start": start()})
            refused(caught, "invalid_start")
    with pytest.raises(InvalidSpec, match="takes a class") as caught:
        machine(Tabled({"s1": Keep()}))
    refused(caught, "invalid_start")
    with pytest.raises(ValueError, match="'unique' or 'duplicate'"):
        Registry(keys="shared")


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
        for send in (handle.cast, handle.info, lambda _: monitor(handle, deliver_to=handle)):
            with pytest.raises(NoMailbox, match=r"is a worker; use machine\(\)"):
                send("x")
        for send in (handle.send, handle.call):
            with pytest.raises(NoMailbox, match=r"is a worker; use machine\(\)"):
                await send("x")


@pytest.mark.parametrize("count", [-1, 5, 0, True, 1.5])
@on_virtual_time
async def test_numbers_of_partitions(count):
    """An integer >= 1, and after a resize one up to the first: the bounds are told."""
    made = machine(lambda: Tabled({"s1": Keep()}))
    if count != 5:
        with pytest.raises(InvalidSpec, match="an integer >= 1") as caught:
            async with open_partitions(made, count):
                pytest.fail("it opened")
        refused(caught, "invalid_partitions", field="count")
    if count in {-1, 5}:
        async with open_partitions(made, 4) as partitions:
            with pytest.raises(InvalidSpec, match=r"0.*4") as caught:
                await partitions.resize(count)
        refused(caught, "invalid_partitions", str(count))


@pytest.mark.parametrize("options", [{"capacity": 0}, {"capacity": -1}, {"overflow": "explode"}], ids=str)
def test_mailbox(options):
    """A bound below 1, and a policy that is none: the message has the four."""
    made = machine(lambda: Tabled({"s1": Keep()}))
    for make in (made.with_options, Mailbox):
        with pytest.raises(InvalidSpec) as caught:
            make(**options)
        words = ("reject", "drop_oldest", "dead_letter", "block") if "overflow" in options else ("capacity",)
        refused(caught, "invalid_mailbox", *words)


@pytest.mark.parametrize("seconds", [-1.0, math.nan, pytest.param(10**400, id="beyond a float")])
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


@pytest.mark.scenario("S-167")
@on_virtual_time
async def test_dead_actor(stage):
    """It takes no message, no exit signal, no look and no key, and each awaited question says so at once."""
    with Registry() as registry:
        async with stage.play(Tabled({"s1": obey})) as handle:
            await handle.stop()
            before, began = dead_letters().count, trio.current_time()
            handle.cast("hello")
            handle.info("hello")
            assert dead_letters().count == before + 2
            handle.exit(Shutdown())
            handle.kill()
            nobody = registry.address("nobody")
            for ask in (
                handle.stop,
                lambda: handle.call("x"),
                lambda: nobody.call("x"),
                lambda: get_state(handle),
            ):
                with pytest.raises(ActorDown) as caught:
                    await ask()
                assert caught.value.reason == NoProcess()
            assert (await handle.wait()) == handle.exit_reason
            with pytest.raises(ActorDown, match="has ended and cannot hold a key"):
                registry.register("key", handle)
            assert registry.lookup("key") is None
            assert trio.current_time() == began


@on_virtual_time
async def test_look_that_comes_too_late(stage):
    """It raises `CallTimeout` after its time, and the machine goes on."""
    async with stage.play(Tabled({"s1": obey})) as handle:
        async with held(handle):
            with pytest.raises(CallTimeout, match="introspection"):
                await get_state(handle, timeout_seconds=1.0)
        assert await get_state(handle) == ("s1", None)


# --- a subtree that is still finding out which children it has


@pytest.mark.parametrize("shutdown", [5.0, "brutal_kill"], ids=["asked", "killed"])
@on_virtual_time
async def test_subtree_is_ended_in_its_init(stage, shutdown):
    """Its init is cancelled, nothing of it stays, and its starter hears that the start was given up."""
    ended = []

    async def init():
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    spec = ChildSpec("below", subtree(init), shutdown_seconds=shutdown)
    async with stage.open() as supervisor, trio.open_nursery() as nursery:

        async def start():
            with pytest.raises(ChildStartFailed) as caught:
                await supervisor.start_child(spec)
            assert caught.value.reason == InitFailed("cancelled")

        nursery.start_soon(start)
        await settled()
        await supervisor.terminate_child("below")
        assert len(ended) == 1
        assert await supervisor.which_children() == ()


# --- how a worker ends


@on_virtual_time
async def test_clean_up_outside_of_all_actors():
    """It is shielded for its seconds, and without any it is no shield."""
    began_at = trio.current_time()
    with trio.CancelScope() as outer:
        outer.cancel()
        with cleanup_scope(2.0):
            await trio.sleep_forever()
        assert trio.current_time() == began_at + 2.0
        with cleanup_scope():
            await trio.sleep(60)
    assert outer.cancelled_caught
    assert trio.current_time() == began_at + 2.0


# --- machines


@on_virtual_time
async def test_starts_without_words(stage):
    """A worker whose signature cannot be read is up right before its first step; `IGNORE` from `init` is a start, too."""

    class Unreadable:
        __signature__ = "none"

        async def __call__(self):
            await trio.sleep_forever()

    idle = ChildSpec("m", Tabled({}, first=IGNORE).start)
    async with stage.open(children=[ChildSpec("w", worker(Unreadable())), idle]) as supervisor:
        assert statuses(await supervisor.which_children()) == {"w": "running", "m": "stopped"}


class Unprintable:
    """An id such as a row whose database was closed."""

    def __repr__(self):
        raise LookupError


@on_virtual_time
async def test_an_id_that_cannot_be_printed_ends_no_other_child(stage):
    """Neither its start nor its crash, with a caller that waits, and with a log."""
    machine = Tabled({"s1": lambda event: Keep() if isinstance(event, Call) else boom("crash")})
    async with open_supervisor(SupervisorFlags("one_for_one"), [stage.W("w")]) as supervisor:
        bad = Unprintable()
        handle = (await supervisor.start_child(ChildSpec(bad, machine.start, "temporary"))).handle
        assert "<Unprintable instance" in render_tree(await supervisor.tree())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(raises, ActorDown, partial(supervisor.address(bad).call, "never answered"))
            await settled()
            handle.cast("crash")
        with pytest.raises(ChildNotFound, match="has no child <Unprintable instance"):
            supervisor.handle(bad)
        assert statuses(await supervisor.which_children()) == {"w": "running"}


async def raises(kind, call):
    with pytest.raises(kind):
        await call()


# --- registries


@on_virtual_time
async def test_an_address_in_place_of_a_handle(stage):
    """The error names what was given, and what is expected. Nothing is registered or monitored."""
    children = [ChildSpec("a", machine(Tabled, {"s1": Keep()}))]
    async with stage.open(children=children) as supervisor:
        address, handle, registry = supervisor.address("a"), supervisor.handle("a"), Registry()
        for call in (
            partial(monitor, address),
            partial(monitor, handle, deliver_to=address),
            partial(link, handle, address),
            partial(unlink, address, handle),
            partial(registry.register, "k", address),
        ):
            with pytest.raises(TypeError, match="<Address of 'a'> is not an ActorHandle: pass the handle"):
                call()
        with pytest.raises(TypeError, match="is not an ActorHandle"):
            await get_state(address)
        assert registry.lookup("k") is None
