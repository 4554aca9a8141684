"""JSON as vendors send it and as they take it: UTF-8, and no half of a surrogate pair. No wire format enters this file.

`encode_json` and `decode_json` are the inverse of each other for all that JSON can say in proper Unicode. A lone
surrogate, which some models write as an escape, becomes U+FFFD in both directions: no UTF-8 encoder takes it, so it
would otherwise end the session at the next request.
"""

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agentrail.core.values.json_schema import without_half_pairs
from agentrail.errors import ProtocolError

_SHOWN_CHARACTERS: Final = 200
_decode: Final = msgspec.json.Decoder().decode
_MARKS: Final = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)


def encode_json(value: object) -> bytes:
    """Encode a value compactly, as UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(value))


def decode_json(text: str | bytes) -> Any:
    """Decode what a vendor sent.

    Raises:
        ProtocolError: The vendor's move: this is no JSON. The message shows the first 200 characters.
    """
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        # The fast decoder refuses lone surrogates, which are legal in JSON; the slow one is asked before we complain.
        return _decode_slowly(text)


def decode_object(text: str | bytes) -> dict[str, Any]:
    """Decode an event or a body, which is an object in every format.

    Raises:
        ProtocolError: The vendor's move: this is no JSON object. The message shows the first 200 characters.
    """
    try:  # as `decode_json` does; each event of a stream comes by here
        value = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        value = _decode_slowly(text)
    if not isinstance(value, dict):
        message = f"expected a JSON object from the provider, got: {shown(text)}"
        raise ProtocolError(message)
    return value


def shown(text: str | bytes) -> str:
    """Return the first 200 characters, on one line, fit for a message."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = " ".join(text[: 4 * _SHOWN_CHARACTERS].split())
    is_cut = len(text) > 4 * _SHOWN_CHARACTERS or len(line) > _SHOWN_CHARACTERS
    return line[:_SHOWN_CHARACTERS] + ("…" if is_cut else "")


class JsonEnd:
    """Tells whether a JSON object that comes in pieces could be complete, without reading any piece twice.

    Attributes:
        is_reached: Whether all that was opened is closed, for the first time; what follows may be blank.
    """

    __slots__ = ("_depth", "_is_escaped", "_is_text", "_taken", "_was_reached", "is_reached")

    def __init__(self) -> None:
        """Begin in front of it."""
        self._taken = self._depth = 0
        self._is_text = self._is_escaped = self._was_reached = False
        self.is_reached: bool = False

    def read_on(self, pieces: Sequence[str]) -> None:
        """Read what has come since the last time.

        Args:
            pieces: All that has come.
        """
        for piece in itertools.islice(pieces, self._taken, None):
            self._read(piece)
        self._taken = len(pieces)

    def _read(self, piece: str) -> None:
        if not piece.strip() and not self._is_text:
            return
        begin, self._is_escaped = int(self._is_escaped), False
        for mark in _MARKS.findall(piece, begin):
            if mark.startswith("\\"):
                self._is_escaped = len(mark) == 1  # what it escapes comes with the next piece
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


def _mended(value: Any) -> Any:
    match value:
        case str():
            # Through UTF-16, where two escapes that belong together become the one character that they mean.
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value
