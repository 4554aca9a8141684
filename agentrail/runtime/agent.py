"""Caller-defined agents that a session can delegate to."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from attrs import NOTHING, evolve, field, fields, frozen

from agentrail.abc import Tool
from agentrail.core.policy.budget import Budget
from agentrail.core.policy.response_format import fault_of_format
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import OptionError
from agentrail.frozen import TooDeep, frozen_json, not_json
from agentrail.otp.field_rules import Count, faults_of_fields
from agentrail.otp.guarded_calls import repr_of
from agentrail.plugins.permission_policy import read_scope

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

SAYS_WHOSE: Final = ("tenant_id", "user_id", "agent_id", "metadata", "temporary")
"""Keys of `user_data` that the host sets, such as the owner of a session. The root's values apply to every session below it."""


class Equipment(Protocol):
    """Bundle that provides an agent with more tools and plugins, such as skills."""

    def equip(
        self, tools: Sequence[Tool], plugins: Sequence[PluginEntry]
    ) -> tuple[tuple[Tool, ...], tuple[PluginEntry, ...]]: ...


@frozen(kw_only=True)
class AgentRole:
    """The ways in which an agent works for others."""

    background: bool = False
    wake: bool = False
    handoff: bool = False


@frozen(kw_only=True)
class Agent(AgentRole):
    """An agent that can work for a session. Unset fields default to the session's values.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`, unique in a session. The model chooses the agent by it.
        description: Description for the model.
        system_prompt: Its system prompt.
        model: A model string.
        tools: Tools that it can call.
        plugins: Plugins in addition to the session's guards (priority below 100). Guards always stay, with their
            options at the agent's start. None: all plugins of the session.
        permissions: Its permissions: `mode`, `deny`, `ask`, `allow`, as for the plugin `Permissions`. It never has more
            than its session: a call needs the permission of both. Unset parts are the session's.
        result: JSON Schema of its answers when it works for the session. The model reads the JSON. None: any text.
        max_turns: Maximum number of model calls in one of its cycles, when it works for the session and not in its
            place.
        background: Whether it can be started in the background, by `spawn_agent`.
        wake: Whether the end of one of its cycles starts a cycle of the session, if the session is idle and not waiting
            for it. A sub-agent with a budget is not woken: its parent starts, and pays for, each of its cycles.
        handoff: Whether `handoff_to` can hand the session over to it. The session then continues with the agent's
            prompt, model and tools, and keeps its own conversation, queue and plugins.
        budget: Spending limit of each of its background cycles. None: a share of the remainder.
        skills: `SkillUse(skills=read_skills(…))`: its own skills, in place of the session's. If it does not set tools,
            or plugins, it then gets the session's original ones.
        user_data: Data for its tools, when it works for the session and not in its place. None: the session's. Must
            not contain the owner (`tenant_id`, `user_id`, `agent_id`, `metadata`), which stays the same.
        deps: Dependencies of its tools, as in `SessionOptions`, when it works for the session and not in its place.
            None: the session's.
        replace_sections: See `SessionOptions`. Applies when it works for the session and not in its place. None: the
            session's.
        blueprint: A `Blueprint` that provides the unset fields. Its name and description are ignored.

    Raises:
        OptionError: Your move: every fault, with the given value and the expected one.
    """

    name: str
    description: str
    system_prompt: str | None = None
    model: str | None = None
    tools: Sequence[Tool] | None = None
    plugins: Sequence[PluginEntry] | None = None
    permissions: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    max_turns: Count | None = None
    budget: Budget | None = None
    skills: Equipment | None = None
    user_data: Mapping[str, Any] | None = None
    deps: object = field(default=None, repr=False, eq=False)
    replace_sections: Mapping[str, str] | None = None
    blueprint: object = None

    def __attrs_post_init__(self) -> None:
        """Fill in the fields of the blueprint, then validate."""
        if self.blueprint is not None:
            _fill(self)
        OptionError.raise_for([f"agent {repr_of(self.name):.80}: {fault}" for fault in _faults_of(self)])
        for name in ("permissions", "result", "user_data", "replace_sections"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, frozen_json(value))


