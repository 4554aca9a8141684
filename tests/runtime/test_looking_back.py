"""The past of a session: its journal, what it was behind each record, forks, and going back."""

import threading
from contextlib import closing, nullcontext
from functools import partial

import attrs
import pytest
import trio

import agentrail
from agentrail.abc import Ok
from agentrail.abc.store import Filters
from agentrail.core.policy.budget import Budget
from agentrail.errors import OptionError, StillNeeded, StoreUnavailable, Trimmed, Unrevivable
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    ApprovalRequired,
    EventsLost,
    SessionStart,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.messages import Text, ToolMessage
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.rewind_request import RewindRequest
from agentrail.stores.memory import MemoryStore
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_schema import migrate
from agentrail.testing.cancelling import check_history
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.plugins import PuppetPlugin
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import calling, eventually, on_bounded_time, open_over, saying, take, until, wants

pytestmark = on_bounded_time

ASKS = (HumanApproval, {"require_approval_for": ["record"]})


@pytest.fixture(params=["immediate", "threaded", "postgres"])
async def store(request):
    """A store that is written at once, one that takes its time in a thread, and a database of several nodes."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        migrate(url)
        with closing(PostgresStore(url)) as kept:
            yield kept
        return
    kept = MemoryStore() if request.param == "immediate" else FaultyStore(MemoryStore())
    yield kept
    if isinstance(kept, FaultyStore):
        kept.mend()


def nothing_left(store):
    """A block that leaves nothing. Connections of a database are opened as they are needed, and outlive a supervisor."""
    return nullcontext() if isinstance(store, PostgresStore) else no_orphans()


@pytest.fixture
async def supervisor(store):
    """A supervisor that keeps its sessions there; nothing of them is left."""
    async with nothing_left(store), open_over(store) as opened:
        yield opened


async def texts(session):
    messages = await session.messages()
    check_history(messages)
    return [
        part
        for one in messages
        for part in (
            [result.text for result in one.results]
            if isinstance(one, ToolMessage)
            else ["".join(block.text for block in one.content if isinstance(block, Text))]
        )
    ]


# --- the journal, and what was


@pytest.mark.at(57)
@pytest.mark.at(145)
async def test_the_state_at_each_number_is_what_the_session_was(supervisor):
    """Pending approvals are in it, also when they are decided by now; nothing but the journal is asked."""
    record = RecordingTool()
    model = calling("record")
    session = await supervisor.start_session(model=model, tools=[record], plugins=[ASKS], session_id="s-1")
    async with session.subscribe() as events:
        await session.prompt("Hi")
        asked = (await until(events, ApprovalRequired))[-1]
        before = await session.status()
        number = (await session.journal())[-1].number
        await session.approve(asked.approval.id)
        await until(events, AgentEnd)
    past = await session.state_at(number)
    assert past.status.approvals == before.approvals != ()
    assert past.snapshot.last_seq == before.last_seq
    assert past.number == number
    assert len(past.messages) == before.messages
    assert (await session.status()).approvals == ()
    first = await session.state_at(1)
    assert (first.messages, first.status.last_seq) == ((), 0)
    last = await session.state_at((await session.journal())[-1].number)
    assert last.messages == await session.messages()
    assert len(record.calls) == 1


async def test_numbers_that_are_none_are_refused_with_the_range(supervisor):
    """Beyond the end, below 1."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
    with pytest.raises(OptionError, match="turn is 1: session 's-1' has no finished turn"):
        await session.fork(turn=1)
    await session.ask("Hi")
    last = (await session.journal())[-1].number
    for number in (0, last + 1, -1, 2**70):
        for call in (session.state_at, session.fork, session.rewind):
            with pytest.raises(OptionError, match=f"expected 1 to {last}"):
                await call(number)
    with pytest.raises(OptionError, match="turn is 2: expected 1 to 1"):
        await session.fork(turn=2)
    assert [one.kind for one in await session.journal()][-1] == "response_completed"
    assert len(supervisor.sessions()) == 1


# --- forks


