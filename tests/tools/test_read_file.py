"""`read_file`: numbered lines, pages, and what it says where there is nothing to read."""

import pytest
from hypothesis import given, strategies as st

from agentrail.abc import Error, Ok, ReadResult
from agentrail.sandboxes.text import read_page
from agentrail.tools.read_file import MAX_LINES, read_file, render_page
from agentrail.tools.tool_text import MAX_TEXT_BYTES
from tests.tools.rig import StubSandbox, context


def _read(text: str, *, offset: int, limit: int) -> ReadResult:
    return read_page([text.encode()], offset=offset, limit=limit, path="a", size_bytes=len(text))


def _page(text: str, *, offset: int = 1, limit: int = MAX_LINES) -> str:
    outcome = render_page(_read(text, offset=offset, limit=limit), offset=offset)
    assert isinstance(outcome, Ok)
    return outcome.text


async def test_a_refusal_is_an_error():
    """The sandbox's sentence is fit for the model."""
    sandbox = StubSandbox({"logo.png": b"\0" * 12_345})
    outcome = await read_file.execute({"path": "logo.png"}, context(sandbox))
    assert outcome == Error(text='"logo.png" is not text (image/png, 12,345 bytes).')


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("", "[The file is empty.]"),
        ("a", "1\ta"),
        ("a\n", "1\ta"),
        ("\n", "1\t"),
        ("a\n\n", "1\ta\n2\t"),
        ("a\r\nb\r\n", "1\ta\n2\tb"),
        ("a\fb\u2028c", "1\ta\fb\u2028c"),
    ],
)
def test_lines_end_where_other_tools_end_them(text, page):
    """At line feeds, also those after a carriage return, and nowhere else."""
    assert _page(text) == page


@pytest.mark.parametrize(
    ("lines", "offset", "words"),
    [
        (120, 900, "offset 900 is past the end: the file has 120 lines."),
        (1, 2, "offset 2 is past the end: the file has 1 line."),
    ],
)
def test_past_the_end_is_an_error_with_the_length(lines, offset, words):
    """The model learns how long the file is."""
    found = _read("x\n" * lines, offset=offset, limit=1)
    assert render_page(found, offset=offset) == Error(text=words)


def test_a_long_line_is_cut_and_says_so():
    """Two thousand characters of a line are shown."""
    page = _page("x" * 3500 + "\nshort\n")
    assert page == "1\t" + "x" * 2000 + " [… 1,500 more characters in this line]\n2\tshort"
    assert _page("x" * 2000) == "1\t" + "x" * 2000


def test_a_page_has_fifty_kilobytes_at_most():
    """The page ends before the line that would be too much, and says where to go on."""
    text = ("é" * 1000 + "\n") * 40
    page = _page(text)
    body, _, note = page.rpartition("\n")
    assert note == "[Lines 1-24 of 40. Continue with offset=25.]"
    assert MAX_TEXT_BYTES - 2100 < len(body.encode()) <= MAX_TEXT_BYTES


@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0\ufeff")), min_size=1),
    limit=st.integers(1, 5),
)
def test_pages_together_are_the_file(lines, limit):
    """Going on where the note says shows each line once, in order, and ends."""
    text = "\n".join([*lines, ""])
    seen: list[str] = []
    for _ in range(len(lines)):
        if len(seen) == len(lines):
            break
        page = _page(text, offset=len(seen) + 1, limit=limit).split("\n")
        shown = page[:-1] if page[-1].startswith("[Lines ") else page
        assert [line.partition("\t")[0] for line in shown] == [
            str(len(seen) + n + 1) for n in range(len(shown))
        ]
        seen += [line.partition("\t")[2] for line in shown]
    assert seen == lines
