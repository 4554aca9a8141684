"""A tool is called without a model, and the call passes all that calls of models pass."""

import pytest
import trio

from agentrail import CycleAborted, CycleFailed, Ok, OptionError, SessionDown, tool
from agentrail.abc import Error, ToolContext
from agentrail.core.policy.budget import Budget
from agentrail.errors import AlreadyStarted, SessionRefused, UnknownTool
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    AskUser,
    MaxTurnsReached,
    RequestStart,
    ToolExecutionStart,
)
from agentrail.messages import Image
from agentrail.runtime.options import SessionOptions
from agentrail.testing.cancelling import cancel_everywhere, crash
from agentrail.testing.models import FunctionModel
from agentrail.testing.orphans import no_orphans
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import CrashingTool, HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import on_virtual_time, open_bare, saying
from tests.thinned import first

PICTURE = Image(media_type="image/png", data="iVBORw0KGgo=", name="a.png")


def never(request):
    """A model that may not be asked."""
    message = f"a model was asked: {request.messages}"
    raise AssertionError(message)


def people() -> PuppetPlugin:
    """Wants an approval for each call of `shell`."""
    return PuppetPlugin((read_rule("BeforeTool.shell", "approve:may it?"),), name="people")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_call_gives_what_the_tool_says(supervisor):
    """One session, one turn, one call; no model is asked, and nothing is left."""
    async with supervisor.subscribe_all() as everything:
        outcome = await supervisor.call_tool(
            "add", {"a": 2, "b": 3}, model=FunctionModel(never), tools=[add], session_id="s-1"
        )
        assert outcome == Ok(text="5")
        assert supervisor.sessions() == ()
        events = []
        while True:
            try:
                events.append(everything.next_nowait())
            except trio.WouldBlock:
                break
    (start,) = [event for event in events if isinstance(event, ToolExecutionStart)]
    assert (start.name, start.arguments) == ("add", {"a": 2, "b": 3})
    assert [event.stop_reason for event in events if isinstance(event, AgentEnd)] == ["max_turns"]
    assert len([event for event in events if isinstance(event, RequestStart)]) == 1
    assert len([event for event in events if isinstance(event, MaxTurnsReached)]) == 1
    assert supervisor.last_words("s-1").reason == "the call is over"


async def test_options_may_come_in_one_value(supervisor):
    """Those of a profile: its model, fallbacks, answer format and turns do not matter here, and it is not changed."""
    options = SessionOptions(
        model=FunctionModel(never),
        tools=[add],
        response_format={"type": "object"},
        max_turns=50,
        provider_opts={"api_key": "k"},
    )
    assert await supervisor.call_tool("add", {"a": 2, "b": 3}, options) == Ok(text="5")
    assert options.max_turns == 50
    assert await supervisor.call_tool("add", {"a": 1, "b": 1}, options) == Ok(text="2")


async def test_details_and_pictures_come_along(supervisor):
    """As the tool gave them; a failure is an `Error`."""
    for given in (
        Ok(text="see", details={"n": 1}, images=(PICTURE,)),
        Error(text="nothing there", details={"n": 0}),
    ):
        look = RecordingTool(name="look", answer=given)
        assert await supervisor.call_tool("look", tools=[look]) == given


async def test_what_a_model_would_be_told_is_an_error(supervisor):
    """Arguments that the schema does not take, and a tool that raises: no exception, as little as for a model."""
    wrong = await supervisor.call_tool("add", {"a": "two"}, tools=[add])
    assert isinstance(wrong, Error)
    assert "b" in wrong.text
    raised = await supervisor.call_tool("broken", tools=[CrashingTool(name="broken")], tool_max_retries=0)
    assert isinstance(raised, Error)


@pytest.mark.parametrize("tools", [[], [add]], ids=["none", "another"])
async def test_a_tool_that_is_not_there_is_refused(supervisor, tools):
    """Typed, with what is there; nothing was started."""
    with pytest.raises(
        UnknownTool, match=r"there is no tool 'ad' to call: (there are add|give tools)"
    ) as caught:
        await supervisor.call_tool("ad", {}, tools=tools)
    assert (caught.value.code, caught.value.names) == ("unknown_tool", tuple(one.name for one in tools))
    assert supervisor.statistics().started == 0


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        (None, {}, "name is None: expected a text"),
        ("add", [1], r"arguments is \[1\]: expected a mapping"),
        ("add", "{}", "arguments is '{}': expected a mapping"),
        ("add", {"a": float("nan")}, "expected what JSON has"),
        ("add", {"a": object()}, "expected what JSON has"),
        ("add", {1: 2}, "expected what JSON has"),
    ],
)
async def test_what_cannot_be_called_is_refused(supervisor, name, arguments, fault):
    """Before anything starts."""
    with pytest.raises(OptionError, match=fault):
        await supervisor.call_tool(name, arguments, tools=[add])
    assert supervisor.statistics().started == 0


