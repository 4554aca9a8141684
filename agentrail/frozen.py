"""JSON that cannot be changed, all the way down: what a session keeps, shows and hands out is made of it.

Frozen once, where it enters, in one pass; who is given a frozen value shares it, and pays nothing. Dictionaries and lists
that refuse to be written to, rather than a mapping proxy and tuples: they are still what JSON libraries, `isinstance` and
`match` take for JSON, and a proxy lets the holder of what lies behind it write there.

No message, event or state enters this file.
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
    # One level deep, because what makes decoders and schemas of annotations does not follow an alias into itself.
    JsonValue = str | int | float | bool | list[Any] | dict[str, Any] | None
JsonObject: TypeAlias = Mapping[str, JsonValue]

MAX_CONTAINERS: Final = 50_000
"""How many objects and arrays a value from outside may have: each is made anew where it enters, while others wait."""
MAX_COPIED_CHARACTERS: Final = 1_000_000
"""How many characters: an encoder that has begun lets no other task run."""
MAX_LEVELS: Final = 128
"""How deeply JSON may be nested. Every encoder, comparison and validator goes down by calling itself, so what one of them
can still read another one may not; this is not written by hand, and not read by people."""
MAX_RECORD_LEVELS: Final = 2 * MAX_LEVELS
"""Nesting limit of a record's body, which holds values of up to `MAX_LEVELS` each."""


class TooDeep(RecursionError):
    """A value is nested more deeply than `MAX_LEVELS`, or holds itself. Whose move it is depends on where it came from."""


_Refusal: TypeAlias = Callable[..., NoReturn]
"""Said of each of them, because what a type checker infers another one may infer otherwise."""


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    message = (
        f"{type(self).__name__} cannot be changed: make a new value, such as {{**arguments, 'key': value}}"
    )
    raise TypeError(message)


def _refuse_class(cls: type) -> NoReturn:
    message = (
        f"{cls.__name__} cannot be derived from what cannot be changed: hold one, and derive from nothing"
    )
    raise TypeError(message)