@pytest.mark.journal(21)
async def test_a_fork_goes_on_by_itself(supervisor):
    """Both go on from the same conversation; neither sees what the other says, and the store knows where the fork came from."""
    session = await supervisor.start_session(model=saying("a", "b", "c"), session_id="s-1")
    await session.ask("One")
    number = (await session.journal())[-1].number
    await session.ask("Two")
    fork = await session.fork(number, session_id="s-2")
    assert await texts(fork) == ["One", "a"]
    async with fork.subscribe(after=(await session.state_at(number)).snapshot.last_seq) as events:
        assert await fork.ask("Other") == "c"
        assert isinstance((await until(events, AgentEnd))[0], SessionStart)
    assert await texts(session) == ["One", "a", "Two", "b"]
    assert await texts(fork) == ["One", "a", "Other", "c"]
    stored = {one.session: one for one in await supervisor.find()}
    assert stored["s-2"].forked_from == ("s-1", number)
    assert stored["s-2"].root == "s-2"
    opened = (await fork.journal())[0].body
    assert list(opened["forked_from"]) == ["s-1", number]


async def test_a_fork_behind_a_turn(supervisor):
    """Turns are counted over all cycles."""
    model = ScriptedModel([wants("record"), says("a"), says("b"), says("c")])
    session = await supervisor.start_session(model=model, tools=[RecordingTool()], session_id="s-1")
    await session.ask("One")
    await session.ask("Two")
    assert len(await texts(await session.fork(turn=1))) == 3
    assert (await texts(await session.fork(turn=2)))[-1] == "a"
    assert (await texts(await session.fork(turn=3)))[-1] == "b"


async def test_an_ended_session_lists_the_turns_that_it_can_be_forked_at(supervisor):
    """Its journal is still there."""
    session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
    await session.ask("One")
    await session.stop()
    (turn,) = await session.turns()
    fork = await session.fork(turn=turn.number)
    assert await texts(fork) == ["One", "a"]


async def test_a_fork_can_be_set_up_otherwise(supervisor):
    """Model, tools, plugins and limits; what is not named stays, and what was spent is spent."""
    session = await supervisor.start_session(
        model=saying("a", "no"), session_id="s-1", max_turns=7, system_prompt="Be brief."
    )
    await session.ask("One")
    fork = await session.fork(
        model=calling("record", then="other"),
        tools=[RecordingTool()],
        plugins=[PuppetPlugin((), name="guard")],
        budget=Budget(max_total_tokens=100_000),
        max_output_tokens=20,
        max_turns=3,
    )
    assert await fork.ask("Two") == "other"
    status = await fork.status()
    assert [one.name for one in status.plugins] == ["guard"]
    assert status.budget_left.tokens < 100_000
    journal = await fork.journal()
    config = journal[0].body["state"]["session_state"]["data"]["config"]
    assert (config["max_turns"], config["system_prompt"]) == (3, "Be brief.")
    with pytest.raises(OptionError, match="messages: a fork inherits this from its parent"):
        await session.fork(messages=())
    with pytest.raises(OptionError, match="max_turns"):
        await session.fork(max_turns=0)


async def test_a_fork_needs_the_code_of_what_it_has(supervisor):
    """A tool that it had then and that is gone is named; given anew, it is there."""
    session = await supervisor.start_session(
        model=saying("a", "b"), tools=[RecordingTool()], session_id="s-1"
    )
    await session.ask("One")
    number = (await session.journal())[-1].number
    fork = await session.fork(number, tools=[])
    cell = session._cell  # noqa: SLF001 - no call takes the tools of a session away from it
    cell.ports.tools.clear()
    cell.options = attrs.evolve(cell.options, tools=())
    with pytest.raises(Unrevivable, match="tool 'record'"):
        await session.fork(number)
    assert await fork.ask("Two") == "b"


async def test_a_session_that_works_for_another_has_no_branches(supervisor):
    """Its root is named."""
    model = ScriptedModel(
        [calls(("task", {"description": "Look."})), wants("hang"), says("done"), says("done")]
    )
    session = await supervisor.start_session(model=model, tools=[TaskTool(), HangingTool()], session_id="s-1")
    async with session.subscribe() as events:
        await session.prompt("Go")
        await until(events, ToolExecutionStart)
    with trio.fail_after(60):
        while len(supervisor.sessions()) < 2:  # noqa: ASYNC110 - it begins when its parent wants it
            await trio.sleep(0.01)
    child = supervisor.sessions()[1]
    for branch in (child.fork, lambda: child.rewind(1)):
        with pytest.raises(OptionError, match="its root, 's-1'"):
            await branch()
    await session.abort(kill_tools="all")


