"""The port of memories across sessions: entries of text and tags, each owned by one user.

Every call names the owner, and another owner's id is treated as unknown. A store blocks and needs no event loop. One thread
at a time writes, and any thread may read meanwhile. Ids and times come from the caller. `agentrail.testing.check_memory`
tests an implementation against this contract.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from attrs import field, frozen

from agentrail.errors import OptionError

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
    """Return tags as a tuple. A value that cannot be tags is returned unchanged, for validation."""
    # A string is iterable too, and each letter would become a tag.
    return tuple(tags) if isinstance(tags, Iterable) and not isinstance(tags, str | bytes) else tags


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise OptionError(faults)


def fault_of_memory_text(name: str, text: object, max_bytes: int) -> str | None:
    """Return why a text is invalid, without repeating it, or None if it is valid."""
    if not isinstance(text, str):
        return f"{name} is of type {type(text).__name__}: expected text"
    if not text.strip():
        return f"{name} is empty: say what there is to remember"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"{name} has half a character, which no file can hold: leave it out"
    if size > max_bytes:
        return (
            f"{name} has {size:,} bytes, at most {max_bytes:,} are taken: make it shorter, or several of it"
        )
    return None


def faults_of_tags(name: str, tags: object) -> list[str]:
    """Return all faults in the tags of an entry or a filter."""
    if not isinstance(tags, tuple):
        return [f"{name} is of type {type(tags).__name__}: expected a list of texts"]
    if len(tags) > MAX_TAGS:
        return [f"{name} has {len(tags)} tags, at most {MAX_TAGS} are taken"]
    faults = [
        f"{name}[{place}] is no tag: expected 1 to {MAX_TAG_CHARACTERS} characters that can be printed, and no space around them"
        for place, tag in enumerate(tags)
        if not _is_tag(tag)
    ]
    if not faults and len(set(tags)) < len(tags):
        faults.append(f"{name} has a tag twice: name each once")
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
        raise OptionError([f"limit is {limit!r:.80}: expected a whole number from 1 to {most:,}"])


@frozen(kw_only=True)
class MemoryOwner:
    """Owner of entries.

    Attributes:
        tenant: Tenant of the user, empty without tenants. Two tenants never share a file.
        user: User of the tenant, empty for entries of no particular user.

    Raises:
        OptionError: Your move: a field is not a string.
    """

    tenant: str = ""
    user: str = ""

    def __attrs_post_init__(self) -> None:
        """Validate the fields."""
        given: tuple[tuple[str, Any], ...] = (("tenant", self.tenant), ("user", self.user))
        _refuse(
            [
                f"{name} is of type {type(one).__name__}: expected text"
                for name, one in given
                if not isinstance(one, str)
            ]
        )


@frozen(kw_only=True)
class MemoryEntry:
    """One memory.

    Attributes:
        id: 1 to 128 of `A-Z a-z 0-9 . _ : -`, starting with a letter or digit, unique for the owner.
        text: Content: 1 byte to 8 KiB of UTF-8, not only whitespace.
        tags: Topics: at most 16, of 1 to 64 characters each, compared exactly.
        session: Session that it comes from, empty for none.
        at_ms: Creation time, in milliseconds since 1970.
        version: Version of the text's format, from 1, for applications that store more than plain sentences.

    Raises:
        OptionError: Your move: invalid fields. All faults are reported at once, without repeating the text.
    """

    id: str
    text: str
    tags: tuple[str, ...] = field(default=(), converter=tuple_of_tags)
    session: str = ""
    at_ms: int
    version: int = 1

    def __attrs_post_init__(self) -> None:
        """Validate the fields."""
        given: Any = self  # mypy trusts the annotations, which are in doubt here
        faults: list[str] = []
        if not isinstance(given.id, str) or _ID.fullmatch(given.id) is None:
            faults.append("id is none: expected 1 to 128 of A-Z a-z 0-9 . _ : -, the first a letter or digit")
        fault = fault_of_memory_text("text", given.text, MAX_MEMORY_BYTES)
        faults += [] if fault is None else [fault]
        faults += faults_of_tags("tags", given.tags)
        if (
            not isinstance(given.session, str)
            or not given.session.isprintable()
            or len(given.session) > _MAX_SESSION
        ):
            faults.append(f"session is {given.session!r:.80}: expected the id of a session, or empty text")
        if type(given.at_ms) is not int or not 0 <= given.at_ms < 1 << 53:
            faults.append(f"at_ms is {given.at_ms!r:.80}: expected milliseconds since 1970, a whole number")
        if type(given.version) is not int or not 1 <= given.version < 1 << 31:
            faults.append(f"version is {given.version!r:.80}: expected a whole number from 1")
        _refuse(faults)


@frozen(kw_only=True)
class TagFilter:
    """Selects entries by tags. An entry must pass both conditions.

    Attributes:
        any_of: At least one of these tags. Empty: any entry.
        all_of: Every one of these tags.

    Raises:
        OptionError: Your move: an invalid tag, or more than 16. All faults are reported at once.
    """

    any_of: tuple[str, ...] = field(default=(), converter=tuple_of_tags)
    all_of: tuple[str, ...] = field(default=(), converter=tuple_of_tags)

    def __attrs_post_init__(self) -> None:
        """Validate the fields."""
        _refuse([*faults_of_tags("tags_any", self.any_of), *faults_of_tags("tags_all", self.all_of)])

    def passes(self, tags: Sequence[str]) -> bool:
        """Return whether an entry with these tags is selected."""
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
        is_erased: Whether their bytes are overwritten too. If not, a reader prevented it: the entries cannot be found any
            more, and the next call of `forget` overwrites them.
    """

    entries: int
    is_erased: bool