class FrozenDict(dict[str, Any]):
    """A JSON object that cannot be changed. `dict(it)` is a copy that can, of the first level; `copy.deepcopy` of all."""

    __slots__ = ()

    def __new__(cls, *given: Any, **named: Any) -> "FrozenDict":  # noqa: PYI034 - no class derives from it
        """Take what `dict` takes, frozen all the way down."""
        return cast("FrozenDict", _frozen(dict(*given, **named), MAX_LEVELS))

    def __init__(self, *_given: Any, **_named: Any) -> None:
        """Do nothing: `dict` would take this for another way of writing."""

    __setitem__: _Refusal = _refuse
    __delitem__: _Refusal = _refuse
    clear: _Refusal = _refuse
    pop: _Refusal = _refuse
    popitem: _Refusal = _refuse
    setdefault: _Refusal = _refuse
    update: _Refusal = _refuse
    __ior__: _Refusal = _refuse
    __setattr__: _Refusal = _refuse  # `__class__` is an attribute too
    __delattr__: _Refusal = _refuse

    def __init_subclass__(cls) -> NoReturn:
        """Refuse: a class of this one could write again."""
        _refuse_class(cls)

    def __hash__(self) -> int:  # type: ignore[override]  # `dict` says that it has none
        """Hash by the content, which never changes; so frozen values that hold it can stand in sets."""
        return hash(frozenset(self.items()))

    def __copy__(self) -> dict[str, Any]:
        """Make a copy that can be changed, as `copy` and `dict` do; what lies deeper is shared."""
        return dict(self)

    def __deepcopy__(self, memo: object) -> Any:
        """Make a copy that can be changed, all the way down: who asks for a copy wants to write to it."""
        return thawed(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Come back from a pickle as it went in."""
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A JSON array that cannot be changed. `list(it)` is a copy that can, of the first level; `copy.deepcopy` of all."""

    __slots__ = ()

    def __new__(cls, given: Any = ()) -> "FrozenList":  # noqa: PYI034 - no class derives from it
        """Take what `list` takes, frozen all the way down."""
        return cast("FrozenList", _frozen(list(given), MAX_LEVELS))

    def __init__(self, *_given: Any) -> None:
        """Do nothing: `list` would take this for another way of writing."""

    __setitem__: _Refusal = _refuse
    __delitem__: _Refusal = _refuse
    append: _Refusal = _refuse
    clear: _Refusal = _refuse
    extend: _Refusal = _refuse
    insert: _Refusal = _refuse
    pop: _Refusal = _refuse
    remove: _Refusal = _refuse
    reverse: _Refusal = _refuse
    sort: _Refusal = _refuse
    __iadd__: _Refusal = _refuse
    __imul__: _Refusal = _refuse
    __setattr__: _Refusal = _refuse
    __delattr__: _Refusal = _refuse

    def __init_subclass__(cls) -> NoReturn:
        """Refuse: a class of this one could write again."""
        _refuse_class(cls)

    def __hash__(self) -> int:  # type: ignore[override]  # `list` says that it has none
        """Hash by the content."""
        return hash(tuple(self))

    def __copy__(self) -> list[Any]:
        """Make a copy that can be changed; what lies deeper is shared."""
        return list(self)

    def __deepcopy__(self, memo: object) -> Any:
        """Make a copy that can be changed, all the way down."""
        return thawed(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Come back from a pickle as it went in."""
        return FrozenList, (list(self),)


def frozen_json(value: JsonObject, *, max_levels: int = MAX_LEVELS) -> JsonObject:
    """Freeze a JSON object, all the way down. Free of cost for one that is frozen already.

    Tuples become arrays. What is a text, a number, a set or a buffer of another class becomes a plain one, which has no
    attributes that could be set. What is no JSON at all, such as a `Secret` among an application's own data, stays
    the object that it is: `not_json` finds those, where they must not be.

    Args:
        value: The object.
        max_levels: How deeply it may be nested.

    Raises:
        TooDeep: It is nested more deeply than that, or holds itself.
    """
    return value if type(value) is FrozenDict else cast("JsonObject", _frozen(value, max_levels))


def frozen_value(value: JsonValue) -> JsonValue:
    """Freeze any JSON value, as `frozen_json` does."""
    return value if type(value) in _FROZEN else cast("JsonValue", _frozen(value, MAX_LEVELS))


def frozen_or_none(value: JsonObject | None) -> JsonObject | None:
    """Freeze a JSON object where there is one."""
    return value if type(value) in _FROZEN else cast("JsonObject | None", _frozen(value, MAX_LEVELS))


def thawed(value: Any) -> Any:
    """Make a copy that can be changed, all the way down; what is no dictionary or list stays as it is."""
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
    """Say what keeps a value from being JSON, and where; None when nothing does.

    Tuples count as arrays. Numbers that JSON has no word for (infinite ones, and those that are none) are refused, and so is
    what `frozen_json` would find too deep.
    """
    return _fault_in(value, where, MAX_LEVELS)


def too_large(value: object, *, max_characters: int = MAX_COPIED_CHARACTERS) -> str | None:
    """Say that a value is too large to be copied while others wait; None where it is not. Stops where it knows."""
    left, containers, characters = [value], 0, 0
    while left:
        one = left.pop()
        if isinstance(one, str):
            characters += len(one)
        elif isinstance(one, Mapping | list | tuple):
            containers += 1
            characters += len(one)
            # Nothing is gathered of what is too large already.
            if containers <= MAX_CONTAINERS and characters <= max_characters:
                left += (*one.keys(), *one.values()) if isinstance(one, Mapping) else one
        if characters > max_characters:
            return f"more than {max_characters:,} characters"
        if containers > MAX_CONTAINERS:
            return f"more than {MAX_CONTAINERS:,} objects and arrays"
    return None


def canonical_json(value: object) -> bytes:
    """Encode JSON in the one form that is hashed and measured: UTF-8, sorted keys, no spaces.

    Half of a character, which no UTF-8 can hold, is written as the escape that JSON has for it.
    """
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def same_json(one: object, other: object) -> bool:
    """Compare as JSON does: `1`, `1.0` and `true` are three values, though Python calls them equal."""
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
"""Classes whose instances are as they should be. No subclass of one is: it may have attributes, or methods of its own."""


def _frozen(value: Any, levels: int) -> object:
    """Freeze a value; reads every container once, and as it stands at one moment, also when it is written to meanwhile."""
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
        case enum.Enum():  # one object for all who name it, and JSON libraries know it
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
"""Of a whole number: Python writes no more than 4,300 digits, and takes longer and longer for them."""


def _fault_in(value: object, where: str, levels: int) -> str | None:
    if type(value) in _SCALARS and type(value) is not int:
        return None
    match value:
        case int():
            return None if value.bit_length() <= _MAX_BITS else f"{where} is a number of too many digits"
        case float():
            return None if math.isfinite(value) else f"{where} is {value}, which JSON cannot say"
        case str():  # an enumeration whose members are texts, say
            return None
        case Mapping() | list() | tuple() if not levels:
            return f"{where} is nested more deeply than {MAX_LEVELS} levels"
        case Mapping():
            for name, item in value.items():
                if not isinstance(name, str):
                    return f"{where} has the key {name!r}; keys are text"
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
            return f"{where} is a {type(value).__name__}, which is no JSON"


EMPTY: Final[JsonObject] = FrozenDict()
"""The object with nothing in it, which all may share."""
