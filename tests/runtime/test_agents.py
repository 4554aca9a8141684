"""Agents that a session may let work: what a caller says of them, and that the session made of one is as it says."""

from typing import Any, cast

import pytest

from agentrail.errors import ModelNotFound, OptionError
from agentrail.runtime.agent import Agent
from agentrail.testing.models import FunctionModel, says
from tests.thinned import each

SCOUT = Agent(name="scout", description="Finds files.", system_prompt="You look.", tools=(), max_turns=2)


@each(
    ("options", "fault"),
    [
        ({"name": "a b"}, "agent 'a b': name is 'a b': expected 1 to 64 of A-Z a-z 0-9 _ -"),
        (
            {"description": " "},
            "description is empty or not text: describe the agent's purpose, so that the model can choose it",
        ),
        ({"system_prompt": 3}, "system_prompt is 3: expected text or None"),
        ({"model": 3}, "model is 3: expected text or None"),
        ({"background": "yes"}, "background is 'yes': expected True or False"),
        ({"wake": 1}, "wake is 1: expected True or False"),
        ({"handoff": None}, "handoff is None: expected True or False"),
        ({"budget": 7}, "budget is 7: expected Budget"),
        ({"max_turns": 0}, "max_turns is 0: expected a whole number >= 1, or None"),
        ({"user_data": 7}, "user_data is of type int: expected a mapping"),
        ({"user_data": {"user_id": "eve"}}, "user_data sets 'user_id', which identifies the session's owner"),
        ({"skills": "all"}, "skills is 'all': expected SkillUse"),
        ({"permissions": {"deny": ["shell("], "more": 1}}, "permissions: more: unknown"),
        ({"permissions": {"deny": ["shell("]}}, "permissions: deny[0] at 6"),
        ({"permissions": ["x"]}, "expected a mapping of mode, deny, ask and allow"),
        ({"permissions": {"deny": {1}}}, "expected a mapping of mode"),
        ({"plugins": "SecurityGuard"}, "expected a sequence of plugins, or None"),
        ({"result": {"type": "wild"}}, "agent 'scout': result is"),
        ({"result": 7}, "expected a JSON Schema"),
    ],
)
def test_an_agent_that_cannot_be_is_refused_where_it_is_made(options, fault):
    """With its name, what came and what it takes (12.11)."""
    with pytest.raises(OptionError) as refused:
        Agent(**({"name": "scout", "description": "Looks."} | options))
    assert fault in "\n".join([str(refused.value), *refused.value.faults])


@pytest.mark.parametrize(
    ("agents", "fault"),
    [
        ("scout", "agents is 'scout': expected a sequence of Agent"),
        ([3], "agents has 3: expected Agent(name=…, description=…)"),
        ([SCOUT, SCOUT], "agents has two entries named 'scout': names are unique in a session"),
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
