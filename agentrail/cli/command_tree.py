"""The tree of commands. Only the requested command's module is imported."""

import errno
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import metadata
from pathlib import Path
from typing import Final

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnusedCliTokensError,
)
from cyclopts.argument import Argument

from agentrail.cli.exit_codes import Exit, write_faults
from agentrail.cli.log_output import OPTION, tell_crash
from agentrail.cli.resume_option import fill_in_latest
from agentrail.cli.stdio import OutputClosed, OutputFailed, open_missing_streams, write_error
from agentrail.cli.text_output import end_without_output
from agentrail.distribution import NAME
from agentrail.errors import AgentrailError, ToolDefinitionError
from agentrail.gc_settings import no_looks
from agentrail.otp.guarded_calls import call_guarded, leaves
from agentrail.stores.store_urls import has_password

_SHOWN: Final = """a store URL on the command line has a password, which every user of this machine can read in the list of processes. \
Leave it out and set PGPASSFILE or PGPASSWORD, or set the URL as AGENTRAIL_STORE or as store in [host]. Change the password if others use this machine."""


def version_line() -> str:
    try:
        return f"agentrail {metadata.version(NAME)}"
    except metadata.PackageNotFoundError:
        return "agentrail, from a checkout that is not installed"


def shown_default(value: object) -> str | None:
    """Return a default for the help, or None for one that sets nothing."""
    return None if value is False or value in (None, "", ()) else str(value)


