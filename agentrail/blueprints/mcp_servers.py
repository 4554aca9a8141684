"""The MCP servers of configuration files. They are read here, and started by a supervisor."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from agentrail.abc import Secret
from agentrail.blueprints.secret_refs import secret_of
from agentrail.config.schema import HeaderForm, McpForm
from agentrail.config.settings import Settings, Sourced
from agentrail.config.toml_positions import ConfigFault
from agentrail.errors import OptionError
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.pins import PINS_FILE
from agentrail.tools.mcp.server_options import faults_of_server

_WITH_SECRETS: Final = frozenset({"env", "headers", "auth"})


def look_at_servers(settings: Settings, fault: Callable[[Sourced, str], None]) -> None:
    """Report what is wrong with servers, without reading secrets."""
    for name, said in settings.mcp.items():
        given = {key: one for key, one in _given(said.value).items() if key not in _WITH_SECRETS}
        for text in faults_of_server({"name": name, **given}):
            fault(said, f"MCP server {name!r:.80}: {text}")


def servers_of(settings: Settings, environ: Mapping[str, str]) -> tuple[McpServer, ...]:
    """Return all servers, with their secrets.

    Raises:
        OptionError: Your move: invalid options or a missing secret, with file and line.
    """
    faults: list[str] = []
    servers: list[McpServer] = []
    for name, said in settings.mcp.items():
        try:
            servers.append(_server_of(name, said, environ))
        except OptionError as error:
            faults += [str(ConfigFault(place=said.place, said=text)) for text in error.faults]
    if faults:
        raise OptionError(faults)
    return tuple(servers)


def _server_of(name: str, said: Sourced, environ: Mapping[str, str]) -> McpServer:
    form: McpForm = said.value
    given = _given(form)
    for key in ("env", "headers"):
        values: Mapping[str, HeaderForm] = given.get(key, {})
        given[key] = {one: _value_of(value, said.folder, environ) for one, value in values.items()}
    if form.auth is not None:
        given["auth"] = Secret(secret_of(form.auth.bearer, said.folder, environ))
    folder = Path(said.folder)
    # The user's file is in that directory already.
    pins = folder / PINS_FILE if said.scope == "user" else folder / ".agentrail" / PINS_FILE
    return McpServer(name, **{**given, "cwd": folder / (form.cwd or "."), "pins": pins})


def _given(form: McpForm) -> dict[str, Any]:
    found = {one.name: getattr(form, one.name) for one in attrs.fields(McpForm)}
    return {name: value for name, value in found.items() if value is not None}


def _value_of(form: HeaderForm, folder: str, environ: Mapping[str, str]) -> str | Secret:
    return form.text or "" if form.secret is None else Secret(secret_of(form.secret, folder, environ))
