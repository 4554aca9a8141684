"""How documents are cut into passages: by heading, neither too short to say something nor too long to be read. Pure.

Headings are those of CommonMark that begin with `#`, outside of fenced code. Sizes are bytes, four to a token, as the core estimates.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Final

from attrs import frozen

LEAST_BYTES: Final = 200 * 4
"""A shorter passage is joined with the next one, also over a heading."""

MOST_BYTES: Final = 800 * 4
"""A longer one is cut: between paragraphs, else between lines, else in a line."""

MAX_TITLE_CHARACTERS: Final = 200

_JOINED_BYTES: Final = 2  # an empty line between two parts of a passage
_MAX_LEVEL: Final = 6
_MAX_INDENT: Final = 3
_FENCE: Final = 3


@frozen(kw_only=True)
class CutPassage:
    """A part of a text.

    Attributes:
        trail: The headings above all of it, the outermost first.
        headings: Those above any of it, each once.
        first: Its first line, from 1.
        last: Its last one.
        text: What stands there; empty lines in front, between paragraphs and behind are one or none.
    """

    trail: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    first: int
    last: int
    text: str


def passages_of(text: str, *, is_markdown: bool) -> tuple[CutPassage, ...]:
    """Cut a text into passages, in order. Each line that is not empty is in one of them, or a line that is too long in several.

    Args:
        text: Of the document.
        is_markdown: Whether it has headings and fences.
    """
    pieces: list[CutPassage] = []
    group: list[_Block] = []
    size = -_JOINED_BYTES  # the first of a group is joined to nothing
    for block in _blocks(text.split("\n"), is_markdown=is_markdown):
        is_full = size + block.size > MOST_BYTES
        if group and (is_full or (block.is_heading and size >= LEAST_BYTES)):
            pieces.append(_joined(group))
            group, size = [], -_JOINED_BYTES
        group.append(block)
        size += block.size
    if group:
        pieces.append(_joined(group))
    return tuple(pieces)


@frozen
class _Block:
    """Lines that belong together: a paragraph, a fence, a heading with what follows on it."""

    trail: tuple[str, ...]
    first: int
    last: int
    text: str
    is_heading: bool

    @property
    def is_bare(self) -> bool:
        """Whether it is a heading alone."""
        return self.is_heading and self.first == self.last

    @property
    def size(self) -> int:
        """In bytes, with what joins it to the one before."""
        return len(self.text.encode()) + _JOINED_BYTES


def _joined(group: Sequence[_Block]) -> CutPassage:
    text = group[0].text
    for before, block in pairwise(group):
        text += ("\n" if block.first <= before.last + 1 else "\n\n") + block.text
    # A heading with nothing on it says where the next one stands, and is no part that the trail would have to fit.
    said = [block for block in group if not block.is_bare] or group
    levels = zip(*(block.trail for block in said), strict=False)
    trail = tuple([names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels)])
    headings = tuple(dict.fromkeys(name for block in group for name in block.trail))
    return CutPassage(trail=trail, headings=headings, first=group[0].first, last=group[-1].last, text=text)


def _blocks(lines: Sequence[str], *, is_markdown: bool) -> Iterator[_Block]:
    trail: list[tuple[int, str]] = []
    open_lines: list[str] = []
    fence = ""
    is_heading = False
    first = 1

    def closed(last: int) -> Iterator[_Block]:
        names = tuple([name for _, name in trail])
        return _cut(open_lines, first, last, names, is_heading=is_heading)

    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        found = _heading(line) if is_markdown and not fence else None
        if open_lines and not fence and (found is not None or not line.strip()):
            yield from closed(number - 1)
            open_lines, is_heading = [], False
        if found is not None:
            level, name = found
            trail = [one for one in trail if one[0] < level]
            trail.append((level, name))
            is_heading = True
        if is_markdown:
            fence = _fence_behind(line, fence)
        if line.strip() or (fence and open_lines):
            first = first if open_lines else number
            open_lines.append(line)
    if open_lines:
        yield from closed(len(lines))


def _cut(
    lines: Sequence[str], first: int, last: int, trail: tuple[str, ...], *, is_heading: bool
) -> Iterator[_Block]:
    """Give lines as one block, or as several where they are too long for a passage."""
    part: list[str] = []
    size = 0
    begun = first
    for number, line in enumerate(lines, first):
        length = len(line.encode()) + 1
        if part and size + length > MOST_BYTES - 2:
            yield _Block(trail, begun, number - 1, "\n".join(part), is_heading and begun == first)
            part, size, begun = [], 0, number
        if length > MOST_BYTES - 2:
            for piece in _cut_line(line):
                yield _Block(trail, number, number, piece, is_heading and number == first)
            begun = number + 1
            continue
        begun = begun if part else number
        part.append(line)
        size += length
    if part:
        yield _Block(trail, begun, last, "\n".join(part), is_heading and begun == first)


def _cut_line(line: str) -> Iterator[str]:
    # A quarter of the bytes as characters: none has more than four.
    step = (MOST_BYTES - 4) // 4
    return (line[place : place + step] for place in range(0, len(line), step))


def _heading(line: str) -> tuple[int, str] | None:
    body = line.lstrip(" ")
    level = len(body) - len(body.lstrip("#"))
    rest = body[level:]
    if not 1 <= level <= _MAX_LEVEL or len(line) - len(body) > _MAX_INDENT or (rest and rest[0] not in " \t"):
        return None
    return level, rest.strip().rstrip("#").rstrip()[:MAX_TITLE_CHARACTERS]


def _fence_behind(line: str, fence: str) -> str:
    """Say which fence is open behind a line: its marks, or nothing."""
    body = line.strip()
    mark = body[:1]
    if mark not in ("`", "~"):
        return fence
    marks = body[: len(body) - len(body.lstrip(mark))]
    if not fence:
        opens = len(marks) >= _FENCE and not (mark == "`" and "`" in body[len(marks) :])
        return marks if opens else ""
    return "" if marks.startswith(fence) and marks == body else fence
