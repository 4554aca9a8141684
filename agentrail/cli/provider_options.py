"""`--opt key=value`: provider options of a command line, each parsed to its type. Pure functions."""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from agentrail.abc import Secret
from agentrail.errors import OptionError
from agentrail.providers.options import ProviderOptions, nearest_option

_EXAMPLE: Final = "expected key=value, such as stall_seconds=60"
_WORDS: Final = MappingProxyType(
    {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
)


class _Unfit(Exception):
    """The value does not have the type of its option. The message says what was expected."""


def read_options(texts: Sequence[str], given: Mapping[str, Any]) -> Mapping[str, Any]:
    values = dict(given)
    faults: list[str] = []
    for number, text in enumerate(texts, start=1):
        name, equals, value = text.partition("=")
        name = name.strip()
        fault = _fault_of_name(number, name, equals, values, given)
        if fault is None:
            try:
                values[name] = READERS[name](value.strip())
            except _Unfit as unfit:
                fault = f"--opt {name}: {unfit}"
                values[name] = None  # it was given, so that a second one is a duplicate
        if fault is not None:
            faults.append(fault)
    if faults:
        raise OptionError(faults)
    ProviderOptions.parse(values)  # faults are reported before any request is sent or any connection opened
    return values


def _fault_of_name(
    number: int, name: str, equals: str, values: Mapping[str, Any], given: Mapping[str, Any]
) -> str | None:
    if not equals:
        # Without a name, the text may be a key.
        which = f"{name} has" if name in READERS else f"number {number} has"
        return f"--opt {which} no '=': {_EXAMPLE}"
    if not name:
        return f"--opt number {number} has no name before the '=': {_EXAMPLE}"
    if name not in READERS:
        return f"--opt {name!r} is not a provider option: {nearest_option(name)}"
    if name in given:
        return f"--opt {name} is given twice, here and by --{name.replace('_', '-')}: leave one out"
    if name in values:
        return f"--opt {name} is given twice: leave one out"
    return None


# --- the types


def _number(text: str) -> float:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        message = f"expected a number, got {text!r}"
        raise _Unfit(message) from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        message = f"expected a whole number, got {text!r}"
        raise _Unfit(message) from None


def _flag(text: str) -> bool:
    if text.lower() not in _WORDS:
        message = f"expected true or false, got {text!r}"
        raise _Unfit(message)
    return _WORDS[text.lower()]


def _flag_or_path(text: str) -> bool | str:
    return _WORDS.get(text.lower(), text)


def _word_or_number(text: str) -> str | int:
    return _whole(text) if text.isdecimal() else text


def _mapping(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        message = 'expected a JSON object in quotes, such as \'{"name": "value"}\''  # it may contain a key: not repeated
        raise _Unfit(message)
    return read


def _texts(text: str) -> list[Any] | str:
    if not text.startswith("["):
        return text
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        message = f'expected a text, or a JSON list in quotes, such as \'["END", "STOP"]\', got {text!r}'
        raise _Unfit(message) from None
    return list(read)


READERS: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "api_key": Secret,
        "base_url": str,
        "headers": _mapping,
        "timeout": _number,
        "temperature": _number,
        "top_p": _number,
        "stop": _texts,
        "max_output_tokens": _whole,
        "reasoning": _word_or_number,
        "tool_choice": str,
        "extra_body": _mapping,
        "verify": _flag_or_path,
        "trust_env": _flag,
        "structured": str,
        "images": _flag,
        "http2": _flag,
        "stall_policy": str,
        "stall_seconds": _number,
        "max_retries": _whole,
        "context_window": _whole,
        "price": _mapping,
    }
)
"""The parser of every option."""
