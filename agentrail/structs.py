"""Base classes of events, signals, messages and their parts: frozen msgspec Structs.

Unknown fields are rejected, so that reading a newer version fails. `gc=False`: frozen values that only point downwards form no cycle.
"""

import re
from collections.abc import Callable
from functools import partial
from itertools import repeat
from threading import RLock
from typing import Annotated, Any, Final, TypeAlias, TypeVar, overload

import msgspec

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

END_OF_CALENDAR_MS: Final = 253_402_300_800_000
"""The end of the year 9999, in milliseconds since 1970. Python has no later dates."""

CalendarTime: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=END_OF_CALENDAR_MS)]
"""A time that has a date, in milliseconds since 1970."""

MAX_SAFE_NUMBER: Final = 2**53 - 1
"""The largest number that every reader of JSON keeps exactly. A column of a store has room for more."""

SafeNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_NUMBER)]

_BUILDING: Final = RLock()
"""Held while msgspec builds the table of a type.

msgspec 0.22 publishes the table of a class before its fields are filled in. Another thread that decodes the class at that
moment follows a null pointer, and the process dies of SIGSEGV. docs/explanation/dependencies.md has the report.
"""


@overload
def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]: ...
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a JSON decoder of a type, with all its tables built. Nothing else in the package creates typed decoders."""
    with _BUILDING:
        return msgspec.json.Decoder(kind)


@overload
def converter_of(kind: type[T], *, str_keys: bool = False) -> Callable[[Any], T]: ...
@overload
def converter_of(kind: Any, *, str_keys: bool = False) -> Callable[[Any], Any]: ...
def converter_of(kind: Any, *, str_keys: bool = False) -> Callable[[Any], Any]:
    """Return the `msgspec.convert` of a type, with all its tables built."""
    with _BUILDING:
        msgspec.msgpack.Decoder(kind)  # unlike the one for JSON, it accepts keys of every type
    return partial(msgspec.convert, type=kind, str_keys=str_keys)


def tag_name(name: str) -> str:
    """Return a class's name in snake_case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Value(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A value that is not part of a union."""


def always_encoded(default: T) -> T:
    """Return a field of a Struct with `omit_defaults` that is encoded even if it has its default."""
    return msgspec.field(default_factory=repeat(default).__next__)  # without a frame, unlike a lambda


class TaggedValue(Value, frozen=True, tag_field="kind", tag=tag_name):
    """A member of a closed union, with a tag on the wire."""


def struct_from(kind: type[S], source: object, /, **changes: Any) -> S:
    """Create a value from the attributes of another one, by name. `changes` has the fields that differ."""
    names = [name for name in kind.__struct_fields__ if name not in changes]
    return kind(**picked_fields(source, *names), **changes)


def picked_fields(source: object, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def name_of_class(value: object) -> str:
    """Encode an object that is not JSON, such as a `Secret`: nothing about it is shown except its class."""
    return f"{type(value).__name__}(…)"


def replace(value: S, /, **changes: Any) -> S:
    """Return a copy of a value with some fields changed.

    Args:
        value: An event, a message, or a part of one, which stays unchanged.
        changes: The changed fields by name, frozen and validated as in the constructor.

    Returns:
        A value of the same class. An event keeps its `meta`, unless changed.

    Raises:
        TypeError: Your move: no such field, or not one of these.
    """
    given: object = value
    if not isinstance(given, msgspec.Struct):
        message = f"replace() was given {type(given).__name__}: expected an event, a message, or a part of one; for options and other attrs classes, use attrs.evolve"
        raise TypeError(message)
    return msgspec.structs.replace(value, **changes)
