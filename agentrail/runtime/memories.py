"""What sessions remember: one store for all of a supervisor, and for each session what its owner has there, and nothing else.

Nothing is decided here of what is worth remembering, and no tool enters.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import trio

from agentrail.abc.embeddings import VectorRecall
from agentrail.abc.recall import (
    MAX_FOUND,
    Forgotten,
    Memories,
    MemoryEntry,
    MemoryOwner,
    RecallStore,
    TagFilter,
    check_limit,
)
from agentrail.core.values.offered import offers
from agentrail.core.values.ranking import FUSED_FROM_EACH, fuse
from agentrail.errors import ErrorInfo, OptionError
from agentrail.messages import JsonValue
from agentrail.otp.leaving import describe_bug
from agentrail.outside import Outside
from agentrail.runtime.clock import now_ms
from agentrail.runtime.meanings import Meanings

T = TypeVar("T")

_MAX_READERS: Final = 4
"""How many threads look something up at once; the next one waits for one of them."""


def decide_owner(scope: str, user_data: Mapping[str, Any]) -> MemoryOwner:
    """Say to whom the memories of a session belong: the tenant and the user that a host writes into `user_data`.

    Args:
        scope: Of the session: its tenant, where `user_data` names none.
        user_data: Of the session.

    Raises:
        OptionError: The application's move: what is there is no text. Then it is not guessed whose they would be.
    """
    tenant, user = user_data.get("tenant_id"), user_data.get("user_id")
    faults = [
        f"user_data[{name!r}] is of type {type(given).__name__}: expected text, so that it is known whose memories these are"
        for name, given in (("tenant_id", tenant), ("user_id", user))
        if given is not None and not isinstance(given, str)
    ]
    if faults:
        raise OptionError(faults)
    return MemoryOwner(
        tenant=scope if tenant is None else str(tenant), user="" if user is None else str(user)
    )


class MemoryDesk:
    """Carries what sessions ask of a store to where it may block. One of it for each supervisor."""

    def __init__(self, store: RecallStore, outside: Outside, meanings: Meanings | None = None) -> None:
        """Take the store.

        Args:
            store: It stays its caller's.
            outside: Where functions that block are run.
            meanings: Gives vectors, for a store that keeps some; None: words are all that is compared.
        """
        self.store: RecallStore = store
        self.meanings: Meanings | None = meanings
        self.outside: Outside = outside
        # Its own: the threads of others may all be busy. And one to write, as the port wants it.
        self._writing = trio.CapacityLimiter(1)
        self._reading = trio.CapacityLimiter(_MAX_READERS)

    async def write(self, function: Callable[[], T]) -> T:
        """Do what changes something.

        Cancellation: What has begun is done all the same, and only its answer is lost.
        """
        return await self._carry(function, self._writing)

    async def read(self, function: Callable[[], T]) -> T:
        """Look something up.

        Cancellation: It is not waited for any more.
        """
        return await self._carry(function, self._reading)

    async def _carry(self, function: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
        if self.store.is_immediate:
            # In place: it takes no time, and a virtual clock would not wait for a thread.
            await trio.lowlevel.checkpoint()
            return function()
        return await self.outside.offload(function, abandon_on_cancel=True, limiter=limiter)

    def look_after(self, tenant: str, *, is_new: bool) -> None:
        """See to it that what a tenant has gets vectors."""
        if self.meanings is not None and offers(self.store, VectorRecall):
            self.meanings.look_after(self.store, tenant, self.write, is_new=is_new)

    def of(self, owner: MemoryOwner, session: str = "") -> "OwnMemories":
        """Give a session what its owner has."""
        return OwnMemories(self, owner, session)


class OwnMemories(Memories):
    """What one session may do with the memories of its owner."""

    __slots__ = ("_desk", "_owner", "_session", "_tell")

    def __init__(
        self,
        desk: MemoryDesk,
        owner: MemoryOwner,
        session: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Take whose they are.

        Args:
            desk: Where they are.
            owner: Whose they are.
            session: What is put comes from this session.
            tell: Is told why a search compares no meanings, though there is an embedder; None where no one listens.
        """
        self._tell = tell
        self._desk = desk
        self._owner = owner
        self._session = session

    @property
    def owner(self) -> MemoryOwner:
        """Whose they are."""
        return self._owner

    def telling(self, tell: Callable[[str], None]) -> "OwnMemories":
        """Give the same, with a listener for when meanings cannot be compared; see `Memories.telling`."""
        return OwnMemories(self._desk, self._owner, self._session, tell)

    async def put(self, text: str, *, tags: Iterable[str] = (), entry_id: str | None = None) -> MemoryEntry:
        """Remember something; see `Memories.put`."""
        minted = f"m-{self._desk.outside.ids(8)}" if entry_id is None else entry_id
        entry = MemoryEntry(id=minted, text=text, tags=tags, session=self._session, at_ms=now_ms())
        await self._desk.write(partial(self._desk.store.put, self._owner, entry))
        self._desk.look_after(self._owner.tenant, is_new=True)
        return entry

    async def get(self, entry_id: str) -> MemoryEntry | None:
        """Give one memory; see `Memories.get`."""
        return await self._desk.read(partial(self._desk.store.get, self._owner, entry_id))

    async def search(
        self, query: str, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Give what is remembered about something; see `Memories.search`."""
        tags = TagFilter(any_of=tags_any, all_of=tags_all)
        check_limit(limit, MAX_FOUND)
        store, meanings = self._desk.store, self._desk.meanings
        if meanings is not None and offers(store, VectorRecall) and query.strip():
            self._desk.look_after(self._owner.tenant, is_new=False)
            vector = await meanings.vector_or_words(query, self._tell)
            if vector is not None:
                both = partial(search_both, store, self._owner, query, (vector, meanings.kind), tags)
                return await self._desk.read(partial(both, limit=limit))
        return await self._desk.read(partial(store.search, self._owner, query, tags, limit=limit))

    async def newest(
        self, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 20
    ) -> tuple[MemoryEntry, ...]:
        """Give what was remembered last; see `Memories.newest`."""
        tags = TagFilter(any_of=tags_any, all_of=tags_all)
        return await self._desk.read(partial(self._desk.store.list, self._owner, tags, limit=limit))

    async def delete(self, entry_id: str) -> bool:
        """Forget one memory; see `Memories.delete`."""
        return await self._desk.write(partial(self._desk.store.delete, self._owner, entry_id))

    async def forget(self) -> Forgotten:
        """Forget all that the owner has; for programs, and no tool's."""
        return await self._desk.write(partial(self._desk.store.forget, self._owner))


def search_both(  # noqa: PLR0913 - as the port, and what the query means
    store: RecallStore,
    owner: MemoryOwner,
    query: str,
    meaning: tuple[bytes, str],
    tags: TagFilter,
    *,
    limit: int,
) -> tuple[MemoryEntry, ...]:
    """Search by words and by meaning, and make one ranking of both.

    Args:
        store: Keeps vectors too.
        owner: Whose.
        query: The words.
        meaning: The vector of the query, and of which kind it is.
        tags: Which entries are looked at.
        limit: How many at most.
    """
    count = max(limit, FUSED_FROM_EACH)
    said = store.search(owner, query, tags, limit=count)
    vector, kind = meaning
    meant = store.nearest(owner, vector, kind, tags, limit=count) if offers(store, VectorRecall) else ()
    found = {one.id: one for one in (*said, *meant)}
    order = fuse([one.id for one in said], [one.id for one in meant], limit=limit)
    return tuple([found[one] for one in order])


def decide_memory_crash(error: BaseException) -> ErrorInfo:
    """Say what a store of memories raised that it may not raise."""
    message = f"the memories could not be searched ({describe_bug(error)}): this is a bug in their store, please report it"
    return ErrorInfo(code="memory_crashed", message=message)


def json_of_memory(entry: MemoryEntry) -> JsonValue:
    """Make of an entry what the journal keeps of it, and a plugin is told."""
    return {
        "id": entry.id,
        "text": entry.text,
        "tags": list(entry.tags),
        "session_id": entry.session,
        "at_ms": entry.at_ms,
        "version": entry.version,
    }
