"""Strict JSON parsing before any shape is checked: ambiguous texts are refused. Pure."""

# not compiled: `json` calls its functions for each pair, and only interpreted functions end with a
# RecursionError

import json
import re
from typing import Any, Final

import msgspec

from agentrail.core.wire.shapes import MAX_DIGITS, Misfit, PlainJson


def read_json(text: bytes | str) -> PlainJson:
    """Parse JSON strictly: no duplicate keys, no very long numbers, no half of a surrogate pair, no trailing text."""
    try:
        given = text.encode() if isinstance(text, str) else text
        if _has_long_number(given):
            _read_pairs(given)
        plain = msgspec.json.decode(given)
        # If re-encoding gives the same text, no pair was dropped. Otherwise it is parsed again with every
        # pair checked. Blanks and other spellings of a number are allowed.
        if msgspec.json.encode(plain) != given:
            _read_pairs(given)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        # A UnicodeDecodeError until msgspec 0.22, and a DecodeError since.
        message = f"not JSON: {'a text is not UTF-8' if 'utf-8' in str(error).lower() else error}"
        raise Misfit(message) from error
    return plain


_DIGITS: Final = re.compile(rb"[0-9]+")


def _has_long_number(given: bytes) -> bool:
    """Whether more than `MAX_DIGITS` consecutive digits occur: such a row covers one of the sampled bytes."""
    step = MAX_DIGITS + 1
    for place in range(0, len(given), step):
        found = _DIGITS.match(given, place, place + step)
        if found is not None:
            before = given[max(place - step, 0) : place]
            if len(before) - len(before.rstrip(b"0123456789")) + found.end() - place >= step:
                return True
    return False


def _read_pairs(given: bytes) -> None:
    _strict.decode(given.decode())


def _once(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            message = f"the key {name!r:.60} appears twice in one object"
            raise Misfit(message)
        names.add(name)


def _of_some_digits(digits: str) -> None:
    if len(digits) > MAX_DIGITS:
        message = f"a number of more than {MAX_DIGITS} digits"
        raise Misfit(message)


_strict: Final = json.JSONDecoder(object_pairs_hook=_once, parse_int=_of_some_digits)
