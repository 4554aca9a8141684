"""Restriction of untrusted project files, which can only narrow permissions.

An allowlist, so that a new option is refused until it is reviewed. The floor is the behaviour without these files.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from agentrail.config.host_limits import HOST_LIMITS
from agentrail.config.key_filter import in_one_line, names_secret, shown_address
from agentrail.config.schema import BudgetForm, PromptForm
from agentrail.config.settings import LIMITS_PREFIX, AgentSettings, PolicySettings, Settings, Sourced

READING_TOOLS: Final = ("list_dir", "read_file")
"""Default tools of a command."""

NARROW_MODES: Final = frozenset({"default", "plan", "strict", "dont_ask"})
"""None of these modes allows a call for which `default` would ask."""

_MAX_SHOWN: Final = 100
# Skills are texts for the model. Their tool lists can only remove tools.
_TEXTS: Final = frozenset({"description", "skills", "skills_in_prompt"})
_LIMITS: Final[Mapping[str, int | None]] = {
    "max_turns": 100,
    "max_output_tokens": None,
    "max_parallel_tools": 8,
}
"""Numbers for which smaller is narrower, with their defaults. None: no limit."""

_SWITCHES_OFF: Final = frozenset({"console", "inspector"})
"""Host features that may be switched off."""


@frozen(kw_only=True)
class NotGranted:
    said: Sourced
    what: str

    def __str__(self) -> str:
        return f"{in_one_line(self.what, _MAX_SHOWN)} ({self.said.place})"


def narrow_settings(project: Settings, floor: Settings) -> tuple[Settings, tuple[NotGranted, ...]]:
    """Return the settings that only narrow the floor, and the refused grants."""
    narrowing = _Narrowing(project, floor)
    defaults = narrowing.options(project.defaults)
    agents = narrowing.agents()
    for name, options in project.providers.items():
        for option, said in options.items():
            narrowing.refuse(said, f"providers.{name}.{option}")
    for name, said in project.models.items():
        narrowing.refuse(said, f"models.{name}")
    policies = tuple(narrowing.policy(one) for one in project.policies)
    for name, said in project.mcp.items():
        narrowing.refuse(said, f"the MCP server {name}")
    for name, said in project.embedder.items():  # memories of a user would be sent to that service
        narrowing.refuse(said, f"embedder.{name}")
    for name, said in project.telemetry.items():  # conversations would be sent to that address
        narrowing.refuse(said, f"telemetry.{name}")
    web = narrowing.only(
        "web", project.web, lambda name, value: name == "block" or (name == "robots" and value is True)
    )
    memory = narrowing.only("memory", project.memory, lambda name, value: name == "auto" and value is False)
    left = Settings(
        default_agent=narrowing.default_agent(agents),
        defaults=defaults,
        agents=agents,
        policies=policies,
        skills=narrowing.only("skills", project.skills, _keeps_skills),
        imports=project.imports,
        web=web,
        host=narrowing.host(agents),
        memory=memory,
    )
    return left, tuple(narrowing.refused)


def _keeps_skills(name: str, value: object) -> bool:
    """Refuse skill directories, and tool modes that run more tools or run them without asking."""
    return name in {"disable", "import_"} or (name == "tools" and value == "restrict")


@define
class _Narrowing:
    _project: Settings
    _floor: Settings
    refused: list[NotGranted] = field(factory=list, init=False)

    def refuse(self, said: Sourced, what: str) -> None:
        self.refused.append(NotGranted(said=said, what=what))

    def default_agent(self, agents: Mapping[str, AgentSettings]) -> Sourced | None:
        said = self._project.default_agent
        if said is None:
            return None
        if said.value in agents and self._floor.default_agent is None:
            return said
        self.refuse(said, f"default_agent = {said.value!r}")
        return None

    def agents(self) -> dict[str, AgentSettings]:
        left: dict[str, AgentSettings] = {}
        for name, agent in self._project.agents.items():
            if name in self._floor.agents:  # the user's agent may have guards that this one lacks
                self.refuse(agent.own, f"the agent {name!r} in place of yours")
                continue
            values = self.options(agent.values)
            base = agent.values.get("base")
            # The removed base provided a description, and other agents choose by it.
            if base is not None and "description" not in values:
                values["description"] = attrs.evolve(
                    base, value=f"The agent {name!r} of a project that is not trusted yet."
                )
            left[name] = attrs.evolve(agent, values=values, policy=self.policy(agent.policy))
        return left

    def options(self, values: Mapping[str, Sourced]) -> dict[str, Sourced]:
        left: dict[str, Sourced] = {}
        for name, said in values.items():
            kept = self._option(name, said)
            if kept is not None:
                left[name] = kept
        return left

    def only(
        self, table: str, values: Mapping[str, Sourced], keeps: Callable[[str, object], bool]
    ) -> dict[str, Sourced]:
        """Refuse the values of a table that are not kept, by name and value."""
        left: dict[str, Sourced] = {}
        for name, said in values.items():
            if keeps(name, said.value):
                left[name] = said
            else:
                self.refuse(said, describe_grant(f"{table}.{name}", said))
        return left

    def host(self, agents: Mapping[str, AgentSettings]) -> dict[str, Sourced]:
        """Keep only fewer agents, no inspector, no console, smaller limits."""
        left: dict[str, Sourced] = {}
        for name, said in self._project.host.items():
            limit = name.removeprefix(LIMITS_PREFIX)
            if name == "profiles":
                left[name] = self._items(said, "the profile", self._served_of_floor(agents))
            elif (name in _SWITCHES_OFF and said.value is False) or (
                limit != name and self._narrows_limit(name, limit, said.value)
            ):
                left[name] = said
            else:
                self.refuse(said, describe_grant(f"host.{name}", said))
        return left

    def _served_of_floor(self, agents: Mapping[str, AgentSettings]) -> tuple[str, ...]:
        said = self._floor.host.get("profiles")
        return (*self._floor.agents, *agents) if said is None else said.plain

    def _narrows_limit(self, name: str, limit: str, value: float) -> bool:
        said = self._floor.host.get(name)
        return _is_narrower(value, HOST_LIMITS[limit] if said is None else said.value)

    def policy(self, policy: PolicySettings) -> PolicySettings:
        mode = policy.mode
        if mode is not None and mode.value not in NARROW_MODES:
            self.refuse(mode, f"the mode {mode.value}")
            mode = None
        for rule in policy.allow:
            self.refuse(rule, f"allow {rule.value}")
        return attrs.evolve(policy, mode=mode, allow=())

    def _option(self, name: str, said: Sourced) -> Sourced | None:
        if name in _TEXTS:
            return said
        if name == "prompt" and said.value.file is None:
            if not said.value.replace:
                return said
            self.refuse(said, f"prompt.replace of {', '.join(said.value.replace)}")
            return attrs.evolve(said, value=attrs.evolve(said.value, replace=None))
        if name == "user_data":
            # Only the text values of `${name}` in its prompts stay.
            left = {key: value for key, value in said.value.items() if key == "prompt"}
            if len(left) < len(said.value):
                more = ", ".join(key for key in said.value if key not in left)
                self.refuse(said, f"user_data of {more}")
            return attrs.evolve(said, value=left) if left else None
        if name == "tools":
            return self._items(said, "the tool", self._tools_of_floor())
        if name == "agents":
            own = [one for one in self._project.agents if one not in self._floor.agents]
            return self._items(said, "the agent", own)
        if name in _LIMITS and _is_narrower(said.value, self._limit(name)):
            return said
        if name == "budget" and self._narrows_budget(said.value):
            return said
        self.refuse(said, describe_grant(name, said))
        return None

    def _items(self, said: Sourced, what: str, known: Any) -> Sourced:
        left = []
        for item in said.value:
            if item.value in known:
                left.append(item)
            else:
                self.refuse(item, f"{what} {item.value}")
        return attrs.evolve(said, value=tuple(left))

    def _tools_of_floor(self) -> tuple[str, ...]:
        said = self._floor.defaults.get("tools")
        return READING_TOOLS if said is None else said.plain

    def _limit(self, name: str) -> Any:
        said = self._floor.defaults.get(name)
        return _LIMITS[name] if said is None else said.value

    def _narrows_budget(self, budget: BudgetForm) -> bool:
        said = self._floor.defaults.get("budget")
        own = BudgetForm() if said is None else said.value
        # A limit that the user sets and the project omits would be lost.
        sums = [(getattr(budget, name), getattr(own, name)) for name in ("max_cost_usd", "max_total_tokens")]
        return budget.allow_unknown_prices is not True and all(
            mine is None if its is None else _is_narrower(its, mine) for its, mine in sums
        )


def _is_narrower(number: float, limit: float | None) -> bool:
    return limit is None or number <= limit


def describe_grant(name: str, said: Sourced) -> str:
    """Describe a grant, only by name if it may hold a secret."""
    value = said.value
    if isinstance(value, PromptForm):
        return f"the prompt in the file {value.file}"
    if isinstance(value, tuple):
        items = (shown_address(getattr(one.value, "use", one.value)) for one in value)
        return f"{name} {', '.join(map(str, items))}"
    is_plain = isinstance(value, str | int | float | bool) and not names_secret(name)
    return f"{name} = {shown_address(value)}" if is_plain else name
