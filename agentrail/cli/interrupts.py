"""What Ctrl-C does: the first one stops the work and waits until it is gone, a second one does not wait.

SIGTERM counts as Ctrl-C. Neither raises `KeyboardInterrupt` here: a signal is a value that a task receives.
"""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import trio
from attrs import define, frozen

from agentrail.cli.exits import Exit

HARD_EXIT_SECONDS: Final = 5.0
"""How long an orderly end may take after the second Ctrl-C."""

_PROC: Final = Path("/proc")


@define(eq=False)
class Interrupts:
    """The interrupts of a process, and what the next one does."""

    handle: Callable[[], None]
    count: int = 0

    async def receive(self, signals: AsyncIterator[int]) -> None:
        """Handle each signal, for ever."""
        async for _ in signals:
            self.count += 1
            self.handle()


async def leave_at_once(work: trio.CancelScope) -> None:
    """Cancel the work, kill the commands that it started, and end the process if that was not enough.

    Cancelling the work ends them too, but asks them first and gives them two seconds.
    """
    work.cancel(reason="interrupted twice")
    kill_descendants()
    await trio.sleep(HARD_EXIT_SECONDS)
    kill_descendants()
    # Something holds a thread that nothing can stop, such as a network file system.
    os._exit(Exit.INTERRUPTED)


@frozen(kw_only=True)
class Process:
    """A process of this machine.

    Attributes:
        parent: Who started it, or init when that one has ended.
        session: The Unix session that it is in: the pid of who made it.
    """

    pid: int
    parent: int
    session: int


def kill_descendants() -> None:
    """Kill every process that this one started, with all that they started. Needs `/proc`; does nothing without it."""
    for pid in decide_descendants(_processes(), os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def decide_descendants(processes: tuple[Process, ...], root: int) -> frozenset[int]:
    """Say which processes come from another: its children, theirs, and who is in a Unix session that one of them leads.

    The last are those whose parent has ended already: init adopted them, and only their session tells whose they are.
    """
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
    except OSError:  # gone
        return None
    # The second field is the name in parentheses, which may hold anything. Then: state, parent, group, session.
    _state, parent, _group, session = line.rpartition(")")[2].split()[:4]
    return Process(pid=int(stat.parent.name), parent=int(parent), session=int(session))
