"""`read_file`: numbered lines, pages, and what it says where there is nothing to read."""

from hypothesis import given, strategies as st

from agentrail.abc import Error
from agentrail.sandboxes.text import read_page
from agentrail.tools.read_file import MAX_LINES, read_file, render_page
from agentrail.tools.tool_text import MAX_TEXT_BYTES
from tests.tools.rig import StubSandbox, context


def _page(text: str, *, offset: int = 1, limit: int = MAX_LINES) -> str:
    read = read_page([text.encode()], offset=offset, limit=limit, path="a", size_bytes=len(text))
    return render_page(read, offset=offset).text


async def test_lines_end_where_other_tools_end_them():
    """At line feeds, also those after a carriage return, and nowhere else; a refusal of the sandbox is an error."""
    for text, page in (
        ("", "[The file is empty.]"),
        ("a", "1\ta"),
        ("a\n", "1\ta"),
        ("\n", "1\t"),
        ("a\n\n", "1\ta\n2\t"),
        ("a\r\nb\r\n", "1\ta\n2\tb"),
        ("a\fb\u2028c", "1\ta\fb\u2028c"),
    ):
        assert _page(text) == page

    sandbox = StubSandbox({"logo.png": b"\0" * 12_345})
    outcome = await read_file.execute({"path": "logo.png"}, context(sandbox))
    assert outcome == Error(text='"logo.png" is not text (image/png, 12,345 bytes).')


def test_a_page_has_fifty_kilobytes_at_most_and_a_line_two_thousand_characters():
    """The page ends before the line that would be too much, and says where to go on; past the end the model learns how long the file is."""
    text = ("é" * 1000 + "\n") * 40
    body, _, note = _page(text).rpartition("\n")
    assert note == "[Lines 1-24 of 40. Continue with offset=25.]"
    assert MAX_TEXT_BYTES - 2100 < len(body.encode()) <= MAX_TEXT_BYTES
    page = _page("x" * 3500 + "\nshort\n")
    assert page == "1\t" + "x" * 2000 + " [… 1,500 more characters in this line]\n2\tshort"
    assert _page("x" * 2000) == "1\t" + "x" * 2000
    for lines, offset, has in ((120, 900, "120 lines"), (1, 2, "1 line")):
        found = read_page([b"x\n" * lines], offset=offset, limit=1, path="a", size_bytes=2 * lines)
        said = f"offset {offset} is past the end: the file has {has}."
        assert render_page(found, offset=offset) == Error(text=said)


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
