"""The port for what is remembered across sessions: entries of text and tags, each of which belongs to one user.

The owner is a part of every call, and no filter: an id of another owner is an id that there is not. A store blocks and needs no
loop; one thread at a time writes, any may read beside it. Ids and times are given, none is minted here, and no clock is read.
`agentrail.testing.check_memory` holds an implementation to all that stands here.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from attrs import field, frozen

from agentrail.errors import OptionError

MAX_MEMORY_BYTES: Final = 8 << 10
"""Of the text of one entry, in UTF-8."""

MAX_TAGS: Final = 16
"""Of one entry, and of one filter."""

MAX_TAG_CHARACTERS: Final = 64

MAX_FOUND: Final = 100
"""How many entries one search gives at most."""

MAX_LISTED: Final = 1_000
"""How many entries one page of a list has at most."""

_MAX_SESSION: Final = 1_000
"""Ids of children are made of those above them."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def tuple_of_tags(tags: Any) -> Any:
    """Give tags as a tuple; what can be none comes back as it was, to be refused."""
    # A text is a sequence of letters too, and each of them would be a tag.
    return tuple(tags) if isinstance(tags, Iterable) and not isinstance(tags, str | bytes) else tags


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise OptionError(faults)


def fault_of_memory_text(name: str, text: object, max_bytes: int) -> str | None:
    """Say why this is no text to be kept, without repeating it; None when it is one."""
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
    """Say all that is wrong with the tags of an entry or of a filter."""
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
    """Refuse a number of entries that cannot be asked for."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise OptionError([f"limit is {limit!r:.80}: expected a whole number from 1 to {most:,}"])


@frozen(kw_only=True)
class MemoryOwner:
    """To whom entries belong.

    Attributes:
        tenant: Whose user they are; empty where there are no tenants. What two tenants have never lies in one file.
        user: Who of them; empty for what belongs to no user in particular.

    Raises:
        OptionError: Your move: one of them is no text.
    """

    tenant: str = ""
    user: str = ""

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
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
    """One thing that is remembered.

    Attributes:
        id: 1 to 128 of `A-Z a-z 0-9 . _ : -`, the first a letter or digit; unlike the others of its owner.
        text: What is remembered; 1 byte to 8 KiB of UTF-8, and not only space.
        tags: What it is about: 16 at most, of 1 to 64 characters each, exactly as they are written.
        session: The session that it comes from; empty for none.
        at_ms: When it was remembered, in milliseconds since 1970.
        version: Of what the text means, for those who write more than plain sentences into it; from 1.

    Raises:
        OptionError: Your move; all faults at once. The text is not repeated.
    """

    id: str
    text: str
    tags: tuple[str, ...] = field(default=(), converter=tuple_of_tags)
    session: str = ""
    at_ms: int
    version: int = 1

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        given: Any = self  # mypy takes the annotations at their word, and those are in doubt here
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
    """Which entries are looked at, by their tags: those that pass both.

    Attributes:
        any_of: At least one of these; empty for whatever tags.
        all_of: Every one of these.

    Raises:
        OptionError: Your move: what is no tag, or more than 16; all faults at once.
    """

    any_of: tuple[str, ...] = field(default=(), converter=tuple_of_tags)
    all_of: tuple[str, ...] = field(default=(), converter=tuple_of_tags)

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        _refuse([*faults_of_tags("tags_any", self.any_of), *faults_of_tags("tags_all", self.all_of)])

    def passes(self, tags: Sequence[str]) -> bool:
        """Say whether an entry with these tags is looked at."""
        return (not self.any_of or any(tag in tags for tag in self.any_of)) and all(
            tag in tags for tag in self.all_of
        )


ANY_TAGS: Final = TagFilter()
"""All entries."""


@frozen(kw_only=True)
class Forgotten:
    """What became of the entries of an owner who is to be forgotten.

    Attributes:
        entries: How many there were.
        is_erased: Whether their bytes are gone too. If not, a reader stood in the way: nothing is found any more, and what they were
            is overwritten by the next call of `forget`.
    """

    entries: int
    is_erased: bool


class RecallStore(Protocol):
    """Keeps what is remembered. Every call but `close` may raise `StoreUnavailable`.

    One thread at a time calls what writes: `put`, `delete`, `forget`. What reads may be called from any thread beside it.
    """

    @property
    def is_immediate(self) -> bool:
        """Whether every call takes no time, so that no thread is needed for it."""
        ...

    def put(self, owner: MemoryOwner, entry: MemoryEntry) -> None:
        """Keep an entry, in place of the one of this owner with its id. It is durable when this returns; the same again is fine."""
        ...

    def get(self, owner: MemoryOwner, entry_id: str) -> MemoryEntry | None:
        """Give one entry; None where this owner has none of this id, whatever others have."""
        ...

    def search(
        self, owner: MemoryOwner, query: str, tags: TagFilter = ANY_TAGS, *, limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Give the entries of an owner that are about something, what fits best first; of those that fit alike the last one put.

        A query is words: its letters and digits, whatever stands between them, of which the first 32 are looked for in texts and
        tags. An entry with any of them is found, unless a word is that frequent that it says nothing.

        Args:
            owner: Whose.
            query: Any text; one without a word finds nothing.
            tags: Which of them are looked at.
            limit: How many at most, 1 to 100.

        Raises:
            OptionError: Your move: a limit that is none.
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
        """Give the entries of an owner, the newest first; of one millisecond by falling id.

        Args:
            owner: Whose.
            tags: Which of them.
            limit: How many at most, 1 to 1,000.
            after: `at_ms` and `id` of the last one of the page before; None for the first page.

        Raises:
            OptionError: Your move: a limit that is none.
        """
        ...

    def delete(self, owner: MemoryOwner, entry_id: str) -> bool:
        """Remove an entry, and overwrite what stood there; twice is fine.

        Returns:
            Whether this owner had one of this id.
        """
        ...

    def forget(self, owner: MemoryOwner) -> Forgotten:
        """Remove all entries of an owner, and overwrite what stood there; twice is fine."""
        ...

    def close(self) -> None:
        """Let go of the store; again if you like."""
        ...


class Memories(Protocol):
    """What one session may do with the memories of its owner; `ctx.memories` of its tools. No other owner can be named.

    Every call is a checkpoint, and may raise `StoreUnavailable`, which is no one's move: try again later. Cancelled, what has begun is
    done all the same, and only its answer is lost.
    """

    @property
    def owner(self) -> MemoryOwner:
        """Whose they are."""
        ...

    def telling(self, tell: Callable[[str], None]) -> "Memories":
        """Give the same memories, with a listener that is told when a search could not compare meanings, and why.

        Where no embedder is there it is told nothing: then words are all that was wanted.
        """
        ...

    async def put(self, text: str, *, tags: Iterable[str] = (), entry_id: str | None = None) -> MemoryEntry:
        """Remember something.

        Args:
            text: What; 1 byte to 8 KiB of UTF-8.
            tags: What it is about; 16 at most.
            entry_id: An id, so that the same call again changes nothing; minted when None.

        Returns:
            What is kept now, with its id.

        Raises:
            OptionError: Your move; all faults at once.
        """
        ...

    async def get(self, entry_id: str) -> MemoryEntry | None:
        """Give one memory; None where there is none of this id."""
        ...

    async def search(
        self, query: str, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Give what is remembered about something, what fits best first; see `RecallStore.search`.

        Raises:
            OptionError: Your move: tags or a limit that are none.
        """
        ...

    async def newest(
        self, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 20
    ) -> tuple[MemoryEntry, ...]:
        """Give what was remembered last, the newest first.

        Raises:
            OptionError: Your move: tags or a limit that are none.
        """
        ...

    async def delete(self, entry_id: str) -> bool:
        """Forget one memory, and say whether there was one of this id."""
        ...
