"""The mailbox of an actor: one reader, many senders, three lanes, and a bound for what outsiders may pile up.

Deques and a parked task, not a memory channel: awaiting a channel costs a trip round the scheduler per message, while
an actor that has fallen behind takes from this one at the price of a `popleft`.
"""

from collections import deque
from collections.abc import Awaitable, Sequence
from enum import Enum
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

import trio
from attrs import field, frozen

from agentrail.actors.dead_letters import DeadLetters, bury, dead_letters
from agentrail.actors.replies import ReplyTo
from agentrail.errors import InvalidSpec, MailboxFull
from agentrail.otp.exits import ExitReason, NoProcess
from agentrail.otp.statem import Call
from agentrail.otp.statem_types import check_bound

__all__ = [
    "NO_MESSAGE",
    "DeadLetters",
    "LaneStatistics",
    "Mailbox",
    "MailboxStatistics",
    "Overflow",
    "dead_letters",
]

M = TypeVar("M")

Overflow: TypeAlias = Literal["reject", "drop_oldest", "dead_letter", "block"]

_OVERFLOWS: Final = get_args(Overflow)
_CHECKPOINT_EVERY: Final = 64
"""How many messages are taken before others get a turn, so that a full mailbox cannot starve the process."""


class _Empty(Enum):
    EMPTY = "nothing to take now"


NO_MESSAGE: Final = _Empty.EMPTY
"""What `take_nowait` answers when there is nothing to take."""

_DIRECT: Final = object()

_NO_MAIL: Final[deque[tuple[object, object]]] = deque(maxlen=0)
"""The queue of every actor that waits: an empty one of its own would hold 600 bytes, and most actors wait."""


class Clockwork(Protocol):
    """The timers of the reader: one that comes due is a message, and stands before what is put after that."""

    def collect(self) -> None:
        """Put what is due by now into the mailbox, by `put_timer`."""


@frozen(kw_only=True)
class LaneStatistics:
    """One lane.

    Attributes:
        waiting: Messages that wait in it now.
        high_water: The most that ever waited.
    """

    waiting: int = 0
    high_water: int = 0


@frozen(kw_only=True)
class MailboxStatistics:
    """What a mailbox has seen.

    Attributes:
        waiting: Messages that wait now, in all lanes.
        high_water: The most that ever waited.
        accepted: All that ever came in.
        rejected: Those that were refused because it was full.
        dropped: Those that were thrown away because it was full.
        postponed: Of a machine: events that it keeps for the next change of its state.
        timers: Of a machine: timers that run.
        user: Calls, casts and infos.
        notices: What the actor is owed: ends of others, outcomes of effects.
        control: Stop, suspend and the like.
    """

    waiting: int
    high_water: int
    accepted: int
    rejected: int
    dropped: int = 0
    postponed: int = 0
    timers: int = 0
    user: LaneStatistics = field(default=LaneStatistics(), eq=False)
    notices: LaneStatistics = field(default=LaneStatistics(), eq=False)
    control: LaneStatistics = field(default=LaneStatistics(), eq=False)

    @property
    def handled(self) -> int:
        """How many were taken."""
        return self.accepted - self.waiting - self.dropped


