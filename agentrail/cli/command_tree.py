"""The tree of commands. Only the requested command's module is imported."""

from collections.abc import Sequence
from importlib import metadata
from typing import Final

from cyclopts import App, CycloptsError, UnusedCliTokensError

from agentrail.cli.exit_codes import Exit
from agentrail.cli.log_output import OPTION, tell_crash
from agentrail.cli.resume_option import fill_in_latest
from agentrail.cli.stdio import open_missing_streams, write_error
from agentrail.distribution import NAME
from agentrail.gc_settings import no_looks
from agentrail.otp.guarded_calls import call_guarded


def version_line() -> str:
    try:
        return f"agentrail {metadata.version(NAME)}"
    except metadata.PackageNotFoundError:
        return "agentrail, from a checkout that is not installed"


app: Final = App(
    name="agentrail",
    help="Run LLM agents that really stop: supervised sessions, tools as tasks.",
    version=version_line,
    result_action="return_value",
)
# The help texts are here and not in docstrings, because listing the commands does not import them. The list shows the
# first sentence of each text.
app.command(
    "agentrail.cli.run_command:run",
    name="run",
    help="""Give a model one prompt, show what it does, and leave.

    The words of the model go to stdout; tool calls, thinking and errors to stderr. Ctrl-C stops the cycle and all that
    it started; a second one does not wait for it.

    Exit codes: 0 done, 1 the cycle failed, 2 wrong usage, 130 interrupted.""",
)
app.command(
    "agentrail.cli.chat_command:chat",
    name="chat",
    help="""Talk with a model; type while it works.

    A line that is typed while a cycle runs waits for its turn. Ctrl-C clears what was typed, then stops the running
    cycle; in idle, pressed twice, it leaves. Ctrl-D leaves. Lines can also be piped in: they are worked off in order.

    The session is kept: --resume goes on with it, also when the process was killed. --connect talks with one on a server.""",
)
app.command(
    "agentrail.cli.demo_command:demo",
    name="demo",
    help="""Take a tour of two minutes, offline and without a key: a tool, a steer, an abort, an approval, a crash, a bug found.

    Each scene says what it shows, shows it on a real session, and names the page to read. --fast makes no pauses. Ctrl-C ends it.
    Agents at work in a browser: agentrail serve --demo.

    Exit codes: 0 shown, or left with Ctrl-C, 1 stdout cannot be written, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.check_plugins_command:check_plugins",
    name="check-plugins",
    help="""Look for a conversation in which a stack of plugins breaks, without a model.

    STACK is `package.module:NAME`, a list of plugins, or a class that `agentrail.testing.stacks.stack_machine` made. What
    breaks is printed as a scenario, as short as it can be made. Ctrl-C says what was found so far.

    Exit codes: 0 nothing broke, 1 something did, 2 wrong usage, 130 interrupted.""",
)
app.command(
    "agentrail.cli.doctor_command:doctor",
    name="doctor",
    help="""Say what is configured, installed and reachable, and what to do about what is not.

    No prompt is sent. Exit code: 0 when a run would work, else 1.""",
)

app.command(
    "agentrail.cli.skills_command:app",
    name="skills",
    help="""Look at skills: which there are, what one says, whether a directory is one.

    Exit codes: 0 done, 1 something is wrong with a skill, 2 wrong usage, or the configuration files cannot be read.""",
)
app.command(
    "agentrail.cli.sessions_command:app",
    name="sessions",
    help="""Look at stored sessions, also beside a process that writes them; recover, check, back up, delete.

    Exit codes: 0 done, 1 something is wrong with a session, 2 wrong usage, or there is no such store or session.""",
)

app.command(
    "agentrail.cli.sessions_command:replay_journal",
    name="replay",
    help="""Live a session again from its journal, without a network, and compare it with what was recorded.

    JOURNAL is the id of a stored session, or a file: what `sessions export` or `sessions trace --json` wrote. It is the same command
    as `sessions replay`. Exit codes: 0 all is as it was, 1 it differs or is damaged, 2 there is no such journal.""",
)
app.command(
    "agentrail.cli.store_command:app",
    name="store",
    help="""Look after the store as a whole: back it up.

    Exit codes: 0 done, 2 wrong usage, or there is no such store.""",
)

app.command(
    "agentrail.cli.plugins_command:app",
    name="plugins",
    help="""List the built-in plugins, or explain what a stack of plugins says to a hook event.

    Without more it prints each plugin with its priority, its hooks and its options. Nothing is started.""",
)

app.command(
    "agentrail.cli.permissions_command:app",
    name="permissions",
    help="""Explain what rules of permissions say to a call, or check a file of them.

    Nothing is started and nothing is run. Exit codes: 0 done, 1 a rule cannot be read, 2 wrong usage.""",
)

app.command(
    "agentrail.cli.serve_command:serve_application",
    name="serve",
    help="""Put an application that create_app made behind HTTP, until it is told to stop.

    Without one it serves a profile for each agent of the configuration files, or one with the model and the tools that
    agentrail run would use, and keeps their sessions.
    The address is printed on stdout when calls are answered. Ctrl-C, or SIGTERM, lets calls and streams end; a second
    one does not wait for them.

    Exit codes: 0 stopped, 1 the application failed, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.config_command:app",
    name="config",
    help="""Look at configuration files: what results, and where each value comes from.

    Exit codes: 0 all is well, 1 something is wrong, all of it is said, 2 wrong usage.""",
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
    help="""Trust the configuration files of this directory as they are now, and say what that grants.

    Until then a project's files may only narrow what runs without them. A file that changes, comes or goes ends it. Exit codes: 0 done,
    1 there is nothing to trust, or something is wrong with it.""",
)
app.command(
    "agentrail.cli.top_command:show_top",
    name="top",
    help="""Watch the sessions of a server: phase, tool at work, tokens a second, cost, restarts.

    At a terminal it goes on until q or Ctrl-C, and a letter sorts; into a pipe it prints one table and ends. A token is read from
    AGENTRAIL_TOKEN or a file. A connection that is lost is opened again.

    Exit codes: 0 done, 1 the server cannot be reached or refuses, 2 wrong usage, 130 interrupted.""",
)
app.command(
    "agentrail.cli.cost_command:show_cost",
    name="cost",
    help="""Add up what stored sessions have used: tokens and dollars by day, profile, model, user or session.

    Read beside a process that writes the store. Amounts of requests whose server had not said what was used are estimated, and marked.

    Exit codes: 0 done, 2 wrong usage or there is no such store.""",
)
app.command(
    "agentrail.cli.kb_command:app",
    name="kb",
    help="""Add documents to knowledge bases, list them, search them, remove them.

    Works beside a process that reads them. Exit codes: 0 done, 1 a document could not be read, 2 wrong usage.""",
)
app.command(
    "agentrail.cli.memory_command:app",
    name="memory",
    help="""Look at what is remembered of a user, search it, and forget it.

    Works beside a process that remembers more. Exit codes: 0 done, 1 not all is done, 2 wrong usage, or there is no such memory.""",
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
    help="""Make tokens that let callers into a server.

    Exit codes: 0 done, 2 wrong usage.""",
)


def _import_and_run(arguments: Sequence[str]) -> object:
    with no_looks():
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    return command(*bound.args, **bound.kwargs)


def run_command_line(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and return its exit code."""
    open_missing_streams()

    def crashed(error: BaseException) -> Exit:
        if isinstance(error, CycloptsError):
            raise error
        tell_crash(error, debug=OPTION in arguments)
        return Exit.FAILED

    try:
        code = call_guarded(crashed, _import_and_run, fill_in_latest(arguments))
    except UnusedCliTokensError as error:
        asked = "".join(arguments[:1])
        more = (
            "The prompt is one argument: put it in quotes."
            if asked == "run"
            else f"See agentrail {asked} --help."
        )
        write_error(f"{error} {more}")
        return Exit.USAGE
    except CycloptsError as error:
        write_error(f"{error} See agentrail --help.")
        return Exit.USAGE
    return code if isinstance(code, int) else Exit.DONE
