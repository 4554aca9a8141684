"""Splits streamed Markdown into finished blocks, so that each is drawn only once.

Source: CommonMark 0.31, sections 3 to 5: the structure of a document is decided line by line.
"""

import re
from typing import Final, Literal, TypeAlias

from attrs import define, frozen

BlockKind: TypeAlias = Literal["words", "item", "code"]

MAX_BLOCK: Final = 4_000
"""Maximum characters of an unfinished block, because it is redrawn many times a second. Then its lines so far are finished."""

MAX_TABLE: Final = 20_000
"""Maximum characters of an unfinished table. Its column widths depend on all rows, so that it is drawn once it is complete."""

_FENCE: Final = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>[^\n]*)")
_ITEM: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_INTERRUPTS: Final = re.compile(r"(?:[-*+]|1[.)])[ \t]+\S")
"""Items that end a paragraph without an empty line between. Any other number is text (CommonMark 5.3)."""
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_DELIMITERS: Final = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*\|?[ \t]*+")
_BAR: Final = re.compile(r"(?<!\\)\|")


@frozen(kw_only=True)
class Block:
    """A piece of Markdown that can be drawn on its own.

    Attributes:
        goes_on: Whether it is drawn directly below the previous block, without an empty row.
    """

    kind: BlockKind
    text: str
    goes_on: bool = False


@define
class _Fence:
    """The open fence: its marks, and its first line, which reopens it after a split."""

    marks: str
    opening: str

    def is_closed_by(self, line: str) -> bool:
        closing = line.strip()
        return (
            len(line) - len(line.lstrip(" ")) <= 3  # noqa: PLR2004 - CommonMark 4.5
            and closing.startswith(self.marks)
            and set(closing) == {self.marks[0]}
        )


