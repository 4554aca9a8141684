"""Addresses: they find whoever lives now, hold what comes between two instances, and wake whom nobody started."""

import pytest
import trio

from agentrail.actors import open_supervisor
from agentrail.actors.actor_registry import Registry
from agentrail.actors.address import Address, Wait
from agentrail.actors.dead_letters import dead_letters
from agentrail.errors import ActorDown, CallingSelf, CallTimeout, InvalidSpec, MailboxFull, NoMailbox
from agentrail.otp.child_specs import Backoff, ChildSpec, SupervisorFlags
from agentrail.otp.exits import NoProcess, Normal
from agentrail.otp.statem import Call, Keep, Reply, Stop
from agentrail.testing.held import held
from tests.actors.rig import Tabled, on_virtual_time, settled, statuses
from tests.otp.rig import obey, said

WAITS = Backoff(10.0, 10.0, 1.0, 0.0)


def answering(**options):
    def react(event):
        return Keep(actions=[Reply(event.to, said(event))]) if isinstance(event, Call) else obey(event)

    return Tabled({"s1": react}, **options)


def between(stage, machine):
    """Open a supervisor that waits 10 s before each restart of its child `m`."""
    return stage.open(children=[ChildSpec("m", machine.start)], backoff=WAITS)


@pytest.mark.scenario("S-213")
@on_virtual_time
async def test_held_call_is_answered_by_the_next_instance(stage):
    """Its time runs while it is held."""
    async with between(stage, answering()) as supervisor:
        address = supervisor.address("m")
        address.cast(3)  # no transition: it crashes
        await settled()
        with pytest.raises(CallTimeout):
            await address.call("too short", timeout_seconds=5.0)
        began = trio.current_time()
        assert await address.call("long enough", timeout_seconds=20.0) == "long enough"
        assert trio.current_time() - began == 5.0


@on_virtual_time
async def test_an_address_whose_only_call_gave_up_waits_for_no_instance():
    """A supervisor would hold it, and all that its caller held, until the restart."""
    waiting = {}
    address = Address("m", lambda: Wait(waiting.__setitem__, waiting.pop), hold_limit=2)
    address.cast("stays")
    for is_alone in (False, True):
        with trio.move_on_after(1):
            await address.call("too long", timeout_seconds=None)
        assert bool(waiting) is not is_alone
        address.give_up()


@pytest.mark.scenario("S-213")
@on_virtual_time
async def test_what_is_held_dies_with_the_child(stage):
    """If no next instance comes, casts become dead letters and calls raise `ActorDown`."""
    outcomes = []
    async with between(stage, answering()) as supervisor, trio.open_nursery() as nursery:
        address = supervisor.address("m")
        address.cast(3)
        await settled()

        async def ask():
            with pytest.raises(ActorDown) as caught:
                await address.call("hello?", timeout_seconds=None)
            outcomes.append(caught.value.reason)

        nursery.start_soon(ask)
        address.cast("held")
        await address.send("held too")
        await settled()
        before = dead_letters().count
        await supervisor.terminate_child("m")
        await settled()
        assert dead_letters().count == before + 2
        assert outcomes == [NoProcess()]


@pytest.mark.scenario("S-213")
@on_virtual_time
async def test_no_more_is_held_than_the_limit(stage):
    """One more cast is a dead letter and one more call raises `MailboxFull`; the next instance gets the rest in order."""
    async with between(stage, machine := answering()) as supervisor:
        address = supervisor.address("m", hold_limit=2)
        address.cast(3)
        await settled()
        address.cast("first")
        await address.send("second")
        before = dead_letters().count
        address.cast("third")
        assert dead_letters().count == before + 1
        with pytest.raises(MailboxFull, match="2 messages are already held"):
            await address.call("fourth")
        await trio.sleep(20)
        assert [what for _, what in machine.log if isinstance(what, str)] == ["first", "second"]
        assert await address.call("there?") == "there?"


@on_virtual_time
async def test_address_of_nobody(stage):
    """There is no such child, or it stays away: a call raises `ActorDown`, a cast is a dead letter."""
    async with stage.open(children=[ChildSpec("m", answering().start)]) as supervisor:
        away = supervisor.address("m")
        await supervisor.terminate_child("m")
        nobody = supervisor.address("nobody")
        assert repr(nobody) == "<Address of 'nobody'>"
        for address in (away, nobody):
            before = dead_letters().count
            await address.send("hello")
            address.cast("hello")
            assert dead_letters().count == before + 2
            with pytest.raises(ActorDown):
                await address.call("hello")


