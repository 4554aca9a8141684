"""JSON read strictly, before any shape is asked: what two readers could take for two things is refused. Pure."""

# not compiled: `json` calls its functions for each pair, and only interpreted functions end with a RecursionError

import json
import re
from typing import Any, Final

import msgspec

from agentrail.core.wire.shapes import MAX_DIGITS, Misfit, PlainJson


def read_json(text: bytes | str) -> PlainJson:
    """Read JSON strictly: no key twice in one object, no number that takes long, no half of a character, nothing behind it."""
    try:
        given = text.encode() if isinstance(text, str) else text
        if _has_long_number(given):
            _read_pairs(given)
        plain = msgspec.json.decode(given)
        # What nothing was left out of comes out as it went in. Else it is read once more, by what shows each pair; blanks
        # and other spellings of a number are no fault.
        if msgspec.json.encode(plain) != given:
            _read_pairs(given)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        message = f"no JSON: {error}"
        raise Misfit(message) from error
    return plain


_DIGITS: Final = re.compile(rb"[0-9]+")


def _has_long_number(given: bytes) -> bool:
    """Whether more than `MAX_DIGITS` digits stand in a row: such a row covers one of the bytes that are looked at."""
    step = MAX_DIGITS + 1
    for place in range(0, len(given), step):
        found = _DIGITS.match(given, place, place + step)
        if found is not None:
            before = given[max(place - step, 0) : place]
            if len(before) - len(before.rstrip(b"0123456789")) + found.end() - place >= step:
                return True
    return False


def _read_pairs(given: bytes) -> None:
    json.loads(given.decode(), object_pairs_hook=_once, parse_int=_of_some_digits)


def _once(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            message = f"the key {name!r:.60} stands twice in one object"
            raise Misfit(message)
        names.add(name)


def _of_some_digits(digits: str) -> None:
    if len(digits) > MAX_DIGITS:
        message = f"a number of more than {MAX_DIGITS} digits"
        raise Misfit(message)