app: Final = App(
    name="agentrail",
    help="Run LLM agents that really stop: supervised sessions, tools as tasks.",
    version=version_line,
    result_action="return_value",
    default_parameter=Parameter(negative_bool=(), show_default=shown_default),  # a flag has no --no-flag
)
# The help texts are here and not in docstrings, because listing the commands does not import them. The list shows the
# first sentence of each text.
app.command(
    "agentrail.cli.run_command:run",
    name="run",
    help="""Give a model one prompt, show its work, and exit.

    The model's text goes to stdout; tool calls, thinking and errors to stderr. Ctrl-C stops the cycle and everything
    it started. A second Ctrl-C exits immediately.

    Exit codes: 0 done, 1 the cycle failed, 2 wrong usage, 130 interrupted.""",
)
app.command(
    "agentrail.cli.chat_command:chat",
    name="chat",
    help="""Chat with a model. You can type while it works.

    Lines typed while a cycle runs are queued. Ctrl-C clears the input line, then stops the running cycle; pressed
    twice in an idle chat, it exits. Ctrl-D exits. Lines can also be piped in: they are processed in order.

    The session is stored: --resume continues it, even if the process was killed. --connect chats with a session on a server.""",
)
app.command(
    "agentrail.cli.demo_command:demo",
    name="demo",
    help="""Take a tour of two minutes, offline and without a key: a tool, a steer, an abort, an approval, a crash, a bug found.

    Each scene introduces its topic, shows it in a real session, and names the page to read. --fast skips the pauses. Ctrl-C ends it.
    For running agents in a browser, use agentrail serve --demo.

    Exit codes: 0 shown, or left with Ctrl-C, 1 stdout cannot be written, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.check_plugins_command:check_plugins",
    name="check-plugins",
    help="""Look for a conversation in which a stack of plugins breaks, without a model.

    STACK is `package.module:NAME`, a list of plugins, or a class that `agentrail.testing.stacks.stack_machine` made. A
    failure is printed as the shortest scenario that shows it. Ctrl-C prints the findings so far.

    Exit codes: 0 nothing broke, 1 something did, 2 wrong usage, 130 interrupted.""",
)
app.command(
    "agentrail.cli.doctor_command:doctor",
    name="doctor",
    help="""Report what is configured, installed and reachable, and how to fix the rest.

    No prompt is sent. Exit code: 0 if a run would work, otherwise 1.""",
)

app.command(
    "agentrail.cli.skills_command:app",
    name="skills",
    help="""List skills, show one, or check a directory.

    Exit codes: 0 done, 1 something is wrong with a skill, 2 wrong usage, or the configuration files cannot be read.""",
)
app.command(
    "agentrail.cli.sessions_command:app",
    name="sessions",
    help="""Inspect stored sessions, even while another process writes them; recover, check, back up, delete.

    Exit codes: 0 done, 1 something is wrong with a session, 2 wrong usage, or there is no such store or session.""",
)

app.command(
    "agentrail.cli.sessions_command:replay_journal",
    name="replay",
    help="""Replay a session from its journal, without a network, and compare it with the record.

    JOURNAL is the id of a stored session, or a file written by `sessions export` or `sessions trace --json`. It is the same command
    as `sessions replay`. Exit codes: 0 identical, 1 it differs or is damaged, 2 there is no such journal.""",
)
app.command(
    "agentrail.cli.nodes_command:app",
    name="nodes",
    help="""List the nodes that share a PostgreSQL store, drain one, move a session, report a dead one.

    Exit codes: 0 done, 1 the node refused or does not answer, 2 wrong usage, or there is no such store.""",
)
app.command(
    "agentrail.cli.store_command:app",
    name="store",
    help="""Look after the store as a whole: back it up, check it, create its tables, prepare it after a restore.

    Exit codes: 0 done, 2 wrong usage, or there is no such store.""",
)

app.command(
    "agentrail.cli.plugins_command:app",
    name="plugins",
    help="""List the built-in plugins, or explain how a stack of plugins answers a hook event.

    Without more it prints each plugin with its priority, its hooks and its options. Nothing is started.""",
)

app.command(
    "agentrail.cli.permissions_command:app",
    name="permissions",
    help="""Explain how permission rules decide a call, or check a file of rules.

    Nothing is started and nothing is run. Exit codes: 0 done, 1 a rule cannot be read, 2 wrong usage.""",
)

app.command(
    "agentrail.cli.serve_command:serve_application",
    name="serve",
    help="""Serve an application made by create_app over HTTP until stopped.

    Without one it serves a profile for each agent of the configuration files, or one with the model and the tools that
    agentrail run would use, and keeps their sessions.
    The address is printed on stdout once the server answers. Ctrl-C or SIGTERM lets calls and streams finish; a second
    one stops immediately.

    Exit codes: 0 stopped, 1 the application failed, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.config_command:app",
    name="config",
    help="""Show the resulting configuration, and the source of each value.

    Exit codes: 0 no faults, 1 faults, all of them reported, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.prompt_command:app",
    name="prompt",
    help="""Show the system prompt of an agent: each section, where it comes from, and its tokens.

    Nothing is started. Exit codes: 0 printed, 1 something is wrong with the files, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.config_command:init",
    name="init",
    help="""Write a commented agentrail.toml here.

    Exit codes: 0 written, 1 it cannot be written, 2 there is one already.""",
)
app.command(
    "agentrail.cli.config_command:trust",
    name="trust",
    help="""Trust the configuration files of this directory as they are now, and show what that grants.

    Until then a project's files can only restrict the defaults. A changed, added or removed file ends the trust. Exit codes: 0 done,
    1 there is nothing to trust, or something is wrong with it.""",
)
app.command(
    "agentrail.cli.top_command:show_top",
    name="top",
    help="""Watch the sessions of a server: phase, running tool, tokens per second, cost, restarts.

    In a terminal it runs until q or Ctrl-C, and a letter sorts; into a pipe it prints one table and exits. The token is read from
    AGENTRAIL_TOKEN or a file. A lost connection is reopened.

    Exit codes: 0 done, 1 the server cannot be reached or refuses, 2 wrong usage, 130 interrupted.""",
)
app.command(
    "agentrail.cli.cost_command:show_cost",
    name="cost",
    help="""Add up the usage of stored sessions: tokens and dollars by day, profile, model, user or session.

    Works while another process writes the store. Usage that a server did not report is estimated, and marked.

    Exit codes: 0 done, 2 wrong usage or there is no such store.""",
)
app.command(
    "agentrail.cli.eval_command:run_eval",
    name="eval",
    help="""Run the cases of an eval file, score them, and compare with a baseline.

    FILE is TOML with a task, scorers and cases. Finished cases are kept: after Ctrl-C or a crash the same command runs the rest.

    Exit codes: 0 done, 1 the mean score is below --fail-below, 2 wrong usage or a faulty file, 130 interrupted.""",
)
app.command(
    "agentrail.cli.eval_command:evals",
    name="evals",
    help="""Check judges against people, and make cases of stored sessions.

    Exit codes: 0 done, 1 it failed, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.simulate_command:simulate",
    name="simulate",
    help="""Live simulated lives of a whole cluster from seeds, with faults, and judge every promise after each step.

    Nodes, network, store, disks, models and people run in one thread and in virtual time; no real model, file or socket is used.
    The first broken life is shrunk, saved as a .sim file and told as a story. FILE plays such a life again.

    Exit codes: 0 all promises held, 1 one was broken, 2 wrong usage, 3 a seed is not repeatable, 130 interrupted.""",
)
app.command(
    "agentrail.cli.audit_command:app",
    name="audit",
    help="""Check an audit log, and make it again from the journals.

    Exit codes: 0 done, 1 the log was changed, 2 wrong usage, or an unknown log.""",
)
app.command(
    "agentrail.cli.telemetry_command:app",
    name="telemetry",
    help="""Export the spans of stored sessions with OpenTelemetry.

    Exit codes: 0 done, 1 a session could not be read, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.kb_command:app",
    name="kb",
    help="""Add documents to knowledge bases, list them, search them, remove them.

    Works while another process reads them. Exit codes: 0 done, 1 a document could not be read, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.acp_command:serve_editor",
    name="acp",
    help="""Serve an agent to the editor that starts this command, over the Agent Client Protocol.

    Messages are read from stdin and written to stdout; logs go to stderr. Without --agent it is the default agent of the
    configuration files, otherwise the built-in coding agent. Calls with effects are asked about in the editor, and sessions are
    kept. Closed input, Ctrl-C or SIGTERM abort the work and end it.

    Exit codes: 0 ended, 1 it failed, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.mcp_command:app",
    name="mcp",
    help="""List MCP servers, check them, call a tool of one, accept changed tools.

    Exit codes: 0 done, 1 a server cannot be used or a call failed, 2 wrong usage, or the configuration files cannot be read.""",
)
app.command(
    "agentrail.cli.memory_command:app",
    name="memory",
    help="""List, search and forget memories of a user.

    Works while another process adds memories. Exit codes: 0 done, 1 something was not erased, 2 wrong usage, or there is no such memory.""",
)
app.command(
    "agentrail.cli.sandbox_command:app",
    name="sandbox",
    help="""Serve workspaces of this machine to sessions elsewhere: files and commands, over HTTP with a token.

    Exit codes: 0 stopped, 1 it failed, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.token_command:app",
    name="token",
    help="""Create access tokens for a server.

    Exit codes: 0 done, 2 wrong usage.""",
)


def _import_and_run(arguments: Sequence[str]) -> object:
    with no_looks():
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    if console := bound.arguments.get("console"):  # of a help, which fails at width 0 and hangs at 1
        console.width = min(max(console.width, 20), 1_000)
    try:
        return command(*bound.args, **bound.kwargs)
    except OSError as error:
        if not isinstance(getattr(command, "__self__", None), App):  # whose methods print a help
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the buffered rest, which is flushed at the exit
        write_error(f"the output cannot be written: {error.strerror}.")
        return Exit.FAILED


def describe_usage_error(error: CycloptsError) -> str:
    """Return the fault of a command line and where to look, with arguments named as in the help."""
    said = f"{error}"
    words = error.unused_tokens or []
    match error:
        case UnusedCliTokensError():
            said = f"Unexpected argument: {' '.join(words)}."
        case UnknownCommandError() if words and words[0].startswith("-"):
            near = get_close_matches(words[0], (*app.help_flags, *app.version_flags), n=1)
            said = f"Unknown option: {words[0]}.{f' Did you mean {near[0]}?' if near else ''}"
        case MissingArgumentError(keyword=None, argument=Argument(index=int(), tokens=[]) as missing):
            said = f"The argument {missing.name.lstrip('-').upper()} is missing."
        case _:
            pass
    chain = error.command_chain or ()
    if isinstance(error, UnusedCliTokensError) and [*chain] == ["run"]:
        return f"{said} The prompt is one argument: put it in quotes."
    return f"{said} See {' '.join(('agentrail', *chain, '--help'))}."


_TELLING: Final = frozenset(
    {
        "acp",
        "check-plugins",
        "mcp",
        "permissions",
        "plugins",
        "prompt",
        "sandbox",
        "serve",
        "skills",
        "token",
        "top",
    }
)
"""Commands that end at their first error of ours, which is wrong usage. Others tell theirs, and one that escapes is a bug."""


def run_command_line(arguments: Sequence[str]) -> int:
    open_missing_streams()

    def crashed(caught: BaseException) -> Exit:
        alone = leaves(caught)
        match error := alone[0] if len(alone) == 1 else caught:
            case CycloptsError():
                raise error
            case OutputFailed() | OutputClosed():
                return end_without_output(error)
            case UnicodeEncodeError(encoding="utf-8") if error.object[error.start] in "".join(arguments):
                write_error(f"an argument is not UTF-8: {error.object!r:.80}.")
                return Exit.USAGE
            case OSError(errno=errno.EACCES | errno.ENAMETOOLONG, filename=str(name)) if (
                OPTION not in arguments
            ):
                write_error(f"{name!r:.200} cannot be used: {error.strerror}. Correct that, or name another.")
                return Exit.USAGE
            case ToolDefinitionError() if sys.flags.optimize > 1:
                write_error("python -OO removes docstrings, which describe the tools: use -O, or neither.")
                return Exit.USAGE
            case AgentrailError() if not _TELLING.isdisjoint(arguments[:1]):
                write_faults(error)
                return Exit.USAGE
            case _:
                tell_crash(caught, debug=OPTION in arguments)
                return Exit.FAILED

    if any(has_password(one.partition("=")[2] if one.startswith("-") else one) for one in arguments):
        write_error(_SHOWN)
        return Exit.USAGE
    try:
        Path.cwd()
    except OSError:
        write_error("the current directory no longer exists: change to another one.")
        return Exit.USAGE
    try:
        code = call_guarded(crashed, _import_and_run, fill_in_latest(arguments))
    except CycloptsError as error:
        write_error(describe_usage_error(error))
        return Exit.USAGE
    return code if isinstance(code, int) else Exit.DONE
