"""Consumers of events get each one, in order and at least once, and no session notices what becomes of them (docs: operations)."""

import logging

import pytest
import trio
from msgspec.structs import replace

from agentrail.events import AgentEnd, SessionEnd
from agentrail.stores.memory import MemoryStore
from agentrail.telemetry import reader as module
from agentrail.telemetry.reader import TelemetryReader
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.orphans import no_orphans
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import NoSandbox, on_virtual_time, saying

pytestmark = on_virtual_time


class Noting:
    """A consumer that notes what it takes, fails as often as told, and waits while its gate is closed."""

    def __init__(self, name="notes", *, fails=0, has_cursors=True, needs=None, is_open=True):
        self.name, self.has_cursors = name, has_cursors
        self.fails, self.needs, self.asked_at = fails, needs, []
        self.taken, self.rejected = [], 0
        self.gate = trio.Event()
        if is_open:
            self.gate.set()

    async def take(self, events):
        self.asked_at.append(trio.current_time())
        await self.gate.wait()
        if self.fails:
            self.fails -= 1
            message = "canary: the exporter is broken"
            raise RuntimeError(message)
        self.taken += events

    def first_needed(self, scope, session_id):
        return self.needs

    def numbers(self, session_id="s-1", scope=""):
        wanted = (scope, session_id, session_id)
        return [
            event.meta.seq
            for origin, event in self.taken
            if (origin.scope, origin.session_id, event.meta.session_id) == wanted
        ]

    def last(self, session_id="s-1"):
        return [event for _, event in self.taken if event.meta.session_id == session_id][-1]


def open_read(*consumers, store=None, **options):
    return open_nameless(
        lambda _name, _root: NoSandbox(), store=store, reader=TelemetryReader(consumers), **options
    )


async def ask(supervisor, text="Hi", session_id="s-1", **options):
    session = await supervisor.start_session(model=saying("done"), session_id=session_id, **options)
    await session.ask(text)
    return session


def lasting():
    return MemoryStore(lease_ms=0)


async def test_events_come_in_order_and_the_end_of_the_session_too():
    """Each session by itself, and those of two scopes apart."""
    notes = Noting()
    async with no_orphans(), open_read(notes) as supervisor:
        await ask(supervisor)
        await ask(supervisor, session_id="s-2", scope="acme")
        await trio.sleep(1)
        assert isinstance(notes.last(), AgentEnd)
        assert supervisor.statistics().consumers[0].behind == 0
    assert isinstance(notes.last(), SessionEnd)
    for scope, session_id in (("", "s-1"), ("acme", "s-2")):
        numbers = notes.numbers(session_id, scope)
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 5


async def test_a_supervisor_that_closes_while_unfinished_sessions_are_looked_for_loses_nothing(monkeypatch):
    """A command that runs one short session, over a store with many."""

    async def find_for_long(_line):
        await trio.sleep(1)

    monkeypatch.setattr(module._Line, "_find_unfinished", find_for_long)  # noqa: SLF001 - a store with many sessions
    notes = Noting()
    async with open_read(notes, store=lasting()) as supervisor:
        await ask(supervisor)
    assert isinstance(notes.last(), AgentEnd)


async def test_a_take_that_raises_is_tried_again_with_the_same_events_and_logged_once_a_minute(caplog):
    """Later and later, and no other consumer waits for it."""
    notes, other = Noting(fails=8), Noting("other")
    async with open_read(notes, other) as supervisor:
        await ask(supervisor)
        await trio.sleep(1)
        assert len(other.numbers()) > 5  # one consumer does not delay another
        await trio.sleep(400)
        waits = [
            round(after - before) for before, after in zip(notes.asked_at, notes.asked_at[1:], strict=False)
        ]
        assert waits[:8] == [1, 2, 4, 8, 16, 32, 64, 128]
        assert notes.numbers() == other.numbers()
        assert supervisor.statistics().consumers[0].failures == 8
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 3  # at 0, 63 and 127 seconds
    assert all("RuntimeError" in record.getMessage() for record in said)


async def test_the_pause_grows_to_five_minutes():
    """And no further."""
    notes = Noting(fails=12)
    async with open_read(notes) as supervisor:
        await ask(supervisor)
        await trio.sleep(3_000)
    assert round(notes.asked_at[12] - notes.asked_at[11]) == 300


