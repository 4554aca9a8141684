"""The mailbox of an actor: one reader, many senders, three lanes, and a limit for messages from outside."""

from collections import deque
from collections.abc import Awaitable, Sequence
from enum import Enum
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

import trio
from attrs import define, field, frozen

from agentrail.actors.dead_letters import bury
from agentrail.actors.reply_slots import ReplyTo
from agentrail.errors import InvalidSpec, MailboxFull
from agentrail.otp.exits import ExitReason, NoProcess
from agentrail.otp.statem import Call
from agentrail.otp.statem_types import check_bound

M = TypeVar("M")

Overflow: TypeAlias = Literal["reject", "drop_oldest", "dead_letter", "block"]

_OVERFLOWS: Final = get_args(Overflow)
_CHECKPOINT_EVERY: Final = 64
"""Messages taken before other tasks get a turn, so that a full mailbox cannot starve the process."""


class _Empty(Enum):
    EMPTY = "no message is waiting"


NO_MESSAGE: Final = _Empty.EMPTY
"""Result of `take_nowait` when the mailbox is empty."""

_DIRECT: Final = object()

_NO_MAIL: Final[deque[tuple[object, object]]] = deque(maxlen=0)
"""Shared queue of every idle actor: an empty queue of its own would take 600 bytes, and most actors are idle."""


class Clockwork(Protocol):
    """The timers of the reader. A timer that is due becomes a message and comes before messages that are put later."""

    def collect(self) -> None:
        """Put all due timers into the mailbox, by `put_timer`."""


@frozen(kw_only=True)
class LaneStatistics:
    """Statistics of one lane.

    Attributes:
        waiting: Messages that wait in it now.
        high_water: The most that ever waited.
    """

    waiting: int = 0
    high_water: int = 0


