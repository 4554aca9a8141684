"""A session with a store: nothing of a step is seen, and no work begins, before the record of it is durable (docs: the journal)."""

import threading
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from agentrail.errors import AlreadyExists, Fenced, SessionDown, StoreUnavailable
from agentrail.events import AgentAbort, AgentEnd, MessageDelta, PromptReceived
from agentrail.messages import ToolMessage
from agentrail.stores.memory import MemoryStore
from agentrail.testing.cancelling import check_events, check_history, crash
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import calling, eventually, kinds, on_bounded_time, open_over, rest, saying, until

pytestmark = on_bounded_time


@pytest.fixture
async def store():
    """A store that takes its time in a thread, and fails when a test says so."""
    kept = FaultyStore(MemoryStore())
    yield kept
    kept.mend()


@pytest.fixture
async def supervisor(store):
    """A supervisor that keeps its sessions there; nothing of them is left."""
    async with no_orphans(), open_over(store) as opened:
        yield opened


def recorded(store, session_id="s-1"):
    return [record.kind for record in store.inner.read("", session_id)]


# --- before it is durable, nothing


@pytest.mark.journal(1)
@pytest.mark.at(118)
@pytest.mark.at(123)
@pytest.mark.parametrize("what", ["receipt", "event", "tool"])
async def test_nothing_leaves_before_its_record_is_durable(supervisor, store, what):
    """With a store that hangs: no receipt, no event, no tool; and all of it, in order, when it goes on. What a receipt says, others can read."""
    record = RecordingTool()

    def answer(request):
        if isinstance(request.messages[-1], ToolMessage):
            return says("done")
        store.hang()  # for a tool, no later than this
        return calls(("record", {}))

    session = await supervisor.start_session(model=FunctionModel(answer), tools=[record], session_id="s-1")
    assert recorded(store)[0] == "opened"
    async with session.subscribe() as events, trio.open_nursery() as nursery:
        if what != "tool":
            store.hang()
        answered = trio.Event()

        async def prompt() -> None:
            await session.prompt("Hi")
            assert "prompt" in recorded(store)
            answered.set()

        nursery.start_soon(prompt)
        await trio.sleep(0.1)
        assert not record.calls
        if what != "tool":
            assert not answered.is_set()
            with pytest.raises(trio.WouldBlock):
                events.next_nowait()
        store.mend()
        seen = await until(events, AgentEnd)
    assert len(record.calls) == 1
    assert kinds(seen)[-1] == "AgentEnd"


async def test_a_session_begins_when_its_first_record_is_durable(supervisor, store):
    """A start that is cancelled leaves nothing, also when the store had it already and nobody heard so; an id that the store has is refused."""
    store.hang()
    with trio.move_on_after(0.05):
        await supervisor.start_session(model=saying("a"), session_id="s-1")
    store.mend()
    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
    assert await session.ask("Hi") == "a"
    assert store.calls.count("delete") == 1
    await session.stop()
    await session.monitor().wait()
    with pytest.raises(AlreadyExists, match="s-1"):
        await supervisor.start_session(model=saying("a"), session_id="s-1")
    assert supervisor.sessions() == ()
    assert recorded(store)[-2:] == ["stop", "closed"]


async def test_a_start_that_was_cancelled_before_its_store_began_costs_nothing(
    supervisor, store, monkeypatch
):
    """Live callers wait after those who have given up, so nothing is done for the latter: neither a start, nor a look whether it was one."""
    reads, read = [], MemoryStore.read

    def count(one, scope, session, *given, **options):
        reads.append(session)
        return read(one, scope, session, *given, **options)

    monkeypatch.setattr(MemoryStore, "read", count)
    store.hang()
    async with trio.open_nursery() as nursery:
        for number in range(20):
            start = partial(supervisor.start_session, model=saying("a"), session_id=f"s-{number}")
            nursery.start_soon(start)
        while "create" not in store.calls:  # noqa: ASYNC110 - a thread
            await trio.sleep(0.01)
        await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    store.mend()
    session = await supervisor.start_session(model=saying("a"), session_id="new")
    assert await session.ask("Hi") == "a"
    assert (store.calls.count("create"), store.calls.count("delete")) == (2, 1)
    assert len({*reads} - {"new"}) == 1  # of the one that the store had begun
    assert [one.session_id for one in supervisor.sessions()] == ["new"]


# --- a store that hangs


@pytest.mark.parametrize("options", [{}, {"resume": "all", "revive": lambda opening: {}}])
async def test_who_opens_over_a_store_that_hangs_can_be_cancelled(store, options):
    """The block is not entered, and nobody waits for the store; when it answers, another one opens over it."""
    store.hang()
    with trio.move_on_after(0.05) as given_up:
        async with open_over(store, **options):
            pytest.fail("it was opened")
    assert given_up.cancelled_caught
    store.mend()
    async with no_orphans(), open_over(store) as opened:
        session = await opened.start_session(model=saying("a"))
        assert await session.ask("Hi") == "a"


