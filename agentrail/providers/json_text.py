"""JSON as vendors send it and as they take it: UTF-8, and no half of a surrogate pair. No wire format enters this file.

`encode_json` and `decode_json` are the inverse of each other for all that JSON can say in proper Unicode. A lone
surrogate, which some models write as an escape, becomes U+FFFD in both directions: no UTF-8 encoder takes it, so it
would otherwise end the session at the next request.
"""

import json
from typing import Any

import msgspec

from agentrail.errors import ProtocolError

_SHOWN_CHARACTERS = 200


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
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        # The fast decoder refuses lone surrogates, which are legal in JSON; the slow one is asked before we complain.
        return _decode_slowly(text)


def decode_object(text: str | bytes) -> dict[str, Any]:
    """Decode an event or a body, which is an object in every format.

    Raises:
        ProtocolError: The vendor's move: this is no JSON object. The message shows the first 200 characters.
    """
    value = decode_json(text)
    if not isinstance(value, dict):
        message = f"expected a JSON object from the provider, got: {shown(text)}"
        raise ProtocolError(message)
    return value


def shown(text: str | bytes) -> str:
    """Return the first 200 characters, on one line, fit for a message."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = " ".join(text[: 4 * _SHOWN_CHARACTERS].split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "…"


def _decode_slowly(text: str | bytes) -> Any:
    try:
        return _mended(json.loads(text))
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