class Mailbox(Generic[M]):
    """Messages for one actor. Those of the user lane and the notices come in one order; control overtakes both.

    Attributes:
        via: What the message was sent through that `take_nowait` gave last; `None` if through nothing.
    """

    __slots__ = (
        "_accepted",
        "_capacity",
        "_clockwork",
        "_closed",
        "_control",
        "_control_only",
        "_dropped",
        "_held",
        "_most",
        "_most_control",
        "_most_notices",
        "_most_user",
        "_outside",
        "_overflow",
        "_queue",
        "_reader",
        "_rejected",
        "_since_yield",
        "_waiting_for_room",
        "via",
    )

    def __init__(self, *, capacity: int = 1000, overflow: Overflow = "reject") -> None:
        """Make an empty one."""
        check_mailbox(capacity, overflow)
        # A message, and the way it came: `None` of a notice; of one from outside `_DIRECT`, or what it was sent through.
        self._queue = _NO_MAIL
        self._clockwork: Clockwork | None = None
        self.via: object = None
        self._control: deque[object] | None = None  # made when it is needed: most actors live without
        self._reader: trio.lowlevel.Task | None = None
        self._waiting_for_room: trio.lowlevel.ParkingLot | None = None
        self._control_only = False
        self._held = 0
        self._closed: ExitReason | None = None
        self._capacity = capacity
        self._overflow = overflow
        self._outside = 0
        self._since_yield = 0
        self._accepted = 0
        self._rejected = 0
        self._dropped = 0
        self._most = self._most_user = self._most_notices = self._most_control = 0

    # --- putting

    def put_nowait(self, message: M, *, via: object = None, bounded: bool = True) -> None:
        """Put a message from outside at the end. Into a closed mailbox: a dead letter."""
        if self._closed is not None:
            _discard(message, "the actor has ended", NoProcess())
            return
        if bounded and self._outside >= self._capacity and not self._make_room(message):
            return
        self._outside += 1
        self._put(message, _DIRECT if via is None else via)

    async def put(self, message: M) -> None:
        """Put a message from outside; with `block` wait for room first.

        Cancellation: Always a checkpoint; a cancelled `put` has put nothing.
        """
        await trio.lowlevel.checkpoint()
        while self.must_wait:
            await self.wait_for_room()
        self.put_nowait(message)

    async def wait_for_room(self) -> None:
        """Wait until there may be room, or nothing to have room for; look again then.

        Cancellation: A checkpoint.
        """
        if self._waiting_for_room is None:
            self._waiting_for_room = trio.lowlevel.ParkingLot()
        await self._waiting_for_room.park()

    def put_notice(self, notice: object) -> None:
        """Put the outcome of something that the actor itself asked for at the end: unbounded, since it is owed."""
        if self._closed is None:
            self._put(notice, None)

    def run_by(self, clockwork: Clockwork | None) -> None:
        """Let timers be collected before each message that is put; `None`: there are none."""
        self._clockwork = clockwork

    def put_timer(self, fired: object) -> None:
        """Put a timer that came due at the end, as a notice; only the collector of timers does that."""
        if self._closed is None:
            self._append(fired, None)

    def put_timers_first(self, fired: Sequence[object]) -> None:
        """Put timers that came due, in their order, before all that waits but control."""
        if self._queue is _NO_MAIL:
            self._queue = deque()
        self._queue.extendleft((timer, None) for timer in reversed(fired))
        self._accepted += len(fired)
        self._mark()

    def put_control(self, message: object) -> None:
        """Put a message that overtakes all others."""
        if self._closed is not None:
            return
        if self._control is None:
            self._control = deque()
        self._control.append(message)
        self._accepted += 1
        # Compared first, as in `_append`: a session with a store is told so of each batch of its records.
        control = len(self._control)
        if control > self._most_control or len(self._queue) + control > self._most:
            self._mark()
        if not self._held:
            self._wake()

    def _make_room(self, message: M) -> bool:
        if self._overflow == "drop_oldest":
            # Not by `remove`: it would ask messages of other people whether they are equal.
            place = next(place for place, (_, via) in enumerate(self._queue) if via is not None)
            oldest, _ = self._queue[place]
            del self._queue[place]
            self._outside -= 1
            self._dropped += 1
            _discard(oldest, "the mailbox was full", None)
            return True
        if self._overflow == "dead_letter":
            self._accepted += 1
            self._dropped += 1
            _discard(message, "the mailbox was full", None)
            return False
        self._rejected += 1
        raise MailboxFull(_full(self._outside, self._capacity))

    def _put(self, message: object, via: object) -> None:
        if self._clockwork is not None:
            self._clockwork.collect()
        self._append(message, via)

    def _append(self, message: object, via: object) -> None:
        if self._queue is _NO_MAIL:
            self._queue = deque()
        self._queue.append((message, via))
        self._accepted += 1
        # Compared first: this is done for each message, and seldom has there never been more.
        user, queued = self._outside, len(self._queue)
        if (
            queued > self._most
            or user > self._most_user
            or queued - user > self._most_notices
            or self._control
        ):
            self._mark()
        if self._reader is not None and not self._held and not self._control_only:
            self._wake()

    def _mark(self) -> None:
        user, queued = self._outside, len(self._queue)
        control = len(self._control) if self._control else 0
        self._most = max(self._most, queued + control)
        self._most_user = max(self._most_user, user)
        self._most_notices = max(self._most_notices, queued - user)
        self._most_control = max(self._most_control, control)

    @property
    def lets_wait(self) -> bool:
        """Whether senders that can wait do so when it is full."""
        return self._overflow == "block"

    @property
    def must_wait(self) -> bool:
        """Whether a sender that can wait has to."""
        return self._overflow == "block" and self._outside >= self._capacity and self._closed is None

    # --- taking

    async def get(self) -> object:
        """Take the next message, waiting for one if there is none.

        Cancellation: Always a checkpoint for cancellation; a cancelled `get` has taken nothing. Other tasks get a
            turn whenever it waits, and at least once in 64 messages.
        """
        waited = False
        while not self.has_mail():
            await self.wait()
            waited = True
        if not waited:
            await self.give_way()
        return self.take_nowait()

    def has_mail(self, *, control_only: bool = False) -> bool:
        """Tell whether there is something to take."""
        return not self._held and bool(self._control or (self._queue and not control_only))

    def take_nowait(self, *, control_only: bool = False) -> object:
        """Take the next message, or `NO_MESSAGE`."""
        if self._held:
            return NO_MESSAGE
        if self._control:
            return self._control.popleft()
        if control_only or not self._queue:
            return NO_MESSAGE
        message, via = self._queue.popleft()
        if via is None:
            self.via = None
            return message
        self.via = None if via is _DIRECT else via
        self._outside -= 1
        if self._waiting_for_room is not None and self._outside < self._capacity:
            self._waiting_for_room.unpark()
        return message

    async def give_way(self) -> None:
        """Let others have a turn, once in 64 calls.

        Cancellation: A checkpoint for cancellation each time.
        """
        self._since_yield += 1
        if self._since_yield >= _CHECKPOINT_EVERY:
            self._since_yield = 0
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    def wait(self, *, control_only: bool = False) -> Awaitable[None]:
        """Wait until something comes; only the one reader does that, at once, and only if there is nothing.

        Not a coroutine around that of Trio: there is one for each actor that waits.

        Cancellation: A checkpoint.
        """
        self._since_yield = 0
        self._control_only = control_only
        self._reader = trio.lowlevel.current_task()
        if not self._queue:
            self._queue = _NO_MAIL
        waiting: Awaitable[None] = trio.lowlevel.wait_task_rescheduled(self._stop_waiting)  # noqa: ASYNC105 - the caller awaits it
        return waiting

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        self._control_only = False
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            self._control_only = False
            trio.lowlevel.reschedule(reader)

    # --- the end, and tests

    @property
    def is_closed(self) -> bool:
        """Whether it takes nothing any more."""
        return self._closed is not None

    def close(self, reason: ExitReason) -> None:
        """Take nothing any more, for good: what waits is gone, and its calls are answered."""
        self._closed = self._closed or reason
        self._clockwork = None
        self.via = None
        for message, _ in self.drain():
            if isinstance(message, Call) and isinstance(message.to, ReplyTo):
                message.to.fail_down(reason)
        if self._waiting_for_room is not None:
            self._waiting_for_room.unpark_all()

    def shut(self, reason: ExitReason) -> None:
        """Take nothing any more, and keep what waits until `close`."""
        self._closed = self._closed or reason

    def drain(self) -> tuple[tuple[object, object], ...]:
        """Take all that waits in the user lane and the notices, in their order, each with its `via`; control is gone."""
        left = tuple((message, None if via is _DIRECT else via) for message, via in self._queue)
        self._queue = _NO_MAIL
        self._control = None
        self._outside = 0
        self._dropped += len(left)
        return left

    @property
    def is_held(self) -> bool:
        """Whether its reader finds nothing."""
        return self._held > 0

    def hold(self) -> None:
        """Let the reader find nothing, until `release` was called as often."""
        self._held += 1

    def release(self) -> None:
        """Undo one `hold`."""
        self._held -= 1
        if not self._held:
            self._wake()  # its reader looks again, also for deadlines that came due meanwhile

    def statistics(self) -> MailboxStatistics:
        """Say what it has seen; cheap, at any time."""
        control = len(self._control or ())
        return MailboxStatistics(
            waiting=len(self._queue) + control,
            high_water=self._most,
            accepted=self._accepted,
            rejected=self._rejected,
            dropped=self._dropped,
            user=LaneStatistics(waiting=self._outside, high_water=self._most_user),
            notices=LaneStatistics(waiting=len(self._queue) - self._outside, high_water=self._most_notices),
            control=LaneStatistics(waiting=control, high_water=self._most_control),
        )


def check_mailbox(capacity: object, overflow: object) -> None:
    """Refuse a mailbox that cannot be."""
    check_bound("capacity", capacity)
    if overflow not in _OVERFLOWS:
        message = f"overflow is {overflow!r}, allowed is one of {', '.join(map(repr, _OVERFLOWS))}"
        raise InvalidSpec(message, code="invalid_mailbox", field="overflow")


def _discard(message: object, why: str, reason: ExitReason | None) -> None:
    """Answer a call that will not be handled; anything else is a dead letter."""
    if isinstance(message, Call) and isinstance(message.to, ReplyTo):
        if reason is None:
            message.to.fail(MailboxFull(f"{why}, and this call was thrown away: try again later"))
        else:
            message.to.fail_down(reason)
    else:
        bury(message, why)


def _full(waiting: int, capacity: int) -> str:
    return f"{waiting} messages wait already, at most {capacity} may: try again later"
