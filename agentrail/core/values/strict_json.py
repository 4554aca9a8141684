"""JSON that a model wrote, read as strictly as the standard has it.

No NaN, no number that no float holds, no half of a surrogate pair; and no repair, which would be a guess. What is wrong is
said in words that the model can act on.
"""

import json
import math
import re
from typing import Final

from agentrail.frozen import MAX_CONTAINERS
from agentrail.messages import JsonValue

_LARGE_EXPONENT: Final = re.compile(r"[eE]\+?[0-9]{3}")
_DIGITS: Final = re.compile(r"[0-9]*")
_MANY_DIGITS: Final = 300
"""A number with fewer digits and a small exponent is finite."""
# All that is whole in one match, and each half in one of its own: one for each escape would take five times as long.
_ESCAPE: Final = re.compile(
    r"((?:[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?!u[dD][89a-fA-F][0-9a-fA-F]{2}).)++)"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Half of a character, escaped or bare: no wire takes it, so it becomes U+FFFD where its other half is missing."""

# One that never ends is taken to its end, so that nothing is looked at twice.
_TEXTS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


class NotJson(ValueError):
    """The text is no JSON; the message says what is wrong, where, and near which words."""


def decode_strictly(text: str) -> JsonValue:
    """Read a JSON text.

    Raises:
        NotJson: The model's move; also where it has more objects and arrays than may be made while others wait.
    """
    containers = _containers_in(text)
    if containers > MAX_CONTAINERS:
        message = (
            f"{containers} objects and arrays, at most {MAX_CONTAINERS} are taken. Send less in one call."
        )
        raise NotJson(message)
    try:
        if _SURROGATE.search(text):
            text = without_half_pairs(text)
        # Python's float is ten times as fast as one of ours that looks whether it is infinite.
        decoder = _CAREFUL if _may_be_infinite(text) else _QUICK
        value: JsonValue = decoder.decode(text)
        return value
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20].replace("\n", " ")
        message = f"{error.msg} at line {error.lineno} column {error.colno}, near: …{near}…"
        raise NotJson(message) from None
    except (ValueError, RecursionError) as error:
        message = f"{error}."
        raise NotJson(message) from None


def _may_be_infinite(text: str) -> bool:
    if ("e" in text or "E" in text) and _LARGE_EXPONENT.search(text):
        return True
    for place in range(
        _MANY_DIGITS - 1, len(text), _MANY_DIGITS
    ):  # so many digits in a row cover one of these
        found = _DIGITS.match(text, place, place + _MANY_DIGITS)
        if found:
            before = text[place - _MANY_DIGITS + 1 : place]
            if len(before) - len(before.rstrip("0123456789")) + found.end() - place >= _MANY_DIGITS:
                return True
    return False


def _containers_in(text: str) -> int:
    """Count what begins an object or an array; marks in texts count only where they decide nothing."""
    count = text.count("{") + text.count("[")
    if count <= MAX_CONTAINERS:
        return count
    outside = _TEXTS.sub("", text)
    return outside.count("{") + outside.count("[")


def without_half_pairs(text: str) -> str:
    """Put U+FFFD where a JSON text has half of a surrogate pair, bare or escaped.

    In the text, because to go through what it says takes a hundred times as long.
    """
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _ESCAPE.sub(lambda found: found[1] or "\\ufffd", whole)


def json_kind_of(value: JsonValue) -> str:
    """Name the kind of a value, for a sentence."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "a number"


def _refuse_constant(name: str) -> JsonValue:
    message = f"{name} is not JSON"
    raise ValueError(message)


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        message = f"{digits[:20]} is too large for a number"
        raise ValueError(message)
    return value


_CAREFUL: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_QUICK: Final = json.JSONDecoder(parse_constant=_refuse_constant)
"""Kept, because `json.loads` with these makes one per call."""
