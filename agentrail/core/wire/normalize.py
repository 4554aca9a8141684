"""Normalisation of signals to what their JSON form can represent, so that replay is exact. Pure."""

# not compiled: it recurses as deep as its input, and only interpreted functions end with a RecursionError

import base64
import enum
from collections.abc import Callable, Mapping
from math import isfinite
from operator import attrgetter, is_
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import fields, replace

from agentrail.core.policy.budget import Budget
from agentrail.core.protocol import signals
from agentrail.core.protocol.request import TextDelta
from agentrail.core.protocol.signal_base import Stamped
from agentrail.events import Envelope
from agentrail.frozen import FrozenDict, FrozenList, frozen_value
from agentrail.messages import AssistantMessage, Text, TokenUsage, ToolCall

S = TypeVar("S", bound=msgspec.Struct)

MAX_BITS: Final = 9_900
"""Maximum size of a whole number, in bits: about the largest that can be written and read."""

_AS_IS: Final[frozenset[type]] = frozenset({bool, type(None)})
_PRICES: Final[frozenset[type]] = frozenset({float, type(None)})


def settled(signal: S) -> S:
    """Return a signal that decodes from its bytes unchanged, usually the same object.

    Half of a surrogate pair becomes U+FFFD, and two matching halves become their character. A number that JSON
    cannot represent becomes null, or the default of its field. A tuple or a set in JSON becomes an array. Any other
    object becomes the name of its class, because nothing else about it may be revealed.
    """
    if type(signal) in _OF_THE_SHELL:
        return signal
    place = _PLACES.get(type(signal)) or _places_of(type(signal))
    # Every signal passes here, and nearly all of it is ASCII text, so that is checked first, and inline.
    # Rejected: selecting texts and numbers by class for C code. It executes a third less, and takes half as
    # long again.
    for item in place.read(signal):
        kind = type(item)
        if kind is str:
            if item.isascii():
                continue
        elif (
            item is None
            or (kind is int and item.bit_length() <= MAX_BITS)
            or (kind is tuple and not item)
            or (kind is float and isfinite(item))
        ):
            continue
        how = _BY_CLASS.get(kind)
        if (_settled(item) if how is None else how(item)) is not item:
            break
    else:
        return signal
    changes = {}
    for name, item in zip(place.names, place.read(signal), strict=True):
        made = _settled(item)
        if made is not item:
            changes[name] = place.default_of(name) if made is None and type(item) is float else made
    return replace(signal, **changes)


class _Places:
    """The fields of one class of signals, messages or blocks that JSON might change."""

    __slots__ = ("_defaults", "names", "read")

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        found = fields(kind)
        minted = MINTED if issubclass(kind, Stamped) else frozenset()
        self.names = tuple(
            [field.name for field in found if field.type is not bool and field.name not in minted]
        )
        self._defaults = {field.name: field.default for field in found}
        self.read: Callable[[Any], tuple[Any, ...]]
        match self.names:
            case ():
                self.read = lambda _: ()
            case (name,):
                one = attrgetter(name)
                self.read = lambda struct: (one(struct),)
            case _:
                self.read = attrgetter(*self.names)

    def default_of(self, name: str) -> float | None:
        """Return the replacement of a number that is not finite."""
        default = self._defaults[name]
        return default if isinstance(default, float) else None if default is None else 0.0


MINTED: Final = frozenset({"at_ms", "effect_id", "signal_id"})
"""Fields of signals that only the shell writes: ids, and the time. They need no check."""

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
"""Signals that have no other fields."""

_PLACES: Final[dict[type, _Places]] = {}


def _places_of(kind: type[msgspec.Struct]) -> _Places:
    places = _PLACES[kind] = _Places(kind)
    return places


def mended_text(text: str) -> str:
    """Return a text that UTF-8 can represent. A valid text is returned as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, where two matching halves become their character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def mended(value: object, mend: Callable[[str], str] = mended_text) -> object:
    """Return a value whose texts UTF-8 can represent."""
    match value:
        case str():
            return mend(value)
        case Mapping():
            return {mended(name, mend): mended(item, mend) for name, item in value.items()}
        case list() | tuple():
            return [mended(item, mend) for item in value]
        case _:
            return value


def _settled(value: Any) -> Any:
    """Normalise the value of a field. Everything inside of JSON is JSON."""
    how = _BY_CLASS.get(type(value))
    if how is not None:
        return how(value)
    if isinstance(value, msgspec.Struct):
        return settled(value)
    return _json(value)


def _as_it_is(value: Any) -> Any:
    return value


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def _settled_delta(delta: TextDelta) -> TextDelta:
    return delta if delta.text.isascii() else settled(delta)


def _settled_text(block: Text) -> Text:
    given: Any = block.text  # its annotation is in doubt
    return block if type(given) is str and given.isascii() else settled(block)


def _members(values: Any) -> Any:  # sets stay sets, so there is no order to lose
    members = [_settled(member) for member in values]
    return values if all(one in values for one in members) else frozenset(members)


def _settled_usage(usage: TokenUsage) -> TokenUsage:
    # It refuses negative numbers and invalid prices. The remaining case is a server that counts in another
    # type.
    counts: Any = usage.input + usage.output + usage.cache_read + usage.cache_write + usage.reasoning
    is_sound = type(counts) is int and counts.bit_length() <= MAX_BITS and type(usage.cost_usd) in _PRICES
    return usage if is_sound else settled(usage)


def _each(values: tuple[Any, ...]) -> tuple[Any, ...]:
    made = tuple(map(_settled, values))
    return values if all(map(is_, made, values)) else made


def _json(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else mended_text(value)
    if kind in _AS_IS:
        return value
    if kind is int:
        return value if value.bit_length() <= MAX_BITS else "[a number of too many digits]"
    if kind is float:
        return _number(value)
    if kind is FrozenDict or isinstance(value, Mapping):
        return _json_object(value)
    if kind is FrozenList or isinstance(value, list | tuple):
        made = [_json(item) for item in value]
        is_same = type(value) is not tuple and all(map(is_, made, value))
        return value if is_same else frozen_value(made)
    return _no_json(value)


def _json_object(value: Mapping[Any, Any]) -> Any:
    # Each part once: a second look at a changed part would double the work on every level.
    names, items = [*map(_json, value)], [*map(_json, value.values())]
    is_same = all(map(is_, names, value)) and all(map(is_, items, value.values()))
    if is_same and {*map(type, value)} <= {str}:
        return value
    return frozen_value(dict(zip(map(_key, value), items, strict=True)))


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


_BY_CLASS: Final[Mapping[type, Callable[[Any], Any]]] = MappingProxyType(
    {
        TextDelta: _settled_delta,  # one for each word of a model
        TokenUsage: _settled_usage,  # one for each response
        AssistantMessage: settled,
        Text: _settled_text,
        ToolCall: settled,
        float: _number,
        tuple: _each,
        frozenset: _members,
        FrozenDict: _json_object,
        dict: _json_object,
        # Made by the core from the shell's ids, and validated there.
        Envelope: _as_it_is,
        Budget: _as_it_is,
    }
)
"""Normalisers of the most frequent classes. All other values are structs or JSON, and take a longer check."""
