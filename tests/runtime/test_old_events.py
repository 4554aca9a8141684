"""Who comes back after long gets all that was published since, made again from the journal, or hears that it is lost (docs: the journal)."""

import threading

import msgspec
import pytest
import trio

from agentrail.errors import YourMove
from agentrail.events import AgentEnd, EventsLost
from agentrail.runtime import journal_events
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.orphans import no_orphans
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import calling, on_bounded_time, saying, until
from tests.runtime.test_kept_sessions import open_kept
from tests.runtime.test_resumed_sessions import fresh

pytestmark = on_bounded_time


def committed(events):
    """Those that are replayed."""
    return [event for event in events if not event.meta.ephemeral]


async def read_up_to(session, last, after=0):
    """Subscribe behind a number, and read up to another."""
    seen = []
    async with session.subscribe(after=after, deltas=False) as events:
        async for event in events:
            seen.append(event)
            if event.meta.seq >= last:
                break
    return seen


@pytest.mark.at(82)
@pytest.mark.parametrize("is_immediate", [False, True])
async def test_what_is_kept_no_more_is_made_again_as_it_was(is_immediate):
    """With a tool, chunks and several cycles: event for event what a reader saw who was there; from any number on."""
    inner = fresh()
    store = inner if is_immediate else FaultyStore(inner)
    async with no_orphans(), open_kept(store) as supervisor:
        session = await supervisor.start_session(
            model=calling("record"), tools=[RecordingTool()], session_id="s-1", event_buffer_size=3
        )
        async with session.subscribe(after=0) as events:
            await session.ask("Hi")
            lived = committed(await until(events, AgentEnd))
        last = lived[-1].meta.seq
        assert len(lived) == last > 6
        for after in range(last):
            assert await read_up_to(session, last, after) == lived[after:]


@pytest.mark.parametrize("why", ["damaged", "too many", "another history"])
async def test_what_cannot_be_made_again_is_said_to_be_lost(why, monkeypatch):
    """A record is damaged, there are too many, or it is another history: the first event says so, and nothing is made up."""
    inner = fresh()
    async with open_kept(FaultyStore(inner)) as supervisor:
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
            if why == "another history":
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
        """Count, wait, and read."""
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
    async with open_kept(store) as supervisor:
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
        assert "entered before" in told[0]
        await events.__aexit__(None, None, None)
