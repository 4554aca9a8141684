"""What one subscriber reads: what it asked for, a bounded buffer, and one reader. The session never waits for it.

Where the events come from stands in `event_bus.py` (one session) and `fan_in.py` (many).
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

import trio
from attrs import evolve, frozen

from agentrail.actors.trio_only import need_trio
from agentrail.core.protocol.request import Chunk
from agentrail.core.session.projection import Snapshot
from agentrail.errors import OptionError, SubscriberTooSlow, YourMove
from agentrail.events import KINDS, Event, EventsLost
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of_flag

_CHECKPOINT_EVERY: Final = 64

TakenSnapshot: TypeAlias = Callable[[], Snapshot]
"""A snapshot that was taken: the state is held, and drawn when it is looked at. Most subscribers never do."""

# One for all subscriptions that have none, and never written to: an empty deque has 600 bytes, and the collector walks it.
_NONE: Final[deque[Any]] = deque()


@frozen(kw_only=True)
class Terms:
    """What a subscriber asked for.

    Attributes:
        kinds: Only events of these classes; None for all.
        deltas: Whether ephemeral events come too.
        buffer: How many live events may wait for the reader.
        is_own: Whether a call of the handle, such as `run`, reads it to its own end; no user answers what it reads.
    """

    kinds: frozenset[type[Event]] | None
    deltas: bool
    buffer: int
    is_own: bool = False


def decide_terms(*, kinds: Iterable[type[Event]] | None, deltas: bool, buffer: int) -> Terms:
    """Take the terms as they were given."""
    wanted = _kinds_of(kinds)
    faults = [] if type(buffer) is int and buffer >= 1 else [_whole("buffer", buffer, least=1)]
    if wanted is not None:
        faults += [
            f"kinds has {kind!r}: expected classes of events, such as AgentEnd"
            for kind in wanted
            if kind not in KINDS
        ]
    is_no_flag = fault_of_flag("deltas", deltas)
    faults += [] if is_no_flag is None else [is_no_flag]
    if faults:
        raise OptionError(faults)
    return Terms(kinds=None if wanted is None else frozenset(wanted), deltas=deltas, buffer=buffer)


def with_kinds(terms: Terms, kinds: Iterable[type[Event]]) -> Terms:
    """Give terms of a subscriber that gets these kinds as well, whatever it asked for."""
    return terms if terms.kinds is None else evolve(terms, kinds=terms.kinds | frozenset(kinds))


def fault_of_cursor(name: str, after: object) -> list[str]:
    """Say what is wrong with a number to go on after, if anything is."""
    return [] if type(after) is int and after >= 0 else [_whole(name, after, least=0)]


class Subscription:
    """What one subscriber reads: an async context manager to iterate over.

    Iteration gives events with their `meta`, and ends when the session ends. It is entered once and read by one task.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        enter: Callable[["Subscription"], None],
        leave: Callable[["Subscription"], None],
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Made by `Session.subscribe`, `SessionSupervisor.subscribe_all` and `subscribe_group`."""
        self._kinds = terms.kinds
        self._deltas = terms.deltas
        self._limit = terms.buffer
        self.is_own: bool = terms.is_own
        # Let go of when it has done its work: it holds eight objects that only the beginning needs.
        self._enter: Callable[[Subscription], None] | None = enter
        self._leave = leave
        self._prepare = prepare
        self._entered = False
        # Apart from the buffer and its limit: else no subscriber with a small buffer could ever come back. It is bounded by
        # what the session keeps, and by what is read of its journal at most.
        self._replay: deque[Event] = _NONE
        self._buffer: deque[Event] = deque()
        self._reader: trio.lowlevel.Task | None = None
        self._ended = False
        self._cut_at: Mapping[str, int] | None = None
        self._since_yield = 0
        # One for each `EventsLost` that waits to be read, in the same order.
        self._snapshots: deque[TakenSnapshot] = _NONE
        self._taken: TakenSnapshot | None = None
        self._snapshot: Snapshot | None = None
        self.dropped_deltas: int = 0
        """How many ephemeral events were left out because the buffer was full."""
        self.is_rested: bool = False
        """Whether it ended because the session was put to rest: the last event is no end then, and more comes when it is awake."""

    @property
    def snapshot(self) -> Snapshot | None:
        """How the session stood when the block was entered; None before.

        Taken in one step with the registration: it holds what all events up to its `last_seq` said, and no more. Where
        `EventsLost` comes, this is what to begin anew from; also where the session went back, so that it comes later.
        """
        if self._taken is not None:
            taken, self._taken = self._taken, None
            self._snapshot = taken()
        return self._snapshot

    def begin(self, session_id: SessionId, replay: Sequence[Event], snapshot: TakenSnapshot | None) -> None:
        """Take what is to be read before anything live; called by a bus, in one step with the registration."""
        kinds = self._kinds
        # What was lost is said to everybody: of events that are gone it is unknown whether they were wanted.
        if replay:
            wanted = [one for one in replay if kinds is None or type(one) in kinds or type(one) is EventsLost]
            self._replay = deque((*self._replay, *wanted))
        self._taken = snapshot
        self._keep_for_loss(replay, snapshot)

    def _keep_for_loss(self, replay: Sequence[Event], snapshot: TakenSnapshot | None) -> None:
        """Keep the snapshot for the reader who comes to the loss that a replay begins with, if it does."""
        if snapshot is not None and replay and type(replay[0]) is EventsLost:
            self._snapshots = deque((*self._snapshots, snapshot))

    def offer(self, event: Event) -> None:
        """Take a committed event if it is wanted. A full buffer gives up its deltas; without any, the subscriber."""
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
        """Take an ephemeral event if it is wanted and there is room."""
        if not self._deltas or self._ended or (self._kinds is not None and type(event) not in self._kinds):
            return
        if len(self._buffer) >= self._limit:
            self.dropped_deltas += 1
            return
        self._buffer.append(event)
        if self._reader is not None:
            self._wake()

    def begin_anew(self, lost: EventsLost, snapshot: TakenSnapshot) -> None:
        """Take that a session went back: what is to be begun anew from is the new snapshot. It is said to everybody, like a loss."""
        if self._ended:
            return
        self._snapshots = deque((*self._snapshots, snapshot))
        self._buffer.append(lost)
        if self._reader is not None:
            self._wake()

    def bus_closed(self, *, is_rested: bool) -> None:
        """The session has ended, or is at rest; for one who reads no other, the subscription has ended."""
        self.is_rested = is_rested
        self.end()

    def end(self) -> None:
        """Take nothing more; what waits is still read."""
        self._ended = True
        if self._reader is not None:
            self._wake()

    async def __aenter__(self) -> Self:
        """Register, and take what is to be replayed, in one step: not even a checkpoint lies between.

        What is too old to be kept is read before that, which may take a while.

        Raises:
            CursorAhead: Your move: `after` lies beyond the last number.
            YourMove: It was entered before, or left while old events were read; subscribe once more.
            NoTrioRun: Your move: no Trio runs here, so that it could not be read.
            SessionDown: The session has ended, and nothing was asked to be replayed.

        Cancellation: While old events are read: nothing is registered.
        """
        if self._entered:
            raise self._entered_before()
        need_trio()
        if self._prepare is not None:
            await self._prepare()
            if self._ended or self._entered:  # by another task, meanwhile
                raise self._entered_before()
        assert self._enter is not None  # noqa: S101 - it is there until it was entered
        self._enter(self)
        self._entered = True
        if self._prepare is None:  # else it holds a session that may sleep, which only its readers hold then
            self._enter = None
        return self

    def _entered_before(self) -> YourMove:
        how = "entered before" if self._entered else "left while it was being entered"
        return YourMove(f"this subscription was {how}: subscribe once more, with after= to go on")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Unregister."""
        self._leave(self)
        self.end()

    def __aiter__(self) -> Self:
        """Iterate over oneself: there is one position, and two readers would share it."""
        return self

    async def __anext__(self) -> Event:
        """Give the next event.

        Raises:
            SubscriberTooSlow: Your move: the buffer was full. What it held has been given; go on from `resume_after`.
            YourMove: Its block was not entered, so that nothing would ever come.
            trio.BusyResourceError: Your move: another task waits here already; make a subscription for each.

        Cancellation: Always a checkpoint for cancellation, and nothing is lost by it. Other tasks get a turn whenever
            it waits, and at least once in 64 events.
        """
        if not (self._buffer or self._ended or self._replay):
            self._check_entered()
            self._since_yield = 1  # the event of this very call counts
            await self._wait()
        elif self._since_yield >= _CHECKPOINT_EVERY:
            self._since_yield = 1
            await trio.lowlevel.checkpoint()
        else:
            self._since_yield += 1
            await trio.lowlevel.checkpoint_if_cancelled()
        if self._buffer and not (self._replay or self._snapshots):  # as nearly always
            return self._buffer.popleft()
        event = self._take()
        if event is None:
            raise StopAsyncIteration
        return event

    def next_nowait(self) -> Event:
        """Give the next event if one waits; for a caller that writes all that waits in one go.

        Raises:
            trio.WouldBlock: None waits; `anext` waits for one.
            trio.EndOfChannel: The session has ended, and all was given.
            SubscriberTooSlow, YourMove: As of iteration.
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
            message = "this subscription was not entered: read it inside of `async with session.subscribe() as events:`"
            raise YourMove(message)

    def _make_room(self) -> bool:
        # A loss has no number of its own either, and is said in any case: without it, what was read before would be believed.
        kept = deque(
            event
            for event in self._buffer
            if type(event) is EventsLost or (event.meta is not None and not event.meta.ephemeral)
        )
        self.dropped_deltas += len(self._buffer) - len(kept)
        self._buffer = kept
        return len(kept) < self._limit

    def _positions_before(self, event: Event) -> Mapping[str, int]:
        """Say where to go on: right before the event for which there was no room."""
        assert event.meta is not None  # noqa: S101 - it was published
        return {event.meta.session_id: event.meta.seq - 1}

    def _too_slow(self, positions: Mapping[str, int]) -> SubscriberTooSlow:
        message = f"the buffer of {self._limit} events was full: read faster, or subscribe with deltas=False"
        resume_after = next(iter(positions.values())) if len(positions) == 1 else None
        return SubscriberTooSlow(message, resume_after=resume_after, positions=positions)

    def _wake(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            trio.lowlevel.reschedule(reader)

    def _wait(self) -> Awaitable[None]:
        # Not a coroutine around that of Trio, and no function of its own for each wait: there is one for each event or two.
        if self._reader is not None:
            message = "another task reads this subscription: subscribe once more, each sees everything"
            raise trio.BusyResourceError(message)
        self._reader = trio.lowlevel.current_task()
        waiting: Awaitable[None] = trio.lowlevel.wait_task_rescheduled(self._stop_waiting)  # noqa: ASYNC105 - the caller awaits it
        return waiting

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED


def _kinds_of(kinds: Iterable[type[Event]] | None) -> tuple[type[Event], ...] | None:
    if kinds is None:
        return None
    if not isinstance(kinds, Iterable):  # one class alone is the usual slip
        raise OptionError([f"kinds is {kinds!r}: expected classes of events, such as [AgentEnd], or None"])
    return tuple(kinds)


def _whole(name: str, value: object, *, least: int) -> str:
    return f"{name} is {value!r}: expected a whole number from {least}"


# A stream that is read only while a gate is open: while a store takes nothing, its server waits, and no buffer of ours grows.


class Gate(Protocol):
    """What says whether more may be read."""

    @property
    def is_available(self) -> bool:
        """Whether more may be read now."""
        ...

    async def wait_available(self) -> None:
        """Wait until more may be read."""


class HeldStream:
    """The chunks of a provider, as fast as a gate lets them through."""

    __slots__ = ("_chunks", "_gate", "_is_held", "_opened_at")

    def __init__(self, chunks: AsyncIterator[Chunk], gate: Gate) -> None:
        """Read these, while this is open."""
        self._chunks = chunks
        self._gate = gate
        self._is_held = False
        self._opened_at: float = trio.current_time()

    @property
    def pinged_at(self) -> float:
        """When it gave a sign of life that is no chunk, on Trio's clock: while we do not read, its silence is ours."""
        if self._is_held:
            return trio.current_time()
        given: object = getattr(self._chunks, "pinged_at", None)
        return max(given, self._opened_at) if isinstance(given, float) else self._opened_at

    def __aiter__(self) -> Self:
        """Iterate over oneself."""
        return self

    async def __anext__(self) -> Chunk:
        """Give the next chunk, when the gate is open.

        Cancellation: As of the stream; where it is held, a checkpoint.
        """
        if not self._gate.is_available:
            self._is_held = True
            try:
                await self._gate.wait_available()
            finally:
                self._is_held = False
                self._opened_at = trio.current_time()
        return await anext(self._chunks)
