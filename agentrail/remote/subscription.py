"""What a reader of a session on a server holds: as a `Subscription`, and it outlives the connections that it is read over. Trio."""

from collections.abc import Iterable
from types import TracebackType
from typing import Final, Protocol, Self, cast

import trio

from agentrail.core.session.projection import Snapshot
from agentrail.errors import YourMove
from agentrail.events import Event
from agentrail.messages import SessionId
from agentrail.remote.link import Links, RemoteLink
from agentrail.remote.reading import RemoteReading

_CHECKPOINT_EVERY: Final = 64


class RemoteSubscription:
    """What one subscriber reads: an async context manager to iterate over, entered once and read by one task.

    Each committed event comes once, in order, whatever becomes of connections meanwhile. A reader who is behind is never cut off: what
    it has no room for is asked for again, so that it meets `EventsLost` only where the server keeps it no more.
    """

    def __init__(self, links: Links, reading: RemoteReading) -> None:
        """Made by `RemoteSession.subscribe`."""
        self._links = links
        self._reading = reading
        self._link: RemoteLink | None = None
        self._is_left = False
        self._is_waited_for = False
        self._since_yield = 0

    @property
    def snapshot(self) -> Snapshot | None:
        """How the session stood when the block was entered; None before, and where it goes on after a number.

        Where `EventsLost` comes, this is what to begin anew from.
        """
        return self._reading.snapshot

    @property
    def dropped_deltas(self) -> int:
        """How many ephemeral events were left out because this client, or its connection, did not keep up."""
        return self._reading.dropped_deltas

    async def __aenter__(self) -> Self:
        """Subscribe, and wait until the server lets it begin.

        Cancellation: Nothing is registered.
        """
        if self._link is not None or self._is_left:
            message = "this subscription was entered before: subscribe once more, with after= to go on"
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
            raise reading.fault
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Unsubscribe, without waiting for the server."""
        self._leave()

    def __aiter__(self) -> Self:
        """Iterate over oneself: there is one position, and two readers would share it."""
        return self

    async def __anext__(self) -> Event:
        """Give the next event; the iteration ends when the session has.

        Cancellation: Always a checkpoint for cancellation, and nothing is lost by it.
        """
        link = self._entered()
        await self._pause()
        while (event := self._take(link)) is None:
            if self._reading.standing == "over" or self._is_left:
                if self._reading.fault is not None:
                    raise self._reading.fault
                raise StopAsyncIteration
            if self._is_waited_for:
                message = "another task reads this subscription: subscribe once more, each sees everything"
                raise trio.BusyResourceError(message)
            self._is_waited_for = True
            try:
                await link.wait_stirred(self._reading)
            finally:
                self._is_waited_for = False
            self._since_yield = 1
        return event

    def next_nowait(self) -> Event:
        """Give the next event if one waits; for a caller that writes all that waits in one go."""
        link = self._entered()
        event = self._take(link)
        if event is not None:
            return event
        if self._reading.standing != "over" and not self._is_left:
            raise trio.WouldBlock
        if self._reading.fault is not None:
            raise self._reading.fault
        raise trio.EndOfChannel

    def _take(self, link: RemoteLink) -> Event | None:
        event = self._reading.next()
        link.go_on(self._reading)
        return cast("Event | None", event)  # or one of a newer version, which is read like any other

    async def _pause(self) -> None:
        if self._since_yield >= _CHECKPOINT_EVERY:
            self._since_yield = 1
            await trio.lowlevel.checkpoint()
        else:
            self._since_yield += 1
            await trio.lowlevel.checkpoint_if_cancelled()

    def _entered(self) -> RemoteLink:
        if self._link is None:
            message = "this subscription was not entered: read it inside of `async with session.subscribe() as events:`"
            raise YourMove(message)
        return self._link

    def _leave(self) -> None:
        self._is_left = True
        if self._link is not None:
            self._link.end_reading(self._reading)
            self._links.close_unused()


class Subscribing(Protocol):
    """The handle of a session, as far as its events are read through it."""

    @property
    def session_id(self) -> SessionId:
        """Which session."""
        ...

    def subscribe(
        self,
        *,
        after: int | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> RemoteSubscription:
        """As `RemoteSession.subscribe`."""
        ...
