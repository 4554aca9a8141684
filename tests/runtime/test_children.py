"""Sessions that work for a call of another one: started with the call, heard on their parent, and gone with the call."""

from pathlib import Path

import pytest
import trio

import agentrail
from agentrail.core.policy.budget import Budget
from agentrail.errors import SessionDown, StoreUnavailable
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    AskUser,
    MessageDelta,
    SessionEnd,
    SubagentEvent,
    ToolExecutionEnd,
)
from agentrail.runtime.session_handle import Session
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, Turn, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import HangingTool, RecordingTool, StubbornTool
from agentrail.tools import builtin
from agentrail.tools.task import TaskTool
from tests.runtime.rig import eventually, on_virtual_time, only, open_over

TASK = calls(("task", {"description": "Count the files."}))


def first_words(request) -> str:
    return str(request.messages[0].content[0].text)


def working(child: Turn | None = None, *, parent_says: str = "all done") -> FunctionModel:
    """A parent that starts a task and then says something; a child that answers."""

    def answer(request):
        if first_words(request) == "Count the files.":
            return child or says("There are three.")
        return says(parent_says) if len(request.messages) > 1 else TASK

    return FunctionModel(answer)


@pytest.mark.at(91, 94)
async def test_all_that_a_child_publishes_appears_on_its_parent(supervisor):
    """With the child's own numbers and path; deltas are as little replayed there as here."""
    session = await supervisor.start_session(model=working(), tools=[TaskTool()], session_id="boss")
    async with only(session, SubagentEvent) as events:
        await session.ask("go")
        await session.stop()
        seen = [event async for event in events]
    inner = [event.event for event in seen]
    assert isinstance(inner[-1], AgentEnd | SessionEnd)
    committed = [event.meta.seq for event in inner if not event.meta.ephemeral]
    assert committed == list(range(1, len(committed) + 1))
    assert {event.meta.path for event in inner} == {("boss", seen[0].child_id)}
    assert {event.depth for event in seen} == {1}
    assert all(event.meta.ephemeral == event.event.meta.ephemeral for event in seen)


@pytest.mark.parametrize(
    ("child", "words"),
    [
        (
            Turn(),
            "The sub-agent failed: the model sent an empty response. What to do: ask again in other words, raise max_output_tokens, or name another model",
        ),
        (
            calls(("hang", {}), text="I begin."),
            "The sub-agent did not finish within 30 s and was stopped. Its last text: I begin.",
        ),
    ],
    ids=["failed", "too long"],
)
async def test_a_child_that_fails_or_takes_too_long_is_an_error_of_the_call(
    supervisor, autojump_clock, child, words
):
    """Its parent reads why, how long it took and what the child said last, and goes on."""
    session = await supervisor.start_session(
        model=working(child), tools=[TaskTool(timeout_seconds=30), HangingTool(name="hang")], max_retries=0
    )
    async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
        assert await session.ask("go") == "all done"
        result = (await anext(events)).result
    assert (result.text, result.is_error) == (words, True)


@pytest.mark.at(97)
async def test_children_end_with_their_parent(supervisor):
    """Stopping the parent stops them first; their ids are free then."""
    hanging = HangingTool(name="hang")
    session = await supervisor.start_session(
        model=working(calls(("hang", {}))), tools=[TaskTool(), hanging], session_id="boss"
    )
    with trio.fail_after(60):
        await session.prompt("go")
        await hanging.started.wait()
        assert len(supervisor.sessions()) == 2
        await session.stop()
        assert supervisor.sessions() == ()
    with pytest.raises(SessionDown):
        supervisor.session("boss")


def tasks(count: int) -> FunctionModel:
    """A parent that starts so many tasks at once; children that answer. Each response uses 15 tokens."""

    def answer(request):
        if first_words(request) == "Count the files.":
            return says("There are three.")
        wanted = calls(*[("task", {"description": "Count the files."})] * count)
        return says("all done") if len(request.messages) > 1 else wanted

    return FunctionModel(answer)


@pytest.mark.parametrize(("count", "failed"), [(1, 0), (2, 2)])
async def test_children_share_a_budget(supervisor, count, failed):
    """One child may ask for 493 tokens and its input of the 986 that are left; two have half of them each, which is too little."""
    session = await supervisor.start_session(
        model=tasks(count),
        tools=[TaskTool()],
        budget=Budget(max_total_tokens=1001),
        max_output_tokens=493,
    )
    async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
        assert await session.ask("go") == "all done"
        results = [(await anext(events)).result for _ in range(count)]
    refused = [one for one in results if one.is_error]
    assert len(refused) == failed
    assert all("of 493 are left: raise the budget" in one.text for one in refused)