@pytest.mark.parametrize("has_store", [True, False])
async def test_what_the_queue_cannot_hold_is_read_from_the_journal_or_counted(monkeypatch, has_store):
    """A consumer that hangs costs nobody anything: cycles continue, and its queue is bounded."""
    monkeypatch.setattr(module, "QUEUE_EVENTS", 20)
    notes = Noting(is_open=False)
    async with open_read(notes, store=lasting() if has_store else None) as supervisor:
        session = await supervisor.start_session(model=saying(*["more"] * 32), session_id="s-1")
        for number in range(30):
            await session.ask(f"{number}")
            await trio.sleep(1)
        await ask(supervisor, session_id="s-2")
        first = supervisor.statistics().consumers[0]
        await session.ask("and 30")  # these events are read from the journal before they are queued
        last = (await session.status()).last_seq
        assert first.behind + first.dropped > last - 20
        assert (first.dropped == 0) is has_store
        notes.gate.set()
        await trio.sleep(10)
        then = supervisor.statistics().consumers[0]
        assert then.behind == 0
        assert then.dropped == first.dropped
        if has_store:
            assert notes.numbers() == list(range(1, last + 1))
            assert isinstance(notes.last("s-2"), AgentEnd)
        await session.ask("and live again")
        await trio.sleep(1)
        assert isinstance(notes.last(), AgentEnd)


async def test_after_a_crash_the_rest_is_taken_from_the_cursor(caplog):
    """The cursor is behind the events that `take` has returned for, and the row is the session's, not the node's."""
    store, first, second = lasting(), Noting(), Noting()
    async with open_read(first, store=store) as supervisor:
        await ask(supervisor)
        await trio.sleep(6)  # the cursor is stored
        first.gate = trio.Event()  # the consumer hangs from now on
        await ask(supervisor, session_id="s-2", user_data={"agent_id": "desk"})
        await (await supervisor.start_session(model=saying("x"), session_id="s-3")).ask("Hi")
    assert not first.numbers("s-2")
    said = caplog.records[-1].getMessage()
    assert said.endswith(" events were not taken in time: the next process reads them from the store")
    async with open_read(second, store=store):
        await trio.sleep(1)
    assert not second.numbers()
    assert {origin.user_data.get("agent_id") for origin, _ in second.taken} == {"desk", None}
    assert second.numbers("s-2") == list(range(1, len(second.numbers("s-2")) + 1))
    assert len(second.numbers("s-2")) == len(second.numbers("s-3")) > 5


async def test_a_consumer_gets_again_what_it_needs_and_one_without_cursors_gets_nothing_old():
    """After a restart."""
    store, old = lasting(), Noting(needs=3)
    async with open_read(old, store=store) as supervisor:
        await ask(supervisor)
        await trio.sleep(6)
    again, live = Noting(), Noting("live", has_cursors=False)
    async with open_read(again, live, store=store) as supervisor:
        await trio.sleep(1)
        assert again.numbers()[0] == 3
        assert not live.taken
        await ask(supervisor, session_id="s-2")
        await trio.sleep(1)
        assert live.numbers("s-2")[0] == 1


async def test_a_session_that_is_resumed_elsewhere_is_read_from_its_cursor_and_an_old_one_from_now_on():
    """The row is of the session. What ran before there was a reader is left to an export."""
    store = lasting()
    async with open_nameless(lambda _name, _root: NoSandbox(), store=store) as supervisor:
        await ask(supervisor, session_id="old")
    await trio.sleep(1)
    notes, others = Noting(), Noting()
    async with open_read(notes, store=store) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        await session.ask("Hi")
        await trio.sleep(6)
        taken = notes.numbers()[-1]
        notes.gate = trio.Event()
        await session.ask("Hi again")
        await supervisor.rest("s-1")
    async with open_read(others, store=store) as supervisor:
        await trio.sleep(1)
        for session_id in ("s-1", "old"):
            session = await supervisor.resume_session(session_id, model=saying("c"))
            await session.ask("And here")
        await trio.sleep(1)
        assert others.numbers()[0] == taken + 1
        assert others.numbers() == list(range(taken + 1, others.numbers()[-1] + 1))
        assert isinstance(others.last(), AgentEnd)
        assert others.numbers("old")[0] > 5


@pytest.mark.parametrize("has_cursors", [True, False])
async def test_quiet_sessions_take_no_memory_without_end_and_miss_nothing_later(monkeypatch, has_cursors):
    """A session that continues is found in the store again. One whose events are needed again stays."""
    monkeypatch.setattr(module, "MAX_PLACES", 3)
    notes = Noting(has_cursors=has_cursors)
    reader = TelemetryReader([notes])
    (line,) = reader._lines  # noqa: SLF001 - its memory
    opened = open_nameless(lambda _name, _root: NoSandbox(), store=lasting(), reader=reader)
    async with no_orphans(), opened as supervisor:
        sessions = [
            await supervisor.start_session(model=saying(*"abcd"), session_id=f"s-{number}")
            for number in range(8)
        ]
        for _ in range(3):
            for session in sessions:
                await session.ask("Hi")
            await trio.sleep(6)
            assert len(line._places) == 3  # noqa: SLF001 - same
        oldest = next(iter(line._places))  # noqa: SLF001 - same
        await supervisor.session(oldest[1]).ask("Hi")  # the last used goes last
        await trio.sleep(6)
        assert [*line._places][-1] == oldest  # noqa: SLF001 - same
        notes.needs = 1
        for session in sessions:
            if session.session_id != oldest[1]:
                await session.ask("Hi")
        await trio.sleep(6)
        assert len(line._places) == 8  # noqa: SLF001 - same
        for session in sessions:
            numbers = notes.numbers(session.session_id)
            assert numbers == list(range(1, len(numbers) + 1))
            ends = [one for _, one in notes.taken if isinstance(one, AgentEnd)]
            assert [one.meta.session_id for one in ends].count(session.session_id) == 4
        counts = supervisor.statistics().consumers[0]
        assert (counts.behind, counts.dropped, counts.failures) == (0, 0, 0)


