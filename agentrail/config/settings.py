"""Several files merged, with places: agents as a whole, other settings value by value."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from attrs import field, frozen

from agentrail.config.config_file import ConfigFile, Scope, stays_below
from agentrail.config.schema import PermissionsForm, PluginForm
from agentrail.config.structure import structure_server
from agentrail.config.toml_positions import ConfigFault, ConfigPlace
from agentrail.errors.name_guesses import near_name
from agentrail.otp.field_rules import CheckedFields

_NOTHING: Final[Mapping[str, Any]] = {}

_MAX_GUESSES: Final = 20

LIMITS_PREFIX: Final = "limits."
"""Prefix of limit names among the host settings."""


@frozen(kw_only=True)
class Sourced:
    """A value and its place. A list becomes a tuple of sourced items."""

    value: Any
    place: ConfigPlace
    folder: str = ""
    scope: Scope = "project"

    @property
    def plain(self) -> Any:
        return tuple(one.value for one in self.value) if isinstance(self.value, tuple) else self.value


@frozen(kw_only=True)
class PolicySettings(CheckedFields):
    mode: Sourced | None = None
    deny: tuple[Sourced, ...] = ()
    ask: tuple[Sourced, ...] = ()
    allow: tuple[Sourced, ...] = ()
    scope: Scope = "project"

    @property
    def is_empty(self) -> bool:
        return self.mode is None and not (self.deny or self.ask or self.allow)


@frozen(kw_only=True)
class AgentSettings:
    name: str
    own: Sourced
    values: Mapping[str, Sourced] = field(default=_NOTHING)
    policy: PolicySettings = PolicySettings()


@frozen(kw_only=True)
class Settings:
    """Merged settings of several files."""

    default_agent: Sourced | None = None
    defaults: Mapping[str, Sourced] = field(default=_NOTHING)
    agents: Mapping[str, AgentSettings] = field(default=_NOTHING)
    providers: Mapping[str, Mapping[str, Sourced]] = field(default=_NOTHING)
    policies: tuple[PolicySettings, ...] = ()
    skills: Mapping[str, Sourced] = field(default=_NOTHING)
    imports: Mapping[str, Sourced] = field(default=_NOTHING)
    models: Mapping[str, Sourced] = field(default=_NOTHING)
    web: Mapping[str, Sourced] = field(default=_NOTHING)
    host: Mapping[str, Sourced] = field(default=_NOTHING)
    mcp: Mapping[str, Sourced] = field(default=_NOTHING)
    memory: Mapping[str, Sourced] = field(default=_NOTHING)
    embedder: Mapping[str, Sourced] = field(default=_NOTHING)
    telemetry: Mapping[str, Sourced] = field(default=_NOTHING)


NO_SETTINGS: Final = Settings()


def join_files(files: Sequence[ConfigFile]) -> tuple[Settings, tuple[ConfigFault, ...]]:
    faults = [fault for read in files for fault in read.faults]
    agents: dict[str, AgentSettings] = {}
    made = NO_SETTINGS
    for read in files:
        for name, form in read.form.agents.items():
            if name in agents:
                said = f"an agent with this name exists in {agents[name].own.place}: choose another name"
                faults.append(ConfigFault(place=read.place("agents", name), said=said))
                continue
            own = Sourced(value=name, place=read.place("agents", name), folder=read.folder, scope=read.scope)
            values = _values_of(read, form, "agents", name)
            values.pop("permissions", None)
            policy = _policy_of(read, form.permissions or PermissionsForm(), "agents", name, "permissions")
            agents[name] = AgentSettings(name=name, own=own, values=values, policy=policy)
        made = merge_settings(made, _rest_of(read))
    return attrs.evolve(made, agents=agents), tuple(faults)


def modules_of(settings: Settings) -> Iterator[tuple[str, str]]:
    for values in (settings.defaults, *(agent.values for agent in settings.agents.values())):
        for one in (item for name in ("tools", "plugins") if name in values for item in values[name].value):
            named = one.value.use if isinstance(one.value, PluginForm) else one.value
            module, colon, _ = named.partition(":")
            if module and colon:
                yield module, one.folder


def merge_settings(first: Settings, second: Settings) -> Settings:
    """Merge two settings. The first wins."""
    providers = dict(second.providers)
    for name, options in first.providers.items():
        providers[name] = {**providers.get(name, {}), **options}
    return Settings(
        default_agent=first.default_agent or second.default_agent,
        defaults={**second.defaults, **first.defaults},
        agents={**first.agents, **second.agents, **first.agents},  # those of the first come first, and win
        providers=providers,
        policies=(*first.policies, *second.policies),
        skills=_both(first.skills, second.skills),
        imports=_both(first.imports, second.imports),
        models={**second.models, **first.models},
        web=_joined_web(first.web, second.web),
        host={**second.host, **first.host},
        mcp={**second.mcp, **first.mcp},
        memory={**second.memory, **first.memory},
        embedder=first.embedder or second.embedder,
        telemetry={**second.telemetry, **first.telemetry},
    )


def _both(first: Mapping[str, Sourced], second: Mapping[str, Sourced]) -> dict[str, Sourced]:
    """Merge values. Lists contain the second's items, then the first's. Otherwise the first wins."""
    found = {**second, **first}
    for name in [one for one in first if one in second]:
        items = second[name].value
        if isinstance(items, tuple):
            found[name] = attrs.evolve(first[name], value=(*items, *first[name].value))
    return found


def _joined_web(first: Mapping[str, Sourced], second: Mapping[str, Sourced]) -> Mapping[str, Sourced]:
    """Merge web rules. The first wins, but block lists join."""
    joined = {**second, **first}
    if "block" in first and "block" in second:
        value = (*first["block"].value, *second["block"].value)
        joined["block"] = attrs.evolve(first["block"], value=value)
    return joined


def faults_of_agent_names(settings: Settings) -> Iterator[ConfigFault]:
    names = settings.agents
    default = settings.default_agent
    if default is not None and default.value not in names:
        yield ConfigFault(place=default.place, said=no_such_agent(default.value, names))
    below: dict[str, tuple[str, ...]] = {}
    guesses = 0
    for agent in names.values():
        listed = agent.values.get("agents")
        items = () if listed is None else listed.value
        below[agent.name] = tuple(item.value for item in items if item.value in names)
        for item in items:
            if item.value == agent.name:
                said = f"agent {agent.name!r} names itself as its own sub-agent: remove it"
                yield ConfigFault(place=item.place, said=said)
            elif item.value not in names:
                # Each guess reads all names, which takes quadratic time in a file of little else.
                why = f"there is no agent {item.value!r:.80}"
                why = no_such_agent(item.value, names) if guesses < _MAX_GUESSES else why
                guesses += 1
                yield ConfigFault(place=item.place, said=f"agent {agent.name!r}: {why}")
    for circle in _circles(below):
        said = (
            f"the agents name each other in a circle, {' → '.join((*circle, circle[0]))}: remove one of them"
        )
        yield ConfigFault(place=names[circle[0]].own.place, said=said)


def read_servers(settings: Settings) -> tuple[Settings, tuple[ConfigFault, ...]]:
    """Read the tables of MCP servers. One with a fault is left out."""
    servers: dict[str, Sourced] = {}
    faults: list[ConfigFault] = []
    for name, said in settings.mcp.items():
        form, found = structure_server(said.value)
        faults += [ConfigFault(place=said.place.below(*path), said=text) for path, text in found]
        if form is not None:
            servers[name] = attrs.evolve(said, value=form)
    return attrs.evolve(settings, mcp=servers), (*faults, *_faults_of_names(settings))


def _faults_of_names(settings: Settings) -> Iterator[ConfigFault]:
    """Yield a fault for every unknown server that an agent names."""
    for agent in settings.agents.values():
        listed = agent.values.get("mcp")
        for item in () if listed is None else listed.value:
            if item.value not in settings.mcp:
                others = f"there are: {', '.join(settings.mcp) or 'none'}"
                there = near_name(item.value, settings.mcp, "did you mean {!r}?", others)
                said = f"agent {agent.name!r}: there is no MCP server {item.value!r:.80}: {there}"
                yield ConfigFault(place=item.place, said=said)


def no_such_agent(name: str, known: Mapping[str, object]) -> str:
    listed = f"expected one of: {', '.join(sorted(known))}"
    none = "no configuration file describes one, add [agents.NAME] to agentrail.toml"
    guess = near_name(name, known, "did you mean {!r}?", listed if known else none)
    return f"there is no agent {name!r:.80}: {guess}"


def _circles(below: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Find cycles of two or more agents, each once."""
    done: set[str] = set()
    for start in below:
        path: list[tuple[str, Iterator[str]]] = [(start, iter(below[start]))] if start not in done else []
        while path:
            name, left = path[-1]
            following = next(left, None)
            on_path = [one for one, _ in path]
            if following is None:
                done.add(name)
                path.pop()
            elif following in on_path and following != name:
                yield tuple(on_path[on_path.index(following) :])
            elif following not in done and following != name:
                path.append((following, iter(below[following])))


