"""What is asked of actors that are dead, of another kind, or not up yet."""

import pytest
import trio

from agentrail.actors import (
    IGNORE,
    cleanup_scope,
    get_state,
    machine,
    open_partitions,
    subtree,
    worker,
)
from agentrail.actors.actor_registry import Registry
from agentrail.actors.mailbox import dead_letters
from agentrail.actors.monitor import link
from agentrail.errors import (
    ActorDown,
    CallTimeout,
    ChildNotFound,
    ChildStartFailed,
    InvalidSpec,
    NoMailbox,
    WrongChildKey,
)
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import InitFailed, NoProcess, Shutdown
from agentrail.otp.statem import Keep
from agentrail.testing.held import held
from tests.actors.rig import Tabled, on_virtual_time, settled, statuses
from tests.otp.rig import obey


@on_virtual_time
async def test_dead_actor(stage):
    """It takes no message, no exit signal and no look, and each awaited question says so at once."""
    async with stage.play(Tabled({"s1": obey})) as handle:
        await handle.stop()
        before = dead_letters().count
        handle.cast("hello")
        handle.info("hello")
        assert dead_letters().count == before + 2
        handle.exit(Shutdown())
        handle.kill()
        for ask in (handle.stop, lambda: handle.call("hello"), lambda: get_state(handle)):
            with pytest.raises(ActorDown) as caught:
                await ask()
            assert caught.value.reason == NoProcess()
        assert (await handle.wait()) == handle.exit_reason


@on_virtual_time
async def test_looking_into_what_is_no_machine(stage):
    """A worker and a supervisor have no state to show, and the message says what to do."""
    async with stage.open(children=[stage.W("w")]) as supervisor:
        with pytest.raises(NoMailbox, match="use machine"):
            await get_state(supervisor.handle("w"))
        with pytest.raises(NoMailbox, match="ask it by its methods"):
            await get_state(supervisor)
        assert supervisor.handle("w").statistics().accepted == 0


@on_virtual_time
async def test_look_that_comes_too_late(stage):
    """It raises `CallTimeout` after its time, and the machine goes on."""
    async with stage.play(Tabled({"s1": obey})) as handle:
        async with held(handle):
            with pytest.raises(CallTimeout, match="introspection"):
                await get_state(handle, timeout_seconds=1.0)
        assert await get_state(handle) == ("s1", None)


@on_virtual_time
async def test_handle_of_a_child(stage):
    """An unknown id is `ChildNotFound`; in a dynamic supervisor ids are `WrongChildKey`."""
    async with stage.open() as supervisor, stage.open("dynamic", [stage.W("t")]) as tasks:
        with pytest.raises(ChildNotFound, match="'nobody'"):
            supervisor.handle("nobody")
        with pytest.raises(WrongChildKey, match="'t'"):
            tasks.handle("t")
    with pytest.raises(ActorDown):
        supervisor.handle("nobody")


@pytest.mark.parametrize("count", [0, -1, True, 1.5])
@on_virtual_time
async def test_number_of_partitions(count):
    """It is an integer from 1."""
    with pytest.raises(InvalidSpec, match="an integer from 1") as caught:
        async with open_partitions(worker(trio.sleep_forever), count):
            pytest.fail("it opened")
    assert (caught.value.code, caught.value.field) == ("invalid_partitions", "count")


@on_virtual_time
async def test_keys_of_partitions():
    """Numbers, text and bytes find a copy; text as its bytes do; anything else is a `TypeError`."""
    async with open_partitions(worker(trio.sleep_forever), 3) as partitions:
        assert partitions.handle_for(b"key") is partitions.handle_for("key")
        with pytest.raises(TypeError, match="got tuple"):
            partitions.handle_for(("key",))


def test_machine_of_what_cannot_be_called():
    """An instance where its class was meant is refused."""
    with pytest.raises(InvalidSpec, match="takes a class") as caught:
        machine(Tabled({"s1": Keep()}))
    assert caught.value.code == "invalid_start"


@on_virtual_time
async def test_callable_without_a_signature(stage):
    """A worker whose signature cannot be read counts as up right before its first step."""

    class Unreadable:
        __signature__ = "none"

        async def __call__(self):
            await trio.sleep_forever()

    async with stage.open(children=[ChildSpec("w", worker(Unreadable()))]) as supervisor:
        assert supervisor.handle("w").exit_reason is None


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
async def test_machine_with_nothing_to_run(stage):
    """`IGNORE` from `init` is a start that went well, without a process."""
    async with stage.open(children=[ChildSpec("m", Tabled({}, first=IGNORE).start)]) as supervisor:
        assert statuses(await supervisor.which_children()) == {"m": "stopped"}


@on_virtual_time
async def test_link_from_an_actor_that_has_ended(stage):
    """Whichever of the two is dead, the other one is told."""
    specs = [stage.W(name, restart="temporary") for name in "ab"]
    async with stage.open(children=specs) as supervisor:
        dead, other = supervisor.handle("a"), supervisor.handle("b")
        await dead.stop()
        link(dead, other)
        assert "NoProcess" in (await other.wait()).type


@on_virtual_time
async def test_partitions_come_back():
    """What was resized away is started again when it is wanted."""
    async with open_partitions(worker(trio.sleep_forever), 3) as partitions:
        await partitions.resize(1)
        assert (await partitions.supervisor.count_children()).active == 1
        await partitions.resize(3)
        assert (await partitions.supervisor.count_children()).active == 3
        assert len({partitions.handle_for(key) for key in range(3)}) == 3


# --- registries


def test_registry_of_unknown_kind():
    """Keys are unique or duplicate."""
    with pytest.raises(ValueError, match="'unique' or 'duplicate'"):
        Registry(keys="shared")


@on_virtual_time
async def test_dead_actor_holds_no_key(stage):
    """To register it raises `ActorDown`."""
    with Registry() as registry:
        async with stage.play(Tabled({"s1": obey})) as handle:
            await handle.stop()
            with pytest.raises(ActorDown, match="can hold no key"):
                registry.register("key", handle)
            assert registry.lookup("key") is None
