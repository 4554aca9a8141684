"""`OnePiece`: a request body for callers that carry httpx requests themselves."""

from typing import Self

import httpx


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
