"""Faults of a value, worded for a model, and the notation of types and paths in these messages."""

import re
from typing import Any, Final

from agentrail.core.values.bounded_schema import count_parts
from agentrail.otp.guarded_calls import repr_of

MAX_CLASS_REASON: Final = 500
"""Limit on the reason taken from a class of the application, in characters."""

MAX_SHOWN_OF_VALUE: Final = 200
"""Limit on a value of the model in a message, in characters. Otherwise a refusal could send a long answer back."""

MAX_TRIED_AGAIN: Final = 10_000
"""Decoding attempts allowed for one value beyond its size.

Classes with unions of classes with unions allow two to the power of the depth attempts, and a model chooses the
depth.
"""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODULES: Final = re.compile(r"\b(?:\w+\.)+(?=\w)")


class OutputFault(ValueError):
    """A value does not have its type. The message tells the model where, the expected type and the given value."""

    def __init__(self, reason: str, *, path: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class TooMuchDecoding(Exception):
    """A value would need more decoding attempts than allowed."""


class DecodingBudget:
    """Remaining decoding attempts for one value."""

    __slots__ = ("_left",)

    def __init__(self, value: object) -> None:
        """Allow each part of the value once, and `MAX_TRIED_AGAIN` repeated attempts."""
        self._left = count_parts(value) + MAX_TRIED_AGAIN

    def pay(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooMuchDecoding


def mismatch(came: object, *, expected: str, path: str) -> OutputFault:
    """Return the fault for JSON of another kind than expected."""
    return OutputFault(f"expected `{expected}`, got `{json_kind(came)}`", path=path)


def json_kind(value: object) -> str:
    """Return the kind of a JSON value, in msgspec's terms, which most of these messages use."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "str"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
        case _:
            return type(value).__name__


def member(path: str, name: str) -> str:
    return (
        f"{path}.{name:.{MAX_SHOWN_OF_VALUE}}"
        if _NAME.fullmatch(name)
        else f"{path}[{name!r:.{MAX_SHOWN_OF_VALUE}}]"
    )


def type_name(hint: Any) -> str:
    if hint is type(None):
        return "None"
    if isinstance(hint, type) and not hasattr(hint, "__args__"):
        return hint.__name__
    return _MODULES.sub("", re.sub(r"<class '([^']*)'>", r"\1", repr_of(hint)).replace("<locals>.", ""))


def lowered(sentence: str) -> str:
    """Lower the first letter of a msgspec message, to append it to ours."""
    return sentence[:1].lower() + sentence[1:]
