"""Rendering for a terminal, through rich. The only place that makes escape sequences: those in a model's text are removed."""

import io
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from attrs import frozen
from rich.color import ColorSystem as RichColors
from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from agentrail.cli.markdown_blocks import Block
from agentrail.cli.stdio import without_controls

ColorSystem: TypeAlias = Literal["standard", "256", "truecolor"]
Rows: TypeAlias = tuple[str, ...]

MIN_WIDTH: Final = 4
CODE_THEME: Final = "ansi_dark"
"""The terminal's own sixteen colours, without a background."""
_THEME: Final = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.code": "cyan",
        "markdown.code_block": "default",
        "markdown.block_quote": "dim",
        "markdown.hr": "dim",
        "markdown.link_url": "blue underline",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "added": "green",
        "removed": "red",
        "place": "cyan",
        "fault": "red",
        "good": "green",
        "asks": "yellow",
        "typed": "bold",
    }
)


@frozen(kw_only=True)
class Ink:
    """The capabilities of a terminal.

    Attributes:
        colors: Its colour system. None disables colours, bold and dim.
    """

    width: int = 80
    colors: ColorSystem | None = None
    is_unicode: bool = True


def decide_colors(*, term: str, colorterm: str, no_color: bool) -> ColorSystem | None:
    if no_color or term in {"", "dumb"}:
        return None
    if colorterm.strip().lower() in {"truecolor", "24bit"}:
        return "truecolor"
    return "256" if "256color" in term else "standard"


def decide_unicode(*, encoding: str, locale: str) -> bool:
    def is_utf8(name: str) -> bool:
        return name.lower().replace("-", "").replace("_", "") == "utf8"

    _, dot, named = locale.partition("@")[0].partition(".")
    return is_utf8(encoding) and (not dot or is_utf8(named))


def decide_ink(variables: Mapping[str, str], *, width: int, encoding: str, is_colored: bool = True) -> Ink:
    locale = next((variables[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if variables.get(name)), "")
    colors = decide_colors(
        term=variables.get("TERM", ""),
        colorterm=variables.get("COLORTERM", ""),
        no_color=bool(variables.get("NO_COLOR")) or not is_colored,
    )
    return Ink(width=width, colors=colors, is_unicode=decide_unicode(encoding=encoding, locale=locale))


class _Paper(io.StringIO):
    """The output file of rich, which checks its encoding and draws ASCII tables if it is not UTF-8."""

    encoding = "utf-8"


class _AsciiPaper(io.StringIO):
    encoding = "ascii"


def draw_block(block: Block, ink: Ink) -> Rows:
    # Imported here: its parser and the highlighter load slowly, and the first prompt needs neither.
    from agentrail.cli.terminal.markdown_style import ChatMarkdown

    source = without_controls(block.text).strip("\n")
    # The target of a link is shown, because a hidden one can deceive the user.
    return _without_empty_ends(draw(ChatMarkdown(source, code_theme=CODE_THEME, hyperlinks=False), ink))


def draw_text(text: str, ink: Ink, style: str = "") -> Rows:
    return draw(Text(without_controls(text), style=style), ink)


def draw_log_line(line: str, ink: Ink) -> Rows:
    """Draw a log line. Only its colours are parsed and rendered again. Other escape sequences are dropped."""
    return draw(Text.from_ansi(line), ink) if line else ("",)


def draw_line(parts: Iterable[tuple[str, str]], ink: Ink) -> str:
    text = Text(no_wrap=True, overflow="ellipsis" if ink.is_unicode else "crop")
    for said, style in parts:
        text.append(without_controls(" ".join(said.splitlines())), style=style)
    text.truncate(max(ink.width - 1, 1), overflow="ellipsis" if ink.is_unicode else "crop")
    return next(iter(draw(text, ink)), "")


def draw(renderable: RenderableType, ink: Ink) -> Rows:
    """Draw a renderable, row by row. Control characters are removed from the output of rich and its parser."""
    console = Console(
        file=_Paper() if ink.is_unicode else _AsciiPaper(),
        force_terminal=ink.colors is not None,
        color_system=ink.colors,
        no_color=ink.colors is None,
        width=max(ink.width, MIN_WIDTH),
        theme=_THEME,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    rows = console.render_lines(renderable, pad=False)
    return tuple(_row(((one.text, one.style) for one in row), ink) for row in rows)


def _without_empty_ends(rows: Rows) -> Rows:
    """Remove the empty rows that rich adds above and below: the caller decides about space between blocks."""
    said = [place for place, row in enumerate(rows) if row]
    return rows[said[0] : said[-1] + 1] if said else ()


def _row(parts: Iterable[tuple[str, Style | None]], ink: Ink) -> str:
    pieces = [(_harmless(text, ink), style) for text, style in parts]
    while pieces and not pieces[-1][0].strip(" "):  # padding at the end of a row would only be copied along
        pieces.pop()
    if pieces:
        pieces[-1] = (pieces[-1][0].rstrip(" "), pieces[-1][1])
    if ink.colors is None:
        return "".join(text for text, _ in pieces)
    return "".join(
        text if style is None else style.render(text, color_system=_SYSTEMS[ink.colors])
        for text, style in pieces
    )


def _harmless(text: str, ink: Ink) -> str:
    shown = without_controls(text).replace("\n", " ").replace("\t", "    ")
    return shown if ink.is_unicode else in_ascii(shown)


def in_ascii(text: str) -> str:
    """Convert a text to ASCII: similar marks, letters without accents, and question marks for the rest."""
    shown = text.translate(_ASCII)
    return shown if shown.isascii() else "".join([one if one.isascii() else _in_ascii(one) for one in shown])


@lru_cache(maxsize=1_024)
def _in_ascii(character: str) -> str:
    if unicodedata.combining(character):
        return ""
    letters = [one for one in unicodedata.normalize("NFKD", character) if not unicodedata.combining(one)]
    # One for one, so that rows keep their width.
    return letters[0] if len(letters) == 1 and letters[0].isascii() else "?"


_SYSTEMS: Final = {
    "standard": RichColors.STANDARD,
    "256": RichColors.EIGHT_BIT,
    "truecolor": RichColors.TRUECOLOR,
}
_ASCII: Final = str.maketrans(
    {
        "•": "*",
        "…": "~",
        "—": "-",
        "–": "-",
        "→": ">",
        "✓": "+",
        "✗": "x",
        "·": "-",
        "▌": "|",
        "─": "-",
        "“": '"',
        "”": '"',
        "’": "'",
        "↑": "^",
        "↓": "v",
        "▸": ">",
    }
)
