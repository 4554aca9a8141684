"""`agentrail mcp`: list the configured MCP servers, log in and connect to them, and call a tool of one."""

import difflib
import os
import sys
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qsl, urlsplit

import attrs
import trio
from cyclopts import App, Parameter

from agentrail import outside
from agentrail.abc import Ok
from agentrail.app import open_supervisor
from agentrail.blueprints.configuration import Configuration
from agentrail.blueprints.mcp_servers import servers_of
from agentrail.cli.config_setup import AgentOption, ConfigFiles
from agentrail.cli.ctrl_c import stop_signals
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_all, write_error
from agentrail.cli.storage_options import DataDirectory
from agentrail.cli.text_output import print_text
from agentrail.config.key_filter import in_one_line
from agentrail.core.values.toolbox import parse_arguments
from agentrail.errors import AgentrailError, OptionError
from agentrail.sandboxes.server_process import open_server_process
from agentrail.stores.data_directory import find_data_directory
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.call_result import ServerLost
from agentrail.tools.mcp.login_files import LoginFile
from agentrail.tools.mcp.pins import Pins, pins_of
from agentrail.tools.mcp.source import log_in, login_file_of
from agentrail.tools.mcp.user_login import LOGIN_SECONDS

if TYPE_CHECKING:
    from agentrail.cli.serve_options import ServeOptions

app: Final = App(name="mcp", result_action="return_value")

_USUAL: Final = ConfigFiles()
_ERROR_LINES: Final = 10
_WIDTH: Final = 24
_REQUEST_SECONDS: Final = 5.0
_MAX_HEAD_BYTES: Final = 16_384
_PATH: Final = "/callback"
_NO_SERVER: Final = "no server is configured: write [mcp.NAME] into agentrail.toml, and trust the project"
_DISPLAYS: Final = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")

Names = Annotated[str, Parameter(help="Names of servers, as shown by mcp list. Default: all.")]


@app.command(
    name="serve",
    help="""Serve your agents as MCP tools over standard input and output, for a program that starts this one.

    Exit codes: 0 the input has ended, 2 wrong usage or configuration.""",
)
def serve_agents(
    *,
    agent: AgentOption = None,
    data_dir: DataDirectory = None,
    files: ConfigFiles = _USUAL,
    debug: Debug = False,
) -> Exit:
    from agentrail.cli.serve_command import check_extra, decide_all
    from agentrail.cli.serve_options import ServeFlags

    send_logs_to_stderr(debug=debug)
    check_extra()
    check_extra("mcp", of="mcp")
    configuration, options = decide_all(ServeFlags(data_dir=data_dir), files, None)
    trio.run(_serve, configuration, options, agent)
    return Exit.DONE


async def _serve(configuration: Configuration, options: "ServeOptions", agent: str | None) -> None:
    from agentrail.cli.serve_command import make_default_application
    from agentrail.gateway.protocols.mcp_stdio import serve_mcp_lines
    from agentrail.gateway.stdio.line_stream import open_line_stream

    limits: dict[str, Any] = {
        "protocols": (),
        "idle_after": None,
        "drain_timeout": 0.0,
        "shutdown_timeout": 1.0,
    }
    app = await make_default_application(options, configuration, agent=agent, **limits)
    async with open_line_stream(stop_signals()) as stream, app.state.host.open() as host:
        await serve_mcp_lines(app.state.host.gateway, host, stream)


@app.command(
    name="list",
    help="""List the configured servers, with the file and line of each. Nothing is started.

    Exit codes: 0 listed, 2 the configuration files cannot be read.""",
)
def list_servers(*, files: ConfigFiles = _USUAL, debug: Debug = False) -> Exit:
    send_logs_to_stderr(debug=debug)
    return print_text("\n".join(map(in_one_line, _listed(files.read().check()))))


def _listed(read: Configuration) -> Iterator[str]:
    if not read.settings.mcp:
        yield _NO_SERVER
    for name, said in read.settings.mcp.items():
        form = said.value
        what = form.url or " ".join(form.command or ())
        rights = "with your rights" if form.command else ""
        if form.sandbox:
            rights = "confined, with your network" if form.network == "host" else "confined"
        yield f"{name:<{_WIDTH}} {what}  ({', '.join(filter(None, (rights, str(said.place))))})"


@app.command(
    name="check",
    help="""Connect to servers and show their tools, or why they cannot be used and the end of their standard error.

    Servers are started, and stopped again. Exit codes: 0 all are ready, 1 one is not, 2 wrong usage or configuration.""",
)
def check_servers(*names: Names, files: ConfigFiles = _USUAL, debug: Debug = False) -> Exit:
    return _run(files, names, partial(_print_of, lines_of=_checked), debug=debug)


