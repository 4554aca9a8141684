"""The forms of a secret in a text: as it is, in JSON, in an address, in base64. Pure, without guessing by patterns."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

MIN_SECRET_CHARACTERS: Final = 8
"""Shorter values are not treated as secrets: they occur in many texts, and the gaps would reveal them."""

_CODED: Final = re.compile(r"%[0-9A-F]{2}")
_BEHIND: Final = (0, 2, 3)
"""Number of base64 characters that the secret alone does not determine, with 0, 1 or 2 bytes before it."""


def secret_forms_of(secret: str) -> tuple[str, ...]:
    """Return all forms of a secret, each once, in a stable order. None for one that is too short."""
    value = secret.strip()
    if len(value) < MIN_SECRET_CHARACTERS:
        return ()
    found = dict.fromkeys((value, *_in_literals(value), *_in_addresses(value), *_in_base64(value)))
    return tuple([form for form in found if len(form) >= MIN_SECRET_CHARACTERS])


def _in_literals(value: str) -> Iterator[str]:
    """Yield its forms in JSON, in JSON within JSON, and in Python, which shows texts in its errors."""
    for is_ascii in (True, False):
        once = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield once.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        yield json.dumps(once, ensure_ascii=is_ascii)[1:-1]
    yield repr(value)[1:-1]
    yield ascii(value)[1:-1]


def _in_addresses(value: str) -> Iterator[str]:
    """Yield its forms in addresses and forms: encoders differ in the characters that they keep, and in case."""
    data = value.encode("utf-8", "surrogatepass")
    for coded in (quote(data, safe=""), quote(data), quote(data, safe="!'()*"), quote_plus(data)):
        yield coded
        yield _CODED.sub(lambda found: found[0].lower(), coded)


def _in_base64(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogatepass")
    for before, skipped in enumerate(_BEHIND):
        bits = 8 * (before + len(data))
        coded = base64.b64encode(bytes(before) + data).decode()[skipped : bits // 6]
        yield coded
        yield coded.replace("+", "-").replace("/", "_")
