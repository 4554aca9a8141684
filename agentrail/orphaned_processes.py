"""Lists of processes next to the store, with which the next run ends those that a crash left behind.

Pids are reused, so a process is ended only with its recorded start time and boot, or its command's mark. Each run has its own list, removed at a clean end. The
list of a live run is left alone. Needs `/proc`.
"""

import contextlib
import errno
import glob
import os
import select
import signal
import stat
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Final

import msgspec
from attrs import frozen
from msgspec.structs import replace

from agentrail.logs import Logger
from agentrail.structs import decoder_of

LOGGER: Final = Logger("agentrail.process_account")

SUFFIX: Final = ".processes"
"""Suffix of a list's file name, after the name of the store."""

MARKER: Final = "AGENTRAIL_COMMAND"
"""Environment variable of a command's processes, with a separate value for each command."""

MAX_ENDED_NOTED: Final = 1_000
"""Maximum number of ended processes in a list before it is rewritten."""

_MAX_LOOKS: Final = 3
_END_MS: Final = 2_000
_MAX_BYTES: Final = 16 << 20
_PROC: Final = Path("/proc")


class NotedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a process: pid (also of its group), start in ticks since the boot as in proc_pid_stat(5), and marker, empty for the run."""

    pid: int
    started: int
    boot: str
    mark: str = ""
    ended: bool = False


_NOTES: Final = decoder_of(NotedProcess)


class ProcessList:
    """The list of one run, removed at its clean end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._alive: dict[tuple[int, str], NotedProcess] = {}
        self._ended = 0

    def started(self, pid: int, mark: str) -> None:
        """Record a process that has just started, or this run's with a mark that it is about to give. A failure is only logged."""
        status, boot = read_process_status(pid), _boot()
        if status is None or not boot:
            return
        noted = self._alive[pid, mark] = NotedProcess(pid=pid, started=status.started, boot=boot, mark=mark)
        self._write(noted)

    def ended(self, pid: int, mark: str) -> None:
        noted = self._alive.pop((pid, mark), None)
        if noted is None:
            return
        self._ended += 1
        self._write(replace(noted, ended=True))
        if self._ended > MAX_ENDED_NOTED:
            self._begin_anew()

    def close(self) -> None:
        """Remove the list, unless a listed process still exists."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        if not self._alive:
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _write(self, noted: NotedProcess) -> None:
        try:
            if self._descriptor < 0:
                self._descriptor = self._open(self._path)
            _append(self._descriptor, _line_of(noted))
        except OSError as error:
            LOGGER.warning("processes cannot be recorded in %s: %s", self._path, error)

    def _begin_anew(self) -> None:
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            descriptor = self._open(new, self._alive.values())
            new.replace(self._path)
        except OSError as error:
            LOGGER.warning("%s cannot be rewritten: %s", self._path, error)
            return
        os.close(self._descriptor)
        self._descriptor, self._ended = descriptor, 0

    @staticmethod
    def _open(path: Path, noted: Iterable[NotedProcess] = ()) -> int:
        # Existing files are not opened: neither a link nor a file of another user.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        pid = own_pid()
        own = read_process_status(pid)
        runner = () if own is None else (NotedProcess(pid=pid, started=own.started, boot=_boot()),)
        try:
            _append(descriptor, b"".join(map(_line_of, (*runner, *noted))))
        except OSError:  # a file that stays would make the next attempt fail
            os.close(descriptor)
            path.unlink()
            raise
        return descriptor


def list_beside(store: Path, run: str) -> ProcessList:
    return ProcessList(store.with_name(f"{store.name}.{run}{SUFFIX}"))


def end_left_processes(store: Path) -> int:
    """End the processes of dead runs over a store, and remove their lists. Blocks."""
    killed = 0
    for path in sorted(store.parent.glob(f"{glob.escape(store.name)}.*{SUFFIX}")):
        lines = _read(path)
        if lines is None:
            continue
        noted = list(_noted_in(path, lines))
        runner = noted[0] if noted and not noted[0].mark else None
        if runner is not None and _is_there(runner):
            continue
        if not _boot():
            LOGGER.warning("%s is left unchanged: processes cannot be inspected without /proc", path)
            continue
        alive: dict[tuple[int, str], NotedProcess] = {}
        for one in noted:
            if one.ended:
                alive.pop((one.pid, one.mark), None)
            elif one.mark:
                alive[one.pid, one.mark] = one
        killed += _end(alive.values())
        with contextlib.suppress(OSError):
            path.unlink()
    if killed:
        LOGGER.warning("killed %d orphaned processes of a crashed run", killed)
    return killed


_LIST: Final[ContextVar[ProcessList | None]] = ContextVar("agentrail_process_list_of_this_run", default=None)


def keep_list(of_run: ProcessList | None) -> None:
    """Record the processes that this task and its children start from now on."""
    _LIST.set(of_run)


def current_list() -> ProcessList | None:
    return _LIST.get()


# --- reading


def _read(path: Path) -> bytes | None:
    """Read a list that only this user can write. Anything else is logged and left."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        LOGGER.warning("%s is not a list of processes and is left unchanged: %s", path, error)
        return None
    try:
        about = os.fstat(descriptor)
        is_ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and about.st_nlink == 1
        if not is_ours or about.st_mode & 0o077:
            LOGGER.warning(
                "%s is ignored, and no process is killed: expected a file of this user with mode 0600",
                path,
            )
            return None
        return os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)