@app.command(
    name="call",
    help="""Call a tool of a server, and print its result.

    The arguments are checked by the tool's schema first. Exit codes: 0 done, 1 the call failed, 2 wrong usage or configuration.""",
)
def call_tool(
    server: Annotated[str, Parameter(help="The name of the server, as shown by mcp list.")],
    tool: Annotated[str, Parameter(help="The server's name of the tool, or its name in sessions.")],
    arguments: Annotated[str, Parameter(help="The arguments as a JSON object.")] = "{}",
    *,
    files: ConfigFiles = _USUAL,
    debug: Debug = False,
) -> Exit:
    return _run(files, (server,), partial(_call, tool=tool, arguments=arguments), debug=debug)


@app.command(
    name="accept",
    help="""Show how the tools of servers differ from those first seen, and accept them as they are now.

    With pin = "refuse" a changed tool is hidden until then. Exit codes: 0 done, 1 a server is not ready, 2 wrong usage or configuration.""",
)
def accept_tools(*names: Names, files: ConfigFiles = _USUAL, debug: Debug = False) -> Exit:
    return _run(files, names, _accept, debug=debug)


@app.command(
    name="login",
    help="""Log in to a server with auth = "oauth", with your browser.

    The link is printed too. Exit codes: 0 logged in, 1 the login failed, 2 wrong usage or configuration.""",
)
def log_in_to_server(
    server: Annotated[str, Parameter(help="The name of the server, as shown by mcp list.")],
    *,
    port: Annotated[
        int, Parameter(help="Loopback port for the answer, for a client with a registered address. 0: any.")
    ] = 0,
    data_dir: DataDirectory = None,
    files: ConfigFiles = _USUAL,
    debug: Debug = False,
) -> Exit:
    return _run(files, (server,), partial(_log_in_to, data_dir=data_dir, port=port), debug=debug)


@app.command(
    name="logout",
    help="""Delete the login to a server.

    A program that is running keeps it until its access token expires. Exit codes: 0 deleted, or there was none, 2 wrong usage or configuration.""",
)
def log_out_of_server(
    server: Annotated[str, Parameter(help="The name of the server, as shown by mcp list.")],
    *,
    data_dir: DataDirectory = None,
    files: ConfigFiles = _USUAL,
    debug: Debug = False,
) -> Exit:
    async def logout(servers: tuple[McpServer, ...]) -> Exit:
        was_there = await outside.offload(_login_file(servers[0], data_dir).delete)
        return print_text(f"{server}: {'logged out' if was_there else 'there was no login'}")

    return _run(files, (server,), logout, debug=debug)


def _login_file(server: McpServer, data_dir: Path | None) -> LoginFile:
    if server.auth != "oauth":
        raise OptionError([f'{server.name} has no login: set auth = "oauth" in [mcp.{server.name}]'])
    return login_file_of(server, find_data_directory(os.environ, data_dir))


