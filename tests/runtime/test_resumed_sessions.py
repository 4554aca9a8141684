"""Stored sessions come back: what they knew is there, what was at work is decided once, and what is missing is said by name."""

import sys
import threading
from contextlib import suppress
from importlib import import_module, invalidate_caches
from itertools import count

import attrs
import msgspec
import pytest
import trio
import trio.testing

import agentrail
from agentrail import tool
from agentrail.abc import Done, Ok, ToolContext
from agentrail.abc.store import Filters
from agentrail.core.journal.record import decode_drifted
from agentrail.core.policy.budget import Budget, Price
from agentrail.errors import (
    AgentrailError,
    AlreadyExists,
    AlreadyStarted,
    CycleFailed,
    HeldBy,
    JournalCorrupt,
    OptionError,
    SessionDown,
    SessionNotFound,
    StoreUnavailable,
    Unrevivable,
)
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    ApprovalResolved,
    EventsLost,
    SessionParked,
    SessionRecovered,
    ToolExecutionEnd,
)
from agentrail.messages import AssistantMessage
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime import session_loader
from agentrail.runtime.agent import Agent
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.cancelling import check_history, crash
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import (
    calling,
    eventually,
    kinds_in,
    on_bounded_time,
    on_virtual_time,
    open_bare,
    open_over,
    saying,
    start_hanging,
    until,
    wants,
)
from tests.runtime.test_children import first_words

pytestmark = on_virtual_time

UNKNOWN = "[Outcome unknown: the process stopped while this ran]"


def open_again(inner, **options):
    """Open a supervisor over what another process left; its store takes time in a thread."""
    return open_over(FaultyStore(inner), **options)


def fresh():
    """A store whose nodes are dead as soon as nothing is heard of them."""
    return MemoryStore(lease_ms=0)


class Process:
    """A process that is killed: from then on nothing of it reaches the store."""

    def __init__(self, inner, **options):
        self.store = FaultyStore(inner)
        self._opened = open_over(self.store, store_patience=0.1, **options)

    async def __aenter__(self):
        return await self._opened.__aenter__()

    async def __aexit__(self, *raised):
        self.store.go_away("killed")
        await self._opened.__aexit__(*raised)


async def results(session):
    """What the calls of the first batch came to."""
    messages = await session.messages()
    check_history(messages)
    return [result.text for result in messages[2].results]


# --- what it knew


@pytest.mark.at(82)
async def test_a_reader_goes_on_after_its_number_across_processes():
    """All after it, without a gap and without a double, then live."""
    inner = fresh()
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
        async with session.subscribe(after=0) as events:
            await session.ask("Hi")
            seen = await until(events, AgentEnd)
            await session.ask("Again")
            whole = seen + await until(events, AgentEnd)
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("c"))
        after = seen[-1].meta.seq
        async with session.subscribe(after=after) as events:
            again = await until(events, AgentEnd)
        committed = [event for event in whole if not event.meta.ephemeral]
        assert again == committed[committed.index(seen[-1]) + 1 :]
        assert [event.meta.seq for event in again] == list(range(after + 1, after + 1 + len(again)))


class Priced(ScriptedModel):
    """Its price is known, and may be another one in the next process."""

    price = 0.0

    def capabilities(self, model):
        known = super().capabilities(model)
        return attrs.evolve(known, price=Price(input=self.price, output=self.price))


@pytest.mark.parametrize("how", ["resume", "fork", "rewind"])
async def test_a_model_is_known_as_its_provider_describes_it_now(how):
    """A session reserved the price of its start, so that its budget allowed what costs more, or refused what costs less now."""
    inner = fresh()
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=Priced([says("a")]),
            session_id="s-1",
            budget=Budget(max_cost_usd=1.0),
            max_output_tokens=100,
        )
        await session.ask("Hi")
    for price in (1e6, 0.0):
        model = Priced([says("b")])
        model.price = price
        async with open_again(inner) as supervisor:
            session = await supervisor.resume_session("s-1", model=model)
            if how == "fork":
                session = await session.fork(turn=1)
            elif how == "rewind":
                await session.rewind(turn=1)
            if price:
                with pytest.raises(CycleFailed, match="budget_exceeded"):
                    await session.ask("Go on")
            else:
                assert await session.ask("Go on") == "b"


