"""`agentrail config check`, `agentrail init`, `agentrail trust`: check, write and trust configuration files, without a model."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import attrs
from cyclopts import App, Parameter

from agentrail.blueprints.builder import faults_of_building
from agentrail.blueprints.config_discovery import CONFIG_NAME
from agentrail.blueprints.configuration import Configuration, digests_of_skills, read_configuration
from agentrail.blueprints.mcp_servers import has_user_login
from agentrail.blueprints.trust_store import changing_files, digests_of, read_trust, write_trust
from agentrail.cli.config_setup import MODEL_VARIABLE, ConfigFiles
from agentrail.cli.exit_codes import Exit, write_faults
from agentrail.cli.host_config import faults_of_host
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.serve_options import SERVE_KEYS, SERVE_VARIABLES
from agentrail.cli.stdio import write_error
from agentrail.cli.store_access import write_new_file
from agentrail.cli.text_output import print_text
from agentrail.config.key_filter import HIDDEN, hide_keys, in_one_line, names_secret
from agentrail.config.schema import (
    BudgetForm,
    HeaderForm,
    McpAuthForm,
    McpForm,
    McpOAuthForm,
    PluginForm,
    PromptForm,
    SearchForm,
    SecretForm,
)
from agentrail.config.settings import PolicySettings, Settings, Sourced
from agentrail.errors import AgentrailError, OptionError
from agentrail.stores.store_urls import shown_store

app: Final = App(name="config", result_action="return_value")

_NAME_WIDTH: Final = 26
_VALUE_WIDTH: Final = 48
_MAX_SHOWN: Final = 600

TEMPLATE: Final = Path(__file__).with_name("init_template.toml").read_text(encoding="utf-8")
"""The file that `agentrail init` writes. A test ensures that it passes the check."""


@app.command(
    name="check",
    help="""Read, validate and show the configuration, with the file and line of each value; secrets are hidden.

    Code that they name is imported. Exit codes: 0 no faults, 1 faults, all of them reported, 2 wrong usage.""",
)
def check_files(
    *,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    try:
        read = files.read()
    except AgentrailError as error:
        write_faults(error)
        return Exit.USAGE if files.config is not None and not files.config.is_file() else Exit.FAILED
    # A second check finds the remaining faults.
    built = faults_of_building(read.settings, skills=read.read_skills)
    faults = tuple(dict.fromkeys((*read.faults, *built, *faults_of_host(read.settings))))
    for fault in faults:
        write_error(str(fault))
    for note in read.notes:
        write_error(f"not read: {note}")
    if faults:
        return Exit.FAILED
    return print_text("\n".join(map(in_one_line, show_configuration(read, os.environ))))


def init(
    *,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    path = Path(CONFIG_NAME)
    if os.path.lexists(path):
        write_error(f"{path} already exists: agentrail config check shows its effect")
        return Exit.USAGE
    try:
        write_new_file(path, [TEMPLATE.encode()])
    except OptionError as error:
        write_faults(error)
        return Exit.FAILED
    return print_text(f"{path} is written: review it, then run agentrail trust and agentrail config check")


def trust(
    *,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
    forget: Annotated[bool, Parameter(help="Stop trusting the directory.")] = False,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    try:
        read = read_configuration(os.environ, config=files.config, to_trust=True)
        directory = read.files.directory
        if directory is None:
            raise OptionError(
                [f"there is no {CONFIG_NAME} here or above, and no .agentrail/agents: nothing to trust"]
            )
        read.check()
        where, skills = str(directory.resolve()), {}
        if not forget:
            skills = digests_of_skills(read.read_skills(), directory.resolve())
        with changing_files(os.environ):
            listed = read_trust(os.environ)
            if forget:
                listed = listed.without_directory(where)
            else:
                listed = listed.with_directory(where, {**digests_of(read.files), **skills})
            path = write_trust(listed, os.environ)
    except AgentrailError as error:
        write_faults(error)
        return Exit.FAILED
    if forget:
        return print_text(f"{in_one_line(str(where))} is no longer trusted ({path})")
    granted = [f"  {one}" for one in read.not_granted]
    names = ", ".join(
        dict.fromkeys([*(one.name for one in read.files.project), *digests_of(read.files), *skills])
    )
    lines = [f"{in_one_line(str(where))} is trusted with these files as they are now: {names} ({path})"]
    return print_text("\n".join([*lines, *(["it grants:", *granted] if granted else [])]))


# --- the resulting configuration, as text


def show_configuration(read: Configuration, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the resulting configuration, one line per value, without secrets."""
    names = [one.name for one in (*read.files.project, *read.files.user)]
    if not names:
        yield f"no {CONFIG_NAME} here, above or in your configuration directory: agentrail init writes one"
        return
    yield f"files: {', '.join(names)}"
    if read.files.directory is not None:
        yield f"project: {read.files.directory}, {'trusted' if read.trusted else 'not trusted'} ({read.files.why})"
    if environ.get(MODEL_VARIABLE):
        yield f"model: {MODEL_VARIABLE} is set and overrides these files"
    settings = read.settings
    if settings.default_agent is not None:
        yield _row("default_agent", settings.default_agent)
    yield from _table("defaults", settings.defaults, environ)
    for name, options in settings.providers.items():
        yield from _table(f"providers.{name}", options, environ)
    for name in ("skills", "imports", "models", "web", "memory", "embedder", "telemetry", "host"):
        yield from _table(name.replace("imports", "import"), getattr(settings, name), environ)
    for name, said in settings.mcp.items():
        yield from _server(name, said, environ)
        if has_user_login(said.value) and "public_url" not in settings.host:
            yield "  users of agentrail serve cannot log in to it, because host.public_url is not set"
    for name, key in SERVE_KEYS.items():
        if environ.get(SERVE_VARIABLES[name]):
            yield f"  {SERVE_VARIABLES[name]} is set and overrides {key}"
    for policy in settings.policies:
        yield from _policy(f"permissions of the {policy.scope}", policy)
    for name in settings.agents:
        yield from _agent(name, settings)


