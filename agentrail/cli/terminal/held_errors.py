"""Holds back what is written to stderr while a screen is up: a line of the log in the middle of an editor's rows leaves both unreadable.

Nothing of it is lost: it is shown above the prompt, line by line and whole, or written to stderr when the screen is gone.
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


class HeldErrors(io.TextIOBase):
    """Stands in the place of `sys.stderr`. Written to from any thread; never blocks, and never fails."""

    encoding: str = "utf-8"
    errors: str = "replace"

    def __init__(self, stir: Callable[[], None]) -> None:
        """Hold nothing.

        Args:
            stir: Called in the thread that wrote when there is a whole line.
        """
        super().__init__()
        self._stir = stir
        self._lock = threading.Lock()
        self._lines: deque[str] = deque()
        self._open: dict[int, str] = {}

    def write(self, text: str) -> int:
        """Take a piece. Lines of several threads are not mixed up, since each of them has a line of its own that is open."""
        thread = threading.get_ident()
        with self._lock:
            *whole, rest = (self._open.pop(thread, "") + text).split("\n")
            self._lines += whole
            if rest:
                self._open[thread] = rest
        if whole:
            self._stir()
        return len(text)

    def take(self, most: int) -> tuple[str, ...]:
        """Give the oldest lines that are whole, at most so many; what is given is held no more."""
        with self._lock:
            return tuple([self._lines.popleft() for _ in range(min(most, len(self._lines)))])

    @property
    def waits(self) -> bool:
        """Whether there is a whole line."""
        return bool(self._lines)

    def rest(self) -> str:
        """Give all that is left, lines that are open included."""
        with self._lock:
            left = [f"{line}\n" for line in (*self._lines, *self._open.values())]
            self._lines, self._open = deque(), {}
        return "".join(left)

    def fileno(self) -> int:
        """Give the descriptor of stderr itself, for who starts a process."""
        return _STDERR

    def isatty(self) -> bool:
        """Whether stderr is a terminal."""
        return os.isatty(_STDERR)

    def writable(self) -> bool:
        """It is."""
        return True


@contextlib.contextmanager
def hold_errors(stir: Callable[[], None]) -> Iterator[HeldErrors | None]:
    """Hold back what is written to `sys.stderr` for a block; what no one took is written behind it.

    Args:
        stir: As of `HeldErrors`.

    Yields:
        What holds it; None where stderr is no terminal: in a file it disturbs no one.
    """
    if not os.isatty(_STDERR):
        yield None
        return
    before, held = sys.stderr, HeldErrors(stir)
    sys.stderr = held
    try:
        yield held
    finally:
        sys.stderr = before
        with contextlib.suppress(OSError, ValueError):  # the terminal was closed: there is no one to tell
            before.write(held.rest())
            before.flush()
