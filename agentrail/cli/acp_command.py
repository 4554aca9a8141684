"""`agentrail acp`: serve an agent to the editor that started this process. Imports little until the editor wants a session."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import trio
from cyclopts import Parameter

from agentrail.cli.config_setup import MODEL_VARIABLE, AgentOption, ConfigFiles, read_setup, write_notice
from agentrail.cli.ctrl_c import stop_signals
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_error
from agentrail.cli.storage_options import DEFAULT_STORE
from agentrail.errors import AgentrailError, StoreInUse
from agentrail.gateway.stdio.acp_connection import AcpConnection
from agentrail.gateway.stdio.line_stream import open_line_stream
from agentrail.protocols.acp import AUTH_REQUIRED, AcpFault
from agentrail.protocols.error_shapes import INTERNAL_ERROR

if TYPE_CHECKING:
    from agentrail.gateway.stdio.acp_agent import AcpAgent, EditorPlaces
    from agentrail.host.agent_profiles import ProfileContext
    from agentrail.runtime.session_options import SessionOptions

_REMEDY: Final = "Set a key such as ANTHROPIC_API_KEY, or AGENTRAIL_MODEL=demo: to try it without one"


def serve_editor(
    *,
    agent: AgentOption = None,
    files: ConfigFiles = ConfigFiles(),  # noqa: B008 - frozen
    setup: Annotated[
        bool, Parameter(help="Report what a model needs, and exit. Editors run this in a terminal.")
    ] = False,
    client_terminal: Annotated[
        bool, Parameter(help="Run commands in the editor's terminal, if it has one. Nothing confines them.")
    ] = False,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    if setup:
        from agentrail.cli.doctor_command import doctor

        return doctor(agent=agent, files=files)
    if os.isatty(0):
        write_error("waiting for an editor: it starts this command and writes to stdin. Ctrl-C ends it.")
    if not trio.run(partial(_serve, agent, files, client_terminal=client_terminal)):
        read_setup(files, agent)  # raises the faults; otherwise an editor has been told of them
    return Exit.DONE


async def _serve(agent: str | None, files: ConfigFiles, *, client_terminal: bool) -> bool:
    from agentrail.cli.command_tree import version_line

    version = version_line().removeprefix("agentrail ")
    async with open_line_stream(stop_signals()) as stream:
        open_agent = partial(open_editor_agent, agent, files, client_terminal=client_terminal)
        return await AcpConnection(stream, open_agent, version=version).serve()


@asynccontextmanager
async def open_editor_agent(
    agent: str | None, files: ConfigFiles, connection: AcpConnection, *, client_terminal: bool
) -> AsyncIterator["AcpAgent"]:
    """Open a host for an editor, with one agent of the files or the coding agent. Users are asked before calls with effects."""
    from agentrail.gateway.stdio.acp_agent import AcpAgent, EditorPlaces
    from agentrail.host.host_lifespan import open_host

    places = EditorPlaces(client_terminal=client_terminal)
    async with AsyncExitStack() as stack:
        try:
            options = await _host_options(agent, files, places)
            try:
                host = await stack.enter_async_context(open_host(**options))
            except StoreInUse as error:
                write_error(f"{error}. Sessions of this editor are not kept.")
                host = await stack.enter_async_context(open_host(**{**options, "store": "memory:"}))
        except AgentrailError as error:
            raise AcpFault(INTERNAL_ERROR, describe_error(error)) from error
        yield AcpAgent(connection, host, places)


async def _host_options(agent: str | None, files: ConfigFiles, places: "EditorPlaces") -> dict[str, Any]:
    from attrs import evolve

    from agentrail.blueprints.command_files import read_commands
    from agentrail.blueprints.joined_commands import join_commands, skills_of_session
    from agentrail.cli.host_config import OF_APPLICATION, directory_of_host, options_of_host
    from agentrail.cli.run_options import Choices
    from agentrail.cli.run_setup import choose_for, decide_session, with_approvals
    from agentrail.host.agent_profiles import AgentProfile

    setup = read_setup(files, agent)
    if setup is None or setup.agent is None:
        setup = read_setup(files, None, coding=True)
    assert setup is not None  # noqa: S101 - there always is a coding agent
    write_notice(setup)
    chosen = await choose_for(Choices(), os.environ, setup)
    if setup.said("model") is None and not os.environ.get(MODEL_VARIABLE) and chosen.model == "demo:":
        raise AcpFault(AUTH_REQUIRED, f"no model is configured, and {chosen.why}. {_REMEDY}")
    options = decide_session(Choices(), chosen, setup, os.environ)
    options = evolve(options, plugins=with_approvals(options.plugins, None, options.tools, has_mcp=True))
    settings = setup.configuration.settings
    given = {name: one for name, one in options_of_host(settings).items() if name not in OF_APPLICATION}
    shared = tuple([one.name for one in given.get("mcp", ())])

    async def options_for(context: "ProfileContext") -> "SessionOptions":  # noqa: RUF029 - a host awaits it
        return places.arrange(options, context, shared)

    name = setup.agent or "coding"
    commands = read_commands(os.environ, trust_project=files.trust_project)
    skills = skills_of_session(setup.blueprint, setup.agent)
    return {
        "profiles": [AgentProfile(id=name, name=name.capitalize(), options=options_for)],
        "commands": join_commands(commands, skills=skills, imported=setup.configuration.commands),
        "store": DEFAULT_STORE,
        "data_dir": directory_of_host(settings, os.environ),
        **given,
        "idle_after": None,
        "drain_timeout": 0.0,
        "shutdown_timeout": 4.0,
    }
