"""Idle sessions sleep: their actors leave memory, and the first message wakes them, once, with nothing lost (docs: how durability works)."""

import gc
import weakref
from contextlib import suppress

import pytest
import trio

from agentrail.errors import (
    AlreadyStarted,
    CursorAhead,
    CycleWaiting,
    InternalError,
    JournalCorrupt,
    SessionDown,
    SessionRested,
    StillNeeded,
    StoreUnavailable,
    Unrevivable,
)
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    ApprovalResolved,
    EventsLost,
    PromptReceived,
    SessionRecovered,
)
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime import session_resume
from agentrail.runtime.arguments import decide_blocks
from agentrail.runtime.session_actor import FallAsleep, SessionCell
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.memory import MemoryStore
from agentrail.stores.store_names import faults_of_keeping
from agentrail.testing.cancelling import check_events
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.orphans import no_orphans
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.garbage import without_collector
from tests.runtime.rig import NoSandbox, calling, kinds_in, on_virtual_time, rest, saying, until

AFTER = 10.0


def open_sleepy(store=None, after=AFTER, **options):
    """Open a supervisor whose sessions sleep; its store takes no time."""
    return open_nameless(
        lambda _name, _root: NoSandbox(),
        store=store or MemoryStore(lease_ms=0),
        hibernate_after=after,
        **options,
    )


@pytest.fixture
async def supervisor():
    """A supervisor whose sessions sleep; nothing of them is left."""
    async with no_orphans(), open_sleepy() as opened:
        yield opened


async def fall_asleep(supervisor, count=1):
    """Let time pass until all that there is sleeps."""
    await trio.sleep(AFTER * 1.5)
    assert supervisor.statistics().asleep == count


async def said(session):
    messages = await session.messages()
    return ["".join(getattr(block, "text", "") for block in message.content) for message in messages]


def cells():
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, SessionCell)]


# --- falling asleep


@on_virtual_time
async def test_an_idle_session_sleeps_and_its_next_prompt_wakes_it():
    """It knows what it knew, and goes on; its handle is the one of before. How its answers read is known of one that sleeps too."""
    store, tagged = MemoryStore(), "<status>busy</status>a"
    async with no_orphans(), open_sleepy(store) as supervisor:
        session = await supervisor.start_session(model=saying(tagged, "b"), session_id="s-1")
        assert await session.ask("Hi") == "a"
        messages, awake = await session.messages(), session.reads_answers()
        await fall_asleep(supervisor)
        # A host ends the requests of such a session when it closes, and reads what there is of their answers.
        asleep = supervisor.session("s-1").reads_answers()
        assert asleep(messages) == awake(messages) == "a"
        assert supervisor.sessions() == ()
        assert repr(session) == "<Session s-1 asleep>"
        assert [one.seq for one in store.snapshots("", "s-1")] == [len(kinds_in(store))]
        assert store.get("", "s-1").node == ""
        assert await session.ask("Again") == "b"
        assert await said(session) == ["Hi", tagged, "Again", "b"]
        assert kinds_in(store).count("prompt") == 2
        statistics = supervisor.statistics()
        assert (statistics.live, statistics.asleep, statistics.started, statistics.ended) == (1, 0, 1, 0)
        assert store.get("", "s-1").node != ""


@on_virtual_time
async def test_one_that_sleeps_is_freed_without_the_collector(supervisor):
    """A server of many sessions looks at old objects so rarely that each sleep would leave 7 KiB for an hour."""
    session = await supervisor.start_session(model=saying("a"))
    assert await session.ask("Hi") == "a"
    cell = weakref.ref(session._cell)  # noqa: SLF001 - what is to be freed
    del session
    with without_collector():
        await fall_asleep(supervisor)
        assert cell() is None


