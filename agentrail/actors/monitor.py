"""Monitors report an end, links share it. After a `Down`, the dead actor no longer acts in any way."""

import itertools
from collections.abc import Hashable
from typing import Final, NewType

import trio
from attrs import frozen

from agentrail.actors.actor_handle import ActorCell, ActorHandle, cell_of, mailbox_of
from agentrail.otp.exits import ExitReason, NoProcess

MonitorId = NewType("MonitorId", int)

_numbers: Final = itertools.count(1)


@frozen
class Down:
    """Notice that a monitored actor has ended.

    Attributes:
        monitor_id: Id of the monitor.
        id: Id of the actor.
        incarnation: Number of its instance.
        reason: Exit reason. `NoProcess()` if it had ended before it was monitored.
    """

    monitor_id: MonitorId
    id: Hashable
    incarnation: int
    reason: ExitReason


class Monitor:
    """Watches one actor, and fires once."""

    __slots__ = ("_cell", "_down", "_fired", "_target", "id", "is_cancelled")

    def __init__(self, cell: ActorCell, target: ActorCell | None) -> None:
        """Created by `monitor`."""
        self.id: MonitorId = MonitorId(next(_numbers))  # not `id()`, which is reused once the object is freed
        self.is_cancelled: bool = False
        self._cell = cell
        self._target = target
        self._down: Down | None = None
        self._fired = trio.Event()

    def arm(self, *, real_reason: bool) -> None:
        """Start watching. If the actor has ended, fire at once."""
        reason = self._cell.exit_reason
        if reason is not None:
            self._fire(reason if real_reason else NoProcess())
            return
        self._cell.watch(self, self._fire)
        # Removed with its watcher: otherwise a long-lived actor would keep every monitor it ever had.
        if self._target is not None:
            self._target.on_release(self, self._stop)

    @property
    def handle(self) -> ActorHandle:
        """Handle of the watched actor."""
        return self._cell.handle

    async def wait(self) -> Down:
        """Wait for the end. A cancelled monitor waits indefinitely.

        Cancellation: Always a checkpoint.
        """
        await self._fired.wait()
        assert self._down is not None  # noqa: S101 - it has fired
        return self._down

    def cancel(self) -> None:
        """Stop watching: no `Down` is delivered any more, not even one that already waits in a mailbox."""
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
    """A `Down` in a mailbox. Its reader checks whether the monitor is still active."""

    monitor: Monitor
    down: Down


def monitor(handle: ActorHandle, *, deliver_to: ActorHandle | None = None) -> Monitor:
    """Monitor an actor. A dead actor results in `NoProcess()` at once.

    Args:
        handle: The actor.
        deliver_to: Actor that receives the `Down` as a notice, after all messages from the dead actor. Without it, `wait`
            returns the `Down`. The monitor ends with that actor.

    Raises:
        NoMailbox: Your move: `deliver_to` is a worker.
    """
    return _monitor(handle, deliver_to, real_reason=False)


def monitor_started(handle: ActorHandle) -> Monitor:
    return _monitor(handle, None, real_reason=True)


def link(one: ActorHandle, other: ActorHandle) -> None:
    """Link two actors, so that an end other than `Normal` ends both. Idempotent; a link to a dead actor: `NoProcess()`."""
    cell_of(one).link(cell_of(other))


def unlink(one: ActorHandle, other: ActorHandle) -> None:
    """Undo `link`. Harmless if they are not linked."""
    cell_of(one).unlink(cell_of(other))


def _monitor(handle: ActorHandle, deliver_to: ActorHandle | None, *, real_reason: bool) -> Monitor:
    target = None if deliver_to is None else cell_of(deliver_to)
    if target is not None:
        mailbox_of(target)
    made = Monitor(cell_of(handle), target)
    made.arm(real_reason=real_reason)
    return made
