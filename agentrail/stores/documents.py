"""Text of documents, and splitting it into passages."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import PurePosixPath
from typing import Final

from attrs import evolve, frozen

from agentrail.web.page_text import (
    ForeignDocumentKind,
    ReadJob,
    UnreadableDocument,
    document_kind_of,
    read_document_blocking,
)

# Documents are split by heading into passages that are neither too short to be useful nor too long to read.
# Pure. Headings are those of CommonMark that start with `#`, outside of fenced code. Sizes are in bytes, four
# per token, the core's estimate.


LEAST_BYTES: Final = 200 * 4
"""A shorter passage is joined with the next one, even across a heading."""

MOST_BYTES: Final = 800 * 4
"""A longer passage is split: between paragraphs, otherwise between lines, otherwise within a line."""

MAX_TITLE_CHARACTERS: Final = 200

_JOINED_BYTES: Final = 2  # an empty line between two parts of a passage
_MAX_LEVEL: Final = 6
_MAX_INDENT: Final = 3
_FENCE: Final = 3


@frozen(kw_only=True)
class CutPassage:
    """A part of a text."""

    trail: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    first: int
    last: int
    text: str


def passages_of(text: str, *, is_markdown: bool) -> tuple[CutPassage, ...]:
    """Split a text into passages, in order. An overlong line is in several."""
    pieces: list[CutPassage] = []
    group: list[_Block] = []
    size = -_JOINED_BYTES  # the first of a group is not joined to anything
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
    """Lines that belong together: a paragraph, a fence, or a heading with the next lines."""

    trail: tuple[str, ...]
    first: int
    last: int
    text: str
    is_heading: bool

    @property
    def is_bare(self) -> bool:
        return self.is_heading and self.first == self.last

    @property
    def size(self) -> int:
        return len(self.text.encode()) + _JOINED_BYTES


def _joined(group: Sequence[_Block]) -> CutPassage:
    text = group[0].text
    for before, block in pairwise(group):
        text += ("\n" if block.first <= before.last + 1 else "\n\n") + block.text
    # A heading without text only locates the next one, so the trail does not have to cover it.
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
    part: list[str] = []
    size = 0
    begun = first
    for number, line in enumerate(lines, first):
        length = len(line.encode()) + 1
        if part and size + length > MOST_BYTES - 2:
            yield _Block(trail, begun, number - 1, "\n".join(part), is_heading and begun == first)
            part, size, begun = [], 0, number
        if length > MOST_BYTES - 2:
            step = (MOST_BYTES - 4) // 4  # as characters: none has more than four bytes
            for place in range(0, len(line), step):
                piece = line[place : place + step]
                yield _Block(trail, number, number, piece, is_heading and number == first)
            begun = number + 1
            continue
        begun = begun if part else number
        part.append(line)
        size += length
    if part:
        yield _Block(trail, begun, last, "\n".join(part), is_heading and begun == first)


def _heading(line: str) -> tuple[int, str] | None:
    body = line.lstrip(" ")
    level = len(body) - len(body.lstrip("#"))
    rest = body[level:]
    if not 1 <= level <= _MAX_LEVEL or len(line) - len(body) > _MAX_INDENT or (rest and rest[0] not in " \t"):
        return None
    return level, rest.strip().rstrip("#").rstrip()[:MAX_TITLE_CHARACTERS]


def _fence_behind(line: str, fence: str) -> str:
    """Return the marks of the fence that is open after a line, or an empty string."""
    body = line.strip()
    mark = body[:1]
    if mark not in ("`", "~"):
        return fence
    marks = body[: len(body) - len(body.lstrip(mark))]
    if not fence:
        opens = len(marks) >= _FENCE and not (mark == "`" and "`" in body[len(marks) :])
        return marks if opens else ""
    return "" if marks.startswith(fence) and marks == body else fence


MARKDOWN: Final = frozenset({".md", ".markdown"})
PLAIN: Final = frozenset({".txt", ".text", ".rst", ".log", ".csv", ""})
"""File extensions that are read as text without headings."""

HTML: Final = frozenset({".html", ".htm", ".xhtml"})
PDF: Final = frozenset({".pdf"})

_WEB: Final = ("https://", "http://")


@frozen(kw_only=True)
class DocumentText:
    """Text of a document.

    Attributes:
        pages: First line of each page, from 1; empty for a document without pages.
    """

    text: str
    is_markdown: bool = False
    pages: tuple[int, ...] = ()


class UnreadDocument(Exception):
    """A document cannot be read. The text is a clause with the reason and a remedy."""


def read_kb_document(path: str, content: bytes, max_bytes: int) -> DocumentText:
    """Return the text of a document. Blocks; HTML and PDF take up to fifteen seconds."""
    suffix = PurePosixPath(path).suffix.lower()
    kind = _kind_of(path, suffix, content)
    if len(content) > max_bytes:
        message = f"it has more than {max_bytes:,} bytes: split it"
        raise UnreadDocument(message)
    if kind == "text":
        return DocumentText(text=_text_of(content), is_markdown=suffix in MARKDOWN)
    url = path if path.startswith(_WEB) else ""
    try:
        read = read_document_blocking(content, ReadJob(kind=kind, url=url))
    except UnreadableDocument as error:
        raise UnreadDocument(str(error)) from None
    if read.left_out:
        message = "it contains too much text for one document: split it"
        raise UnreadDocument(message)
    if kind == "pdf":
        lines: list[str] = []
        starts: list[int] = []
        for page in read.pages:
            starts.append(len(lines) + 1)
            lines += [*page.splitlines(), ""]
        if not any(lines):
            message = "it contains no text: its pages may be scanned images, which are not supported"
            raise UnreadDocument(message)
        return DocumentText(text="\n".join(lines), pages=tuple(starts))
    (text,) = read.pages
    if not text.strip():
        message = "it contains no text: a script in the browser may produce it"
        raise UnreadDocument(message)
    # The title goes above the text, for the trail.
    titled = f"# {read.title}\n\n{text}" if read.title and not text.lstrip().startswith("# ") else text
    return DocumentText(text=titled, is_markdown=True)


def _kind_of(path: str, suffix: str, content: bytes) -> ForeignDocumentKind:
    if path.startswith(_WEB):
        return document_kind_of("", content) or "text"
    for kind, suffixes in _KINDS:
        if suffix in suffixes:
            return kind
    message = f"files of the kind {suffix!r} are not read: Markdown (.md), text (.txt), HTML (.html) and PDF (.pdf) are"
    raise UnreadDocument(message)


_KINDS: Final[tuple[tuple[ForeignDocumentKind, frozenset[str]], ...]] = (
    ("text", MARKDOWN | PLAIN),
    ("html", HTML),
    ("pdf", PDF),
)


def _text_of(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"it is not UTF-8 at byte {error.start:,}: save it as UTF-8"
        raise UnreadDocument(message) from None
    if "\0" in text:
        message = "it contains zero bytes, so it is not text"
        raise UnreadDocument(message)
    return text


def cut_document(document: DocumentText) -> tuple[CutPassage, ...]:
    """Split a document into passages. With pages, `first` and `last` are pages instead of lines."""
    pieces = passages_of(document.text, is_markdown=document.is_markdown)
    if not document.pages:
        return pieces
    return tuple(
        [
            evolve(
                piece,
                first=bisect_right(document.pages, piece.first),
                last=bisect_right(document.pages, piece.last),
            )
            for piece in pieces
        ]
    )
