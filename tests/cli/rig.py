"""The command as a process of its own: started with a clean environment, watched, interrupted, typed at."""

import os
import re
import shlex
import signal
import sys
import termios
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]
import trio
from attrs import define

from tests.forked import ROOT, Forked, Ran, Warm, open_forked, run_forked

SLEEPER: Final = 'shell "sleep 1000 & sleep 1000"'
COMMANDS: Final = (
    *("app", "cli.command_tree", "cli.run_command", "cli.doctor_command", "cli.plugins_command"),
    *("cli.check_plugins_command", "cli.sessions_command", "cli.config_command", "cli.config_setup"),
    *("blueprints.builder", "blueprints.command_files", "cli.eval_command", "cli.acp_command"),
    *("gateway.stdio.acp_agent", "host.host_lifespan"),
)
# The library of MCP takes long to import, and commands import it late.
_SERVERS: Final = ("agentrail.cli.mcp_command", "agentrail.tools.mcp.connection") if find_spec("mcp") else ()
WARM: Final = Warm(
    module="agentrail",
    imports=(
        *(f"agentrail.{command}" for command in COMMANDS),
        *("agentrail.testing.stacks", "cyclopts.help.inline_text", "rich.markdown"),
        *("agentrail.cli.chat_session", "agentrail.cli.chat_command", "certifi", "genai_prices"),
        *("h2.connection", "httpcore", "prompt_toolkit", "structlog"),
        *_SERVERS,
    ),
)
# Other imports, so that it is another interpreter.
_BESIDE: Final = Warm(module="agentrail", imports=WARM.imports[1:])

_ESCAPES: Final = re.compile(rb"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])|\r")


def command(*arguments: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "agentrail", *arguments]


async def run_agentrail(
    *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> Ran:
    """Run the command to its end, in a process that is forked off an interpreter which has imported it already."""
    return await run_forked(WARM, *arguments, stdin=stdin, variables=variables, cwd=cwd)


async def run_line(line: str, **given: Any) -> Ran:
    """Run the command with the words of a line, as a shell splits them."""
    return await run_agentrail(*shlex.split(line), **given)


async def run_in(place: Path, *arguments: str, stdin: bytes = b"", **variables: str) -> Ran:
    variables = {"HOME": str(place / "home"), **variables}
    return await run_agentrail(*arguments, stdin=stdin, variables=variables, cwd=place / "project")


def write(place: Path, text: str, name: str = "project/agentrail.toml") -> None:
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def run_beside(*arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None) -> Ran:
    """Run the command to its end beside another one; an interpreter that forks looks after one process at a time."""
    return await run_forked(_BESIDE, *arguments, stdin=stdin, variables=variables)


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that tells nobody when it happens, such as a process that starts."""
    while not condition():  # noqa: ASYNC110 - see above
        await trio.sleep(0.01)


async def sleeping_below(process: trio.Process | Forked, count: int = 2) -> list[psutil.Process]:
    """Wait until so many processes named `sleep` run below this one, and give all that run below it."""
    parent = psutil.Process(process.pid)
    below: list[psutil.Process] = []

    def are_there() -> bool:
        below[:] = parent.children(recursive=True)
        return [_name_of(child) for child in below].count("sleep") >= count

    await wait_until(are_there)
    return below


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; one that is dead and not reaped by its new parent counts as gone."""
    return [one for one in processes if _is_alive(one)]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # between the two questions
        return False


def _name_of(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:  # a shell's own short-lived children come and go while we look
        return ""


@define
class Typist:
    """The user at a terminal, and what it showed since they waited last, without escape sequences."""

    process: Forked
    master: int
    seen: bytes = b""

    async def wait_for(self, text: str) -> str:
        """Read until the terminal shows a text, and give all up to it."""
        wanted = text.encode()
        while wanted not in self.seen:
            await trio.lowlevel.wait_readable(self.master)
            try:
                piece = os.read(self.master, 65_536)
            except OSError:  # Linux: the other side was closed
                piece = b""
            assert piece, (
                f"the terminal was closed before it showed {text!r}; it showed {self.seen.decode()!r}"
            )
            self.seen = _ESCAPES.sub(b"", self.seen + piece)
        before, self.seen = self.seen.split(wanted, 1)
        return (before + wanted).decode()

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    async def press(self, text: str, wanted: str) -> str:
        self.type(text)
        return await self.wait_for(wanted)

    def interrupt(self) -> None:
        """Send what a terminal sends for Ctrl-C, when nobody edits lines."""
        self.process.send_signal(signal.SIGINT)

    def echoes(self) -> bool:
        """Say whether the terminal shows what is typed by itself, which it does unless an editor does."""
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)

    async def wait_end(self) -> int:
        return await self.process.wait()


@asynccontextmanager
async def open_terminal(*arguments: str, term: str, **variables: str) -> AsyncIterator[Typist]:
    """Run the command in a terminal of its own; `dumb` has no editor."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 100))
    try:
        async with open_forked(
            WARM,
            *arguments,
            descriptors=(slave, slave, slave),
            session=True,
            variables={"TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1", **variables},
        ) as process:
            os.close(slave)
            yield Typist(process=process, master=master)
    finally:
        os.close(master)


@asynccontextmanager
async def open_process(
    *arguments: str,
    stdin: int | None = None,
    stdout: int | None = None,
    cwd: Path = ROOT,
    **variables: str,
) -> AsyncIterator[Forked]:
    """Start the command and leave it to the test; it is gone at the end. Its output comes in a pipe, or goes where it is told."""
    outputs, errors = os.pipe(), os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
    async with (
        trio.lowlevel.FdStream(outputs[0]) as out,
        trio.lowlevel.FdStream(errors[0]) as err,
        open_forked(
            WARM,
            *arguments,
            descriptors=(nothing, outputs[1] if stdout is None else stdout, errors[1]),
            variables=variables,
            cwd=cwd,
        ) as process,
    ):
        for theirs in (nothing, outputs[1], errors[1]):
            os.close(theirs)
        process.stdout, process.stderr = out, err
        yield process


async def read_all(stream: trio.abc.ReceiveStream) -> str:
    return b"".join([piece async for piece in stream]).decode()
