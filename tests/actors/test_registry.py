"""The registry scenarios of section L: names, values, locks, addresses and passivation."""

import gc
import random
import weakref
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from agentrail.actors import worker
from agentrail.actors.actor_handle import ActorHandle, cell_of
from agentrail.actors.actor_registry import Registered, Registry
from agentrail.errors import ActorDown, AlreadyRegistered, NotOwner, RegistryClosed
from agentrail.otp.child_specs import Backoff, ChildSpec
from agentrail.otp.exits import Crashed, Shutdown
from agentrail.otp.statem import Call, Keep, Reply, Stop
from agentrail.testing.held import held
from tests.actors.rig import Tabled, boom, on_virtual_time, settled
from tests.otp.rig import obey, said


@pytest.fixture
def registry():
    with Registry() as opened:
        yield opened


@asynccontextmanager
async def crowd(stage, names="ab", **options):
    spec = {"restart": "temporary", **options}
    async with stage.open(children=[stage.W(name, **spec) for name in names]) as supervisor:
        yield [supervisor.handle(name) for name in names]


@pytest.mark.scenario("S-197")
@on_virtual_time
async def test_duplicate_registration(stage, registry):
    """A taken unique key raises `AlreadyRegistered`, which names key and owner; a shared one has members in their order."""
    async with crowd(stage) as (one, two):
        registry.register("key", one, "value")
        with pytest.raises(AlreadyRegistered, match=r"'key'.*'a'") as caught:
            registry.register("key", two)
        assert caught.value.handle is one
        assert registry.lookup("key") is one
        assert registry.keys_of(one) == ("key",)
        assert [(entry.handle, entry.value) for entry in registry.members("key")] == [(one, "value")]

        with Registry(keys="duplicate") as shared:
            shared.register("key", one, 1)
            shared.register("key", two, 2)
            assert [(entry.handle, entry.value) for entry in shared.members("key")] == [(one, 1), (two, 2)]
            stage.end("a")
            await settled()
            assert [entry.handle for entry in shared.members("key")] == [two]


@on_virtual_time
async def test_a_group_of_thousands_is_not_searched(stage, monkeypatch):
    """To register in a group, or to look up its first member, needs no look at the others."""
    is_known, looked = ActorHandle.exit_reason.fget, []
    async with crowd(stage, "abcdefgh") as handles:
        with Registry(keys="duplicate") as shared:
            seen = property(lambda handle: looked.append(handle) or is_known(handle))
            monkeypatch.setattr(ActorHandle, "exit_reason", seen)
            for handle in handles:
                shared.register("key", handle)
            assert shared.lookup("key") is handles[0]
            assert set(looked) <= {handles[0]}


@pytest.mark.scenario("S-198")
@on_virtual_time
async def test_stale_owner(stage, registry):
    """Registering the key of a dead owner succeeds; a look-up returns the new one, then and later."""
    async with crowd(stage) as (one, two):
        registry.register("key", one)
        async with held(registry):
            stage.end("a")
            await settled()
            assert registry.lookup("key") is None
            registry.register("key", two)
            assert registry.lookup("key") is two
        await settled()
        assert registry.lookup("key") is two
        assert registry.keys_of(one) == ()


@pytest.mark.scenario("S-199")
@pytest.mark.parametrize("seed", range(5))
@on_virtual_time
async def test_no_dead_handle_from_a_look_up(stage, registry, seed):
    """At no point of a random schedule."""
    chance = random.Random(seed)  # noqa: S311 - a schedule
    async with stage.open("dynamic", [stage.W("t", restart="temporary")]) as supervisor:

        async def live_and_die():
            for _ in range(20):
                handle = (await supervisor.start_instance()).handle
                with suppress(AlreadyRegistered):
                    registry.register("key", handle)
                for _ in range(chance.randrange(3)):
                    await trio.lowlevel.checkpoint()
                if chance.random() < 0.5:
                    handle.kill()
                else:
                    handle.exit(Shutdown())

        async def look():
            for _ in range(500):
                found = registry.lookup("key")
                assert found is None or found.exit_reason is None
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(live_and_die)
            nursery.start_soon(look)


