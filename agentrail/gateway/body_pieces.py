"""Reads large JSON texts in pieces, so that no call of C keeps the interpreter: also from another thread one does.

Pure. Texts that are longer than a piece are read by themselves; what is left of the document is read as a whole.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Misfit, PlainJson

JSON_PIECE_BYTES: Final = 64 << 10
"""Bytes that one call of C reads, in a millisecond or two. A multiple of four, for base64."""

LongText: TypeAlias = tuple[int, int, int]
"""A text that is longer than a piece: the number of texts before it, its begin and its end, with its quotes."""

_TOKENS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_INSIDE: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_WHOLE_LETTERS: Final = re.compile(
    rb'(?:[^"\\]++|\\u[dD][89abAB]..\\u....|\\u(?![dD][89abAB])....|\\[^u])*+', re.DOTALL
)
_PLACE: Final = re.compile(r" \(byte \d+\)")
_CONTINUES: Final = range(0x80, 0xC0)
"""Bytes of UTF-8 that begin no character."""


def parts_of(text: bytes) -> Iterator[tuple[int, int, bool]]:
    """Divide a document into parts of whole tokens, and texts that are longer than a piece.

    Returns:
        Begin and end of each, in order, and whether it is such a text.
    """
    at = 0
    while at < len(text):
        end = _end_in(_TOKENS, text, at)
        is_text = end == at
        if is_text:
            end = _end_of_text(text, at + 1)
        yield at, end, is_text
        at = end


def _end_in(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at, at + JSON_PIECE_BYTES)
    assert found is not None  # noqa: S101 - the pattern takes nothing too
    return found.end()


def _end_of_text(text: bytes, at: int) -> int:
    while at < len(text):
        at = _end_in(_INSIDE, text, at)
        if text.startswith(b'"', at):
            return at + 1
        if text.startswith(b"\\", at):  # an escape that the end of the piece cuts
            at += 2
    return len(text)


def read_apart(text: bytes, long: Sequence[LongText]) -> PlainJson:
    """Read a document whose long texts are read by themselves, piece by piece.

    Args:
        text: The document.
        long: All its long texts, in order.

    Raises:
        Misfit: It is no JSON, or such JSON; without the place, which is another one in what is left.
    """
    left: list[bytes] = []
    at = 0
    for number, start, end in long:
        left += text[at:start], b'"\\u0000%d"' % number  # no two alike, since they may be keys
        at = end
    try:
        plain = read_json(b"".join((*left, text[at:])))
    except Misfit as misfit:
        raise Misfit(_PLACE.sub("", str(misfit))) from misfit
    texts = {number: _read_long(text, start + 1, end - 1) for number, start, end in long}
    numbers = itertools.count()

    def whole(value: Any) -> Any:
        if isinstance(value, str):
            return texts.get(next(numbers), value)
        if isinstance(value, dict):
            return {whole(name): whole(item) for name, item in value.items()}
        return [whole(item) for item in value] if isinstance(value, list) else value

    return whole(plain)


def _read_long(text: bytes, at: int, end: int) -> str:
    pieces: list[str] = []
    while at < end:
        # No escape is cut, no pair of escapes that is one character, and no character.
        found = _WHOLE_LETTERS.match(text, at, min(at + JSON_PIECE_BYTES, end))
        cut = at if found is None else found.end()
        while at < cut < end and text[cut] in _CONTINUES:
            cut -= 1
        if cut == at:
            message = "no JSON: a long text has an escape or a byte in it that is none"
            raise Misfit(message)
        pieces.append(str(read_json(b'"%b"' % text[at:cut])))
        at = cut
    return "".join(pieces)
