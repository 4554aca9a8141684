"""The event bus of one session: one order for all, a bounded buffer each, and no subscriber that anybody waits for."""

from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

import trio

from agentrail.errors import SessionDown, SubscriberTooSlow
from agentrail.events import EPHEMERAL, Event

_CHECKPOINT_EVERY: Final = 64


class EventBus:
    """All subscribers of one session. Publishing is a synchronous call and never waits."""

    def __init__(self, session_id: str) -> None:
        """Begin without subscribers."""
        self._session_id = session_id
        self._subscriptions: list[Subscription] = []
        self._closed: str | None = None

    def publish(self, event: Event) -> None:
        """Give an event to all who subscribed before it."""
        for subscription in self._subscriptions:
            subscription.offer(event)

    def subscribe(self, *, kinds: Iterable[type[Event]] | None, deltas: bool, buffer: int) -> "Subscription":
        """Make a subscription; it is registered when its block is entered."""
        wanted = frozenset(kinds) if kinds is not None else None
        return Subscription(self, wanted=wanted, deltas=deltas, buffer=buffer)

    def close(self, reason: str) -> None:
        """End all subscriptions after what they have in their buffers."""
        self._closed = reason
        for subscription in self._subscriptions:
            subscription.end()

    def add(self, subscription: "Subscription") -> None:
        """Register a subscription.

        Raises:
            SessionDown: The session has ended: nothing would ever come.
        """
        if self._closed is not None:
            raise SessionDown(self._session_id, self._closed)
        self._subscriptions = [*self._subscriptions, subscription]

    def remove(self, subscription: "Subscription") -> None:
        """Forget a subscription; fine if it is not there."""
        # A new list, because a subscriber may leave while `publish` goes through the old one.
        self._subscriptions = [other for other in self._subscriptions if other is not subscription]


class Subscription:
    """What one subscriber reads: an async context manager to iterate over.

    Iteration gives events with their `meta`, and ends when the session ends.
    """

    def __init__(
        self, bus: EventBus, *, wanted: frozenset[type[Event]] | None, deltas: bool, buffer: int
    ) -> None:
        """Made by `EventBus.subscribe`."""
        self._bus = bus
        self._wanted = wanted
        self._deltas = deltas
        self._limit = buffer
        self._buffer: deque[Event] = deque()
        self._reader: trio.lowlevel.Task | None = None
        self._ended = False
        self._too_slow = False
        self._last_seq = 0
        self._since_yield = 0
        self.dropped_deltas = 0
        """How many ephemeral events were left out because the buffer was full."""

    def offer(self, event: Event) -> None:
        """Take an event if it is wanted and there is room. Deltas go first; without them, the subscriber is cut off."""
        kind = type(event)
        ephemeral = kind in EPHEMERAL
        if (
            self._ended
            or (ephemeral and not self._deltas)
            or (self._wanted is not None and kind not in self._wanted)
        ):
            return
        if len(self._buffer) >= self._limit:
            if ephemeral:
                self.dropped_deltas += 1
                return
            if not self._make_room():
                self._too_slow = True
                self.end()
                return
        self._buffer.append(event)
        self._wake()

    def end(self) -> None:
        """Take nothing more; what is in the buffer is still read."""
        self._ended = True
        self._wake()

    async def __aenter__(self) -> Self:
        """Register; everything published from now on is seen.

        Raises:
            SessionDown: The session has ended.
        """
        self._bus.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Unregister."""
        self._bus.remove(self)
        self.end()

    def __aiter__(self) -> Self:
        """Iterate over oneself: there is one position, and two readers would share it."""
        return self

    async def __anext__(self) -> Event:
        """Give the next event.

        Raises:
            SubscriberTooSlow: Your move: the buffer was full. What it held has been given; go on from `resume_after`.
            trio.BusyResourceError: Your move: another task waits here already; make a subscription for each.

        Cancellation: Always a checkpoint for cancellation, and nothing is lost by it. Other tasks get a turn whenever
            it waits, and at least once in 64 events.
        """
        if not self._buffer and not self._ended:
            self._since_yield = 1  # the event of this very call counts
            await self._wait()
        elif self._since_yield >= _CHECKPOINT_EVERY:
            self._since_yield = 1
            await trio.lowlevel.checkpoint()
        else:
            self._since_yield += 1
            await trio.lowlevel.checkpoint_if_cancelled()
        if self._buffer:
            event = self._buffer.popleft()
            self._last_seq = event.meta.seq if event.meta is not None else self._last_seq
            return event
        if self._too_slow:
            message = (
                f"the buffer of {self._limit} events was full: read faster, or subscribe with deltas=False"
            )
            raise SubscriberTooSlow(message, resume_after=self._last_seq)
        raise StopAsyncIteration

    def _make_room(self) -> bool:
        kept = deque(event for event in self._buffer if type(event) not in EPHEMERAL)
        self.dropped_deltas += len(self._buffer) - len(kept)
        self._buffer = kept
        return len(kept) < self._limit

    def _wake(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            trio.lowlevel.reschedule(reader)

    async def _wait(self) -> None:
        if self._reader is not None:
            message = "another task reads this subscription: subscribe once more, each sees everything"
            raise trio.BusyResourceError(message)
        self._reader = trio.lowlevel.current_task()

        def stop_waiting(_: object) -> trio.lowlevel.Abort:
            self._reader = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(stop_waiting)