async def test_a_fork_knows_fallbacks_and_models_of_agents_as_they_are_now(tmp_path):
    """Also a fork to before the session was resumed, which had the old prices. Its own model is another case above."""

    def options(price):
        return {
            "model": "openai:own",
            "fallback_models": ["openai:spare"],
            "agents": [Agent(name="clerk", description="d", model="openai:clerk")],
            "tools": [TaskTool()],
            "provider_opts": {"api_key": "sk-x", "price": Price(input=price, output=price)},
        }

    store = f"sqlite:{tmp_path / 'sessions.db'}"
    async with agentrail.open_supervisor(store=store) as supervisor:
        await supervisor.start_session(session_id="s-1", **options(1.0))
    async with agentrail.open_supervisor(store=store) as supervisor:
        session = await supervisor.resume_session("s-1", **options(7.0))
        fork = await session.fork(at=1)
        for one in (session, fork):
            await one.status()
            data = one._cell.state.data  # noqa: SLF001 - facts that no view shows
            models = [data.model, data.config.model, *data.config.fallbacks, data.config.agents[0].model]
            assert {one.model: one.price.input for one in models} == dict.fromkeys(
                ["openai:own", "openai:spare", "openai:clerk"], 7.0
            )


async def test_what_was_asked_for_is_taken_by_name_and_the_store_knows_best():
    """Options in one value too; what the journal knows stays as it was."""
    inner = fresh()
    async with open_again(inner) as supervisor:
        await supervisor.start_session(model=saying("a"), session_id="s-1", scope="acme", max_turns=7)
    async with open_again(inner) as supervisor:
        options = SessionOptions(model=saying("b"), scope="acme", max_turns=3)
        session = await supervisor.resume_session("s-1", options)
        assert session.scope == "acme"
        assert session._cell.state.data.config.max_turns == 7  # noqa: SLF001 - what it was started with


async def test_when_the_first_of_three_fails_the_second_has_it_and_the_third_gets_its_handle():
    """All three ask at once, and wait for one another: it is taken once."""
    inner = fresh()
    async with open_again(inner) as supervisor:
        await supervisor.start_session(model=saying("a"), session_id="s-1", tools=[RecordingTool()])
    gate, look = threading.Event(), inner.get
    inner.get = lambda *key: gate.wait() and look(*key)
    async with open_again(inner) as supervisor, trio.open_nursery() as nursery:
        told = []

        async def resume(tools) -> None:
            try:
                told.append(await supervisor.resume_session("s-1", model=saying("b"), tools=tools))
            except AgentrailError as error:
                told.append(error)

        for tools in ([], [RecordingTool()], [RecordingTool()]):
            nursery.start_soon(resume, tools)
            await trio.testing.wait_all_tasks_blocked()
        gate.set()
        await eventually(lambda: len(told) == 3)
        failed, session, late = told
        assert isinstance(failed, Unrevivable)
        assert isinstance(late, AlreadyStarted)
        assert late.handle._cell is session._cell  # noqa: SLF001 - one session
        await session.prompt("still there?")
    kinds = kinds_in(inner)
    assert kinds.count("taken") == 1


@pytest.mark.parametrize("call", ["start", "resume", "fork"])
async def test_a_session_that_is_about_to_begin_cannot_begin_a_second_time(call, monkeypatch):
    """Its beginning is durable before it acts, and the same beginning twice is one to the store, as it has to be."""
    monkeypatch.setattr("agentrail.runtime.persistence.now_ms", lambda: 5)
    inner, model = fresh(), saying("a")
    slow = FaultyStore(inner)
    slow.delay_seconds = 0.02
    opened = open_over(slow)
    async with opened as supervisor, trio.open_nursery() as nursery:
        parent = await supervisor.start_session(model=saying("a"), session_id="p")
        told = []

        async def begin(call) -> None:
            try:
                if call == "fork":
                    told.append(await parent.fork(session_id="s-1"))
                elif call == "resume":
                    told.append(await supervisor.resume_session("s-1", model=model))
                else:
                    told.append(await supervisor.start_session(model=model, session_id="s-1"))
            except AgentrailError as error:
                told.append(error)

        nursery.start_soon(begin, "start")
        await eventually(lambda: slow.calls.count("create") == 2)
        nursery.start_soon(begin, call)
        await eventually(lambda: len(told) == 2)
        [session] = [one for one in told if not isinstance(one, AgentrailError)]
        [refused] = [one for one in told if isinstance(one, AgentrailError)]
        assert isinstance(refused, AlreadyStarted | AlreadyExists | SessionNotFound)
        assert supervisor.session("s-1")._cell is session._cell  # noqa: SLF001 - one session
        await session.prompt("there?")
        nursery.cancel_scope.cancel()
    kinds = kinds_in(inner)
    assert kinds.count("opened") == 1
    assert "taken" not in kinds


