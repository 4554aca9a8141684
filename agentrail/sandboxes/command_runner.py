"""The commands of a directory: how they run here, what they can see and use, and whether they are confined."""

import errno
import functools
import math
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import trio
from attrs import define, evolve, field, frozen

from agentrail import outside
from agentrail.abc import ExecuteOptions, ExecuteResult, ProcessOptions, Refusal
from agentrail.errors import ProcessRefused
from agentrail.logs import Logger
from agentrail.otp.child_specs import is_whole
from agentrail.otp.field_rules import CheckedFields
from agentrail.sandboxes.bubblewrap import Network, View
from agentrail.sandboxes.command_process import (
    CommandRun,
    ErrorOutput,
    OpenedProcess,
    Program,
    open_process,
    run_command,
)
from agentrail.sandboxes.confinement import Confinement, fall_back, probe
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.sandboxes.files import Files
from agentrail.sandboxes.paths import escape, show_names
from agentrail.sandboxes.process_tree import has_proc
from agentrail.sandboxes.programs import Programs
from agentrail.sandboxes.protected_mounts import Guarded, Mount
from agentrail.sandboxes.protected_names import OUTPUT_DIRECTORY, STATE_DIRECTORY
from agentrail.sandboxes.refusals import Names, refuse_commands

# Limits of a command, set by a shell that then becomes the command or waits for it.
#
# Not by `preexec_fn`, which runs Python between fork and exec and may deadlock in a process with threads.

_CPU_SLACK_SECONDS: Final = 5
_BLOCK_BYTES: Final = 512  # of `ulimit -f`, after POSIX
_KIB: Final = 1_024
_MOST: Final = 2**63 - 1  # the kernel's. Of a larger number, a shell takes the last bits, perhaps a few
KernelLimit: TypeAlias = Annotated[
    int, (lambda value: is_whole(value, at_least=1) and value <= _MOST, "a whole number from 1 to 2**63 - 1")
]

OWN_PROCESSES: Final = 2
"""Processes of a confined command's namespace that are not its own: bubblewrap's first process and the shell."""

_BECOMING: Final = 'exec "$@"'
# The shell stays after the command has ended, because the namespace ends with it. It reports the end at its own input, a
# socket, and waits until we have counted the remaining processes. It does not count them itself, because a command of the
# same user can manipulate it. After a SIGTERM it stays until no cleaner is left. The sender of that kills all processes at
# the time limit. It prints nothing: a subshell is used because some shells print "Killed" for a plain command.
_STAYING: Final = (
    'asked=; trap "asked=1" TERM; exec 3>&2 2>/dev/null; (exec "$@" </dev/null 2>&3 3>&-); '
    'code=$?; if [ ! "$asked" ]; then echo >&0; read -r _; fi; set -- /proc/[0-9]*; '
    f'while [ "$asked" ] && [ $# -gt {OWN_PROCESSES} ]; do sleep 0.01; set -- /proc/[0-9]*; done; exit $code'
)


@frozen(kw_only=True)
class CommandLimits(CheckedFields):
    """Resource limits of a command. All limits except `max_processes` apply per process.

    Attributes:
        max_memory_bytes: Address space.
        max_file_bytes: Size of any file that it writes.
        max_open_files: At the same time.
        max_processes: At the same time, in total. Only for confined commands, because otherwise all processes of the
            user count. The kernel has no such limit for root.
        max_temporary_bytes: In `/tmp` and similar directories, in total. Only for confined commands, because these
            directories are then in memory.
    """

    max_memory_bytes: KernelLimit = 4 << 30
    max_file_bytes: KernelLimit = 1 << 30
    max_open_files: KernelLimit = 1_024
    max_processes: KernelLimit = 256
    max_temporary_bytes: KernelLimit = 2 << 30

    def wrap(
        self, argv: tuple[str, ...], *, timeout_seconds: float, confined: bool, staying: bool
    ) -> tuple[str, ...]:
        seconds = min(math.ceil(timeout_seconds) + _CPU_SLACK_SECONDS, _MOST)
        # A limit that is already lower stays, so a failure is ignored. Not every system supports all limits.
        settings = [
            f"ulimit {flag} {value} 2>/dev/null"
            for flag, value in (
                ("-c", 0),
                ("-t", seconds),
                ("-v", self.max_memory_bytes // _KIB),
                ("-f", self.max_file_bytes // _BLOCK_BYTES),
                ("-n", self.max_open_files),
            )
        ]
        if confined:  # the letter depends on the shell
            number = self.max_processes
            settings.append(f"ulimit -u {number} 2>/dev/null || ulimit -p {number} 2>/dev/null")
        script = "; ".join((*settings, _STAYING if staying else _BECOMING))
        return ("/bin/sh", "-c", script, "sh", *argv)


# The runner.

LOGGER: Final = Logger("agentrail.sandboxes")

_OUTPUT_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PASSED_ON: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "TERM", "USER"})
"""Variables passed on to commands, in addition to `LC_*`: an allow list, because keys can have any name."""


