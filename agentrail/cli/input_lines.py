"""Typed input: lines from a pipe or a terminal. With line editing, they come from `terminal.editor`."""

import os
import termios
from typing import Final, Protocol, TypeAlias

import trio

from agentrail import outside
from agentrail.cli.terminal.key_bindings import Chosen, KeyPress, SentLine

_READ_BYTES: Final = 65_536
PASTE_SECONDS: Final = 0.05
"""Time within which the next line of a paste arrives, in seconds, for a terminal with its own line editing."""

Typed: TypeAlias = str | KeyPress | SentLine | Chosen


class Lines(Protocol):
    async def next_line(self) -> Typed:
        """Wait for a line, without its line break, or a key pressed instead. `CTRL_D` is the last.

        Cancellation: An unfinished line is lost.
        """
        ...


class PlainLines:
    def __init__(self, descriptor: int = 0, *, joins_pastes: bool = False) -> None:
        self._descriptor = descriptor
        self._joins_pastes = joins_pastes
        self._buffer = b""
        self._ended = False
        self._is_gone = False

    async def next_line(self) -> Typed:
        line = await self._line()
        if line is None:
            return KeyPress.HANG_UP if self._is_gone else KeyPress.CTRL_D
        lines = [line]
        while self._joins_pastes and await self._more_comes():
            more = await self._line()
            if more is not None:  # otherwise the terminal was closed, which the next call reports
                lines.append(more)
        return line if len(lines) == 1 else SentLine(text="\n".join(lines), is_pasted=True)

    async def _line(self) -> str | None:
        """Wait for a line. Return None at the end of input."""
        pieces = [self._buffer]
        while b"\n" not in pieces[-1] and not self._ended:
            # In a thread, because files and some terminals cannot be polled. By descriptor: an abandoned thread would
            # hold the lock of `sys.stdin` when the interpreter shuts down.
            pieces.append(await outside.offload(self._read, abandon_on_cancel=True))
        line, _, self._buffer = b"".join(pieces).partition(b"\n")
        if not line and not self._buffer and self._ended:
            return None
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _more_comes(self) -> bool:
        if b"\n" in self._buffer:
            return True
        if self._ended:
            return False
        with trio.move_on_after(PASTE_SECONDS) as waited:
            await trio.lowlevel.wait_readable(self._descriptor)
            # Not in a thread: a line is available, and a paste has thousands.
            self._buffer += self._read()
        return not waited.cancelled_caught and not self._ended

    def _read(self) -> bytes:
        """Read available bytes, waiting if there are none. Empty at the end of input."""
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
    """Return whether a terminal still exists. Reading a closed one looks like Ctrl-D, and only this call tells them apart."""
    try:
        termios.tcgetattr(terminal)
    except (termios.error, OSError):
        return False
    return True