# --- going back


@pytest.mark.journal(22)
@pytest.mark.at(145)
async def test_rewinds_forth_and_back(store):
    """Each is the state of its number; numbers of events only rise, readers begin anew, and nothing is deleted."""
    async with nothing_left(store), open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b", "c", "d"), session_id="s-1")
        numbers = []
        for text in ("One", "Two", "Three"):
            await session.ask(text)
            numbers.append((await session.journal())[-1].number)
        last = (await session.status()).last_seq
        for number in (numbers[0], numbers[2], numbers[1], 1, numbers[0]):
            async with session.subscribe() as events:
                rewound = await session.rewind(number)
                lost = (await until(events, EventsLost))[-1]
                assert events.snapshot.status.messages == len(await session.messages())
            assert (rewound.number, rewound.calls) == (number, ())
            past = await session.state_at(number)
            async with session.subscribe(
                after=1
            ) as events:  # what was published before does not count any more
                assert isinstance(await anext(events), EventsLost)
            assert await session.messages() == past.messages
            assert lost.from_seq == past.snapshot.last_seq + 1
            assert lost.to_seq > last
            last = lost.to_seq
        assert await session.ask("Four") == "d"
        assert await texts(session) == ["One", "a", "Four", "d"]
        assert [one.kind for one in await session.journal()].count("rewound") == 5
        now = await session.messages()
    async with nothing_left(store), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("e"))
        assert await session.messages() == now
        assert (await session.status()).last_seq > last


async def test_a_rewind_stops_what_runs_and_names_what_happened_outside(supervisor):
    """The tool is gone, a prompt that waited too; the calls behind the number are told."""
    model = ScriptedModel([says("a"), wants("record", "hang"), says("b")])
    record, hanging = RecordingTool(), HangingTool()
    session = await supervisor.start_session(model=model, tools=[record, hanging], session_id="s-1")
    await session.ask("One")
    number = (await session.journal())[-1].number
    async with session.subscribe() as events:
        await session.prompt("Go")
        seen = await until(events, ToolExecutionEnd)  # of the other tool: they run side by side
        if not any(isinstance(one, ToolExecutionStart) and one.name == "hang" for one in seen):
            await until(events, ToolExecutionStart)
    await session.prompt("And then?")
    dry = await session.rewind(number, dry=True)
    assert {(one.name, one.outcome) for one in dry.calls} == {("record", "done"), ("hang", "running")}
    assert (await session.status()).running_tools[0].name == "hang"
    assert len((await session.status()).queued) == 1
    rewound = await session.rewind(number)
    assert {(one.name, one.outcome) for one in rewound.calls} == {("record", "done"), ("hang", "unknown")}
    assert rewound.calls[0].summary == "{}"
    assert await texts(session) == ["One", "a"]
    status = await session.status()
    assert (status.phase, status.queued, status.running_tools) == ("idle", (), ())
    assert await session.ask("Two") == "b"


SECOND = RecordingTool(answer=lambda _: Ok(text="the second"))


async def test_a_rewind_brings_back_the_tools_of_then(supervisor):
    """By their names: one that took another's place since works in its stead; one that is gone is named, and nothing was stopped."""
    first, second = RecordingTool(), SECOND
    model = ScriptedModel([says("a"), says("b"), wants("record"), says("c"), wants("hang")])
    session = await supervisor.start_session(model=model, tools=[HangingTool()], session_id="s-1")
    await session.attach_tools(first)
    await session.ask("One")
    number = (await session.journal())[-1].number
    await session.detach_tools("record")
    await session.ask("Two")
    with pytest.raises(Unrevivable, match="tool 'record'"):
        await session.rewind(number)
    assert [one.kind for one in await session.journal()][-1] == "response_completed"
    await session.attach_tools(second)
    await session.rewind(number)
    assert await session.ask("Three") == "c"
    assert "the second" in await texts(session)
    assert not first.calls


