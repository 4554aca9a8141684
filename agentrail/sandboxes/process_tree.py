"""The processes that a command started, found again and ended: asked, waited for, killed, looked for once more.

A process belongs to the tree when it is in the process group of the command, or when its environment carries the
command's marker, which `setsid` and a double fork do not take away. The second needs `/proc` and is best effort: a process that leaves the
group and clears its environment cannot be found. Without `/proc` the group counts as one process.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

from agentrail import outside
from agentrail.left_processes import MARKER

GRACE_SECONDS: Final = 2.0
"""Between SIGTERM and SIGKILL."""

KILL_SECONDS: Final = 2.0
"""How long killed processes are waited for; only an uninterruptible system call takes longer."""

PROC: Final = Path("/proc")
_PF_KTHREAD: Final = 0x00200000  # in the kernel's sched.h; the number has stood still since 2.6
_MAX_LOOKS: Final = 3
_LOOK_AGAIN_SECONDS: Final = 0.001
_FIRST_PAUSE_SECONDS: Final = 0.002
_LAST_PAUSE_SECONDS: Final = 0.05


@frozen(kw_only=True)
class StoppedTree:
    """What a stop has found.

    Attributes:
        found: The processes that were alive when it began.
        left: Those that are there still: killed, and held by an uninterruptible system call.
    """

    found: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset()


@frozen(kw_only=True)
class ProcessTree:
    """The processes of one command.

    Attributes:
        group: The process group, which is the pid of the shell too.
        token: What the marker variable is set to; nothing else on the machine has it.
    """

    group: int
    token: str

    async def stop(self) -> StoppedTree:
        """End all processes of the tree that are alive: `SIGTERM`, two seconds, `SIGKILL`, and look again.

        Cancellation: Leaves processes alive; so it is called under a shield, for which it is bounded by
            `GRACE_SECONDS + KILL_SECONDS`.
        """
        found = left = await self._find()
        if left:
            self._send(sorted(left), signal.SIGTERM)
            left = await self._wait_gone(left, within_seconds=GRACE_SECONDS)
        with trio.move_on_after(KILL_SECONDS):
            while left:  # again and again, for what is forked meanwhile
                self._send(sorted(left), signal.SIGKILL)
                left = await self._wait_gone(left, within_seconds=KILL_SECONDS)
        return StoppedTree(found=found, left=left)

    async def count_below(self) -> int:
        """Count the processes that the first one has started, with all that those have started.

        In a namespace of processes that is all of it: who loses its parent gets the first process for one.
        """
        return await outside.offload(self._count_below_sync, limiter=trio.CapacityLimiter(1))

    def _count_below_sync(self) -> int:
        pids = (int(name) for name in os.listdir(PROC) if name.isdecimal())  # noqa: PTH208 - as in `_find_sync`
        children: dict[int, list[int]] = {}
        for pid in pids:
            if (status := _status_of(pid)) is not None:
                children.setdefault(status.parent, []).append(pid)
        waiting, found = [self.group], 0
        while waiting:
            below = children.get(waiting.pop(), [])
            found += len(below)
            waiting += below
        return found

    async def _wait_gone(self, pids: frozenset[int], *, within_seconds: float) -> frozenset[int]:
        """Wait until these are gone, then say which others there are by now; at the end of the time, which are left."""
        pause = _FIRST_PAUSE_SECONDS
        with trio.move_on_after(within_seconds):
            while any(map(_is_alive, pids)):
                await trio.sleep(pause)
                pause = min(pause * 2, _LAST_PAUSE_SECONDS)
        return await self._find()

    async def _find(self) -> frozenset[int]:
        # In a thread, because a machine with thousands of processes takes a while to look through; with a limiter of
        # its own, because nothing may keep the one who cleans up waiting.
        return await outside.offload(self._find_sync, limiter=trio.CapacityLimiter(1))

    def _find_sync(self) -> frozenset[int]:
        if not has_proc():
            return frozenset({self.group}) if _group_exists(self.group) else frozenset()
        # By name, not as paths: there are thousands, and each command ends with this.
        pids = (int(name) for name in os.listdir(PROC) if name.isdecimal())  # noqa: PTH208 - see above
        return frozenset(pid for pid in pids if self._owns(pid))

    def _owns(self, pid: int) -> bool:
        status = _status_of(pid)
        if status is None or status.is_kernel_thread:
            return False
        return status.group == self.group or self._has_marker(pid)

    def _has_marker(self, pid: int) -> bool:
        try:
            environment = PROC.joinpath(str(pid), "environ").read_bytes()
            for _ in range(_MAX_LOOKS):
                if environment:
                    break
                # In the middle of an exec the old environment is gone and the new one not there yet.
                time.sleep(_LOOK_AGAIN_SECONDS)
                environment = PROC.joinpath(str(pid), "environ").read_bytes()
        except OSError:  # gone, or of another user
            return False
        return f"{MARKER}={self.token}".encode() in environment.split(b"\0")

    def _send(self, pids: Iterable[int], number: signal.Signals) -> None:
        groups = {pid: status.group for pid in pids if (status := _status_of(pid)) is not None}
        # Not an empty group: once the shell is reaped, its number may be another group's.
        if self.group in groups.values() or not has_proc():
            # Gone meanwhile; or macOS, which forbids it where all that is left are zombies.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                outside.processes().signal_group(self.group, number)
        for pid, group in groups.items():
            if group != self.group:
                self._send_to_runaway(pid, number)

    def _send_to_runaway(self, pid: int, number: signal.Signals) -> None:
        """Signal a process outside the group, and never one that has its pid by now: a descriptor stays with its owner."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # gone
                descriptor = os.pidfd_open(pid)
                try:
                    if self._has_marker(pid):
                        signal.pidfd_send_signal(descriptor, number)
                finally:
                    os.close(descriptor)


@frozen(kw_only=True)
class _Status:
    """What proc_pid_stat(5) says of a process that is neither dead nor waiting to be reaped."""

    parent: int
    group: int
    is_kernel_thread: bool


def _status_of(pid: int) -> _Status | None:
    try:
        line = PROC.joinpath(str(pid), "stat").read_text(errors="replace")
    except OSError:  # gone
        return None
    # The second field is the name in parentheses, and a process may well be named ") Z 1"; the third is the state.
    state, parent, group, _session, _terminal, _foreground, flags = line.rpartition(")")[2].split()[:7]
    if state in {"Z", "X"}:
        return None
    return _Status(parent=int(parent), group=int(group), is_kernel_thread=bool(int(flags) & _PF_KTHREAD))


def _is_alive(pid: int) -> bool:
    return _status_of(pid) is not None if has_proc() else _group_exists(pid)


def has_proc() -> bool:
    """Tell whether the processes of this machine can be looked at as files."""
    return PROC.joinpath("self", "stat").exists()


def _group_exists(group: int) -> bool:
    try:
        outside.processes().signal_group(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
