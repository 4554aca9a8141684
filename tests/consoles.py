"""Plays the `console` fences of a page as a reader would: commands in one shell, servers in terminals of their own, Ctrl-C where it stands.

A line that begins with `$ ` is a command, a backslash at its end goes on with it, `^C` interrupts the server that was started last, and
all else is what a reader is told to see: `…` stands for anything, within a line or as a line of its own. Programs of the page whose first line is a comment with
the name of a file are saved under that name first. Port 8700 is one that is free. What `tests.pages` says why it is not played is passed over.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import IO, Final

import trio
from attrs import define, field, frozen

from agentrail.distribution import NAME
from agentrail.stores.postgres_private import free_ports
from tests.cli.rig import WARM
from tests.forked import open_forked
from tests.pages import ROOT, why_not_played

PORT: Final = "8700"
FENCE: Final = re.compile(r"^```(console|python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED: Final = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")
INSTALLS: Final = re.compile(
    r"(?:python3? -m )?pip install (.+)|python3? -m venv .+|(?:source|\.) \S*activate"
)
DATE: Final = re.compile(r"\d{4}\\-\d\d\\-\d\d\\ \d\d:\d\d:\d\d")
"""As `re.escape` writes it; any is meant."""
PLAIN: Final = re.compile(r"agentrail [^$`|&;<>~*?(){}\\]*")
"""A command to which a shell does no more than to read its quotes: it runs in a fork of an interpreter that has imported it."""
SETS: Final = re.compile(r"(?:export )?[A-Za-z_]\w*=")
END: Final = "__end_of_a_command__"
WAIT_SECONDS: Final = 60.0


@frozen
class Step:
    """A command, or an interrupt, and what a reader is told to see."""

    command: str
    shown: tuple[str, ...] = ()

    @property
    def starts_server(self) -> bool:
        """Whether it goes on until it is interrupted."""
        return self.command.startswith(("agentrail serve", "agentrail sandbox serve")) and any(
            one.startswith("http") for one in self.shown
        )


def steps_in(text: str) -> Iterator[Step]:
    command = ""
    shown: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ ") or line == "^C":
            if command:
                yield Step(command, tuple(shown))
            command, shown = line.removeprefix("$ "), []
            while command.endswith("\\"):
                command = f"{command[:-1]}{next(lines).strip()}"
            command = re.sub(r"\s+#\s.*$", "", command)
        else:
            shown.append(line)
    if command:
        yield Step(command, tuple(shown))


def fits(shown: tuple[str, ...], seen: str) -> bool:
    """Say whether what came is what the reader was told to see: `…` is anything, a line `…` any lines, a date any date."""
    lines = [
        DATE.sub(r"\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d", re.escape(one.rstrip())).replace("…", ".*?")
        for one in shown
        if one.strip()
    ]
    pattern = "".join(r"(?:.*\n)*?" if one == ".*?" else f"{one}[ \\t]*\n+" for one in lines)
    return re.fullmatch(pattern, seen.replace("\r", "").lstrip("\n").rstrip() + "\n") is not None


@define
class Console:
    folder: Path
    port: str = field(factory=lambda: f"{free_ports(1)[0]}")
    played: int = 0
    sets_variables: bool = False
    _servers: list["_Server"] = field(factory=list)
    _shell: "subprocess.Popen[str] | None" = None

    def play(self, page: Path, *, section: str | None = None) -> None:
        text = page.read_text(encoding="utf-8")
        if section is not None:
            text = re.split(rf"^## {re.escape(section)}$", text, flags=re.MULTILINE)[1]
            text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for kind, body in FENCE.findall(text):
            named = SAVED.match(body)
            if kind == "console":
                for step in steps_in(body):
                    if why_not_played(page.relative_to(ROOT).as_posix(), step.command) is None:
                        self._step(step, page.name)
            elif named:
                (self.folder / named[1]).write_text(body, encoding="utf-8")

    def close(self) -> None:
        processes = [server.process for server in self._servers]
        for process in (*processes, *filter(None, [self._shell])):
            process.kill()
            process.communicate()  # which closes its pipes too

    def _step(self, step: Step, page: str) -> None:
        self.played += 1
        installs = INSTALLS.fullmatch(step.command)
        if installs:
            check_extras(installs[1] or "")
            return
        if step.command == "^C":
            server = self._servers.pop()
            seen, code = server.interrupt(), server.process.returncode
        elif step.starts_server:
            self._servers.append(_Server.start(self._command(step.command), self.folder, self._variables()))
            seen, code = self._servers[-1].read_until(len(_certain(step.shown))), 0
        elif PLAIN.fullmatch(step.command) and not self.sets_variables:
            arguments = shlex.split(self._command(step.command))[1:]
            seen, code = trio.run(_run_forked, arguments, self._variables(), self.folder)
        else:
            self.sets_variables = self.sets_variables or SETS.match(step.command) is not None
            seen, code = self._run(self._command(step.command))
        seen = seen.replace(f":{self.port}", f":{PORT}")
        said = f"{page}: $ {step.command}\n{seen}"
        assert fits(step.shown, seen) if step.shown else code == 0, said

    def _command(self, command: str) -> str:
        changed = command.replace(f":{PORT}", f":{self.port}").replace(
            f"--port {PORT}", f"--port {self.port}"
        )
        if changed.startswith("agentrail serve") and "--port" not in changed and "--help" not in changed:
            changed += f" --port {self.port}"
        return changed

    def _variables(self) -> dict[str, str]:
        here = f"{self.folder}"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {
            "HOME": here,
            "XDG_DATA_HOME": f"{here}/data",
            "PATH": path,
            "LANG": "C.UTF-8",
            "PYTHONPATH": here,
        }

    def _run(self, command: str) -> tuple[str, int]:
        """Run a command in the shell of this page, and give what it showed and its exit code."""
        if self._shell is None:
            # At a terminal it shows no progress, and this is none.
            (self.folder / ".curlrc").write_text("silent\nshow-error\n", encoding="utf-8")
            self._shell = subprocess.Popen(
                ["bash"],
                cwd=self.folder,
                env=self._variables(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        shell = self._shell
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(f"{{ {command}\n}} 2>&1 < /dev/null; echo; echo {END} $?\n")
        shell.stdin.flush()
        return _read_to_end(shell.stdout, shell)


def check_extras(wanted: str) -> None:
    """Hold what a reader installs against what there is: this package, with extras that it has."""
    for one in shlex.split(wanted):
        name, _, extras = one.rstrip("]").partition("[")
        if name == ".":
            known = metadata.metadata(NAME).get_all("Provides-Extra") or []
            assert set(filter(None, extras.split(","))) <= set(known), one


@define
class _Server:
    """A server in a terminal of its own."""

    process: "subprocess.Popen[str]"

    @classmethod
    def start(cls, command: str, folder: Path, variables: dict[str, str]) -> "_Server":
        arguments = shlex.split(command)
        arguments[0:1] = [sys.executable, "-m", "agentrail"]
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return cls(process)

    def read_until(self, lines: int) -> str:
        """Read as many lines as the page shows."""
        assert self.process.stdout is not None
        with _bounded(self.process):
            return "".join([self.process.stdout.readline() for _ in range(lines)])

    def interrupt(self) -> str:
        self.process.send_signal(signal.SIGINT)
        with _bounded(self.process):
            said, _ = self.process.communicate()
        return said


async def _run_forked(arguments: list[str], variables: dict[str, str], folder: Path) -> tuple[str, int]:
    """Run the command, and give what it showed, as a terminal shows both of its streams, and its exit code."""
    ours, theirs = os.pipe()
    with open(os.devnull) as nothing:  # noqa: ASYNC230, PTH123 - it is never read from a disk
        descriptors = (nothing.fileno(), theirs, theirs)
        async with open_forked(
            WARM, *arguments, descriptors=descriptors, variables=variables, cwd=folder
        ) as forked:
            os.close(theirs)
            seen = bytearray()
            async with trio.lowlevel.FdStream(ours) as stream:
                async for piece in stream:
                    seen += piece
            return seen.decode(), await forked.wait()


def _certain(shown: tuple[str, ...]) -> list[str]:
    return [one for one in shown if one.strip()]


def _read_to_end(stream: IO[str], process: "subprocess.Popen[str]") -> tuple[str, int]:
    lines: list[str] = []
    with _bounded(process):
        for line in stream:
            if line.startswith(END):
                return "".join(lines), int(line.split()[1])
            lines.append(line)
    message = f"the shell ended: {''.join(lines)}"
    raise AssertionError(message)


class _bounded:  # noqa: N801 - used as a statement
    """Kills a process that does not answer in time, so that what reads from it goes on."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._timer = threading.Timer(WAIT_SECONDS, process.kill)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
