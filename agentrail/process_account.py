"""Account of the processes of a call, written by the code that starts them and read by the code that stops the call.

A context variable, because a tool's own code and a port that knows nothing of calls are between the two. This module neither
starts nor stops processes.
"""

from contextvars import ContextVar
from typing import Final

from attrs import define, field


@define(eq=False)
class ProcessAccount:
    """Processes of one call.

    Attributes:
        alive: Pids of started processes without a known end.
        reaped: Number of processes that were alive when they were stopped, and have ended.
        left_at: Addresses of other machines where the end of stopped processes is unknown.
    """

    alive: set[int] = field(factory=set)
    reaped: int = 0
    left_at: set[str] = field(factory=set)

    def left(self) -> list[tuple[str, int | None]]:
        """Return the remaining processes, in order: their place, in words that follow a name, and their pid.

        Local ones have no words, remote ones no pid.
        """
        here: list[tuple[str, int | None]] = [("", pid) for pid in sorted(self.alive)]
        return here + [(f" at {address}", None) for address in sorted(self.left_at)]


_ACCOUNT: Final[ContextVar[ProcessAccount | None]] = ContextVar(
    "agentrail_processes_of_this_call", default=None
)


def keep_account(account: ProcessAccount) -> None:
    """Record processes that this task and its child tasks start from now on in this account."""
    _ACCOUNT.set(account)


def note_started(pid: int) -> None:
    """Record a started process for the call of this task. Outside of calls there is no account."""
    account = _ACCOUNT.get()
    if account is not None:
        account.alive.add(pid)


def note_stopped(pid: int, *, ended: int, left: frozenset[int]) -> None:
    account = _ACCOUNT.get()
    if account is not None:
        account.alive.discard(pid)
        account.alive |= left
        account.reaped += ended


def note_left_elsewhere(address: str) -> None:
    """Record that processes were stopped on another machine, and that their end is unknown."""
    account = _ACCOUNT.get()
    if account is not None:
        account.left_at.add(address)