@on_bounded_time
@pytest.mark.parametrize("is_tried_again", [True, False])
@pytest.mark.parametrize("fault", ["lose_answers", "hang"])
async def test_a_session_whose_start_failed_is_not_there(fault, is_tried_again):
    """Its opening may be in the store. Nothing shows it until it is deleted, and it can be started at once."""
    inner = fresh()
    faulty = FaultyStore(inner)
    async with open_over(faulty, store_patience=0.2) as supervisor:
        getattr(faulty, fault)()
        with pytest.raises(StoreUnavailable):
            await supervisor.start_session(model=saying("a"), session_id="s-1")
        if fault == "lose_answers":
            assert inner.get("", "s-1") is not None
        assert await supervisor.facts_of("s-1") is None
        with pytest.raises(SessionNotFound):
            await supervisor.resume_session("s-1", model=saying("a"))
        faulty.mend()
        if is_tried_again:
            session = None
            while session is None:
                with suppress(StoreUnavailable):  # a hanging call may still be on its way
                    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
                await trio.sleep(0.01)
            await session.prompt("there?")
            await trio.sleep(0.6)  # what is repeated in the store has been
            assert await supervisor.facts_of("s-1") == session.facts
            assert kinds_in(inner).count("opened") == 1
        else:
            await eventually(lambda: inner.get("", "s-1") is None)


@on_bounded_time
async def test_a_failed_start_whose_record_was_lost_is_a_damaged_session():
    """The store knows the session and has none of its records: the first is reported as missing, and nothing crashes."""
    inner = fresh()
    faulty = FaultyStore(inner)
    async with open_over(faulty, store_patience=0.2) as supervisor:
        faulty.lose_answers()
        with pytest.raises(StoreUnavailable):
            await supervisor.start_session(model=saying("a"), session_id="s-1")
        inner.read = lambda *_given, **_options: ()
        with pytest.raises(JournalCorrupt, match="'s-1'"):
            await supervisor.facts_of("s-1")
        with pytest.raises(JournalCorrupt, match="'s-1'"):
            await supervisor.resume_session("s-1", model=saying("a"))


# --- what was at work


@pytest.mark.journal(10)
async def test_a_tool_whose_record_never_came_runs_once():
    """The response was not durable either: the request is sent again, and the tool runs."""
    inner, record, is_away = fresh(), RecordingTool(), trio.Event()
    process = Process(inner)

    async def answer_when_it_is_away(_request):
        await is_away.wait()
        return wants("record")

    async with process as supervisor:
        session = await supervisor.start_session(
            model=FunctionModel(answer_when_it_is_away), tools=[record], session_id="s-1"
        )
        await session.prompt("Hi")
        process.store.go_away("killed")
        is_away.set()
        await trio.sleep(0.05)
    assert not record.calls
    async with open_again(inner) as supervisor:
        model = calling("record")
        session = await supervisor.resume_session("s-1", model=model, tools=[record])
        assert await session.collect_reply() == "done"
        assert await results(session) == ["recorded"]
    assert len(record.calls) == 1


@pytest.mark.journal(10)
@pytest.mark.journal(11)
@pytest.mark.at(2, 118)
async def test_a_batch_is_decided_call_by_call():
    """Four promises, four decisions, one `SessionRecovered`; each call has one result."""
    inner = fresh()

    def tools(kind):
        return [
            kind(name="pure", effect_class="pure"),
            kind(name="idempotent", effect_class="idempotent"),
            Reconciled(name="reconcilable", effect_class="reconcilable", hangs=kind is HangingTool),
            kind(name="once", effect_class="once"),
        ]

    names = ("pure", "idempotent", "reconcilable", "once")
    async with Process(inner) as supervisor:
        first = tools(HangingTool)
        session = await supervisor.start_session(
            model=ScriptedModel([wants(*names)]), tools=first, session_id="s-1"
        )
        await session.prompt("Hi")
        for one in first:
            await one.started.wait()
    async with open_again(inner) as supervisor:
        second = tools(RecordingTool)
        session = await supervisor.resume_session("s-1", model=saying("done"), tools=second)
        async with session.subscribe(after=0) as events:
            assert await session.collect_reply() == "done"
            seen = await until(events, AgentEnd)
        recovered = [event for event in seen if isinstance(event, SessionRecovered)]
        assert [{one.name: one.decision for one in event.decisions} for event in recovered] == [
            {"pure": "run_again", "idempotent": "run_again", "reconcilable": "asked", "once": "unknown"}
        ]
        assert await results(session) == ["recorded", "recorded", "it was done", UNKNOWN]
        assert len([event for event in seen if isinstance(event, ToolExecutionEnd)]) == 4
    assert [len(one.calls) for one in second] == [1, 1, 0, 0]
    operations = [one.contexts[0].operation_id for one in (first[1], second[1])]
    assert operations[0] == operations[1]


