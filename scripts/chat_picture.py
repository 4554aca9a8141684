"""The picture of a chat: what stands in a terminal while an agent works and asks, light and dark. Drawn from a real run.

The run is the coder of `agentrail serve --demo`, on virtual time: it takes no time, and is the same in every process. Its events go to the
very screen of `agentrail chat`; the rows that come out are drawn as SVG here, so that nothing in the picture is typed by hand but the prompt.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from types import MappingProxyType
from typing import Final, Literal

import trio
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from agentrail import outside
from agentrail.app import open_supervisor
from agentrail.cli.demo_server import demo_profiles
from agentrail.cli.terminal.chat_layout import Picture
from agentrail.cli.terminal.styles import Ink, Rows
from agentrail.events import ApprovalRequired
from agentrail.host.agent_profiles import ProfileContext
from agentrail.messages import SessionId
from agentrail.testing.clock import FakeClock
from agentrail.testing.seeded import SeededMachine, seeded_order

Theme = Literal["light", "dark"]

COLUMNS: Final = 96
ROWS: Final = 60
PROMPT: Final = "Totals are off by a cent: mend the rounding."
READ_SECONDS: Final = 2.4
"""How long the person has looked at the question when the picture is taken."""

_NAMES: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_COLOURS: Final[Mapping[Theme, Mapping[str, str]]] = MappingProxyType(
    {
        "light": MappingProxyType(
            {"page": "#ffffff", "bar": "#eef0f4", "edge": "#d5dae3", "text": "#1f2430", "faint": "#667085"}
            | {"black": "#1f2430", "red": "#b42318", "green": "#1a7f37", "yellow": "#8a5300"}
            | {"blue": "#1f4fbf", "magenta": "#9b2c86", "cyan": "#0b6e83", "white": "#667085"}
        ),
        "dark": MappingProxyType(
            {"page": "#1b1e26", "bar": "#262a35", "edge": "#363c4a", "text": "#e6e9f0", "faint": "#9aa3b5"}
            | {"black": "#9aa3b5", "red": "#ff8a80", "green": "#7ee2a0", "yellow": "#ffd479"}
            | {"blue": "#8ab4ff", "magenta": "#e6a3ff", "cyan": "#7fdbec", "white": "#e6e9f0"}
        ),
    }
)
"""Of the sixteen colours that a terminal has of its own, the eight; the bright ones look the same."""

CELL: Final = 8.4
LINE: Final = 20
LEFT: Final = 18
TOP: Final = 46


# --- the run


async def _live() -> Rows:
    options = next(profile.options for profile in demo_profiles() if profile.id == "coder")
    assert callable(options)  # noqa: S101 - each session of the coder has files of its own
    context = ProfileContext(tenant_id="", user_id="", session_id=SessionId("rounding"), agent_id="coder")
    chosen = await options(context)
    screen = Picture(ink=Ink(width=COLUMNS, colors="standard"))
    rows = [*screen.typed(PROMPT)]
    async with open_supervisor(environ={}) as supervisor:
        session = await supervisor.start_session(chosen)
        async with session.stream(PROMPT) as events:
            async for event in events:
                rows += screen.feed(event, trio.current_time())
                if isinstance(event, ApprovalRequired):
                    break
            await trio.sleep(READ_SECONDS)
            rows += screen.below(trio.current_time(), ROWS)
            await session.abort("the picture is taken")
    return (*rows, "> ")


@cache
def rows_of_chat() -> Rows:
    """Run the session, and give what stands in the terminal when it asks whether it may edit a file."""
    # The order of tasks too: two files are read at the same time, and the one that was read first stands first.
    with seeded_order("a chat"), outside.installed(SeededMachine("the picture of a chat")):
        return trio.run(_live, clock=FakeClock())


# --- from rows to a picture


def draw_chat(theme: Theme) -> str:
    """Draw the terminal as SVG, in the colours of a theme."""
    rows, colours = rows_of_chat(), _COLOURS[theme]
    width, height = round(COLUMNS * CELL + 2 * LEFT), TOP + LINE * len(rows) + 14
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        "<style>text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; font-size: 14px; white-space: pre }</style>",
        "<title>agentrail chat: the agent has read two files, and asks whether it may edit one; the change is shown</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{colours["page"]}" stroke="{colours["edge"]}"/>',
        f'<path d="M1 30V8a7 7 0 0 1 7-7h{width - 16}a7 7 0 0 1 7 7v22z" fill="{colours["bar"]}"/>',
        f'<text x="{LEFT}" y="20" fill="{colours["faint"]}">agentrail chat</text>',
        *(line for place, row in enumerate(rows) for line in _row(row, TOP + LINE * (place + 0.7), colours)),
        f'<rect x="{LEFT + 2 * CELL:.1f}" y="{TOP + LINE * (len(rows) - 1)}" width="{CELL}" height="{LINE - 3}" fill="{colours["faint"]}"/>',
        "</svg>",
    ]
    return "\n".join(lines)


def _row(row: str, y: float, colours: Mapping[str, str]) -> Iterator[str]:
    """Draw a row, a text for each stretch of one style, held to its cells whatever font there is."""
    at = 0
    for said, style in _stretches(row):
        cells = cell_len(said)
        indent = len(said) - len(said.lstrip(" "))
        words = said.strip(" ")
        if words:
            x, length = LEFT + (at + indent) * CELL, cell_len(words) * CELL
            yield (
                f'<text x="{x:.1f}" y="{y:.1f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" {_look(style, colours)}>'
                f"{escape(words, quote=False)}</text>"
            )
        at += cells


def _stretches(row: str) -> list[tuple[str, Style]]:
    console = Console(width=COLUMNS, color_system=None)
    return [
        (one.text, one.style or Style.null())
        for one in Text.from_ansi(row).render(console, end="")
        if one.text
    ]


def _look(style: Style, colours: Mapping[str, str]) -> str:
    name = (
        _NAMES[(style.color.number or 0) % 8]
        if style.color is not None and not style.color.is_default
        else ""
    )
    fill = colours.get(name, colours["faint" if style.dim else "text"])
    said = [f'fill="{fill}"']
    said += ['font-weight="600"'] if style.bold else []
    said += ['font-style="italic"'] if style.italic else []
    said += ['text-decoration="underline"'] if style.underline else []
    return " ".join(said)