@on_virtual_time
async def test_one_that_ended_leaves_no_deadline(supervisor):
    """In a server in which many sessions end, each would be kept for the ten minutes after its last cycle."""
    for how in ("stopped", "asleep"):
        session = await supervisor.start_session(model=saying("a"), session_id=how)
        assert await session.ask("Hi") == "a"
        deadlines = supervisor._hibernation._alarm._due  # noqa: SLF001 - what is to be empty
        assert len(deadlines) == 1
        if how == "asleep":
            await fall_asleep(supervisor)
        else:
            await session.stop()
        assert len(deadlines) == 0


@on_virtual_time
async def test_it_sleeps_after_that_time_and_not_before(supervisor):
    """Each record begins the time anew; questions about it do not."""
    session = await supervisor.start_session(model=saying("a", "b"))
    await trio.sleep(AFTER * 0.9)
    await session.ask("Hi")
    await trio.sleep(AFTER * 0.9)
    assert supervisor.statistics().asleep == 0
    await session.status()
    await trio.sleep(AFTER * 0.11)
    assert supervisor.statistics().asleep == 1


def test_a_time_that_cannot_be_is_refused():
    """So is one without a store."""
    for after in (0, -1, float("nan"), float("inf"), True, "10"):
        (fault,) = faults_of_keeping("memory:", 5.0, "none", "go_on", after)
        assert "hibernate_after" in fault, after
    (fault,) = faults_of_keeping(None, 5.0, "none", "go_on", 10.0)
    assert "sqlite:" in fault


@on_virtual_time
async def test_a_session_at_work_does_not_sleep(supervisor):
    """However long its tool takes; it sleeps when it has been idle behind that."""
    session = await supervisor.start_session(model=calling("hang", then="a"), tools=[HangingTool()])
    await session.prompt("Hi")
    await trio.sleep(AFTER * 20)
    assert supervisor.statistics().asleep == 0
    await session.abort()
    await fall_asleep(supervisor)


@on_virtual_time
async def test_who_waits_for_an_answer_keeps_it_awake(supervisor):
    """A caller waits in memory, so there is nothing to be gained."""
    session = await supervisor.start_session(
        model=calling("record", then="a"),
        tools=[RecordingTool()],
        plugins=[(HumanApproval, {"require_approval_for": ["record"]})],
    )
    async with session.subscribe() as events, trio.open_nursery() as nursery:
        nursery.start_soon(session.ask, "Hi")
        asked = (await until(events, ApprovalRequired))[-1]
        await trio.sleep(AFTER * 5)
        assert supervisor.statistics().asleep == 0
        await session.approve(asked.approval.id)


@on_virtual_time
async def test_no_cell_of_a_session_that_sleeps_is_reachable(supervisor):
    """What is left is a row: no cell, no state, no event."""
    before = len(cells())
    for number in range(3):
        session = await supervisor.start_session(model=saying("a"), session_id=f"s-{number}")
        await session.ask("Hi")
    del session
    await fall_asleep(supervisor, 3)
    assert len(cells()) == before
    session = supervisor.session("s-1")
    assert await said(session) == ["Hi", "a"]
    assert len(cells()) == before + 1


# --- waking


@pytest.mark.at(49)
@on_virtual_time
async def test_two_callers_wake_it_once_and_what_they_want_is_done_once():
    """Two prompts are acknowledged and in the journal; and two that ask for what it knows both get it."""
    store = MemoryStore()
    async with open_sleepy(store) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        await fall_asleep(supervisor)
        receipts = []

        async def prompt(words):
            receipts.append(await session.prompt(words, client_id=words))

        async with session.subscribe() as events, trio.open_nursery() as nursery:
            for words in ("one", "two"):
                nursery.start_soon(prompt, words)
            await until(events, AgentEnd)
            await until(events, AgentEnd)
        assert len(receipts) == 2
        assert kinds_in(store).count("taken") == 1
        assert kinds_in(store).count("prompt") == 2
        await fall_asleep(supervisor)
        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.attach_tools, RecordingTool(name="one"))
                nursery.start_soon(session.attach_tools, RecordingTool(name="two"))
        assert kinds_in(store).count("taken") == 2


