"""The head of a file in another tool's format, or of a skill: all of YAML's forms of text, list and table, read as texts alone.

Events and not nodes: an alias is refused before anything could unfold it, each value knows its line, and no depth is too much. What
`front_matter` reads is a smaller language, for files that are ours.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml
from attrs import field, frozen

from agentrail.config.front_matter import HeadFault, split_head
from agentrail.config.places import ConfigPath

_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MAX_LEVELS: Final = 8
_LINE: Final = re.compile(r"([A-Za-z0-9_-]+:[ \t]+)(\S.*)")
_BEGINS_OTHERWISE: Final = frozenset("\"'{|>&*!%@`#")
_TWO_LISTS: Final = re.compile(r"\[[^\[\]]*\][ \t]*[^ \t#].*")


@frozen(kw_only=True)
class YamlHead:
    """A head that was read.

    Attributes:
        values: Texts, lists and tables of them.
        body: What stands below.
        lines: Where each value stands, from 1.
        quoted: Lines that YAML refuses, and that were read as if their value stood in quotes.
    """

    values: dict[str, Any]
    body: str
    lines: dict[ConfigPath, int] = field(repr=False)
    quoted: tuple[int, ...] = ()


def read_yaml_head(text: str) -> YamlHead:
    """Read a file that begins with front matter.

    Args:
        text: The whole file.

    Raises:
        HeadFault: There is no front matter, or something in it is not read.
    """
    head, body = split_head(text)
    try:
        values, lines = _read(head)
    except HeadFault as fault:
        again, quoted = _with_quotes(head)
        if not quoted:
            raise
        try:
            values, lines = _read(again)
        except HeadFault:
            raise fault from None
        return YamlHead(values=values, body=body, lines=lines, quoted=quoted)
    return YamlHead(values=values, body=body, lines=lines)


def _with_quotes(head: list[str]) -> tuple[list[str], tuple[int, ...]]:
    """Put values in quotes that YAML takes for a second key, or for two lists: `use: so`, `[a] [b]`."""
    found, quoted = [], []
    for number, line in enumerate(head, start=1):
        match = _LINE.fullmatch(line.rstrip())
        value = "" if match is None else match[2]
        is_refused = (": " in value and value[0] not in _BEGINS_OTHERWISE | {"["}) or _TWO_LISTS.fullmatch(
            value
        )
        if match is not None and is_refused:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            found.append(f'{match[1]}"{escaped}"')
            quoted.append(number)
        else:
            found.append(line)
    return found, tuple(quoted)


def _read(head: list[str]) -> tuple[dict[str, Any], dict[ConfigPath, int]]:
    reader = _Reader("\n".join(["", *head[1:]]) + "\n")
    return reader.document(), reader.lines


class _Reader:
    """Goes through the events of one head."""

    def __init__(self, text: str) -> None:
        self.lines: dict[ConfigPath, int] = {}
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=_LOADER))

    def document(self) -> dict[str, Any]:
        try:
            self._next()  # the beginning of the stream
            if isinstance(self._next(), yaml.StreamEndEvent):
                return {}
            root = self._next()
            if not isinstance(root, yaml.MappingStartEvent):
                _refuse(root, "expected keys, each with a value: description: what it is for")
            values = self._value(root, ())
            self._next()  # the end of the document
            after = self._next()
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
            raise HeadFault(1 if mark is None else mark.line + 1, f"this is no YAML: {said}") from None
        if not isinstance(after, yaml.StreamEndEvent):
            _refuse(after, "expected one document: leave out what stands behind ...")
        return dict(values)

    def _next(self) -> Any:
        return next(self._events)

    def _value(self, event: Any, path: ConfigPath) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            _refuse(event, "anchors and aliases are not read: write the value out")
        if event.tag is not None:
            _refuse(event, "tags are not read: write the value alone")
        if len(path) > _MAX_LEVELS:
            _refuse(event, f"expected at most {_MAX_LEVELS} levels: nest less deeply")
        self.lines.setdefault(path, event.start_mark.line + 1)
        match event:
            case yaml.ScalarEvent():
                return event.value
            case yaml.SequenceStartEvent():
                return self._items(path)
            case _:
                return self._table(path)

    def _items(self, path: ConfigPath) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            found.append(self._value(event, (*path, len(found))))
        return found

    def _table(self, path: ConfigPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                _refuse(key, "expected a name in front of the colon")
            name = self._value(key, (*path, key.value))
            if name in found:
                _refuse(key, f"{name} is there twice: leave one out")
            found[name] = self._value(self._next(), (*path, name))
        return found


def _refuse(event: Any, said: str) -> NoReturn:
    raise HeadFault(event.start_mark.line + 1, said)
