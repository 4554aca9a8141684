"""Deeply immutable JSON, frozen once on entry.

Dictionaries and lists that reject writes, so that JSON libraries, `isinstance` and `match` accept them.
"""

import enum
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
else:
    # One level deep, because decoders and schema generators do not follow a recursive alias.
    JsonValue = str | int | float | bool | list[Any] | dict[str, Any] | None
JsonObject: TypeAlias = Mapping[str, JsonValue]

MAX_CONTAINERS: Final = 50_000
"""Maximum number of objects and arrays in an external value: each is copied on entry, while other tasks wait."""
MAX_COPIED_CHARACTERS: Final = 1_000_000
"""Maximum number of characters: a running encoder blocks all other tasks."""
MAX_LEVELS: Final = 128
"""Maximum nesting of JSON. Encoders, comparisons and validators are recursive, so a value that one of them can read may be
too deep for another. Hand-written JSON is never nested this deeply.
"""
MAX_RECORD_LEVELS: Final = 2 * MAX_LEVELS
"""Nesting limit of a record's body, which holds values of up to `MAX_LEVELS` each."""


class TooDeep(RecursionError):
    """A value exceeds `MAX_LEVELS` of nesting, or contains itself."""


_Refusal: TypeAlias = Callable[..., NoReturn]
"""Annotated on each of them, because type checkers infer different types."""


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    message = f"{type(self).__name__} is immutable: create a new value, such as {{**arguments, 'key': value}}"
    raise TypeError(message)


def _refuse_class(cls: type) -> NoReturn:
    message = f"{cls.__name__} cannot inherit from an immutable type: store one in a field instead"
    raise TypeError(message)


class _Immutable:
    """What both refuse, and how both are copied."""

    __slots__ = ()

    __setitem__: _Refusal = _refuse
    __delitem__: _Refusal = _refuse
    clear: _Refusal = _refuse
    pop: _Refusal = _refuse
    __setattr__: _Refusal = _refuse  # `__class__` is an attribute too
    __delattr__: _Refusal = _refuse

    def __deepcopy__(self, memo: object) -> Any:
        return thawed(self)