class Reconciled(RecordingTool):
    """A tool that can say what became of an operation."""

    def __init__(self, *, hangs=False, **options):
        super().__init__(**options)
        self.hangs = hangs

    async def execute(self, arguments, ctx):
        self._begin(arguments, ctx)
        if self.hangs:
            await trio.sleep_forever()
        return Ok(text="run again")

    async def reconcile(self, operation_id, ctx):
        return Done(Ok(text="it was done"))


@pytest.mark.journal(12)
@pytest.mark.at(148)
@pytest.mark.parametrize("is_changed", [False, True])
async def test_three_kills_in_one_recovery_leave_the_session_as_it_is(is_changed, caplog):
    """It is parked, with the reason, by the third that nobody asked for; asked for by name it comes back. A tool that differs each time is no progress."""
    inner, hang = fresh(), HangingTool(effect_class="pure")
    async with Process(inner) as supervisor:
        session = await start_hanging(supervisor, hang, session_id="s-1")

    texts = count()

    def give(_opening):
        more = {"description": f"Hangs {next(texts)} times."} if is_changed else {}
        return {"model": saying("done"), "tools": [HangingTool(effect_class="pure", **more)]}

    for _ in range(2):
        process = Process(inner)
        process._opened = open_over(process.store, store_patience=0.1, revive=give)  # noqa: SLF001 - with another one
        async with process as supervisor:
            assert await supervisor.resume_all("working") == ()
            await eventually(lambda: kinds_in(inner)[-1] == "recovered")
    async with open_again(inner, revive=give) as supervisor:
        await supervisor.resume_all("working")
        await eventually(lambda: supervisor.last_words("s-1") is not None)
        words = supervisor.last_words("s-1")
        assert words.reason.startswith("parked: 3 recoveries in a row")
        await eventually(lambda: supervisor.parked_sessions() != ())
        (report,) = supervisor.parked_sessions()
        assert (report.session_id, report.reason) == ("s-1", words.reason)
        assert "resume it by its id" in report.reason
        assert f"session s-1 is not continued: {words.reason}" in caplog.text
        assert supervisor.statistics().parked == 1
        async with words.session.subscribe(after=0) as events:
            assert SessionParked in [type(event) async for event in events]
        record = RecordingTool(name="hang", effect_class="pure")
        session = await supervisor.resume_session("s-1", model=saying("done"), tools=[record])
        assert await session.collect_reply() == "done"
        assert len(record.calls) == 1


@pytest.mark.journal(13)
@pytest.mark.at(95)
@pytest.mark.parametrize("when", ["at work", "done", "not closed"])
async def test_a_child_comes_back_before_its_parent_and_its_end_is_delivered_once(when):
    """Killed while it worked, with its end in flight, and before it was closed with no event of it kept: the call has its result, once."""
    inner, hang = fresh(), HangingTool(effect_class="pure")
    process = Process(inner)
    child = [wants("hang")] if when == "at work" else [says("from the child")]
    options = {"session_id": "s-1", "event_buffer_size": 0 if when == "not closed" else 1_000}
    async with process as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants_task(), *child]), tools=[TaskTool(), hang], **options
        )
        if when == "at work":
            await session.prompt("Hi")
            await hang.started.wait()
        else:
            append = inner.append

            def is_lost(one):
                if when == "done":
                    return one.session == "s-1" and any(r.kind == "tool_finished" for r in one.records)
                return one.session != "s-1" and one.records[-1].kind == "closed"

            def lose(batch):
                if any(map(is_lost, batch)):
                    process.store.go_away("killed")
                    message = "killed"
                    raise StoreUnavailable(message)
                return append(batch)

            writer = session._cell.journal.writer  # noqa: SLF001 - it is known there
            inner.append = lose
            await session.prompt("Hi")
            await eventually(lambda: process.store.calls.count("append") > 3 and not writer.is_available)
            inner.append = append
    (ended,) = [one.session for one in inner.find(Filters(root="s-1")) if one.parent]
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session(
            options.pop("session_id"),
            model=saying(*(["from the child"] if when == "at work" else []), "done"),
            tools=[TaskTool(), RecordingTool(name="hang", effect_class="pure")],
            **options,
        )
        assert await session.collect_reply() == "done"
        assert await results(session) == ["from the child"]
    assert inner.get("", ended).standing.has_ended


