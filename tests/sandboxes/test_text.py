"""Files as text: pages of a file that comes in pieces, and what is none."""

import codecs

import pytest
from hypothesis import given, strategies as st

from agentrail.abc import Refusal
from agentrail.sandboxes.text import count_lines, decode_searched, decode_text, read_page


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
