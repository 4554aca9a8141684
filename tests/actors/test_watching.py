"""Following a child over its restarts: nothing is missed, nothing is told twice, and it ends when nothing more can come."""

import gc
import weakref
from collections import Counter

import pytest
import trio

from agentrail.actors import (
    ChildDown,
    ChildGone,
    ChildRestarted,
    ChildUp,
    Registry,
    SupervisorFlags,
    subtree,
    watch,
)
from agentrail.actors.supervisor_loop import Core
from agentrail.errors import (
    ActorDown,
    ChildNotFound,
    InvalidSpec,
    RegistryClosed,
    WatcherTooSlow,
    WrongChildKey,
)
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import NoProcess, Normal
from tests.actors.rig import GAVE_UP, NORMAL, gives_up, on_virtual_time, settled


def words(events):
    """Write events down: kind, incarnation, and of a `ChildDown` whether it comes back."""
    told = []
    for event in events:
        match event:
            case ChildUp(handle):
                told.append(f"up {handle.incarnation}")
            case ChildDown(handle, _, comes_back):
                told.append(
                    f"down {handle.incarnation}{ {True: ' back', False: '', None: ' ?'}[comes_back] }"
                )
            case ChildRestarted(handle):
                told.append(f"restarted {handle.incarnation}")
            case ChildGone():
                told.append("gone")
    return told


async def read(watching, into):
    with trio.fail_after(100_000):
        async for event in watching:
            into.append(event)


@on_virtual_time
async def test_giving_up_is_the_end(stage):
    """The last life does not come back, and the reason is the supervisor's."""
    events = []
    async with trio.open_nursery() as nursery:
        with gives_up():
            async with stage.open("one_for_one", [stage.W("a")], intensity=0) as supervisor:
                watching = await nursery.start(follow, supervisor, "a", events)
                stage.crash("a")
                await trio.sleep_forever()
    assert watching.startswith("<Watching")
    assert words(events) == ["up 1", "down 1", "gone"]
    assert events[-1].reason == GAVE_UP


async def follow(where, child, into, *, task_status=trio.TASK_STATUS_IGNORED):
    async with watch(where, child) as watching:
        task_status.started(repr(watching))
        await read(watching, into)


@on_virtual_time
async def test_the_ends_of_many_watched_children_are_looked_at_one_by_one(stage, monkeypatch):
    """Each step looks at its own child. Looked at all at each, two thousand children held the event loop for 48 s."""
    looked = []

    def comes_back(core, number, really=Core.comes_back):
        looked.append(number)
        return really(core, number)

    names = [f"c{number}" for number in range(40)]
    events = {name: [] for name in names}
    monkeypatch.setattr(Core, "comes_back", comes_back)
    async with (
        trio.open_nursery() as nursery,
        stage.open("one_for_one", [stage.W(name) for name in names], intensity=1_000) as supervisor,
    ):
        for name in names:
            nursery.start_soon(follow, supervisor, name, events[name])
        await settled()
        looked.clear()
        stage.crash(*names)
        await settled()
        assert {tuple(words(seen)) for seen in events.values()} == {("up 1", "down 1 back", "restarted 2")}
        assert max(Counter(looked).values()) < 10
        nursery.cancel_scope.cancel()


@on_virtual_time
async def test_a_child_that_may_be_started_again_is_not_gone(stage):
    """By a call, or by the restart of its group: one that ended, or was terminated, is down until it is deleted."""
    events = []
    async with (
        trio.open_nursery() as nursery,
        stage.open("one_for_all", [stage.W("a", restart="transient"), stage.W("b")]) as supervisor,
    ):
        nursery.start_soon(follow, supervisor, "a", events)
        await settled()
        stage.end("a", NORMAL)
        await settled()
        assert words(events) == ["up 1", "down 1"]
        assert events[1].reason == Normal()
        await supervisor.restart_child("a")
        await supervisor.terminate_child("a")
        await settled()
        assert words(events)[2:] == ["restarted 2", "down 2"]
        stage.crash("b")
        await settled()
        assert words(events)[4:] == ["restarted 3"]
        await supervisor.terminate_child("a")
        await supervisor.delete_child("a")
        await settled()
        assert words(events)[5:] == ["down 3", "gone"]
        nursery.cancel_scope.cancel()


@on_virtual_time
async def test_a_child_without_a_process_is_watched_too(stage):
    """Its first instance is up when it comes; one that never came is gone for no reason of its own."""
    events, never = [], []
    async with (
        trio.open_nursery() as nursery,
        stage.open("one_for_one", [stage.W("a"), stage.W("b")]) as supervisor,
    ):
        await supervisor.terminate_child("a")
        await supervisor.terminate_child("b")
        nursery.start_soon(follow, supervisor, "a", events)
        nursery.start_soon(follow, supervisor, "b", never)
        await settled()
        await supervisor.restart_child("a")
        await supervisor.delete_child("b")
        await settled()
        assert words(events) == ["up 2"]
        assert never == [ChildGone(NoProcess())]