class FrozenDict(_Immutable, dict[str, Any]):
    """An immutable JSON object. `dict(it)` is a mutable copy of the first level, `copy.deepcopy(it)` of all."""

    __slots__ = ()

    def __new__(cls, *given: Any, **named: Any) -> "FrozenDict":  # noqa: PYI034 - no class derives from it
        return cast("FrozenDict", _frozen(dict(*given, **named), MAX_LEVELS))

    def __init__(self, *_given: Any, **_named: Any) -> None:
        """Do nothing: `dict` would treat it as another way to write."""

    popitem: _Refusal = _refuse
    setdefault: _Refusal = _refuse
    update: _Refusal = _refuse
    __ior__: _Refusal = _refuse

    def __init_subclass__(cls) -> NoReturn:
        _refuse_class(cls)

    def __hash__(self) -> int:  # type: ignore[override]  # `dict` says that it has none
        return hash(frozenset(self.items()))

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(_Immutable, list[Any]):
    """An immutable JSON array. `list(it)` is a mutable copy of the first level, `copy.deepcopy(it)` of all."""

    __slots__ = ()

    def __new__(cls, given: Any = ()) -> "FrozenList":  # noqa: PYI034 - no class derives from it
        return cast("FrozenList", _frozen(list(given), MAX_LEVELS))

    def __init__(self, *_given: Any) -> None:
        """Do nothing: `list` would treat it as another way to write."""

    append: _Refusal = _refuse
    extend: _Refusal = _refuse
    insert: _Refusal = _refuse
    remove: _Refusal = _refuse
    reverse: _Refusal = _refuse
    sort: _Refusal = _refuse
    __iadd__: _Refusal = _refuse
    __imul__: _Refusal = _refuse

    def __init_subclass__(cls) -> NoReturn:
        _refuse_class(cls)

    def __hash__(self) -> int:  # type: ignore[override]  # `list` says that it has none
        return hash(tuple(self))

    def __copy__(self) -> list[Any]:
        return list(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


def frozen_json(value: JsonObject, *, max_levels: int = MAX_LEVELS) -> JsonObject:
    """Freeze all levels of a JSON object. Free if already frozen.

    Tuples become arrays. Instances of subclasses of strings, numbers, sets or buffers become plain. Values that are not JSON stay the same objects (see
    `not_json`).

    Args:
        value: The object.
        max_levels: Maximum nesting.

    Raises:
        TooDeep: Nested more deeply, or contains itself.
    """
    return value if type(value) is FrozenDict else cast("JsonObject", _frozen(value, max_levels))


def frozen_value(value: JsonValue) -> JsonValue:
    return value if type(value) in _FROZEN else cast("JsonValue", _frozen(value, MAX_LEVELS))


def frozen_or_none(value: JsonObject | None) -> JsonObject | None:
    return value if type(value) in _FROZEN else cast("JsonObject | None", _frozen(value, MAX_LEVELS))


def thawed(value: Any) -> Any:
    """Return a mutable copy of all levels. Other values stay unchanged."""
    if type(value) in _SCALARS:  # before the match, whose check for mappings costs ten times as much
        return value
    match value:
        case FrozenDict() | Mapping():
            return {name: item if type(item) in _SCALARS else thawed(item) for name, item in value.items()}
        case list():
            return [thawed(item) for item in value]
        case _:
            return value


def not_json(value: object, where: str = "$") -> str | None:
    """Return why and where a value is not JSON, or None if it is.

    Tuples count as arrays. Infinite numbers, NaN and nesting that `frozen_json` rejects are faults.
    """
    return _fault_in(value, where, MAX_LEVELS)


def is_deeper(value: object, levels: int) -> bool:
    """Return whether containers are nested more deeply than this."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for one in level
            if isinstance(one, Mapping | list | tuple)
            for inner in (one.values() if isinstance(one, Mapping) else one)
            if isinstance(inner, Mapping | list | tuple)
        ]
    return bool(level)


def too_large(value: object, *, max_characters: int = MAX_COPIED_CHARACTERS) -> str | None:
    """Return an error if a value is too large to copy while other tasks wait. Stops at the limit."""
    left, containers, characters = [value], 0, 0
    while left:
        one = left.pop()
        if isinstance(one, str):
            characters += len(one)
        elif isinstance(one, Mapping | list | tuple):
            containers += 1
            characters += len(one)
            # Stop collecting once the value is too large.
            if containers <= MAX_CONTAINERS and characters <= max_characters:
                left += (*one.keys(), *one.values()) if isinstance(one, Mapping) else one
        if characters > max_characters:
            return f"more than {max_characters:,} characters"
        if containers > MAX_CONTAINERS:
            return f"more than {MAX_CONTAINERS:,} objects and arrays"
    return None


def canonical_json(value: object) -> bytes:
    """Encode JSON for hashes and sizes: UTF-8, sorted keys, no spaces.

    A lone surrogate becomes its JSON escape.
    """
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def same_json(one: object, other: object) -> bool:
    """Compare as JSON does: `1`, `1.0` and `true` differ."""
    if one is other:
        return True
    match one, other:
        case (Mapping(), Mapping()):
            return one.keys() == other.keys() and all(same_json(one[name], other[name]) for name in one)
        case (list() | tuple(), list() | tuple()):
            ours, theirs = cast("Sequence[object]", one), cast("Sequence[object]", other)
            return len(ours) == len(theirs) and all(map(same_json, ours, theirs))
        case _:
            return type(one) is type(other) and one == other


_TEXT: Final[frozenset[type]] = frozenset({str})
_SCALARS: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})
_FROZEN: Final[frozenset[type]] = _SCALARS | {float, bytes, FrozenDict, FrozenList}
"""Classes whose instances need no conversion. Subclasses are excluded: they may have attributes or methods of their own."""


def _frozen(value: Any, levels: int) -> object:
    """Freeze a value, reading every container once."""
    kind = type(value)
    if kind in _FROZEN:
        return value
    if kind is dict or isinstance(value, Mapping):
        _go_down(levels)
        new_dict = dict.__new__(FrozenDict)
        taken = dict(value) if kind is dict else dict(value.items())
        if _TEXT.issuperset(map(type, taken)) and _FROZEN.issuperset(map(type, taken.values())):
            dict.update(new_dict, taken)
            return new_dict
        dict.update(
            new_dict,
            {
                _key(name): item if type(item) in _FROZEN else _frozen(item, levels - 1)
                for name, item in taken.items()
            },
        )
        return new_dict
    if isinstance(value, list | tuple):
        _go_down(levels)
        new_list = list.__new__(FrozenList)
        items = tuple(value)
        if not _FROZEN.issuperset(map(type, items)):
            items = tuple([item if type(item) in _FROZEN else _frozen(item, levels - 1) for item in items])
        list.extend(new_list, items)
        return new_list
    return _plain(value)


def _go_down(levels: int) -> None:
    if not levels:
        message = f"nested more deeply than {MAX_LEVELS} levels"
        raise TooDeep(message)


def _key(name: Any) -> Any:
    return name if type(name) is str else _plain(name)


def _plain(value: Any) -> object:
    match value:
        case enum.Enum():  # one object for all its users, and JSON libraries support it
            return value
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case set() | frozenset():
            return frozenset(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case _:
            return value


_MAX_BITS: Final = 10_000
"""Size of an integer: Python writes at most 4,300 digits, and the time for them grows faster than their number."""


def _fault_in(value: object, where: str, levels: int) -> str | None:
    if type(value) in _SCALARS and type(value) is not int:
        return None
    match value:
        case int():
            return None if value.bit_length() <= _MAX_BITS else f"{where} is a number with too many digits"
        case float():
            return None if math.isfinite(value) else f"{where} is {value}, which JSON cannot represent"
        case str():  # such as an enumeration whose members are strings
            return None
        case Mapping() | list() | tuple() if not levels:
            return f"{where} is nested more deeply than {MAX_LEVELS} levels"
        case Mapping():
            for name, item in value.items():
                if not isinstance(name, str):
                    fault = _fault_in(name, f"a key of {where}", levels)
                    return fault or f"{where} has the key {name!r}; keys must be text"
                fault = _fault_in(item, f"{where}.{name}", levels - 1)
                if fault is not None:
                    return fault
            return None
        case list() | tuple():
            return next(
                (
                    fault
                    for position, item in enumerate(value)
                    if (fault := _fault_in(item, f"{where}[{position}]", levels - 1)) is not None
                ),
                None,
            )
        case _:
            return f"{where} is a {type(value).__name__}, which is not JSON"


EMPTY: Final[JsonObject] = FrozenDict()
"""The empty object, safe to share."""