@pytest.mark.parametrize("has_store", [True, False])
async def test_an_id_that_is_used_again_begins_again(has_store):
    """The next session of this id is read from its first event, at once and later."""
    notes = Noting()
    async with open_read(notes, store=lasting() if has_store else None) as supervisor:
        for pause in (0, 20):
            await ask(supervisor)
            await supervisor.stop_session("s-1")
            if has_store:
                await supervisor.delete_session("s-1")
            await trio.sleep(pause)
        await ask(supervisor)
        await trio.sleep(1)
        counts = supervisor.statistics().consumers[0]
        assert (counts.behind, counts.failures) == (0, 0)
    assert counts.dropped == 0
    assert notes.numbers().count(1) == 3


async def test_an_id_that_is_used_again_begins_again_in_the_next_process():
    """Although the consumer took nothing of the new session, and all of the one before it."""
    store, first, second = lasting(), Noting(), Noting()
    async with open_read(first, store=store) as supervisor:
        await ask(supervisor)
        await trio.sleep(6)  # the cursor is stored
        await supervisor.stop_session("s-1")
        await supervisor.delete_session("s-1")
        first.gate = trio.Event()  # the consumer hangs from now on
        await ask(supervisor)
    async with open_read(second, store=store):
        await trio.sleep(1)
    assert second.numbers() == list(range(1, second.last().meta.seq + 1))


async def test_an_id_that_is_used_again_while_its_last_events_are_taken_begins_again():
    """A slow consumer has the cursor of the new session, and not that of the old one."""

    class Slow(Noting):
        async def take(self, events):
            await trio.sleep(3)
            await super().take(events)

    notes = Slow()
    async with open_read(notes, Noting("other"), store=lasting()) as supervisor:
        await (await ask(supervisor)).stop()
        await trio.sleep(1)
        await supervisor.delete_session("s-1")
        session = await supervisor.start_session(model=saying("a", "b", "c"), session_id="s-1")
        for number in range(3):
            await session.ask(f"{number}")
            await trio.sleep(4)  # a cursor is stored meanwhile
        await trio.sleep(10)
        last = (await session.status()).last_seq
        numbers = notes.numbers()
    assert numbers[numbers.index(1, 1) :] == list(range(1, last + 1))


@pytest.mark.parametrize("kind", ["telemetry_notes", "telemetry_since"])
async def test_a_number_that_cannot_be_read_is_as_if_it_was_not_there(kind):
    """The task that found events ended with it, and no session's events were taken after that."""
    store, notes = lasting(), Noting()
    async with open_read(Noting(), store=store) as supervisor:
        await ask(supervisor)
        await trio.sleep(10)
    store.change_owed([replace(row, body=b"many") for row in store.owed(kind)])
    async with open_read(notes, store=store) as supervisor:
        await ask(supervisor, session_id="s-2")
        await trio.sleep(10)
    assert isinstance(notes.last("s-2"), AgentEnd)


async def test_cursors_wait_for_a_store_that_is_away():
    """They are stored when it is back."""
    store, notes = FaultyStore(lasting()), Noting()
    async with open_read(notes, store=store) as supervisor:
        await ask(supervisor)
        store.go_away()
        await trio.sleep(30)
        assert not store.owed("telemetry_notes")
        store.mend()
        await trio.sleep(6)
        (row,) = store.owed("telemetry_notes")
        assert int(row.body) == notes.numbers()[-1]


async def test_a_deleted_session_is_given_up_and_its_row_goes(monkeypatch):
    """Its events are counted as dropped, and the next start drops the row."""
    monkeypatch.setattr(module, "QUEUE_EVENTS", 1)
    store, notes = lasting(), Noting(is_open=False)
    async with open_read(notes, store=store) as supervisor:
        await ask(supervisor)
        await trio.sleep(1)
        await ask(supervisor, session_id="s-2")
        for session_id in ("s-1", "s-2"):
            await supervisor.stop_session(session_id)
        await supervisor.delete_session("s-2")
        notes.gate.set()
        await trio.sleep(10)
        counts = supervisor.statistics().consumers[0]
        assert counts.behind == 0
        assert counts.dropped > 5
        await supervisor.delete_session("s-1")
        assert store.owed("telemetry_notes")
    async with open_read(Noting(), store=store):
        await trio.sleep(1)
        assert not store.owed("telemetry_notes")


