"""The port of knowledge: bases of documents, split into passages, for selected users of one tenant.

For other users, they appear not to exist. Calls block. One thread writes at a time, and any thread may read.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from attrs import field, frozen

from agentrail.abc.recall import MemoryOwner, faults_of_tags, tuple_of_tags
from agentrail.errors import OptionError
from agentrail.otp.guarded_calls import repr_of

DocumentState: TypeAlias = Literal["pending", "indexed", "failed"]
"""State of a document: waiting, searchable, or unreadable."""

EVERY_USER: Final = "*"
"""Reader entry for every user of the tenant, and for callers without a user."""

MAX_DOCUMENT_BYTES: Final = 16 << 20
"""Limit of one document, in bytes."""

MAX_DOCUMENT_SUMMARY_CHARACTERS: Final = 300
MAX_FOLDER_CHARACTERS: Final = 500
MAX_FOUND_PASSAGES: Final = 50
"""Maximum number of results of a search."""

MAX_AROUND: Final = 10
"""Maximum number of neighbours read before a passage, and after it."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# Prefix of a path that is not part of its folder, so that documents added as /srv/docs or ../docs have a folder name.
_START: Final = re.compile(r"(?:\.{0,2}/)+")
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)


def check_base_name(name: object) -> str:
    """Return the validated name of a base."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        fault = f"{repr_of(name):.80} is not a knowledge base name: expected 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit"
        raise OptionError([fault])
    return name


def check_readers(readers: Iterable[str]) -> tuple[str, ...]:
    """Return the readers of a base, without duplicates."""
    given: tuple[Any, ...] = tuple(dict.fromkeys(readers))
    faults = [
        f"readers[{place}] is of type {type(one).__name__}: expected a user, or '*' for every user of the tenant"
        for place, one in enumerate(given)
        if not isinstance(one, str) or not one
    ]
    OptionError.raise_for(faults)
    return given


def check_summary(summary: object) -> str:
    """Return the validated summary of a document."""
    if (
        not isinstance(summary, str)
        or not 0 < len(summary) <= MAX_DOCUMENT_SUMMARY_CHARACTERS
        or not summary.isprintable()
    ):
        fault = f"{repr_of(summary):.80} is not a line about a document: expected 1 to {MAX_DOCUMENT_SUMMARY_CHARACTERS} printable characters"
        raise OptionError([fault])
    return summary


def check_document_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the validated tags of a document. The rules are those of memories."""
    given: tuple[str, ...] = tuple_of_tags(tags)
    OptionError.raise_for(faults_of_tags("tags", given))
    return given


def folder_of(path: str) -> str:
    """Return the directory of a path without leading `/`, `./` and `../`, or empty."""
    return _placed(path).rpartition("/")[0]


def _placed(path: str) -> str:
    start = _START.match(path)
    return path if start is None else path[start.end() :]


def _without_last_slash(folder: Any) -> Any:
    return folder.removesuffix("/") if isinstance(folder, str) else folder  # shell completion adds a slash


def _faults_of_folder(folder: object) -> list[str]:
    if (
        isinstance(folder, str)
        and len(folder) <= MAX_FOLDER_CHARACTERS
        and folder.isprintable()
        and not {"", ".", ".."}.intersection(_SCHEME.sub("", folder, count=1).split("/"))
    ):
        return []
    rule = f"1 to {MAX_FOLDER_CHARACTERS} printable characters, without . and .. and without a leading slash"
    return [
        f"{repr_of(folder):.80} is not a document folder: expected the directory part of document paths, such as docs/travel; {rule}"
    ]


@frozen(kw_only=True)
class DocumentFilter:
    """Selects documents. Both conditions must hold.

    Attributes:
        folder: In this folder or below it, or None for all.
        tags: With every one of these tags, compared exactly. Empty: any document.

    Raises:
        OptionError: Your move: an invalid folder or tag.
    """

    folder: str | None = field(default=None, converter=_without_last_slash)
    tags: tuple[str, ...] = field(default=(), converter=tuple_of_tags)

    def __attrs_post_init__(self) -> None:
        faults = [] if self.folder is None else _faults_of_folder(self.folder)
        faults += faults_of_tags("tags", self.tags)
        OptionError.raise_for(faults)

    def passes(self, path: str, tags: Sequence[str]) -> bool:
        """Return whether such a document is selected."""
        is_inside = self.folder is None or _placed(path).startswith(f"{self.folder}/")
        return is_inside and all(tag in tags for tag in self.tags)


