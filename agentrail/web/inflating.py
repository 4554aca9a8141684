"""Counts the bytes of a body while they come, and while they are inflated: nothing larger than the bound is ever in memory. Pure.

httpx would inflate a chunk as a whole, which gives a thousandfold of it before anybody can count.
"""

import zlib
from collections.abc import Iterator
from typing import Final

INFLATED_PIECE_BYTES: Final = 65_536
"""How much is inflated at once."""

_GZIP: Final = 16 + zlib.MAX_WBITS


class BodyRefused(ValueError):
    """A body cannot be taken. The text says why."""


class BoundedBody:
    """Takes the chunks of one body, and gives it as a whole.

    Attributes:
        content: What has come, inflated.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        """Begin with nothing.

        Args:
            encoding: The header `content-encoding`; one layer of gzip, or none.
            max_bytes: How much may come, inflated; and how much as it is sent.

        Raises:
            BodyRefused: It is another encoding, or several.
        """
        named = encoding.strip().lower()
        if named not in ("", "identity", "gzip", "x-gzip"):
            message = f"its content-encoding is {named!r:.40}: expected gzip or none, as was asked for"
            raise BodyRefused(message)
        self._inflater = None if named in ("", "identity") else zlib.decompressobj(_GZIP)
        self._max_bytes = max_bytes
        self._taken = 0
        self.content: bytearray = bytearray()

    def take(self, chunk: bytes) -> Iterator[None]:
        """Take a chunk in pieces: go through all of them, and let others have a turn after each.

        Raises:
            BodyRefused: It is too large, or no gzip.
        """
        self._taken += len(chunk)
        if self._inflater is None:
            self._keep(chunk)
            yield
            return
        if self._taken > self._max_bytes:
            raise BodyRefused(self._too_large())
        left = chunk
        while left and not self._inflater.eof:  # what stands behind the end is none of it
            try:
                piece = self._inflater.decompress(left, INFLATED_PIECE_BYTES)
            except zlib.error as error:
                message = f"it says that it is gzip and is not: {error}"
                raise BodyRefused(message) from None
            left = self._inflater.unconsumed_tail
            self._keep(piece)
            yield

    def finish(self) -> bytes:
        """Give the body.

        Raises:
            BodyRefused: It ended too early.
        """
        # A body of nothing is one of nothing, however it was to be encoded.
        if self._inflater is not None and self._taken and not self._inflater.eof:
            message = "its gzip ends too early"
            raise BodyRefused(message)
        return bytes(self.content)

    def _keep(self, piece: bytes) -> None:
        if len(self.content) + len(piece) > self._max_bytes:
            raise BodyRefused(self._too_large())
        self.content += piece

    def _too_large(self) -> str:
        return f"it has more than {self._max_bytes:,} bytes"