@on_virtual_time
async def test_a_reply_is_collected_from_one_that_sleeps(supervisor):
    """That of its last cycle, or word that a user must answer first, as of one that is awake."""
    session = await supervisor.start_session(
        model=calling("record", then="a"),
        tools=[RecordingTool()],
        plugins=[(HumanApproval, {"require_approval_for": ["record"]})],
    )
    await session.prompt("Hi")
    await fall_asleep(supervisor)
    with pytest.raises(CycleWaiting) as waiting:
        await session.collect_reply()
    await session.approve(waiting.value.pending[0].id)
    assert await session.collect_reply() == "a"
    await fall_asleep(supervisor)
    assert await session.collect_reply() == "a"


@on_virtual_time
async def test_a_prompt_that_comes_while_it_leaves_is_read_when_it_woke():
    """Its actor has decided to leave, and reads nothing any more; it takes a second until it is gone."""
    store = MemoryStore()
    dismiss = SessionSupervisor._dismiss  # noqa: SLF001

    async def dismiss_slowly(self, *given):
        await dismiss(self, *given)
        if not self.is_closing:
            await trio.sleep(1)

    async with no_orphans(), open_sleepy(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SessionSupervisor, "_dismiss", dismiss_slowly)
            await trio.sleep(AFTER + 0.5)
            assert session._cell.is_leaving  # noqa: SLF001
            with trio.fail_after(60):
                assert await session.ask("Hi") == "a"
        assert kinds_in(store).count("prompt") == 1
        assert kinds_in(store).count("taken") == 1


@on_virtual_time
async def test_what_lies_in_its_mailbox_keeps_it_awake(supervisor):
    """Also where its sender has gone: else it would lie there until another one came."""
    session = await supervisor.start_session(model=saying("a"))
    cell = session._cell  # noqa: SLF001
    await trio.sleep(AFTER / 2)
    cell.mailbox.put_control(FallAsleep())  # overtakes what is sent in the same moment
    session._cell.send(session._prompt(decide_blocks("Hi")))  # noqa: SLF001
    await trio.sleep(1)
    assert not cell.is_leaving
    assert not cell.is_asleep
    assert len(cell.state.data.history.messages) == 2


@on_virtual_time
async def test_a_subscriber_reads_on_through_sleep_without_gap_and_double():
    """Whether it came before, or goes on after a number while it sleeps; numbers rise by one, and one beyond the last is refused."""
    async with open_sleepy() as supervisor:
        session = await supervisor.start_session(model=saying("a", "b", "c"))
        async with session.subscribe(after=0) as events, supervisor.subscribe_all(after={}) as every:
            await session.ask("Hi")
            await fall_asleep(supervisor)
            last = supervisor.session(session.session_id)._cell.bus.last_seq  # noqa: SLF001
            await session.ask("Again")
            await fall_asleep(supervisor)
            name, end = session.session_id, session._cell.bus.last_seq  # noqa: SLF001
            with pytest.raises(CursorAhead, match="at most") as refused:
                async with supervisor.subscribe_all(after={name: end + 1}):
                    pass
            assert refused.value.positions == {name: end}
            more = await slowly(session.subscribe(after=last).__aenter__)
            assert supervisor.statistics().asleep == 0  # who wants what was wakes it
            await session.ask("And again")
            await session.stop()
            whole = await rest(events)
            tail = await rest(more)
        check_events(whole)
        committed = [event for event in whole if not event.meta.ephemeral]
        assert [event.meta.seq for event in committed] == list(range(1, len(committed) + 1))
        assert EventsLost not in map(type, tail)
        assert [event for event in tail if not event.meta.ephemeral] == committed[last:]
        assert sum(isinstance(event, SessionRecovered) for event in committed) == 2
    assert [event for event in await rest(every) if not event.meta.ephemeral] == committed


