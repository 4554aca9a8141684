"""Account of a call's processes, written by the code that starts them and read by the code that stops the call.

A context variable, because a tool and a port lie between them.
"""

from contextvars import ContextVar
from typing import Final

from attrs import define, field


@define(eq=False)
class ProcessAccount:
    """Processes of one call: `alive` without a known end, `reaped` ended after a stop, `left_at` other machines where the end is unknown."""

    alive: set[int] = field(factory=set)
    reaped: int = 0
    left_at: set[str] = field(factory=set)

    def left(self) -> list[tuple[str, int | None]]:
        """Return the remaining processes in order: words of their place (remote only), and pid (local only)."""
        here: list[tuple[str, int | None]] = [("", pid) for pid in sorted(self.alive)]
        return here + [(f" at {address}", None) for address in sorted(self.left_at)]


_ACCOUNT: Final[ContextVar[ProcessAccount | None]] = ContextVar(
    "agentrail_processes_of_this_call", default=None
)


def keep_account(account: ProcessAccount) -> None:
    """Record processes that this task and its children start from now on."""
    _ACCOUNT.set(account)


def note_started(pid: int) -> None:
    """Record a started process for the call of this task, if any."""
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
    """Record that processes stopped on another machine, with unknown end."""
    account = _ACCOUNT.get()
    if account is not None:
        account.left_at.add(address)
