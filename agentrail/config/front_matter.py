"""The head of a Markdown agent: a small part of YAML, read as texts, lists and tables alone.

No library reads it: one that reads all of YAML takes `no` for false and `1:30` for ninety, unfolds anchors into gigabytes, and knows
no lines. What stands in no plain head (anchors, tags, block texts, tables in braces) is refused by name.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from agentrail.config.places import ConfigPath

_KEY: Final = re.compile(r"""([A-Za-z0-9_-]{1,64}):(?:[ \t]+(.*))?$""")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*$")
_QUOTED: Final = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'""")
_ESCAPES: Final[Mapping[str, str]] = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_REFUSED: Final[Mapping[str, str]] = {
    "&": "anchors are not read: write the value out",
    "*": "a text that begins with * is an alias to YAML: put it in quotes",
    "!": "tags are not read: write the value alone",
    "|": "block texts are not read: write it in one line, or below the front matter",
    ">": "block texts are not read: write it in one line, or below the front matter",
    "{": "tables in braces are not read: write each key in a line of its own, below and indented",
    "%": "a text that begins with % is a directive to YAML: put it in quotes",
    "@": "a text that begins with @ is reserved in YAML: put it in quotes",
    "`": "a text that begins with ` is reserved in YAML: put it in quotes",
}


class HeadFault(Exception):
    """A head that cannot be read.

    Attributes:
        line: From 1, of the file.
        said: What was expected.
    """

    def __init__(self, line: int, said: str) -> None:
        """Keep both."""
        super().__init__(f"line {line}: {said}")
        self.line = line
        self.said = said


def read_head(text: str) -> tuple[dict[str, Any], str, dict[ConfigPath, int]]:
    """Read a Markdown file that begins with front matter.

    Args:
        text: The whole file.

    Returns:
        The values, all scalars as texts; what stands below them; the line of each value.

    Raises:
        HeadFault: There is no front matter, or something in it is no such value.
    """
    lines, body = split_head(text)
    head = _Head(lines)
    values = head.table((), 0)
    if head.at < len(lines):
        said = "expected a key at the beginning of the line: take away the blanks"
        raise HeadFault(head.at + 1, said)
    return values, body, head.lines


def split_head(text: str) -> tuple[list[str], str]:
    """Take the head off: its lines, from the first `---` and without the second, and what stands below it.

    Raises:
        HeadFault: There is no front matter, or it has no end.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        said = "expected front matter: --- in the first line, keys, and a second ---"
        raise HeadFault(1, said)
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    if end is None:
        said = "the front matter has no end: write --- below its last line"
        raise HeadFault(1, said)
    return lines[:end], "\n".join(lines[end + 1 :]).strip("\n")


class _Head:
    """Goes through the lines.

    Attributes:
        at: The number of the next line, from 0.
        lines: Where each value stands.
    """

    def __init__(self, lines: list[str]) -> None:
        self._all = lines
        self.at = 1
        self.lines: dict[ConfigPath, int] = {}

    def table(self, path: ConfigPath, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._indent() == indent:
            match = _KEY.match(self._all[self.at].strip())
            if match is None:
                self._refuse("expected a line such as description: what it is for")
            name = match[1]
            if name in found:
                self._refuse(f"{name} is there twice: leave one out")
            self.lines[*path, name] = self.at + 1
            written = _tidy(match[2] or "")
            found[name] = (
                self._scalar(written, (*path, name)) if written else self._below((*path, name), indent)
            )
        return found

    def _below(self, path: ConfigPath, indent: int) -> Any:
        """Read what stands in the lines below a key: a list, a table, or nothing, which is an empty text."""
        self.at += 1
        deeper = self._indent()
        is_item = deeper >= indent and self._item() is not None
        if is_item:
            return self._items(path, deeper)
        if deeper <= indent:
            return ""
        if len(path) > 1:
            self._refuse("a head has tables in tables no deeper than this")
        return self.table(path, deeper)

    def _items(self, path: ConfigPath, indent: int) -> list[Any]:
        found: list[Any] = []
        while self._indent() == indent and (item := self._item()) is not None:
            self.lines[*path, len(found)] = self.at + 1
            written = _tidy(item)
            if not written:
                self._refuse("expected a text behind the -")
            found.append(self._scalar(written, path))
        return found

    def _item(self) -> str | None:
        stripped = self._all[self.at].strip() if self.at < len(self._all) else ""
        return stripped[1:].strip() if stripped == "-" or stripped.startswith("- ") else None

    def _indent(self) -> int:
        """Go to the next line that says something, and say by how much it is indented; -1 at the end."""
        while self.at < len(self._all):
            line = self._all[self.at]
            body = line.lstrip(" ")
            if body.strip() and not body.startswith("#"):
                if body.startswith("\t"):
                    self._refuse("a tab stands where YAML wants blanks")
                return len(line) - len(body)
            self.at += 1
        return -1

    def _scalar(self, written: str, path: ConfigPath) -> Any:
        """Read a value that stands in its own line, and go on to the next."""
        if written.startswith("["):
            value: Any = self._flow(written, path)
        else:
            value = self._text(written)
        self.at += 1
        return value

    def _flow(self, written: str, path: ConfigPath) -> list[str]:
        if not written.endswith("]"):
            self._refuse("a list in brackets ends in its own line: or write one item in a line, behind -")
        inside = written[1:-1].strip().removesuffix(",")
        found: list[str] = []
        at = 0
        while at < len(inside):
            quoted = _QUOTED.match(inside, at)
            end = inside.find(",", at if quoted is None else quoted.end())
            end = len(inside) if end < 0 else end
            self.lines[*path, len(found)] = self.at + 1
            found.append(self._text(inside[at:end].strip()))
            at = end + 1
            while at < len(inside) and inside[at] == " ":
                at += 1
        return found

    def _text(self, written: str) -> str:
        if not written:
            self._refuse("expected a text between two commas")
        if written[0] in "\"'":
            match = _QUOTED.fullmatch(written)
            if match is None:
                self._refuse("the quotes do not end where the value does")
            return (match[2] or "").replace("''", "'") if written[0] == "'" else self._unescape(match[1])
        if written[0] in _REFUSED:
            self._refuse(_REFUSED[written[0]])
        return written

    def _unescape(self, inside: str) -> str:
        def read(match: re.Match[str]) -> str:
            if match[1] not in _ESCAPES:
                self._refuse(f'\\{match[1]} is not read: known are \\n, \\t, \\" and \\\\')
            return _ESCAPES[match[1]]

        return re.sub(r"\\(.)", read, inside)

    def _refuse(self, said: str) -> NoReturn:
        raise HeadFault(self.at + 1, said)


def _tidy(written: str) -> str:
    """Take away a comment behind a value; in quotes # is no comment."""
    written = written.strip()
    quoted = _QUOTED.match(written)
    start = 0 if quoted is None else quoted.end()
    return (written[:start] + _COMMENT.sub("", written[start:])).strip()