async def test_a_rewind_to_a_model_object_that_was_released():
    """The first object of its name works in its stead, as in a fork from there."""
    first, *later = saying("a", "d", "e"), saying("b"), saying("c")
    async with no_orphans(), open_over(MemoryStore()) as supervisor:
        session = await supervisor.start_session(model=first, session_id="s-1")
        await session.ask("One")
        for model in later:
            await session.switch_model(model)
            await session.ask("Next")
        fork = await session.fork(turn=2)
        await session.rewind(turn=2)
        assert [await one.ask("Four") for one in (fork, session)] == ["d", "e"]


@pytest.mark.parametrize("given", [True, False], ids=["in the options", "attached"])
async def test_a_tool_that_is_detached_during_a_rewind(given):
    """Its options still have it, so it is there again. One that was only attached is named, and the session stays as it is."""
    record, end = RecordingTool(), trio.Event()

    @agentrail.tool
    async def slow() -> str:
        """End later than it is stopped."""
        with trio.CancelScope(shield=True):
            await end.wait()
        return "late"

    model = ScriptedModel([says("a"), wants("slow"), wants("record"), says("c")])
    async with no_orphans(), open_over(MemoryStore()) as supervisor:
        tools = [slow, record] if given else [slow]
        session = await supervisor.start_session(model=model, tools=tools, session_id="s-1")
        await session.attach_tools(record)
        await session.ask("One")
        number = (await session.journal())[-1].number
        if given:
            await session.detach_tools("record")
        async with session.subscribe() as events, trio.open_nursery() as nursery:
            await session.prompt("Two")
            await until(events, ToolExecutionStart)

            async def go_back():
                with nullcontext() if given else pytest.raises(Unrevivable, match="tool 'record'"):
                    await session.rewind(number)

            nursery.start_soon(go_back)
            await until(events, AgentAbort)
            await (session.attach_tools(SECOND) if given else session.detach_tools("record"))
            end.set()
        assert await session.ask("Three") == "c"
        assert len(record.calls) == given
        assert supervisor.statistics().restarts == 0


async def test_several_rewinds_at_a_time_all_return():
    """Each is told of its own record, also if the store has written none of them yet."""
    async with no_orphans(), open_over(FaultyStore(MemoryStore())) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        await session.ask("One")
        number = (await session.journal())[-1].number
        await session.ask("Two")
        async with session.subscribe(kinds=[EventsLost]) as events:
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(session.rewind, number)
            assert len(await take(events, 8)) == 8
        assert await texts(session) == ["One", "a"]


async def test_a_session_that_works_does_not_go_back_under_it(supervisor):
    """It is asked by its caller when all is stopped; what came in between is not taken away from anything that runs."""
    session = await supervisor.start_session(
        model=calling("hang", then="b"), tools=[HangingTool()], session_id="s-1"
    )
    async with session.subscribe() as events:
        await session.prompt("Go")
        await until(events, ToolExecutionStart)
    cell = session._cell  # noqa: SLF001 - a prompt between the stop and the rewind cannot be timed from outside
    before = await session.journal()
    request = RewindRequest(number=1, then=cell.state, at_ms=1)
    assert await cell.rewind(request) is False
    assert await session.journal() == before
    await session.abort(kill_tools="all")


async def test_a_rewind_is_told_when_it_is_durable():
    """With a store that hangs the caller hears of that after its patience; it is written when the store is back."""
    store = FaultyStore(MemoryStore())
    async with no_orphans(), open_over(store, store_patience=0.2) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        await session.ask("One")
        number = (await session.journal())[-1].number
        await session.ask("Two")
        store.hang()
        with pytest.raises(StoreUnavailable):
            await session.rewind(number)
        store.mend()
        writer = supervisor._shared.keeping.writer  # noqa: SLF001 - it says when the store is back
        with trio.fail_after(60):
            await writer.wait_available()
        await session.rewind(number)
        assert await texts(session) == ["One", "a"]