class MarkdownBlocks:
    """The text of a model, split into finished blocks and an unfinished tail."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._length = 0
        self._partial: list[str] = []
        self._partial_length = 0
        self._kind: BlockKind = "words"
        self._goes_on = False
        self._fence: _Fence | None = None
        self._table: tuple[str, ...] = ()  # its header and delimiter row, which are repeated after a split
        self._is_after_blank = False
        self._was_item = False
        self._finished: list[Block] = []

    @property
    def is_between(self) -> bool:
        """Whether other output can be shown here without splitting a block."""
        if self._fence is not None or self._partial:
            return False
        return self._is_after_blank or not self._lines

    @property
    def tail(self) -> Block | None:
        """The unfinished text as a block, or None."""
        partial = "".join(self._partial)
        kind, goes_on = self._kind, self._goes_on
        if not self._lines and not partial.strip():
            return None
        if not self._lines and _ITEM.match(partial):
            kind, goes_on = "item", self._was_item
        text = "".join(self._lines) + partial
        if self._table and len(text) > MAX_BLOCK:  # its latest rows
            latest = text[-MAX_BLOCK:].partition("\n")[2] or partial[-MAX_BLOCK:]
            text = "\n".join((*self._table, latest))
        if self._fence is not None:
            text = f"{text.rstrip()}\n{self._fence.marks}\n"
        return Block(kind=kind, text=text, goes_on=goes_on)

    def feed(self, delta: str) -> tuple[Block, ...]:
        """Add text and return the blocks that it finishes."""
        *lines, rest = delta.split("\n")
        for line in lines:
            self._take_part(line)
            whole = "".join(self._partial)
            self._partial, self._partial_length = [], 0
            self._take(whole)
        if rest:
            self._take_part(rest)
        return self._given()

    def _take_part(self, part: str) -> None:
        """Add a part of a line. A long line is split at a word, at the same place however it is chunked."""
        begins = not self._partial and part and part[0] not in " \t"
        if begins and self._is_after_blank and self._lines:
            self._cut()  # this line starts another block in any case: no need to wait for its end
        self._partial.append(part)
        self._partial_length += len(part)
        while self._fence is None and self._partial_length > (most := self._most):
            whole = "".join(self._partial)
            at = whole.rfind(" ", 1, most) + 1 or most
            self._lines.append(whole[:at])
            self._cut(goes_on=True)
            self._partial, self._partial_length = [whole[at:]], len(whole) - at

    def finish(self) -> tuple[Block, ...]:
        """Finish the text, return the remaining blocks, and reset."""
        if self._partial:
            whole = "".join(self._partial)
            self._partial, self._partial_length = [], 0
            self._take(whole)
        if self._fence is not None and self._lines:
            self._lines.append(f"{self._fence.marks}\n")
        self._cut()
        given = self._given()
        self._fence, self._is_after_blank, self._was_item = None, False, False
        return given

    def _given(self) -> tuple[Block, ...]:
        given, self._finished = tuple(self._finished), []
        return given

    def _take(self, line: str) -> None:
        if self._fence is not None:
            self._in_fence(self._fence, line)
        elif not line.strip():
            if self._lines:
                self._add(line)
            self._is_after_blank = True
        else:
            self._outside(line)
            self._is_after_blank = False

    def _in_fence(self, fence: _Fence, line: str) -> None:
        self._add(line)
        if fence.is_closed_by(line):
            self._fence = None
            self._cut()
        elif self._length > MAX_BLOCK:
            self._lines.append(f"{fence.marks}\n")
            self._cut(goes_on=True)
            self._kind = "code"
            self._lines.append(fence.opening)

    def _outside(self, line: str) -> None:
        """Process a non-empty line: it starts a block or continues the open one."""
        is_indented = line[0] in " \t"
        is_item = _ITEM.match(line) is not None
        fence = _FENCE.fullmatch(line)
        if fence is not None and not (self._kind == "item" and is_indented) and _may_open(fence):
            self._cut()
            self._kind = "code"
            self._fence = _Fence(marks=fence["marks"], opening=f"{line}\n")
            self._add(line)
            return
        if is_item and (self._kind == "item" or not self._lines or self._is_after_blank):
            self._begin("item")
        elif self._lines and not is_indented and (self._is_after_blank or self._interrupts(line)):
            self._begin("item" if is_item else "words")
        if self._length > self._most:
            table = () if self._is_after_blank or self._kind != "words" else self._table
            self._cut(goes_on=True)
            for row in table:
                self._add(row)
        self._add(line)
        if _HEADING.match(line) and self._kind == "words":
            self._cut()

    @property
    def _most(self) -> int:
        return MAX_TABLE if self._table else MAX_BLOCK

    def _interrupts(self, line: str) -> bool:
        return self._kind == "words" and bool(_INTERRUPTS.match(line) or _HEADING.match(line))

    def _begin(self, kind: BlockKind) -> None:
        self._cut()
        self._goes_on = self._goes_on or (kind == "item" and self._was_item)
        self._kind = kind

    def _add(self, line: str) -> None:
        if not self._table and self._lines and self._fence is None and _is_below_head(line, self._lines[-1]):
            self._table = (self._lines[-1].removesuffix("\n"), line)
        self._lines.append(f"{line}\n")
        self._length += len(line) + 1

    def _cut(self, *, goes_on: bool = False) -> None:
        """Finish the open block. A continuation is drawn directly below it."""
        text = "".join(self._lines)
        if text.strip():
            self._finished.append(Block(kind=self._kind, text=text, goes_on=self._goes_on))
            self._was_item = self._kind == "item"
        self._lines, self._length, self._table = [], 0, ()
        self._goes_on = goes_on
        if not goes_on:
            self._kind = "words"


def _may_open(fence: re.Match[str]) -> bool:
    return fence["marks"][0] == "~" or "`" not in fence["info"]


def _is_below_head(line: str, before: str) -> bool:
    """Return whether a line makes the previous one the header of a table (GitHub Flavored Markdown 4.10)."""
    return "|" in line and _DELIMITERS.fullmatch(line) is not None and _columns(line) == _columns(before)


def _columns(row: str) -> int:
    return len(_BAR.findall(row.strip().removeprefix("|").removesuffix("|"))) + 1
