"""Line numbers of values in well-formed TOML, by path.

`tomllib` has no lines, and parsers with lines take nine times as long.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

from agentrail.config.key_filter import hide_keys, in_one_line

ConfigPath: TypeAlias = tuple[str | int, ...]
"""Path of a value: names of tables and keys, and item numbers from 0."""

MAX_CONFIG_LEVELS: Final = 32
"""Maximum nesting depth of a file. It limits the length of paths and the depth of recursive readers."""

# All repeats are possessive: without backtracking, no text makes them slow.
_SPACE: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_BLANK: Final = re.compile(r"[ \t]*+")
_NAME: Final = re.compile(r"""[A-Za-z0-9_-]++|"(?:[^"\\]|\\.)*+"|'[^']*+'""")
_TEXT: Final = re.compile(
    r'''"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}'''
    r"""|'''(?:[^']++|'(?!''))*+'{3,5}"""
    r'''|"(?:[^"\\]++|\\.)*+"'''
    r"""|'[^']*+'""",
    re.DOTALL,
)
_SCALAR: Final = re.compile(r"[^,\]}#\n]++")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


class TooDeeplyNested(Exception):
    """A text exceeds `MAX_CONFIG_LEVELS`. `line` is that of the first value too deep."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} is nested over {MAX_CONFIG_LEVELS} levels")
        self.line = line


@frozen(kw_only=True)
class ConfigPlace:
    file: str
    path: ConfigPath = field(default=(), repr=lambda path: hide_keys(write_path(path)))
    lines: Mapping[ConfigPath, int] = field(factory=dict, repr=False, eq=False)

    def below(self, *path: str | int) -> "ConfigPlace":
        return ConfigPlace(file=self.file, path=(*self.path, *path), lines=self.lines)

    @property
    def line(self) -> int:
        """Line from 1, the parent's for a value without its own."""
        found = (self.path[:end] for end in range(len(self.path), 0, -1))
        return next((self.lines[path] for path in found if path in self.lines), 1)

    @property
    def dotted(self) -> str:
        return write_path(self.path)

    def __str__(self) -> str:
        return in_one_line(f"{self.file}:{self.line}")


@frozen(kw_only=True)
class ConfigFault:
    """A fault in a file, without a key."""

    place: ConfigPlace
    said: str

    def __str__(self) -> str:
        parts = [str(self.place), self.place.dotted, self.said]
        return in_one_line(": ".join(part for part in parts if part))


class TextFault(Exception):
    """A text that cannot be parsed: line from 1, and what was expected, without a key."""

    def __init__(self, line: int, said: str) -> None:
        super().__init__(f"line {line}: {said}")
        self.line = line
        self.said = said

    def in_file(self, file: str) -> ConfigFault:
        return ConfigFault(place=ConfigPlace(file=file, path=("",), lines={("",): self.line}), said=self.said)


def write_path(path: ConfigPath) -> str:
    parts = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        else:
            name = part if not part or _PLAIN_NAME.fullmatch(part) else _quoted(part)
            parts.append(f".{name}" if parts else name)
    return "".join(parts)


def _quoted(name: str) -> str:
    shown = "".join(one if one.isprintable() else "?" for one in name[:60])
    return '"{}"'.format(shown.replace("\\", "\\\\").replace('"', '\\"'))


def find_lines(text: str) -> dict[ConfigPath, int]:
    return _Scan(text).read()


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[ConfigPath, int] = {}
        self._counts: dict[ConfigPath, int] = {}

    def read(self) -> dict[ConfigPath, int]:
        table: ConfigPath = ()
        while True:
            self._skip(_SPACE)
            if self._at == len(self._text):
                return self._lines
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _skip(self, what: re.Pattern[str]) -> str:
        match = what.match(self._text, self._at)
        assert match is not None, "a text that tomllib took"  # noqa: S101 - what calls us has read it
        self._at = match.end()
        return match[0]

    def _here(self) -> int:
        return bisect_right(self._ends, self._at - 1) + 1

    def _note(self, path: ConfigPath, line: int) -> None:
        if len(path) > MAX_CONFIG_LEVELS:
            raise TooDeeplyNested(line)
        self._lines.setdefault(path, line)

    def _header(self) -> ConfigPath:
        line = self._here()
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        names = self._names()
        self._at += brackets
        path: ConfigPath = ()
        for place, name in enumerate(names, start=1):
            path = (*path, name)
            self._note(path, line)
            if place == len(names) and brackets == 2:  # noqa: PLR2004 - an array of tables
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:  # its keys belong to the last table of the array
                path = (*path, self._counts[path] - 1)
                self._note(path, line)
        return path

    def _names(self) -> list[str]:
        names = []
        while True:
            self._skip(_BLANK)
            names.append(_name_of(self._skip(_NAME)))
            self._skip(_BLANK)
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _pair(self, table: ConfigPath) -> None:
        line = self._here()
        path = table
        for name in self._names():
            path = (*path, name)
            self._note(path, line)
        self._at += 1
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: ConfigPath) -> None:
        match self._text[self._at]:
            case "[":
                self._items(path)
            case "{":
                self._at += 1
                while not self._ends_with("}"):
                    self._pair(path)
            case '"' | "'":
                self._skip(_TEXT)
            case _:
                self._skip(_SCALAR)

    def _items(self, path: ConfigPath) -> None:
        self._at += 1
        number = 0
        while not self._ends_with("]"):
            self._note((*path, number), self._here())
            self._value((*path, number))
            number += 1

    def _ends_with(self, end: str) -> bool:
        self._skip(_SPACE)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_SPACE)
        if self._text[self._at] != end:
            return False
        self._at += 1
        return True


def _name_of(written: str) -> str:
    if written[0] not in "\"'":
        return written
    name: str = tomllib.loads(f"name = {written}")["name"]
    return name
