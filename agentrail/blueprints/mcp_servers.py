"""The MCP servers of configuration files. They are read here, and started by a supervisor."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from agentrail.abc import Secret
from agentrail.blueprints.config_discovery import USER_FOLDER
from agentrail.blueprints.secret_refs import secret_of
from agentrail.config.schema import HeaderForm, McpForm, McpOAuthForm
from agentrail.config.settings import Settings, Sourced
from agentrail.config.toml_positions import ConfigFault
from agentrail.errors import OptionError
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.pins import PINS_FILE
from agentrail.tools.mcp.server_options import OAuthClient, faults_of_login, faults_of_oauth, faults_of_server

_WITH_SECRETS: Final = frozenset({"env", "headers", "auth", "oauth"})


def look_at_servers(settings: Settings, fault: Callable[[Sourced, str], None]) -> None:
    """Report the faults of servers, without reading secrets."""
    for name, said in settings.mcp.items():
        given = {key: one for key, one in _given(said.value).items() if key not in _WITH_SECRETS}
        for text in (*faults_of_server({"name": name, **given}), *_faults_of_login(said.value)):
            fault(said, f"MCP server {name!r:.80}: {text}")


def _faults_of_login(form: McpForm) -> Iterator[str]:
    has_login = form.auth is not None and form.auth.oauth
    yield from faults_of_login(form.url, form.oauth, form.scope, has_login=has_login)
    if form.oauth is not None:
        yield from faults_of_oauth(_given(form.oauth))


def has_user_login(form: McpForm) -> bool:
    """Return whether each user logs in to the server with a browser."""
    is_machine = form.oauth is not None and form.oauth.grant == "client_credentials"
    return form.auth is not None and form.auth.oauth and not is_machine


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
    OptionError.raise_for(faults)
    return tuple(servers)


def _server_of(name: str, said: Sourced, environ: Mapping[str, str]) -> McpServer:
    form: McpForm = said.value
    given = _given(form)
    for key in ("env", "headers"):
        values: Mapping[str, HeaderForm] = given.get(key, {})
        given[key] = {one: _value_of(value, said.folder, environ) for one, value in values.items()}
    if form.auth is not None:
        bearer = form.auth.bearer
        given["auth"] = "oauth" if bearer is None else Secret(secret_of(bearer, said.folder, environ))
    if form.oauth is not None:
        given["oauth"] = _client_of(form.oauth, said.folder, environ)
    folder = Path(said.folder)
    # The user's own file is in that directory already.
    pins = (folder if folder.name == USER_FOLDER else folder / USER_FOLDER) / PINS_FILE
    return McpServer(name, **{**given, "cwd": folder / (form.cwd or "."), "pins": pins})


def _client_of(form: McpOAuthForm, folder: str, environ: Mapping[str, str]) -> OAuthClient:
    given = _given(form)
    if form.client_secret is not None:
        given["client_secret"] = Secret(secret_of(form.client_secret, folder, environ))
    return OAuthClient(**given)


def _given(form: McpForm | McpOAuthForm) -> dict[str, Any]:
    found = {one.name: getattr(form, one.name) for one in attrs.fields(type(form))}
    return {name: value for name, value in found.items() if value is not None}


def _value_of(form: HeaderForm, folder: str, environ: Mapping[str, str]) -> str | Secret:
    return form.text or "" if form.secret is None else Secret(secret_of(form.secret, folder, environ))
