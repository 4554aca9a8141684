"""Bytes of a stream, cut at newlines. Pure. Pieces are joined once per line, so a long line costs its length and not its square."""

from collections.abc import Iterator


class LineTooLong(Exception):
    """A line is longer than the limit, so that the beginning of the next one cannot be found."""


class ByteLines:
    """Cuts bytes at newlines."""

    __slots__ = ("_max_bytes", "_parts", "_size", "_too_long")

    def __init__(self, max_bytes: int, too_long: Exception | None = None) -> None:
        """Cut lines of at most this size. A longer one raises `too_long`."""
        self._max_bytes = max_bytes
        self._too_long = too_long or LineTooLong(f"a line has over {max_bytes:,} bytes")
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete with these bytes.

        Raises:
            LineTooLong: A line is longer than the limit.
        """
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            self._keep(data[begin:end])
            yield b"".join(self._parts)
            self._parts, self._size, begin = [], 0, end + 1
        self._keep(data[begin:])

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            raise self._too_long
        if part:
            self._parts.append(part)
