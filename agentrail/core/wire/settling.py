"""What is stepped is what its bytes say: a signal that no journal could hold as it is becomes the one that comes back from it. Pure.

A journal keeps signals as JSON, and the state is what they come to, so a value that JSON changes must have been changed before it
was stepped. That is done here, in front of each step, whatever door a value came in by: half of a character, a number that is
none, a set, an object. Nearly every signal has nothing of that, is looked at once, not written, and given back as it is.
"""

# not compiled: it goes as deep as what it is given, and only interpreted functions end with a RecursionError

import base64
import enum
import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import astuple, fields, replace

from agentrail.core.policy.budget import Budget
from agentrail.core.protocol import signals
from agentrail.core.protocol.request import TextDelta
from agentrail.events import Envelope
from agentrail.frozen import FrozenDict, FrozenList, frozen_value

S = TypeVar("S", bound=msgspec.Struct)

MAX_BITS: Final = 9_900
"""Of a whole number: about as many as can be written and read."""

_AS_IS: Final[frozenset[type]] = frozenset({bool, type(None)})


def settled(signal: S) -> S:
    """Give a signal that comes back from its bytes as it is: mostly the very one.

    Half of a character becomes U+FFFD, two halves that belong together the character that they mean; a number that JSON has no word
    for becomes null, or what its field holds by default; a tuple or a set in JSON becomes an array; what is no JSON at all the
    name of its class, because nothing else may be told of an object.
    """
    if type(signal) in _OF_THE_SHELL:
        return signal
    changes: dict[str, Any] | None = None
    for place, item in enumerate(astuple(signal)):
        kind = type(item)
        if kind is str:
            if item.isascii():
                continue
        elif kind in _AS_IS or (kind is int and item.bit_length() <= MAX_BITS):
            continue
        made = _settled(item)
        if made is not item:
            field = fields(signal)[place]
            if made is None and type(item) is float:
                made = (
                    field.default
                    if isinstance(field.default, float)
                    else None
                    if field.default is None
                    else 0.0
                )
            changes = changes or {}
            changes[field.name] = made
    return signal if changes is None else replace(signal, **changes)


_OF_THE_SHELL: Final[frozenset[type]] = frozenset(
    {
        signals.SessionBegan,
        signals.StreamStarted,
        signals.TimerFired,
        signals.ReplyQuery,
        signals.StatusQuery,
        signals.MessagesQuery,
        signals.SnapshotQuery,
    }
)
"""Signals of ids and numbers that the shell alone mints: there is nothing to look for."""


def mended_text(text: str) -> str:
    """Give a text that UTF-8 can hold; one that it can is given back as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, where two halves that belong together become the one character that they mean.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _settled(value: Any) -> Any:
    """Settle what stands in a field; inside of JSON it is all JSON."""
    kind = type(value)
    if kind is TextDelta and value.text.isascii():  # one for each word of a model
        return value
    if kind is tuple:
        return _each(value)
    if kind is frozenset:
        members = [_settled(member) for member in value]
        return value if all(one in value for one in members) else frozenset(members)
    if isinstance(value, msgspec.Struct):
        return settled(value)
    if isinstance(
        value, Envelope | Budget
    ):  # made by the core, of ids of the shell; and judged where it was made
        return value
    return _json(value)


def _each(values: tuple[Any, ...]) -> tuple[Any, ...]:
    made = [_settled(item) for item in values]
    for one, other in zip(made, values, strict=True):
        if one is not other:
            return tuple(made)
    return values


def _json(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else mended_text(value)
    if kind in _AS_IS:
        return value
    if kind is int:
        return value if value.bit_length() <= MAX_BITS else "[a number of too many digits]"
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is FrozenDict or isinstance(value, Mapping):
        return _json_object(value)
    if kind is FrozenList or isinstance(value, list | tuple):
        return _json_array(value)
    return _no_json(value)


def _json_object(value: Mapping[Any, Any]) -> Any:
    made: dict[str, Any] = {}
    is_same = True
    for name, item in value.items():
        key = name if type(name) is str and name.isascii() else _key(name)
        made[key] = one = _json(item)
        is_same = is_same and key is name and one is item
    return value if is_same else frozen_value(made)


def _json_array(value: Any) -> Any:
    made = [_json(item) for item in value]
    is_same = type(value) is not tuple and all(one is other for one, other in zip(made, value, strict=True))
    return value if is_same else frozen_value(made)


def _key(name: Any) -> str:
    made = _json(name)
    return made if isinstance(made, str) else msgspec.json.encode(made).decode()


def _no_json(value: Any) -> Any:
    match value:
        case enum.Enum():
            return _json(value.value)
        case str():
            return _json(str.__str__(value))
        case int():
            return _json(int.__int__(value))
        case float():
            return _json(float.__float__(value))
        case set() | frozenset():
            in_order = sorted(value, key=lambda member: msgspec.json.encode(_json(member)))
            return frozen_value([_json(member) for member in in_order])
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case _:
            return f"[no JSON: {type(value).__name__}]"
