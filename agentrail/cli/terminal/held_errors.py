"""Holds back output to stderr while a screen is open: a log line among an editor's rows makes both unreadable.

Complete lines are shown above the prompt, or written to stderr after the screen is closed. While another program has
the terminal, nothing is drawn: beyond `MAX_HELD` characters, the oldest lines are then dropped and their number is
shown instead.
"""

import contextlib
import io
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

_STDERR: Final = 2

MAX_HELD: Final = 1 << 20
"""Maximum held characters, including newlines: a few thousand lines, more than a user reads above a prompt."""

MAX_OPEN: Final = 1 << 16
"""Length at which an unfinished line is treated as complete, in characters."""


class HeldErrors(io.TextIOBase):
    """A replacement of `sys.stderr`. Written from any thread. It never blocks and never fails."""

    encoding: str = "utf-8"
    errors: str = "replace"

    def __init__(self, stir: Callable[[], None]) -> None:
        """Start empty."""
        super().__init__()
        self._stir = stir
        self._lock = threading.Lock()
        self._lines: deque[str] = deque()
        self._held = 0
        self._gone = 0
        self._open: dict[int, str] = {}

    def write(self, text: str) -> int:
        """Add a text. Each thread has its own unfinished line, so that lines of several threads do not mix."""
        thread = threading.get_ident()
        with self._lock:
            *whole, rest = (self._open.pop(thread, "") + text).split("\n")
            # A line without end would be held without a limit, and copied in full for each addition.
            if len(rest) >= MAX_OPEN:
                whole, rest = [*whole, rest], ""
            self._hold(whole)
            if rest:
                self._open[thread] = rest
        if whole:
            self._stir()
        return len(text)

    def take(self, most: int) -> tuple[str, ...]:
        """Remove and return the oldest complete lines, at most `most`, including one line that reports dropped ones."""
        with self._lock:
            said = self._said_of_gone() if most > 0 else ()
            taken = [self._lines.popleft() for _ in range(min(most - len(said), len(self._lines)))]
            self._held -= sum(map(_size, taken))
            return (*said, *taken)

    @property
    def waits(self) -> bool:
        """Whether a complete line is held."""
        return bool(self._lines) or self._gone > 0

    def rest(self) -> str:
        """Remove and return all held text, including unfinished lines."""
        with self._lock:
            left = [f"{line}\n" for line in (*self._said_of_gone(), *self._lines, *self._open.values())]
            self._lines.clear()
            self._open.clear()
            self._held = 0
        return "".join(left)

    def fileno(self) -> int:
        """Return the descriptor of the real stderr, for subprocesses."""
        return _STDERR

    def isatty(self) -> bool:
        """Whether stderr is a terminal."""
        return os.isatty(_STDERR)

    def writable(self) -> bool:
        """Always true."""
        return True

    def _hold(self, lines: list[str]) -> None:
        self._lines += lines
        self._held += sum(map(_size, lines))
        while self._held > MAX_HELD:
            self._held -= _size(self._lines.popleft())
            self._gone += 1

    def _said_of_gone(self) -> tuple[str, ...]:
        gone, self._gone = self._gone, 0
        return (
            (f"({gone} older lines of the log are not shown: too much came before they could be)",)
            if gone
            else ()
        )


def _size(line: str) -> int:
    return len(line) + 1


@contextlib.contextmanager
def hold_errors(stir: Callable[[], None]) -> Iterator[HeldErrors | None]:
    """Hold back output to `sys.stderr` for a block. The rest is written at its end."""
    if not os.isatty(_STDERR):
        yield None
        return
    before, held = sys.stderr, HeldErrors(stir)
    sys.stderr = held
    try:
        yield held
    finally:
        sys.stderr = before
        with contextlib.suppress(OSError, ValueError):  # the terminal was closed
            before.write(held.rest())
            before.flush()
