"""TOML from untrusted sources: in linear time, with one kind of fault.

`tomllib` alone is quadratic in dotted keys, recurses for each bracket, and leaks errors for long numbers.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from agentrail.config.key_filter import hide_keys
from agentrail.config.toml_positions import (
    MAX_CONFIG_LEVELS,
    ConfigPath,
    TextFault,
    TooDeeplyNested,
    find_lines,
)

_AT_LINE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_LONG_KEY: Final = re.compile(
    r"(?:^|[{,\[])[ \t]*+\[{0,2}[ \t]*+"
    rf"""(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MAX_CONFIG_LEVELS}}}""",
    re.MULTILINE,
)
_LONG_NUMBER: Final = re.compile(r"[0-9_]{1000,}+")
_NUMBERS: Final = range(-(1 << 63), 1 << 63)
_TOO_DEEP: Final = f"expected at most {MAX_CONFIG_LEVELS} levels: nest less deeply"
_TOO_LONG: Final = "a number of more than 64 bits: write a smaller one"


class TomlFault(TextFault):
    """A text that is not TOML, or that is not read."""


def read_toml_text(text: str) -> tuple[dict[str, Any], dict[ConfigPath, int]]:
    long = _LONG_KEY.search(text)
    if long is not None:
        raise TomlFault(
            _line_of(text, long.end()), f"a key of over {MAX_CONFIG_LEVELS} parts: nest less deeply"
        )
    try:
        values = tomllib.loads(text)
        lines = find_lines(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        match = _AT_LINE.search(said)
        line = int(match[1]) if match is not None and match[1] else text.rstrip("\n").count("\n") + 1
        raise TomlFault(line, f"this is not TOML: {hide_keys(_AT_LINE.sub('', said))}") from None
    except ValueError:  # raised by Python for a number of thousands of digits
        number = _LONG_NUMBER.search(text)
        raise TomlFault(1 if number is None else _line_of(text, number.start()), _TOO_LONG) from None
    except TooDeeplyNested as error:
        raise TomlFault(error.line, _TOO_DEEP) from None
    except RecursionError:
        raise TomlFault(1, _TOO_DEEP) from None
    for path, value in _scalars(values, ()):
        if isinstance(value, int) and value not in _NUMBERS:
            raise TomlFault(lines[path], _TOO_LONG)
    return values, lines


def _scalars(value: object, path: ConfigPath) -> list[tuple[ConfigPath, object]]:
    if isinstance(value, Mapping):
        return [found for name, one in value.items() for found in _scalars(one, (*path, name))]
    if isinstance(value, list):
        return [found for place, one in enumerate(value) for found in _scalars(one, (*path, place))]
    return [(path, value)]


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
