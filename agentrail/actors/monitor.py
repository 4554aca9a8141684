"""Monitors tell of an end, links share it. `Down` means gone: nothing of the dead actor acts any more."""

import itertools
from collections.abc import Hashable
from typing import Final, NewType

import trio
from attrs import frozen

from agentrail.actors.handle import ActorCell, ActorHandle, ExitSignal, cell_of, mailbox_of
from agentrail.otp.exits import ExitReason, NoProcess

__all__ = [
    "Down",
    "ExitSignal",
    "Monitor",
    "MonitorId",
    "Notice",
    "link",
    "monitor",
    "monitor_started",
    "unlink",
]

MonitorId = NewType("MonitorId", int)

_numbers: Final = itertools.count(1)


@frozen
class Down:
    """A monitored actor has ended.

    Attributes:
        monitor_id: Of the monitor that says so.
        id: The actor's.
        incarnation: Which instance of it.
        reason: Why; `NoProcess()` if it had ended before it was monitored.
    """

    monitor_id: MonitorId
    id: Hashable
    incarnation: int
    reason: ExitReason


class Monitor:
    """Watches one actor, and fires once."""

    __slots__ = ("_cell", "_down", "_fired", "_target", "id", "is_cancelled")

    def __init__(self, cell: ActorCell, target: ActorCell | None) -> None:
        """Made by `monitor`."""
        self.id: MonitorId = MonitorId(
            next(_numbers)
        )  # not its address: that is given to another one once it is gone
        self.is_cancelled: bool = False
        self._cell = cell
        self._target = target
        self._down: Down | None = None
        self._fired = trio.Event()

    def arm(self, *, real_reason: bool) -> None:
        """Begin to watch; of an actor that has ended tell at once."""
        reason = self._cell.exit_reason
        if reason is not None:
            self._fire(reason if real_reason else NoProcess())
            return
        self._cell.watch(self, self._fire)
        # It goes with the watcher: else an actor that lives long keeps all that ever watched it.
        if self._target is not None:
            self._target.on_release(self, self._stop)

    @property
    def handle(self) -> ActorHandle:
        """Whom it watches."""
        return self._cell.handle

    async def wait(self) -> Down:
        """Wait for the end; a cancelled monitor waits for ever.

        Cancellation: Always a checkpoint.
        """
        await self._fired.wait()
        assert self._down is not None  # noqa: S101 - it has fired
        return self._down

    def cancel(self) -> None:
        """Stop watching: no `Down` comes any more, not even one that waits in a mailbox already."""
        self.is_cancelled = True
        self._stop()

    def _stop(self) -> None:
        self._cell.unwatch(self)
        if self._target is not None:
            self._target.on_release(self, None)

    def _fire(self, reason: ExitReason) -> None:
        self._stop()
        self._down = Down(self.id, self._cell.id, self._cell.incarnation, reason)
        self._fired.set()
        if self._target is not None and self._target.mailbox is not None:
            self._target.mailbox.put_notice(Notice(self, self._down))


@frozen
class Notice:
    """A `Down` in a mailbox; its taker looks whether its monitor still stands."""

    monitor: Monitor
    down: Down


def monitor(handle: ActorHandle, *, deliver_to: ActorHandle | None = None) -> Monitor:
    """Watch an actor; a dead one gives `NoProcess()` at once.

    Args:
        handle: Whom.
        deliver_to: Who gets the `Down` as a notice, behind all that the dead one had sent; else `wait` tells it. The
            monitor ends with that actor.

    Raises:
        NoMailbox: Your move: `deliver_to` is a worker.
    """
    return _monitor(handle, deliver_to, real_reason=False)


def monitor_started(handle: ActorHandle) -> Monitor:
    """Watch an actor that was started a moment ago: if it has ended since, the real reason is told."""
    return _monitor(handle, None, real_reason=True)


def link(one: ActorHandle, other: ActorHandle) -> None:
    """Let two actors share their end, unless it is `Normal`. Twice is as once; to a dead one: `NoProcess()`."""
    cell_of(one).link(cell_of(other))


def unlink(one: ActorHandle, other: ActorHandle) -> None:
    """Undo `link`; fine if there is none."""
    cell_of(one).unlink(cell_of(other))


def _monitor(handle: ActorHandle, deliver_to: ActorHandle | None, *, real_reason: bool) -> Monitor:
    target = None if deliver_to is None else cell_of(deliver_to)
    if target is not None:
        mailbox_of(target)
    made = Monitor(cell_of(handle), target)
    made.arm(real_reason=real_reason)
    return made