ALL_DOCUMENTS: Final = DocumentFilter()
"""Selects all documents."""


def may_read(readers: Sequence[str], reader: MemoryOwner) -> bool:
    """Return whether a user of the tenant may read a base. An empty list matches no user, an empty name never matches."""
    return EVERY_USER in readers or (bool(reader.user) and reader.user in readers)


@frozen(kw_only=True)
class KnowledgeBase:
    """A base as its readers see it.

    Attributes:
        name: Name, unique in the tenant.
        readers: Users of the tenant who may read it, or `*` for all of them.
        documents: Number of searchable documents.
        passages: Number of passages in all documents.
    """

    name: str
    readers: tuple[str, ...]
    documents: int
    passages: int


@frozen(kw_only=True)
class KnowledgeDocument:
    """A document of a base.

    Attributes:
        path: Its name in citations.
        digest: SHA-256 of the added content, in hexadecimal.
        state: Whether it is searchable.
        reason: One sentence if it failed.
        passages: Number of its passages.
        summary: One-line summary, empty if there is none.
        tags: Its tags, in their original order.
    """

    path: str
    digest: str
    state: DocumentState
    reason: str = ""
    passages: int = 0
    summary: str = ""
    tags: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Folder of the document, see `folder_of`."""
        return folder_of(self.path)


@frozen(kw_only=True)
class Passage:
    """A part of a document.

    Attributes:
        id: Unique in the tenant. Changes with the document.
        base: Name of its base.
        path: Path of its document.
        trail: Headings above it, outermost first.
        first_line: First line or page in the document, from 1.
        last_line: Last line or page.
        text: Text of the passage.
        unit: Unit of both numbers: pages for PDF, otherwise lines (of the converted Markdown for HTML).
    """

    id: str
    base: str
    path: str
    trail: tuple[str, ...] = field(converter=tuple)
    first_line: int
    last_line: int
    text: str
    unit: Literal["line", "page"] = "line"

    @property
    def source(self) -> str:
        """Citation for answers: `path#L3-L9`, or for pages `path#p3` or `path#p3-p5`."""
        if self.unit == "page":
            end = "" if self.first_line == self.last_line else f"-p{self.last_line}"
            return f"{self.path}#p{self.first_line}{end}"
        return f"{self.path}#L{self.first_line}-L{self.last_line}"


class KnowledgeStore(Protocol):
    """Keeps bases. Every call but `close` may raise `StoreUnavailable`.

    `open_base`, `announce`, `add`, `fail`, `tag`, `remove`, `documents`, `beginning` and `summarize` are for the maintainer of a base. The others check a
    reader's permission.
    """

    def open_base(self, tenant: str, base: str, readers: Iterable[str] | None = None) -> None:
        """Create a base if missing, and set its readers. None keeps the readers, or sets none on a new base.

        Raises:
            OptionError: Your move: an invalid name or reader.
        """
        ...

    def announce(self, tenant: str, base: str, documents: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Register documents by path and digest. Return the paths to add: new, changed or unfinished.

        Raises:
            OptionError: Your move: unknown base.
        """
        ...

    def add(self, tenant: str, base: str, path: str, content: bytes) -> KnowledgeDocument:
        """Add or replace a document by path, and split it into passages. If unreadable, it is `failed` and has none. Tags stay.

        Raises:
            OptionError: Your move: unknown base, or an invalid path.
        """
        ...

    def fail(self, tenant: str, base: str, path: str, reason: str) -> KnowledgeDocument:
        """Mark a document as unavailable and remove its passages."""
        ...

    def tag(self, tenant: str, base: str, paths: Sequence[str], tags: Iterable[str]) -> int:
        """Replace the tags of documents, even waiting ones, and return their number.

        Raises:
            OptionError: Your move: unknown base, or invalid tags (see `check_document_tags`). Nothing is changed.
        """
        ...

    def remove(self, tenant: str, base: str, path: str) -> bool:
        """Delete a document, overwrite its bytes, and return whether it existed. Idempotent."""
        ...

    def documents(
        self, tenant: str, base: str, within: DocumentFilter = ALL_DOCUMENTS
    ) -> tuple[KnowledgeDocument, ...]:
        """Return the selected documents of a base, sorted by path."""
        ...

    def beginning(self, tenant: str, base: str, path: str, *, most: int = 8_000) -> str:
        """Return at most `most` characters from the beginning of a document, empty without passages."""
        ...

    def summarize(self, tenant: str, base: str, path: str, digest: str, summary: str) -> bool:
        """Set a document's summary until it changes. Return whether the digest still matches.

        Raises:
            OptionError: Your move: unknown base, or a summary that is empty, has a line break, or exceeds 300 characters.
        """
        ...

    def bases(self, reader: MemoryOwner) -> tuple[KnowledgeBase, ...]:
        """Return the bases that a user may read, sorted by name."""
        ...

    def readable(
        self, reader: MemoryOwner, base: str, within: DocumentFilter = ALL_DOCUMENTS
    ) -> tuple[KnowledgeDocument, ...]:
        """Return the searchable, selected documents of a base, sorted by path.

        Raises:
            OptionError: Your move: no such base is readable. The message lists the readable ones.
        """
        ...

    def search(
        self,
        reader: MemoryOwner,
        query: str,
        base: str = "",
        within: DocumentFilter = ALL_DOCUMENTS,
        *,
        limit: int = 8,
    ) -> tuple[Passage, ...]:
        """Return matching passages, best match first, like `RecallStore.search`.

        Args:
            reader: User who searches.
            query: Words, without any special syntax.
            base: Base to search, or empty for all readable ones.
            within: Documents to search, which also determine the rare words.
            limit: Maximum number of results, 1 to 50.

        Raises:
            OptionError: Your move: an invalid limit, or no such base is readable. The message lists the readable ones.
        """
        ...

    def read(self, reader: MemoryOwner, passage_id: str, *, around: int = 0) -> tuple[Passage, ...]:
        """Return a passage with its neighbours, in order, empty if not readable.

        Raises:
            OptionError: Your move: `around` is not 0 to 10.
        """
        ...

    def close(self) -> None:
        """Close the store. Idempotent."""
        ...


