"""Bytes of a file as text, or the reason why they are none. Pure."""

import codecs
import mimetypes
from typing import Final

from agentrail.abc import Refusal

_SNIFFED_BYTES: Final = 8_192


def decode_text(data: bytes, path: str) -> str | Refusal:
    """Decode UTF-8 with or without a byte order mark, or UTF-16 with one.

    Args:
        data: The whole file.
        path: For the message.

    Returns:
        The text without the mark; a `Refusal` with the code `not_text` for anything else.
    """
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in data[:_SNIFFED_BYTES]:
        return _not_text(data, path)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return _not_text(data, path)
    # UTF-32 begins like UTF-16, and then every second character is NUL.
    return _not_text(data, path) if "\0" in text[:_SNIFFED_BYTES] else text


def _not_text(data: bytes, path: str) -> Refusal:
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Refusal(code="not_text", message=f'"{path}" is not text ({kind}, {len(data):,} bytes).')