@pytest.mark.journal(2)
async def test_a_store_that_hangs_for_a_while_delays_a_cycle_and_fails_none(store):
    """The cycle ends as if nothing had been, later; its events are those of one without a store."""
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.start_session(
            model=calling("record"), tools=[RecordingTool()], session_id="s-1"
        )
        async with session.subscribe(after=0) as events:
            await session.prompt("Hi")
            store.hang()
            await trio.sleep(0.3)
            store.mend()
            seen = await until(events, AgentEnd)
            await session.stop()
            seen += await rest(events)
    check_events(seen)
    async with open_over(None) as supervisor:
        plain = await supervisor.start_session(model=calling("record"), tools=[RecordingTool()])
        async with plain.subscribe(after=0) as events:
            await plain.ask("Hi")
            await plain.stop()
            assert kinds(await rest(events)) == kinds(seen)


@pytest.mark.journal(3)
async def test_an_abort_stops_work_past_a_store_that_hangs(store):
    """A tool within 100 ms; the call raises when the patience is over, and says that it was stopped. Later all is there."""
    hang = HangingTool()
    async with no_orphans(), open_over(store, store_patience=0.5) as supervisor:
        session = await supervisor.start_session(
            model=calling("hang", then="b"), tools=[hang], session_id="s-1"
        )
        async with session.subscribe(after=0) as events:
            await session.prompt("Hi")
            await hang.started.wait()
            store.hang()
            began = trio.current_time()
            async with trio.open_nursery() as nursery:

                async def abort() -> None:
                    with pytest.raises(StoreUnavailable, match="was stopped"):
                        await session.abort()

                nursery.start_soon(abort)
                await eventually(lambda: hang.stopped == 1)
                assert trio.current_time() - began < 0.1
            assert trio.current_time() - began > 0.4
            store.mend()
            seen = await until(events, AgentAbort)
            check_history(await session.messages())
            await session.stop()
            check_events(seen + await rest(events))


@pytest.mark.journal(3)
async def test_an_abort_stops_a_stream_past_a_store_that_hangs(store):
    """As a tool is: nothing of it is read any more."""
    gone = trio.Event()

    class Endless(ScriptedModel):
        @asynccontextmanager
        async def open_stream(self, request):
            try:
                async with super().open_stream(request) as chunks:
                    yield chunks
            finally:
                gone.set()

    async with no_orphans(), open_over(store, store_patience=0.3) as supervisor:
        model = Endless([says(*("a" for _ in range(2000)), pause_seconds=0.01)])
        session = await supervisor.start_session(model=model, session_id="s-1")
        async with session.subscribe() as events:
            await session.prompt("Hi")
            await until(events, MessageDelta)
        store.hang()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def abort() -> None:
                with pytest.raises(StoreUnavailable):
                    await session.abort()

            nursery.start_soon(abort)
            await gone.wait()
            assert trio.current_time() - began < 0.1
        store.mend()


@pytest.mark.journal(4)
@pytest.mark.at(118)
async def test_a_tool_that_waits_in_the_outbox_and_is_stopped_never_runs(store):
    """Its call has its result, once; the session is idle and goes on."""
    record = RecordingTool()
    async with no_orphans(), open_over(store, store_patience=30) as supervisor:
        model = calling("record", then="later")
        session = await supervisor.start_session(model=model, tools=[record], session_id="s-1")
        async with session.subscribe(after=0) as events, trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "Hi")
            await hang_before_the_tool(session, store)
            nursery.start_soon(session.abort)
            await trio.sleep(0.05)
            assert not record.calls
            store.mend()
            seen = await until(events, AgentAbort)
            assert await session.ask("Again") == "later"
            check_history(await session.messages())
            await session.stop()
            check_events(seen + await rest(events))
    assert not record.calls


async def hang_before_the_tool(session, store):
    """Let the store hang when the core has decided to run the tool, and its record is on the way."""
    cell = session._cell  # noqa: SLF001 - the outbox cannot be seen from outside
    append, journal = store.inner.append, cell.journal
    hangs = threading.Event()  # what is held may be seen before a thread has come so far

    def hang_at_the_tool(batch):
        if any("run_tool" in record.does for one in batch for record in one.records):
            store.hang()
            hangs.set()
            store._open.wait()  # noqa: SLF001 - of the fake
        return append(batch)

    store.inner.append = hang_at_the_tool
    await eventually(hangs.is_set)
    assert any("RunTool" in repr(type(effect)) for effect in held(journal))
    store.inner.append = append


def held(journal):
    return tuple(journal.outbox.waiting())


