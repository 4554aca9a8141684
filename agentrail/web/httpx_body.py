"""Bodies for callers that carry httpx requests themselves: `OnePiece` for a request, `open_raw` for a response."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import httpx
import trio


class OnePiece(httpx.AsyncByteStream):
    """A body that is not a generator: the library's own would wait for the garbage collector after a cancelled write."""

    def __init__(self, content: bytes) -> None:
        self._left = [content] if content else []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the content once."""
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


@asynccontextmanager
async def open_raw(response: httpx.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield a response's body in pieces as they came. Leaving early closes the connection."""
    # The library nests generators that do not close each other. Left early, the inner ones would wait for the garbage
    # collector, which may run at any time and in any task. Reading on after the connection is closed ends them all at once.
    raw = response.aiter_raw()
    try:
        yield raw
    finally:
        await response.aclose()  # noqa: ASYNC102 - closes the socket before it could wait; bounded by the pool
        # Cancelled, because an HTTP/2 connection shared with other requests is still open, and reading from it would
        # wait.
        with suppress(httpx.HTTPError, httpx.StreamError), trio.CancelScope() as scope:
            scope.cancel()
            async for _ in raw:  # noqa: ASYNC102 - ends at once, the connection is closed
                pass