@pytest.mark.at(22)
@pytest.mark.parametrize("end", ["the turn ends", "the cycle is aborted", "the session is stopped"])
async def test_a_session_that_was_detached_on_purpose_outlives_the_turn_and_an_attached_one_does_not(
    supervisor, end
):
    """What a tool starts on the supervisor belongs to the supervisor; what a call is answered by ends with the call."""
    attached, detached = HangingTool(name="attached"), HangingTool(name="detached")

    class Detach(RecordingTool):
        """Starts a session of its own, which goes on working when the call is over."""

        async def execute(self, arguments, ctx):
            model = FunctionModel(
                lambda request: says("later") if len(request.messages) > 1 else calls(("detached", {}))
            )
            own = await supervisor.start_session(model=model, tools=[detached], session_id="detached")
            await own.prompt("work")
            await detached.started.wait()
            return await super().execute(arguments, ctx)

    def answer(request):
        if first_words(request) == "Count the files.":
            return says("counted") if end == "the turn ends" else calls(("attached", {}))
        if len(request.messages) == 1:
            return calls(("record", {}), ("task", {"description": "Count the files."}))
        return says("all done")

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[TaskTool(), Detach(), attached], session_id="boss"
    )
    with trio.fail_after(60):
        await session.prompt("go")
        await detached.started.wait()
        match end:
            case "the turn ends":
                assert await session.collect_reply() == "all done"
            case "the cycle is aborted":
                await attached.started.wait()
                await session.abort()
            case _:
                await attached.started.wait()
                await session.stop()
    own = supervisor.session("detached")
    left = {one.session_id for one in supervisor.sessions()}
    assert left == {"detached"} | ({"boss"} if end != "the session is stopped" else set())
    assert (detached.stopped, (await own.status()).phase) == (0, "executing_tools")
    assert attached.stopped == (end != "the turn ends")
    receipt = await own.abort()
    assert receipt.tasks_ended == 1
    assert await own.ask("go on") == "later"


async def heard_of_grandchildren(supervisor, **terms):
    def answer(request):
        words = first_words(request)
        if words == "Deeper.":
            return says("the ", "bottom")
        down = "Count the files." if words == "go" else "Deeper."
        return says("done") if len(request.messages) > 1 else calls(("task", {"description": down}))

    session = await supervisor.start_session(model=FunctionModel(answer), tools=[TaskTool(max_depth=3)])
    async with session.subscribe(**terms) as events:
        await session.ask("go")
        await session.stop()
        return [event async for event in events if isinstance(event, SubagentEvent)]


def layers(event, depth=0):
    """An event and those that it carries, each with how far below it was published."""
    yield event, depth
    if isinstance(event, SubagentEvent):
        yield from layers(event.event, depth + 1)


async def below(events, kind):
    """The first event of a kind, however far below the session it was published."""
    with trio.fail_after(60):
        async for event in events:
            *_, (inner, _) = layers(event)
            if isinstance(inner, kind):
                return inner
    return None


@pytest.mark.at(92, 93)
@pytest.mark.parametrize("deltas", [True, False])
async def test_deltas_of_children_come_to_whoever_wants_deltas(supervisor, deltas):
    """At any depth; whoever does without them gets all that is committed, and at every depth too."""
    heard = [
        layer for event in await heard_of_grandchildren(supervisor, deltas=deltas) for layer in layers(event)
    ]
    said = {
        depth: "".join(e.delta for e, at in heard if isinstance(e, MessageDelta) and at == depth)
        for depth in (1, 2)
    }
    assert said == ({1: "done", 2: "the bottom"} if deltas else {1: "", 2: ""})
    for depth in (1, 2):
        numbers = [event.meta.seq for event, at in heard if at == depth and not event.meta.ephemeral]
        assert numbers == list(range(1, len(numbers) + 1))
        assert any(isinstance(event, AgentEnd) for event, at in heard if at == depth)


@pytest.mark.at(93)
async def test_a_subscriber_of_other_kinds_hears_nothing_of_children(supervisor):
    """Its own filter decides; the session hides nothing, and forces nothing on anybody."""
    assert await heard_of_grandchildren(supervisor, kinds=[AgentEnd]) == []
    assert await heard_of_grandchildren(supervisor, kinds=[SubagentEvent]) != []