@on_virtual_time
async def test_instances_of_a_dynamic_supervisor(stage):
    """They are watched by their handle now, over restarts, and are gone when they end for good."""
    events = []
    async with (
        trio.open_nursery() as nursery,
        stage.open("dynamic", [stage.W("x", restart="transient")]) as supervisor,
    ):
        started = await supervisor.start_instance()
        nursery.start_soon(follow, supervisor, started.handle, events)
        await settled()
        stage.crash("x")
        await settled()
        stage.end("x", NORMAL)
        await settled()
        assert words(events) == ["up 1", "down 1 back", "restarted 2", "down 2", "gone"]
        assert events[-1].reason == Normal()
        with pytest.raises(ChildNotFound, match="see which_children"):
            await follow(supervisor, started.handle, [])
        with pytest.raises(WrongChildKey, match="are identified by their handles, got the id"):
            await follow(supervisor, "x", [])
        with pytest.raises(WrongChildKey, match="'x'"):
            supervisor.handle("x")


@on_virtual_time
async def test_a_watcher_that_does_not_read_is_told(stage):
    """It is given what was kept, and then an error: nothing is left out in silence."""
    async with stage.open("one_for_one", [stage.W("a")], intensity=50) as supervisor:
        async with watch(supervisor, "a", max_events=4) as watching:
            for _ in range(5):
                stage.crash("a")
                await settled()
            events = []
            for _ in range(2):
                with pytest.raises(WatcherTooSlow, match="4 events were delivered"):
                    await read(watching, events)
            assert words(events) == ["up 1", "down 1 back", "restarted 2", "down 2 back"]
            assert supervisor.handle("a").incarnation == 6
            kept = weakref.ref(watching)
        del watching
        await settled()
        assert are_gone(kept)


def are_gone(*kept):
    """Tell whether nobody holds these objects any more."""
    gc.collect()
    return all(ref() is None for ref in kept)


@on_virtual_time
async def test_a_watch_leaves_nothing_behind(stage):
    """After its block neither the supervisor, nor the child, nor the registry knows of it; and it ends for other readers."""
    kept, events = [], []

    async def watch_a_while(where, child):
        async with watch(where, child) as watching, trio.open_nursery() as nursery:
            kept.append(weakref.ref(watching))
            nursery.start_soon(read, watching, events)
            await settled()
            nursery.cancel_scope.cancel()

    with Registry() as registry:
        async with stage.open("one_for_one", [stage.W("a"), stage.W("b")]) as supervisor:
            registry.register("name", supervisor.handle("a"))
            await supervisor.terminate_child("b")
            for where, child in ((supervisor, "a"), (supervisor, "b"), (registry, "name"), (registry, "x")):
                await watch_a_while(where, child)
            assert words(events) == ["up 1", "up 1"]
            await settled()
            assert are_gone(*kept)


@on_virtual_time
async def test_a_name_is_followed_whoever_holds_it(stage):
    """Over restarts of its holder and of the supervisor above it; it is gone with its registry, and taken from it first."""
    events, later = [], []
    with Registry() as registry:
        named = stage.start("a").with_options(name=registry.name("door"))
        inner = subtree(SupervisorFlags("one_for_one", intensity=0), [ChildSpec("a", named)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, registry, "door", events)
            await settled()
            async with stage.open("one_for_one", [ChildSpec("inner", inner)]) as supervisor:
                first = supervisor.handle("inner", kind="supervisor")
                stage.crash("a")
                await settled()
                assert supervisor.handle("inner", kind="supervisor") is not first
            await settled()
            assert words(events) == ["up 1", "down 1 ?", "restarted 1", "down 1 ?"]
            async with stage.open("one_for_one", [stage.W("b")]) as supervisor:
                registry.register("door", supervisor.handle("b"))
                registry.register("other", supervisor.handle("b"))
                registry.unregister("door", supervisor.handle("b"))
                nursery.start_soon(follow, registry, "other", later)
                nursery.start_soon(follow, registry, "nobody", [])
                await settled()
                assert events[-1].reason == NoProcess()
                registry.close()
                await settled()
        assert words(events)[4:] == ["restarted 1", "down 1 ?", "gone"]
        assert words(later) == ["up 1", "down 1 ?", "gone"]
        assert events[-1].reason == NoProcess()
        with pytest.raises(RegistryClosed):
            await follow(registry, "door", [])


@on_virtual_time
async def test_bad_input(stage):
    """Errors come on entering, and say what to do."""
    async with stage.open("one_for_one", [stage.W("a")]) as supervisor:
        with pytest.raises(ChildNotFound, match="has no child 'x'"):
            await follow(supervisor, "x", [])
        with pytest.raises(InvalidSpec, match="max_events"):
            watch(supervisor, "a", max_events=0)
        with pytest.raises(InvalidSpec, match=r"'duplicate'.*use monitor"):
            await follow(Registry(keys="duplicate"), "x", [])
    with pytest.raises(ActorDown):
        await follow(supervisor, "a", [])
