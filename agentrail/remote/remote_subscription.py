"""A subscription to a session on a server. Like `Subscription`, but it survives its connections. Trio."""

from collections.abc import Iterable
from types import TracebackType
from typing import Final, Protocol, Self, cast

import trio

from agentrail.core.session.views import Snapshot
from agentrail.errors import YourMove
from agentrail.events import Event
from agentrail.messages import SessionId
from agentrail.remote.link import Links, RemoteLink
from agentrail.remote.read_position import RemoteReading

_CHECKPOINT_EVERY: Final = 64


class RemoteSubscription:
    """The events for one subscriber: an async context manager and iterator, entered once and read by one task.

    Each committed event is delivered once, in order, even if connections are lost. A slow reader is never cut off: events
    that did not fit are requested again. It gets `EventsLost` only if the server no longer keeps them.
    """

    def __init__(self, links: Links, reading: RemoteReading) -> None:
        self._links = links
        self._reading = reading
        self._link: RemoteLink | None = None
        self._is_left = False
        self._is_waited_for = False
        self._since_yield = 0

    @property
    def snapshot(self) -> Snapshot | None:
        """State of the session when the block was entered. None before that, and if the subscription resumes after a number.

        After `EventsLost`, start again from this snapshot.
        """
        return self._reading.snapshot

    @property
    def dropped_deltas(self) -> int:
        """Number of ephemeral events dropped because this client or its connection was too slow."""
        return self._reading.dropped_deltas

    async def __aenter__(self) -> Self:
        """Subscribe, and wait for the server's confirmation.

        Cancellation: Nothing is registered.
        """
        if self._link is not None or self._is_left:
            message = "this subscription was already entered: subscribe again, with after= to continue"
            raise YourMove(message)
        reading = self._reading
        await trio.lowlevel.checkpoint_if_cancelled()
        link = self._link = await self._links.link_for(reading.session_id)
        try:
            link.begin_reading(reading)
            while not reading.begun and reading.standing != "over":
                await link.wait_stirred(reading)
        except BaseException:
            self._leave()
            raise
        if not reading.begun and reading.fault is not None:
            self._leave()
            raise reading.fault()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. The iteration ends with the session.

        Cancellation: Always a checkpoint for cancellation. No event is lost.
        """
        link = self._entered()
        await self._pause()
        while (event := self._take(link)) is None:
            if self._reading.standing == "over" or self._is_left:
                if self._reading.fault is not None:
                    raise self._reading.fault()
                raise StopAsyncIteration
            if self._is_waited_for:
                message = "another task reads this subscription: subscribe again, each subscription receives all events"
                raise trio.BusyResourceError(message)
            self._is_waited_for = True
            try:
                await link.wait_stirred(self._reading)
            finally:
                self._is_waited_for = False
            self._since_yield = 1
        return event

    def next_nowait(self) -> Event:
        """Return the next event if one is queued, for a caller that writes all queued events at once."""
        link = self._entered()
        event = self._take(link)
        if event is not None:
            return event
        if self._reading.standing != "over" and not self._is_left:
            raise trio.WouldBlock
        if self._reading.fault is not None:
            raise self._reading.fault()
        raise trio.EndOfChannel

    def _take(self, link: RemoteLink) -> Event | None:
        event = self._reading.next()
        link.go_on(self._reading)
        return cast("Event | None", event)  # or an event of a newer version, read the same way

    async def _pause(self) -> None:
        if self._since_yield >= _CHECKPOINT_EVERY:
            self._since_yield = 1
            await trio.lowlevel.checkpoint()
        else:
            self._since_yield += 1
            await trio.lowlevel.checkpoint_if_cancelled()

    def _entered(self) -> RemoteLink:
        if self._link is None:
            message = "this subscription was not entered: read it inside `async with session.subscribe() as events:`"
            raise YourMove(message)
        return self._link

    def _leave(self) -> None:
        self._is_left = True
        if self._link is not None:
            self._link.end_reading(self._reading)
            self._links.close_unused()


class Subscribing(Protocol):
    @property
    def session_id(self) -> SessionId: ...

    def subscribe(
        self,
        *,
        after: int | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> RemoteSubscription: ...
