"""Output of `agentrail demo`: the text of a scene, the events of its session, and pauses for reading.

All of it goes to stdout in order, so that a pipe has the whole tour. No decisions are made here.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import Final

import trio
from attrs import define, evolve, field, frozen

from agentrail.cli.rendering import ChatStyle, Piece, Transcript, on_one_line
from agentrail.cli.screen import Screen
from agentrail.cli.terminal.inks import Ink, decide_colors, decide_unicode, draw_text, in_ascii
from agentrail.events import Event

MAX_WIDTH: Final = 80
"""Longer lines of prose are hard to read, however wide the terminal is."""
READING_SECONDS: Final = 8.0
"""Time to read the introduction of a scene, in seconds."""
WATCH_SECONDS: Final = 6.0
"""Time to look at the result, in seconds."""


@frozen(kw_only=True)
class TourLook:
    """The capabilities of stdout.

    Attributes:
        ink: Its width and colours, and whether it shows more than ASCII.
    """

    ink: Ink
    is_terminal: bool


def decide_demo_look(
    variables: Mapping[str, str], *, is_terminal: bool, columns: int, encoding: str
) -> TourLook:
    """Choose the look of the tour: plain lines without a terminal, no colours with `NO_COLOR`, ASCII where needed."""
    locale = next((variables[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if variables.get(name)), "")
    colors = decide_colors(
        term=variables.get("TERM", ""),
        colorterm=variables.get("COLORTERM", ""),
        no_color=bool(variables.get("NO_COLOR")) or not is_terminal,
    )
    is_unicode = decide_unicode(encoding=encoding, locale=locale)
    ink = Ink(width=min(columns, MAX_WIDTH), colors=colors, is_unicode=is_unicode)
    return TourLook(ink=ink, is_terminal=is_terminal)


def demo_look_of_process() -> TourLook:
    """Return the look for stdout."""
    return decide_demo_look(
        os.environ,
        is_terminal=os.isatty(1),
        columns=shutil.get_terminal_size((MAX_WIDTH, 24)).columns,
        encoding=sys.stdout.encoding or "",
    )


@define(eq=False, kw_only=True)
class TourStage:
    """The stage on which scenes are shown.

    Attributes:
        screen: The output.
        is_fast: Whether to skip pauses for the reader.
    """

    screen: Screen
    look: TourLook
    is_fast: bool = False
    _transcript: Transcript = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Start at the beginning of a line."""
        is_terminal, dims = self.look.is_terminal, self.look.ink.colors is not None
        self._transcript = Transcript(
            ChatStyle(out_is_terminal=is_terminal, err_is_terminal=is_terminal, dims=dims)
        )

    @property
    def model(self) -> str:
        """The model of the tour. With pauses, it streams at reading speed."""
        return "demo:fast" if self.is_fast else "demo:"

    async def heading(self, text: str) -> None:
        """Write the heading of a scene."""
        await self._draw("", "")
        await self._draw(text, "bold")

    async def tell(self, text: str) -> None:
        """Write an explanation."""
        await self._draw(text, "")

    async def typed(self, text: str) -> None:
        """Show what a user would type or a program would call."""
        mark = "▸" if self.look.ink.is_unicode else ">"
        await self._draw(f"{mark} {text}", "cyan")

    async def page(self, path: str) -> None:
        """Name the page with more information."""
        await self._draw(f"read on: {path}", "dim")

    async def show(self, event: Event) -> None:
        """Show a published event, same as `agentrail run`."""
        await self._write(self._transcript.feed(event))

    async def quote(self, text: str) -> None:
        """Show lines verbatim, wrapped to the terminal's width. Control sequences are removed."""
        for line in text.splitlines():
            await self._draw(f"  {on_one_line(line)}" if not line.startswith(" ") else line, "dim")

    async def pause(self, seconds: float) -> None:
        """Wait for the reader."""
        await trio.sleep(0.0 if self.is_fast else seconds)

    async def _draw(self, text: str, style: str) -> None:
        rows = draw_text(text, self.look.ink, style) or ("",)
        await self._write([*self._transcript.end_words(), *(Piece("out", f"{row}\n") for row in rows)])

    async def _write(self, pieces: Iterable[Piece]) -> None:
        ascii_only = not self.look.ink.is_unicode
        await self.screen.write([_on_stdout(piece, ascii_only=ascii_only) for piece in pieces])


def _on_stdout(piece: Piece, *, ascii_only: bool) -> Piece:
    return evolve(piece, stream="out", text=in_ascii(piece.text) if ascii_only else piece.text)