# --- from forms to values with places


def _rest_of(read: ConfigFile) -> Settings:
    form = read.form
    default = None
    if form.default_agent is not None:
        default = _sourced(read, form.default_agent, "default_agent")
    policy = _policy_of(read, form.permissions, "permissions")
    return Settings(
        default_agent=default,
        defaults=_values_of(read, form.defaults, "defaults"),
        providers={name: _values_of(read, one, "providers", name) for name, one in form.providers.items()},
        policies=() if policy.is_empty else (policy,),
        skills=_values_of(read, form.skills, "skills"),
        imports=_values_of(read, form.import_, "import") | _imported_servers(read),
        models={name: _sourced(read, model, "models", name) for name, model in form.models.items()},
        web=_values_of(read, form.web, "web"),
        host=_host_of(read),
        mcp={
            name: _sourced(read, server, "mcp", name) for name, server in form.mcp.items() if name != "import"
        },
        memory=_values_of(read, form.memory, "memory"),
        embedder=_values_of(read, form.embedder, "embedder"),
        telemetry=_values_of(read, form.telemetry, "telemetry"),
    )


def _imported_servers(read: ConfigFile) -> dict[str, Sourced]:
    listed = read.form.mcp.get("import")
    paths = tuple(filter(stays_below, listed if isinstance(listed, list) else ()))
    return {"mcp": _sourced(read, paths, "mcp", "import")} if paths else {}


