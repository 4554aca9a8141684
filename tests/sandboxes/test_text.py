"""Files as text: pages of a file that comes in pieces, what is none, and replacing a text with a diff that says the same."""

import codecs
import re

import pytest
from hypothesis import given, strategies as st

from agentrail.abc import Refusal
from agentrail.sandboxes.text import count_lines, decode_searched, decode_text, read_page
from agentrail.sandboxes.text_edit import MAX_DIFF_BYTES, Edited, decide_edit


def _cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut into pieces; the first has what is needed to tell the encoding."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [piece for piece in (*pieces, data[at:]) if piece]


@given(
    text=st.text(st.sampled_from("aé€𝄞\n\r"), max_size=60),
    sizes=st.lists(st.integers(1, 9), max_size=20).map(lambda sizes: [4, *sizes]),
    offset=st.integers(1, 8),
    limit=st.none() | st.integers(0, 8),
    kind=st.sampled_from([("utf-8", b""), ("utf-8", codecs.BOM_UTF8), ("utf-16-le", codecs.BOM_UTF16_LE)]),
)
def test_a_page_is_that_part_of_the_file_however_it_is_cut(text, sizes, offset, limit, kind):
    """Lines end at line feeds only; characters may be cut in two."""
    encoding, mark = kind
    data = mark + text.encode(encoding)
    page = read_page(_cut(data, sizes), offset=offset, limit=limit, path="a", size_bytes=len(data))
    *ended, last = text.split("\n")
    lines = [f"{line}\n" for line in ended] + ([last] if last else [])
    end = None if limit is None else offset - 1 + limit
    assert page.error is None
    assert page.text == "".join(lines[offset - 1 : end])
    assert page.total_lines == len(lines) == count_lines(text)
    decoded = decode_text(data, "a")
    assert not isinstance(decoded, Refusal)
    assert (decoded.text, decoded.encode(text)) == (text, data)


@pytest.mark.parametrize(
    "data", [b"a\0b", b"words\n" * 9_000 + b"\xff", codecs.BOM_UTF16_LE + b"x", b"caf\xc3"]
)
def test_what_is_broken_anywhere_is_no_text(data):
    """Also beyond the page that was asked for: the model never reads half of something else."""
    pieces = [data[at : at + 8_192] for at in range(0, len(data), 8_192)]
    page = read_page(pieces, offset=1, limit=1, path="a.bin", size_bytes=len(data))
    assert page.error is not None
    assert (page.text, page.error.code) == ("", "not_text")
    assert decode_searched(data) is None


NOT_FOUND = (
    "old_string was not found in src/a.py. Read the file again: spaces and line ends must match exactly."
)
ADD_LINES = " Add lines around it, or set replace_all."


def _edit(text, old, new, *, replace_all=False):
    return decide_edit(text, old, new, replace_all=replace_all, path="src/a.py")


def _patched(text: str, diff: str) -> str:
    """Apply a unified diff, as `patch` does."""
    lines = re.split(r"(?<=\n)", text) if text else []
    result, at = [], 0
    for hunk in re.split(r"^@@ ", diff, flags=re.MULTILINE)[1:]:
        head, _, body = hunk.partition("\n")
        start, _, length = head.split()[0][1:].partition(",")
        begin = int(start) - (length != "0")
        result += lines[at:begin]
        at = begin
        taken = 0
        rows = re.split(r"(?<=\n)", body.replace("\n\\ No newline at end of file\n", "\0\n"))
        for row in filter(None, rows):
            text_of = row[1:].removesuffix("\0\n")
            if row[0] in " -":
                assert lines[at] == text_of
                at += 1
                taken += 1
            if row[0] in " +":
                result.append(text_of)
        assert taken == int(length or 1)
    return "".join((*result, *lines[at:]))


TEXTS = st.text(st.sampled_from("ab\n"), max_size=40)


@given(text=TEXTS, old=TEXTS.filter(bool), new=TEXTS)
def test_an_edit_is_a_replacement_and_its_diff_is_the_same(text, old, new):
    """What comes out is what `str.replace` gives, and what `patch` makes of the diff."""
    edited = _edit(text, old, new, replace_all=True)
    if isinstance(edited, Refusal):
        assert old == new or old not in text
        return
    assert edited.text == text.replace(old, new)
    assert edited.replacements == text.count(old)
    assert _patched(text, edited.diff) == edited.text


@given(lines=st.lists(st.tuples(st.text("ab", max_size=3), st.sampled_from(["\n", "\r\n"])), min_size=1))
def test_line_ends_stay_as_they_are(lines):
    """Also in a file of mixed ends: what is not replaced keeps its own, what is new takes those of most lines."""
    text = "".join(line + end for line, end in (*lines, ("X", "\n"), ("Y", "\r\n")))
    edited = _edit(text, "X\nY\n", "1\n2\n3\n")
    assert isinstance(edited, Edited)
    kept = "".join(line + end for line, end in lines)
    end = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    assert edited.text == f"{kept}1{end}2{end}3{end}"


@pytest.mark.parametrize(
    ("text", "old", "new", "code", "message"),
    [
        ("a", "", "b", "invalid_edit", "old_string is empty; use write_file to create a file."),
        ("a", "a", "a", "invalid_edit", "old_string and new_string are the same."),
        ("a\r\n", "a\n", "a\r\n", "invalid_edit", "old_string and new_string are the same."),
        (
            "a",
            "b",
            "c",
            "old_not_found",
            NOT_FOUND,
        ),
        (
            "import os\n\tdef run(self):\n",
            "\n    def run(self):",
            "c",
            "old_not_found",
            NOT_FOUND + ' The nearest is line 2: "\\tdef run(self):"',
        ),
        (
            "x\ny\nx\nx",
            "x",
            "c",
            "old_not_unique",
            "old_string occurs 3 times in src/a.py (lines 1, 3, 4)." + ADD_LINES,
        ),
        (
            "x\n" * 12,
            "x",
            "c",
            "old_not_unique",
            "old_string occurs 12 times in src/a.py (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)." + ADD_LINES,
        ),
    ],
)
def test_what_is_not_clear_is_refused(text, old, new, code, message):
    """Each with what to do next."""
    assert _edit(text, old, new) == Refusal(code=code, message=message)


def test_a_diff_looks_like_one():
    """With three lines around each change, and changes close to each other in one hunk."""
    edited = _edit("".join(f"{n}\n" for n in range(1, 30)), "5", "five\nfünf", replace_all=True)
    assert isinstance(edited, Edited)
    assert edited.diff.splitlines()[:9] == [
        *("--- src/a.py", "+++ src/a.py", "@@ -2,7 +2,8 @@"),
        *(" 2", " 3", " 4", "-5", "+five", "+fünf"),
    ]
    assert "@@ -12,7 +13,8 @@" in edited.diff
    assert r"\ No newline at end of file" in _edit("a", "a", "b").diff


@pytest.mark.parametrize("count", [5_000, 50_000])
def test_a_diff_is_short(count):
    """Four kilobytes, whole lines, and a note that there is more."""
    edited = _edit("é x\n" * count, "x", "y", replace_all=True)
    assert isinstance(edited, Edited)
    assert edited.replacements == count
    assert len(edited.diff.encode()) <= MAX_DIFF_BYTES
    assert edited.diff.endswith("\n[The diff continues; read the file to see the rest.]\n")
