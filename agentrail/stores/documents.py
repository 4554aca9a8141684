"""What a document says, and how it is cut: Markdown and text here, HTML and PDF in a process of their own (`agentrail.web.reading`)."""

from bisect import bisect_right
from pathlib import PurePosixPath
from typing import Final

from attrs import evolve, frozen

from agentrail.stores.passages import CutPassage, passages_of
from agentrail.web.reading import (
    ForeignDocumentKind,
    ReadJob,
    UnreadableDocument,
    document_kind_of,
    read_document_blocking,
)

MARKDOWN: Final = frozenset({".md", ".markdown"})
PLAIN: Final = frozenset({".txt", ".text", ".rst", ".log", ".csv", ""})
"""Of the ends of names what is read as text without headings."""

HTML: Final = frozenset({".html", ".htm", ".xhtml"})
PDF: Final = frozenset({".pdf"})

_WEB: Final = ("https://", "http://")


@frozen(kw_only=True)
class DocumentText:
    """What a document says.

    Attributes:
        text: All of it.
        is_markdown: Whether it has headings and fences.
        pages: The first line of each page, from 1; empty for what has no pages.
    """

    text: str
    is_markdown: bool = False
    pages: tuple[int, ...] = ()


class UnreadDocument(Exception):
    """A document cannot be read. The text says why and what to do, a clause without a full stop."""


def read_kb_document(path: str, content: bytes, max_bytes: int) -> DocumentText:
    """Give what a document says. This blocks, of HTML and PDF up to fifteen seconds.

    Args:
        path: What it is called: the end of the name says what it is; of an address its beginning does.
        content: What stands in it.
        max_bytes: How much may.

    Raises:
        UnreadDocument: Your move: it is of another kind, too long, or damaged.
    """
    suffix = PurePosixPath(path).suffix.lower()
    kind = _kind_of(path, suffix, content)
    if len(content) > max_bytes:
        message = f"it has {len(content):,} bytes, at most {max_bytes:,} are read: cut it into several"
        raise UnreadDocument(message)
    if kind == "text":
        return DocumentText(text=_text_of(content), is_markdown=suffix in MARKDOWN)
    url = path if path.startswith(_WEB) else ""
    try:
        read = read_document_blocking(content, ReadJob(kind=kind, url=url))
    except UnreadableDocument as error:
        raise UnreadDocument(str(error)) from None
    if read.left_out:
        message = "it has more text than is kept of one: cut it into several"
        raise UnreadDocument(message)
    if kind == "pdf":
        return _of_pages(read.pages)
    (text,) = read.pages
    if not text.strip():
        message = "there is no text in it: it may be made by a program in the browser"
        raise UnreadDocument(message)
    # What a page is called stands above all of it, for the trail.
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
        message = f"it is no UTF-8 from byte {error.start:,} on: save it as UTF-8"
        raise UnreadDocument(message) from None
    if "\0" in text:
        message = "it has bytes of zero, which no text has"
        raise UnreadDocument(message)
    return text


def _of_pages(pages: tuple[str, ...]) -> DocumentText:
    lines: list[str] = []
    starts: list[int] = []
    for page in pages:
        starts.append(len(lines) + 1)
        lines += [*page.splitlines(), ""]
    if not any(lines):
        message = "there is no text in it: it may be pictures of pages, which are not read"
        raise UnreadDocument(message)
    return DocumentText(text="\n".join(lines), pages=tuple(starts))


def cut_document(document: DocumentText) -> tuple[CutPassage, ...]:
    """Cut a document into passages; of one with pages `first` and `last` are pages and no lines."""
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
