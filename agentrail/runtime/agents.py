"""Agents of a session made ready: all that they name is found when the session is made, and told before anything starts."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from agentrail.abc import Tool, ToolListing
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.session.agent_state import AgentSpec
from agentrail.core.session.cycle import change_of_agent, generation_of_agent
from agentrail.core.stack.loading import Stack, compile_stack, load_plugin
from agentrail.core.stack.narrowing import narrows
from agentrail.core.stack.plugin import Plugin
from agentrail.core.stack.plugin_code import part_entry
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError
from agentrail.frozen import same_json
from agentrail.runtime.agent import Agent
from agentrail.runtime.deps import fault_of_deps
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.ports import ReadyAgent
from agentrail.runtime.tool_specs import ToolSpecs


def make_ready(
    agents: Sequence[Agent],
    listing: ToolListing,
    specs: ToolSpecs,
    find: Callable[[str], ModelFacts],
    stack: Stack,
) -> Mapping[str, ReadyAgent]:
    """Find all that agents name, so that what cannot be found is told before anything starts.

    Args:
        agents: As they were given.
        listing: To whom their tools describe themselves.
        specs: What tools say of themselves.
        find: Finds the provider of a model string, keeps it, and says what is known of it.
        stack: The plugins of the session, whose guards stay in that of each agent.

    Raises:
        ToolDefinitionError, PluginError, ModelNotFound, Authentication, OptionError: Your move; as of `start_session`.
    """
    ready: dict[str, ReadyAgent] = {}
    for agent in agents:
        _check_narrowing(agent, stack)
        plugins = None if agent.plugins is None else _plugins_of(agent, stack)
        box, tools = None, None
        if agent.tools is not None:
            box, names = specs.box_of(agent.tools, listing)
            tools = dict(zip(names, agent.tools, strict=True))
        facts = None if agent.model is None else find(agent.model)
        ready[agent.name] = ReadyAgent(
            spec=_spec_of(agent, facts, box, plugins),
            max_turns=agent.max_turns,
            tools=tools,
            plugins=None
            if plugins is None
            else tuple([(one, record.options or {}) for one, record in plugins]),
            result=None if agent.result is None else ResponseFormat(agent.result),
            user_data=agent.user_data,
            deps=agent.deps,
            replace_sections=agent.replace_sections,
        )
    return ready


def check_deps(agents: Sequence[Agent], deps: object) -> None:
    """Look whether the tools of agents are given what they want.

    Args:
        agents: As they were given.
        deps: What the tools of the session work with, and those of an agent that names nothing else, or that takes the session over.

    Raises:
        OptionError: Your move: one is given something else; all such tools at once.
    """
    faults: list[str] = []
    for agent in agents:
        given = [deps if agent.deps is None else agent.deps, *([deps] if agent.handoff else [])]
        for tool in agent.tools or ():
            found = [fault for one in given if (fault := fault_of_deps(one, tool)) is not None]
            faults += [f"agent {agent.name!r}: {fault}" for fault in found[:1]]
    if faults:
        raise OptionError(faults)


def tools_of_agents(agents: Mapping[str, ReadyAgent]) -> dict[tuple[str, int], Tool]:
    """Give the tools of agents as `Ports.tools` has them, for a session that may be handed over."""
    return {
        (name, generation_of_agent(place)): tool
        for place, agent in enumerate(agents.values())
        if agent.spec.handoff and agent.tools is not None
        for name, tool in agent.tools.items()
    }


def warning_of_unused(agents: Mapping[str, ReadyAgent], tools: Toolbox) -> str | None:
    """Name the agents that the model has no tool for; None if there are none.

    They are not refused: `TaskTool` may be attached later, and the code of any tool may start them with `ctx.run_session`.
    """
    unused = [name for name, agent in agents.items() if not (agent.spec.background or agent.spec.handoff)]
    boxes = [tools, *(agent.spec.tools for agent in agents.values() if agent.spec.handoff)]
    specs = [spec for box in boxes if box is not None for spec in box.specs]
    if not unused or any(spec.answered_by == "child" or spec.name == _SKILL for spec in specs):
        return None
    return (
        f"the model cannot start {', '.join(map(repr, unused))} of agents=: no tool of the session gives work to agents. Add TaskTool() to tools=, or "
        "give the agent background=True or handoff=True. Ignore this if a tool of yours starts it with ctx.run_session(agent=…)"
    )


_SKILL: Final = "skill"
"""The tool that opens skills. A skill may name the agent that works by it."""


def keep_plugins(agents: Mapping[str, ReadyAgent], watch: PluginWatch) -> None:
    """Keep the plugins of agents where a step finds them that hands a session over."""
    for name, agent in agents.items():
        for plugin, _ in agent.plugins or ():
            watch.keep(change_of_agent(name, plugin.name), plugin)


def _check_narrowing(agent: Agent, stack: Stack) -> None:
    """Refuse an agent whose permissions nothing would hold once a session is handed over to it."""
    if agent.handoff and agent.permissions is not None and not narrows(stack):
        fault = (
            f"agent {agent.name!r} has permissions of its own and may take the session over, which has no plugin that holds them: "
            "give the session the plugin Permissions"
        )
        raise OptionError([fault])


def _plugins_of(agent: Agent, stack: Stack) -> tuple[tuple[Plugin, PluginRecord], ...]:
    """Make the plugins of an agent, but for those that are guards of its session already.

    Raises:
        PluginError: Your move: one that cannot be loaded.
        OptionError: Your move: one that is named like a guard of the session, and is another one.
    """
    made = [part_entry(entry, stack.ask) for entry in agent.plugins or ()]
    members = [load_plugin((plugin, record.options or {}), ask=stack.ask)[0] for plugin, record in made]
    compile_stack(members, ask=stack.ask)
    left: list[tuple[Plugin, PluginRecord]] = []
    faults: list[str] = []
    for one, (plugin, record) in zip(members, made, strict=True):
        guard = stack.find(one.name)
        if guard is None or not guard.guards:
            left.append((plugin, record))
        elif type(guard.plugin) is not type(plugin) or not same_json(guard.options, one.options):
            faults.append(
                f"agent {agent.name!r}: its plugin {one.name!r} has the name of a guard of the session, which stays as it is: "
                "name it otherwise, or leave it out"
            )
    if faults:
        raise OptionError(faults)
    return tuple(left)


def _spec_of(
    agent: Agent,
    facts: ModelFacts | None,
    box: Toolbox | None,
    plugins: tuple[tuple[Plugin, PluginRecord], ...] | None,
) -> AgentSpec:
    records = None if plugins is None else tuple([record for _, record in plugins])
    return AgentSpec(
        name=agent.name,
        description=agent.description,
        digest=_digest_of(agent, box, records),
        background=agent.background,
        wake=agent.wake,
        handoff=agent.handoff,
        budget=agent.budget,
        system_prompt=agent.system_prompt,
        model=facts,
        tools=box,
        permissions=agent.permissions,
        # A session below is given the code itself: only one that is handed over finds it by its record.
        plugins=records if agent.handoff else None,
    )


def _digest_of(agent: Agent, box: Toolbox | None, records: tuple[PluginRecord, ...] | None) -> str:
    tools = None
    if box is not None:
        tools = [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in box
        ]
    said: list[Any] = [
        agent.name,
        agent.description,
        agent.system_prompt,
        agent.model,
        tools,
        agent.max_turns,
    ]
    more = [agent.permissions, agent.result, records]
    said += [] if more == [None, None, None] else more  # as it was for those that were stored without
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()
