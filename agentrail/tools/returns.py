"""Whether the annotation of what a function returns shows a value that no model can read.

Such a tool would fail on its first call, and nothing would mend it; so it is refused when it is made. What does not say what
comes is let through: `Any`, a protocol, an abstract class, a name that cannot be resolved. What values become stands in
`outcome`.
"""

import collections.abc
import dataclasses
import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

import attrs
import msgspec

from agentrail.abc import Error, Ok, ToolUpdate
from agentrail.core.values.foreign import Raised, attempt
from agentrail.errors import ToolDefinitionError
from agentrail.tools.outcome import WORDS
from agentrail.typed import is_model, type_name

_BYTES: Final = (bytes, bytearray, memoryview)
_CONTAINERS: Final = (list, tuple, set, frozenset, collections.abc.Mapping)
_SAYS_NOTHING: Final = (object, Any, None, type(None), typing.NoReturn, typing.Never, Ok, Error, ToolUpdate)
_COLLECT: Final = "collect it first, as in list(…)"
_AWAIT: Final = "await it, in an `async def`"
_WRAP: Final = "return text, data, an object of a dataclass, or Ok(text=str(value))"


def check_returned(function: Callable[..., object]) -> None:
    """Refuse a function whose annotation shows that what it returns is no result.

    Raises:
        ToolDefinitionError: The tool author's move; names the function, the annotation, and what to return instead.
    """
    hint = _annotation_of(function)
    if hint is str or hint is None:  # most are
        return
    found = _fault_of(hint, set())
    if found is None:
        return
    culprit, way_out = found
    inside = "" if culprit is hint else f", and `{type_name(culprit)}` is in it"
    message = (
        f"tool function {function.__qualname__!r} returns `{type_name(hint)}` by its annotation{inside}, "
        f"which no model can read: {way_out}"
    )
    raise ToolDefinitionError(message)


def _annotation_of(function: Callable[..., object]) -> Any:
    """Resolve the annotation; `Any` where there is none, or it does not resolve."""
    hint = getattr(function, "__annotations__", {}).get("return", Any)
    if hint is str or hint is None:
        return hint
    # As for parameters: the names of the function that was wrapped, and one annotation at a time.
    holder = types.SimpleNamespace(__annotations__={"return": hint})
    hints = _hints_of(holder, getattr(inspect.unwrap(function), "__globals__", {}))
    return hints.get("return", Any)


def _hints_of(holder: object, scope: dict[str, Any] | None = None) -> Mapping[str, Any]:
    """Resolve annotations; none where one does not resolve."""
    # A text that is run may raise anything, which says nothing of what is returned.
    hints = attempt(functools.partial(typing.get_type_hints, holder, globalns=scope, include_extras=True))
    return {} if isinstance(hints, Raised) else hints


def _fault_of(hint: Any, seen: set[Any], *, is_inside: bool = False) -> tuple[Any, str] | None:
    """Give the type that cannot be encoded, and what to return instead; None where there is none to be seen.

    Args:
        hint: The annotation, or a part of it.
        seen: The classes whose fields were looked at; they may hold themselves.
        is_inside: Whether it is a part.
    """
    origin = typing.get_origin(hint)
    kind = hint if origin is None else origin
    if origin is Annotated or hasattr(hint, "__supertype__"):
        bare = hint.__origin__ if origin is Annotated else hint.__supertype__
        return _fault_of(bare, seen, is_inside=is_inside)
    if kind is typing.Union or kind is types.UnionType:
        return _first_fault(typing.get_args(hint), seen, is_inside=is_inside)
    if kind is collections.abc.Callable:
        return hint, "call it, and return what comes of it"
    if not isinstance(kind, type) or kind in _SAYS_NOTHING:
        return None
    if issubclass(kind, _BYTES):
        # What stands deeper is written as base64.
        return None if is_inside else (hint, "decode it first, as in data.decode()")
    if _is_encodable(kind):
        return _first_fault(_parts_of(hint, kind, seen), seen, is_inside=True)
    if issubclass(kind, collections.abc.Awaitable):
        return hint, _AWAIT
    if issubclass(kind, collections.abc.Iterator | collections.abc.AsyncIterable):
        return hint, _COLLECT
    return None if _may_be_anything(kind) else (hint, _WRAP)


def _first_fault(hints: Iterable[Any], seen: set[Any], *, is_inside: bool) -> tuple[Any, str] | None:
    return next((found for one in hints if (found := _fault_of(one, seen, is_inside=is_inside))), None)


def _is_encodable(kind: type) -> bool:
    known = (str, int, float, enum.Enum, msgspec.Struct, *_CONTAINERS, *WORDS)
    return issubclass(kind, known) or attrs.has(kind) or dataclasses.is_dataclass(kind) or is_model(kind)


def _may_be_anything(kind: type) -> bool:
    """Whether what is returned is of a class below, of which some are data."""
    if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        return True
    all_below: list[type] = type.__subclasses__(kind)
    return any(_is_encodable(below) or _may_be_anything(below) for below in all_below)


def _parts_of(hint: Any, kind: Any, seen: set[Any]) -> Iterator[Any]:
    """Give what stands in a type: between its brackets, or in its fields as far as they resolve."""
    yield from (one for one in typing.get_args(hint) if one is not ...)
    has_fields = attrs.has(kind) or dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
    if has_fields and kind not in seen:
        seen.add(kind)
        yield from _hints_of(kind).values()
