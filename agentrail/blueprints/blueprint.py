"""`Blueprint`: how to configure a session, as a value. Nothing is started here, and no file is read."""

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
from agentrail.blueprints.permissions import (
    faults_of_policies,
    is_planning,
    permissions_of_agent,
    with_guard_for_agents,
    with_policies,
)
from agentrail.blueprints.prompt import (
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
from agentrail.blueprints.skills import SkillUse, with_skill_plugins, with_skill_tools
from agentrail.config.settings import MCP_COMES_LATER, PolicySettings
from agentrail.config.skills import SkillSet, ToolsMode
from agentrail.core.stack.loading import PluginEntry
from agentrail.errors import OptionError
from agentrail.frozen import EMPTY, frozen_json
from agentrail.plugins.skill_plugins import OF_AGENT, SKILLS_SECTION, AgentSkillListing, SkillSelector
from agentrail.runtime.agent import Agent
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
"""Which options an agent may have of its own where it works for another one; what else there is comes from that one."""

_LISTS: Final = (
    "tools",
    "plugins",
    "agents",
    "messages",
    "fallback_models",
    "immune_tools",
    "context_providers",
)


@frozen(kw_only=True, init=False)
class Blueprint:
    """How to configure a session: options, and what they are made of. Derived, and never changed.

    What is given to `start_session` besides a blueprint stands in front of its options; a profile of a host takes one too.

    Attributes:
        name: What it is called; as an agent of another one, what the model chooses it by.
        description: What it is for.
        capabilities: Bundles of tools, plugins and sections of the prompt; they stand in front of its own.
        background: As of `Agent`, where it works for another one; so are `wake` and `handoff`.
        wake: As of `Agent`.
        handoff: As of `Agent`.
        prompt: What it says of its prompt beside `system_prompt`: more sections, and texts in place of others.
        permissions: What files say of permissions, one value for each file, the nearest first; the plugin `Permissions` holds it.
        may_bypass: Whether who starts the session said that the mode `bypass` of its permissions is wanted.
        skills: Which skills it has, and how; None for none, and for those of the other where it works for one.
        given: The options that were given, by name; checked, and frozen.
    """

    name: str = "agent"
    description: str = ""
    capabilities: tuple[Capability, ...] = ()
    background: bool = False
    wake: bool = False
    handoff: bool = False
    prompt: PromptLayers = field(factory=PromptLayers)
    permissions: tuple[PolicySettings, ...] = ()
    may_bypass: bool = False
    skills: SkillUse | None = None
    # A key may be among them.
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
        """Take options as `SessionOptions` does, and the model as one of them that may come later.

        Args:
            name: As of the attributes; so are the next eight.
            description: See there.
            capabilities: See there; of two of one name the later.
            background: See there.
            wake: See there.
            handoff: See there.
            prompt: See there; None for nothing.
            permissions: See there.
            may_bypass: See there.
            skills: See there.
            model: As of `SessionOptions`; None: who starts a session says it.
            agents: Who may work for the session, also as blueprints; of two of one name the later.
            **given: As of `SessionOptions`.

        Raises:
            OptionError: Your move: unknown options or wrong values, all faults at once.
        """
        options: dict[str, Any] = {"model": model, "agents": agents or None, **given}
        options = {key: value for key, value in options.items() if value is not None}
        permissions = tuple(permissions)
        faults = [*_faults_of_agents(agents)]
        faults += [f"{said.place}: {fault}" for said, fault in faults_of_policies(permissions)]
        use: Any = skills
        if use is not None and not isinstance(use, SkillUse):
            faults.append(
                f"skills is {skills!r:.80}: expected SkillUse(skills=read_skills(…)), as with_skills makes it"
            )
        for key, value in options.items():
            if key == "mcp":
                faults.append(f"mcp: {MCP_COMES_LATER}")
            elif key != "agents":
                faults += faults_of_value(key, value)
        if not faults:
            faults += faults_of_plugin_entries(options.get("plugins", ()))
        if faults:
            raise OptionError([f"blueprint {name!r:.80}: {fault}" for fault in faults])
        self.__attrs_init__(
            name=name,
            description=description,
            capabilities=placed(capabilities, lambda one: one.name),
            background=background,
            wake=wake,
            handoff=handoff,
            prompt=prompt or PromptLayers(),
            permissions=permissions,
            may_bypass=may_bypass,
            skills=skills,
            given=MappingProxyType({key: _frozen(key, value) for key, value in options.items()}),
        )

    @staticmethod
    def coding() -> "Blueprint":
        """Give the base for work on code: files, a shell, a list of what is to do, sub-agents and compaction, with their guards.

        What changes something waits for a person, where no rule of permissions lets it run.
        """
        return Blueprint(
            "coding",
            description="Works on code: reads and writes files, and runs commands.",
            capabilities=[CAPABILITIES[name] for name in CODING_CAPABILITIES],
            tools=CODING_TOOLS,
            plugins=CODING_PLUGINS,
        )

    def with_tools(self, *tools: Tool) -> "Blueprint":
        """Give one with these tools too; one of a known name takes that one's place."""
        return self.override(tools=(*self.given.get("tools", ()), *tools))

    def with_plugins(self, *plugins: PluginEntry) -> "Blueprint":
        """Give one with these plugins too; one of a known name takes that one's place."""
        return self.override(plugins=(*self.given.get("plugins", ()), *plugins))

    def with_agents(self, *agents: "Agent | Blueprint") -> "Blueprint":
        """Give one for which these agents may work too; one of a known name takes that one's place."""
        return self.override(agents=(*self.given.get("agents", ()), *agents))

    def with_skills(
        self, skills: SkillSet, *, tools: ToolsMode = "restrict", selector: SkillSelector | None = None
    ) -> "Blueprint":
        """Give one with these skills, in place of what it had of them.

        Args:
            skills: As `read_skills` gives them.
            tools: What the tools mean that an open skill names: `restrict`, only these run; `approve`, they run unasked where
                the skill's source is trusted; `ignore`, nothing.
            selector: A pure function of the skills and of a prompt's text: what is listed for it. None lists all.
        """
        return self.override(skills=SkillUse(skills=skills, tools=tools, selector=selector))

    def with_capabilities(self, *capabilities: Capability) -> "Blueprint":
        """Give one with these capabilities too; one of a known name takes that one's place."""
        return self.override(capabilities=(*self.capabilities, *capabilities))

    def with_memory(self, *, auto: bool = False) -> "Blueprint":
        """Give one with the capability `memory`: working notes, and memories of the user where its supervisor was given `memories`.

        Args:
            auto: Whether the five memories that fit a prompt best are shown with it, unasked.
        """
        return self.with_capabilities(memory_capability(auto=auto))

    def override(self, **fields: Any) -> "Blueprint":
        """Give one with other values; an option that is None is as it was never given.

        Raises:
            OptionError: Your move: as of `Blueprint`.
        """
        own = {one.name: getattr(self, one.name) for one in attrs.fields(Blueprint) if one.name != "given"}
        return Blueprint(**{**own, **self.given, **fields})

    def options(self) -> Mapping[str, Any]:
        """Give the options of a session by name: what `start_session` is given besides stands in front of them.

        Raises:
            OptionError: Your move: an agent that cannot work for it, or a prompt that cannot be written.
        """
        return self.options_with(EMPTY)

    def options_with(self, besides: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give the options of a session to which others are given besides: its prompt is written for what then holds.

        Args:
            besides: What stands in front: of this the prompt has `user_data`, `prompt_mode`, `base_prompt`, the model and the names of tools.

        Raises:
            OptionError: Your move: as of `options`.
        """
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
        if faults:
            raise OptionError(faults)
        return MappingProxyType(given | ({"agents": tuple(agents)} if agents else {}))

    def prompt_sections(self, besides: Mapping[str, Any] = EMPTY) -> tuple[PromptSection, ...]:
        """Give the sections of the system prompt that a session of it begins with, in order, each with whose it is.

        Args:
            besides: What the session is given besides; as of `options_with`.

        Raises:
            OptionError: Your move: a prompt that cannot be written; all faults at once.
        """
        return self._sections({**self.given, **besides})

    def replaced_sections(self, besides: Mapping[str, Any] = EMPTY) -> Mapping[str, str]:
        """Give the texts in place of what plugins and the mode add behind those sections while a session runs, by key.

        Args:
            besides: What the session is given besides; as of `options_with`.

        Returns:
            What `prompt.replace` says of them, and in front of that the option `replace_sections`. An empty text removes a section.

        Raises:
            OptionError: Your move: a text that cannot be written; all faults at once.
        """
        given = {**self.given, **besides}
        written = {one.key for one in self._parts(given)}
        replaced = decide_replaced(self.prompt.replace, written, self._context(given))
        return {**replaced, **self.given.get("replace_sections", EMPTY)}

    def as_agent(self, leader: "Blueprint | None" = None, *, besides: Mapping[str, Any] = EMPTY) -> Agent:
        """Give this as an agent that may work for another one.

        Args:
            leader: Whose agent it is: it has that one's plugins where it names none, and its capabilities' besides. None for one without any.
            besides: What the session of the leader is given besides; as of `options_with`.

        Raises:
            OptionError: Your move: it has what an agent cannot have of its own, or no description.
        """
        replaced = self.prompt.replace
        if (
            self.skills is not None and SKILLS_SECTION in replaced
        ):  # where it works for another one its skills are listed under another key
            theirs = {OF_AGENT if key == SKILLS_SECTION else key: text for key, text in replaced.items()}
            return self.override(prompt=attrs.evolve(self.prompt, replace=theirs)).as_agent(
                leader, besides=besides
            )
        faults = [
            f"{option} is of its own: an agent that works for another one has that one's, leave it out"
            for option in self.given
            if option not in OF_AN_AGENT
        ]
        if faults:
            raise OptionError([f"agent {self.name!r}: {fault}" for fault in faults])
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
        """Give all tools and plugins of a session of it."""
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
        """Give the plugins of an agent: its own, or its leader's and those of its capabilities; None where these are all its leader's.

        The guards of its leader are in its stack anyway, with the options that they have there. So one that a capability or `Blueprint.coding`
        brings gives way to them, and so does one of which its author says nothing but its name.
        """
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
            if others:
                raise OptionError([self._fault_of_guard(one) for one in others])
            return tuple(one for one in own if name_of_plugin(one) not in guards)
        names = {*guards, *map(name_of_plugin, known)}
        more = [entry for entry in bundled if name_of_plugin(entry) not in names]
        others = [one for one in known if name_of_plugin(one) not in guards]
        return placed((*others, *more), name_of_plugin) if more else None

    def _fault_of_guard(self, plugin: PluginEntry) -> str:
        return (
            f"agent {self.name!r}: its plugin {name_of_plugin(plugin)!r} has the name of a guard of the agent that it works for, which stays as it is: "
            "leave it out, or give it a name of its own"
        )

    def _plugins(self) -> tuple[PluginEntry, ...]:
        bundled = [plugin for one in self.capabilities for plugin in one.plugins]
        return placed((*bundled, *self.given.get("plugins", ())), name_of_plugin)

    def _prompt(self, given: Mapping[str, Any], shared: Sequence[PluginEntry] = ()) -> str | None:
        """Write the prompt. Where there is no more than its own text, that is taken alone, and None where there is none."""
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
    """Say what of the prompt of a leader holds for an agent that works for it: what values there are, and a task has less around it."""
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
    if not isinstance(entry, tuple):
        return entry
    plugin, options = entry
    return (plugin, frozen_json(options))


def _faults_of_agents(agents: Any) -> list[str]:
    if isinstance(agents, str | Mapping) or not isinstance(agents, Iterable):
        return [f"agents is {agents!r:.80}: expected a sequence of Agent or Blueprint"]
    return [
        f"agents has {one!r:.80}: expected Agent(name=…, description=…) or Blueprint(…)"
        for one in agents
        if not isinstance(one, Agent | Blueprint)
    ]
