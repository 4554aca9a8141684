"""Descriptions of parameters and attributes in a docstring, in the three common styles."""

import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

_TITLES: Final = (
    r"(?:Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters|Attributes|Attrs)"
)
_OTHER_TITLES: Final = (
    r"(?:Returns?|Raises|Yields?|Examples?|Notes?|References|See Also|Warnings?|Warns|Todo)"
)
_GOOGLE: Final = re.compile(rf"{_TITLES}:[ \t]*")
_NUMPY: Final = re.compile(rf"{_TITLES}[ \t]*")
_BEGINS: Final = re.compile(
    rf"^(?:(?:{_TITLES}|{_OTHER_TITLES}):[ \t]*$|(?:{_TITLES}|{_OTHER_TITLES})[ \t]*\n[-=]{{3,}}[ \t]*$|:(?:param|parameter|arg|argument|key|keyword|ivar|var|cvar|type|vartype|returns?|rtype|raises?|yields?)\b[^:\n]*:)",
    re.MULTILINE,
)
"""Matches the start of the first section, where the general text ends."""

_NAMES: Final = r"(\*{0,2}\w+(?:,[ \t]*\*{0,2}\w+)*)"
_GOOGLE_ENTRY: Final = re.compile(rf"{_NAMES}[ \t]*(?:\((?:[^()]|\([^()]*\))*\))?[ \t]*:(?:[ \t]+(.*))?")
_NUMPY_ENTRY: Final = re.compile(rf"{_NAMES}[ \t]*(?::.*)?")
_SPHINX_ENTRY: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword|ivar|var)[ \t]+(?:[^:]*[ \t])?(\*{0,2}\w+)[ \t]*:[ \t]*(.*)"
)
_UNDERLINE: Final = re.compile(r"[-=]{3,}[ \t]*")


@functools.lru_cache(maxsize=256)
def described_names(docstring: str | None) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if docstring and (":" in docstring or "---" in docstring):  # most docstrings have no such section
        lines = inspect.cleandoc(docstring).splitlines()
        for names, text in (*_google(lines), *_numpy(lines), *_sphinx(lines)):
            for name in names.split(","):
                if name and text:
                    found.setdefault(name.strip().lstrip("*"), text)
    return MappingProxyType(found)


@functools.lru_cache(maxsize=256)
def described_whole(docstring: str | None) -> str:
    """Return the text before the first section of a docstring, with its paragraphs."""
    if not docstring:
        return ""
    text = inspect.cleandoc(docstring)
    first = _BEGINS.search(text)
    return (text if first is None else text[: first.start()]).strip()


def _google(lines: list[str]) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines):
        if _GOOGLE.fullmatch(line):
            yield from _indented_entries(_section(lines[at + 1 :]))


def _section(lines: list[str]) -> list[str]:
    """Return the lines up to the first one that is not indented."""
    end = next((at for at, line in enumerate(lines) if line and _indent(line) == 0), len(lines))
    return lines[:end]


def _indented_entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    depth = min((_indent(line) for line in lines if line.strip()), default=0)
    names = ""
    words: list[str] = []
    for line in lines:
        if not line.strip() or _indent(line) > depth:
            words.append(line)
            continue
        yield names, _joined(words)
        entry = _GOOGLE_ENTRY.fullmatch(line.strip())
        names, words = (entry[1], [entry[2] or ""]) if entry else ("", [])
    yield names, _joined(words)


def _numpy(lines: list[str]) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines[:-1]):
        if _NUMPY.fullmatch(line) and _UNDERLINE.fullmatch(lines[at + 1]):
            yield from _flat_entries(lines[at + 2 :])


def _flat_entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    names = ""
    words: list[str] = []
    for at, line in enumerate(lines):
        if not line.strip() or _indent(line):
            words.append(line)
            continue
        if at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1]):
            break  # the title of the next section
        yield names, _joined(words)
        entry = _NUMPY_ENTRY.fullmatch(line)
        names, words = (entry[1] if entry else ""), []
    yield names, _joined(words)


def _sphinx(lines: list[str]) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines):
        entry = _SPHINX_ENTRY.fullmatch(line.strip())
        if entry is not None:
            depth = _indent(line)
            rest = lines[at + 1 :]
            ends = (n for n, one in enumerate(rest) if not one.strip() or _indent(one) <= depth)
            yield entry[1], _joined([entry[2], *rest[: next(ends, len(rest))]])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(words: list[str]) -> str:
    return " ".join(" ".join(words).split())
