"""Turns the host settings of configuration files into the options and profiles of `agentrail serve`."""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from agentrail.app import ChosenModel
from agentrail.cli.config_setup import CommandSetup, model_of_files
from agentrail.cli.run_options import Choices
from agentrail.cli.run_setup import choose_for, decide_session
from agentrail.cli.serve_options import PATHS, SERVE_KEYS, fault_of_host, fault_of_port
from agentrail.config.settings import LIMITS_PREFIX, Settings, Sourced, no_such_agent
from agentrail.config.toml_positions import ConfigFault
from agentrail.errors import OptionError
from agentrail.stores.data_directory import DATA_VARIABLE, expand_home
from agentrail.stores.store_urls import PRIVATE, is_shared_store
from agentrail.telemetry.otel_variables import is_address, is_share, options_of

if TYPE_CHECKING:
    from agentrail.blueprints.configuration import Configuration
    from agentrail.config.skill_set import SkillSet
    from agentrail.host.agent_profiles import AgentProfile
    from agentrail.providers.embeddings import OpenAIEmbedder

DEFAULT_PROFILE: Final = "default"
"""The id of the only profile if files name no agent."""

OF_APPLICATION: Final = frozenset(
    {"heartbeat", "drain_delay", "inspector", "console", "base_path", "protocols"}
)
"""The settings that are options of `create_app` itself."""

_CHECKS: Final[Mapping[str, Callable[[Any], str | None]]] = {"host": fault_of_host, "port": fault_of_port}
_TELEMETRY: Final = (
    ("endpoint", is_address, "an address such as http://localhost:4318/v1/traces"),
    ("sample", is_share, "a number from 0 to 1"),
)
_STORES: Final = frozenset({"store", "memories", "knowledge"})
_OF_PROFILES: Final = frozenset({"profiles", "shared_workspace", "expose"})


@frozen(kw_only=True)
class ServedProfile:
    profile: "AgentProfile"
    chosen: ChosenModel
    skills: "SkillSet"


def faults_of_host(settings: Settings) -> tuple[ConfigFault, ...]:
    """Return the faults in a host's settings, each with its line. Reads no file and opens nothing."""
    found = [
        ConfigFault(place=said.place, said=fault)
        for name, said in settings.host.items()
        for fault in _faults_of(name, said)
    ]
    found += [*_faults_of_profiles(settings), *_faults_of_telemetry(settings)]
    return tuple(sorted(found, key=lambda fault: (fault.place.file, fault.place.line)))


def _faults_of(name: str, said: Sourced) -> Iterator[str]:
    if name in _OF_PROFILES:
        return
    if name in PATHS | _STORES - {"store"}:
        yield from _faults_of_making("", lambda: expand_home(said.value) if name in PATHS else _placed(said))
    if name in OF_APPLICATION:
        # Their checks need Starlette, an optional extra: without it, nothing can be served.
        if importlib.util.find_spec("starlette") is not None:
            from agentrail.gateway.app import faults_of_own_options

            yield from _without_name(name, faults_of_own_options({name: said.plain}))
    elif name in SERVE_KEYS.values():
        fault = _CHECKS.get(name, lambda _: None)(said.value)
        if fault is not None:
            yield fault
    elif name.startswith(LIMITS_PREFIX):
        from agentrail.host.quotas import Limits

        limit = name.removeprefix(LIMITS_PREFIX)
        yield from _faults_of_making(limit, lambda: Limits(**{limit: said.value}))
    elif name == "store":
        from agentrail.stores.store_names import path_of_store

        yield from _faults_of_making(name, lambda: path_of_store(said.value, Path()))
    elif name == "audit" and said.value != "store":
        from agentrail.stores.audit_file import path_of_audit

        yield from _faults_of_making(name, lambda: path_of_audit(said.value, None))
    else:
        from agentrail.host.host_options import faults_of_option

        yield from _without_name(name, faults_of_option(name, said.plain))


def _without_name(name: str, faults: Sequence[str]) -> Iterator[str]:
    """Remove the name, which the path before a fault already contains."""
    for fault in faults:
        yield fault.removeprefix(f"{name} is ").removeprefix(f"{name} has ")


def _faults_of_making(name: str, make: Callable[[], object]) -> Iterator[str]:
    try:
        make()
    except OptionError as error:
        yield from _without_name(name, error.faults)


def _faults_of_profiles(settings: Settings) -> Iterator[ConfigFault]:
    said = settings.host.get("profiles")
    if said is None:
        return
    if not said.value:
        yield ConfigFault(
            place=said.place,
            said="names no agent that may be served: name one, or leave it out to serve all",
        )
    for one in said.value:
        if one.value not in settings.agents:
            yield ConfigFault(place=one.place, said=no_such_agent(one.value, settings.agents))


def _faults_of_telemetry(settings: Settings) -> Iterator[ConfigFault]:
    for name, is_right, expected in _TELEMETRY:
        if (said := settings.telemetry.get(name)) is not None and not is_right(said.value):
            yield ConfigFault(place=said.place, said=f"expected {expected}, got {said.value!r:.200}")


# --- options and profiles of a host


