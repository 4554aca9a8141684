"""What is wrong with a value, in words for a model; and how types and places are written in such words."""

import re
from typing import Any, Final

from agentrail.core.values.bounded_schema import count_parts

MAX_CLASS_REASON: Final = 500
"""The longest reason that is taken from a class of the application."""

MAX_TRIED_AGAIN: Final = 10_000
"""How often more than its size an object of one value may be looked at. Where classes hold unions of classes that hold unions, there
are two to the power of the depth ways to try, and a model chooses the depth."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODULES: Final = re.compile(r"\b(?:\w+\.)+(?=\w)")


class OutputFault(ValueError):
    """A value is not of its type. The text is a sentence for the model that wrote it: where, what was expected, what came.

    Attributes:
        path: Where in the value, such as `$.cities[0].name`; `$` is all of it.
    """

    def __init__(self, reason: str, *, path: str) -> None:
        """Keep both halves."""
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class TooMuchDecoding(Exception):
    """A value would be tried in more ways than one may."""


class DecodingBudget:
    """What is left of the work that one value may cost."""

    __slots__ = ("_left",)

    def __init__(self, value: object) -> None:
        """Begin with enough to look at all of a value once, and at some of it again."""
        self._left = count_parts(value) + MAX_TRIED_AGAIN

    def pay(self) -> None:
        """Pay for a look at an object."""
        self._left -= 1
        if self._left < 0:
            raise TooMuchDecoding


def mismatch(came: object, *, expected: str, path: str) -> OutputFault:
    """Say that JSON of one kind was expected, and one of another kind came."""
    return OutputFault(f"expected `{expected}`, got `{json_kind(came)}`", path=path)


def json_kind(value: object) -> str:
    """Name the kind of a JSON value, in the words of msgspec, which says most of such sentences here."""
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
    """Give the path of a member of an object."""
    return f"{path}.{name}" if _NAME.fullmatch(name) else f"{path}[{name!r}]"


def type_name(hint: Any) -> str:
    """Write a type as one would in an annotation, without its modules."""
    if hint is type(None):
        return "None"
    if isinstance(hint, type) and not hasattr(hint, "__args__"):
        return hint.__name__
    return _MODULES.sub("", re.sub(r"<class '([^']*)'>", r"\1", repr(hint)).replace("<locals>.", ""))


def lowered(sentence: str) -> str:
    """Begin a sentence of msgspec as the second half of one of ours."""
    return sentence[:1].lower() + sentence[1:]