def _run(
    files: ConfigFiles,
    names: tuple[str, ...],
    work: Callable[[tuple[McpServer, ...]], Awaitable[Exit]],
    *,
    debug: bool,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    read = files.read().check()
    servers = {one.name: one for one in servers_of(read.settings, os.environ)}
    if not servers and not names:
        raise OptionError([_NO_SERVER])
    unknown = [name for name in names if name not in servers]
    if unknown:
        there = f"there are {', '.join(servers)}" if servers else "none is configured"
        raise OptionError([f"there is no MCP server {unknown[0]!r:.80}: {there}"])
    try:
        return trio.run(work, tuple([servers[name] for name in names or servers]))
    except OptionError:  # wrong usage
        raise
    except AgentrailError as error:
        write_error(f"{describe_error(error)}.")
        return Exit.FAILED


@asynccontextmanager
async def _connected(servers: tuple[McpServer, ...]) -> Any:
    """Open a supervisor of the servers, and wait until each was ready or lost once."""
    async with open_supervisor(mcp=servers) as supervisor:
        running = [supervisor.sources.running[one.name] for one in servers]
        for one in running:
            supervisor.sources.start(one)
        for one in running:
            await one.source.settled.wait()
        yield supervisor, [one.source for one in running]


async def _print_of(servers: tuple[McpServer, ...], lines_of: Callable[[Any], Iterator[str]]) -> Exit:
    """Connect to servers, and print lines about each, or why it is not ready."""
    async with _connected(servers) as (_, sources):
        are_ready = all(source.state == "ready" for source in sources)
        told = [lines_of(source) if source.state == "ready" else _lost(source) for source in sources]
        lines = [in_one_line(line) for one in told for line in one]
    done = print_text("\n".join(lines))
    return done if are_ready else Exit.FAILED


def _lost(source: Any) -> Iterator[str]:
    yield f"{source.name}: {'needs a login: ' if source.state == 'needs_login' else ''}{source.reason}"
    yield from [f"  stderr: {line}" for line in source.error_text.splitlines()[-_ERROR_LINES:]]


def _checked(source: Any) -> Iterator[str]:
    yield f"{source.name}: ready, {len(source.tools)} tools"
    for tool in source.tools:
        yield f"  {tool.name:<{_WIDTH}} {tool.effect_class:<10} {tool.description}"
    yield from [f"  left out: {fault}" for fault in source.listing.faults]


async def _accept(servers: tuple[McpServer, ...]) -> Exit:
    known = {one.name: await outside.offload(pins_of, one) for one in servers}
    # With this reaction every tool is taken, and its digest written.
    asked = tuple([attrs.evolve(one, pin="warn") for one in servers])
    return await _print_of(asked, lambda source: _accepted(source, known[source.name]))


def _accepted(source: Any, known: Pins) -> Iterator[str]:
    changed = [
        (tool, known[tool.listed.remote_name])
        for tool in source.tools
        if tool.listed.remote_name in known and known[tool.listed.remote_name].digest != tool.listed.digest
    ]
    yield f"{source.name}: {len(changed)} of {len(source.tools)} tools have changed, all are accepted"
    for tool, pin in changed:
        before, now = pin.description.splitlines(), tool.description.splitlines()
        difference = list(difflib.unified_diff(before, now, lineterm="", n=0))[2:]
        yield f"  {tool.name}"
        yield from [f"    {line}" for line in difference] or ["    its schema or its hints"]


async def _call(servers: tuple[McpServer, ...], *, tool: str, arguments: str) -> Exit:
    given = parse_arguments(arguments)
    if isinstance(given, str):
        raise OptionError([given])
    async with _connected(servers) as (supervisor, (source,)):
        if source.state != "ready":
            for line in _lost(source):
                write_error(in_one_line(line))
            return Exit.FAILED
        found = [one for one in source.tools if tool in {one.name, one.listed.remote_name}]
        if not found:
            there = ", ".join(one.listed.remote_name for one in source.tools)
            raise OptionError([f"{source.name} has no tool {tool!r:.80}: there are {there}"])
        outcome = await supervisor.call_tool(found[0].name, given, tools=found)
    done = print_text(outcome.text)
    return done if isinstance(outcome, Ok) else Exit.FAILED


# --- logins


class LoopbackBrowser:
    """The user's browser. It comes back to a port of this process.

    Args:
        port: The port.
        opens: Whether a browser is opened. The link is printed in any case.
    """

    def __init__(self, port: int, *, opens: bool) -> None:
        self.redirect_uri: str = f"http://127.0.0.1:{port}{_PATH}"
        self._opens = opens
        self._state: str | None = None
        self._answer: Mapping[str, str] = {}
        self._answered = trio.Event()

    async def show(self, url: str) -> None:
        self._state = dict(parse_qsl(urlsplit(url).query)).get("state")
        shown = url if url.isprintable() else ascii(url)
        write_all(2, f"agentrail: Log in with this link:\n{shown}\n\n".encode())
        if self._opens:
            await outside.offload(webbrowser.open, url, abandon_on_cancel=True)

    async def wait_answer(self) -> Mapping[str, str]:
        await self._answered.wait()
        return self._answer

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one request. One with another `state` changes nothing, as it may come from any web page."""
        async with stream:
            with trio.move_on_after(_REQUEST_SECONDS):
                head = b""
                while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
                    data = await stream.receive_some()
                    if not data:
                        return
                    head += data
                status, text = self.decide_reply(head)
                body = f"{text}\n".encode()
                await stream.send_all(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + body
                )

    def decide_reply(self, head: bytes) -> tuple[str, str]:
        """Take the answer of the authorization server, once, and return a status and a text for the user."""
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        parts = urlsplit(words[1]) if len(words) == 3 else urlsplit("")  # noqa: PLR2004 - method, target, version
        answer = dict(parse_qsl(parts.query))
        if words[0] != "GET" or parts.path != _PATH:
            return "404 Not Found", "There is nothing here."
        if self._state is None or answer.get("state") != self._state:
            return "400 Bad Request", "This is not the answer to a login that was started here."
        self._state = None
        self._answer = answer
        self._answered.set()
        if "code" not in answer or "error" in answer:
            return "400 Bad Request", "The login was refused. The terminal shows the reason."
        return "200 OK", "You can close this window and return to the terminal."


@asynccontextmanager
async def _open_browser(port: int, *, opens: bool) -> AsyncIterator[LoopbackBrowser]:
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    browser = LoopbackBrowser(listeners[0].socket.getsockname()[1], opens=opens)
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, browser.serve, listeners)
        yield browser
        nursery.cancel_scope.cancel(reason="the login has ended")


async def _log_in_to(servers: tuple[McpServer, ...], *, data_dir: Path | None, port: int) -> Exit:
    (server,) = servers
    file = _login_file(server, data_dir)
    has_display = sys.platform == "darwin" or any(os.environ.get(name) for name in _DISPLAYS)
    failure = f"there was no answer within {LOGIN_SECONDS / 60:g} minutes"
    with trio.move_on_after(LOGIN_SECONDS):
        try:
            if not server.has_login_per_principal:
                await log_in(server, open_server_process, file)
            else:
                async with _open_browser(port, opens=has_display) as browser:
                    await log_in(server, open_server_process, file, browser)
        except* (ServerLost, OSError) as lost:
            failure = "; ".join(str(one) for one in lost.exceptions)
        else:
            return print_text(f"{server.name}: logged in")
    write_error(f"{server.name}: {in_one_line(failure)}")
    return Exit.FAILED