def _host_of(read: ConfigFile) -> dict[str, Sourced]:
    found = _values_of(read, read.form.host, "host")
    limits = found.pop("limits", None)
    if limits is None:
        return found
    said = _values_of(read, limits.value, "host", "limits")
    return found | {f"{LIMITS_PREFIX}{name}": one for name, one in said.items()}


def _values_of(read: ConfigFile, form: Any, *path: str) -> dict[str, Sourced]:
    found = {one.name: getattr(form, one.name) for one in attrs.fields(type(form))}
    return {
        name: _sourced(read, value, *path, name.removesuffix("_"))
        for name, value in found.items()
        if value is not None
    }


def _sourced(read: ConfigFile, value: Any, *path: str | int) -> Sourced:
    if isinstance(value, tuple):
        value = tuple(_sourced(read, item, *path, place) for place, item in enumerate(value))
    return Sourced(value=value, place=read.place(*path), folder=read.folder, scope=read.scope)


def _policy_of(read: ConfigFile, form: PermissionsForm, *path: str) -> PolicySettings:
    def rules(name: str) -> tuple[Sourced, ...]:
        listed: tuple[Sourced, ...] = _sourced(read, getattr(form, name) or (), *path, name).value
        return listed

    return PolicySettings(
        mode=None if form.mode is None else _sourced(read, form.mode, *path, "mode"),
        deny=rules("deny"),
        ask=rules("ask"),
        allow=rules("allow"),
        scope=read.scope,
    )
