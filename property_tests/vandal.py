"""Somebody who edits whatever comes into reach, and a portrait of a state to see whether it helped.

By ordinary means: items, attributes, methods that write. Names that begin with an underscore belong to their owner, and
`object.__setattr__` or `dict.__setitem__` on a foreign object is no accident; those are left alone here, as everywhere.
"""

import contextlib
import enum
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from typing import Any, Final

import attrs
import msgspec

from agentrail.core.session.open_calls import OpenCalls
from agentrail.core.values.history import GrowingSet, History, Log
from agentrail.core.values.toolbox import Toolbox

_LEAVES: Final = (
    str,
    bytes,
    int,
    float,
    bool,
    type(None),
    enum.Enum,
    type,
    types.FunctionType,
    types.ModuleType,
)

# What can be called on a container to write to it, with arguments that would do so.
_WRITES: Final[tuple[tuple[str, tuple[object, ...]], ...]] = (
    ("__setitem__", ("edited", 1)),
    ("__setitem__", (0, "edited")),
    ("__setitem__", (slice(None), [])),
    ("__delitem__", (0,)),
    ("update", ({"edited": True},)),
    ("setdefault", ("edited", 1)),
    ("__ior__", ({"edited": 1},)),
    ("__iadd__", (["edited"],)),
    ("__imul__", (2,)),
    ("append", ("edited",)),
    ("extend", (["edited"],)),
    ("insert", (0, "edited")),
    ("add", ("edited",)),
    ("__init__", ([("edited", 1)],)),
    ("reverse", ()),
    ("sort", ()),
    ("popitem", ()),
    ("pop", ()),
    ("clear", ()),
)


def edit_everything(*roots: object) -> int:
    """Write to everything that can be reached; say to how many objects that was tried.

    What cannot be written to raises, and that is what it should do.
    """
    found = everything_in(roots)
    for one in found:
        _write_to(one)
    return len(found)


def everything_in(roots: Iterable[object]) -> list[object]:
    """Give all that can be reached, each object once."""
    seen: dict[int, object] = {}
    waiting: list[object] = list(roots)
    while waiting:
        found = waiting.pop()
        if isinstance(found, _LEAVES) or callable(found) or id(found) in seen:
            continue
        seen[id(found)] = found  # kept, or another object might get its id
        waiting += _inside(found)
    return list(seen.values())


def _write_to(found: Any) -> None:
    for name in _names_in(found):
        _try(setattr, found, name, "edited")
        _try(delattr, found, name)
    _try(setattr, found, "edited", 1)
    _try(setattr, found, "__class__", _Other)
    if isinstance(found, Mapping):
        writable: Any = found
        for key in list(found):
            _try(operator.setitem, writable, key, "edited")
            _try(operator.delitem, writable, key)
            _try(lambda key=key: writable.pop(key))
    if isinstance(found, Mapping | list | AbstractSet | bytearray | memoryview):
        for name, arguments in _WRITES:
            _try(lambda name=name, arguments=arguments: getattr(found, name)(*arguments))


class _Other(dict[str, Any]):
    __slots__ = ()


def _try(write: Callable[..., object], *arguments: object) -> None:
    with contextlib.suppress(Exception):
        write(*arguments)


def _inside(found: Any) -> Iterator[object]:
    """Give what can be reached from an object in one step."""
    if isinstance(found, Mapping):
        yield from (*found.keys(), *found.values())
    elif isinstance(found, Iterable) and not isinstance(found, Iterator):
        with contextlib.suppress(TypeError):
            yield from found
    for name in _names_in(found):
        with contextlib.suppress(Exception):  # a property of somebody else's object may raise anything
            yield getattr(found, name)


def _names_in(found: object) -> tuple[str, ...]:
    names: list[str] = list(getattr(found, "__dict__", ()))
    for kind in type(found).__mro__:
        names += vars(kind).get("__slots__", ())
        names += [name for name, member in vars(kind).items() if isinstance(member, property)]
    names += getattr(found, "__struct_fields__", ())
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


def portrait(value: Any) -> object:
    """Draw a value, all of it, as plain tuples that share nothing with it."""
    match value:
        case str() | bytes() | int() | float() | None | enum.Enum():
            return (type(value).__name__, repr(value))
        case Log() | tuple() | list() | OpenCalls():
            return (type(value).__name__, *map(portrait, value))
        case GrowingSet():
            return ("GrowingSet", len(value))
        case frozenset():
            return ("frozenset", *sorted(map(repr, value)))
        case History():
            return ("History", portrait(value.messages), portrait(value.open))
        case Toolbox():
            return ("Toolbox", portrait(value.specs), value.generation)
        case Mapping():
            return ("Mapping", *((repr(name), portrait(item)) for name, item in value.items()))
        case msgspec.Struct():
            names = value.__struct_fields__
            return (type(value).__name__, *((name, portrait(getattr(value, name))) for name in names))
        case _ if attrs.has(type(value)):
            fields = [field.name for field in attrs.fields(type(value)) if field.init]
            return (type(value).__name__, *((name, portrait(getattr(value, name))) for name in fields))
        case _:
            return repr(value)
