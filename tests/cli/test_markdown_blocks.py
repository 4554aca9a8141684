"""Markdown that streams, cut into blocks (CommonMark 0.31)."""

import pytest
from hypothesis import example, given, strategies as st

from agentrail.cli.markdown_blocks import MAX_BLOCK, MAX_TABLE, MarkdownBlocks

_LINES = "||words|# head|- item|  more|    code|1. one|2. two|> said|***|\ttab|```py|```|~~~"
LINES = st.sampled_from([*_LINES.split("|"), "| a | b |", "|---|---|"])


def blocks_of(*deltas):
    """All blocks of an answer that comes in these pieces."""
    blocks = MarkdownBlocks()
    return [*(block for delta in deltas for block in blocks.feed(delta)), *blocks.finish()]


def cut(source, data):
    cuts = [] if data is None else sorted(data.draw(st.lists(st.integers(0, len(source)), max_size=6)))
    return [source[a:b] for a, b in zip([0, *cuts], [*cuts, len(source)], strict=True)]


@given(lines=st.lists(LINES | st.sampled_from(["word " * 900, "x" * 8_100]), max_size=12), data=st.data())
def test_a_line_that_is_too_long_is_cut_at_the_same_place_however_it_arrives(lines, data):
    """At a word, where it has one."""
    source = "\n".join(lines)
    assert blocks_of(*cut(source, data)) == blocks_of(source)


@given(lines=st.lists(LINES, max_size=30), data=st.data())
@example(lines=["- a", "", "  ```", "", "x"], data=None)
def test_each_line_is_printed_once_and_in_order_however_it_arrives(lines, data):
    """What is finished has all that was written, and where it is cut depends on no delta."""
    source = "\n".join(lines)
    whole = blocks_of(source)
    assert blocks_of(*cut(source, data)) == whole
    said = [line for block in whole for line in block.text.split("\n") if line.strip()]
    wanted = [line for line in lines if line.strip()]
    # A fence that was left open is closed for whoever draws it.
    assert said[: len(wanted)] == wanted
    assert [line for line in said[len(wanted) :] if line not in {"```", "~~~"}] == []


HEAD = "| name | value |\n|:---|---:|\n"
ROW = "| one of many | 12345 |\n"


@pytest.mark.parametrize("before", ["", "Look:\n", "- item\n  "])
@pytest.mark.parametrize("rows", [300, 800])
def test_a_table_is_finished_when_it_is_whole(before, rows):
    """Its columns need all of its rows; what is still written is drawn by its head and its latest rows."""
    source = before + HEAD.replace("\n|:", "\n  |:" if before.startswith("-") else "\n|:")
    blocks = MarkdownBlocks()
    assert blocks.feed(source) == ()
    for _ in range(rows):
        assert blocks.feed(ROW) == ()
        assert len(blocks.tail.text) <= MAX_BLOCK + 200
    assert "|---:|" in blocks.tail.text
    (block,) = blocks.finish()
    assert block.text.count("one of many") == rows


def test_a_table_that_never_ends_is_cut_between_rows_and_each_piece_has_its_head():
    """Nothing is printed twice but the head, and none of the pieces is a head alone."""
    source = HEAD + ROW * 4_000
    pieces = blocks_of(source)
    assert len(pieces) > 1
    assert all(piece.text.startswith(HEAD) and ROW in piece.text for piece in pieces)
    assert all(piece.goes_on for piece in pieces[1:])
    assert max(len(piece.text) for piece in pieces) <= MAX_TABLE + 100
    assert sum(piece.text.count(ROW) for piece in pieces) == 4_000
    assert blocks_of(*[source[at : at + 997] for at in range(0, len(source), 997)]) == pieces


def test_lines_of_spaces_are_no_delimiters_and_take_as_long_as_they_are():
    """Each of these, up to a block long, took the square of its length to be found not to end the head of a table."""
    head, row = "a | b\n", f"{' ' * (MAX_BLOCK - 10)}|x\n"
    assert "".join(one.text for one in blocks_of(*[head, row] * 500)) == (head + row) * 500
