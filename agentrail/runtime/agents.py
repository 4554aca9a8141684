"""Agents of a session made ready: all that they name is found when the session is made, and told before anything starts."""

import hashlib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from agentrail.abc import Tool, ToolListing
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.session.agent_state import AgentSpec
from agentrail.core.session.handoff import generation_of_agent
from agentrail.core.values.toolbox import Toolbox
from agentrail.runtime.agent import Agent
from agentrail.runtime.ports import ReadyAgent
from agentrail.runtime.tool_specs import ToolSpecs


def make_ready(
    agents: Sequence[Agent], listing: ToolListing, specs: ToolSpecs, find: Callable[[str], ModelFacts]
) -> Mapping[str, ReadyAgent]:
    """Find all that agents name, so that what cannot be found is told before anything starts.

    Args:
        agents: As they were given.
        listing: To whom their tools describe themselves.
        specs: What tools say of themselves.
        find: Finds the provider of a model string, keeps it, and says what is known of it.

    Raises:
        ToolDefinitionError, ModelNotFound, Authentication, OptionError: Your move; as of `start_session`.
    """
    ready: dict[str, ReadyAgent] = {}
    for agent in agents:
        box, tools = None, None
        if agent.tools is not None:
            box, names = specs.box_of(agent.tools, listing)
            tools = dict(zip(names, agent.tools, strict=True))
        facts = None if agent.model is None else find(agent.model)
        ready[agent.name] = ReadyAgent(
            spec=_spec_of(agent, facts, box), max_turns=agent.max_turns, tools=tools
        )
    return ready


def tools_of_agents(agents: Mapping[str, ReadyAgent]) -> dict[tuple[str, int], Tool]:
    """Give the tools of agents as `Ports.tools` has them, for a session that may be handed over."""
    return {
        (name, generation_of_agent(place)): tool
        for place, agent in enumerate(agents.values())
        if agent.spec.handoff and agent.tools is not None
        for name, tool in agent.tools.items()
    }


def _spec_of(agent: Agent, facts: ModelFacts | None, box: Toolbox | None) -> AgentSpec:
    return AgentSpec(
        name=agent.name,
        description=agent.description,
        digest=_digest_of(agent, box),
        background=agent.background,
        wake=agent.wake,
        handoff=agent.handoff,
        budget=agent.budget,
        system_prompt=agent.system_prompt,
        model=facts,
        tools=box,
    )


def _digest_of(agent: Agent, box: Toolbox | None) -> str:
    tools = None
    if box is not None:
        tools = [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in box
        ]
    said = [agent.name, agent.description, agent.system_prompt, agent.model, tools, agent.max_turns]
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()
