"""The port of memories across sessions: entries of text and tags, owned by one user.

An owner's id is unknown to every other owner. Calls block. One thread writes at a time, and any thread may read. Test a store with
`agentrail.testing.check_memory`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from attrs import field, frozen

from agentrail.errors import OptionError
from agentrail.otp.field_rules import CheckedFields
from agentrail.otp.guarded_calls import repr_of

MAX_MEMORY_BYTES: Final = 8 << 10
"""Limit of one entry's text, in bytes of UTF-8."""

MAX_TAGS: Final = 16
"""Maximum number of tags of an entry, and of a filter."""

MAX_TAG_CHARACTERS: Final = 64

MAX_FOUND: Final = 100
"""Maximum number of results of a search."""

MAX_LISTED: Final = 1_000
"""Maximum number of entries on a page of a list."""

_MAX_SESSION: Final = 1_000
"""Limit of a session id. Ids of children contain those of their ancestors."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def tuple_of_tags(tags: Any) -> Any:
    """Return tags as a tuple, or an impossible value unchanged for validation."""
    # A string is iterable too, and each letter would become a tag.
    return tuple(tags) if isinstance(tags, Iterable) and not isinstance(tags, str | bytes) else tags


def fault_of_memory_text(name: str, text: object, max_bytes: int) -> str | None:
    """Return why a text is invalid, without repeating it, or None."""
    if not isinstance(text, str):
        return f"{name} is of type {type(text).__name__}: expected text"
    if not text.strip():
        return f"{name} is empty: give the text to remember"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"{name} has a lone surrogate, which no file can hold: remove it"
    if size > max_bytes:
        return f"{name} has {size:,} bytes, at most {max_bytes:,} are allowed: shorten it, or split it"
    return None


def faults_of_tags(name: str, tags: object) -> list[str]:
    """Return all faults in the tags of an entry or a filter."""
    if not isinstance(tags, tuple):
        return [f"{name} is of type {type(tags).__name__}: expected a list of texts"]
    if len(tags) > MAX_TAGS:
        return [f"{name} has {len(tags)} tags, at most {MAX_TAGS} are allowed"]
    faults = [
        f"{name}[{place}] is not a tag: expected 1 to {MAX_TAG_CHARACTERS} printable characters without surrounding spaces"
        for place, tag in enumerate(tags)
        if not _is_tag(tag)
    ]
    if not faults and len(set(tags)) < len(tags):
        faults.append(f"{name} repeats a tag: list each tag once")
    return faults


def _is_tag(tag: object) -> bool:
    return (
        isinstance(tag, str)
        and 0 < len(tag) <= MAX_TAG_CHARACTERS
        and tag.isprintable()
        and tag == tag.strip()
    )


def check_limit(limit: int, most: int) -> None:
    """Raise `OptionError` for an invalid number of entries."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise OptionError([f"limit is {repr_of(limit):.80}: expected a whole number from 1 to {most:,}"])


@frozen(kw_only=True)
class MemoryOwner(CheckedFields):
    """Owner of entries.

    Attributes:
        tenant: Tenant, empty without tenants. Tenants never share a file.
        user: User of the tenant, empty for no particular user.

    Raises:
        OptionError: Your move: a field is not a string.
    """

    tenant: str = ""
    user: str = ""


@frozen(kw_only=True)
class MemoryEntry:
    """One memory.

    Attributes:
        id: 1 to 128 of `A-Z a-z 0-9 . _ : -`, starting with a letter or digit, unique for the owner.
        text: Content: 1 byte to 8 KiB of UTF-8, not only whitespace.
        tags: Topics: at most 16, of 1 to 64 characters each, compared exactly.
        session: Session that it comes from, empty for none.
        at_ms: Creation time, in milliseconds since 1970.
        version: Version of the text's format, from 1.

    Raises:
        OptionError: Your move: invalid fields. The text is not repeated.
    """

    id: str
    text: str
    tags: tuple[str, ...] = field(default=(), converter=tuple_of_tags)
    session: str = ""
    at_ms: int
    version: int = 1

    def __attrs_post_init__(self) -> None:
        given: Any = self  # mypy trusts the annotations, which are in doubt here
        faults: list[str] = []
        if not isinstance(given.id, str) or _ID.fullmatch(given.id) is None:
            faults.append(
                "id is invalid: expected 1 to 128 of A-Z a-z 0-9 . _ : -, the first a letter or digit"
            )
        fault = fault_of_memory_text("text", given.text, MAX_MEMORY_BYTES)
        faults += [] if fault is None else [fault]
        faults += faults_of_tags("tags", given.tags)
        session, at_ms = given.session, given.at_ms
        if not isinstance(session, str) or not session.isprintable() or len(session) > _MAX_SESSION:
            faults.append(f"session is {repr_of(session):.80}: expected the id of a session, or empty text")
        if type(at_ms) is not int or not 0 <= at_ms < 1 << 53:
            faults.append(f"at_ms is {repr_of(at_ms):.80}: expected milliseconds since 1970, a whole number")
        if type(given.version) is not int or not 1 <= given.version < 1 << 31:
            faults.append(f"version is {repr_of(given.version):.80}: expected a whole number >= 1")
        OptionError.raise_for(faults)


