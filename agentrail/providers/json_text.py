"""JSON for vendors: UTF-8 without lone surrogates. It contains no wire format.

`encode_json` and `decode_json` are inverse for all JSON in valid Unicode. A lone surrogate, which some models write as an
escape, becomes U+FFFD in both directions. No UTF-8 encoder accepts it, so it would make every later request of the session
fail.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agentrail.core.values.json_schema import without_half_pairs
from agentrail.core.wire.normalize import mended
from agentrail.errors import ProtocolError

_SHOWN_CHARACTERS: Final = 200
_decode: Final = msgspec.json.Decoder().decode
_MARKS: Final = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)


def encode_json(value: object) -> bytes:
    """Encode a value compactly, as UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(mended(value))


def decode_json(text: str | bytes) -> Any:
    """Decode a vendor's JSON.

    Raises:
        ProtocolError: The vendor's move: the text is not JSON. The message shows its first 200 characters.
    """
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        # The fast decoder rejects lone surrogates, which JSON allows, so the slow one has the last word.
        return _decode_slowly(text)


def decode_object(text: str | bytes) -> dict[str, Any]:
    """Decode an event or a body, which is an object in every format.

    Raises:
        ProtocolError: The vendor's move: the text is not a JSON object. The message shows its first 200 characters.
    """
    try:  # same as `decode_json`, inlined because every stream event passes here
        value = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        value = _decode_slowly(text)
    if not isinstance(value, dict):
        message = f"expected a JSON object from the provider, got: {shown(text)}"
        raise ProtocolError(message)
    return value


def shown(text: str | bytes) -> str:
    """Return the first 200 characters on one line, for a message. Control characters become U+FFFD."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = " ".join(text[: 4 * _SHOWN_CHARACTERS].split())
    if not line.isprintable():
        line = "".join([one if one.isprintable() else "\ufffd" for one in line])
    is_cut = len(text) > 4 * _SHOWN_CHARACTERS or len(line) > _SHOWN_CHARACTERS
    return line[:_SHOWN_CHARACTERS] + ("…" if is_cut else "")


class JsonEnd:
    """Detects the end of a JSON object that arrives in pieces, reading each piece only once.

    Attributes:
        is_reached: Whether all brackets were closed for the first time. Only blanks may follow.
    """

    __slots__ = ("_depth", "_is_escaped", "_is_text", "_taken", "_was_reached", "is_reached")

    def __init__(self) -> None:
        self._taken = self._depth = 0
        self._is_text = self._is_escaped = self._was_reached = False
        self.is_reached: bool = False

    def read_on(self, pieces: Sequence[str]) -> None:
        """Read the pieces that have arrived since the last call.

        Args:
            pieces: All pieces so far.
        """
        for piece in pieces[self._taken :]:
            self._read(piece)
        self._taken = len(pieces)

    def _read(self, piece: str) -> None:
        if not piece.strip() and not self._is_text:
            return
        begin, self._is_escaped = int(self._is_escaped), False
        for mark in _MARKS.findall(piece, begin):
            if mark.startswith("\\"):
                self._is_escaped = len(mark) == 1  # the escaped character is in the next piece
            elif mark == '"':
                self._is_text = not self._is_text
            elif not self._is_text:
                self._depth += 1 if mark in "{[" else -1
        is_closed = self._depth <= 0 and not self._is_text
        self.is_reached = is_closed and not self._was_reached
        self._was_reached = self._was_reached or is_closed


def _decode_slowly(text: str | bytes) -> Any:
    try:
        whole = text.decode("utf-8", "surrogatepass") if isinstance(text, bytes) else text
        return json.loads(without_half_pairs(whole))
    except (ValueError, RecursionError):
        message = f"expected JSON from the provider, got: {shown(text)}"
        raise ProtocolError(message) from None