@pytest.mark.journal(5)
async def test_no_status_shows_what_a_crash_could_take_back(store):
    """Neither `status`, `messages`, nor the snapshot of a subscriber knows of a prompt whose record is on its way."""
    async with no_orphans(), open_over(store, store_patience=2) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        await session.ask("Hi")
        store.hang()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "Again")
            await trio.sleep(0.05)
            asked = []

            async def ask() -> None:
                asked.append(await session.status())

            nursery.start_soon(ask)
            await trio.sleep(0.05)
            assert not asked
            async with session.subscribe() as events:
                assert events.snapshot.status.messages == 2
                assert events.snapshot.last_seq == session._cell.bus.last_seq  # noqa: SLF001 - of what was published
                store.mend()
                seen = await until(events, AgentEnd)
        assert asked
        assert isinstance(seen[0], PromptReceived)


# --- a store that is away


async def test_while_the_store_is_away_nothing_is_admitted_and_stops_are(store):
    """Prompts, steers, decisions and new sessions are refused at once; a stop is not; and all goes on by itself."""
    async with no_orphans(), open_over(store, store_patience=0.2) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        other = await supervisor.start_session(model=saying("a"), session_id="s-2")
        store.go_away()
        with pytest.raises(StoreUnavailable, match=r"disk is full.*same client_id"):
            await session.prompt("Hi", client_id="c-1")
        for refused in (session.prompt("x"), session.steer("x"), session.approve("s-1/c"), session.ask("x")):
            began = trio.current_time()
            with pytest.raises(StoreUnavailable):
                await refused
            assert trio.current_time() - began < 0.1
        with pytest.raises(StoreUnavailable):
            await supervisor.start_session(model=saying("a"), session_id="s-3")
        with trio.fail_after(1):
            with pytest.raises(StoreUnavailable, match="was stopped"):
                await other.stop("enough")
            await other.monitor().wait()
        store.mend()
        with trio.fail_after(60):
            receipt = None
            while receipt is None:
                try:
                    receipt = await session.prompt("Hi", client_id="c-1")
                except StoreUnavailable:
                    await trio.sleep(0.02)
        await session.collect_reply()
        assert [type(one).__name__ for one in await session.messages()] == ["UserMessage", "AssistantMessage"]
        assert await session.prompt("Hi", client_id="c-1") == receipt
        await eventually(lambda: recorded(store, "s-2")[-1] == "closed")


async def test_a_store_that_crashes_ends_the_session_whose_records_it_cannot_bear(supervisor, store):
    """And no other; it is said why."""
    append = store.inner.append

    def choosy(batch):
        if any(one.session == "s-1" for one in batch):
            message = "a bug in the store"
            raise ZeroDivisionError(message)
        return append(batch)

    first = await supervisor.start_session(model=saying("a"), session_id="s-1")
    second = await supervisor.start_session(model=saying("b"), session_id="s-2")
    store.inner.append = choosy
    async with trio.open_nursery() as nursery:

        async def ask_first() -> None:
            with pytest.raises(SessionDown, match=r"journal cannot be written.*a bug in the store"):
                await first.ask("Hi")

        nursery.start_soon(ask_first)
        assert await second.ask("Hi") == "b"
    store.inner.append = append


async def test_streams_are_not_read_while_the_store_is_away(store):
    """A server that talks on is not listened to, and its silence is not held against it."""
    async with no_orphans(), open_over(store, store_patience=0.1) as supervisor:
        model = ScriptedModel([says(*"x" * 100, pause_seconds=0.005)])
        session = await supervisor.start_session(model=model, session_id="s-1")
        async with session.subscribe() as events:
            await session.prompt("Hi")
            await until(events, MessageDelta)
            store.go_away()
            with pytest.raises(StoreUnavailable):
                await session.compact()
            writer = session._cell.journal.writer  # noqa: SLF001 - when it is known
            await eventually(lambda: not writer.is_available)
            await trio.sleep(0.05)
            said = len(session._cell.state.data.stream.text)  # noqa: SLF001 - what was heard
            await trio.sleep(0.1)
            assert len(session._cell.state.data.stream.text) == said  # noqa: SLF001 - as above
            store.mend()
            await until(events, AgentEnd)
        assert (await session.messages())[-1].text == "x" * 100


async def test_fenced_is_told_by_a_store_without_a_writer_too():
    """In the step itself."""
    store = MemoryStore()
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.status()
        store.take("", "s-1", "n-other", "start", force=True)
        async with session.subscribe(after=0) as events:
            with trio.fail_after(3), pytest.raises(SessionDown, match="taken over by another owner"):
                await session.ask("Hi")
            assert kinds(await rest(events)) == ["SessionStart"]
    assert Fenced("s-1", durable_up_to=2).durable_up_to == 2


async def test_one_that_is_parked_says_so_when_that_is_durable(supervisor, store):
    """Its last words are events like others."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1", restart="temporary")
    async with session.subscribe(after=0) as events:
        store.hang()
        crash(session, "a cosmic ray")
        await trio.sleep(0.05)
        store.mend()
        seen = await rest(events)
    assert kinds(seen)[-2:] == ["SessionParked", "SessionEnd"]
    assert recorded(store)[-2:] == ["parked", "closed"]
