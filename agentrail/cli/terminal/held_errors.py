"""Holds back what is written to stderr while a screen is up: a line of the log in the middle of an editor's rows leaves both unreadable.

Nothing of it is lost: it is shown above the prompt, line by line and whole, or written to stderr when the screen is gone. Only
where more than `MAX_HELD` characters wait, since the screen is not drawn while another program has the terminal, do the oldest
lines go, and how many went is said in their place.
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
"""So many characters wait, ends of lines included: a few thousand lines, which no one reads above a prompt."""

MAX_OPEN: Final = 1 << 16
"""A line of so many characters is taken for whole, though it goes on."""


class HeldErrors(io.TextIOBase):
    """Stands in the place of `sys.stderr`. Written to from any thread; never blocks, and never fails."""

    encoding: str = "utf-8"
    errors: str = "replace"

    def __init__(self, stir: Callable[[], None]) -> None:
        """Hold nothing."""
        super().__init__()
        self._stir = stir
        self._lock = threading.Lock()
        self._lines: deque[str] = deque()
        self._held = 0
        self._gone = 0
        self._open: dict[int, str] = {}

    def write(self, text: str) -> int:
        """Take a piece. Lines of several threads are not mixed up, since each of them has a line of its own that is open."""
        thread = threading.get_ident()
        with self._lock:
            *whole, rest = (self._open.pop(thread, "") + text).split("\n")
            # A line that never ends would be held without a bound, and copied whole for each piece of it.
            if len(rest) >= MAX_OPEN:
                whole, rest = [*whole, rest], ""
            self._hold(whole)
            if rest:
                self._open[thread] = rest
        if whole:
            self._stir()
        return len(text)

    def take(self, most: int) -> tuple[str, ...]:
        """Give the oldest lines that are whole, at most so many, with one of them for those that are gone; what is given is held no more."""
        with self._lock:
            said = self._said_of_gone() if most > 0 else ()
            taken = [self._lines.popleft() for _ in range(min(most - len(said), len(self._lines)))]
            self._held -= sum(map(_size, taken))
            return (*said, *taken)

    @property
    def waits(self) -> bool:
        """Whether there is a whole line."""
        return bool(self._lines) or self._gone > 0

    def rest(self) -> str:
        """Give all that is left, lines that are open included."""
        with self._lock:
            left = [f"{line}\n" for line in (*self._said_of_gone(), *self._lines, *self._open.values())]
            self._lines.clear()
            self._open.clear()
            self._held = 0
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
    """Hold back what is written to `sys.stderr` for a block; what no one took is written behind it."""
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
