"""A remote reader of a hibernated session wakes it only for what the reader has not seen yet."""

import weakref

import trio
from attrs import evolve

from agentrail import events
from agentrail.errors import AgentrailError
from agentrail.runtime.session_monitor import SessionGone
from agentrail.stores.memory import MemoryStore
from agentrail.testing.supervisors import open_nameless
from tests.garbage import without_collector
from tests.remote.over_a_network import over_a_network
from tests.remote.test_same_outcomes import one_answer
from tests.runtime.rig import NoSandbox


def remote_supervisor():
    return over_a_network(
        open_nameless(lambda _name, _root: NoSandbox(), store=MemoryStore(lease_ms=0), hibernate_after=10.0)
    )


async def hibernated(supervisor):
    session = await supervisor.start_session(model=one_answer(), session_id="s-1")
    await session.ask("one")
    last = (await session.status()).last_seq
    await trio.sleep(30)
    assert supervisor.statistics().asleep == 1
    return session, last


async def test_a_reader_that_has_seen_all_wakes_nothing(autojump_clock):
    """It comes back after its last event, as after a lost connection, and gets what follows when others wake the session."""
    async with remote_supervisor() as supervisor:
        session, last = await hibernated(supervisor)
        async with session.subscribe(after=last, deltas=False) as read:
            await trio.sleep(1)
            assert supervisor.statistics().asleep == 1
            await session.ask("two")
            numbers = [(await anext(read)).meta.seq for _ in range(4)]
    assert numbers == list(range(last + 1, last + 5))


async def test_a_reader_that_lacks_events_gets_them(autojump_clock):
    """One that has not seen all wakes the session, which has its events."""
    async with remote_supervisor() as supervisor:
        session, last = await hibernated(supervisor)
        async with session.subscribe(after=last - 1, deltas=False) as read:
            assert isinstance(await anext(read), events.AgentEnd)


async def test_a_first_reader_starts_with_the_stored_state(autojump_clock):
    """Its snapshot is read from the store, and later events come without gap or duplicate."""
    async with remote_supervisor() as supervisor:
        session, last = await hibernated(supervisor)
        async with session.subscribe(deltas=False) as read:
            assert supervisor.statistics().asleep == 1
            stored = read.snapshot
            assert (stored.last_seq, stored.status.phase) == (last, "idle")
            woken = await session.snapshot()
            status = evolve(woken.status, last_seq=last)  # but for `SessionRecovered`, which waking adds
            assert evolve(woken, status=status, last_seq=last) == stored
            assert supervisor.statistics().asleep == 0
            await session.ask("two")
            assert [(await anext(read)).meta.seq for _ in range(2)] == [last + 1, last + 2]


async def test_a_monitor_wakes_nothing(autojump_clock):
    """It waits for the end of a hibernated session, as a monitor in the process of the session does."""
    gone = []

    async def watch(monitor):
        gone.append(await monitor.wait())

    async with remote_supervisor() as supervisor, trio.open_nursery() as nursery:
        session, _ = await hibernated(supervisor)
        for monitor in (supervisor.monitor("s-1"), session.monitor()):
            nursery.start_soon(watch, monitor)
        await trio.sleep(1)
        assert (supervisor.statistics().asleep, gone) == (1, [])
        await session.stop("enough")
    assert [evolve(one, scope="") for one in gone] == [
        SessionGone(session_id="s-1", reason="enough", incarnation=1)
    ] * 2


async def test_the_error_of_a_refused_call_is_freed_without_the_collector(autojump_clock):
    """Its traceback refers to the frames that it passed through: none of them may refer to it."""
    async with remote_supervisor() as supervisor:
        session = await supervisor.start_session(model=one_answer(), session_id="s-1")
        subscribe = session.subscribe(after=99).__aenter__
        for call in (lambda: session.approve("none"), lambda: session.state_at(99), subscribe):
            known = None
            with without_collector():
                try:
                    await call()
                except AgentrailError as error:
                    known = weakref.ref(error)
                assert known is not None
                assert known() is None
