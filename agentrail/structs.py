"""What events, signals, messages and all that they are made of are: frozen msgspec Structs, written and read as they are.

Refusing unknown fields, so that reading one of a newer version says so; hidden from the cyclic collector (`gc=False`),
because frozen values that point downwards only can form no cycle. No value enters this file, only what they have in common.
"""

import re
from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


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