def _server(name: str, said: Sourced, environ: Mapping[str, str]) -> Iterator[str]:
    yield ""
    yield f"[mcp.{name}] ({said.scope}, {said.place})"
    for one in attrs.fields(McpForm):
        value = getattr(said.value, one.name)
        if value is not None:
            yield f"  {_row(one.name, attrs.evolve(said, value=value), environ)}"


def _agent(name: str, settings: Settings) -> Iterator[str]:
    agent = settings.agents[name]
    yield ""
    yield f"[agents.{name}] ({agent.own.scope}, {agent.own.place})"
    for option, said in {**settings.defaults, **agent.values}.items():
        yield f"  {_row(option, said)}"
    if not agent.policy.is_empty:
        yield from _policy("  permissions of its own", agent.policy)


def _table(name: str, values: Mapping[str, Sourced], environ: Mapping[str, str]) -> Iterator[str]:
    if values:
        yield ""
        yield f"[{name}]"
    for option, said in values.items():
        yield f"  {_row(option.removesuffix('_'), said, environ)}"


def _policy(title: str, policy: PolicySettings) -> Iterator[str]:
    yield ""
    yield f"{title}:"
    if policy.mode is not None:
        yield f"  {_row('mode', policy.mode)}"
    for name, rules in (("deny", policy.deny), ("ask", policy.ask), ("allow", policy.allow)):
        for rule in rules:
            yield f"  {_row(name, rule)}"


def _row(name: str, said: Sourced, environ: Mapping[str, str] | None = None) -> str:
    # Cut, so that its source still fits after it.
    text = in_one_line(show_setting(name, said.value, environ), _MAX_SHOWN)
    return f"{name:<{_NAME_WIDTH}} {text:<{_VALUE_WIDTH}}  {said.place}"


def show_setting(name: str, value: Any, environ: Mapping[str, str] | None = None) -> str:
    """Format a value in one line. For a secret, show its source and never its value."""
    match value:
        case SecretForm(env=str(variable)):
            is_set = environ is not None and bool(environ.get(variable))
            return f"{value} ({'set' if is_set else 'not set'})"
        case SecretForm():
            return str(value)
        case PromptForm(replace=Mapping() as replace):
            rest = show_setting(name, PromptForm(text=value.text, file=value.file), environ)
            return f"{rest}, replace {', '.join(replace)}"
        case PromptForm(file=str(file)):
            return f'{{ file = "{file}" }}'
        case PromptForm(text=text):
            shown = hide_keys(text or "")  # before truncating: half a key is not recognised as one
            return repr(shown if len(shown) <= _VALUE_WIDTH else f"{shown[:_VALUE_WIDTH]}…")
        case HeaderForm(secret=secret):
            return HIDDEN if secret is None else show_setting(name, secret, environ)
        case PluginForm(use=use, options=options):
            return use if not options else f"{use} ({show_setting('', options)})"
        case McpAuthForm(oauth=True):
            return "oauth"
        case McpOAuthForm():
            given = {one.name: getattr(value, one.name) for one in attrs.fields(McpOAuthForm)}
            pairs = [
                f"{key} = {show_setting(key, one, environ)}" for key, one in given.items() if one is not None
            ]
            return f"{{ {', '.join(pairs)} }}"
        case McpAuthForm(bearer=bearer):
            return f"{{ bearer = {show_setting('bearer', bearer, environ)} }}"
        case SearchForm(engine=engine, api_key=key, url=url):
            told = (engine, url, None if key is None else show_setting("api_key", key, environ))
            return ", ".join([one for one in told if one is not None])
        case BudgetForm():
            limits = ("max_cost_usd", "max_total_tokens")
            return ", ".join(
                f"{one} {getattr(value, one)}" for one in limits if getattr(value, one) is not None
            )
        case tuple():
            return ", ".join(show_setting(name, getattr(one, "value", one), environ) for one in value)
        case Mapping():
            return ", ".join(f"{key} = {show_setting(key, one, environ)}" for key, one in value.items())
        case str() if name in {"store", "memories"}:
            return shown_store(value)
        case _:
            return HIDDEN if names_secret(name) else hide_keys(str(value))
