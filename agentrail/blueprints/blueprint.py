"""`Blueprint`: the configuration of a session, as a value."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Unpack

import attrs
from attrs import field, frozen

from agentrail.abc import Provider, Tool, name_of
from agentrail.blueprints.capabilities import (
    CAPABILITIES,
    CODING_CAPABILITIES,
    CODING_PLUGINS,
    CODING_TOOLS,
    memory_capability,
)
from agentrail.blueprints.capability import (
    Capability,
    faults_of_plugin_entries,
    is_guard,
    is_same_guard,
    keys_of_sections,
    name_of_plugin,
    placed,
)
from agentrail.blueprints.permission_options import (
    faults_of_policies,
    is_planning,
    permissions_of_agent,
    with_guard_for_agents,
    with_policies,
)
from agentrail.blueprints.skill_discovery import SkillUse, with_skill_plugins, with_skill_tools
from agentrail.blueprints.system_prompt import (
    BASE_KEY,
    OWN_KEY,
    PromptContext,
    PromptLayers,
    PromptPart,
    PromptSection,
    capability_parts,
    decide_replaced,
    decide_sections,
    join_prompt,
    values_for_prompt,
)
from agentrail.config.settings import PolicySettings
from agentrail.config.skill_set import SkillSet, ToolsMode
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import OptionError
from agentrail.frozen import EMPTY, frozen_json
from agentrail.otp.field_rules import all_items
from agentrail.otp.guarded_calls import repr_of
from agentrail.plugins.skill_listing import SKILLS_SECTION, SkillSelector
from agentrail.plugins.skills_of_agent import OF_AGENT, AgentSkillListing
from agentrail.runtime.agent import Agent, AgentRole
from agentrail.runtime.arguments import fault_of, refuse
from agentrail.runtime.base_prompt import BASE_PROMPT
from agentrail.runtime.keywords import OwnKeywords
from agentrail.runtime.session_options import faults_of_value
from agentrail.tools.exit_plan import exit_plan

OF_AN_AGENT: Final = frozenset(
    {
        *("model", "system_prompt", "tools", "max_turns", "budget", "plugins", "response_format"),
        *("user_data", "deps", "replace_sections"),
    }
)
"""Options that an agent can set for itself when it works for another one. The leader provides the others."""

_LISTS: Final = (
    "tools",
    "plugins",
    "agents",
    "messages",
    "fallback_models",
    "immune_tools",
    "context_providers",
)

_TYPES: Final = (
    (str, "a text", ("name", "description")),
    (bool, "True or False", ("background", "wake", "handoff", "may_bypass")),
    (PromptLayers, "PromptLayers(…), or None", ("prompt",)),
    (SkillUse | None, "SkillUse(skills=read_skills(…)), as with_skills makes it", ("skills",)),
)


@frozen(kw_only=True, init=False)
class Blueprint(AgentRole):
    """Configuration of a session: options and their parts. Immutable, with methods that derive a changed copy.

    Arguments of `start_session` take precedence.

    Attributes:
        name: Name, by which the model chooses an agent.
        description: Purpose of the blueprint.
        capabilities: Bundles of tools, plugins and prompt sections, before its own.
        background: See `Agent`, for work for another agent.
        wake: See `Agent`, for work for another agent.
        handoff: See `Agent`, for work for another agent.
        prompt: Further sections and replacements for `system_prompt`.
        permissions: Permissions from files, one value per file, nearest first, for the plugin `Permissions`.
        may_bypass: Whether the caller confirmed the permission mode `bypass`.
        skills: Its skills and their use. None: none, or the leader's.
        given: Set options by name, validated and frozen.
    """

    name: str = "agent"
    description: str = ""
    capabilities: tuple[Capability, ...] = ()
    prompt: PromptLayers = field(factory=PromptLayers)
    permissions: tuple[PolicySettings, ...] = ()
    may_bypass: bool = False
    skills: SkillUse | None = None
    # It may contain a key.
    given: Mapping[str, Any] = field(default=EMPTY, repr=False)

    def __init__(  # noqa: PLR0913 - by keyword
        self,
        name: str = "agent",
        *,
        description: str = "",
        capabilities: Iterable[Capability] = (),
        background: bool = False,
        wake: bool = False,
        handoff: bool = False,
        prompt: PromptLayers | None = None,
        permissions: Iterable[PolicySettings] = (),
        may_bypass: bool = False,
        skills: SkillUse | None = None,
        model: str | Provider | None = None,
        agents: Sequence["Agent | Blueprint"] = (),
        **given: Unpack[OwnKeywords],
    ) -> None:
        """Create a blueprint with the options of `SessionOptions`. The model may be set later.

        Args:
            name: As in the class.
            description: As in the class.
            capabilities: As in the class. The later of two with one name counts.
            background: As in the class.
            wake: As in the class.
            handoff: As in the class.
            prompt: As in the class. None: no additions.
            permissions: As in the class.
            may_bypass: As in the class.
            skills: As in the class.
            model: See `SessionOptions`. None: set later.
            agents: Agents that may work for it, also as blueprints. The later of two with one name counts.
            **given: See `SessionOptions`.

        Raises:
            OptionError: Your move: unknown options or wrong values, all faults at once.
        """
        agents = all_items(agents)
        options: dict[str, Any] = {"model": model, "agents": agents or None, **given}
        self.__attrs_init__(
            name=name,
            description=description,
            capabilities=all_items(capabilities),
            background=background,
            wake=wake,
            handoff=handoff,
            prompt=PromptLayers() if prompt is None else prompt,
            permissions=all_items(permissions),
            may_bypass=may_bypass,
            skills=skills,
            given={key: value for key, value in options.items() if value is not None},
        )
        faults = [*_faults_of_items("agents", agents, Agent, Blueprint), *_faults_of(self)]
        OptionError.raise_for([f"blueprint {repr_of(name):.80}: {fault}" for fault in faults])
        object.__setattr__(self, "capabilities", placed(self.capabilities, lambda one: one.name))
        sound = {key: _frozen(key, value) for key, value in self.given.items()}
        object.__setattr__(self, "given", MappingProxyType(sound))

    @staticmethod
    def coding() -> "Blueprint":
        """Return the base for code: files, shell, to-do list, sub-agents and compaction, with guards.

        Calls with side effects wait for approval unless a permission rule allows them.
        """
        return Blueprint(
            "coding",
            description="Works on code: reads and writes files, and runs commands.",
            capabilities=[CAPABILITIES[name] for name in CODING_CAPABILITIES],
            tools=CODING_TOOLS,
            plugins=CODING_PLUGINS,
        )

    def with_tools(self, *tools: Tool) -> "Blueprint":
        """Return a copy with more tools, replacing equal names."""
        return self.override(tools=(*self.given.get("tools", ()), *tools))

    def with_plugins(self, *plugins: PluginEntry) -> "Blueprint":
        """Return a copy with more plugins, replacing equal names."""
        return self.override(plugins=(*self.given.get("plugins", ()), *plugins))

    def with_agents(self, *agents: "Agent | Blueprint") -> "Blueprint":
        """Return a copy with more agents that may work for it, replacing equal names."""
        return self.override(agents=(*self.given.get("agents", ()), *agents))

    def with_skills(
        self, skills: SkillSet, *, tools: ToolsMode = "restrict", selector: SkillSelector | None = None
    ) -> "Blueprint":
        """Return a copy with these skills instead of its own.

        Args:
            skills: Skills from `read_skills`.
            tools: Effect of an open skill's tool list. `restrict`: only these run. `approve`: they run without asking if the source is trusted. `ignore`: no
                effect.
            selector: Returns the skills to list for a prompt's text. Pure. None lists all.
        """
        return self.override(skills=SkillUse(skills=skills, tools=tools, selector=selector))

    def with_capabilities(self, *capabilities: Capability) -> "Blueprint":
        """Return a copy with more capabilities, replacing equal names."""
        return self.override(capabilities=(*self.capabilities, *capabilities))

    def with_memory(self, *, auto: bool = False) -> "Blueprint":
        """Return a copy with the capability `memory`: working notes, and user memories if the supervisor has `memories`.

        Args:
            auto: Whether the five memories that fit a prompt best are shown with it.
        """
        return self.with_capabilities(memory_capability(auto=auto))

    def override(self, **fields: Any) -> "Blueprint":
        """Return a copy with other values. None removes an option.

        Raises:
            OptionError: Your move: see `Blueprint`.
        """
        own = {one.name: getattr(self, one.name) for one in attrs.fields(Blueprint) if one.name != "given"}
        changed = {**own, **self.given, **fields}
        return Blueprint(**{key: value for key, value in changed.items() if value is not None})

    def options(self) -> Mapping[str, Any]:
        """Return the options of a session, by name. Arguments of `start_session` take precedence.

        Raises:
            OptionError: Your move: an agent that cannot work for it, or a prompt that cannot be rendered.
        """
        return self.options_with(EMPTY)

    def options_with(self, besides: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of a session with further arguments, for which the prompt is rendered.

        Args:
            besides: Arguments that take precedence, including `user_data`, `prompt_mode`, `base_prompt`, model and tools for the prompt.

        Raises:
            OptionError: Your move: see `options`.
        """
        refuse(fault_of("besides", besides, Mapping))
        given = dict(self.given)
        tools, plugins = self._equipped()
        if tools:
            given["tools"] = tools
        if plugins:
            given["plugins"] = plugins
        faults: list[str] = []
        text: str | None = None
        replaced: Mapping[str, str] = {}
        try:
            text = None if "system_prompt" in besides else self._prompt({**given, **besides})
            replaced = self.replaced_sections(besides)
        except OptionError as error:
            text, faults = None, [*error.faults]
        if text is not None:
            given["system_prompt"] = text
        if replaced:
            given["replace_sections"] = replaced
        agents = []
        for one in given.get("agents", ()):
            try:
                agents.append(one.as_agent(self, besides=besides) if isinstance(one, Blueprint) else one)
            except OptionError as error:
                faults += error.faults
        OptionError.raise_for(faults)
        return MappingProxyType(given | ({"agents": tuple(agents)} if agents else {}))

    def prompt_sections(self, besides: Mapping[str, Any] = EMPTY) -> tuple[PromptSection, ...]:
        """Return the sections of the initial system prompt, in order, with their sources.

        Args:
            besides: Further arguments of the session. See `options_with`.

        Raises:
            OptionError: Your move: a prompt that cannot be rendered, all faults at once.
        """
        return self._sections({**self.given, **besides})

    def replaced_sections(self, besides: Mapping[str, Any] = EMPTY) -> Mapping[str, str]:
        """Return replacements for sections that plugins and the mode add while a session runs, by key.

        Args:
            besides: Further arguments of the session. See `options_with`.

        Returns:
            The texts of `prompt.replace`. The option `replace_sections` takes precedence. An empty text removes a section.

        Raises:
            OptionError: Your move: a text that cannot be rendered, all faults at once.
        """
        given = {**self.given, **besides}
        written = {one.key for one in self._parts(given)}
        replaced = decide_replaced(self.prompt.replace, written, self._context(given))
        return {**replaced, **self.given.get("replace_sections", EMPTY)}

    def as_agent(self, leader: "Blueprint | None" = None, *, besides: Mapping[str, Any] = EMPTY) -> Agent:
        """Return this blueprint as an agent that may work for another one.

        Args:
            leader: The agent that it works for. Without own plugins it has the leader's and its capabilities'. None: none.
            besides: Further arguments of the leader's session. See `options_with`.

        Raises:
            OptionError: Your move: an option that such an agent cannot set, or no description.
        """
        refuse(fault_of("leader", leader, Blueprint | None))
        replaced = self.prompt.replace
        if self.skills is not None and SKILLS_SECTION in replaced:
            # An agent's own skills are listed under another key.
            theirs = {OF_AGENT if key == SKILLS_SECTION else key: text for key, text in replaced.items()}
            return self.override(prompt=attrs.evolve(self.prompt, replace=theirs)).as_agent(
                leader, besides=besides
            )
        faults = [
            f"{option} cannot be set here: an agent that works for another shares that agent's, so leave it out"
            for option in self.given
            if option not in OF_AN_AGENT
        ]
        OptionError.raise_for([f"agent {self.name!r}: {fault}" for fault in faults])
        tools = placed(self._bundled_tools(), name_of)
        around = _of_a_leader(leader, besides)
        if "user_data" in self.given:
            around = {**around, "user_data": self.given["user_data"]}
        shared = () if leader is None else leader._equipped()[1]  # noqa: SLF001 - one of us
        return Agent(
            name=self.name,
            description=self.description,
            system_prompt=self._prompt({**self.given, **around}, shared),
            model=self.given.get("model"),
            tools=tools or None,
            plugins=self._plugins_beside(() if leader is None else leader._plugins(), shared),  # noqa: SLF001 - one of us
            permissions=permissions_of_agent(self.permissions),
            result=self.given.get("response_format"),
            max_turns=self.given.get("max_turns"),
            background=self.background,
            wake=self.wake,
            handoff=self.handoff,
            budget=self.given.get("budget"),
            skills=self.skills,
            user_data=self.given.get("user_data"),
            deps=self.given.get("deps"),
            replace_sections=self.replaced_sections(around) or None,
        )

    def _equipped(self) -> tuple[tuple[Tool, ...], tuple[PluginEntry, ...]]:
        tools = self._tools()
        plugins = with_policies(self._plugins(), self.permissions, may_bypass=self.may_bypass)
        if any(one.handoff and one.permissions for one in self.given.get("agents", ())):
            plugins = with_guard_for_agents(plugins)
        if self.skills is not None and self.skills.skills.skills:
            return self.skills.with_tools(tools), with_skill_plugins(plugins, self.skills)
        has_skills_below = any(one.skills is not None for one in self.given.get("agents", ()))
        return tools, with_skill_tools(plugins) if has_skills_below else plugins

    def _tools(self) -> tuple[Tool, ...]:
        ending = (exit_plan,) if is_planning(self.permissions) else ()
        return placed((*self._bundled_tools(), *ending), name_of)

    def _bundled_tools(self) -> tuple[Tool, ...]:
        bundled = [tool for one in self.capabilities for tool in one.tools]
        return (*bundled, *self.given.get("tools", ()))

    def _plugins_beside(
        self, known: tuple[PluginEntry, ...], stack: tuple[PluginEntry, ...]
    ) -> tuple[PluginEntry, ...] | None:
        """Return an agent's own plugins, or its leader's (None: exactly these) and its capabilities'. Their guards yield to the leader's."""
        bundled = [plugin for one in self.capabilities for plugin in one.plugins]
        guards = {name_of_plugin(one): one for one in stack if is_guard(one)}
        if "plugins" in self.given:
            brought = (*bundled, *CODING_PLUGINS)
            own = self._plugins()
            others = [
                one
                for one in own
                if (name := name_of_plugin(one)) in guards
                and one not in brought
                and not is_same_guard(one, guards[name])
            ]
            OptionError.raise_for([self._fault_of_guard(one) for one in others])
            return tuple(one for one in own if name_of_plugin(one) not in guards)
        names = {*guards, *map(name_of_plugin, known)}
        more = [entry for entry in bundled if name_of_plugin(entry) not in names]
        others = [one for one in known if name_of_plugin(one) not in guards]
        return placed((*others, *more), name_of_plugin) if more else None

    def _fault_of_guard(self, plugin: PluginEntry) -> str:
        return f"agent {self.name!r}: its plugin {name_of_plugin(plugin)!r} has the name of a guard that belongs to the agent's leader and cannot be replaced: leave it out, or rename it"

    def _plugins(self) -> tuple[PluginEntry, ...]:
        bundled = [plugin for one in self.capabilities for plugin in one.plugins]
        return placed((*bundled, *self.given.get("plugins", ())), name_of_plugin)

    def _prompt(self, given: Mapping[str, Any], shared: Sequence[PluginEntry] = ()) -> str | None:
        sections = self._sections(given, shared)
        if any(one.sections for one in self.capabilities) or self.prompt != PromptLayers():
            return join_prompt(sections)
        own = self.given.get("system_prompt")
        return own and join_prompt([one for one in sections if one.key == OWN_KEY])

    def _sections(
        self, given: Mapping[str, Any], shared: Sequence[PluginEntry] = ()
    ) -> tuple[PromptSection, ...]:
        watching = (*given.get("plugins", ()), *self._equipped()[1], *shared) if self.prompt.replace else ()
        later = keys_of_sections((*watching, *([] if self.skills is None else [AgentSkillListing])))
        return decide_sections(self._parts(given), self._context(given), self.prompt.replace, later)

    def _parts(self, given: Mapping[str, Any]) -> list[PromptPart]:
        own: str | None = self.given.get("system_prompt")
        parts = [PromptPart(key=BASE_KEY, source="built in", section=BASE_PROMPT, is_filled=False)]
        is_layered = any(one.sections for one in self.capabilities) or self.prompt != PromptLayers()
        if not given.get("base_prompt", True) or (own is not None and not is_layered):
            parts = [PromptPart(key=BASE_KEY, source="built in", section="", is_filled=False)]
        for one in self.capabilities:
            is_built_in = CAPABILITIES.get(one.name) is one
            parts += capability_parts(one.name, one.sections, built_in=is_built_in)
        source = f"blueprint {self.name}"
        parts.append(PromptPart(key=OWN_KEY, source=source, section=own or ""))
        parts += [
            PromptPart(key=key, source=source, section=section)
            for key, section in self.prompt.sections.items()
        ]
        return parts

    def _context(self, given: Mapping[str, Any]) -> PromptContext:
        model = given.get("model")
        tools = (
            given["tools"]
            if "tools" in given and given["tools"] is not self.given.get("tools")
            else self._tools()
        )
        return PromptContext(
            agent=self.name,
            prompt_mode=given.get("prompt_mode", "full"),
            model=model if isinstance(model, str) else None,
            tools=tuple(name_of(tool) for tool in tools),
            agents=tuple(one.name for one in given.get("agents") or ()),
            capabilities=tuple(one.name for one in self.capabilities),
            values=values_for_prompt(given.get("user_data")),
        )


