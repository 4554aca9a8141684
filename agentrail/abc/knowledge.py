"""The port for knowledge: bases of documents, cut into passages, which some users of one tenant may read.

A base without readers is read by no user. To one who may not read it there is no such base, passage or document. A store
blocks and needs no loop; one thread at a time writes, any may read beside it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from attrs import field, frozen

from agentrail.abc.recall import MemoryOwner, faults_of_tags, tuple_of_tags
from agentrail.errors import OptionError

DocumentState: TypeAlias = Literal["pending", "indexed", "failed"]
"""What became of a document: it waits, its passages can be found, or it could not be read."""

EVERY_USER: Final = "*"
"""Among the readers of a base: every user of its tenant, and who has no user."""

MAX_DOCUMENT_BYTES: Final = 16 << 20
"""Of one document."""

MAX_DOCUMENT_SUMMARY_CHARACTERS: Final = 300
MAX_FOLDER_CHARACTERS: Final = 500
MAX_FOUND_PASSAGES: Final = 50
"""How many passages one search gives at most."""

MAX_AROUND: Final = 10
"""How many passages in front of one, and behind it, are read with it at most."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# From where a path is meant: no part of a folder, so that what was added as /srv/docs or ../docs has one that can be named.
_START: Final = re.compile(r"(?:\.{0,2}/)+")
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)


def check_base_name(name: object) -> str:
    """Give the name of a base."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        fault = f"{name!r:.80} is no name of a knowledge base: expected 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit"
        raise OptionError([fault])
    return name


def check_readers(readers: Iterable[str]) -> tuple[str, ...]:
    """Give the readers of a base, each once."""
    given: tuple[Any, ...] = tuple(dict.fromkeys(readers))
    faults = [
        f"readers[{place}] is of type {type(one).__name__}: expected a user, or '*' for every user of the tenant"
        for place, one in enumerate(given)
        if not isinstance(one, str) or not one
    ]
    if faults:
        raise OptionError(faults)
    return given


def check_summary(summary: object) -> str:
    """Give a line about a document."""
    if (
        not isinstance(summary, str)
        or not 0 < len(summary) <= MAX_DOCUMENT_SUMMARY_CHARACTERS
        or not summary.isprintable()
    ):
        raise OptionError(
            [
                f"{summary!r:.80} is no line about a document: expected 1 to {MAX_DOCUMENT_SUMMARY_CHARACTERS} characters that can be printed"
            ]
        )
    return summary


def check_document_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Give the tags of a document; they are as those of a memory."""
    given: tuple[str, ...] = tuple_of_tags(tags)
    faults = faults_of_tags("tags", given)
    if faults:
        raise OptionError(faults)
    return given


def folder_of(path: str) -> str:
    """Give the folder of a document, the directory part of its path without `/`, `./` and `../` in front; empty where it has none."""
    return _placed(path).rpartition("/")[0]


def _placed(path: str) -> str:
    start = _START.match(path)
    return path if start is None else path[start.end() :]


def _without_last_slash(folder: Any) -> Any:
    return folder.removesuffix("/") if isinstance(folder, str) else folder  # as a shell completes it


def _faults_of_folder(folder: object) -> list[str]:
    if (
        isinstance(folder, str)
        and len(folder) <= MAX_FOLDER_CHARACTERS
        and folder.isprintable()
        and not {"", ".", ".."}.intersection(_SCHEME.sub("", folder, count=1).split("/"))
    ):
        return []
    rule = f"1 to {MAX_FOLDER_CHARACTERS} characters that can be printed, without . and .. and without a slash in front"
    return [
        f"{folder!r:.80} is no folder of documents: expected the directory part of their paths, as docs/travel; {rule}"
    ]


