"""Agents that a session may let work: what a caller says of them, and that the session made of one is as it says."""

from typing import Any, cast

import pytest

from agentrail.abc import ToolListing
from agentrail.core.policy.budget import Budget
from agentrail.errors import ModelNotFound, OptionError
from agentrail.events import SubagentStart, ToolExecutionEnd
from agentrail.runtime.agent import Agent
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool

SCOUT = Agent(name="scout", description="Finds files.", system_prompt="You look.", tools=(), max_turns=2)


async def test_an_agent_brings_its_own_prompt_tools_and_turns(supervisor):
    """What it does not say is that of its parent, which goes on with its own (12.2)."""
    seen = []

    def answer(request):
        seen.append((request.system, request.tools.names))
        if request.system == "You look.":
            return says("found")
        wanted = calls(("task", {"description": "Look.", "subagent_type": "scout"}))
        return says("all done") if len(request.messages) > 1 else wanted

    session = await supervisor.start_session(
        model=FunctionModel(answer),
        tools=[TaskTool(), RecordingTool(name="read")],
        agents=[SCOUT],
        system_prompt="You lead.",
    )
    async with session.subscribe(kinds=[SubagentStart, ToolExecutionEnd]) as events:
        assert await session.ask("go") == "all done"
        await anext(events)
        assert (await anext(events)).result.text == "found"
    assert seen == [
        ("You lead.", ("read", "task")),
        ("You look.", ()),
        ("You lead.", ("read", "task")),
    ]


async def test_a_kind_that_is_none_is_answered_with_those_that_are(supervisor):
    """The names are data of the session (12.2.1)."""
    wrong = calls(("task", {"description": "x", "subagent_type": "wizard"}))

    def answer(request):
        return says("ok") if len(request.messages) > 1 else wrong

    session = await supervisor.start_session(model=FunctionModel(answer), tools=[TaskTool()], agents=[SCOUT])
    async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
        await session.ask("go")
        result = (await anext(events)).result
    assert result.text == "There is no sub-agent of type 'wizard'. Types: scout, general-purpose."


async def test_the_description_of_the_tool_lists_the_agents(supervisor):
    """The model chooses by it; without agents it is as it was."""
    session = await supervisor.start_session(
        model=FunctionModel(lambda request: says(request.tools.get("task").description)),
        tools=[TaskTool()],
        agents=[SCOUT],
    )
    said = await session.ask("what is there?")
    assert "\n- scout: Finds files.\n- general-purpose: has the same tools as you" in said
    alone = ToolListing(session_id="s", model="m", working_dir=".", user_data={})
    assert "subagent_type" not in TaskTool().description(alone)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"name": "a b"}, "agent 'a b': name is 'a b': expected 1 to 64 of A-Z a-z 0-9 _ -"),
        ({"description": " "}, "description is empty or no text: say what it is for"),
        ({"system_prompt": 3}, "system_prompt is 3: expected text or None"),
        ({"model": 3}, "model is 3: expected text or None"),
        ({"background": "yes"}, "background is 'yes': expected True or False"),
        ({"wake": 1}, "wake is 1: expected True or False"),
        ({"handoff": None}, "handoff is None: expected True or False"),
        ({"budget": 7}, "budget is 7: expected Budget"),
        ({"max_turns": 0}, "max_turns is 0: expected a whole number from 1, or None"),
    ],
)
def test_an_agent_that_cannot_be_is_refused_where_it_is_made(options, fault):
    """With what came and what it takes."""
    with pytest.raises(OptionError) as refused:
        Agent(**({"name": "scout", "description": "Looks."} | options))
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("agents", "fault"),
    [
        ("scout", "agents is 'scout': expected a sequence of Agent"),
        ([3], "agents has 3: expected Agent(name=…, description=…)"),
        ([SCOUT, SCOUT], "agents has two that are named 'scout': names are unique in a session"),
        ([Agent(name="a", description="b", tools=cast("Any", [3]))], "agent 'a': tools has 3"),
        (
            [Agent(name="a", description="b", tools=cast("Any", 7))],
            "agent 'a': tools is 7: expected a sequence of tools",
        ),
    ],
)
async def test_agents_that_cannot_be_are_refused_before_anything_starts(supervisor, agents, fault):
    """All faults at once, as of every option."""
    with pytest.raises(OptionError) as refused:
        await supervisor.start_session(model=FunctionModel(lambda _: says("hi")), agents=agents)
    assert fault in str(refused.value)
    assert supervisor.statistics().started == 0


async def test_the_model_of_an_agent_is_looked_for_at_the_start(supervisor):
    """A name that is none is told before anything starts, and not in the middle of a cycle."""
    wrong = Agent(name="a", description="b", model="nowhere:x")
    with pytest.raises(ModelNotFound):
        await supervisor.start_session(model=FunctionModel(lambda _: says("hi")), agents=[wrong])
    assert supervisor.statistics().started == 0


async def test_an_agent_changes_its_digest_with_what_it_is_made_of(supervisor):
    """Two of one digest behave alike."""

    async def digest_of(**changes):
        agent = Agent(**({"name": "a", "description": "b"} | changes))
        session = await supervisor.start_session(model=FunctionModel(lambda _: says("hi")), agents=[agent])
        cell = session._cell  # noqa: SLF001 - no caller may see it
        return cell.state.data.config.agents[0].digest

    assert await digest_of() == await digest_of(budget=Budget(max_total_tokens=1))
    changed = [
        await digest_of(**one) for one in ({}, {"tools": ()}, {"system_prompt": "x"}, {"max_turns": 3})
    ]
    assert len(set(changed)) == len(changed)


BACKGROUND = Agent(name="runner", description="Runs.", background=True)
HANDOFF = Agent(name="clerk", description="Takes over.", handoff=True)
LEADING = Agent(name="head", description="Takes over.", handoff=True, tools=(TaskTool(),))


@pytest.mark.parametrize(
    ("agents", "tools", "unused"),
    [
        ([SCOUT], [], "'scout'"),
        (
            [SCOUT, HANDOFF, Agent(name="other", description="x")],
            [RecordingTool(name="read")],
            "'scout', 'other'",
        ),
        ([SCOUT, BACKGROUND], [], "'scout'"),
        ([SCOUT], [TaskTool()], None),
        ([SCOUT], [RecordingTool(name="skill")], None),
        ([SCOUT, LEADING], [], None),
        ([BACKGROUND, HANDOFF], [], None),
        ([], [], None),
    ],
)
async def test_agents_that_no_tool_starts_are_told_to_the_log(supervisor, caplog, agents, tools, unused):
    """Once, at the start, with both cures; the session works, as tools can be attached later."""
    session = await supervisor.start_session(
        model=FunctionModel(lambda _: says("hi")), agents=agents, tools=tools, session_id="s"
    )
    assert await session.ask("go") == "hi"
    told = [one.getMessage() for one in caplog.records if "agents=" in one.getMessage()]
    message = (
        f"session s: the model cannot start {unused} of agents=: no tool of the session gives work to agents. Add TaskTool() to tools=, or "
        "give the agent background=True or handoff=True. Ignore this if a tool of yours starts it with ctx.run_session(agent=…)"
    )
    assert told == ([] if unused is None else [message])
