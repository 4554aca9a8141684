"""What a decorated function returned, as what a tool returns. Values in, values out; no tool is known here."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, Literal

import attrs
import msgspec

from agentrail.abc import Error, Ok, ToolOutcome, ToolUpdate
from agentrail.core.values.importing import NO_OUTPUT
from agentrail.errors import ToolContractError
from agentrail.frozen import too_large
from agentrail.messages import JsonValue
from agentrail.typed import is_model

WORDS: Final = (
    *(datetime.date, datetime.time, datetime.timedelta),  # a `datetime` is a `date`
    *(uuid.UUID, decimal.Decimal, PurePath),
)
"""What JSON says as a text."""


def to_outcome(name: str, value: object) -> ToolOutcome:
    """Make a result of what a tool's function returned.

    Args:
        name: The tool's, for the message.
        value: `Ok`, `Error`, `ToolUpdate`, text, None; a mapping, list, tuple, set, number or bool; an object of a dataclass, of attrs,
            msgspec or pydantic; an enum, a date or time, a UUID, a `Decimal` or a path. Of what JSON says as a text the text is
            given, without quotes; sets are sorted.

    Returns:
        `Ok`, `Error` or `ToolUpdate`, whose text is never empty, unless it has pictures, and whose details are plain JSON.

    Raises:
        ToolContractError: The tool author's move: anything else, or something inside that JSON has no word for.
    """
    if type(value) is str:
        return Ok(text=value or NO_OUTPUT)
    if type(value) is int:  # before the match, whose check for mappings costs ten times as much
        return Ok(text=str(value))
    match value:
        case ToolUpdate(changes=changes, text=text, details=details):
            _check_text(name, text)
            return ToolUpdate(*changes, text=text or NO_OUTPUT, details=_details(name, details))
        case Ok(text=text, details=details, images=images) if images:
            _check_text(name, text)
            # Where that is what it was nothing is made anew: pictures would be looked at again.
            plain = _details(name, details)
            return value if plain is details else Ok(text=text, details=plain, images=images)
        case Ok(text=text, details=details) | Error(text=text, details=details):
            _check_text(name, text)
            return type(value)(text=text or NO_OUTPUT, details=_details(name, details))
        case None:
            return Ok(text=NO_OUTPUT)
        case str():
            # The text itself, also of an enum of strings, whose `str()` would be "Color.RED".
            return Ok(text=str.__str__(value) or NO_OUTPUT)
        case Mapping() | list() | tuple() | bool() | int() | float() | msgspec.Struct():
            return Ok(text=_to_text(name, value))
        case set() | frozenset():
            # In another process the same words stand in another order, and a result should read the same.
            return Ok(text=_to_text(name, value, is_sorted=True))
        case _ if attrs.has(type(value)) or dataclasses.is_dataclass(type(value)) or is_model(type(value)):
            return Ok(text=_to_text(name, value))
        case enum.Enum():
            return to_outcome(name, value.value)
        case _ if isinstance(value, WORDS):
            return Ok(text=str(_to_json(name, value)) or NO_OUTPUT)
        case _:
            raise ToolContractError(_explain(name, value))


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        message = f"tool {name!r} returned a result whose text is {_kind(text)}: make it text, str(…)"
        raise ToolContractError(message)


def _to_text(name: str, value: object, *, is_sorted: bool = False) -> str:
    return json.dumps(_to_json(name, value, is_sorted=is_sorted), ensure_ascii=False, separators=(",", ":"))


def _details(name: str, details: object) -> JsonValue:
    size = too_large(details)
    if size is not None:
        message = f"tool {name!r} returned details of {size}: write them to a file, and give its path in the details"
        raise ToolContractError(message)
    return _to_json(name, details)


def _to_json(name: str, value: object, *, is_sorted: bool = False) -> JsonValue:
    order: Literal["deterministic"] | None = "deterministic" if is_sorted else None
    try:
        plain = msgspec.to_builtins(value, enc_hook=_to_plain, str_keys=True, order=order)
        # The standard library's encoder judges, because msgspec's writes null where it should say NaN.
        json.dumps(plain, allow_nan=False)
    except RecursionError:
        message = (
            f"tool {name!r} returned {_kind(value)} that is nested too deeply, or holds itself: flatten it"
        )
        raise ToolContractError(message) from None
    except (TypeError, ValueError) as error:
        message = f"tool {name!r} returned {_kind(value)} that is not JSON: {error}"
        raise ToolContractError(message) from None
    return plain  # type: ignore[no-any-return]  # what json.dumps takes is a JsonValue


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return str(value)
    if is_model(type(value)):
        model: Any = value
        return model.model_dump(mode="json")
    message = f"objects of type {type(value).__name__} have no JSON form"
    raise TypeError(message)


def _explain(name: str, value: object) -> str:
    expected = f"tool {name!r} returned {_kind(value)}, expected text, JSON, Ok, Error or Effect"
    if hasattr(value, "__await__"):
        close = getattr(value, "close", None)
        if close is not None:
            close()  # a coroutine: Python would warn that it was never awaited, on top of this message
        return f"{expected}: await it, in an `async def`"
    if hasattr(value, "__anext__") or hasattr(value, "__next__"):
        return f"{expected}: collect it first, as in list(…)"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{expected}: decode it first"
    return f"{expected}: wrap it, Ok(text=str(value))"


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"
