"""What is typed: lines from a pipe or a terminal. Where lines are edited, `terminal.editor` gives them."""

import os
from typing import Final, Protocol, TypeAlias

from agentrail import outside
from agentrail.cli.terminal.keys import Chosen, KeyPress, SentLine

_READ_BYTES: Final = 65_536


Typed: TypeAlias = str | KeyPress | SentLine | Chosen


class Lines(Protocol):
    """Where lines come from."""

    async def next_line(self) -> Typed:
        """Wait for a line, without its line break, or for what was pressed in place of one; after `CTRL_D` nothing comes.

        Cancellation: What was typed of an unfinished line is lost.
        """
        ...


class PlainLines:
    """Lines from stdin, whatever it is."""

    def __init__(self, descriptor: int = 0) -> None:
        """Begin to read where the descriptor stands."""
        self._descriptor = descriptor
        self._buffer = b""
        self._ended = False

    async def next_line(self) -> Typed:
        """Wait for a line; see `Lines.next_line`."""
        while b"\n" not in self._buffer and not self._ended:
            # In a thread, because neither files nor all terminals can be waited for. By descriptor: a thread that is
            # left behind would hold the lock of `sys.stdin` when the interpreter ends.
            piece = await outside.offload(os.read, self._descriptor, _READ_BYTES, abandon_on_cancel=True)
            self._ended = not piece
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        if not line and not self._buffer and self._ended:
            return KeyPress.CTRL_D
        return line.decode("utf-8", "replace").rstrip("\r")
