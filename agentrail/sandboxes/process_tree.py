"""The processes of a command, found and ended: terminated, waited for, killed, searched for again.

A process belongs to the tree if it is in the process group of the command, or if its environment has the command's
marker, which survives `setsid` and a double fork. The marker needs `/proc` and is best effort: a process that leaves the
group and clears its environment cannot be found. Without `/proc`, the group counts as one process.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import trio
from attrs import define, field, frozen

from agentrail import outside
from agentrail.orphaned_processes import MARKER, read_process_status

GRACE_SECONDS: Final = 2.0
"""Time between SIGTERM and SIGKILL."""

KILL_SECONDS: Final = 2.0
"""Time limit for killed processes to end. Only an uninterruptible system call takes longer."""

PROC: Final = Path("/proc")
_PF_KTHREAD: Final = 0x00200000  # in the kernel's sched.h, unchanged since 2.6
_MARKER: Final = f"{MARKER}=".encode()
_MAX_LOOKS: Final = 3
_LOOK_AGAIN_SECONDS: Final = 0.001
_FIRST_PAUSE_SECONDS: Final = 0.002
_LAST_PAUSE_SECONDS: Final = 0.05


@frozen(kw_only=True)
class StoppedTree:
    """The result of a stop.

    Attributes:
        found: Processes alive at its start.
        left: Processes still alive: killed, but held by an uninterruptible system call.
    """

    found: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset()


@frozen(kw_only=True)
class ProcessTree:
    """The processes of one command.

    Attributes:
        token: Value of the marker variable, unique on the machine.
    """

    group: int
    token: str

    async def stop(self) -> StoppedTree:
        """End all living processes of the tree: `SIGTERM`, two seconds, `SIGKILL`, and search again.

        Cancellation: Leaves processes alive. So call it under a shield. It is limited to `GRACE_SECONDS + KILL_SECONDS`.
        """
        found = left = await self._find()
        if left:
            self._send(sorted(left), signal.SIGTERM)
            left = await self._wait_gone(left, within_seconds=GRACE_SECONDS)
        with trio.move_on_after(KILL_SECONDS):
            while left:  # repeated, for processes forked meanwhile
                self._send(sorted(left), signal.SIGKILL)
                left = await self._wait_gone(left, within_seconds=KILL_SECONDS)
        return StoppedTree(found=found, left=left)

    async def count_below(self) -> int:
        """Count the descendants of the first process."""
        return await outside.offload(self._count_below_sync, limiter=trio.CapacityLimiter(1))

    def _count_below_sync(self) -> int:
        pids = _pids()
        children: dict[int, list[int]] = {}
        for pid in pids:
            if (status := read_process_status(pid)) is not None:
                children.setdefault(status.parent, []).append(pid)
        waiting, found = [self.group], 0
        while waiting:
            below = children.get(waiting.pop(), [])
            found += len(below)
            waiting += below
        return found

    async def _wait_gone(self, pids: frozenset[int], *, within_seconds: float) -> frozenset[int]:
        """Wait until these have ended, then return other new ones. At the time limit, return the remaining ones."""
        pause = _FIRST_PAUSE_SECONDS
        with trio.move_on_after(within_seconds):
            while any(map(_is_alive, pids)):
                await trio.sleep(pause)
                pause = min(pause * 2, _LAST_PAUSE_SECONDS)
        return await self._find()

    async def _find(self) -> frozenset[int]:
        if not has_proc():
            await trio.lowlevel.checkpoint()
            return frozenset({self.group}) if _group_exists(self.group) else frozenset()
        table = _TABLE.get(None)
        if table is None:
            table = _ProcessTable()
            _TABLE.set(table)
        found = await table.read()
        return frozenset(
            pid for pid, (group, token) in found.items() if group == self.group or token == self.token
        )

    def _send(self, pids: Iterable[int], number: signal.Signals) -> None:
        groups = {pid: status.group for pid in pids if (status := read_process_status(pid)) is not None}
        # Not an empty group: once the shell is reaped, another group may have its number.
        if self.group in groups.values() or not has_proc():
            # Ended meanwhile; or macOS, which forbids it if only zombies are left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                outside.processes().signal_group(self.group, number)
        for pid, group in groups.items():
            if group != self.group:
                self._send_to_runaway(pid, number)

    def _send_to_runaway(self, pid: int, number: signal.Signals) -> None:
        """Signal a process outside the group, but never a later process with the same pid: a descriptor stays with its process."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # ended
                descriptor = os.pidfd_open(pid)
                try:
                    if _token_of(pid) == self.token:
                        signal.pidfd_send_signal(descriptor, number)
                finally:
                    os.close(descriptor)


def _pids() -> list[int]:
    # By name rather than as paths: there are thousands, and each command ends with this.
    return [int(name) for name in os.listdir(PROC) if name.isdecimal()]  # noqa: PTH208 - see above


def _token_of(pid: int) -> str | None:
    """Return the marker of a process, or None without one."""
    try:
        environment = PROC.joinpath(str(pid), "environ").read_bytes()
        for _ in range(_MAX_LOOKS):
            if environment:
                break
            # In the middle of an exec, the old environment is gone and the new one is not there yet.
            time.sleep(_LOOK_AGAIN_SECONDS)
            environment = PROC.joinpath(str(pid), "environ").read_bytes()
    except OSError:  # ended, or of another user
        return None
    if _MARKER not in environment:
        return None
    found = (one for one in environment.split(b"\0") if one.startswith(_MARKER))
    return next(found, _MARKER)[len(_MARKER) :].decode(errors="replace")


_Processes: TypeAlias = Mapping[int, tuple[int, str | None]]
"""Group and marker of each living process."""


def _read_processes() -> _Processes:
    living = ((pid, read_process_status(pid)) for pid in _pids())
    return {
        pid: (status.group, _token_of(pid))
        for pid, status in living
        if status is not None and not status.flags & _PF_KTHREAD
    }


@define(eq=False)
class _Reading:
    done: trio.Event = field(init=False, factory=trio.Event)
    found: _Processes | None = field(init=False, default=None)


class _ProcessTable:
    """Reads all processes once for all trees that are searched at the same time.

    A search reads hundreds of files in a thread. Two hundred trees that ended together did so at once, and their threads held the
    interpreter for half a second.
    """

    def __init__(self) -> None:
        self._turn = trio.Lock()
        self._next: _Reading | None = None

    async def read(self) -> _Processes:
        while True:
            reading = self._next
            if reading is not None:
                await reading.done.wait()
            else:
                reading = self._next = _Reading()
                try:
                    async with self._turn:
                        # Later callers get the next one: this one may miss a process that they want to find.
                        self._next = None
                        # With a separate limiter, because clean-up must not wait.
                        reading.found = await outside.offload(
                            _read_processes, limiter=trio.CapacityLimiter(1)
                        )
                finally:
                    if self._next is reading:
                        self._next = None
                    reading.done.set()
            if reading.found is not None:  # otherwise its reader was cancelled
                return reading.found


_TABLE: Final[trio.lowlevel.RunVar[_ProcessTable | None]] = trio.lowlevel.RunVar(
    "agentrail_process_table", default=None
)


def _is_alive(pid: int) -> bool:
    return read_process_status(pid) is not None if has_proc() else _group_exists(pid)


def has_proc() -> bool:
    return PROC.joinpath("self", "stat").exists()


def _group_exists(group: int) -> bool:
    try:
        outside.processes().signal_group(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