async def test_faults_of_options_are_those_of_a_session(supervisor):
    """Unknown ones, a scope with a slash, an id that is taken, a session that no plugin lets begin, a supervisor that is closed."""
    with pytest.raises(OptionError, match="did you mean 'tools'"):
        await supervisor.call_tool("add", {}, tool=[add])
    with pytest.raises(OptionError, match="scope is 'a/b'"):
        await supervisor.call_tool("add", {}, tools=[add], scope="a/b")
    with pytest.raises(OptionError, match="give them in one way"):
        await supervisor.call_tool("add", {}, SessionOptions(model="demo:"), tools=[add])
    with pytest.raises(OptionError, match="expected SessionOptions"):
        await supervisor.call_tool("add", {}, {"tools": [add]})
    await supervisor.start_session(model=saying(), session_id="s")
    with pytest.raises(AlreadyStarted):
        await supervisor.call_tool("add", {"a": 1, "b": 1}, tools=[add], session_id="s")
    refuses = PuppetPlugin((read_rule("SessionStarted", "abort:no"),), name="refuses")
    with pytest.raises(SessionRefused):
        await supervisor.call_tool("add", {"a": 1, "b": 1}, tools=[add], plugins=[refuses])
    async with open_bare() as closed:
        pass
    with pytest.raises(SessionDown):
        await closed.call_tool("add", {}, tools=[add])


async def test_arguments_are_those_of_the_moment(supervisor):
    """What the caller changes afterwards changes no call that waits."""
    shell = RecordingTool(name="shell")
    arguments = {"command": ["ls"]}
    async with supervisor.subscribe_all(kinds=[ApprovalRequired]) as asked, trio.open_nursery() as nursery:
        nursery.start_soon(call_shell, supervisor, shell, arguments, outcomes := [])
        approval = (await anext(asked)).approval
        arguments["command"].append("-R")
        await supervisor.session("s-1").approve(approval.id)
    assert outcomes[0].text
    assert shell.calls == [{"command": ["ls"]}]


async def call_shell(supervisor, shell, arguments, outcomes, **options):
    """Call `shell`, which wants an approval, and keep what came of it."""
    outcomes.append(
        await supervisor.call_tool(
            "shell", arguments, tools=[shell], plugins=[people()], session_id="s-1", **options
        )
    )


@pytest.mark.parametrize("decision", ["approve", "reject", "edit"])
async def test_a_call_waits_for_its_approval(supervisor, decision):
    """Nothing runs before it; a rejection is an `Error` with its reason, and an edit is what runs."""
    shell = RecordingTool(name="shell")
    outcomes = []
    async with supervisor.subscribe_all(kinds=[ApprovalRequired]) as asked, trio.open_nursery() as nursery:
        nursery.start_soon(call_shell, supervisor, shell, {"n": 1}, outcomes)
        approval = (await anext(asked)).approval
        session = supervisor.session("s-1")
        assert (await session.status()).approvals[0].id == approval.id
        assert (shell.calls, outcomes) == ([], [])
        match decision:
            case "approve":
                await session.approve(approval.id)
            case "edit":
                await session.approve(approval.id, arguments={"n": 2})
            case _:
                await session.reject(approval.id, "not today")
    assert shell.calls == {"approve": [{"n": 1}], "edit": [{"n": 2}], "reject": []}[decision]
    assert isinstance(outcomes[0], Error if decision == "reject" else Ok)
    assert ("not today" in outcomes[0].text) == (decision == "reject")


@on_virtual_time
async def test_an_approval_that_nobody_gives_expires():
    """The call is answered, and its caller with it."""
    shell, outcomes = RecordingTool(name="shell"), []
    async with no_orphans(), open_bare() as supervisor:
        with trio.fail_after(60):
            await call_shell(supervisor, shell, {}, outcomes, approval_timeout_seconds=20)
    assert isinstance(outcomes[0], Error)
    assert shell.calls == []


async def test_a_guard_keeps_a_call_from_running(supervisor):
    """What it says is the result, as a model would read it."""
    guard = PuppetPlugin((read_rule("BeforeTool.shell", "block:not in this house"),), name="guard")
    shell = RecordingTool(name="shell")
    outcome = await supervisor.call_tool("shell", tools=[shell], plugins=[guard])
    assert isinstance(outcome, Error)
    assert "not in this house" in outcome.text
    assert shell.calls == []


async def test_a_plugin_that_refuses_the_prompt_ends_it(supervisor):
    """Before the call began there is no result."""
    bouncer = PuppetPlugin((read_rule("BeforePrompt", "abort:closed"),), name="bouncer")
    with pytest.raises(CycleAborted, match="closed"):
        await supervisor.call_tool("add", {"a": 1, "b": 1}, tools=[add], plugins=[bouncer])
    assert supervisor.sessions() == ()