@pytest.mark.at(75, 98)
@pytest.mark.parametrize("budget", [None, Budget(max_total_tokens=10_000)])
async def test_a_child_may_no_more_than_its_parent(supervisor, budget):
    """Its tools, plugins, places, immune tools and budget are at most those that its parent has at that moment."""
    hanging = HangingTool(name="hang")
    people = PuppetPlugin((read_rule("BeforeTool.gone", "block:no"),), name="people")
    session = await supervisor.start_session(
        model=working(calls(("hang", {}))),
        tools=[TaskTool(), hanging, RecordingTool(name="gone")],
        plugins=[people],
        budget=budget,
        max_output_tokens=100,
        immune_tools=["nobody"],
        wake_on_background_end=True,
    )
    await session.detach_tools("gone")
    with trio.fail_after(60):
        await session.prompt("go")
        await hanging.started.wait()
    parent, child = (supervisor._find_cell("", one.session_id) for one in supervisor.sessions())  # noqa: SLF001 - its ports
    assert set(child.state.data.tools.names) == {"hang"} < set(parent.state.data.tools.names)
    assert {name for name, _ in child.ports.tools} == {"hang"}
    assert child.state.data.stack.names == parent.state.data.stack.names == ("people",)
    assert child.ports.workspace is parent.ports.workspace
    assert child.ports.working_dir == parent.ports.working_dir
    assert child.state.data.config.immune_tools == parent.state.data.config.immune_tools
    wakes = [one.state.data.config.wake_on_background_end for one in (parent, child)]
    assert wakes == [True, False]
    assert child.state.data.rules <= parent.state.data.rules
    given = child.state.data.config.budget
    assert (given is None) == (budget is None)
    if given is not None and budget is not None:
        assert given.max_total_tokens <= budget.max_total_tokens - (await session.status()).usage.total


@pytest.mark.at(63, 66)
@pytest.mark.parametrize("through", ["parent", "child"])
async def test_every_path_to_a_tool_needs_its_approval(supervisor, through):
    """A call of the session and one of its child: each runs when it was approved, through either session, and not before."""
    tool = RecordingTool(name="shell")
    people = PuppetPlugin((read_rule("BeforeTool.shell", "approve:may it?"),), name="people")

    def answer(request):
        wants = len(request.messages) == 1
        if first_words(request) == "Count the files.":
            return calls(("shell", {})) if wants else says("counted")
        return calls(("shell", {}), ("task", {"description": "Count the files."})) if wants else says("fine")

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[TaskTool(), tool], plugins=[people]
    )
    asked = []
    with trio.fail_after(60):
        async with session.subscribe() as events:
            await session.prompt("go")
            async for event in events:
                *_, (inner, _) = layers(event)
                if isinstance(inner, ApprovalRequired):
                    assert len(tool.calls) <= len(asked)
                    asked.append(inner.approval)
                    decider = session
                    if isinstance(event, SubagentEvent):
                        assert inner.approval.path == (session.session_id, event.child_id)
                        decider = session if through == "parent" else supervisor.session(event.child_id)
                    await decider.approve(inner.approval.id)
                if isinstance(event, AgentEnd):
                    break
    assert [len(approval.path) for approval in asked] == [1, 2]
    assert len(tool.calls) == 2


def test_one_place_runs_tools():
    """No other file of the shell calls `execute` of a tool: what gates it there gates every call. A placeholder stands for a tool whose source comes later, and is itself called there."""
    shell = Path(agentrail.__file__).parent
    places = [
        f"{file.parent.name}/{file.name}"
        for room in ("runtime", "cli", "actors")
        for file in (shell / room).rglob("*.py")
        if "tool.execute(" in file.read_text(encoding="utf-8")
    ]
    assert sorted(places) == ["runtime/tool_calls.py", "runtime/tool_origins.py"]


GRANDCHILD = calls(("task", {"description": "Dig deeper."}))


def two_deep(*at_the_bottom) -> FunctionModel:
    """A session whose child lets a session of its own call tools."""

    def answer(request):
        if len(request.messages) > 1:
            return says("it has ended")
        match first_words(request):
            case "Dig deeper.":
                return calls(*at_the_bottom)
            case "Count the files.":
                return GRANDCHILD
            case _:
                return TASK

    return FunctionModel(answer)


@pytest.mark.at(14, 29)
async def test_the_receipt_counts_what_children_had_at_work(supervisor):
    """Calls and streams of the sessions below, however deep; those that ended before are not counted. All are gone by then."""
    hanging, other, quick = HangingTool(name="hang"), HangingTool(name="other"), RecordingTool(name="quick")
    model = two_deep(("hang", {}), ("other", {}), ("quick", {}))
    session = await supervisor.start_session(
        model=model, tools=[TaskTool(max_depth=2), hanging, other, quick]
    )
    with trio.fail_after(60):
        await session.prompt("go")
        await hanging.started.wait()
        await other.started.wait()
        receipt = await session.abort()
    assert receipt.tasks_ended == 4  # the call, the call of its child, and two of the child's child
    assert receipt.stuck == ()
    assert len(receipt.unknown) == 1  # a call of this session
    assert (hanging.stopped, other.stopped) == (1, 1)
    assert [one.session_id for one in supervisor.sessions()] == [session.session_id]