@tool
async def work(*, ctx: ToolContext) -> str:
    """Let another session work."""
    await ctx.run_session("deeper" if ctx.session_id == "s-1" else "hang")
    return "done"


def lets_work(count):
    """A model whose session lets others work, each of which lets another hang."""

    def answer(request):
        if len(request.messages) > 1:
            return says("Here I am again.")
        asked = first_words(request)
        name, times = {"Hi": ("work", count), "deeper": ("work", 1), "hang": ("hang", 1)}[asked]
        return calls(*[(name, {})] * times)

    return FunctionModel(answer)


in_both_budgets = pytest.mark.parametrize(
    ("budget", "count"), [(None, 2), (Budget(max_total_tokens=10_000), 1)], ids=["unlimited", "limited"]
)


@in_both_budgets
@pytest.mark.parametrize("is_stored", [False, True])
async def test_what_children_of_a_tool_used_before_a_crash_is_counted_once(budget, count, is_stored):
    """They end with the actor, and nothing else would report their usage."""
    hang = HangingTool()
    given = {"session_id": "s-1", "budget": budget, "max_output_tokens": 100}
    async with Process(fresh()) if is_stored else open_bare() as supervisor:
        session = await supervisor.start_session(model=lets_work(count), tools=[work, hang], **given)
        await session.prompt("Hi")
        await eventually(lambda: len(hang.calls) == count)
        used = sum([(await one.status()).usage.total for one in supervisor.sessions()])
        crash(session)
        with pytest.raises(CycleFailed):
            await session.collect_reply()
        status = await session.status()
        assert used == status.usage.total == 15 * (1 + 2 * count)
        assert budget is None or status.budget_left.tokens == 10_000 - used


@pytest.mark.parametrize("budget", [None, Budget(max_total_tokens=10_000)], ids=["unlimited", "limited"])
async def test_what_a_child_used_below_one_that_crashed_is_counted_once(budget):
    """The one that crashed is parked, and its parent goes on with the rest of the budget."""
    hang = HangingTool()
    given = {"session_id": "s-1", "budget": budget, "max_output_tokens": 100}
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=lets_work(1), tools=[work, hang], **given)
        await session.prompt("Hi")
        await eventually(lambda: len(hang.calls) == 1)
        crash(sorted(supervisor.sessions(), key=lambda one: len(one.session_id))[1])
        assert await session.collect_reply() == "Here I am again."
        status = await session.status()
        assert status.usage.total == 15 * 4
        assert budget is None or status.budget_left.tokens == 10_000 - status.usage.total


@pytest.mark.parametrize("budget", [None, Budget(max_total_tokens=10_000)], ids=["unlimited", "limited"])
async def test_what_an_agent_of_a_lost_child_used_is_counted_once(budget):
    """Its child had counted the first of its two cycles."""
    inner, hang = fresh(), HangingTool()
    scout = Agent(name="scout", description="Looks.", system_prompt="You look.", background=True)

    def answer(request):
        turn = sum(isinstance(one, AssistantMessage) for one in request.messages)
        if request.system == "You look.":
            return says("Once.") if turn == 0 else calls(("hang", {}))
        if first_words(request) == "Hi":
            return says("Here I am again.") if turn else calls(("work", {}))
        spawn = ("spawn_agent", {"agent": "scout", "task": "Look."})
        again = ("send_input", {"name": "agent-1", "text": "Again."})
        return calls((spawn, ("wait_agents", {}), again, ("hang", {}))[turn])

    code = {"model": FunctionModel(answer), "tools": [work, hang], "agents": [scout]}
    given = {"budget": budget, "max_output_tokens": 100, "max_agent_depth": 3}
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(session_id="s-1", **code, **given)
        await session.prompt("Hi")
        await eventually(lambda: len(hang.calls) == 2)
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", **code)
        assert await session.collect_reply() == "Here I am again."
        status = await session.status()
        assert status.usage.total == 15 * (2 + 4 + 2)
        assert budget is None or status.budget_left.tokens == 10_000 - status.usage.total


