"""The forms in which a secret may stand in a text: as it is, in JSON, in an address, in base64. Pure; nothing is guessed by patterns.

Each form is a text that is looked for exactly. Base64 takes three bytes at a time, so what a secret looks like in it depends on how many
bytes stand before it: there are three forms, of which those characters are looked for that the secret alone decides. What a text came to
that was encrypted, compressed, turned round or written in hexadecimal is not found.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

MIN_SECRET_CHARACTERS: Final = 8
"""Shorter values are no secrets: texts would be full of them, and what is left would say which."""

_CODED: Final = re.compile(r"%[0-9A-F]{2}")
_BEHIND: Final = (0, 2, 3)
"""How many characters of base64 are not decided by a text alone, where 0, 1 or 2 bytes stand before it."""


def secret_forms_of(secret: str) -> tuple[str, ...]:
    """Give all forms of a secret, each once, in an order that is always the same; none of one that is too short."""
    value = secret.strip()
    if len(value) < MIN_SECRET_CHARACTERS:
        return ()
    found = dict.fromkeys((value, *_in_literals(value), *_in_addresses(value), *_in_base64(value)))
    return tuple([form for form in found if len(form) >= MIN_SECRET_CHARACTERS])


def _in_literals(value: str) -> Iterator[str]:
    """Write it as JSON does, and JSON within JSON; and as Python does, which shows texts in its errors."""
    for is_ascii in (True, False):
        once = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield once.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        yield json.dumps(once, ensure_ascii=is_ascii)[1:-1]
    yield repr(value)[1:-1]
    yield ascii(value)[1:-1]


def _in_addresses(value: str) -> Iterator[str]:
    """Write it as addresses and forms do: how much is left as it is differs, and so do capital letters."""
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