@pytest.mark.scenario("S-200")
@on_virtual_time
async def test_idempotent_unregister_and_the_owners_value(stage, registry):
    """Twice raises nothing; a stranger cannot change the value, and its owner can."""

    def update(event):
        if isinstance(event, Call):
            try:
                registry.update_value("key", said(event))
            except NotOwner as error:
                return Keep(actions=[Reply(event.to, error)])
            return Keep(actions=[Reply(event.to, None)])
        return Keep()

    owner, other = Tabled({"s1": update}), Tabled({"s1": update})
    children = [ChildSpec("a", owner.start), ChildSpec("b", other.start)]
    async with stage.open(children=children) as supervisor:
        one, two = supervisor.handle("a"), supervisor.handle("b")
        registry.register("key", one, "first")
        assert isinstance(await two.call("theirs"), NotOwner)
        with pytest.raises(NotOwner, match="'key'"):
            registry.update_value("key", "nobody's")
        assert registry.members("key")[0].value == "first"
        assert await one.call("second") is None
        assert registry.members("key")[0].value == "second"
        registry.unregister("key", two)
        assert registry.lookup("key") is one
        registry.unregister("key", one)
        registry.unregister("key", one)
        assert registry.lookup("key") is None


@pytest.mark.scenario("S-201")
@on_virtual_time
async def test_end_of_the_registry(stage):
    """With a reason other than `Normal` its owners get an exit signal; look-ups raise; a new one is empty."""
    reason = Crashed("X", "the registry")
    registry = Registry()
    with registry:
        async with crowd(stage, "abc") as (one, two, free):
            registry.register("one", one)
            registry.register("two", two)
            registry.close(reason)
            assert await one.wait() == reason
            assert await two.wait() == reason
            await settled()
            assert free.exit_reason is None
            for call in (registry.lookup, registry.members):
                with pytest.raises(RegistryClosed, match="'one'"):
                    call("one")
            with Registry() as new:
                assert new.lookup("one") is None


@pytest.mark.scenario("S-202")
@pytest.mark.parametrize("end", ["raises", "is killed", "waiter is killed"])
@on_virtual_time
async def test_release_of_a_lock(stage, registry, end):
    """Each time the next waiter gets the lock, in the order in which they came."""
    order = []

    async def hold(name, seconds, task_status):
        task_status.started()
        async with registry.lock("key"):
            order.append(name)
            await trio.sleep(seconds)
            if name == "a" and end == "raises":
                boom(name)

    async with stage.open() as supervisor:
        for name in "abc":
            spec = ChildSpec(name, worker(hold, name, 10.0), restart="temporary")
            await supervisor.start_child(spec)
            await settled()
        assert order == ["a"]
        match end:
            case "is killed":
                supervisor.handle("a").kill()
                await settled()
                assert order == ["a", "b"]
            case "waiter is killed":
                supervisor.handle("b").kill()
        await trio.sleep(11)
        assert order == (
            ["a", "c"] if end == "waiter is killed" else ["a", "b"] if end == "raises" else ["a", "b", "c"]
        )
        await trio.sleep(30)


@on_virtual_time
async def test_all_listeners_hear_changes_in_their_order(stage, registry):
    """Also of changes that a listener makes: they are told when all have heard of the one before."""
    heard = []

    def answers(event):
        if isinstance(event, Registered) and event.key == "one":
            registry.unregister("one", event.handle)
            registry.register("two", event.handle)
            registry.add_listener(lambda event: heard.append(("late", type(event).__name__, event.key)))

    registry.add_listener(lambda event: heard.append((type(event).__name__, event.key)))
    registry.add_listener(answers)
    registry.add_listener(lambda event: heard.append((type(event).__name__, event.key)))
    async with crowd(stage) as (one, _):
        registry.register("one", one)
        changes = [("Registered", "one"), ("Unregistered", "one"), ("Registered", "two")]
        assert heard == [change for change in changes for _ in range(2)]
        heard.clear()
        registry.unregister("two", one)
        assert heard == [("Unregistered", "two")] * 2 + [("late", "Unregistered", "two")]