@frozen(kw_only=True)
class MailboxStatistics:
    """Statistics of a mailbox.

    Attributes:
        waiting: Messages that wait now, in all lanes.
        high_water: The most that ever waited.
        accepted: Messages that ever came in.
        rejected: Messages refused because it was full.
        dropped: Messages discarded because it was full.
        postponed: For a machine: events kept for the next change of its state.
        timers: For a machine: running timers.
        user: Lane of calls, casts and infos.
        notices: Lane of messages owed to the actor: ends of other actors, outcomes of effects.
        control: Lane of stop, suspend and similar messages.
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
        """Number of messages taken."""
        return self.accepted - self.waiting - self.dropped


@define(eq=False, repr=False, weakref_slot=False)
class Mailbox(Generic[M]):
    """Messages for one actor. The user lane and the notices share one order. Control messages overtake both.

    Attributes:
        via: The route of the message last returned by `take_nowait`, such as its address. `None` if it came directly.
    """

    _capacity: int = field(default=1000, kw_only=True)
    _overflow: Overflow = field(default="reject", kw_only=True)
    # Each message with its route: `None` for a notice, `_DIRECT` for a direct message from outside, or its route.
    _queue: deque[tuple[object, object]] = field(init=False, default=_NO_MAIL)
    _clockwork: Clockwork | None = field(init=False, default=None)
    via: object = field(init=False, default=None)
    # Created on first use: most actors need none.
    _control: deque[object] | None = field(init=False, default=None)
    _reader: trio.lowlevel.Task | None = field(init=False, default=None)
    _waiting_for_room: trio.lowlevel.ParkingLot | None = field(init=False, default=None)
    _control_only: bool = field(init=False, default=False)
    _held: int = field(init=False, default=0)
    _closed: ExitReason | None = field(init=False, default=None)
    _outside: int = field(init=False, default=0)
    _since_yield: int = field(init=False, default=0)
    _accepted: int = field(init=False, default=0)
    _rejected: int = field(init=False, default=0)
    _dropped: int = field(init=False, default=0)
    _most: int = field(init=False, default=0)
    _most_user: int = field(init=False, default=0)
    _most_notices: int = field(init=False, default=0)
    _most_control: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        check_mailbox(self._capacity, self._overflow)

    # --- putting

    def put_nowait(self, message: M, *, via: object = None, bounded: bool = True) -> None:
        """Append a message from outside. In a closed mailbox it becomes a dead letter."""
        if self._closed is not None:
            _discard(message, "the actor has ended", NoProcess())
            return
        if bounded and self._outside >= self._capacity and not self._make_room(message):
            return
        self._outside += 1
        if self._clockwork is not None:
            self._clockwork.collect()
        self._append(message, _DIRECT if via is None else via)

    async def put(self, message: M) -> None:
        """Append a message from outside; with the policy `block`, wait for room first."""
        await trio.lowlevel.checkpoint()
        while self.must_wait:
            await self.wait_for_room()
        self.put_nowait(message)

    async def wait_for_room(self) -> None:
        """Wait until there may be room, or the mailbox may have closed. Check again afterwards."""
        if self._waiting_for_room is None:
            self._waiting_for_room = trio.lowlevel.ParkingLot()
        await self._waiting_for_room.park()

    def put_notice(self, notice: object) -> None:
        """Append the outcome of an operation that the actor itself requested. Unbounded, because it is owed to the actor."""
        if self._closed is None:
            if self._clockwork is not None:
                self._clockwork.collect()
            self._append(notice, None)

    def run_by(self, clockwork: Clockwork | None) -> None:
        self._clockwork = clockwork

    def put_timer(self, fired: object) -> None:
        if self._closed is None:
            self._append(fired, None)

    def put_timers_first(self, fired: Sequence[object]) -> None:
        """Put due timers, in their order, before all waiting messages except control."""
        if self._queue is _NO_MAIL:
            self._queue = deque()
        self._queue.extendleft((timer, None) for timer in reversed(fired))
        self._accepted += len(fired)
        self._mark()

    def put_control(self, message: object) -> None:
        if self._closed is not None:
            return
        if self._control is None:
            self._control = deque()
        self._control.append(message)
        self._accepted += 1
        # Compared first, as in `_append`: a session with a store gets such a message for each batch of its records.
        control = len(self._control)
        if control > self._most_control or len(self._queue) + control > self._most:
            self._mark()
        if not self._held:
            self.wake()

    def _make_room(self, message: M) -> bool:
        if self._overflow == "drop_oldest":
            # Not `remove`: it would call `__eq__` of messages that belong to users.
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
        waiting = (
            f"{self._outside} messages are already waiting, the limit is {self._capacity}: try again later"
        )
        raise MailboxFull(waiting)

    def _append(self, message: object, via: object) -> None:
        if self._queue is _NO_MAIL:
            self._queue = deque()
        self._queue.append((message, via))
        self._accepted += 1
        # Compared first: this runs for each message, and a new maximum is rare.
        user, queued = self._outside, len(self._queue)
        if (
            queued > self._most
            or user > self._most_user
            or queued - user > self._most_notices
            or self._control
        ):
            self._mark()
        if self._reader is not None and not self._held and not self._control_only:
            self.wake()

    def _mark(self) -> None:
        user, queued = self._outside, len(self._queue)
        control = len(self._control) if self._control else 0
        self._most = max(self._most, queued + control)
        self._most_user = max(self._most_user, user)
        self._most_notices = max(self._most_notices, queued - user)
        self._most_control = max(self._most_control, control)

    @property
    def lets_wait(self) -> bool:
        return self._overflow == "block"

    @property
    def must_wait(self) -> bool:
        return self._overflow == "block" and self._outside >= self._capacity and self._closed is None

    # --- taking

    def has_mail(self, *, control_only: bool = False) -> bool:
        return not self._held and bool(self._control or (self._queue and not control_only))

    def take_nowait(self, *, control_only: bool = False) -> object:
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
        """Let other tasks run, once in 64 calls."""
        self._since_yield += 1
        if self._since_yield >= _CHECKPOINT_EVERY:
            self._since_yield = 0
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    def wait(self, *, control_only: bool = False) -> Awaitable[None]:
        """Wait for the next message. Only the one reader may call this, on an empty mailbox, and awaits at once."""
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

    def wake(self) -> None:
        """Let a waiting reader look again, for messages and for deadlines of its own."""
        if self._reader is not None:
            trio.lowlevel.reschedule(self._reader)  # first: it raises in a thread that is not Trio's
            self._reader = None
            self._control_only = False

    # --- the end, and tests

    @property
    def waiting(self) -> tuple[object, ...]:
        """Messages of the user lane and the notices, in order. They stay."""
        return tuple([message for message, _ in self._queue])

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def close(self, reason: ExitReason) -> None:
        """Close for good: waiting messages are discarded, and their calls are answered."""
        self._closed = self._closed or reason
        self._clockwork = None
        self.via = None
        for message, _ in self.drain():
            if isinstance(message, Call) and isinstance(message.to, ReplyTo):
                message.to.fail_down(reason)
        if self._waiting_for_room is not None:
            self._waiting_for_room.unpark_all()

    def shut(self, reason: ExitReason) -> None:
        """Accept no more messages, and keep the waiting ones until `close`."""
        self._closed = self._closed or reason

    def drain(self) -> tuple[tuple[object, object], ...]:
        """Take all messages of the user lane and the notices, in order, each with its `via`. Discard the control messages."""
        left = tuple((message, None if via is _DIRECT else via) for message, via in self._queue)
        self._queue = _NO_MAIL
        self._control = None
        self._outside = 0
        self._dropped += len(left)
        return left

    @property
    def is_held(self) -> bool:
        return self._held > 0

    def hold(self) -> None:
        """Hide all messages from the reader until `release` was called as often."""
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        if not self._held:
            self.wake()  # deadlines may have passed meanwhile

    def statistics(self) -> MailboxStatistics:
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
    check_bound("capacity", capacity)
    if overflow not in _OVERFLOWS:
        message = f"overflow is {overflow!r}: expected one of {', '.join(map(repr, _OVERFLOWS))}"
        raise InvalidSpec(message, code="invalid_mailbox", field="overflow")


def _discard(message: object, why: str, reason: ExitReason | None) -> None:
    if isinstance(message, Call) and isinstance(message.to, ReplyTo):
        if reason is None:
            message.to.fail(MailboxFull(f"{why}, so this call was dropped: try again later"))
        else:
            message.to.fail_down(reason)
    else:
        bury(message, why)