def _noted_in(path: Path, lines: bytes) -> Iterator[NotedProcess]:
    for number, line in enumerate(lines.splitlines(keepends=True), 1):
        try:
            if not line.endswith(b"\n"):
                message = "it is incomplete"
                raise msgspec.DecodeError(message)
            yield _NOTES.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            LOGGER.warning("%s: line %d is ignored: %s", path, number, error)


def _append(descriptor: int, lines: bytes) -> None:
    """Append lines, or on a full disk nothing: half a line would spoil the next one."""
    size = os.fstat(descriptor).st_size
    if os.write(descriptor, lines) < len(lines):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _line_of(noted: NotedProcess) -> bytes:
    return msgspec.json.encode(noted) + b"\n"


# --- inspecting processes


def _boot() -> str:
    """Return boot and pid namespace, or an empty string."""
    try:
        boot = _PROC.joinpath("sys", "kernel", "random", "boot_id").read_text().strip()
        return f"{boot}/{os.readlink(_PROC.joinpath('self', 'ns', 'pid'))}"  # noqa: PTH115 - not a path
    except OSError:
        return ""


def own_pid() -> int:
    try:
        return int(os.readlink(_PROC.joinpath("self")))  # noqa: PTH115 - a number, not a path
    except OSError:
        return 0


@frozen(kw_only=True)
class ProcessStatus:
    """The fields of proc_pid_stat(5) for a process that is neither dead nor waiting to be reaped."""

    parent: int
    group: int
    flags: int
    started: int


def read_process_status(pid: int) -> ProcessStatus | None:
    try:
        line = _PROC.joinpath(str(pid), "stat").read_text(errors="replace")
    except OSError:  # ended
        return None
    # The second field is the name in parentheses, which may itself be ") Z 1". The third is the state.
    fields = line.rpartition(")")[2].split()
    if fields[0] in {"Z", "X"}:
        return None
    parent, group, flags, started = (int(fields[number]) for number in (1, 2, 6, 19))
    return ProcessStatus(parent=parent, group=group, flags=flags, started=started)


def _is_there(noted: NotedProcess) -> bool:
    status = read_process_status(noted.pid)
    return status is not None and status.started == noted.started and _boot() == noted.boot


def _end(noted: Iterable[NotedProcess]) -> int:
    boot = _boot()
    known = [one for one in noted if one.boot == boot and one.pid > 1]
    groups = frozenset(one.pid for one in known if _is_there(one))
    marks = frozenset(f"{MARKER}={one.mark}".encode() for one in known)
    killed: set[int] = set()
    for _ in range(_MAX_LOOKS if known else 0):  # repeated, for processes started meanwhile
        found = [int(one.name) for one in _PROC.iterdir() if one.name.isdecimal()]
        now = {pid for pid in found if _is_of(pid, groups, marks) and _kill(pid, groups, marks)}
        killed |= now
        if not now:
            break
    return len(killed)


def _is_of(pid: int, groups: frozenset[int], marks: frozenset[bytes]) -> bool:
    status = read_process_status(pid)
    if status is None or pid == own_pid():
        return False
    return status.group in groups or not marks.isdisjoint(_environment_of(pid))


def _environment_of(pid: int) -> list[bytes]:
    try:
        return _PROC.joinpath(str(pid), "environ").read_bytes().split(b"\0")
    except OSError:  # ended, or another user's
        return []


def _kill(pid: int, groups: frozenset[int], marks: frozenset[bytes]) -> bool:
    """Kill a process through a descriptor, safe from reused pids, and wait for its end: until then it may finish a write."""
    with contextlib.suppress(OSError):  # ended, or another user's
        descriptor = os.pidfd_open(pid)
        try:
            if _is_of(pid, groups, marks):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                ending = select.poll()
                ending.register(descriptor, select.POLLIN)
                ending.poll(_END_MS)
                return True
        finally:
            os.close(descriptor)
    return False