def equip_agent(agent: Agent, tools: Sequence[Tool], plugins: Sequence[PluginEntry]) -> Agent:
    if agent.skills is None:
        return agent
    own, watching = agent.skills.equip(
        tools if agent.tools is None else agent.tools, plugins if agent.plugins is None else agent.plugins
    )
    return evolve(agent, tools=own, plugins=watching, skills=None, blueprint=None)


def _fill(agent: Agent) -> None:
    make: Any = getattr(agent.blueprint, "override", None)
    if isinstance(agent.blueprint, type) or make is None or not hasattr(agent.blueprint, "as_agent"):
        fault = f"agent {repr_of(agent.name):.80}: blueprint is {repr_of(agent.blueprint):.80}: expected a Blueprint, or None"
        raise OptionError([fault])
    behind = make(name=agent.name, description=agent.description).as_agent()
    for one in fields(Agent):
        if one.default is not NOTHING and getattr(agent, one.name) == one.default:
            object.__setattr__(agent, one.name, getattr(behind, one.name))


def _faults_of(agent: Any) -> Iterator[str]:
    if not isinstance(agent.name, str) or not _NAME.fullmatch(agent.name):
        yield f"name is {repr_of(agent.name):.80}: expected 1 to 64 of A-Z a-z 0-9 _ -"
    if not isinstance(agent.description, str) or not agent.description.strip():
        yield "description is empty or not text: describe the agent's purpose, so that the model can choose it"
    for name in ("system_prompt", "model"):
        value = getattr(agent, name)
        if value is not None and not isinstance(value, str):
            yield f"{name} is {repr_of(value):.80}: expected text or None"
    yield from _faults_of_rules(agent.permissions)
    yield from _faults_of_result(agent.result)
    yield from _faults_of_data(agent.user_data)
    sections = agent.replace_sections
    are_texts = isinstance(sections, Mapping) and all(
        isinstance(text, str) for pair in sections.items() for text in pair
    )
    can_equip = agent.skills is None or callable(getattr(agent.skills, "equip", None))
    are_plugins = isinstance(agent.plugins, Sequence | None) and not isinstance(agent.plugins, str)
    checks = (
        ("replace_sections", sections is None or are_texts, "texts by the keys of sections, or None"),
        ("skills", can_equip, "SkillUse(skills=read_skills(…)), or None"),
        ("plugins", are_plugins, "a sequence of plugins, or None"),
    )
    for name, is_right, expected in checks:
        if not is_right:
            yield f"{name} is {repr_of(getattr(agent, name)):.80}: expected {expected}"
    yield from faults_of_fields(agent, Agent, "background", "wake", "handoff", "max_turns", "budget")


def _faults_of_rules(permissions: Any) -> Iterator[str]:
    if permissions is None:
        return
    if not isinstance(permissions, Mapping) or not_json(permissions) is not None:
        yield f"permissions is {repr_of(permissions):.80}: expected a mapping of mode, deny, ask and allow, or None"
        return
    try:
        read_scope("session", permissions)
    except OptionError as error:
        yield from (f"permissions: {fault}" for fault in error.faults)


def _faults_of_data(data: Any) -> Iterator[str]:
    if data is None:
        return
    if not isinstance(data, Mapping):
        yield f"user_data is of type {type(data).__name__}: expected a mapping, or None"
        return
    try:
        frozen_json(data)
    except TooDeep as error:
        yield f"user_data: {error}"
    for name in SAYS_WHOSE:
        if name in data:
            yield f"user_data sets {name!r}, which identifies the session's owner: remove it"


def _faults_of_result(result: Any) -> Iterator[str]:
    if result is None:
        return
    fault = "expected a JSON Schema" if not isinstance(result, Mapping) else fault_of_format(result)
    if fault is not None:
        yield f"result is {repr_of(result):.80}: {fault}"
