"""Rows for a terminal: what a model writes steers nothing, and what a terminal cannot show is not sent."""

import re

from hypothesis import given, strategies as st
from rich.cells import cell_len

from agentrail.cli.markdown_blocks import Block
from agentrail.cli.terminal.styles import (
    Ink,
    decide_colors,
    draw_block,
    draw_line,
    draw_text,
)

STYLED = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = st.text(
    st.sampled_from(list("ab *_`#->|&;[]()<\n\t\x00\x07\x08\x0b\r\x1b\x7f\x9b\x9d\u202ehttp:%1b")),
    max_size=60,
)


@given(text=HOSTILE, colors=st.sampled_from([None, "256"]))
def test_what_a_model_writes_steers_no_terminal(text, colors):
    """No bell, no cursor, no title: of control characters only our own colours are left, and without colours none."""
    ink = Ink(width=20, colors=colors)
    rows = [
        *draw_block(Block(kind="words", text=text), ink),
        *draw_text(text, ink),
        draw_line(((text, ""),), ink),
    ]
    for row in rows:
        plain = STYLED.sub("", row) if colors else row
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", plain), repr(row)


@given(
    text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=80),
    width=st.integers(4, 30),
)
def test_a_line_never_wraps(text, width):
    """What is drawn below is as many rows as it has lines: else it would be erased too little, and stand there twice."""
    assert cell_len(draw_line(((text, ""),), Ink(width=width))) < width


def test_a_terminal_without_utf8_gets_ascii():
    """Tables, marks and words of the model: what cannot be shown is a question mark, or something like it."""
    ink = Ink(width=40, is_unicode=False)
    table = Block(kind="words", text="| a | b |\n|---|---|\n| é | → |\n")
    assert all(row.isascii() for row in draw_block(table, ink))
    assert draw_line((("→ ✓ …", ""),), ink) == "> + ~"


def test_how_many_colours_there_are():
    """`NO_COLOR` comes before all (no-color.org)."""
    for term, colorterm, no_color, expected in (
        ("xterm", "", False, "standard"),
        ("xterm-256color", "", False, "256"),
        ("xterm-256color", "truecolor", False, "truecolor"),
        ("xterm-256color", "truecolor", True, None),
        ("dumb", "truecolor", False, None),
    ):
        assert decide_colors(term=term, colorterm=colorterm, no_color=no_color) == expected