@frozen(kw_only=True)
class DocumentFilter:
    """Which documents are looked at: those that pass both.

    Attributes:
        folder: Those in this folder and the folders below it; None for all. A slash at its end is left out.
        tags: Those that have every one of these, exactly as they are written; empty for whatever tags.

    Raises:
        OptionError: Your move: what is no folder or no tag; all faults at once.
    """

    folder: str | None = field(default=None, converter=_without_last_slash)
    tags: tuple[str, ...] = field(default=(), converter=tuple_of_tags)

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        faults = [] if self.folder is None else _faults_of_folder(self.folder)
        faults += faults_of_tags("tags", self.tags)
        if faults:
            raise OptionError(faults)

    def passes(self, path: str, tags: Sequence[str]) -> bool:
        """Say whether a document of this path, with these tags, is looked at."""
        is_inside = self.folder is None or _placed(path).startswith(f"{self.folder}/")
        return is_inside and all(tag in tags for tag in self.tags)


ALL_DOCUMENTS: Final = DocumentFilter()
"""Whatever their folders and tags."""


def may_read(readers: Sequence[str], reader: MemoryOwner) -> bool:
    """Say whether a base is open to a user of its tenant. No user is meant by an empty list, and none by an empty name."""
    return EVERY_USER in readers or (bool(reader.user) and reader.user in readers)


@frozen(kw_only=True)
class KnowledgeBase:
    """A base, as those see it who may read it.

    Attributes:
        name: Unlike the others of its tenant.
        readers: Who may read it: users of its tenant, or `*` for all of them.
        documents: How many can be found.
        passages: Of all documents together.
    """

    name: str
    readers: tuple[str, ...]
    documents: int
    passages: int


@frozen(kw_only=True)
class KnowledgeDocument:
    """A document of a base.

    Attributes:
        path: What it is called in sources.
        digest: The SHA-256 of what was added, in hexadecimal digits.
        state: What became of it.
        reason: Of one that failed, a sentence.
        passages: How many it has.
        summary: What it is about, in a line; empty where none was written.
        tags: What it was tagged with, in this order.
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
        """Where it is; see `folder_of`."""
        return folder_of(self.path)


@frozen(kw_only=True)
class Passage:
    """A part of a document.

    Attributes:
        id: Unlike all others of its tenant; another one when the document has changed.
        base: The base that it is in.
        path: The document.
        trail: The headings above it, the outermost first.
        first_line: Where it begins in the document, from 1: a line, or a page.
        last_line: Where it ends.
        text: What stands there.
        unit: What is counted: of a PDF pages, of HTML the lines of its Markdown.
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
        """What answers cite: `path#L3-L9`, of pages `path#p3` or `path#p3-p5`."""
        if self.unit == "page":
            end = "" if self.first_line == self.last_line else f"-p{self.last_line}"
            return f"{self.path}#p{self.first_line}{end}"
        return f"{self.path}#L{self.first_line}-L{self.last_line}"


