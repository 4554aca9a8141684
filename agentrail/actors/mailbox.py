"""The mailbox of an actor: one reader, many senders, one order, and a bound for what outsiders may pile up.

A deque and a parked task, not a memory channel: awaiting a channel costs a trip round the scheduler per message, while
an actor that has fallen behind takes from this one at the price of a `popleft`.
"""

from collections import deque
from typing import Final, Generic, TypeVar

import trio
from attrs import frozen

from agentrail.errors import MailboxFull

M = TypeVar("M")

_CHECKPOINT_EVERY: Final = 64
"""How many messages are taken before others get a turn, so that a full mailbox cannot starve the process."""


@frozen(kw_only=True)
class MailboxStatistics:
    """What a mailbox has seen.

    Attributes:
        waiting: Messages that wait now.
        high_water: The most that ever waited.
        accepted: All that ever came in.
        rejected: Those that were refused because it was full.
    """

    waiting: int
    high_water: int
    accepted: int
    rejected: int


class Mailbox(Generic[M]):
    """Messages for one actor, in the order in which they came."""

    __slots__ = (
        "_accepted",
        "_capacity",
        "_high_water",
        "_outside",
        "_queue",
        "_reader",
        "_rejected",
        "_since_yield",
    )

    def __init__(self, *, capacity: int = 1000) -> None:
        """Make an empty one that takes at most `capacity` messages by `put_nowait`."""
        self._queue: deque[tuple[M, bool]] = deque()
        self._reader: trio.lowlevel.Task | None = None
        self._capacity = capacity
        self._outside = 0
        self._since_yield = 0
        self._accepted = 0
        self._rejected = 0
        self._high_water = 0

    def put_nowait(self, message: M) -> None:
        """Put a message from outside at the end.

        Raises:
            MailboxFull: Your move: as many as are allowed wait already. Try again when the actor has caught up.
        """
        if self._outside >= self._capacity:
            self._rejected += 1
            complaint = (
                f"{self._outside} messages wait already, at most {self._capacity} may: try again later"
            )
            raise MailboxFull(complaint)
        self._outside += 1
        self._put(message, from_outside=True)

    def put_notice(self, message: M) -> None:
        """Put the outcome of something that the actor itself asked for at the end: unbounded, since it is owed."""
        self._put(message, from_outside=False)

    async def get(self) -> M:
        """Take the oldest message, waiting for one if there is none.

        Cancellation: Always a checkpoint for cancellation; a cancelled `get` has taken nothing. Other tasks get a
            turn whenever it waits, and at least once in 64 messages.
        """
        if not self._queue:
            self._since_yield = 1  # the message of this very call counts
            self._reader = trio.lowlevel.current_task()

            def stop_waiting(_: object) -> trio.lowlevel.Abort:
                self._reader = None
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(stop_waiting)
        elif self._since_yield >= _CHECKPOINT_EVERY:
            self._since_yield = 1
            await trio.lowlevel.checkpoint()
        else:
            self._since_yield += 1
            await trio.lowlevel.checkpoint_if_cancelled()
        message, from_outside = self._queue.popleft()
        self._outside -= from_outside
        return message

    def statistics(self) -> MailboxStatistics:
        """Say what it has seen; cheap, at any time."""
        return MailboxStatistics(
            waiting=len(self._queue),
            high_water=self._high_water,
            accepted=self._accepted,
            rejected=self._rejected,
        )

    def _put(self, message: M, *, from_outside: bool) -> None:
        self._queue.append((message, from_outside))
        self._accepted += 1
        self._high_water = max(self._high_water, len(self._queue))
        if self._reader is not None:
            reader, self._reader = self._reader, None
            trio.lowlevel.reschedule(reader)
