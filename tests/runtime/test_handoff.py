"""A session that goes on as another of its agents: its tools run, it comes back as that one, and sessions below have no such tool."""

from agentrail.events import AgentChanged, SessionRestarted, ToolExecutionEnd
from agentrail.runtime.agent import Agent
from agentrail.testing.cancelling import crash
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool


def clerk(**options):
    """An agent with a tool of its own."""
    given = {"tools": [RecordingTool(name="pay")], "system_prompt": "You pay.", "handoff": True}
    return Agent(name="clerk", description="Pays.", **(given | options))


async def test_the_tools_of_the_other_agent_run_and_those_before_do_not(supervisor):
    """From the next request on, also where both have one of a name (12.2.8)."""
    ours, theirs = RecordingTool(name="look"), RecordingTool(name="look")
    seen = []

    def answer(request):
        seen.append((request.system, request.tools.names))
        match len(request.messages):
            case 1:
                return calls(("look", {}), ("handoff_to", {"agent": "clerk", "note": "He owes ten."}))
            case 3:
                return calls(("look", {}), ("read", {}))
        return says("paid")

    session = await supervisor.start_session(
        model=FunctionModel(answer),
        tools=[ours, RecordingTool(name="read")],
        agents=[clerk(tools=[theirs])],
        system_prompt="You lead.",
    )
    async with session.subscribe(kinds=[AgentChanged, ToolExecutionEnd]) as events:
        assert await session.ask("go") == "paid"
        said = [await anext(events) for _ in range(5)]
    assert seen[0] == ("You lead.", ("handoff_to", "look", "read"))
    assert seen[1:] == [("You pay.", ("handoff_to", "look"))] * 2
    (changed,) = [event for event in said if isinstance(event, AgentChanged)]
    assert changed == AgentChanged(to_agent="clerk", note="He owes ten.")
    assert (len(ours.calls), len(theirs.calls)) == (1, 1)
    unknown = [event for event in said if isinstance(event, ToolExecutionEnd) and event.name == "read"]
    assert unknown[0].result.is_error
    assert (await session.status()).agent == "clerk"


async def test_it_is_that_agent_still_after_a_crash_and_after_other_changes(supervisor, autojump_clock):
    """What a session works as is part of its state; and tools that were attached are there beside."""
    asked = []

    def answer(request):
        asked.append((request.system, request.tools.names))
        first = len(request.messages) == 1
        return calls(("handoff_to", {"agent": "clerk"})) if first else says("ok")

    session = await supervisor.start_session(model=FunctionModel(answer), agents=[clerk()])
    assert await session.ask("go") == "ok"
    await session.attach_tools(RecordingTool(name="look"))
    await session.detach_tools("look")
    async with session.subscribe(kinds=[SessionRestarted]) as events:
        crash(session)
        await anext(events)
    assert await session.ask("again") == "ok"
    assert asked[-1] == ("You pay.", ("handoff_to", "pay"))


async def test_a_model_calls_a_tool_of_an_agent_that_came_behind_other_changes(supervisor):
    """What agents bring is kept for them, whatever tools come and go before."""
    agent = clerk()
    (pay,) = agent.tools or ()

    def answer(request):
        if "pay" not in request.tools.names:
            return calls(("handoff_to", {"agent": "clerk"}))
        return says("paid") if pay.calls else calls(("pay", {}))

    session = await supervisor.start_session(model=FunctionModel(answer), agents=[agent])
    for _ in range(3):
        await session.attach_tools(RecordingTool(name="look"))
    await session.detach_tools("look")

    assert await session.ask("hand over") == "paid"
    assert len(pay.calls) == 1


async def test_a_session_below_cannot_be_handed_over_and_has_the_prompt_of_the_one_above(supervisor):
    """It is for the session itself; one that works for it is what it was started as."""
    asked = []

    def answer(request):
        asked.append((request.system, request.tools.names))
        if request.messages[0].content[0].text == "Look.":
            return says("looked")
        match len(request.messages):
            case 1:
                return calls(("handoff_to", {"agent": "poet"}))
            case 3:
                return calls(("task", {"description": "Look."}))
        return says("done")

    poet = Agent(name="poet", description="Writes.", handoff=True, system_prompt="You write.")
    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[TaskTool()], agents=[poet], system_prompt="You lead."
    )
    assert await session.ask("go") == "done"
    assert ("You write.", ()) in asked
