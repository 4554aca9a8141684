"""A subscription: the filter of one subscriber, a bounded buffer, and one reader. The session never waits for it."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

import trio
from attrs import define, evolve, field, frozen

from agentrail.actors.trio_check import need_trio
from agentrail.core.protocol.request import Chunk
from agentrail.core.session.views import Snapshot
from agentrail.errors import OptionError, SubscriberTooSlow, YourMove
from agentrail.events import KINDS, Event, EventsLost
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import repr_of
from agentrail.runtime.arguments import fault_of, fault_of_whole, refuse

_CHECKPOINT_EVERY: Final = 64

TakenSnapshot: TypeAlias = Callable[[], Snapshot]
"""A deferred snapshot: holds the state and renders it on first access, which most subscribers never need."""

# Shared by all subscriptions without such events, and never written to: an empty deque takes 600 bytes, and the garbage
# collector visits it.
_NONE: Final[deque[Any]] = deque()


@frozen(kw_only=True)
class Terms:
    """Filter and buffer size of a subscription.

    Attributes:
        kinds: Only events of these classes. None: all.
        deltas: Whether to include ephemeral events.
        buffer: Maximum number of unread live events.
        is_own: Whether a call of the handle, such as `run`, reads it to its end. No user answers requests read this
            way.
    """

    kinds: frozenset[type[Event]] | None
    deltas: bool
    buffer: int
    is_own: bool = False


def decide_terms(*, kinds: Iterable[type[Event]] | None, deltas: bool, buffer: int) -> Terms:
    wanted = decide_kinds(kinds)
    refuse(fault_of_whole("buffer", buffer, 1), fault_of("deltas", deltas, bool))
    return Terms(kinds=wanted, deltas=deltas, buffer=buffer)


def decide_kinds(kinds: object) -> frozenset[type[Event]] | None:
    if kinds is None:
        return None
    # Passing one class alone is the usual mistake.
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        fault = f"kinds is {repr_of(kinds):.200}: expected classes of events, such as [AgentEnd], or None"
        raise OptionError([fault])
    wanted = tuple(kinds)
    refuse(*[
        f"kinds has {repr_of(kind):.200}: expected classes of events, such as AgentEnd"
        for kind in wanted
        if not isinstance(kind, type) or kind not in KINDS
    ])  # fmt: skip
    return frozenset(wanted)


def with_kinds(terms: Terms, kinds: Iterable[type[Event]]) -> Terms:
    return terms if terms.kinds is None else evolve(terms, kinds=terms.kinds | frozenset(kinds))


def number_of(event: Event) -> int:
    assert event.meta is not None  # noqa: S101 - it was published
    return event.meta.seq


class Subscription:
    """The events of one subscriber: an async context manager to iterate over.

    Iteration yields events with their `meta` and ends when the session ends. Enter it once and read it from one task.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        enter: Callable[[Self], None],
        leave: Callable[["Subscription"], None],
        prepare: Callable[[Self], Awaitable[None]] | None = None,
    ) -> None:
        self.run: trio.lowlevel.TrioToken | None = None  # it can be entered in every run unless this is set
        self._kinds = terms.kinds
        self._deltas = terms.deltas
        self._limit = terms.buffer
        self.is_own: bool = terms.is_own
        self.needs_snapshot: bool = True  # otherwise, a hibernated session without new events sleeps on
        # Released after use: it holds eight objects that only entering needs.
        self._enter: Callable[[Self], None] | None = enter
        self._leave = leave
        self._prepare = prepare
        self._entered = False
        # Separate from the buffer and its limit. Otherwise a subscriber with a small buffer could never resume.
        # Its size is bounded by the events that the session keeps, plus the most that is read from its journal.
        self._replay: deque[Event] = _NONE
        self._buffer: deque[Event] = deque()
        self._reader: trio.lowlevel.Task | None = None
        self._ended = False
        self._cut_at: Mapping[str, int] | None = None
        self._since_yield = 0
        # One for each unread `EventsLost`, in the same order.
        self._snapshots: deque[TakenSnapshot] = _NONE
        self._taken: TakenSnapshot | None = None
        self.known_snapshot: Snapshot | None = None
        self.dropped_deltas: int = 0
        """Number of ephemeral events dropped because the buffer was full."""
        self.is_rested: bool = False
        """Whether it ended because the session was put to rest or has moved. More events follow when the session wakes."""
        self.is_moved: bool = False
        """Whether it ended because another node took the session over. More events follow from that node."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The session's state when the block was entered. None before.

        It reflects all events up to its `last_seq`, and no later ones. After `EventsLost`, it is the state to start
        over from.
        """
        if self._taken is not None:
            taken, self._taken = self._taken, None
            self.known_snapshot = taken()
        return self.known_snapshot

    def begin(self, session_id: SessionId, replay: Sequence[Event], snapshot: TakenSnapshot | None) -> None:
        kinds = self._kinds
        # Every subscriber gets `EventsLost`: it is unknown whether the lost events were wanted.
        if replay:
            wanted = [one for one in replay if kinds is None or type(one) in kinds or type(one) is EventsLost]
            # In place: copies for each of ten thousand sessions would hold the event loop for seconds.
            if self._replay is _NONE:
                self._replay = deque()
            self._replay.extend(wanted)
        self._taken = snapshot
        self._keep_for_loss(replay, snapshot)

    def _keep_for_loss(self, replay: Sequence[Event], snapshot: TakenSnapshot | None) -> None:
        if snapshot is not None and replay and type(replay[0]) is EventsLost:
            self._keep_snapshot(snapshot)

    def _keep_snapshot(self, snapshot: TakenSnapshot) -> None:
        if self._snapshots is _NONE:
            self._snapshots = deque()
        self._snapshots.append(snapshot)

    def offer(self, event: Event) -> None:
        """Buffer a committed event if it is wanted.

        A full buffer drops its deltas. If it holds none, the subscriber is cut off.
        """
        if self._ended or (self._kinds is not None and type(event) not in self._kinds):
            return
        if len(self._buffer) >= self._limit and not self._make_room():
            self._cut_at = self._positions_before(event)
            self.end()
            return
        self._buffer.append(event)
        if self._reader is not None:
            self._wake()

    def offer_delta(self, event: Event) -> None:
        """Buffer an ephemeral event if it is wanted and there is room."""
        if not self._deltas or self._ended or (self._kinds is not None and type(event) not in self._kinds):
            return
        if len(self._buffer) >= self._limit:
            self.dropped_deltas += 1
            return
        self._buffer.append(event)
        if self._reader is not None:
            self._wake()

    def begin_anew(self, lost: EventsLost, snapshot: TakenSnapshot) -> None:
        """Add an `EventsLost` for a rewind, with the new snapshot to start over from. Every subscriber gets it."""
        if self._ended:
            return
        self._keep_snapshot(snapshot)
        self._buffer.append(lost)
        self._wake()

    def bus_closed(self, *, is_rested: bool, is_moved: bool = False) -> None:
        self.is_rested, self.is_moved = is_rested, is_moved
        self.end()

    def end(self) -> None:
        """Accept no more events. Buffered events can still be read."""
        self._ended = True
        self._wake()

    async def __aenter__(self) -> Self:
        """Register and load the replay in one step, without even a checkpoint in between.

        Before that, events no longer buffered are read from the journal.

        Raises:
            CursorAhead: Your move: `after` is beyond the last number.
            YourMove: It was entered or left before. Subscribe again.
            NoTrioRun: Your move: Trio is not running here, so nothing could be read.
            SessionDown: The session has ended, and no replay was requested.
            StoreUnavailable: Old events could not be read for longer than the store's patience. Subscribe again later.

        Cancellation: While old events are read, nothing is registered.
        """
        was_used = self._ended or self._entered
        if was_used:
            raise self._entered_before()
        need_trio(self.run)
        if self._prepare is not None:
            await self._prepare(self)
            if self._ended or self._entered:  # by another task in the meantime
                raise self._entered_before()
        assert self._enter is not None  # noqa: S101 - it is there until it was entered
        self._enter(self)
        self._entered = True
        if self._prepare is None:  # otherwise only its readers keep the session alive
            self._enter = None
        return self

    def _entered_before(self) -> YourMove:
        how = "already entered" if self._entered else "cancelled while it was being entered, or left before"
        return YourMove(f"this subscription was {how}: subscribe again, with after= to continue")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave(self)
        self.end()

    def __aiter__(self) -> Self:
        """Return this subscription itself: there is one position, and two readers would share it."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event.

        Raises:
            SubscriberTooSlow: Your move: the buffer was full. Its events have been returned. Resume from
                `resume_after`.
            YourMove: The block was not entered, so no event would ever arrive.
            trio.BusyResourceError: Your move: another task is already waiting here.

        Cancellation: Always a checkpoint for cancellation. Nothing is lost. Other tasks get a turn at least once in
            64 events.
        """
        if not (self._buffer or self._ended or self._replay):
            self._check_entered()
            self._since_yield = 1  # counts the event of this call
            await self._wait()
        elif self._since_yield >= _CHECKPOINT_EVERY:
            self._since_yield = 1
            await trio.lowlevel.checkpoint()
        else:
            self._since_yield += 1
            await trio.lowlevel.checkpoint_if_cancelled()
        if self._buffer and not (self._replay or self._snapshots):  # the usual case
            return self._buffer.popleft()
        event = self._take()
        if event is None:
            raise StopAsyncIteration
        return event

    def next_nowait(self) -> Event:
        """Return the next event if one is buffered.

        Raises:
            trio.WouldBlock: The buffer is empty. `anext` waits for an event.
            trio.EndOfChannel: The session has ended, and all events were returned.
            SubscriberTooSlow, YourMove: See iteration.
        """
        if not (self._buffer or self._ended or self._replay):
            self._check_entered()
            raise trio.WouldBlock
        event = self._take()
        if event is None:
            raise trio.EndOfChannel
        return event

    def _take(self) -> Event | None:
        if self._replay or self._buffer:
            event = self._replay.popleft() if self._replay else self._buffer.popleft()
            if type(event) is EventsLost and self._snapshots:
                self._taken = self._snapshots.popleft()
            return event
        if self._cut_at is not None:
            raise self._too_slow(self._cut_at)
        return None

    def _check_entered(self) -> None:
        if not self._entered:
            message = "this subscription was not entered: read it inside `async with session.subscribe() as events:`"
            raise YourMove(message)

    def _make_room(self) -> bool:
        # `EventsLost` has no number of its own either, but is never dropped: without it, the reader would trust
        # events that no longer count.
        kept = deque(
            event
            for event in self._buffer
            if type(event) is EventsLost or (event.meta is not None and not event.meta.ephemeral)
        )
        self.dropped_deltas += len(self._buffer) - len(kept)
        self._buffer = kept
        return len(kept) < self._limit

    def _positions_before(self, event: Event) -> Mapping[str, int]:
        """Return the position to resume from: just before the event that did not fit."""
        assert event.meta is not None  # noqa: S101 - it was published
        return {event.meta.session_id: event.meta.seq - 1}

    def _too_slow(self, positions: Mapping[str, int]) -> SubscriberTooSlow:
        message = f"the buffer of {self._limit} events was full: read faster, or subscribe with deltas=False"
        resume_after = next(iter(positions.values())) if len(positions) == 1 else None
        return SubscriberTooSlow(message, resume_after=resume_after, positions=positions)

    def _wake(self) -> None:
        if self._reader is not None:
            trio.lowlevel.reschedule(self._reader)  # first: it raises in a thread that is not Trio's
            self._reader = None

    def _wait(self) -> Awaitable[None]:
        # Returns Trio's awaitable directly, without a coroutine or a closure: there is a wait for every event or two.
        if self._reader is not None:
            message = (
                "another task reads this subscription: subscribe again, each subscription receives all events"
            )
            raise trio.BusyResourceError(message)
        self._reader = trio.lowlevel.current_task()
        waiting: Awaitable[None] = trio.lowlevel.wait_task_rescheduled(self._stop_waiting)  # noqa: ASYNC105 - the caller awaits it
        return waiting

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED


# Backpressure: a provider's stream is read only while a gate is open. While a store accepts nothing, the provider's
# server waits and no buffer of ours grows.


class Gate(Protocol):
    @property
    def is_available(self) -> bool: ...

    async def wait_available(self) -> None:
        """Wait until more may be read."""


@define(eq=False)
class HeldStream:
    _chunks: AsyncIterator[Chunk]
    _gate: Gate
    _is_held: bool = field(init=False, default=False)
    _opened_at: float = field(init=False, factory=trio.current_time)

    @property
    def pinged_at(self) -> float:
        """Time of the last sign of life other than a chunk, on Trio's clock. Silence while the gate is closed does not count."""
        if self._is_held:
            return trio.current_time()
        given: object = getattr(self._chunks, "pinged_at", None)
        return max(given, self._opened_at) if isinstance(given, float) else self._opened_at

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        if not self._gate.is_available:
            self._is_held = True
            try:
                await self._gate.wait_available()
            finally:
                self._is_held = False
                self._opened_at = trio.current_time()
        return await anext(self._chunks)