class _Hangs(MemoryStore):
    """Lists sessions late, in whatever thread asks."""

    is_immediate = False  # type: ignore[misc]  # this one takes its time

    def __init__(self):
        super().__init__()
        self.go_on, self.begun = threading.Event(), threading.Event()

    def find(self, filters, **options):
        self.begun.set()
        self.go_on.wait(10)
        return super().find(filters, **options)


async def test_reads_of_a_store_that_hangs_leave_the_threads_to_others():
    """Files of tools and certificates are read in the shared ones."""
    store = _Hangs()
    async with open_over(store) as supervisor, trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(supervisor.journals.find, Filters())
        await eventually(store.begun.is_set)
        assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
        store.go_on.set()


# --- trim and delete


async def test_what_was_trimmed_is_said_by_its_first_number():
    """What stands before a snapshot goes; what stands behind it is as it was."""
    store = MemoryStore()
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying(*"abcde"), session_id="s-1")
        await session.ask("One")
        await session.ask("Two")
        with pytest.raises(OptionError, match="snapshot"):
            await supervisor.trim_session("s-1", before=5)
        with pytest.raises(OptionError, match="whole number >= 1"):
            await supervisor.trim_session("s-1", before=0)
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying(*"cde"))
        (snapshot,) = store.snapshots("", "s-1")
        messages = await session.messages()
        await session.ask("Three")
        assert await supervisor.trim_session("s-1", before=snapshot.seq) == snapshot.seq - 1
        for call in (
            lambda: session.state_at(snapshot.seq - 1),
            lambda: session.fork(2),
            lambda: session.rewind(2),
            lambda: session.fork(turn=1),
            session.journal,
        ):
            with pytest.raises(Trimmed) as raised:
                await call()
            assert raised.value.first == snapshot.seq
        assert (await session.state_at(snapshot.seq)).messages == messages
        assert await texts(await session.fork(snapshot.seq)) == ["One", "a", "Two", "b"]
        await session.rewind(snapshot.seq)
        assert await session.messages() == messages
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("f"))
        assert await session.messages() == messages
        assert await session.ask("Four") == "f"


async def test_a_trimmed_journal_names_the_first_state_that_can_be_read():
    """That of its first remaining snapshot, and not its first remaining record: what a user is told to take works."""
    store = MemoryStore()
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying(*"ab"), session_id="s-1")
        await session.ask("One")
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying(*"bc"))
        await session.ask("Two")
    oldest = store.snapshots("", "s-1")[-1].seq
    for before in (oldest, oldest + 2):
        async with no_orphans(), open_over(store) as supervisor:
            session = await supervisor.resume_session("s-1", model=saying("c"))
            await supervisor.trim_session("s-1", before=before)
            first = min(one.seq for one in store.snapshots("", "s-1") if one.seq >= before)
            for call, number in (
                (session.state_at, first),
                (partial(supervisor.explain_record, "s-1"), first + 1),
            ):
                for wanted in (1, 2, before - 1, number - 1):
                    with pytest.raises(Trimmed) as raised:
                        await call(wanted)
                    assert raised.value.first == number
                await call(number)
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("c"))
        with pytest.raises(Trimmed) as raised:
            await session.fork(oldest)
        assert await texts(await session.fork(raised.value.first)) == ["One", "a", "Two", "b"]


async def test_what_a_session_went_back_to_is_not_trimmed_away():
    """Without it, what it knows could not be made again; when a newer snapshot stands behind that, it can go."""
    store = MemoryStore()
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying(*"ab"), session_id="s-1")
        await session.ask("One")
        early = (await session.journal())[-1].number
        await session.ask("Two")
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("c"))
        (snapshot,) = store.snapshots("", "s-1")
        await session.rewind(early)
        with pytest.raises(StillNeeded) as raised:
            await supervisor.trim_session("s-1", before=snapshot.seq)
        (by,) = raised.value.by
        assert by.endswith(f"went back to record {early}")
        assert await texts(session) == ["One", "a"]
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("c"))
        newest = max(one.seq for one in store.snapshots("", "s-1"))
        assert await supervisor.trim_session("s-1", before=newest) == newest - 1
        assert await session.ask("Three") == "c"
    async with no_orphans(), open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("d"))
        assert await texts(session) == ["One", "a", "Three", "c"]