@in_both_budgets
async def test_what_lost_children_of_a_tool_used_is_counted_once(budget, count):
    """The usage of each open child is that of its session, also of the one below it, and no more leaves the budget."""
    inner = fresh()
    hang = HangingTool()
    given = {"session_id": "s-1", "budget": budget, "max_output_tokens": 100}
    model = lets_work(count)
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(model=model, tools=[work, hang], **given)
        await session.prompt("Hi")
        await eventually(lambda: len(hang.calls) == count)
        used = sum([(await one.status()).usage.total for one in supervisor.sessions()])
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session(
            "s-1", model=model, tools=[work, RecordingTool(name="hang")]
        )
        assert await session.collect_reply() == "Here I am again."
        status = await session.status()
        assert used == 15 * (1 + 2 * count)
        assert status.usage.total == used + 15
        if budget is not None:
            assert status.budget_left.tokens == 10_000 - status.usage.total


async def test_a_child_that_was_never_stored_did_not_run():
    """Killed before the session of a call was in the store: the result says that nothing happened, so the model may call it again."""
    inner, create = fresh(), MemoryStore.create
    process = Process(inner)

    def lose(*given, **options):
        process.store.go_away("killed")
        message = "killed"
        raise StoreUnavailable(message)

    async with process as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants_task()]), tools=[TaskTool()], session_id="s-1"
        )
        inner.create = lose
        await session.prompt("Hi")
        await eventually(lambda: not session._cell.journal.writer.is_available)  # noqa: SLF001 - it is known there
        inner.create = create.__get__(inner)
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("done"), tools=[TaskTool()])
        assert await session.collect_reply() == "done"
        assert await results(session) == ["[Not run: the process stopped before this began]"]


def wants_task():
    """Make a turn that hands something to a child."""
    return calls(("task", {"description": "Do it"}))


@pytest.mark.journal(14)
@pytest.mark.at(69)
async def test_an_approval_that_expired_while_nobody_ran_is_a_timeout_before_any_click():
    """It is resolved by the clock at the restart; who clicks then is told so."""
    inner, record = fresh(), RecordingTool()
    async with open_again(inner) as supervisor:
        session = await supervisor.start_session(
            model=calling("record"),
            tools=[record],
            plugins=[(HumanApproval, {"require_approval_for": ["record"], "timeout_seconds": 0.05})],
            session_id="s-1",
        )
        async with session.subscribe() as events:
            await session.prompt("Hi")
            asked = (await until(events, ApprovalRequired))[-1]
        await supervisor.rest("s-1")
    await trio.sleep(0.1)
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session(
            "s-1",
            model=saying("done"),
            tools=[record],
            plugins=[(HumanApproval, {"require_approval_for": ["record"], "timeout_seconds": 0.05})],
        )
        async with session.subscribe(after=0) as events:
            resolved = (await until(events, ApprovalResolved))[-1]
        assert (resolved.approval.id, resolved.status) == (asked.approval.id, "timeout")
        with pytest.raises(AgentrailError, match=r"already|timed|expired"):
            await session.approve(asked.approval.id)
    assert not record.calls


# --- what is missing


@tool
def look(name: str) -> str:
    """Look something up."""
    return name


@pytest.mark.journal(15)
async def test_code_that_no_other_process_finds_is_refused_with_the_way_out():
    """A plugin or a tool, at run time, with a store, and nothing is changed; one that can be imported comes back by itself."""

    class Guard(PuppetPlugin):
        pass

    class Local(RecordingTool):
        pass

    @tool
    def nested(name: str) -> str:
        """Look something up."""
        return name

    inner = fresh()
    async with open_again(inner) as supervisor:
        session = await supervisor.start_session(
            model=saying("a"), tools=[Local(name="one")], session_id="s-1"
        )
        for change in (session.attach_tools, session.replace_tools):
            with pytest.raises(OptionError, match=r"tool 'two'.*package\.module:NAME.*store='memory:'"):
                await change(Local(name="two"), look)
            with pytest.raises(OptionError, match=r"tool 'nested' is defined at '.*<locals>\.nested'"):
                await change(look, nested)
        with pytest.raises(OptionError, match=r"package\.module:NAME.*store='memory:'"):
            await session.attach_plugin(Guard((), name="guard"))
        assert session._cell.state.data.tools.names == ("one",)  # noqa: SLF001 - what the model is shown
        await session.attach_tools(look, RecordingTool())
    async with open_again(inner) as supervisor:
        with pytest.raises(Unrevivable, match="tool 'one'"):
            await supervisor.resume_session("s-1", model=saying("b"))
        session = await supervisor.resume_session("s-1", model=saying("b"), tools=[Local(name="one")])
        assert session._cell.state.data.tools.names == ("look", "one", "record")  # noqa: SLF001
    async with open_over(MemoryStore()) as supervisor:
        session = await supervisor.start_session(model=saying("a"))
        await session.attach_tools(Local(name="two"), nested)
        await session.attach_plugin(Guard((), name="guard"))