@pytest.mark.parametrize("way", ["address", "handle"])
@on_virtual_time
async def test_call_on_a_full_mailbox_that_blocks_waits_for_room(stage, way):
    """Through an address as through a handle; the time runs meanwhile, and who gave up has sent nothing."""
    machine = answering(capacity=1, overflow="block")
    async with stage.open(children=[ChildSpec("m", machine.start)]) as supervisor:
        handle = supervisor.handle("m")
        target = handle if way == "handle" else supervisor.address("m")
        answers = []

        async def ask(word):
            answers.append(await target.call(word))

        async with trio.open_nursery() as nursery, held(handle):
            handle.cast("fills it")
            with pytest.raises(CallTimeout):
                await target.call("given up", timeout_seconds=1.0)
            with pytest.raises(MailboxFull):
                target.cast("refused")
            nursery.start_soon(ask, "waits")
            await settled()
        assert answers == ["waits"]
        assert [what for _, what in machine.log] == ["fills it", "waits"]


@pytest.mark.scenario("S-213")
@on_virtual_time
async def test_messages_held_for_a_worker_end_nobody(stage):
    """It reads none: casts are dead letters and calls raise `NoMailbox`, and whoever told that it is up goes on."""
    spec = stage.W("w")
    stage.plans["w"].append("up")
    stage.plans["w"].append(10.0)
    async with stage.open(children=[spec, stage.W("other")], intensity=5) as supervisor:
        address = supervisor.address("w")
        with pytest.raises(NoMailbox):
            address.cast("it is up")
        stage.crash("w")
        await settled()
        before = dead_letters().count
        address.cast("held")
        with pytest.raises(NoMailbox):
            await address.call("held too", timeout_seconds=100.0)
        assert dead_letters().count == before + 1
        assert statuses(await supervisor.which_children()) == {"w": "running", "other": "running"}


@on_virtual_time
async def test_a_machine_that_ends_cannot_call_itself_through_its_address():
    """From its `terminate` it would wait for its own end: `CallingSelf`, as through its handle."""
    seen = []

    class Calls(Tabled):
        async def terminate(self, reason, state, data):
            try:
                await address.call("me", timeout_seconds=None)
            except CallingSelf:
                seen.append("refused")

    with Registry() as registry:
        machine = Calls({"s1": obey}, name=registry.name("key"))
        address = registry.address("key")
        async with open_supervisor(
            SupervisorFlags("one_for_one"), [ChildSpec("m", machine.start)]
        ) as supervisor:
            await supervisor.terminate_child("m")
        assert seen == ["refused"]


@on_virtual_time
async def test_a_message_for_a_name_reaches_another_child_that_takes_it(stage):
    """The last holder waits for its restart; the message is held no longer than until the name has a holder."""
    with Registry() as registry:
        first, second = (Tabled({"s1": obey}, name=registry.name("key")) for _ in "ab")
        address = registry.address("key")
        async with stage.open(children=[ChildSpec("a", first.start)], backoff=WAITS) as supervisor:
            supervisor.handle("a").kill()
            await settled()
            address.cast(Stop(Normal()))
            await supervisor.start_child(ChildSpec("b", second.start, "temporary"))
            await settled()
            assert second.ends == [Normal()]


class Stray(BaseException):
    """What is no `Exception`, and meant for nobody."""


@pytest.mark.parametrize(
    "error", [Stray(), GeneratorExit(), SystemExit(2), BaseExceptionGroup("g", [Stray()])], ids=repr
)
@on_virtual_time
async def test_an_activation_that_raises_anything_ends_no_run(error):
    """It runs in a task of Trio's own, whose exceptions would end the whole process: it is logged, and senders are told."""

    async def fails():
        raise error

    with Registry() as registry:
        address = registry.address("key", activate=fails)
        with pytest.raises(ActorDown):
            await address.call("hello?")
        await settled()


async def test_a_message_from_a_thread_of_its_own_does_not_count_as_an_activation(stage):
    """The thread gets Trio's error. The next message of the run starts the actor."""
    machine = answering()
    with Registry() as registry, trio.fail_after(60):
        async with stage.open() as supervisor:

            async def activate():
                start = machine.start.with_options(name=registry.name("key"))
                await supervisor.start_child(ChildSpec("m", start))

            def send():
                with pytest.raises(RuntimeError, match="async context"):
                    address.cast("from a thread")

            address = registry.address("key", activate=activate)
            await trio.to_thread.run_sync(send)
            assert await address.call("hello?", timeout_seconds=None) == "hello?"


async def test_an_activation_that_is_not_async_is_refused_where_it_is_given():
    """Not only when a message waits for its actor."""
    with pytest.raises(InvalidSpec, match=r"activate is <function .*: expected an async function"):
        Registry().address("key", activate=lambda: None)