@on_virtual_time
async def test_an_approval_whose_time_is_over_wakes_it(supervisor):
    """At that time, and not when a person comes."""
    session = await supervisor.start_session(
        model=calling("record", then="a"),
        tools=[RecordingTool()],
        plugins=[(HumanApproval, {"require_approval_for": ["record"], "timeout_seconds": AFTER * 10})],
    )
    async with session.subscribe() as events:
        await session.prompt("Hi")
        await until(events, ApprovalRequired)
        asked_at = trio.current_time()
        await fall_asleep(supervisor)
        del session
        with trio.fail_after(AFTER * 20):
            async for event in events:
                if isinstance(event, ApprovalResolved):
                    break
        assert trio.current_time() == pytest.approx(asked_at + AFTER * 10, abs=0.01)
        assert "time" in repr(event)


@on_virtual_time
async def test_what_came_since_it_began_is_there_when_it_wakes(supervisor):
    """Tools and models that were given to it later; no journal holds them."""
    more = RecordingTool(name="more")
    session = await supervisor.start_session(model=saying("a"), tools=[RecordingTool()])
    await session.attach_tools(more)
    await session.switch_model(calling("more", then="b"))
    await fall_asleep(supervisor)
    assert await session.ask("Hi") == "b"
    assert len(more.calls) == 1
    third = RecordingTool(name="third")
    assert (await session.attach_tools(third)).attached == ("third",)
    assert (await session.detach_tools("more")).detached == ("more",)
    await session.switch_model(calling("third", then="c"))
    assert await session.ask("Hi") == "c"
    assert len(third.calls) == 1


@on_virtual_time
async def test_its_files_are_there_when_it_wakes_and_are_closed_at_the_end():
    """Sleep closes no sandbox: one in memory would lose what it holds."""
    boxes = [NoSandbox()]
    async with open_nameless(
        lambda _name, _root: boxes[0], store=MemoryStore(), hibernate_after=AFTER
    ) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        session._cell.ports.workspace.open()  # noqa: SLF001
        await fall_asleep(supervisor)
        await session.status()
        await fall_asleep(supervisor)
        assert boxes[0].closed == 0
    assert boxes[0].closed == 1


@on_virtual_time
async def test_what_was_is_read_without_waking_it_and_its_id_is_not_free(supervisor):
    """Journal, state of before, and a fork; its id is neither for a new session nor to be deleted; to resume it is to wake it."""
    session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
    await session.ask("Hi")
    await fall_asleep(supervisor)
    records = await slowly(session.journal)
    past = await slowly(session.state_at, len(records))
    assert len(past.messages) == 2
    fork = await slowly(session.fork)
    assert supervisor.statistics().asleep == 1
    assert await said(fork) == ["Hi", "a"]
    with pytest.raises(AlreadyStarted) as known:
        await supervisor.start_session(model=saying("a"), session_id="s-1")
    assert known.value.handle.session_id == "s-1"
    with pytest.raises(StillNeeded, match="in which it is running"):
        await supervisor.delete_session("s-1")
    again = await supervisor.resume_session("s-1", model=saying("b"))
    assert again._cell is session._cell  # noqa: SLF001
    assert await session.ask("Again") == "b"
    assert supervisor.statistics().asleep == 0


async def slowly(function, *given):
    """Call something that works in a thread, which virtual time does not see."""
    done, results = trio.Event(), []

    async def call():
        results.append(await function(*given))
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        while not done.is_set():  # noqa: ASYNC110 - so that the clock stands still
            await trio.lowlevel.checkpoint()
    return results[0]


# --- waking that fails, and closing


