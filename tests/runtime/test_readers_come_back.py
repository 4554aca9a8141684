"""Who comes back after long, to one session or to all of them, is given what it missed from the journals; else it is told what is lost."""

import logging
import threading

import msgspec
import pytest
import trio

from agentrail.abc.store import Filters
from agentrail.core.protocol.effects import ResumeChild
from agentrail.errors import EventMissed, SessionDown, StoreUnavailable, SubscriberTooSlow, YourMove
from agentrail.events import AgentEnd, AgentStart, EventsLost, PromptReceived, SessionRecovered
from agentrail.runtime import event_bus, fan_in, journal_events
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.ports import ChildUsage
from agentrail.runtime.rewind_request import RewindRequest
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from agentrail.testing.tools import HangingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import (
    eventually,
    kinds,
    on_bounded_time,
    on_virtual_time,
    open_over,
    saying,
    until,
    wants,
)
from tests.runtime.test_resumed_sessions import fresh, wants_task
from tests.runtime.test_resuming import committed, read_into

pytestmark = on_bounded_time


async def lived(supervisor, session_id, *, keep=2, texts=("a", "b"), **options):
    """Start a session, let it answer, and give it with all that it published."""
    session = await supervisor.start_session(
        model=saying(*texts), session_id=session_id, event_buffer_size=keep, **options
    )
    async with session.subscribe(after=0) as events:
        for text in texts[:-1]:
            await session.ask(f"Hi, {text}?")
        seen = []
        for _ in texts[:-1]:
            seen += await until(events, AgentEnd)
    return session, committed(seen)


async def read_all(subscription, ends):
    """Read up to these numbers of these sessions; the events of each, in order."""
    seen = {session_id: [] for session_id in ends}
    async with subscription as events:
        while any(not own or own[-1].meta.seq < ends[name] for name, own in seen.items()):
            event = await anext(events)
            seen[event.meta.session_id].append(event)
    return seen


# --- all of it


@pytest.mark.at(82)
@pytest.mark.at(83)
@pytest.mark.parametrize("is_immediate", [False, True])
async def test_a_reader_of_many_comes_back_to_each_where_it_left(is_immediate):
    """Event for event what was lived, of each session from its own number on; of one that is not named from its start."""
    inner = fresh()
    async with no_orphans(), open_over(inner if is_immediate else FaultyStore(inner)) as supervisor:
        names = ("one", "two", "three")
        was = {name: (await lived(supervisor, name, group_id="blue"))[1] for name in names}
        ends = {name: own[-1].meta.seq for name, own in was.items()}
        for after in ({"one": 1, "two": ends["two"] - 1}, {"three": 3}, {}):
            expected = {name: was[name][after.get(name, 0) :] for name in names}
            assert await read_all(supervisor.subscribe_all(after=after, deltas=False), ends) == expected
            group = supervisor.subscribe_group("blue", after=after, deltas=False)
            assert await read_all(group, ends) == expected
        one = supervisor.session("one")
        for after in range(ends["one"]):
            alone = one.subscribe(after=after, deltas=False)
            assert await read_all(alone, {"one": ends["one"]}) == {"one": was["one"][after:]}


async def test_a_caller_waits_for_what_is_kept_no_more():
    """The cycle began before the oldest event that is kept: with its prompt, as without a journal with a large ring."""
    async with open_over(FaultyStore(fresh())) as supervisor:
        hang = HangingTool()
        model = ScriptedModel([says("one"), wants("hang"), says("two")])
        session = await supervisor.start_session(model=model, tools=[hang], event_buffer_size=1)
        await session.ask("first")
        receipt = await session.prompt("second")
        await hang.started.wait()
        assert (await session.wait_for(AgentStart)).ref == receipt.ref
        assert (await session.wait_for(PromptReceived)).ref == receipt.ref
        await session.abort_tool((await session.status()).running_tools[0].call_id)
        await session.collect_reply()
        with pytest.raises(EventMissed):
            await session.wait_for(SessionRecovered)


async def test_a_caller_waits_for_nothing_that_is_lost(monkeypatch):
    """In idle nothing more comes, so it is told."""
    store = FaultyStore(fresh())
    async with open_over(store) as supervisor:
        session, _ = await lived(supervisor, "one", keep=0)
        found = await session.wait_for(PromptReceived)
        assert found.meta.seq > 1
        monkeypatch.setattr(event_bus, "READS", 0)  # the journal was there for the beginning, and then is not
        with pytest.raises(EventMissed, match="no longer kept"):
            await session.wait_for(PromptReceived)


