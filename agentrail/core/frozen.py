"""JSON that nobody can change: what plugins are shown of arguments, options and an application's own data.

Dictionaries and lists that refuse to be written to, rather than a mapping proxy and tuples: they are still what JSON
libraries and `isinstance` take for JSON, and a proxy lets whoever holds it write to what lies deeper.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, cast

from agentrail.messages import JsonObject

_SCALARS: Final = frozenset({str, int, bool, type(None)})


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    message = (
        f"{type(self).__name__} cannot be changed: make a new value, such as {{**arguments, 'key': value}}"
    )
    raise TypeError(message)


class FrozenDict(dict[str, Any]):
    """A JSON object that cannot be changed. `dict(it)` is a copy that can."""

    __slots__ = ()

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __deepcopy__(self, memo: object) -> Any:
        """Make a copy that can be changed, all the way down: who asks for a copy wants to write to it."""
        return thawed(self)


class FrozenList(list[Any]):
    """A JSON array that cannot be changed. `list(it)` is a copy that can."""

    __slots__ = ()

    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __iadd__ = __imul__ = _refuse

    def __deepcopy__(self, memo: object) -> Any:
        """Make a copy that can be changed, all the way down."""
        return thawed(self)


def frozen_json(value: JsonObject) -> JsonObject:
    """Freeze a JSON object, all the way down. Free of cost for one that is frozen already."""
    return cast("JsonObject", _frozen(value))


def thawed(value: Any) -> Any:
    """Make a copy that can be changed, all the way down; what is no dictionary or list stays as it is."""
    match value:
        case Mapping():
            return {name: thawed(item) for name, item in value.items()}
        case list():
            return [thawed(item) for item in value]
        case _:
            return value


def not_json(value: object, where: str = "$") -> str | None:
    """Say what keeps a value from being JSON, and where; None when nothing does.

    Tuples count as arrays. Numbers that JSON has no word for (infinite ones, and those that are none) are refused.
    """
    if type(value) in _SCALARS:
        return None
    match value:
        case float():
            return None if math.isfinite(value) else f"{where} is {value}, which JSON cannot say"
        case str():  # an enumeration whose members are texts, say
            return None
        case Mapping():
            for name, item in value.items():
                if not isinstance(name, str):
                    return f"{where} has the key {name!r}; keys are text"
                fault = not_json(item, f"{where}.{name}")
                if fault is not None:
                    return fault
            return None
        case list() | tuple():
            return next(
                (
                    fault
                    for position, item in enumerate(value)
                    if (fault := not_json(item, f"{where}[{position}]")) is not None
                ),
                None,
            )
        case _:
            return f"{where} is a {type(value).__name__}, which is no JSON"


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


def _frozen(value: object) -> object:
    match value:
        case FrozenDict() | FrozenList():
            return value
        case Mapping():
            return FrozenDict((name, _frozen(item)) for name, item in value.items())
        case list() | tuple():
            return FrozenList(map(_frozen, value))
        case _:
            return value
