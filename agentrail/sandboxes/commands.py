"""The commands of a directory: how they run here, what they see, what they may use, and where their output goes."""

import functools
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import structlog
import trio
from attrs import evolve, frozen

from agentrail.abc import ExecuteOptions, ExecuteResult, ProcessOptions, Refusal, ToolProcess
from agentrail.errors import ProcessRefused
from agentrail.sandboxes.command import Command, Program, open_process, run_command
from agentrail.sandboxes.confinement import Confinement, Network, ShellFallback, View, fall_back, probe
from agentrail.sandboxes.files import Files
from agentrail.sandboxes.limits import Limits
from agentrail.sandboxes.paths import show_names
from agentrail.sandboxes.process_tree import has_proc
from agentrail.sandboxes.protected import OUTPUT_DIRECTORY, STATE_DIRECTORY
from agentrail.sandboxes.refusals import Names, refuse_commands

_OUTPUT_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PASSED_ON: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "TERM", "USER"})
"""What a command sees of our environment, and `LC_*`: a list of what may, because keys have any name."""


@frozen(kw_only=True)
class CommandRules:
    """What the owner of a sandbox says of commands; the meaning of each stands at `LocalSandbox`."""

    shell_fallback: ShellFallback
    network: Network
    readable: tuple[str, ...]
    limits: Limits
    env: Mapping[str, str]


class Commands:
    """Runs commands that begin in a directory, or below it."""

    def __init__(self, root: int, path: Path, files: Files, rules: CommandRules) -> None:
        """Run nothing yet.

        Args:
            root: The directory, as a descriptor that the caller keeps open.
            path: What it was called when it was opened.
            files: For outputs, and to find what is protected.
            rules: What is allowed.
        """
        self._root = root
        self._path = path
        self._files = files
        self._rules = rules
        self._confinement: Confinement | None = None
        self._probing = trio.Lock()

    @property
    def is_refused(self) -> bool:
        """Whether it was found out that commands are refused here."""
        return self._confinement is not None and self._confinement.mode == "refused"

    @property
    def is_unconfined(self) -> bool:
        """Whether it is known that commands run with the user's rights: it was found out, or there is no bubblewrap at all."""
        if self._confinement is not None:
            return self._confinement.mode == "unconfined"
        return self._rules.shell_fallback == "unconfined" and shutil.which("bwrap") is None

    async def confinement(self) -> Confinement:
        """Say how commands run here; found out by trying, once."""
        async with self._probing:
            if self._confinement is None:
                found = await probe(self._rules.shell_fallback)
                if self._path == Path("/") and found.mode == "bubblewrap":
                    found = fall_back(self._rules.shell_fallback, "the root is the whole machine")
                if found.mode == "unconfined":
                    log = structlog.get_logger(__name__)
                    log.warning("commands_unconfined", root=str(self._path), why=found.why)
                self._confinement = found
        return self._confinement

    async def run(self, command: str, directory: int, options: ExecuteOptions) -> ExecuteResult | Refusal:
        """Run a command, in a directory that the caller has opened and keeps open.

        Cancellation: As of `run_command`.
        """
        shell = shutil.which("bash") or shutil.which("sh")
        if shell is None:
            message = "Commands are disabled: neither bash nor sh is installed here."
            return Refusal(code="unsupported", message=message)
        confinement = await self.confinement()
        if confinement.mode == "refused":
            return refuse_commands(confinement.why)
        confined = confinement.mode == "bubblewrap"
        try:
            return await self._run((shell, "-c", command), directory, options, confined=confined)
        except OSError as error:
            return Refusal(code="not_started", message=f"The command could not be started: {error.strerror}.")

    async def _run(
        self, argv: tuple[str, ...], directory: int, options: ExecuteOptions, *, confined: bool
    ) -> ExecuteResult:
        before = await trio.to_thread.run_sync(self._files.find_protected)
        view = await trio.to_thread.run_sync(self._view, directory, options.workdir, tuple(before))
        name = f"{_output_name(options.output_name)}.txt"
        wrapped = self._rules.limits.wrap(
            argv, timeout_seconds=options.timeout_seconds, confined=confined, counting=confined
        )
        result = await run_command(
            Command(
                program=self._program(wrapped, directory, view, confined=confined),
                timeout_seconds=options.timeout_seconds,
                output_path=f"{STATE_DIRECTORY}/{OUTPUT_DIRECTORY}/{name}",
                open_output=functools.partial(self._files.create_output, name),
            )
        )
        after = await trio.to_thread.run_sync(self._files.find_protected)
        written = sorted(show_names(names) for names in after if after[names] != before.get(names))
        # Its own directory changes when the output is put there.
        return evolve(result, written_protected=tuple(one for one in written if one != STATE_DIRECTORY))

    @asynccontextmanager
    async def open_process(
        self, argv: tuple[str, ...], directory: int, options: ProcessOptions
    ) -> AsyncIterator[ToolProcess]:
        """Open a process, in a directory that the caller has opened and keeps open.

        Raises:
            ProcessRefused: Commands are refused here, or this one could not be started.
        """
        confinement = await self.confinement()
        if confinement.mode == "refused":
            refusal = refuse_commands(confinement.why)
            raise ProcessRefused(refusal.message, code=refusal.code)
        confined = confinement.mode == "bubblewrap"
        protected = await trio.to_thread.run_sync(self._files.find_protected)
        view = await trio.to_thread.run_sync(self._view, directory, options.workdir, tuple(protected))
        seconds = options.timeout_seconds
        wrapped = self._rules.limits.wrap(argv, timeout_seconds=seconds, confined=confined, counting=False)
        program = self._program(wrapped, directory, view, confined=confined)
        program = evolve(program, environment={**program.environment, **options.env})
        async with AsyncExitStack() as stack:
            try:
                process = await stack.enter_async_context(open_process(program, errors=options.errors))
            except OSError as error:
                message = f"The process could not be started: {error.strerror}."
                raise ProcessRefused(message, code="not_started") from None
            yield process

    def _program(self, argv: tuple[str, ...], directory: int, view: View, *, confined: bool) -> Program:
        return Program(
            argv=argv,
            confine=view.decide_argv if confined else None,
            # By descriptor where that works, so that it begins in what was opened, whatever is renamed meanwhile.
            directory=f"/proc/self/fd/{directory}" if has_proc() else str(view.directory),
            environment=self._environment() | ({"HOME": str(view.root)} if confined else {}),
        )

    def _view(self, directory: int, workdir: str, protected: Iterable[Names]) -> View:
        root, begin = self._path, self._path.joinpath(workdir)
        if has_proc():  # where they are by now, should they have been renamed since
            root, begin = (Path(f"/proc/self/fd/{one}").readlink() for one in (self._root, directory))
        paths = (root.joinpath(*names) for names in protected)
        return View(
            root=root,
            directory=begin,
            network=self._rules.network,
            readable=self._rules.readable,
            protected=tuple(path for path in paths if not path.is_symlink()),
        )

    def _environment(self) -> dict[str, str]:
        passed_on = {
            name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")
        }
        return passed_on | dict(self._rules.env)


def check_command(command: str) -> Refusal | None:
    """Refuse a text that can be no command: a NUL ends an argument, and a lone surrogate has no bytes."""
    try:
        if b"\0" not in command.encode():
            return None
    except UnicodeEncodeError:
        pass
    message = "The command has a NUL or a lone surrogate in it, which no command can have. Leave it out."
    return Refusal(code="invalid_command", message=message)


def _output_name(wanted: str | None) -> str:
    return wanted if wanted is not None and _OUTPUT_NAME.fullmatch(wanted) else secrets.token_hex(8)