def options_of_host(settings: Settings) -> dict[str, Any]:
    """Return the options of `create_app` in the files, by name, without profiles and listen address."""
    from agentrail.blueprints.mcp_servers import servers_of
    from agentrail.host.quotas import Limits

    options: dict[str, Any] = dict(named_stores(settings))
    limits: dict[str, Any] = {}
    for name, said in settings.host.items():
        if name.startswith(LIMITS_PREFIX):
            limits[name.removeprefix(LIMITS_PREFIX)] = said.value
        elif name not in SERVE_KEYS.values() and name not in _OF_PROFILES | _STORES:
            options[name] = _placed(said) if name == "audit" else said.plain
    embedder = embedder_of(settings)
    return (
        options
        | ({"limits": Limits(**limits)} if limits else {})
        | ({} if embedder is None else {"embedder": embedder})
        | named_telemetry(settings, os.environ)
        | ({"mcp": servers_of(settings, os.environ)} if settings.mcp else {})
    )


def named_stores(settings: Settings) -> Mapping[str, str]:
    """Return the stores of `[host]` by key. Paths are relative to the file that names them."""
    return {name: _placed(said) for name, said in settings.host.items() if name in _STORES}


def named_databases(settings: Settings) -> dict[str, str]:
    """Return the stores of `[host]` for another process than the server, in which `postgres:` is the database of the store."""
    named = dict(named_stores(settings))
    store = named.get("store", PRIVATE)
    if named.get("memories") == PRIVATE and is_shared_store(store):
        named["memories"] = store
    return named


def named_telemetry(settings: Settings | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the option `telemetry` of variables and files, or nothing if they name no endpoint.

    Raises:
        OptionError: A variable or a value is invalid, or the library is missing.
    """
    table = {} if settings is None else {name: said.plain for name, said in settings.telemetry.items()}
    options = options_of(environ, table)
    if options is None:
        return {}
    from agentrail.telemetry import OpenTelemetry

    return {"telemetry": OpenTelemetry(**options)}


def embedder_of(settings: Settings) -> "OpenAIEmbedder | None":
    """Return the configured embedder, or None if there is none."""
    if not settings.embedder:
        return None
    from agentrail.blueprints.embedder import read_embedder

    opened = read_embedder(settings.embedder, lambda _, __: None)
    return None if opened is None else opened()


def directory_of_host(settings: Settings, environ: Mapping[str, str]) -> Path | None:
    """Return the data directory of `[host]`, or None if it has none or the variable overrides it."""
    said = settings.host.get("data_dir")
    if said is None or environ.get(DATA_VARIABLE):
        return None
    return Path(said.folder) / expand_home(said.value)


def _placed(said: Sourced) -> str:
    scheme, colon, rest = str(said.value).partition(":")
    if scheme not in {"sqlite", "file"} or not rest:
        return str(said.value)
    return f"{scheme}{colon}{Path(said.folder) / expand_home(rest)}"


def served_agents(settings: Settings) -> tuple[str, ...]:
    """Return the served agents: those of `host.profiles`, otherwise all. Empty if files have no agent."""
    said = settings.host.get("profiles")
    return tuple(settings.agents) if said is None else tuple(dict.fromkeys(said.plain))


def default_profile(settings: Settings) -> str | None:
    """Return the default profile of a message: the default agent if it is served, or None for the first."""
    said = settings.default_agent
    return said.value if said is not None and said.value in served_agents(settings) else None


async def make_profiles(
    configuration: "Configuration", environ: Mapping[str, str], *, only: str | None = None
) -> tuple[ServedProfile, ...]:
    """Build a profile for each served agent, or one named `default` from `[defaults]` without agents."""
    faults: list[str] = []
    made: list[ServedProfile] = []
    usual: ChosenModel | None = None  # chosen once: choosing may need a request to a server
    for name in (only,) if only else served_agents(configuration.settings) or (None,):
        try:
            setup = _setup_of(configuration, name)
            chosen = model_of_files(setup, environ) or usual
            if chosen is None:
                chosen = usual = await choose_for(Choices(), environ)
            made.append(
                ServedProfile(
                    profile=_profile_of(setup, chosen, environ), chosen=chosen, skills=_skills_of(setup)
                )
            )
        except OptionError as error:
            faults += error.faults
    if faults:
        raise OptionError([*dict.fromkeys(faults)])
    return tuple(made)


def _setup_of(configuration: "Configuration", name: str | None) -> CommandSetup:
    from agentrail.blueprints.builder import build_blueprint

    blueprint = build_blueprint(configuration.settings, name, skills=configuration.read_skills)
    return CommandSetup(configuration=configuration, agent=name, blueprint=blueprint)


def _skills_of(setup: CommandSetup) -> "SkillSet":
    from agentrail.config.skill_set import NO_SKILLS

    use = setup.blueprint.skills
    return NO_SKILLS if use is None else use.skills


def _profile_of(setup: CommandSetup, chosen: ChosenModel, environ: Mapping[str, str]) -> "AgentProfile":
    from agentrail.host.agent_profiles import AgentProfile

    settings = setup.configuration.settings
    shared, expose = settings.host.get("shared_workspace"), settings.host.get("expose")
    public = None if setup.agent is None else settings.agents[setup.agent].values.get("public")
    return AgentProfile(
        id=setup.agent or DEFAULT_PROFILE,
        name=setup.agent or DEFAULT_PROFILE.capitalize(),
        description=setup.blueprint.description,
        options=decide_session(Choices(), chosen, setup, environ),
        shared_workspace=shared is not None and shared.value,
        expose=("agent",) if expose is None else tuple(expose.plain),
        public=public is not None and public.value,
    )
