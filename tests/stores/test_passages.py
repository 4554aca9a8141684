"""How documents are cut: nothing is lost, nothing is too long, and each passage says where it stands."""

import re
from itertools import pairwise

from hypothesis import example, given, strategies as st

from agentrail.stores.documents import LEAST_BYTES, MOST_BYTES, passages_of

HEADINGS = ["# One", "## Two", "### Three ###", "#hash", "####### seven", "    # code"]
MARKS = ["```", "~~~~", "```python", "\r", "text\r"]
LONG_ONES = ["é" * 40, "word " * 150, "x" * 4000, "咖啡" * 900]
LINES = st.sampled_from(["", "", " ", "text here", "- item", *HEADINGS, *MARKS, *LONG_ONES])


@given(lines=st.lists(LINES, max_size=40), is_markdown=st.booleans())
def test_nothing_is_lost_and_nothing_is_too_long(lines, is_markdown):
    """Every sign that is no space is in exactly one passage, in order; lines are told, and rise."""
    text = "\n".join(lines)
    pieces = passages_of(text, is_markdown=is_markdown)
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(text.split())
    place = 1
    for piece in pieces:
        assert piece.text.strip()
        assert len(piece.text.encode()) <= MOST_BYTES
        assert place <= piece.first <= piece.last <= len(lines)
        place = piece.last
        written = "".join("\n".join(lines[piece.first - 1 : piece.last]).split())
        assert "".join(piece.text.split()) in written
    if not is_markdown:
        assert all(piece.trail == () for piece in pieces)


@example(sizes=[157, 1])  # 798 bytes, which were counted as 800
@given(sizes=st.lists(st.integers(1, 400), min_size=2, max_size=12))
def test_short_sections_are_joined(sizes):
    """No two neighbours are so short that they would have fitted into one."""
    text = "\n\n".join(f"# Section {n}\n\n{'word ' * size}" for n, size in enumerate(sizes))
    pieces = [len(piece.text.encode()) for piece in passages_of(text, is_markdown=True)]
    for left, right in pairwise(pieces):
        assert left >= LEAST_BYTES or left + right > MOST_BYTES - 100


def test_a_heading_in_a_fence_is_code():
    """Until the fence is closed by as many of the same marks."""
    text = "# One\n\n````\n# no\n```\n# neither\n````\n\ntext\n\n``` not `a` fence\n\n# Two\n\n~~~\n# no\n"
    (piece,) = passages_of(text, is_markdown=True)
    assert piece.trail == ()  # One and Two share none
    assert passages_of("# One\n\n```\n# no\n```\n", is_markdown=True)[0].trail == ("One",)


def test_a_long_line_is_cut_and_keeps_its_number():
    """A file of one line is one line in each of its passages."""
    pieces = passages_of("\n\n" + "x" * 10_000, is_markdown=False)
    assert {(piece.first, piece.last) for piece in pieces} == {(3, 3)}
    assert "".join(piece.text.replace("\n", "") for piece in pieces) == "x" * 10_000


def test_it_takes_as_long_as_the_text_is():
    """Hashes, spaces, marks and headings without end: what could be quadratic, of a megabyte each."""
    for text in ("#" * 200_000, "# " + " " * 200_000 + "x", "`" * 200_000, "# a\n" * 20_000, "\n" * 200_000):
        assert re.sub(
            r"\s", "", "".join(piece.text for piece in passages_of(text, is_markdown=True))
        ) == re.sub(r"\s", "", text)