async def test_what_would_not_end_below_is_in_the_receipt(supervisor, autojump_clock):
    """A tool of a child's child that does not hear its stop is named in the receipt of the root, with its age."""
    stubborn = StubbornTool(deaf_seconds=60)
    session = await supervisor.start_session(
        model=two_deep(("stubborn", {})), tools=[TaskTool(max_depth=2), stubborn]
    )
    await session.prompt("go")
    await stubborn.started.wait()
    receipt = await session.abort()
    assert [left.name for left in receipt.stuck] == ["stubborn"]
    assert receipt.stuck[0].age_ms >= 3_000
    assert receipt.tasks_ended == 2  # the calls above it are gone
    assert receipt.milliseconds < 5_000


async def waiting_below(supervisor, *, deep: bool) -> tuple[Session, list[str]]:
    """Start a session below which a call waits for a person; give it, and the ids of what waits, outermost first."""

    def answer(request):
        if len(request.messages) > 1:
            return says("done")
        match first_words(request):
            case "Count the files." if deep:
                return GRANDCHILD
            case "Count the files." | "Dig deeper.":
                return calls(("shell", {}), ("ask_user", {"question": "Which?", "options": ["a", "b"]}))
            case _:
                return TASK

    people = PuppetPlugin((read_rule("BeforeTool.shell", "approve:may it?"),), name="people")
    tools = [TaskTool(max_depth=2), RecordingTool(name="shell"), *builtin("ask_user")]
    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=tools, plugins=[people], session_id="boss"
    )
    async with session.subscribe() as events:
        await session.prompt("go")
        return session, [(await below(events, AskUser)).ref]


@pytest.mark.at(63, 79)
@pytest.mark.parametrize("deep", [False, True], ids=["child", "child of a child"])
async def test_a_late_client_sees_what_children_wait_for(supervisor, deep):
    """Status, snapshot and a new subscription show all below, what waits there for people too; and the root decides it."""
    with trio.fail_after(60):
        session, (ref,) = await waiting_below(supervisor, deep=deep)
        async with session.subscribe() as events:
            statuses = [await session.status(), (await session.snapshot()).status, events.snapshot.status]
        for status in statuses:
            (child,) = status.children
            assert child.session_id == f"boss.{child.call_id}"
            assert child.call_id == status.running_tools[0].call_id
            inner = child.status.children[0].status if deep else child.status
            assert (status.approvals, status.questions) == ((), ())
            assert status.all_approvals == inner.approvals
            for questions in (status.all_questions, inner.questions):
                assert [question.ref for question in questions] == [ref]
            (approval,) = inner.approvals
            assert (approval.tool, approval.path[0], len(approval.path)) == (
                "shell",
                "boss",
                3 if deep else 2,
            )
            assert inner.suspended
        await session.approve(approval.id)
        await session.respond(ref, 0)
        assert await session.collect_reply() == "done"
        assert (await session.status()).children == ()


@on_virtual_time
async def test_a_child_ends_with_its_call_although_the_store_is_away():
    """Its stop cannot be recorded within the time that its parent waits for its end. Once the store is back, no child is left."""
    store, hanging = FaultyStore(MemoryStore()), HangingTool(name="hang")
    async with open_over(store) as supervisor:
        model = working(calls(("hang", {})))
        session = await supervisor.start_session(model=model, tools=[TaskTool(), hanging])
        await session.prompt("Count.")
        await hanging.started.wait()
        store.go_away()
        with pytest.raises(StoreUnavailable):
            await session.abort("enough")
        store.mend()
        await eventually(lambda: [one.session_id for one in supervisor.sessions()] == [session.session_id])


@pytest.mark.parametrize("how", ["steer", "abort"])
async def test_a_child_that_was_stopped_before_it_began_costs_nothing(how):
    """Its share, all that was left, returns to the budget. It was booked as spent, and no later request was sent."""
    store = FaultyStore(MemoryStore())

    def answer(request):
        if len(request.messages) > 1:
            return says("done")
        store.delay_seconds = 0.1  # the child waits for the record of the response
        return calls(("task", {"description": "Do it"}))

    async with open_over(store) as supervisor:
        session = await supervisor.start_session(
            model=FunctionModel(answer),
            tools=[TaskTool()],
            budget=Budget(max_total_tokens=100_000, allow_unknown_prices=True),
        )
        await session.prompt("Hi")
        await eventually(lambda: store.delay_seconds)
        await trio.testing.wait_all_tasks_blocked(0.01)  # only the store is busy
        await (session.steer("go on") if how == "steer" else session.abort())
        assert await session.ask("And now?") == "done"
