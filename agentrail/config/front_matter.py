"""Front matter of a Markdown file, with every scalar as text.

`no` is not false, `1:30` is not ninety. Reading uses events, so that aliases and depth are refused before expansion and each value knows its line.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml
from attrs import field, frozen

from agentrail.config.toml_positions import ConfigPath, TextFault

_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MAX_LEVELS: Final = 8
_TOO_DEEP: Final = f"expected at most {_MAX_LEVELS} levels: nest less deeply"
_LINE: Final = re.compile(r"([A-Za-z0-9_-]+:[ \t]+)(\S.*)")
_COMMENT: Final = re.compile(r"(?<![ \t])[ \t]+#.*$")
_BEGINS_OTHERWISE: Final = frozenset("\"'{|>&*!%@`#")
# YAML's grammar messages, from the C and the Python parser.
_WHAT_TO_DO: Final = tuple(
    (re.compile(words), advice)
    for words, advice in (
        (
            "cannot start any token",
            "indent with spaces, not tabs, and quote a text that begins with @, ` or %",
        ),
        ("could not find expected ':'", "expected a line such as description: what it is for"),
        ("mapping values are not allowed", "quote a value that contains a colon"),
        ("expected ',' or ']'|node content", "end the list in brackets with ]"),
        ("unexpected end of stream", "close the quotes or brackets"),
        (
            "expected key|expected <block end>",
            "indent the keys of a table alike, and quote a whole value, not only its beginning",
        ),
        ("unknown escape", 'the known escapes are \\n, \\t, \\" and \\\\: or put it in single quotes'),
    )
)
_TWO_LISTS: Final = re.compile(r"\[[^\[\]]*\][ \t]*[^ \t#].*")


class HeadFault(TextFault):
    """Front matter that cannot be parsed."""


@frozen(kw_only=True)
class YamlHead:
    """Parsed front matter: the line of each value from 1, and lines read as if their value were quoted."""

    values: dict[str, Any]
    body: str
    lines: dict[ConfigPath, int] = field(repr=False)
    quoted: tuple[int, ...] = ()


def read_yaml_head(text: str) -> YamlHead:
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


def split_head(text: str) -> tuple[list[str], str]:
    """Split a file into its front matter with the first `---`, and its body."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        said = "expected front matter: --- in the first line, keys, and a second ---"
        raise HeadFault(1, said)
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    if end is None:
        said = "the front matter has no end: write --- below its last line"
        raise HeadFault(1, said)
    return lines[:end], "\n".join(lines[end + 1 :]).strip("\n")


def _with_quotes(head: list[str]) -> tuple[list[str], tuple[int, ...]]:
    found, quoted = [], []
    for number, line in enumerate(head, start=1):
        match = _LINE.fullmatch(line.rstrip())
        value = "" if match is None else _COMMENT.sub("", match[2])
        has_colon = ": " in value or value.endswith(":")
        is_refused = (has_colon and value[0] not in _BEGINS_OTHERWISE | {"["}) or _TWO_LISTS.fullmatch(value)
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
    def __init__(self, text: str) -> None:
        self.lines: dict[ConfigPath, int] = {}
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=_LOADER))

    def document(self) -> dict[str, Any]:
        try:
            self._next()  # stream start
            if isinstance(self._next(), yaml.StreamEndEvent):
                return {}
            root = self._next()
            if not isinstance(root, yaml.MappingStartEvent):
                _refuse(root, "expected keys, each with a value: description: what it is for")
            values = self._value(root, ())
            self._next()  # document end
            after = self._next()
        except yaml.YAMLError as error:
            mark = _where(error)
            said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
            line = 1 if mark is None else mark.line + 1
            # PyYAML 6.0.4 and later stops at 1,000 levels while looking ahead, before the first level arrives
            # here.
            is_too_deep = "maximum nesting" in said
            hint = next((f": {advice}" for words, advice in _WHAT_TO_DO if words.search(said)), "")
            reason = _TOO_DEEP if is_too_deep else f"this is not YAML: {said}{hint}"
            raise HeadFault(line, reason) from None
        if not isinstance(after, yaml.StreamEndEvent):
            _refuse(after, "expected one document: remove everything after ...")
        return dict(values)

    def _next(self) -> Any:
        return next(self._events)

    def _value(self, event: Any, path: ConfigPath) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            _refuse(event, "anchors and aliases are not supported: write the value out")
        if event.tag is not None:
            _refuse(event, "tags are not supported: write only the value")
        if len(path) > _MAX_LEVELS:
            _refuse(event, _TOO_DEEP)
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
                _refuse(key, "expected a name before the colon")
            name = self._value(key, (*path, key.value))
            if name in found:
                _refuse(key, f"{name} appears twice: remove one")
            found[name] = self._value(self._next(), (*path, name))
        return found


def _where(error: yaml.YAMLError) -> Any:
    """Return the mark of an error: the start of unclosed quotes, lists and keys."""
    context = getattr(error, "context", None) or ""
    begins_there = context.startswith("while scanning") or "flow" in context
    at_beginning = getattr(error, "context_mark", None) if begins_there else None
    return at_beginning or getattr(error, "problem_mark", None)


def _refuse(event: Any, said: str) -> NoReturn:
    raise HeadFault(event.start_mark.line + 1, said)