@frozen(kw_only=True)
class TagFilter:
    """Selects entries by tags. Both conditions must hold.

    Attributes:
        any_of: At least one of these tags. Empty: any entry.
        all_of: Every one of these tags.

    Raises:
        OptionError: Your move: an invalid tag, or more than 16.
    """

    any_of: tuple[str, ...] = field(default=(), converter=tuple_of_tags)
    all_of: tuple[str, ...] = field(default=(), converter=tuple_of_tags)

    def __attrs_post_init__(self) -> None:
        OptionError.raise_for(
            [*faults_of_tags("tags_any", self.any_of), *faults_of_tags("tags_all", self.all_of)]
        )

    def passes(self, tags: Sequence[str]) -> bool:
        """Return whether such an entry is selected."""
        return (not self.any_of or any(tag in tags for tag in self.any_of)) and all(
            tag in tags for tag in self.all_of
        )


ANY_TAGS: Final = TagFilter()
"""Selects all entries."""


@frozen(kw_only=True)
class Forgotten:
    """Outcome of forgetting an owner.

    Attributes:
        entries: Number of deleted entries.
        is_erased: Whether their bytes are overwritten. If not, a reader prevented it, and the next `forget` overwrites them, or this store never does it.
    """

    entries: int
    is_erased: bool


class RecallStore(Protocol):
    """Keeps memories. Every call but `close` may raise `StoreUnavailable`.

    One thread at a time calls `put`, `delete` and `forget`. Any thread may read meanwhile.
    """

    @property
    def is_immediate(self) -> bool:
        """Whether calls need no thread."""
        ...

    def put(self, owner: MemoryOwner, entry: MemoryEntry) -> None:
        """Store an entry durably, replacing the owner's entry with the same id. Idempotent."""
        ...

    def get(self, owner: MemoryOwner, entry_id: str) -> MemoryEntry | None:
        """Return one entry, or None if this owner has no such id."""
        ...

    def search(
        self, owner: MemoryOwner, query: str, tags: TagFilter = ANY_TAGS, *, limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Return matching entries, best match first, then most recently stored first.

        The first 32 words (letters and digits) are searched in texts and tags. An entry matches with any of them, except words too frequent to inform.

        Args:
            owner: Owner of the entries.
            query: Any text, without a word no result.
            tags: Selects the entries to search.
            limit: Maximum number of results, 1 to 100.

        Raises:
            OptionError: Your move: an invalid limit.
        """
        ...

    def list(
        self,
        owner: MemoryOwner,
        tags: TagFilter = ANY_TAGS,
        *,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> tuple[MemoryEntry, ...]:
        """Return an owner's entries, newest first, then by descending id.

        Args:
            owner: Owner of the entries.
            tags: Selects the entries.
            limit: Maximum number of entries, 1 to 1,000.
            after: `at_ms` and `id` of the last entry of the previous page, or None for the first page.

        Raises:
            OptionError: Your move: an invalid limit.
        """
        ...

    def delete(self, owner: MemoryOwner, entry_id: str) -> bool:
        """Delete an entry and, if the store can, overwrite its bytes. Idempotent.

        Returns:
            Whether it existed.
        """
        ...

    def forget(self, owner: MemoryOwner) -> Forgotten:
        """Delete an owner's entries and, if the store can, overwrite their bytes. Idempotent."""
        ...

    def close(self) -> None:
        """Close the store. Idempotent."""
        ...


class Memories(Protocol):
    """A session's access to the memories of its owner, `ctx.memories` in its tools.

    Every call is a checkpoint, and may raise `StoreUnavailable`, no one's move: try again later.

    Cancellation: A started change is completed, only its result is lost.
    """

    @property
    def owner(self) -> MemoryOwner:
        """The owner."""
        ...

    def telling(self, tell: Callable[[str], None]) -> "Memories":
        """Return the same memories with a listener, called with the reason when a search cannot compare meanings.

        Never called without an embedder.
        """
        ...

    async def put(self, text: str, *, tags: Iterable[str] = (), entry_id: str | None = None) -> MemoryEntry:
        """Store a memory.

        Args:
            text: Content: 1 byte to 8 KiB of UTF-8.
            tags: Topics, at most 16.
            entry_id: Id that makes the call idempotent, or None to generate one.

        Returns:
            The stored entry.

        Raises:
            OptionError: Your move: invalid arguments.
        """
        ...

    async def get(self, entry_id: str) -> MemoryEntry | None:
        """Return one memory, or None if the id is unknown."""
        ...

    async def search(
        self, query: str, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Return matching memories, best match first, as in `RecallStore.search`.

        Raises:
            OptionError: Your move: invalid tags or limit.
        """
        ...

    async def newest(
        self, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 20
    ) -> tuple[MemoryEntry, ...]:
        """Return the most recent memories, newest first.

        Raises:
            OptionError: Your move: invalid tags or limit.
        """
        ...

    async def delete(self, entry_id: str) -> bool:
        """Delete one memory, and return whether it existed."""
        ...