@frozen(kw_only=True)
class CommandRules:
    shell_fallback: ShellFallback
    network: Network
    readable: tuple[str, ...]
    limits: CommandLimits
    env: Mapping[str, str]


@define(eq=False)
class Commands:
    _root: int
    _path: Path
    _files: Files
    _rules: CommandRules
    _programs: Programs
    _confinement: Confinement | None = field(init=False, default=None)
    _probing: trio.Lock = field(init=False, factory=trio.Lock)

    @property
    def is_refused(self) -> bool:
        return self._confinement is not None and self._confinement.mode == "refused"

    @property
    def is_unconfined(self) -> bool:
        """Whether commands are known to run with the user's rights: determined by a trial, or because bubblewrap is missing."""
        if self._confinement is not None:
            return self._confinement.mode == "unconfined"
        return self._rules.shell_fallback == "unconfined" and self._programs.bubblewrap is None

    async def confinement(self) -> Confinement:
        """Return how commands run here. Determined by a trial, once, unless the trial fails temporarily."""
        async with self._probing:
            if self._confinement is None:
                found = await probe(self._rules.shell_fallback, self._programs.bubblewrap)
                if found.mode == "failed":
                    return found
                if self._path == Path("/") and found.mode == "bubblewrap":
                    found = fall_back(self._rules.shell_fallback, "the root is the whole machine")
                if found.mode == "unconfined":
                    LOGGER.warning("commands_unconfined", root=str(self._path), why=found.why)
                self._confinement = found
        return self._confinement

    async def run(self, command: str, directory: int, options: ExecuteOptions) -> ExecuteResult | Refusal:
        """Run a command in a directory that the caller has opened and keeps open.

        Cancellation: The same as in `run_command`.
        """
        shell = self._programs.shell
        if shell is None:
            message = "Commands are disabled: neither bash nor sh is installed here."
            return Refusal(code="unsupported", message=message)
        confinement = await self.confinement()
        refusal = _refuse(confinement)
        if refusal is not None:
            return refusal
        what = ((shell, "-c", command), directory, options, confinement)
        try:
            return await self._run(*what)
        except OSError as error:
            if error.errno != errno.EIO:
                return _refuse_start(error)
        # A hidden or protected path was removed before bubblewrap reached it. Look for these paths again, once.
        try:
            return await self._run(*what)
        except OSError as error:
            return _refuse_start(error)

    async def _run(
        self, argv: tuple[str, ...], directory: int, options: ExecuteOptions, confinement: Confinement
    ) -> ExecuteResult:
        confined = confinement.mode == "bubblewrap"
        before = await outside.offload(self._files.find_protected)
        wanted = options.output_name or ""
        name = f"{wanted if _OUTPUT_NAME.fullmatch(wanted) else outside.ids(8)}.txt"
        wrapped = self._rules.limits.wrap(
            argv, timeout_seconds=options.timeout_seconds, confined=confined, staying=confined
        )
        async with self._preparing(wrapped, directory, options.workdir, before, confinement) as program:
            result = await run_command(
                CommandRun(
                    program=program,
                    timeout_seconds=options.timeout_seconds,
                    output_path=f"{STATE_DIRECTORY}/{OUTPUT_DIRECTORY}/{name}",
                    open_output=functools.partial(self._files.create_output, name),
                )
            )
        ours = name if result.output_path is not None else None
        written: list[Names] = []
        with suppress(OSError):  # without a free descriptor; the command has run
            written = await outside.offload(self._files.find_written, before, ours)
        return evolve(result, written_protected=tuple(sorted(map(show_names, written))))

    @asynccontextmanager
    async def open_process(
        self, argv: tuple[str, ...], directory: int, options: ProcessOptions, errors: ErrorOutput
    ) -> AsyncIterator[OpenedProcess]:
        confinement = await self.confinement()
        refusal = _refuse(confinement)
        if refusal is not None:
            raise ProcessRefused(refusal.message, code=refusal.code)
        confined, seconds = confinement.mode == "bubblewrap", options.timeout_seconds
        wrapped = self._rules.limits.wrap(argv, timeout_seconds=seconds, confined=confined, staying=False)
        async with AsyncExitStack() as stack:
            try:
                protected = await outside.offload(self._files.find_protected)
                preparing = self._preparing(wrapped, directory, options.workdir, protected, confinement)
                program = await stack.enter_async_context(preparing)
                program = evolve(program, environment={**program.environment, **options.env})
                process = await stack.enter_async_context(open_process(program, errors=errors))
            except OSError as error:
                message = f"The process could not be started: {error.strerror}."
                raise ProcessRefused(message, code="not_started") from None
            yield process

    @asynccontextmanager
    async def _preparing(
        self, argv: tuple[str, ...], directory: int, workdir: str, guarded: Guarded, confinement: Confinement
    ) -> AsyncIterator[Program]:
        mounts: list[Mount] = []
        if confinement.mode == "bubblewrap":
            mounts = await outside.offload(self._files.open_mounts, guarded)
        try:
            yield await outside.offload(self._program, argv, directory, workdir, tuple(mounts), confinement)
        finally:
            for mount in mounts:
                os.close(mount.descriptor)

    def _program(
        self,
        argv: tuple[str, ...],
        directory: int,
        workdir: str,
        mounts: tuple[Mount, ...],
        confinement: Confinement,
    ) -> Program:
        root, begin = self._path, self._path.joinpath(workdir)
        if has_proc():  # their current location, in case they were renamed
            root, begin = (Path(f"/proc/self/fd/{one}").readlink() for one in (self._root, directory))
        # By descriptor if possible, so that it starts in the opened directory, whatever is renamed meanwhile.
        where = f"/proc/self/fd/{directory}" if has_proc() else str(begin)
        bubblewrap = self._programs.bubblewrap
        if confinement.mode != "bubblewrap" or bubblewrap is None:
            return Program(argv=argv, confine=None, directory=where, environment=self._environment())
        view = View(
            root=root,
            directory=begin,
            network=self._rules.network,
            readable=self._rules.readable,
            mounts=mounts,
            max_temporary_bytes=self._rules.limits.max_temporary_bytes,
            lacks=confinement.lacks,
        )
        environment = {**self._environment(), "HOME": str(root)}
        return Program(argv=argv, confine=view.decide(bubblewrap), directory=where, environment=environment)

    def _environment(self) -> dict[str, str]:
        return passed_on() | dict(self._rules.env)


def passed_on() -> dict[str, str]:
    """Return the variables of this process that commands and servers get."""
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")}


def _refuse(confinement: Confinement) -> Refusal | None:
    """Refuse commands if none may run, with the reason."""
    if confinement.mode == "failed":
        message = (
            f"The command was not started: bubblewrap failed ({escape(confinement.why)}). Try again later."
        )
        return Refusal(code="not_started", message=message)
    return refuse_commands(confinement.why) if confinement.mode == "refused" else None


def _refuse_start(error: OSError) -> Refusal:
    return Refusal(code="not_started", message=f"The command could not be started: {error.strerror}.")


def check_command(command: str) -> Refusal | None:
    """Refuse an invalid command: a NUL ends an argument, and a lone surrogate has no bytes."""
    if re.search("[\0\ud800-\udfff]", command) is None:
        return None
    message = "The command contains a NUL or a lone surrogate. Leave it out."
    return Refusal(code="invalid_command", message=message)