@on_virtual_time
async def test_listeners_that_change_something_at_each_change(stage, registry, caplog):
    """They would never come to an end: after a thousand in a row the log says so, and the registry goes on."""

    def restless(event):
        if isinstance(event, Registered):
            registry.unregister(event.key, event.handle)
        else:
            registry.register(event.key, event.handle)

    registry.add_listener(restless)
    async with crowd(stage) as (one, two):
        registry.register("one", one)
        assert "1001 times in a row" in caplog.text
        caplog.clear()
        registry.register("two", two)
        assert "1001 times in a row" in caplog.text


@on_virtual_time
async def test_a_registry_forgets_who_has_ended(stage, registry):
    """No cell of a dead holder is kept, and of thousands of keys no more than a few are remembered."""
    machine = Tabled({"s1": obey})
    cells = weakref.WeakSet()
    async with stage.open("dynamic", [ChildSpec("m", machine.start, restart="transient")]) as supervisor:
        for number in range(300):
            handle = (await supervisor.start_instance()).handle
            registry.register(("session", number), handle)
            cells.add(cell_of(handle).loop)
            handle.cast(Stop())
            await handle.wait()
        del handle
        await settled()
        gc.collect()
        assert len(cells) <= 1
        assert len(registry._last) <= 64  # noqa: SLF001 - what leaks is not to be seen from outside
        assert registry._waiters == {}  # noqa: SLF001


@on_virtual_time
async def test_who_comes_back_is_remembered_among_many(stage, registry):
    """A key whose holder is being restarted is not forgotten, however many others come and go meanwhile."""
    returning = Tabled(
        {"s1": lambda event: 3 if said(event) == "crash" else obey(event)}, name=registry.name("key")
    )
    waits = Backoff(10.0, 10.0, 1.0, 0.0)
    async with (
        stage.open(children=[ChildSpec("r", returning.start)], backoff=waits) as supervisor,
        stage.open("dynamic", [stage.W("w", restart="temporary")]) as others,
    ):
        registry.lookup("key").cast("crash")
        await settled()
        for number in range(200):
            handle = (await others.start_instance()).handle
            registry.register(number, handle)
            handle.kill()
            await handle.wait()
        address = registry.address("key")
        address.cast("held")
        await trio.sleep(20)
        assert returning.log[-1] == ("s1", "held")
        assert registry.lookup("key") is supervisor.handle("r")


@on_virtual_time
async def test_a_name_is_free_when_its_down_is_told(stage, registry):
    """First it is unregistered, then whoever watches is told: nothing of the dead one acts any more."""
    order = []
    async with crowd(stage) as (one, _):
        registry.register("key", one)
        registry.add_listener(lambda event: order.append(type(event).__name__))
        cell_of(one).watch("watcher", lambda _: order.append("told"))
        stage.end("a")
        await settled()
    assert order == ["Unregistered", "told"]


@on_virtual_time
async def test_a_key_that_was_given_back_waits_for_nobody(stage, registry):
    """Its last holder is being restarted and does not take it again: who calls hears at once that nobody is there."""
    waits = Backoff(10.0, 10.0, 1.0, 0.0)
    async with stage.open(children=[stage.W("a")], backoff=waits) as supervisor:
        holder = supervisor.handle("a")
        registry.register("key", holder)
        registry.unregister("key", holder)
        holder.kill()
        await settled()
        with pytest.raises(ActorDown):
            await registry.address("key").call("anybody?", timeout_seconds=1.0)


def test_keys_of_something_else_are_refused():
    """`keys_of` names a value that is not the handle of an actor, as `register` does."""
    with Registry() as registry, pytest.raises(TypeError, match="5 is not an ActorHandle"):
        registry.keys_of(5)
