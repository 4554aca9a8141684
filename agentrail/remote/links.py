"""All connections of one client: one for commands and for most that is read, more where a session is read several times at once. Trio."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from agentrail.errors import AgentrailError
from agentrail.remote.dialing import Dial
from agentrail.remote.link import RemoteLink


class Links:
    """The connections of a client. The first one lasts; others close when nothing is read over them."""

    def __init__(self, dial: Dial, nursery: trio.Nursery) -> None:
        """Open the first one; `open_links` makes these."""
        self._dial = dial
        self._nursery = nursery
        self._more: list[tuple[RemoteLink, trio.CancelScope]] = []
        self.first: RemoteLink = RemoteLink(dial)
        nursery.start_soon(self.first.run, name="remote link")

    async def link_for(self, session_id: str) -> RemoteLink:
        """Give a connection over which a session is not read yet.

        Cancellation: Nothing is opened by halves.
        """
        while True:
            links = [self.first, *(link for link, _ in self._more)]
            free = next((link for link in links if link.place_of(session_id) is None), None)
            if free is not None:
                return free
            leaving = next((link for link in links if link.is_leaving(session_id)), None)
            left = None if leaving is None else leaving.place_of(session_id)
            if left is None:
                return self._open_more()
            await left.wait()

    def close_unused(self) -> None:
        """Close those that nothing is read over any more."""
        for one in tuple(self._more):
            link, scope = one
            if link.is_unused or link.fault is not None:
                scope.cancel(reason="nothing is read over this connection any more")
                self._more.remove(one)

    def fail(self, fault: AgentrailError) -> None:
        """End all that is owed over each of them."""
        for link in (self.first, *(link for link, _ in self._more)):
            link.fail(fault)

    def _open_more(self) -> RemoteLink:
        link, scope = RemoteLink(self._dial), trio.CancelScope()
        self._more.append((link, scope))
        self._nursery.start_soon(_run_within, link, scope, name="remote link")
        return link


async def _run_within(link: RemoteLink, scope: trio.CancelScope) -> None:
    with scope:
        await link.run()


@asynccontextmanager
async def open_links(dial: Dial) -> AsyncIterator[Links]:
    """Open connections within the block.

    Cancellation: They are closed.
    """
    try:
        async with trio.open_nursery() as nursery:
            yield Links(dial, nursery)
            nursery.cancel_scope.cancel(reason="the block of `agentrail.connect` was left")
    except ExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        raise group.exceptions[0]  # noqa: B904 - what the caller's block raises leaves as it is, with the cause that it has
