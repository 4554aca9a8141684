"""Ctrl-C handling: the first one stops the work and waits until it has ended, a second one does not wait."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import trio
from attrs import define, frozen

from agentrail.actors.deferred_error import Kept
from agentrail.cli.exit_codes import Exit

HARD_EXIT_SECONDS: Final = 5.0
"""Time limit for an orderly exit after the second Ctrl-C, in seconds."""

_PROC: Final = Path("/proc")
R = TypeVar("R")


@define(eq=False)
class Interrupts:
    handle: Callable[[], None]
    count: int = 0

    async def receive(self, signals: AsyncIterator[int]) -> None:
        """Handle signals until cancelled."""
        async for _ in signals:
            self.count += 1
            self.handle()


def stop_signals() -> tuple[int, ...]:
    """Return the signals that end a command in order. SIGHUP comes when the terminal closes, unless `nohup` ignores it."""
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGTERM,) if is_ignored else (signal.SIGTERM, signal.SIGHUP)


async def interruptible(work: Callable[[], Awaitable[R]]) -> R:
    """Run work that SIGTERM and SIGHUP interrupt as Ctrl-C does. By default they would end this process alone, and at once."""
    failure = Kept()
    with trio.open_signal_receiver(*stop_signals()) as signals:
        async with trio.open_nursery() as nursery:
            interrupts = Interrupts(nursery.cancel_scope.cancel)
            nursery.start_soon(interrupts.receive, signals)
            with failure:
                result = await work()
            nursery.cancel_scope.cancel(reason="the work is done")
    if interrupts.count:
        raise KeyboardInterrupt
    failure.release()
    return result


async def leave_at_once(work: trio.CancelScope) -> None:
    """Cancel the work, kill the commands that it started, and exit the process if that is not enough."""
    work.cancel(reason="interrupted twice")
    kill_descendants()
    await trio.sleep(HARD_EXIT_SECONDS)
    kill_descendants()
    # A thread is blocked in a call that cannot be interrupted, such as on a network file system.
    os._exit(Exit.INTERRUPTED)


@frozen(kw_only=True)
class Process:
    """A process of this machine.

    Attributes:
        parent: The pid of its parent, or of init after the parent has exited.
    """

    pid: int
    parent: int
    session: int


def kill_descendants() -> None:
    """Kill every descendant of this process. Needs `/proc`, and does nothing without it."""
    for pid in decide_descendants(_processes(), os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def decide_descendants(processes: tuple[Process, ...], root: int) -> frozenset[int]:
    """Return the descendants of a process: its children, theirs, and the members of Unix sessions that they lead."""
    found: frozenset[int] = frozenset()
    while True:
        more = frozenset(
            process.pid
            for process in processes
            if process.pid != root and (process.parent in found | {root} or process.session in found)
        )
        if more <= found:
            return found
        found |= more


def _processes() -> tuple[Process, ...]:
    found = (_read_process(entry) for entry in _PROC.glob("[0-9]*/stat"))
    return tuple(process for process in found if process is not None)


def _read_process(stat: Path) -> Process | None:
    try:
        line = stat.read_text(errors="replace")
    except OSError:  # it has exited
        return None
    # The second field is the name in parentheses, which may contain anything. Then: state, parent, group, session.
    _state, parent, _group, session = line.rpartition(")")[2].split()[:4]
    return Process(pid=int(stat.parent.name), parent=int(parent), session=int(session))
