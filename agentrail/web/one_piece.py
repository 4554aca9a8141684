"""`OnePiece`: the body of a request, for who carries requests of httpx itself."""

from typing import Self

import httpx


class OnePiece(httpx.AsyncByteStream):
    """A body to send that is no generator: the library's own would wait for the garbage collector after a cancelled write."""

    def __init__(self, content: bytes) -> None:
        """Take it as a whole."""
        self._left = [content] if content else []

    def __aiter__(self) -> Self:
        """Begin."""
        return self

    async def __anext__(self) -> bytes:
        """Give it once."""
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()
