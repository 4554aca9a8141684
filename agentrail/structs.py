"""What events, signals, messages and all that they are made of are: frozen msgspec Structs, written and read as they are.

Refusing unknown fields, so that reading one of a newer version says so; hidden from the cyclic collector (`gc=False`),
because frozen values that point downwards only can form no cycle. No value enters this file, only what they have in common.
"""

import re
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any, Final, TypeVar, overload

import msgspec

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

_BUILDING: Final = RLock()
"""Held while msgspec builds the table of a type.

msgspec 0.22 publishes the table of a class before its fields are filled in. Another thread that decodes the class at that moment follows
a null pointer, and the process dies of SIGSEGV. docs/explanation/dependencies.md has the report.
"""


@overload
def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]: ...
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Make a JSON decoder of a type, with all its tables built. The only place in the package that makes typed decoders.

    Types of agentrail get theirs when their module is imported. Types of an application are passed here for each use, since they become
    known at run time; tables that exist are not built again.
    """
    with _BUILDING:
        return msgspec.json.Decoder(kind)


@overload
def converter_of(kind: type[T], *, str_keys: bool = False) -> Callable[[Any], T]: ...
@overload
def converter_of(kind: Any, *, str_keys: bool = False) -> Callable[[Any], Any]: ...
def converter_of(kind: Any, *, str_keys: bool = False) -> Callable[[Any], Any]:
    """Make the `msgspec.convert` of a type, with all its tables built: see `decoder_of`."""
    with _BUILDING:
        msgspec.msgpack.Decoder(kind)  # unlike the one for JSON, it takes keys of every type
    return partial(msgspec.convert, type=kind, str_keys=str_keys)


def tag_name(name: str) -> str:
    """Give what tells a class apart on the wire: its name in snake_case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Value(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A value that is alone in its place."""


class TaggedValue(Value, frozen=True, tag_field="kind", tag=tag_name):
    """A value that stands in a closed union, and says on the wire which member it is."""


def replace(value: S, /, **changes: Any) -> S:
    """Make a value like another one, but for some fields.

    Args:
        value: An event, a message, or a part of one. It stays as it is: all of them are frozen.
        changes: The fields that differ, by name. What freezes or counts them when such a value is made does so here too.

    Returns:
        A value of the same class. An event keeps its `meta`, unless that is among the changes.

    Raises:
        TypeError: Your move: this class has no such field, or it is none of these values.
    """
    given: object = value
    if not isinstance(given, msgspec.Struct):
        message = (
            f"replace() was given {type(given).__name__}: expected an event, a message, or a part of one; "
            "options and other attrs classes are for attrs.evolve"
        )
        raise TypeError(message)
    return msgspec.structs.replace(value, **changes)
