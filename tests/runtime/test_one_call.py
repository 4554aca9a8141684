"""A tool is called without a model, and the call passes all that calls of models pass."""

from functools import partial

import pytest
import trio

from agentrail import CycleAborted, CycleFailed, Ok, OptionError, SessionDown, tool
from agentrail.abc import Error, ToolContext
from agentrail.core.policy.budget import Budget
from agentrail.errors import AlreadyStarted, SessionRefused, UnknownTool
from agentrail.messages import Image
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.cancelling import cancel_everywhere
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import CrashingTool, HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import eventually, open_bare, open_over, saying
from tests.thinned import first, sampled

PICTURE = Image(media_type="image/png", data="iVBORw0KGgo=", name="a.png")


def never(request):
    message = f"a model was asked: {request.messages}"
    raise AssertionError(message)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


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


async def test_details_and_pictures_come_along_and_faults_are_errors(supervisor):
    """As the tool gave them; arguments that the schema does not take, and a tool that raises, are what a model would be told."""
    for given in (
        Ok(text="see", details={"n": 1}, images=(PICTURE,)),
        Error(text="nothing there", details={"n": 0}),
    ):
        look = RecordingTool(name="look", answer=given)
        assert await supervisor.call_tool("look", tools=[look]) == given
    wrong = await supervisor.call_tool("add", {"a": "two"}, tools=[add])
    assert isinstance(wrong, Error)
    assert "b" in wrong.text
    raised = await supervisor.call_tool("broken", tools=[CrashingTool(name="broken")], tool_max_retries=0)
    assert isinstance(raised, Error)


async def test_what_cannot_be_called_is_refused(supervisor):
    """Before anything starts; of a tool that is not there it is said what is."""
    for name, arguments, fault in (
        (None, {}, "name is None: expected a text"),
        ("add", [1], r"arguments is \[1\]: expected a mapping"),
        ("add", "{}", "arguments is '{}': expected a mapping"),
        ("add", {"a": float("nan")}, "expected JSON values"),
        ("add", {"a": object()}, "expected JSON values"),
        ("add", {1: 2}, "expected JSON values"),
    ):
        with pytest.raises(OptionError, match=fault):
            await supervisor.call_tool(name, arguments, tools=[add])
    for tools, fault in (([], "give tools"), ([add], "expected one of add")):
        with pytest.raises(UnknownTool, match=f"there is no tool 'ad' to call: {fault}") as caught:
            await supervisor.call_tool("ad", {}, tools=tools)
        assert (caught.value.code, caught.value.names) == ("unknown_tool", tuple(one.name for one in tools))
    assert supervisor.statistics().started == 0


async def test_faults_of_options_are_those_of_a_session(supervisor):
    """Unknown ones, a scope with a slash, an id that is taken, a session that no plugin lets begin, a supervisor that is closed."""
    with pytest.raises(OptionError, match="did you mean 'tools'"):
        await supervisor.call_tool("add", {}, tool=[add])
    with pytest.raises(OptionError, match="scope is 'a/b'"):
        await supervisor.call_tool("add", {}, tools=[add], scope="a/b")
    with pytest.raises(OptionError, match="use one of the two"):
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


async def test_a_plugin_that_refuses_the_prompt_ends_it(supervisor):
    """Before the call began there is no result."""
    bouncer = PuppetPlugin((read_rule("BeforePrompt", "abort:closed"),), name="bouncer")
    with pytest.raises(CycleAborted, match="closed"):
        await supervisor.call_tool("add", {"a": 1, "b": 1}, tools=[add], plugins=[bouncer])
    assert supervisor.sessions() == ()


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
    assert "this session has no model" in refused.text
    task = await supervisor.call_tool("task", {"description": "Work"}, tools=[TaskTool(), add])
    assert isinstance(task, Error)
    assert "this session has no model" in task.text


async def test_a_budget_has_nothing_against_it(supervisor):
    """Neither in money nor in tokens, as long as there is something left at all."""
    budget = Budget(max_cost_usd=0.000001, max_total_tokens=5_000)
    assert await supervisor.call_tool("add", {"a": 1, "b": 1}, tools=[add], budget=budget) == Ok(text="2")


@pytest.mark.parametrize("mode", sampled(first(["cancel", "crash", "close", "abort"], 2)))
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


@pytest.mark.parametrize("fault", ["go_away", "hang"])
async def test_its_session_ends_although_the_store_is_away(fault):
    """Nothing of a cancelled call is left when the store is back."""
    store, hanging = FaultyStore(MemoryStore()), HangingTool(name="hang")
    async with open_over(store, store_patience=0.2) as supervisor:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(supervisor.call_tool, "hang", tools=[hanging]))
            await hanging.started.wait()
            getattr(store, fault)()
            nursery.cancel_scope.cancel()
        store.mend()
        await eventually(lambda: not supervisor.sessions())