@pytest.mark.parametrize("where", ["", "def __init__(self): "], ids=["module", "class"])
async def test_a_plugin_that_exits_when_it_is_loaded_is_missing(where, tmp_path, monkeypatch):
    """Its `SystemExit`, on import or from its constructor, does not end the supervisor. Other sessions continue."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"leaving_plugin_{len(where)}"
    head = (
        "import sys\nfrom agentrail.testing.plugins import PuppetPlugin\nclass Leaving(PuppetPlugin):\n    "
    )
    (tmp_path / f"{name}.py").write_text(f"{head}def __init__(self): super().__init__((), name='leaving')\n")
    inner = fresh()
    async with open_again(inner) as supervisor:
        plugin = import_module(name).Leaving()
        await supervisor.start_session(model=saying("a"), session_id="s-1", plugins=[plugin])
    monkeypatch.delitem(sys.modules, name)
    (tmp_path / f"{name}.py").write_text(f"{head}{where}sys.exit('no')\n")
    invalidate_caches()
    async with open_again(inner) as supervisor:
        other = await supervisor.start_session(model=saying("b"))
        with pytest.raises(Unrevivable, match="plugin 'leaving'"):
            await supervisor.resume_session("s-1", model=saying("a"))
        assert await other.ask("Hi") == "b"


async def test_what_cannot_come_back_says_why():
    """One that there is not, with those that are like it; and one that has ended."""
    inner = fresh()
    async with open_again(inner) as supervisor:
        await supervisor.start_session(model=saying("a"), session_id="s-1")
        ended = await supervisor.start_session(model=saying("a"), session_id="ended")
        await ended.stop()
    async with open_again(inner) as supervisor:
        with pytest.raises(SessionNotFound, match="s-2") as caught:
            await supervisor.resume_session("s-2", model=saying("b"))
        assert caught.value.nearest == ("s-1",)
        with pytest.raises(SessionDown, match="has ended"):
            await supervisor.resume_session("ended", model=saying("b"))


async def test_one_that_another_owner_has_is_left_to_it():
    """Unless it is taken by force; then the other hears so with its next record."""
    inner = MemoryStore()
    async with open_again(inner) as first, open_again(inner) as second:
        session = await first.start_session(model=saying("a", "b"), session_id="s-1")
        with pytest.raises(HeldBy):
            await second.resume_session("s-1", model=saying("c"))
        assert await session.ask("Hi") == "a"
        other = await second.resume_session("s-1", model=saying("c"), force=True)
        with pytest.raises(SessionDown, match="taken over"):
            await session.ask("Again")
        assert await other.ask("Again") == "c"


@pytest.mark.journal(20)
async def test_a_damaged_snapshot_is_ignored_and_the_session_is_the_same(caplog):
    """Its journal is the truth."""
    inner = fresh()
    async with open_again(inner) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.ask("Hi")
        before = await session.messages()
    (snapshot,) = inner.snapshots("", "s-1")
    state = snapshot.state[:-20] + bytes([snapshot.state[-20] ^ 1]) + snapshot.state[-19:]
    inner.put_snapshot(msgspec.structs.replace(snapshot, state=state))
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("b"))
        assert await session.messages() == before
    assert "snapshot after record" in caplog.text


# --- newer code


def publishing(*hooks):
    """A plugin that publishes one event on each of these hooks; its newer code does so on one more."""
    return PuppetPlugin(
        tuple(PuppetRule(hook=hook, tool=None, action="emit", text="seen") for hook in hooks), name="talk"
    )


OLDER, NEWER = ("BeforePrompt",), ("BeforePrompt", "AfterTurn")


async def lived(inner, *, model=None, tools=()):
    """Let a session live and be killed with the older code; say its last number, and what it had said."""
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=model or saying("a"), plugins=[publishing(*OLDER)], tools=tools, session_id="s-1"
        )
        if model is None:
            await session.ask("Hi")
        else:
            await session.prompt("Hi")
            await tools[0].started.wait()
        return (await session.status()).last_seq, await session.messages()


@pytest.mark.journal(16)
async def test_newer_code_that_publishes_more_is_recorded_as_drift_and_the_session_works():
    """Nothing is done twice by it, so it is not parked: numbers go on, readers hear what they lost, and the next owner finds nothing new."""
    inner = fresh()
    last, said = await lived(inner)
    async with no_orphans(), open_again(inner, on_drift="park") as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("b"), plugins=[publishing(*NEWER)])
        assert (await session.status()).last_seq == last + 2  # with what it says of its coming back
        async with session.subscribe(after=last) as events:
            (lost,) = await until(events, EventsLost)
            assert (lost.from_seq, lost.to_seq) == (last + 1, last + 2)
            assert events.snapshot.status.last_seq >= lost.to_seq
            assert await session.ask("Again") == "b"
            seen = await until(events, AgentEnd)
        numbers = [event.meta.seq for event in seen if not event.meta.ephemeral]
        assert numbers == list(range(last + 3, last + 3 + len(numbers)))
        whole = await session.messages()
        assert whole[: len(said)] == said
    records = inner.read("", "s-1")
    taken = next(one for one in records if one.kind == "taken")
    drifted = records[taken.seq]
    assert [one.kind for one in records].count("drifted") == 1
    assert drifted.kind == "drifted"
    body = decode_drifted(drifted.body)
    assert (body.events, drifted.events) == (last + 1, last + 1)
    differs = records[body.first - 1]
    assert f"record {differs.seq} ({differs.kind}): does was" in body.what
    assert body.engine

    for snapshot in inner.snapshots("", "s-1"):
        inner.put_snapshot(msgspec.structs.replace(snapshot, state=b"{}"))
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("c"), plugins=[publishing(*NEWER)])
        assert await session.messages() == whole
        # What was published before a drift had other numbers, and is never replayed.
        async with session.subscribe(after=last) as events:
            assert isinstance(await anext(events), EventsLost)
        async with session.subscribe(after=last + 2) as events:
            assert (await anext(events)).meta.seq == last + 3
        assert await session.ask("Once more") == "c"
    assert kinds_in(inner).count("drifted") == 1


@pytest.mark.journal(16)
@pytest.mark.parametrize("is_immediate", [False, True])
async def test_an_idle_session_that_drifted_leaves_a_snapshot_at_once(is_immediate):
    """However short its tail is, it has one behind what says so, or behind its recovery."""
    inner = fresh()
    await lived(inner)
    opened = open_over(inner) if is_immediate else open_again(inner)
    async with opened as supervisor:
        await supervisor.resume_session("s-1", model=saying("b"), plugins=[publishing(*NEWER)])
        await eventually(lambda: bool(inner.snapshots("", "s-1")))
        (snapshot,) = inner.snapshots("", "s-1")
        assert inner.read("", "s-1")[snapshot.seq - 1].kind in ("drifted", "recovered")


async def test_a_drift_that_was_recorded_long_ago_stays_known(monkeypatch):
    """Also where what came before it is no longer among the records whose events are at hand, and no snapshot can be read."""
    inner = fresh()
    await lived(inner)
    monkeypatch.setattr(session_loader, "REPLAYED_RECORDS", 20)
    turns = 20
    async with Process(inner) as supervisor:
        session = await supervisor.resume_session(
            "s-1", model=saying(*("x" for _ in range(turns))), plugins=[publishing(*NEWER)]
        )
        for _ in range(turns):
            await session.ask("Hi")
        whole, last = await session.messages(), (await session.status()).last_seq
    for snapshot in inner.snapshots("", "s-1"):
        inner.put_snapshot(msgspec.structs.replace(snapshot, state=b"{}"))
    assert len(inner.read("", "s-1")) > 2 * session_loader.REPLAYED_RECORDS
    async with open_again(inner, on_drift="park") as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("c"), plugins=[publishing(*NEWER)])
        assert await session.messages() == whole
        async with session.subscribe(after=last) as events:
            assert (await until(events, SessionRecovered))[0].meta.seq == last + 1