@on_virtual_time
async def test_a_waking_that_fails_is_told_and_the_session_stays():
    """A store that is away, a damaged record, a plugin that raises: each caller gets the error, the next call tries again, the others live on."""
    store = MemoryStore()
    async with open_sleepy(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        other = await supervisor.start_session(model=saying("b"), session_id="s-2")
        await fall_asleep(supervisor, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "take", raising(StoreUnavailable("the plug was pulled")))
            for call in (session.prompt, session.attach_tools):
                with pytest.raises(StoreUnavailable, match="pulled"):
                    await call(*(["Hi"] if call == session.prompt else [RecordingTool()]))
            with pytest.raises(StoreUnavailable, match="pulled"):
                async with session.subscribe(after=0):
                    pass
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "snapshots", lambda *_given: ())
            patch.setattr(session_resume, "revive", raising(JournalCorrupt("s-1", 2)))
            with pytest.raises(JournalCorrupt):
                await session.prompt("Hi")
            patch.setattr(session_resume, "revive", raising(KeyError("a bug")))
            with pytest.raises(InternalError, match="could not be woken"):
                await session.prompt("Hi")
        assert supervisor.statistics().asleep == 2
        assert await other.ask("Hi") == "b"
        assert await session.ask("Again") == "a"
        assert await said(session) == ["Again", "a"]


@on_virtual_time
async def test_the_error_of_a_failed_waking_is_freed_without_the_collector(monkeypatch):
    """Each reader that comes back to a session without its code would leave one in memory."""
    known = []

    class Missing(Unrevivable):
        def __init__(self):
            super().__init__("s-1", missing=["tool 'look'"])
            known.append(weakref.ref(self))

    def revive(*_given, **_options):
        raise Missing

    async with open_sleepy(MemoryStore()) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.ask("Hi")
        await fall_asleep(supervisor)
        monkeypatch.setattr(session_resume, "revive", revive)
        with without_collector():
            with suppress(Unrevivable):
                async with session.subscribe():
                    pass
            await trio.lowlevel.checkpoint()
            assert [one() for one in known] == [None]


def raising(error):
    def function(*_given, **_options):
        raise error

    return function