class RecallStore(Protocol):
    """Keeps memories. Every call but `close` may raise `StoreUnavailable`.

    Only one thread at a time may call the writing methods: `put`, `delete`, `forget`. Reading methods may be called from any
    thread at the same time.
    """

    @property
    def is_immediate(self) -> bool:
        """Whether calls return at once, so that no thread is needed."""
        ...

    def put(self, owner: MemoryOwner, entry: MemoryEntry) -> None:
        """Store an entry, replacing the owner's entry with the same id. It is durable when this returns. Idempotent."""
        ...

    def get(self, owner: MemoryOwner, entry_id: str) -> MemoryEntry | None:
        """Return one entry, or None if this owner has none with this id."""
        ...

    def search(
        self, owner: MemoryOwner, query: str, tags: TagFilter = ANY_TAGS, *, limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Return matching entries of an owner, best match first, then most recently stored first.

        A query is a list of words: sequences of letters and digits. The first 32 are searched in texts and tags. An entry
        with any of them matches, except for words so frequent that they carry no information.

        Args:
            owner: Owner of the entries.
            query: Any text. Without a word it finds nothing.
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
        """Delete an entry and overwrite its bytes. Idempotent.

        Returns:
            Whether this owner had an entry with this id.
        """
        ...

    def forget(self, owner: MemoryOwner) -> Forgotten:
        """Delete all entries of an owner and overwrite their bytes. Idempotent."""
        ...

    def close(self) -> None:
        """Close the store. Idempotent."""
        ...


class Memories(Protocol):
    """A session's access to the memories of its owner, `ctx.memories` in its tools. No other owner can be named.

    Every call is a checkpoint, and may raise `StoreUnavailable`, which is no one's move: try again later.

    Cancellation: A change that has started is completed, and only its result is lost.
    """

    @property
    def owner(self) -> MemoryOwner:
        """Owner of the memories."""
        ...

    def telling(self, tell: Callable[[str], None]) -> "Memories":
        """Return the same memories with a listener, which is called with the reason when a search could not compare meanings.

        Without an embedder it is not called, because searching by words is then intended.
        """
        ...

    async def put(self, text: str, *, tags: Iterable[str] = (), entry_id: str | None = None) -> MemoryEntry:
        """Store a memory.

        Args:
            text: Content: 1 byte to 8 KiB of UTF-8.
            tags: Topics, at most 16.
            entry_id: An id that makes the call idempotent. None generates one.

        Returns:
            The stored entry, with its id.

        Raises:
            OptionError: Your move: invalid arguments. All faults are reported at once.
        """
        ...

    async def get(self, entry_id: str) -> MemoryEntry | None:
        """Return one memory, or None if the id is unknown."""
        ...

    async def search(
        self, query: str, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Return matching memories, best match first. See `RecallStore.search`.

        Raises:
            OptionError: Your move: invalid tags or an invalid limit.
        """
        ...

    async def newest(
        self, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 20
    ) -> tuple[MemoryEntry, ...]:
        """Return the most recent memories, newest first.

        Raises:
            OptionError: Your move: invalid tags or an invalid limit.
        """
        ...

    async def delete(self, entry_id: str) -> bool:
        """Delete one memory, and return whether it existed."""
        ...
