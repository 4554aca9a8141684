"""Bytes of a server, cut into messages."""

import itertools
import json

import pytest
from hypothesis import given, strategies as st

from agentrail.tools.mcp.message_lines import (
    MAX_BAD_LINES,
    MAX_ERROR_BYTES,
    BadServer,
    ErrorTail,
    MessageReader,
    line_cutter,
)


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b""))), st.lists(st.integers(0, 400)))
def test_lines_do_not_depend_on_where_the_bytes_are_cut(lines, cuts):
    """A pipe gives pieces of any size."""
    data = b"".join(line + b"\n" for line in lines)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    cutter = line_cutter(10_000)
    assert [one for a, b in itertools.pairwise(places) for one in cutter.feed(data[a:b])] == lines


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"a\n" + b"x" * 11 + b"\n"]])
def test_a_line_beyond_the_limit_ends_the_server(pieces):
    """11.13: also before its newline is there, and not only after it."""
    cutter = line_cutter(10)
    with pytest.raises(BadServer, match="over 10 bytes"):
        [line for piece in pieces for line in cutter.feed(piece)]


def nested(levels):
    """Return an object with this many levels."""
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_64_levels_pass_and_65_end_the_server():
    """11.13. Brackets in texts do not count."""
    reader = MessageReader()
    assert reader.read(nested(64)) == json.loads(nested(64))
    assert reader.read(json.dumps({"a": "[" * 1_000}).encode()) == {"a": "[" * 1_000}
    for levels in (65, 5_000, 200_000):
        with pytest.raises(BadServer, match="over 64 levels"):
            reader.read(nested(levels))


@pytest.mark.parametrize(
    "line", [b"Listening on stdio", b"[1]", b"7", b'{"half": "\xff"}', b'{"a":', b"null"]
)
def test_a_line_that_is_no_object_is_dropped_and_counted_and_100_in_a_row_end_the_server(line):
    """11.3."""
    reader = MessageReader()
    for _ in range(MAX_BAD_LINES - 1):
        assert reader.read(line) is None
    assert reader.read(b'{"jsonrpc":"2.0"}') == {"jsonrpc": "2.0"}
    assert reader.read(b"  ") is None
    assert reader.dropped == MAX_BAD_LINES - 1
    for _ in range(MAX_BAD_LINES - 1):
        reader.read(line)
    with pytest.raises(BadServer, match="100 lines in a row"):
        reader.read(line)


def test_half_a_character_costs_no_message():
    """Servers cut texts within an emoji. The half becomes a question mark, whole characters and backslashes stay."""
    line = json.dumps({"a": "x\ud83d", "b": "\U0001f600", "c": "\\ud83d", "\udc00": 1}).encode()
    reader = MessageReader()
    assert reader.read(line) == {"a": "x?", "b": "\U0001f600", "c": "\\ud83d", "?": 1}
    assert reader.dropped == 0
    assert reader.read(b'{"a": "\\ud83d", "b": NaN}') is None
    with pytest.raises(BadServer, match="over 64 levels"):
        reader.read(nested(65).replace(b"1", b'"\\ud83d"'))


def test_the_end_of_standard_error_is_kept():
    """11.3: the last 64 KiB."""
    tail = ErrorTail()
    for number in range(40_000):
        tail.add(f"{number:07}\n".encode())
    assert len(tail.text()) == MAX_ERROR_BYTES
    assert tail.text().endswith("0039999\n")
