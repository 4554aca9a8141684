"""`agentrail mcp`: list the configured MCP servers, connect to them, and call a tool of one."""

import difflib
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import attrs
import trio
from cyclopts import App, Parameter

from agentrail import outside
from agentrail.abc import Ok
from agentrail.app import open_supervisor
from agentrail.blueprints.configuration import Configuration, read_configuration
from agentrail.blueprints.mcp_servers import servers_of
from agentrail.cli.config_setup import ConfigFiles, write_faults
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_error
from agentrail.cli.text_output import print_text
from agentrail.config.key_filter import in_one_line
from agentrail.core.values.toolbox import parse_arguments
from agentrail.errors import AgentrailError, OptionError
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.pins import Pins, pins_of

app: Final = App(name="mcp", result_action="return_value")

_USUAL: Final = ConfigFiles()
_ERROR_LINES: Final = 10
_WIDTH: Final = 24

Names = Annotated[str, Parameter(help="Names of servers, as shown by mcp list. Default: all.")]


@app.command(
    name="list",
    help="""List the configured servers, with the file and line of each. Nothing is started.

    Exit codes: 0 listed, 2 the configuration files cannot be read.""",
)
def list_servers(*, files: ConfigFiles = _USUAL, debug: Debug = False) -> Exit:
    send_logs_to_stderr(debug=debug)
    try:
        read = _read(files)
    except AgentrailError as error:
        write_faults(error)
        return Exit.USAGE
    return print_text("\n".join(map(in_one_line, _listed(read))))


def _listed(read: Configuration) -> Iterator[str]:
    if not read.settings.mcp:
        yield "no server is configured: write [mcp.NAME] into agentrail.toml"
    for name, said in read.settings.mcp.items():
        form = said.value
        what = form.url or " ".join(form.command or ())
        yield f"{name:<{_WIDTH}} {what}  ({said.place})"


@app.command(
    name="check",
    help="""Connect to servers and show their tools, or why they cannot be used and the end of their standard error.

    Servers are started, and stopped again. Exit codes: 0 all are ready, 1 one is not, 2 wrong usage or configuration.""",
)
def check_servers(*names: Names, files: ConfigFiles = _USUAL, debug: Debug = False) -> Exit:
    return _run(files, names, _check, debug=debug)


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
    async def call(servers: tuple[McpServer, ...]) -> Exit:
        return await _call(servers[0], tool, arguments)

    return _run(files, (server,), call, debug=debug)


@app.command(
    name="accept",
    help="""Show how the tools of servers differ from those first seen, and accept them as they are now.

    With pin = "refuse" a changed tool is hidden until then. Exit codes: 0 done, 1 a server is not ready, 2 wrong usage or configuration.""",
)
def accept_tools(*names: Names, files: ConfigFiles = _USUAL, debug: Debug = False) -> Exit:
    return _run(files, names, _accept, debug=debug)


def _run(
    files: ConfigFiles,
    names: tuple[str, ...],
    work: Callable[[tuple[McpServer, ...]], Awaitable[Exit]],
    *,
    debug: bool,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    try:
        read = _read(files).check()
        servers = {one.name: one for one in servers_of(read.settings, os.environ)}
        unknown = [name for name in names if name not in servers]
        if unknown:
            there = f"there are {', '.join(servers)}" if servers else "none is configured"
            raise OptionError([f"there is no MCP server {unknown[0]!r:.80}: {there}"])
    except AgentrailError as error:
        write_faults(error)
        return Exit.USAGE
    try:
        return trio.run(work, tuple([servers[name] for name in names or servers]))
    except OptionError as error:
        write_faults(error)
        return Exit.USAGE
    except AgentrailError as error:
        write_error(f"{describe_error(error)}.")
        return Exit.FAILED


def _read(files: ConfigFiles) -> Configuration:
    read = read_configuration(os.environ, config=files.config, trust_project=files.trust_project)
    if read.notice is not None:
        write_error(f"{read.notice}.")
    return read


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


async def _check(servers: tuple[McpServer, ...]) -> Exit:
    async with _connected(servers) as (_, sources):
        lines = [line for source in sources for line in _checked(source)]
        are_ready = all(source.state == "ready" for source in sources)
    done = print_text("\n".join(map(in_one_line, lines)))
    return done if are_ready else Exit.FAILED


def _checked(source: Any) -> Iterator[str]:
    if source.state != "ready":
        yield f"{source.name}: {source.reason}"
        yield from [f"  stderr: {line}" for line in source.error_text.splitlines()[-_ERROR_LINES:]]
        return
    yield f"{source.name}: ready, {len(source.tools)} tools"
    for tool in source.tools:
        yield f"  {tool.name:<{_WIDTH}} {tool.effect_class:<10} {tool.description}"
    yield from [f"  left out: {fault}" for fault in source.listing.faults]


async def _accept(servers: tuple[McpServer, ...]) -> Exit:
    known = {one.name: await outside.offload(pins_of, one) for one in servers}
    # With this reaction every tool is taken, and its digest written.
    asked = tuple([attrs.evolve(one, pin="warn") for one in servers])
    async with _connected(asked) as (_, sources):
        lines = [line for source in sources for line in _accepted(source, known[source.name])]
        are_ready = all(source.state == "ready" for source in sources)
    done = print_text("\n".join(map(in_one_line, lines)))
    return done if are_ready else Exit.FAILED


def _accepted(source: Any, known: Pins) -> Iterator[str]:
    if source.state != "ready":
        yield from _checked(source)
        return
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


async def _call(server: McpServer, tool: str, arguments: str) -> Exit:
    given = parse_arguments(arguments)
    if isinstance(given, str):
        raise OptionError([given])
    async with _connected((server,)) as (supervisor, (source,)):
        if source.state != "ready":
            for line in _checked(source):
                write_error(in_one_line(line))
            return Exit.FAILED
        found = [one for one in source.tools if tool in {one.name, one.listed.remote_name}]
        if not found:
            there = ", ".join(one.listed.remote_name for one in source.tools)
            raise OptionError([f"{server.name} has no tool {tool!r:.80}: there are {there}"])
        outcome = await supervisor.call_tool(found[0].name, given, tools=found)
    done = print_text(outcome.text)
    return done if isinstance(outcome, Ok) else Exit.FAILED
