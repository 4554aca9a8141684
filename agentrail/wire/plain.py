"""Encoding of values as plain JSON for replies and frames. Pure."""

from typing import Final

import msgspec

from agentrail.core.wire.normalize import mended
from agentrail.structs import name_of_class


def encode_plain(value: object) -> bytes:
    """Encode a value as JSON. A lone surrogate, which UTF-8 cannot represent, becomes U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(mended(msgspec.to_builtins(value, enc_hook=name_of_class)))


_encoder: Final = msgspec.json.Encoder(enc_hook=name_of_class)
