"""The screen of a chat: passes the session's events to the editor's thread, at most 25 times a second."""

import contextlib
import io
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

import trio
from attrs import evolve

from agentrail.cli.event_text import Piece
from agentrail.cli.stdio import OutputClosed, OutputFailed
from agentrail.cli.terminal.chat_layout import Picture
from agentrail.cli.terminal.completion import KnownNames, ListFiles
from agentrail.cli.terminal.editor import (
    REDRAW_SECONDS,
    RESIZE_SECONDS,
    FromTerminal,
    Moved,
    Typing,
    size_of_terminal,
)
from agentrail.cli.terminal.key_bindings import SentLine
from agentrail.cli.terminal.styles import Rows, decide_ink
from agentrail.events import Event

# Output to stderr, held back while a screen is open: a log line among an editor's rows makes both unreadable.
#
# Complete lines are shown above the prompt, or written to stderr after the screen is closed. While another program has
# the terminal, nothing is drawn: beyond `MAX_HELD` characters, the oldest lines are then dropped and their number is
# shown instead.

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
        return bool(self._lines) or self._gone > 0

    def rest(self) -> str:
        with self._lock:
            left = [f"{line}\n" for line in (*self._said_of_gone(), *self._lines, *self._open.values())]
            self._lines.clear()
            self._open.clear()
            self._held = 0
        return "".join(left)

    def fileno(self) -> int:
        return _STDERR

    def isatty(self) -> bool:
        return os.isatty(_STDERR)

    def writable(self) -> bool:
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


# The screen.

FRAME_SECONDS: Final = 0.04
_MAX_WAITING_ROWS: Final = 5_000
"""Maximum rows that a slow terminal has not taken. Beyond it, showing an event waits."""
_LOG_LINES: Final = 200
"""Maximum log lines shown in one frame."""
_SWITCH_SECONDS: Final = 0.0005


class TerminalView:
    def __init__(self, picture: Picture, typing: Typing) -> None:
        self._on_event: Callable[[Event], None] = lambda _: None
        self._picture = picture
        self._typing = typing
        self._above: list[str] = []
        self._dirty = trio.Event()
        self._taken = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._held: HeldErrors | None = None
        self._scope = trio.CancelScope()
        self._over = trio.Event()
        self.is_closed: bool = False

    def introduce(self, known: KnownNames, on_event: Callable[[Event], None]) -> None:
        """Set the completions and the event callback. From then on Ctrl-C also goes to the reader of lines."""
        self._on_event = on_event
        self._typing.known = known
        self._typing.interrupt = None

    # --- output

    async def show(self, event: Event) -> None:
        self._on_event(event)
        await self._print(self._picture.feed(event, trio.current_time()))

    async def show_past(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if piece.stream == "err":
                await self._print(self._picture.say([piece.text.rstrip("\n")]))
            elif piece.text.startswith("> "):
                await self._print(self._picture.typed(piece.text[2:]))
            else:
                await self._print(self._picture.past(piece.text))

    async def say(self, *lines: str) -> None:
        await self._print(self._picture.say(lines))

    async def invite(self) -> None:
        await trio.lowlevel.checkpoint()

    def line_typed(self) -> None:
        """Do nothing: input is shown when it is sent."""

    def stopping(self, *, is_so: bool) -> None:
        self._picture.working = evolve(self._picture.working, stopping=is_so)
        self._dirty.set()

    async def next_line(self) -> FromTerminal:
        """Wait for input. See `Lines.next_line`. Cancelling it loses nothing."""
        while True:
            typed = await self._typing.receive.receive()
            if isinstance(typed, Moved):
                self._move(typed.by)
                continue
            if isinstance(typed, SentLine):
                await self._print(self._picture.typed(typed.text))
            return typed

    def _move(self, by: int) -> None:
        if self._picture.dialogue is not None:
            self._picture.dialogue = self._picture.dialogue.moved(by)
            self._dirty.set()

    async def _print(self, rows: Rows) -> None:
        # Before any wait: the picture no longer has these rows, so the next frame must print them.
        self._above += rows
        self._dirty.set()
        await trio.lowlevel.checkpoint()
        while len(self._above) > _MAX_WAITING_ROWS and not self._typing.is_over:
            await self._taken.wait()

    # --- drawing

    async def serve(self) -> None:
        """Read keys and draw, until closed or cancelled, then restore the terminal."""
        try:
            with self._scope, hold_errors(self._stir) as self._held:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._typing.serve)  # noqa: ASYNC113 - its readiness is awaited below
                    await self._typing.ready.wait()
                    nursery.start_soon(self.serve_drawing)
        finally:
            self.is_closed = True
            self._over.set()

    async def wait_ready(self) -> None:
        await self._typing.ready.wait()

    async def aclose(self) -> None:
        """Print the remaining rows within a second, and restore the terminal. May be called again.

        Cancellation: Shielded: a terminal that is not restored cannot be typed in.
        """
        with trio.CancelScope(shield=True):
            if not self.is_closed:
                with trio.move_on_after(1), contextlib.suppress(OutputClosed, OutputFailed):
                    await self.finish()
            self._scope.cancel(reason="the chat is over")
            await self._over.wait()

    async def serve_drawing(self) -> None:
        while True:
            with trio.move_on_after(REDRAW_SECONDS if self._picture.is_at_work else RESIZE_SECONDS):
                await self._dirty.wait()
            self._dirty = trio.Event()
            await self.draw()
            await trio.sleep(FRAME_SECONDS)

    async def draw(self) -> None:
        """Hand over the printed rows with the area below them, and wait until they are visible."""
        columns, rows = size_of_terminal()
        self._picture.ink = evolve(self._picture.ink, width=columns)
        self._show_held(_LOG_LINES)
        below = self._picture.below(
            trio.current_time(), max(rows - 2 - self._typing.height(columns, rows), 1)
        )
        above, self._above = self._above, []
        self._typing.dialogue_is(self._picture.dialogue)
        await self._typing.draw(above, below)
        self._taken.set()
        self._taken = trio.Event()

    def _stir(self) -> None:
        """Schedule a frame after a write to the log. Called from any thread."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._draw_soon, idempotent=True)

    def _draw_soon(self) -> None:
        self._dirty.set()

    def _show_held(self, most: int) -> None:
        if self._held is not None:
            self._above += self._picture.log(self._held.take(most))
            if self._held.waits:
                self._dirty.set()  # the rest follows in the next frame, so that keys are read in between

    async def finish(self) -> None:
        self._above += self._picture.end_words()
        self._show_held(_MAX_WAITING_ROWS)
        above, self._above = self._above, []
        await self._typing.draw(above, ())


@asynccontextmanager
async def open_terminal_view(
    files: ListFiles, history: Path | None, interrupt: Callable[[], None]
) -> AsyncIterator[TerminalView]:
    """Open the screen of a chat, and restore the terminal on exit. Input before `introduce` is kept."""
    # Two threads share the interpreter: by default, the one that reads keys would wait 5 ms each time for its turn.
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        ink = decide_ink(os.environ, width=size_of_terminal()[0], encoding=sys.stdout.encoding or "")
        view = TerminalView(Picture(ink=ink), Typing(ink, KnownNames(files=files), history, interrupt))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(view.serve)  # noqa: ASYNC113 - it is awaited below
            async with aclosing(view):
                await view.wait_ready()
                yield view
    finally:
        sys.setswitchinterval(before)
