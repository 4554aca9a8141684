"""The whole output of a command, kept in a file once it is too long to be shown."""

import os
from collections.abc import Callable

import trio

from agentrail import outside
from agentrail.sandboxes.output import MAX_SHOWN_BYTES, MAX_SHOWN_LINES


class Spool:
    """Takes text in pieces; makes a file when there is more than can be shown."""

    def __init__(self, open_file: Callable[[], int]) -> None:
        """Keep nothing yet.

        Args:
            open_file: Gives a descriptor to write to. Called in a worker thread, at most once.
        """
        self._open_file = open_file
        self._waiting: list[bytes] = []
        self._bytes = self._lines = 0
        self._descriptor: int | None = None
        self._is_broken = False
        self._writing = trio.Lock()

    @property
    def has_all(self) -> bool:
        """Whether there is a file, and all is in it."""
        return self._descriptor is not None and not self._is_broken

    async def take(self, text: bytes) -> None:
        """Take the next piece.

        Cancellation: Takes effect when the piece is written, or has not been begun.
        """
        if self._is_broken or not text:
            return
        self._waiting.append(text)
        self._bytes += len(text)
        self._lines += text.count(b"\n")
        if self._bytes > MAX_SHOWN_BYTES or self._lines > MAX_SHOWN_LINES:
            async with self._writing:
                waiting, self._waiting = self._waiting, []
                await outside.offload(self._write, b"".join(waiting))

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _write(self, text: bytes) -> None:
        try:
            if self._descriptor is None:
                self._descriptor = self._open_file()
            left = memoryview(text)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:  # no space, or no right: then there is no file to read, and the answer names none
            self._is_broken = True