@pytest.mark.parametrize("lags", [False, True])
async def test_a_fork_that_is_deleted_at_once_was_heard_from_its_first_event_on(monkeypatch, lags):
    """It continues the numbers of its parent, and no other process had it before. A consumer that lags is not waited for."""
    notes = Noting(is_open=not lags)
    if lags:
        monkeypatch.setattr(module, "BATCH_EVENTS", 1)
    async with open_read(notes, store=lasting()) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        await session.ask("Hi")
        fork = await session.fork(session_id="f-1")
        await fork.ask("And here")
        await supervisor.stop_session("f-1")
        assert await supervisor.delete_session("f-1") > 0
        notes.gate.set()
        await trio.sleep(1)
        assert isinstance(notes.last("f-1"), SessionEnd)
        numbers = notes.numbers("f-1")
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] > notes.numbers()[-1] - 1
        assert supervisor.statistics().consumers[0].dropped == 0


@pytest.mark.parametrize("way", ["delete", "purge", "forget the user"])
async def test_what_only_a_journal_has_is_taken_before_that_is_deleted(way):
    """A session of an earlier process is resumed, decides something and is deleted, all within a moment."""
    store, notes = lasting(), Noting()
    async with open_read(store=store) as supervisor:
        await ask(supervisor, user_data={"user_id": "ada"})
        await supervisor.rest("s-1")
    async with open_read(notes, store=store) as supervisor:
        await trio.sleep(1)
        session = await supervisor.resume_session("s-1", model=saying("c"))
        await session.ask("And here")
        if way == "forget the user":
            assert (await supervisor.forget_user("ada")).sessions == 1
        else:
            await supervisor.stop_session("s-1")
            await supervisor.delete_session("s-1", purge=way == "purge")
        assert isinstance(notes.last(), SessionEnd)
        numbers = notes.numbers()
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert len(numbers) > 5


@pytest.mark.parametrize("lags", [False, True])
async def test_a_consumer_that_hangs_delays_no_deletion_for_long(monkeypatch, lags):
    """For five seconds, if only the journal has what it waits for. One that lags anyway delays none: its backend may be away for hours."""
    monkeypatch.setattr(module, "QUEUE_EVENTS", 1)
    if lags:
        monkeypatch.setattr(module, "BATCH_EVENTS", 1)
    notes = Noting(is_open=False)
    async with open_read(notes, store=lasting()) as supervisor:
        await ask(supervisor)
        await trio.sleep(1)
        await ask(supervisor, session_id="s-10")
        for session_id in ("s-1", "s-10"):
            await supervisor.stop_session(session_id)
        began = trio.current_time()
        await supervisor.delete_session("s-10")
        assert trio.current_time() - began == pytest.approx(0 if lags else 5, abs=0.1)


@pytest.mark.operation("O-021")
async def test_a_living_node_takes_the_events_that_a_dead_one_left():
    """Of sessions that nobody wakes, each once; while its node lives, no other takes them."""
    store = MemoryStore(is_shared=True)
    first, second = Noting(is_open=False), Noting()
    async with open_read(second, store=store):
        async with open_read(first, store=store) as supervisor:
            await ask(supervisor)
            await trio.sleep(20)
            assert second.taken == []
            node = supervisor.shared_node
        store.gone(node)
        await trio.sleep(10)
        assert isinstance(second.last(), AgentEnd)
        numbers = second.numbers()
        assert numbers == list(range(1, len(numbers) + 1))
        await trio.sleep(60)
        assert second.numbers() == numbers


async def test_a_session_that_comes_back_to_a_node_misses_no_event_of_another():
    """It was taken over in between, and the other node died with its events."""
    store = MemoryStore(is_shared=True)
    first, lost = Noting(), Noting(is_open=False)
    async with open_read(first, store=store, hibernate_after=1) as supervisor:
        session = await supervisor.start_session(model=saying("One.", "Two.", "Three."), session_id="s-1")
        await session.ask("Hi")
        await trio.sleep(20)
        async with open_read(lost, store=store) as other:
            there = await other.resume_session("s-1", model=saying("One.", "Two."))
            await there.ask("Again")
            node = other.shared_node
        store.gone(node)
        await trio.sleep(10)
        await session.ask("Back")
        await trio.sleep(10)
        numbers = first.numbers()
        assert numbers == list(range(1, len(numbers) + 1))
        assert sum(isinstance(event, AgentEnd) for _, event in first.taken) == 3