# --- a store that is away


def fail_reads(inner, times):
    """Let so many reads of records fail, and the later ones succeed."""
    read, left = inner.read, [times]

    def failing(*args, **options):
        if left[0]:
            left[0] -= 1
            message = "the server restarts"
            raise StoreUnavailable(message)
        return read(*args, **options)

    inner.read = failing


@on_virtual_time
@pytest.mark.parametrize("which", ["one", "all"])
@pytest.mark.parametrize("times", [3, 1_000])
async def test_what_a_store_that_is_away_keeps_is_not_lost(which, times):
    """For as long as the patience with the store the reader waits. Then it hears that the store is away, and can come back later."""
    store = FaultyStore(fresh())
    async with open_over(store, store_patience=5) as supervisor:
        session, was = await lived(supervisor, "s-1")

        def come_back():
            if which == "one":
                return read_all(session.subscribe(after=1, deltas=False), {"s-1": was[-1].meta.seq})
            return read_all(
                supervisor.subscribe_all(after={"s-1": 1}, deltas=False), {"s-1": was[-1].meta.seq}
            )

        read = store.inner.read
        fail_reads(store.inner, times)
        if times > 3:
            began = trio.current_time()
            with pytest.raises(StoreUnavailable, match="the server restarts"):
                await come_back()
            assert 5 <= trio.current_time() - began <= 6
            store.inner.read = read
        assert await come_back() == {"s-1": was[1:]}


@on_virtual_time
async def test_the_answer_of_a_child_waits_for_a_store_that_is_away():
    """Otherwise its outcome would be stored as unknown, for good."""
    store = FaultyStore(inner := fresh())
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants_task(), says("from the child"), says("done")]),
            tools=[TaskTool()],
            session_id="s-1",
        )
        await session.ask("Hi")
        cell = session._cell  # noqa: SLF001 - as below
        (child,) = [one.session for one in inner.find(Filters(root="s-1")) if one.parent]
        fail_reads(inner, 100)
        answer = await supervisor._children._answer_of_ended(cell, child, resumed(child), ChildUsage())  # noqa: SLF001
        assert answer.text == "from the child"


# --- lost


@pytest.mark.parametrize("why", ["trimmed", "rewound", "damaged", "a bug"])
async def test_of_one_that_cannot_be_made_again_the_loss_is_told_and_of_others_nothing_is_missing(
    why, caplog
):
    """With its own snapshot, to begin anew from. A store that raises what no store may raise ends no reader."""
    store = FaultyStore(inner := fresh())
    async with open_over(store) as supervisor:
        whole, was = await lived(supervisor, "whole")
        session, _ = await lived(supervisor, "lost", texts=("a", "b", "c"))
        read = inner.read
        if why == "trimmed":
            await supervisor.rest("lost")
            # Else it may come back from its first record, and keep all that it has read.
            await eventually(lambda: inner.snapshots("", "lost"))
            session = await supervisor.resume_session("lost", model=saying("c"), tools=[])
            await session.ask("And?")
            last = inner.snapshots("", "lost")[0].seq
            await supervisor.trim_session("lost", before=last)
        elif why == "rewound":
            await session.rewind(3)
        else:

            def other(scope, name, *args, **options):
                if name == "lost" and why == "a bug":
                    message = "a secret of the store"
                    raise KeyError(message)
                records = read(scope, name, *args, **options)
                return tuple(
                    msgspec.structs.replace(one, hash=b"x" * 16) if name == "lost" else one for one in records
                )

            inner.read = other
        with caplog.at_level(logging.WARNING, logger="agentrail"):
            async with supervisor.subscribe_all(after={"lost": 1, "whole": 1}, deltas=False) as events:
                seen = {"lost": [], "whole": []}
                while len(seen["whole"]) < len(was) - 1 or not seen["lost"]:
                    event = await anext(events)
                    seen[event.meta.session_id].append(event)
                    if event.meta.session_id == "lost":
                        assert events.snapshot.status.session_id == "lost"
                        assert events.snapshot.status.last_seq == event.to_seq
        assert seen["whole"] == was[1:]
        assert kinds(seen["lost"]) == ["EventsLost"]
        assert seen["lost"][0].from_seq == 2
        assert "a secret" not in caplog.text
        async with session.subscribe(after=1) as events:
            assert isinstance(await anext(events), EventsLost)
        assert whole.session_id == "whole"