class Knowledge(Protocol):
    """A session's access to knowledge, `ctx.knowledge` in its tools. Every call is a checkpoint, and may raise `StoreUnavailable`."""

    def telling(self, tell: Callable[[str], None]) -> "Knowledge":
        """Return the same knowledge with a listener, see `Memories.telling`."""
        ...

    async def bases(self) -> tuple[KnowledgeBase, ...]:
        """Return the readable bases, sorted by name."""
        ...

    async def documents(
        self, base: str, *, folder: str | None = None, tags: Iterable[str] = ()
    ) -> tuple[KnowledgeDocument, ...]:
        """Return the documents in a folder and with all these tags, as in `KnowledgeStore.readable`.

        Raises:
            OptionError: Your move: same as `KnowledgeStore.readable` and `DocumentFilter`.
        """
        ...

    async def search(
        self,
        query: str,
        base: str = "",
        *,
        limit: int = 8,
        folder: str | None = None,
        tags: Iterable[str] = (),
    ) -> tuple[Passage, ...]:
        """Return matching passages in a folder and with all these tags, as in `KnowledgeStore.search`.

        Raises:
            OptionError: Your move: same as `KnowledgeStore.search` and `DocumentFilter`.
        """
        ...

    async def read(self, passage_id: str, *, around: int = 0) -> tuple[Passage, ...]:
        """Return a passage with its neighbours, as in `KnowledgeStore.read`.

        Raises:
            OptionError: Your move: same as `KnowledgeStore.read`.
        """
        ...
