"""`Blueprint`: how to configure a session, as a value. Nothing is started here, and no file is read."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Unpack

import attrs
from attrs import field, frozen

from agentrail.abc import Provider, Tool, name_of
from agentrail.blueprints.capabilities import CAPABILITIES, CODING_CAPABILITIES, CODING_PLUGINS, CODING_TOOLS
from agentrail.blueprints.capability import Capability, faults_of_plugin_entries, name_of_plugin, placed
from agentrail.blueprints.permissions import faults_of_policies, is_planning, with_policies
from agentrail.blueprints.skills import SkillUse, with_skill_plugins
from agentrail.config.settings import PolicySettings
from agentrail.config.skills import SkillSet, ToolsMode
from agentrail.core.stack.loading import PluginEntry
from agentrail.errors import OptionError
from agentrail.frozen import EMPTY, frozen_json
from agentrail.plugins.skill_listing import SkillSelector
from agentrail.runtime.agent import Agent
from agentrail.runtime.base_prompt import decide_system_prompt
from agentrail.runtime.keywords import OwnKeywords
from agentrail.runtime.options import faults_of_value
from agentrail.tools.exit_plan import exit_plan
from agentrail.tools.skill import SkillSearch, SkillTool, mount_skills

OF_AN_AGENT: Final = frozenset({"model", "system_prompt", "tools", "max_turns", "budget", "plugins"})
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
        permissions: What files say of permissions, one value for each file, the nearest first; the plugin `Permissions` holds it.
        may_bypass: Whether who starts the session said that the mode `bypass` of its permissions is wanted.
        skills: Which skills it has, and how; None for none.
        given: The options that were given, by name; checked, and frozen.
    """

    name: str = "agent"
    description: str = ""
    capabilities: tuple[Capability, ...] = ()
    background: bool = False
    wake: bool = False
    handoff: bool = False
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
            if key != "agents":
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
            OptionError: Your move: an agent that cannot work for it.
        """
        given = dict(self.given)
        tools = self._tools()
        plugins = with_policies(self._plugins(), self.permissions, may_bypass=self.may_bypass)
        if self.skills is not None and self.skills.skills.skills:
            own = (
                SkillTool(skills=self.skills.skills, tools=self.skills.tools),
                SkillSearch(skills=self.skills.skills),
            )
            tools = mount_skills(placed((*tools, *own), name_of), self.skills.skills)
            plugins = with_skill_plugins(plugins, self.skills)
        if tools:
            given["tools"] = tools
        if plugins:
            given["plugins"] = plugins
        text = self._prompt(given.get("base_prompt", True) and given.get("prompt_mode", "full") == "full")
        if text is not None:
            given["system_prompt"] = text
        faults: list[str] = []
        agents = []
        for one in given.get("agents", ()):
            try:
                agents.append(one.as_agent(self) if isinstance(one, Blueprint) else one)
            except OptionError as error:
                faults += error.faults
        if faults:
            raise OptionError(faults)
        return MappingProxyType(given | ({"agents": tuple(agents)} if agents else {}))

    def as_agent(self, leader: "Blueprint | None" = None) -> Agent:
        """Give this as an agent that may work for another one.

        Args:
            leader: Whose agent it is: its plugins guard this one too, and so may be named here as well. None for one without any.

        Raises:
            OptionError: Your move: it has what an agent cannot have of its own, or no description.
        """
        known = [] if leader is None else [*leader._plugins()]  # noqa: SLF001 - one of us
        faults = [
            f"{option} is of its own: an agent that works for another one has that one's, leave it out"
            for option in self.given
            if option not in OF_AN_AGENT
        ]
        faults += [
            f"the plugin {name_of_plugin(entry)} is none of {'its leader' if leader is None else repr(leader.name)}, whose plugins "
            f"guard it: give it to that one too, or leave it out"
            for entry in self._plugins()
            if entry not in known
        ]
        if any(not one.is_empty for one in self.permissions):
            faults.append(
                "permissions are of its own: an agent that works for another one has that one's, leave them out"
            )
        if self.skills is not None:
            faults.append(
                "skills are of its own: an agent that works for another one has that one's, leave them out"
            )
        if faults:
            raise OptionError([f"agent {self.name!r}: {fault}" for fault in faults])
        return Agent(
            name=self.name,
            description=self.description,
            system_prompt=self._prompt(has_base=False),
            model=self.given.get("model"),
            tools=self._tools() or None,
            max_turns=self.given.get("max_turns"),
            background=self.background,
            wake=self.wake,
            handoff=self.handoff,
            budget=self.given.get("budget"),
        )

    def _tools(self) -> tuple[Tool, ...]:
        bundled = [tool for one in self.capabilities for tool in one.tools]
        ending = (exit_plan,) if is_planning(self.permissions) else ()
        return placed((*bundled, *self.given.get("tools", ()), *ending), name_of)

    def _plugins(self) -> tuple[PluginEntry, ...]:
        bundled = [plugin for one in self.capabilities for plugin in one.plugins]
        return placed((*bundled, *self.given.get("plugins", ())), name_of_plugin)

    def _prompt(self, has_base: bool) -> str | None:  # noqa: FBT001 - of this class alone
        """Put the sections of capabilities between the base prompt, where there is one, and its own; None where nothing is said."""
        own: str | None = self.given.get("system_prompt")
        sections = {key: text for one in self.capabilities for key, text in one.sections.items()}
        if not sections:
            return own
        base = decide_system_prompt(own, "full", base_prompt=True) if has_base and own is None else None
        return "\n\n".join(text for text in (base, *sections.values(), own) if text)


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