async def test_all_sessions_together_give_no_more_than_one(monkeypatch):
    """Who comes back to thousands cannot fill the memory: beyond the limit the rest is lost, and told."""
    async with open_over(FaultyStore(fresh())) as supervisor:
        _, was = await lived(supervisor, "one", keep=0)
        await lived(supervisor, "two", keep=0)
        monkeypatch.setattr(fan_in, "MAX_OLD_EVENTS", len(was) + 1)
        async with supervisor.subscribe_all(after={}, deltas=False) as events:
            seen = [await anext(events) for _ in range(len(was) + 1)]
        assert kinds(seen) == [*kinds(was), "EventsLost"]


async def test_a_session_that_goes_back_while_it_is_read_gives_nothing_of_before():
    """Nothing is kept of it, so all that was read was of before, up to its very last event."""
    store = FaultyStore(fresh())
    async with open_over(store) as supervisor:
        session, _ = await lived(supervisor, "s-1", keep=0)
        read, seen = store.inner.read, []
        entered, go_on = threading.Event(), threading.Event()

        def late(*args, **options):
            records = read(*args, **options)
            if threading.current_thread() is not threading.main_thread() and not entered.is_set():
                entered.set()
                go_on.wait(10)
            return records

        store.inner.read = late

        async def come_back() -> None:
            async with session.subscribe(after=0) as events:
                seen.append(await anext(events))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_back)
            await eventually(entered.is_set)
            cell = session._cell  # noqa: SLF001 - without the abort in front, which would be one event more
            behind_all = RewindRequest(number=cell.journal.tail.seq, then=cell.state, at_ms=1)
            assert await cell.rewind(behind_all)
            go_on.set()
        assert kinds(seen) == ["EventsLost"]


# --- who leaves meanwhile


@pytest.mark.parametrize("how", ["cancelled", "left"])
@pytest.mark.parametrize("which", ["one", "all"])
async def test_a_reader_that_leaves_while_journals_are_read_is_registered_nowhere(how, which):
    """It is cancelled, or another task leaves its block: the session publishes to no one."""
    store = FaultyStore(fresh())
    async with open_over(store) as supervisor:
        session, _ = await lived(supervisor, "s-1")
        gate, told = Gate(store.inner), []
        events = session.subscribe(after=0) if which == "one" else supervisor.subscribe_all(after={})

        async def enter() -> None:
            try:
                await events.__aenter__()
            except YourMove as error:
                told.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(enter)
            await eventually(lambda: gate.inside == 1)
            if how == "cancelled":
                nursery.cancel_scope.cancel()
            else:
                await events.__aexit__(None, None, None)
                gate.open.set()
        gate.open.set()
        assert len(told) == (how == "left")
        assert all("was cancelled while it was being entered" in one for one in told)
        assert session._cell.bus._subscriptions == ()  # noqa: SLF001 - what is held shows nowhere else
        assert await session.ask("Still?") == "b"


@pytest.mark.parametrize("which", ["one", "all"])
async def test_a_supervisor_that_closes_meanwhile_ends_the_reading(which, tmp_path):
    """The store is closed while a thread reads it: who reads all hears that it is down, who reads one that it has lost something."""
    ended = []
    reading, go_on = threading.Event(), threading.Event()
    store = SqliteStore(tmp_path / "sessions.db")
    read = store.read

    def slow(*args, **options):
        reading.set()
        go_on.wait(10)
        return read(*args, **options)

    async with trio.open_nursery() as nursery:
        async with open_over(store) as supervisor:
            session, _ = await lived(supervisor, "s-1", keep=0)
            store.read = slow

            async def come_back() -> None:
                events = session.subscribe(after=0) if which == "one" else supervisor.subscribe_all(after={})
                try:
                    async with events:
                        ended.extend(kinds([event async for event in events]))
                except SessionDown:
                    ended.append("SessionDown")

            nursery.start_soon(come_back)
            await eventually(reading.is_set)
        store.close()
        go_on.set()
    assert ended == (["EventsLost"] if which == "one" else ["SessionDown"])


