"""What is typed: lines from a pipe or a terminal. Where lines are edited, `terminal.editor` gives them."""

import os
import termios
from typing import Final, Protocol, TypeAlias

import trio

from agentrail import outside
from agentrail.cli.terminal.keys import Chosen, KeyPress, SentLine

_READ_BYTES: Final = 65_536
PASTE_SECONDS: Final = 0.05
"""Within which the next line of a paste comes, in a terminal that edits lines by itself."""

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

    def __init__(self, descriptor: int = 0, *, joins_pastes: bool = False) -> None:
        """Begin to read where the descriptor stands."""
        self._descriptor = descriptor
        self._joins_pastes = joins_pastes
        self._buffer = b""
        self._ended = False
        self._is_gone = False

    async def next_line(self) -> Typed:
        """Wait for a line; see `Lines.next_line`."""
        line = await self._line()
        if line is None:
            return KeyPress.HANG_UP if self._is_gone else KeyPress.CTRL_D
        lines = [line]
        while self._joins_pastes and await self._more_comes():
            more = await self._line()
            if more is not None:  # else the terminal has ended, which is said next
                lines.append(more)
        return line if len(lines) == 1 else SentLine(text="\n".join(lines), is_pasted=True)

    async def _line(self) -> str | None:
        """Wait for a line; None where nothing comes any more."""
        pieces = [self._buffer]
        while b"\n" not in pieces[-1] and not self._ended:
            # In a thread, because neither files nor all terminals can be waited for. By descriptor: a thread that is
            # left behind would hold the lock of `sys.stdin` when the interpreter ends.
            pieces.append(await outside.offload(self._read, abandon_on_cancel=True))
        line, _, self._buffer = b"".join(pieces).partition(b"\n")
        if not line and not self._buffer and self._ended:
            return None
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _more_comes(self) -> bool:
        """Whether a line lies behind this one already, or comes before anyone could have typed it."""
        if b"\n" in self._buffer:
            return True
        if self._ended:
            return False
        with trio.move_on_after(PASTE_SECONDS) as waited:
            await trio.lowlevel.wait_readable(self._descriptor)
            # Not in a thread: a line is there, and a paste has thousands.
            self._buffer += self._read()
        return not waited.cancelled_caught and not self._ended

    def _read(self) -> bytes:
        """Read what is there, and wait for something where nothing is; nothing where nothing comes any more."""
        try:
            piece = os.read(self._descriptor, _READ_BYTES)
        except OSError:
            if not self._joins_pastes:
                raise
            piece = b""  # the terminal was closed
        self._ended = not piece
        self._is_gone = self._ended and self._joins_pastes and not _is_there(self._descriptor)
        return piece


def _is_there(terminal: int) -> bool:
    """Say whether a terminal is there; one that was closed ends as Ctrl-D ends it, and only this tells which."""
    try:
        termios.tcgetattr(terminal)
    except (termios.error, OSError):
        return False
    return True
