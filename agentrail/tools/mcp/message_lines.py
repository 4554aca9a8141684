"""Bytes of a server's standard output, cut into JSON-RPC messages. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentrail.frozen import is_deeper
from agentrail.wire.byte_lines import ByteLines

MAX_MESSAGE_LEVELS: Final = 64
MAX_BAD_LINES: Final = 100
"""Lines in a row that are no JSON object. The next one ends the server."""

MAX_ERROR_BYTES: Final = 64 << 10
_SHOWN_BYTES: Final = 80


class BadServer(Exception):
    """The server broke the protocol beyond what is tolerated. The message says how."""


def line_cutter(max_bytes: int) -> ByteLines:
    return ByteLines(max_bytes, BadServer(f"it sent a message of over {max_bytes:,} bytes"))


class MessageReader:
    """Decodes lines, and counts those that are no messages."""

    __slots__ = ("_in_a_row", "dropped")

    def __init__(self) -> None:
        self._in_a_row = 0
        self.dropped: int = 0

    def read(self, line: bytes) -> Mapping[str, Any] | None:
        """Return the message of a line, or None for a line that is dropped.

        Raises:
            BadServer: Too many such lines in a row, or a message that is nested too deeply.
        """
        if not line.strip():
            return None
        try:
            value = _decoded(line)
        except ValueError:
            value = None
        except RecursionError:
            value = _TOO_DEEP
        brackets = line.count(b"{") + line.count(b"[")
        if value is _TOO_DEEP or (brackets > MAX_MESSAGE_LEVELS and is_deeper(value, MAX_MESSAGE_LEVELS)):
            message = f"it sent a message of over {MAX_MESSAGE_LEVELS} levels"
            raise BadServer(message)
        if isinstance(value, dict):
            self._in_a_row = 0
            return value
        self.dropped += 1
        self._in_a_row += 1
        if self._in_a_row >= MAX_BAD_LINES:
            shown = line[:_SHOWN_BYTES].decode(errors="replace")
            message = f"it printed {self._in_a_row} lines in a row that are no JSON, the last one {shown!r}"
            raise BadServer(message)
        return None


_TOO_DEEP: Final[Any] = object()


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if b"\\u" not in line:
            raise
        # Servers cut texts within a character, and write the half of it that is left. Only that becomes a question mark.
        whole = json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")
        return msgspec.json.decode(whole)


class ErrorTail:
    """The last 64 KiB of a server's standard error, for people."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * MAX_ERROR_BYTES:
            del self._kept[:-MAX_ERROR_BYTES]

    def text(self) -> str:
        return bytes(self._kept[-MAX_ERROR_BYTES:]).decode(errors="replace")