@on_virtual_time
async def test_one_that_ended_elsewhere_is_forgotten():
    """Another process took it, and ended it: who holds it hears that."""
    store = MemoryStore(lease_ms=0)
    async with open_sleepy(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        monitor = session.monitor()
        await fall_asleep(supervisor)
        async with open_sleepy(store, after=None) as other:
            taken = await other.resume_session("s-1", model=saying("b"))
            await taken.stop()
        with pytest.raises(SessionDown, match="ended"):
            await session.prompt("Hi")
        await monitor.wait()
        assert supervisor.statistics().asleep == 0
        with pytest.raises(SessionDown):
            supervisor.session("s-1")


@on_virtual_time
@pytest.mark.parametrize("goes_back", [False, True])
async def test_readers_of_one_that_went_on_elsewhere(goes_back):
    """They get what it published there, without a gap. If it was rewound there, they start over, with a snapshot."""
    store = MemoryStore(lease_ms=0)
    async with open_sleepy(store) as supervisor:
        session = await supervisor.start_session(model=saying("a", "c"), session_id="s-1")
        async with session.subscribe() as events:
            await session.ask("Hi")
            await fall_asleep(supervisor)
            slept_at = session._cell.bus.last_seq  # noqa: SLF001
            async with open_sleepy(store, after=None) as other:
                taken = await other.resume_session("s-1", model=saying("b"))
                number = (await taken.journal())[-1].number
                async with taken.subscribe(after=slept_at, deltas=False) as there:
                    await taken.ask("There")
                    published = await until(there, AgentEnd)
                if goes_back:
                    await taken.rewind(number)
                await other.rest("s-1")
            await session.ask("Here")
            if goes_back:
                lost = (await until(events, EventsLost))[-1]
                assert (lost.from_seq, events.snapshot.status.messages) == (slept_at + 1, 2)
            else:
                await until(events, AgentEnd)  # that of "Hi"
                assert await until(events, AgentEnd) == published
            await until(events, AgentEnd)
        assert await said(session) == ["Hi", "a", *(() if goes_back else ("There", "b")), "Here", "c"]


@on_virtual_time
async def test_a_supervisor_that_closes_ends_what_is_held_of_sleepers():
    """Subscriptions end as at rest, monitors are told, calls are refused; the session is in the store."""
    store = MemoryStore(lease_ms=0)
    async with no_orphans(), open_sleepy(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        monitor = session.monitor()
        subscription = session.subscribe()
        await subscription.__aenter__()
        await fall_asleep(supervisor)
    assert await rest(subscription)
    assert subscription.is_rested
    assert (await monitor.wait()).session_id == "s-1"
    with pytest.raises(SessionRested):
        await session.prompt("Hi")
    with pytest.raises(SessionRested):
        async with session.subscribe(after=0):
            pass
    with pytest.raises(SessionDown):
        supervisor.session("s-1")
    async with open_sleepy(store) as supervisor:
        again = await supervisor.resume_session("s-1", model=saying("b"))
        assert await again.ask("Hi") == "b"


@on_virtual_time
@pytest.mark.parametrize("steps", range(12))
async def test_a_supervisor_closes_in_the_middle_of_a_waking(steps):
    """At each step of it: the caller is told, nothing hangs, and the prompt is in the journal if it was acknowledged."""
    store = MemoryStore(lease_ms=0)
    outcomes = []

    async def prompt(session):
        try:
            await session.prompt("Hi")
        except SessionDown as error:
            outcomes.append(error)
        else:
            outcomes.append("acknowledged")

    async with no_orphans(), trio.open_nursery() as nursery, open_sleepy(store) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await fall_asleep(supervisor)
        nursery.start_soon(prompt, session)
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
    assert len(outcomes) == 1
    if outcomes == ["acknowledged"]:
        assert kinds_in(store).count("prompt") == 1
    async with open_sleepy(store) as supervisor:
        again = await supervisor.resume_session("s-1", model=saying("b"))
        assert (await again.status()).session_id == "s-1"


# --- with a store that takes its time


async def test_threads_that_take_their_time_lose_nothing_either():
    """The same, with a writer thread: twenty prompts at moments of their own, while it sleeps and wakes all the time."""
    store = FaultyStore(MemoryStore(lease_ms=0))
    store.delay_seconds = 0.001
    async with no_orphans(), open_sleepy(store, after=0.004) as supervisor:
        session = await supervisor.start_session(model=saying(*["a"] * 20), session_id="s-1")
        async with session.subscribe(after=0) as events:
            with trio.fail_after(60):
                for number in range(20):
                    await trio.sleep(0.001 * (number % 10))
                    assert await session.ask(f"{number}") == "a"
            await session.stop()
            whole = [event for event in await rest(events) if not event.meta.ephemeral]
    assert [event.meta.seq for event in whole] == list(range(1, len(whole) + 1))
    assert sum(isinstance(event, PromptReceived) for event in whole) == 20
    kinds = kinds_in(store.inner)
    assert kinds.count("prompt") == 20
    assert kinds.count("taken") >= 1


async def test_a_supervisor_closes_while_one_hangs_in_its_waking():
    """The store answers no more: closing takes what its patience allows, and the caller is told at once."""
    store = FaultyStore(MemoryStore(lease_ms=0))
    refused = []

    async def prompt(session):
        with pytest.raises(SessionRested):
            await session.prompt("Hi")
        refused.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        with trio.fail_after(60):
            async with open_sleepy(store, after=0.01, store_patience=0.2) as supervisor:
                session = await supervisor.start_session(model=saying("a"), session_id="s-1")
                while not supervisor.statistics().asleep:  # noqa: ASYNC110 - threads are at work
                    await trio.sleep(0.01)
                await trio.sleep(0.05)
                store.hang()
                nursery.start_soon(prompt, session)
                await trio.sleep(0.05)
                began = trio.current_time()
        assert refused
        assert refused[0] - began < 1
        assert trio.current_time() - began < 5
    store.mend()
