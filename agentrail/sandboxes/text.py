"""Bytes of a file as text, whole or in pages, or the reason why they are not text. Pure."""

import codecs
import io
import mimetypes
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from agentrail.abc import ReadResult, Refusal

PIECE_BYTES: Final = 1 << 16

_SNIFFED_BYTES: Final = 8_192


@frozen(kw_only=True)
class Decoded:
    """A text, and its encoding.

    Attributes:
        mark: The byte order mark of the file, or empty.
    """

    text: str
    encoding: str
    mark: bytes

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding)


def decode_text(data: bytes, path: str) -> Decoded | Refusal:
    """Decode UTF-8 with or without a byte order mark, or UTF-16 with one."""
    encoding, mark = _encoding_of(data)
    if _has_nul(data[:_SNIFFED_BYTES], encoding):
        return refuse_binary(path, len(data))
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        return refuse_binary(path, len(data))
    return Decoded(text=text, encoding=encoding, mark=mark)


def decode_searched(data: bytes) -> str | None:
    """Decode a file for a search. None if it is not text, which any NUL shows."""
    decoded = decode_text(data, "")
    return None if isinstance(decoded, Refusal) or "\0" in decoded.text else decoded.text


def read_page(
    pieces: Iterable[bytes], *, offset: int, limit: int | None, path: str, size_bytes: int
) -> ReadResult:
    """Read lines from a file that comes in pieces, keeping only these lines in memory."""
    binary = ReadResult(size_bytes=size_bytes, error=refuse_binary(path, size_bytes))
    page = _Page(offset=offset, limit=limit)
    decoder: codecs.IncrementalDecoder | None = None
    try:
        for piece in pieces:
            if decoder is None:
                encoding, mark = _encoding_of(piece)
                if _has_nul(piece[:_SNIFFED_BYTES], encoding):
                    return binary
                decoder = codecs.getincrementaldecoder(encoding)()
                page.feed(decoder.decode(piece[len(mark) :]))
            else:
                page.feed(decoder.decode(piece))
        if decoder is not None:
            page.feed(decoder.decode(b"", final=True))
    except UnicodeDecodeError:
        return binary
    return ReadResult(text=page.text.getvalue(), total_lines=page.total_lines, size_bytes=size_bytes)


def count_lines(text: str) -> int:
    """Count lines as editors do: a final end of line does not start another line."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


class _Page:
    def __init__(self, *, offset: int, limit: int | None) -> None:
        self._before = offset - 1
        self._left = limit
        self._ends = 0
        self._is_open = False  # whether the last line has started and not ended
        self.text = io.StringIO()

    @property
    def total_lines(self) -> int:
        return self._ends + self._is_open

    def feed(self, piece: str) -> None:
        if not piece:
            return
        ends = piece.count("\n")
        self._ends += ends
        self._is_open = not piece.endswith("\n")
        if self._before > ends:
            self._before -= ends
            return
        if self._before:
            piece = piece.split("\n", self._before)[-1]
            ends -= self._before
            self._before = 0
        if self._left is None or self._left > ends:
            self.text.write(piece)
            self._left = None if self._left is None else self._left - ends
        elif self._left:
            rest = piece.split("\n", self._left)[-1]
            self.text.write(piece[: len(piece) - len(rest)])
            self._left = 0


def _encoding_of(data: bytes) -> tuple[str, bytes]:
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return encoding, mark
    return "utf-8", b""


def _has_nul(data: bytes, encoding: str) -> bool:
    if encoding == "utf-8":
        return b"\0" in data
    # UTF-32 starts like UTF-16, and then every second character is NUL. A cut character at the end does not matter here.
    return "\0" in data.decode(encoding, errors="ignore")


def refuse_binary(path: str, size_bytes: int) -> Refusal:
    """Return the refusal of a file that is not text, with its kind and its size."""
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Refusal(code="not_text", message=f'"{path}" is not text ({kind}, {size_bytes:,} bytes).')
