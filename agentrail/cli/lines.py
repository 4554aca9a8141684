"""What is typed: lines from a pipe or a terminal, or from an editor at the bottom of the screen."""

import contextlib
import enum
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import trio

from agentrail import outside
from agentrail.cli.rendering import Piece

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.formatted_text import AnyFormattedText
    from prompt_toolkit.patch_stdout import StdoutProxy

_READ_BYTES: Final = 65_536
_REPAINT_SECONDS: Final = 0.05
_EXIT_AGAIN_SECONDS: Final = 0.02


class KeyPress(enum.Enum):
    """What can come in place of a line."""

    CTRL_C = "interrupt"
    CTRL_D = "end"  # the end of a pipe too


Typed: TypeAlias = str | KeyPress


class Lines(Protocol):
    """Where lines come from."""

    async def next_line(self) -> Typed:
        """Wait for a line, without its line break, or for a key; after `CTRL_D` nothing comes.

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


class EditedLines:
    """Lines from an editor, above which everything else is written: a `Screen` as well as `Lines`."""

    def __init__(self, session: "PromptSession[str]", above: "StdoutProxy") -> None:
        """Made by `open_edited_lines`."""
        self._session = session
        self._above = above
        self._unfinished = ""

    async def write(self, pieces: Iterable[Piece]) -> None:
        """Write whole lines above the editor; the one that is not finished is shown as part of it."""
        await trio.lowlevel.checkpoint()
        text = self._unfinished + "".join(piece.text for piece in pieces)
        lines, line_break, self._unfinished = text.rpartition("\n")
        if line_break:
            self._above.write(lines + "\n")
        # In the thread of the editor its loop may go away between the look of `invalidate` and its use. Then nothing is to be drawn
        # any more, and what is written stands above.
        with contextlib.suppress(RuntimeError):
            self._session.app.invalidate()

    async def next_line(self) -> Typed:
        """Wait for a line; see `Lines.next_line`."""
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._exit_when_cancelled, over)
            try:
                typed = await outside.offload(self._prompt)
            finally:
                over.set()
        if isinstance(typed, str):
            await self.write((Piece("out", f"> {typed}\n"),))
        return typed

    def finish(self) -> None:
        """Write what is not finished as a line of its own."""
        if self._unfinished:
            self._above.write(self._unfinished + "\n")
            self._unfinished = ""

    def message(self) -> "AnyFormattedText":
        """Say what stands in front of the line that is being typed."""
        from prompt_toolkit.formatted_text import ANSI

        return ANSI(f"{self._unfinished}\n> " if self._unfinished else "> ")

    def _prompt(self) -> Typed:
        try:
            return self._session.prompt(self.message)
        except KeyboardInterrupt:
            return KeyPress.CTRL_C
        except EOFError:
            return KeyPress.CTRL_D

    async def _exit_when_cancelled(self, over: trio.Event) -> None:
        """Make the editor give the terminal back. It runs in a thread, which cannot be cancelled but can be asked."""
        try:
            await over.wait()
        finally:
            with trio.CancelScope(shield=True):
                while not over.is_set():  # asked again, because one that is just starting does not hear it
                    self._ask_to_exit()
                    with trio.move_on_after(_EXIT_AGAIN_SECONDS):
                        await over.wait()

    def _ask_to_exit(self) -> None:
        app = self._session.app

        def exit_app() -> None:
            if app.future is not None and not app.future.done():
                app.exit(exception=EOFError())

        if app.loop is not None:
            with contextlib.suppress(RuntimeError):  # it was closed a moment ago
                app.loop.call_soon_threadsafe(exit_app)


@asynccontextmanager
async def open_edited_lines() -> AsyncIterator[EditedLines]:
    """Open an editor at the bottom of the terminal; leaving the block gives the terminal back.

    Raises:
        ImportError: The extra `repl` is not installed.
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.patch_stdout import StdoutProxy

    session: PromptSession[str] = PromptSession(erase_when_done=True)
    # Raw mode for as long as there are lines: a Ctrl-D that comes between two of them, or while something is written above
    # the editor (for which it would go back to cooked mode), would be taken by the terminal, as the end of a line that
    # is not read, and be lost. Writing needs no cooked mode: raw mode leaves the output's line breaks alone.
    setattr(session.app.input, "cooked_mode", contextlib.nullcontext)  # noqa: B010 - the library has no option for it
    with session.app.input.raw_mode(), StdoutProxy(sleep_between_writes=_REPAINT_SECONDS, raw=True) as above:
        lines = EditedLines(session, above)
        try:
            yield lines
        finally:
            lines.finish()
