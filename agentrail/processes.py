"""Which processes work for a call: an account that the code that starts them keeps, and the code that stops the call reads.

A context variable, because between the two stand a tool's own code and a port that knows nothing of calls. No process is
started or stopped here.
"""

from contextvars import ContextVar
from typing import Final

from attrs import define, field


@define(eq=False)
class ProcessAccount:
    """The processes of one call.

    Attributes:
        alive: The pids of those that were started and have not been seen to end.
        reaped: How many were alive when they were to end, and are gone.
        left_at: The addresses of other machines where it is not known that what was to end is gone.
    """

    alive: set[int] = field(factory=set)
    reaped: int = 0
    left_at: set[str] = field(factory=set)

    def left(self) -> list[tuple[str, int | None]]:
        """List what is there still, in order: where, as words behind a name, and its pid. Here there are no words, elsewhere no pid."""
        here: list[tuple[str, int | None]] = [("", pid) for pid in sorted(self.alive)]
        return here + [(f" at {address}", None) for address in sorted(self.left_at)]


_ACCOUNT: Final[ContextVar[ProcessAccount | None]] = ContextVar(
    "agentrail_processes_of_this_call", default=None
)


def keep_account(account: ProcessAccount) -> None:
    """Let all that this task starts from now on, and the tasks that it starts, stand in this account."""
    _ACCOUNT.set(account)


def note_started(pid: int) -> None:
    """Note that a process works for the call of this task; outside of calls no account is kept."""
    account = _ACCOUNT.get()
    if account is not None:
        account.alive.add(pid)


def note_stopped(pid: int, *, ended: int, left: frozenset[int]) -> None:
    """Note the end of a process and of those that it had started."""
    account = _ACCOUNT.get()
    if account is not None:
        account.alive.discard(pid)
        account.alive |= left
        account.reaped += ended


def note_left_elsewhere(address: str) -> None:
    """Note that something was to end on another machine, and that it is not known to be gone."""
    account = _ACCOUNT.get()
    if account is not None:
        account.left_at.add(address)