async def test_a_full_buffer_forgets_no_loss():
    """Deltas give way, and not what says that all that was read does not count."""
    async with open_over(FaultyStore(fresh())) as supervisor:
        session, _ = await lived(supervisor, "s-1", texts=("a", "b", "c"))
        seen = []
        async with session.subscribe(buffer=3) as events:
            await session.rewind(3)
            await session.ask("And?")
            with pytest.raises(SubscriberTooSlow):
                await read_into(seen, events)
        assert "EventsLost" in kinds(seen)


# --- sessions below


def resumed(child):
    """The effect of a call whose child had reported its start."""
    return ResumeChild(effect_id="e1", call_id="c1", name="task", child_ids=(child,))


async def test_the_answer_of_a_child_that_has_ended_is_read_beside_the_live_session(monkeypatch):
    """Its plugins are asked once more in a thread; what watches those of the live session belongs to the loop."""
    inner = fresh()
    async with open_over(FaultyStore(inner)) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants_task(), says("from the child"), says("done")]),
            tools=[TaskTool()],
            plugins=[
                PuppetPlugin(
                    (PuppetRule(hook="AfterTurn", tool=None, action="emit", text="seen"),), name="hears"
                )
            ],
            session_id="s-1",
        )
        await session.ask("Hi")
        cell = session._cell  # noqa: SLF001 - a parent that waits for a child that has ended cannot be made from outside
        (child,) = [one.session for one in inner.find(Filters(root="s-1")) if one.parent]
        asked, call = [], QuietWatch.__call__

        def noted(self, *given):
            asked.append((threading.current_thread() is threading.main_thread(), self))
            return call(self, *given)

        monkeypatch.setattr(QuietWatch, "__call__", noted)
        answer = await supervisor._children._answer_of_ended(cell, child, resumed(child), ChildUsage())  # noqa: SLF001
        assert answer.text == "from the child"
        assert asked
        assert all(not is_main and watch is not cell.state.data.stack.ask for is_main, watch in asked)


@pytest.mark.parametrize("why", ["damaged", "too many", "a different history"])
async def test_what_cannot_be_made_again_is_said_to_be_lost(why, monkeypatch):
    """A record is damaged, there are too many, or it is another history: the first event says so, and nothing is made up."""
    inner = fresh()
    async with open_over(FaultyStore(inner)) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1", event_buffer_size=2)
        await session.ask("Hi")
        last = (await session.status()).last_seq
        if why == "too many":
            monkeypatch.setattr(journal_events, "MAX_OLD_EVENTS", 3)
        else:
            change = {"hash": b"x" * 16} if why == "damaged" else {"does": "publish 1-2"}
            read = inner.read

            def other(*args, **options):
                records = read(*args, **options)
                return tuple(
                    msgspec.structs.replace(one, **change) if one.kind == "prompt" else one for one in records
                )

            monkeypatch.setattr(inner, "read", other)
            if why == "a different history":
                monkeypatch.setattr("agentrail.core.journal.fold.fits_behind", lambda _hash, _record: True)
        async with session.subscribe(after=1) as events:
            lost = await anext(events)
        assert isinstance(lost, EventsLost)
        assert (lost.from_seq, lost.to_seq) == (2, last)


class Gate:
    """Holds who reads a journal, until it is open."""

    def __init__(self, inner):
        self.open = threading.Event()
        self.inside = self.most = self.reads = 0
        self._lock = threading.Lock()
        self._read, inner.read = inner.read, self.read

    def read(self, *args, **options):
        with self._lock:
            self.inside += 1
            self.reads += 1
            self.most = max(self.most, self.inside)
        self.open.wait()
        with self._lock:
            self.inside -= 1
        return self._read(*args, **options)


async def test_two_tasks_that_enter_one_subscription_while_it_reads_share_nothing():
    """The second is told to subscribe once more."""
    store = FaultyStore(fresh())
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1", event_buffer_size=0)
        await session.ask("Hi")
        events, told = session.subscribe(after=0), []

        async def enter() -> None:
            try:
                await events.__aenter__()
            except YourMove as error:
                told.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(enter)
            nursery.start_soon(enter)
        assert len(told) == 1
        assert "already entered" in told[0]
        await events.__aexit__(None, None, None)