class KnowledgeStore(Protocol):
    """Keeps bases. Every call but `close` may raise `StoreUnavailable`.

    `open_base`, `announce`, `add`, `fail`, `tag`, `remove`, `documents`, `beginning` and `summarize` are for who looks after a base; the others
    ask for a user who may read or not.
    """

    def open_base(self, tenant: str, base: str, readers: Iterable[str] | None = None) -> None:
        """Make a base where there is none, and say who may read it; None leaves that as it is, and of a new one no user may.

        Raises:
            OptionError: Your move: a name or a reader that is none.
        """
        ...

    def announce(self, tenant: str, base: str, documents: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Let documents wait, by path and digest, and give the paths of those that are to be added: new, changed, or not done the last time.

        Raises:
            OptionError: Your move: there is no such base.
        """
        ...

    def add(self, tenant: str, base: str, path: str, content: bytes) -> KnowledgeDocument:
        """Put a document in place of the one of its path, and cut it into passages. What cannot be read is `failed`, and has none.

        The tags of the one of its path stay.

        Raises:
            OptionError: Your move: there is no such base, or a path that is none.
        """
        ...

    def fail(self, tenant: str, base: str, path: str, reason: str) -> KnowledgeDocument:
        """Note that a document could not be had. It has no passages any more."""
        ...

    def tag(self, tenant: str, base: str, paths: Sequence[str], tags: Iterable[str]) -> int:
        """Give documents these tags in place of theirs, also while they wait; without any they have none. Says how many there were.

        Raises:
            OptionError: Your move: there is no such base, or as of `check_document_tags`; then nothing is changed.
        """
        ...

    def remove(self, tenant: str, base: str, path: str) -> bool:
        """Remove a document, and overwrite what stood there; twice is fine. Says whether there was one."""
        ...

    def documents(
        self, tenant: str, base: str, within: DocumentFilter = ALL_DOCUMENTS
    ) -> tuple[KnowledgeDocument, ...]:
        """Give the documents of a base that pass, by path, for who looks after it."""
        ...

    def beginning(self, tenant: str, base: str, path: str, *, most: int = 8_000) -> str:
        """Give how a document begins, at most so many characters of it; nothing where there is none, or it has no passages."""
        ...

    def summarize(self, tenant: str, base: str, path: str, digest: str, summary: str) -> bool:
        """Write in a line what a document is about, until it changes. Says whether it is there as it was, with this digest.

        Raises:
            OptionError: Your move: there is no such base, or the line has no character, more than 300, or a line end.
        """
        ...

    def bases(self, reader: MemoryOwner) -> tuple[KnowledgeBase, ...]:
        """Give the bases that a user may read, by name."""
        ...

    def readable(
        self, reader: MemoryOwner, base: str, within: DocumentFilter = ALL_DOCUMENTS
    ) -> tuple[KnowledgeDocument, ...]:
        """Give the documents of a base that can be found and pass, by path.

        Raises:
            OptionError: Your move: there is no base of this name that they may read; the message has those there are.
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
        """Give passages about something, what fits best first, as `RecallStore.search` does.

        Args:
            reader: Who asks.
            query: Words; nothing in it is syntax.
            base: Of this base; empty for all that they may read.
            within: Of these documents alone; which words of the query are rare is a matter of them too.
            limit: How many at most, 1 to 50.

        Raises:
            OptionError: Your move: a limit that is none, or no base of this name that they may read; the message has those there are.
        """
        ...

    def read(self, reader: MemoryOwner, passage_id: str, *, around: int = 0) -> tuple[Passage, ...]:
        """Give a passage with its neighbours in order; nothing where there is none of this id that they may read.

        Raises:
            OptionError: Your move: `around` is no number from 0 to 10.
        """
        ...

    def close(self) -> None:
        """Let go of the store; again if you like."""
        ...


class Knowledge(Protocol):
    """What one session may read; `ctx.knowledge` of its tools. Every call is a checkpoint, and may raise `StoreUnavailable`."""

    def telling(self, tell: Callable[[str], None]) -> "Knowledge":
        """Give the same, with a listener that is told when a search could not compare meanings, and why; as of `Memories`."""
        ...

    async def bases(self) -> tuple[KnowledgeBase, ...]:
        """Give the bases, by name."""
        ...

    async def documents(
        self, base: str, *, folder: str | None = None, tags: Iterable[str] = ()
    ) -> tuple[KnowledgeDocument, ...]:
        """Give the documents of a base, in a folder and with all of these tags; see `KnowledgeStore.readable`.

        Raises:
            OptionError: Your move: as there, or as of `DocumentFilter`.
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
        """Give passages about something, of documents in a folder and with all of these tags; see `KnowledgeStore.search`.

        Raises:
            OptionError: Your move: as there, or as of `DocumentFilter`.
        """
        ...

    async def read(self, passage_id: str, *, around: int = 0) -> tuple[Passage, ...]:
        """Give a passage with its neighbours; see `KnowledgeStore.read`.

        Raises:
            OptionError: Your move: as there.
        """
        ...