async def test_a_question_of_the_tool_is_answered_by_people(supervisor):
    """Through the handle of the session, as any question."""

    @tool
    async def ask(*, ctx: ToolContext) -> str:
        """Ask."""
        return f"they said {await ctx.ask_user('Which?', ['a', 'b'])}"

    outcomes = []

    async def call() -> None:
        outcomes.append(await supervisor.call_tool("ask", tools=[ask], session_id="s-1"))

    async with supervisor.subscribe_all(kinds=[AskUser]) as asked, trio.open_nursery() as nursery:
        nursery.start_soon(call)
        question = await anext(asked)
        await supervisor.session("s-1").respond(question.ref, 1)
    assert outcomes == [Ok(text="they said b")]


async def test_cancelling_the_caller_stops_the_tool(supervisor):
    """With all that it has at work, before the cancellation travels on."""
    hanging = HangingTool(name="hang")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                await supervisor.call_tool("hang", tools=[hanging], session_id="s-1")

            nursery.start_soon(call)
            await hanging.started.wait()
            assert supervisor.session("s-1")
            scope.cancel(reason="the caller has left")
    assert scope.cancelled_caught
    assert supervisor.sessions() == ()
    assert supervisor.last_words("s-1").reason == "the call is over"
    assert supervisor.statistics().ended == supervisor.statistics().started


@pytest.mark.parametrize("how", ["abort", "abort_tool", "stop", "crash"])
async def test_what_an_operator_does_to_the_session_is_its_result(supervisor, how):
    """The call is answered by it, and says so; a call is made once, whatever happens to its session."""
    hanging, outcomes = HangingTool(name="hang"), []

    async def call() -> None:
        outcomes.append(await supervisor.call_tool("hang", tools=[hanging], session_id="s-1"))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await hanging.started.wait()
            session = supervisor.session("s-1")
            match how:
                case "abort":
                    await session.abort("enough")
                case "abort_tool":
                    await session.abort_tool("call", "enough")
                case "stop":
                    await session.stop("enough")
                case _:
                    crash(session)
    expected = "Outcome unknown" if how == "crash" else "enough" if how != "stop" else "topped"
    assert isinstance(outcomes[0], Error)
    assert expected in outcomes[0].text


async def test_closing_the_supervisor_answers_the_call():
    """The caller does not hang."""
    hanging, outcomes = HangingTool(name="hang"), []
    async with no_orphans(), trio.open_nursery() as nursery, open_bare() as supervisor:

        async def call() -> None:
            outcomes.append(await supervisor.call_tool("hang", tools=[hanging]))

        nursery.start_soon(call)
        await hanging.started.wait()
    assert isinstance(outcomes[0], Error)


async def test_no_model_stands_behind_it(supervisor):
    """A sub-agent, and a tool that lets a session work, are refused one: an answer that means nothing would pass for one."""

    @tool
    async def delegate(*, ctx: ToolContext) -> str:
        """Delegate."""
        return str(await ctx.run_session("Work"))

    refused = await supervisor.call_tool(
        "delegate", tools=[delegate], model=FunctionModel(never), tool_max_retries=0
    )
    assert isinstance(refused, Error)
    assert "there is no model to ask" in refused.text
    task = await supervisor.call_tool("task", {"description": "Work"}, tools=[TaskTool(), add])
    assert isinstance(task, Error)
    assert "there is no model to ask" in task.text


async def test_a_budget_has_nothing_against_it(supervisor):
    """Neither in money nor in tokens, as long as there is something left at all."""
    budget = Budget(max_cost_usd=0.000001, max_total_tokens=5_000)
    assert await supervisor.call_tool("add", {"a": 1, "b": 1}, tools=[add], budget=budget) == Ok(text="2")


async def test_a_scope_holds_for_it(supervisor):
    """Two tenants may make the same call under one id at once."""
    hanging = {scope: HangingTool(name="hang") for scope in ("a", "b")}
    async with trio.open_nursery() as nursery:
        for scope, one in hanging.items():

            async def call(scope=scope, one=one) -> None:
                await supervisor.call_tool("hang", tools=[one], session_id="s", scope=scope)

            nursery.start_soon(call)
        for one in hanging.values():
            await one.started.wait()
        assert {(one.scope, one.session_id) for one in supervisor.sessions()} == {("a", "s"), ("b", "s")}
        nursery.cancel_scope.cancel(reason="seen")


@pytest.mark.parametrize("mode", first(["cancel", "crash", "close", "abort"], 2))
async def test_it_can_be_cut_anywhere(mode):
    """Nothing is left, wherever it is struck."""

    async def scenario(stage) -> None:
        try:
            assert isinstance(
                await stage.supervisor.call_tool("slow", tools=[RecordingTool(name="slow")]), Ok | Error
            )
        except (CycleAborted, CycleFailed, SessionDown):
            assert mode != "cancel"

    assert await cancel_everywhere(scenario, mode=mode) > 5