def _of_a_leader(leader: Blueprint | None, besides: Mapping[str, Any]) -> Mapping[str, Any]:
    given = {**(EMPTY if leader is None else leader.given), **besides}
    mode = given.get("prompt_mode", "full")
    mine: dict[str, Any] = {"prompt_mode": "task" if mode == "full" else mode, "base_prompt": False}
    return {**mine, "user_data": given["user_data"]} if "user_data" in given else mine


def _frozen(key: str, value: Any) -> Any:
    if key == "tools":
        return placed(value, name_of)
    if key == "plugins":
        return placed(map(_frozen_entry, value), name_of_plugin)
    if key == "agents":
        return placed(value, lambda one: one.name)
    if key in _LISTS:
        return tuple(value)
    return frozen_json(value) if isinstance(value, Mapping) else value


def _frozen_entry(entry: PluginEntry) -> PluginEntry:
    return (entry[0], frozen_json(entry[1])) if isinstance(entry, tuple) else entry


def _faults_of(blueprint: Blueprint) -> list[str]:
    faults = _faults_of_items("capabilities", blueprint.capabilities, Capability)
    policies = blueprint.permissions
    unread = _faults_of_items("permissions", policies, PolicySettings)
    faults += unread or [f"{said.place}: {fault}" for said, fault in faults_of_policies(policies)]
    for kind, expected, keys in _TYPES:
        wrong = {key: one for key in keys if not isinstance(one := getattr(blueprint, key), kind)}
        faults += [f"{key} is {repr_of(one):.80}: expected {expected}" for key, one in wrong.items()]
    for key, value in blueprint.given.items():
        if key != "agents":
            faults += faults_of_value(key, value)
    return faults or faults_of_plugin_entries(blueprint.given.get("plugins", ()))


def _faults_of_items(name: str, given: Any, *kinds: type) -> list[str]:
    expected = " or ".join(kind.__name__ for kind in kinds)
    if not isinstance(given, tuple):
        return [f"{name} is {repr_of(given):.80}: expected a sequence of {expected}"]
    return [
        f"{name} has {repr_of(one):.80}: expected {expected}(…)"
        for one in given
        if not isinstance(one, kinds)
    ]
