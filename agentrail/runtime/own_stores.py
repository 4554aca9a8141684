"""What sessions have beside their journals: memories, working notes and knowledge.

The stores are those of all of a supervisor; a session reaches what its owner has there, and nothing else. Nothing is decided here of what
is worth remembering, and no tool enters.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import trio
from attrs import frozen

from agentrail.abc import (
    Embedder,
    FindInstructions,
    Knowledge,
    KnowledgeStore,
    Memories,
    Notes,
    NoteStore,
    RecallStore,
)
from agentrail.abc.embeddings import VectorKeeper, VectorKnowledge, VectorRecall
from agentrail.abc.knowledge import (
    ALL_DOCUMENTS,
    MAX_FOUND_PASSAGES,
    DocumentFilter,
    KnowledgeBase,
    KnowledgeDocument,
    Passage,
)
from agentrail.abc.recall import (
    MAX_FOUND,
    Forgotten,
    MemoryEntry,
    MemoryOwner,
    TagFilter,
    check_limit,
    fault_of_memory_text,
)
from agentrail.core.values.notes import (
    MAX_NOTE_BYTES,
    NoteTopic,
    new_notes,
    topics_of,
    with_notes,
    without_topic,
)
from agentrail.core.values.offered import offers
from agentrail.core.values.ranking import FUSED_FROM_EACH, fuse
from agentrail.errors import ErrorInfo, OptionError
from agentrail.messages import JsonValue, SessionId
from agentrail.otp.leaving import describe_bug
from agentrail.outside import Outside
from agentrail.runtime.clock import now_ms
from agentrail.runtime.meanings import Meanings

T = TypeVar("T")
S = TypeVar("S")

_MAX_READERS: Final = 4
"""How many threads work with a store at once, but for writers of the same one; the next one waits for one of them."""


class StoreDesk(Generic[S]):
    """Carries what sessions ask of a store to where it may block. One for each store of a supervisor."""

    def __init__(self, store: S, outside: Outside, meanings: Meanings | None = None) -> None:
        """Take the store."""
        self.store: S = store
        self.meanings: Meanings | None = meanings
        self.outside: Outside = outside
        # Its own: the threads of others may all be busy. And one to write, as the ports want it.
        self._writing = trio.CapacityLimiter(1)
        self._reading = trio.CapacityLimiter(_MAX_READERS)

    async def write(self, function: Callable[[], T]) -> T:
        """Change something, one caller at a time.

        Cancellation: What has begun is done all the same, and only its answer is lost.
        """
        return await self._carry(function, self._writing)

    async def read(self, function: Callable[[], T]) -> T:
        """Look something up.

        Cancellation: It is not waited for any more.
        """
        return await self._carry(function, self._reading)

    async def _carry(self, function: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
        if getattr(self.store, "is_immediate", False):
            # In place: it takes no time, and a virtual clock would not wait for a thread.
            await trio.lowlevel.checkpoint()
            return function()
        return await self.outside.offload(function, abandon_on_cancel=True, limiter=limiter)

    def look_after(self, port: Callable[..., VectorKeeper], tenant: str, *, is_new: bool) -> Meanings | None:
        """See to it that what a tenant has gets vectors, where the store keeps some; return what compares them."""
        if self.meanings is None or not offers(self.store, port):
            return None
        self.meanings.look_after(self.store, tenant, self.write, is_new=is_new)
        return self.meanings

    async def meaning_of(
        self, port: Callable[..., VectorKeeper], tenant: str, query: str, tell: Callable[[str], None] | None
    ) -> tuple[bytes, str] | None:
        """Return the vector of a query and its kind; None where words alone are compared, of which is told why."""
        meanings = self.look_after(port, tenant, is_new=False) if query.strip() else None
        vector = None if meanings is None else await meanings.vector_or_words(query, tell)
        return None if meanings is None or vector is None else (vector, meanings.kind)


class _Found(Protocol):
    @property
    def id(self) -> str: ...


F = TypeVar("F", bound=_Found)


def _fused(said: Sequence[F], meant: Sequence[F], limit: int) -> tuple[F, ...]:
    found = {one.id: one for one in (*said, *meant)}
    order = fuse([one.id for one in said], [one.id for one in meant], limit=limit)
    return tuple([found[one] for one in order])


def decide_owner(scope: str, user_data: Mapping[str, Any]) -> MemoryOwner:
    """Say to whom the memories of a session belong: the tenant and the user that a host writes into `user_data`."""
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


class OwnMemories(Memories):
    """What one session may do with the memories of its owner."""

    __slots__ = ("_desk", "_owner", "_session", "_tell")

    def __init__(
        self,
        desk: StoreDesk[RecallStore],
        owner: MemoryOwner,
        session: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Take whose they are."""
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
        self._desk.look_after(VectorRecall, self._owner.tenant, is_new=True)
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
        store = self._desk.store
        meaning = await self._desk.meaning_of(VectorRecall, self._owner.tenant, query, self._tell)
        if meaning is None:
            return await self._desk.read(partial(store.search, self._owner, query, tags, limit=limit))
        both = partial(search_both, store, self._owner, query, meaning, tags)
        return await self._desk.read(partial(both, limit=limit))

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
    """Search by words and by meaning, and make one ranking of both."""
    count = max(limit, FUSED_FROM_EACH)
    said = store.search(owner, query, tags, limit=count)
    vector, kind = meaning
    meant = store.nearest(owner, vector, kind, tags, limit=count) if offers(store, VectorRecall) else ()
    return _fused(said, meant, limit)


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


# Working notes: a `NOTES.md` for each session.


class OwnNotes(Notes):
    """What one session may do with its notes."""

    __slots__ = ("_desk", "_owner", "_session")

    def __init__(self, desk: StoreDesk[NoteStore], owner: MemoryOwner, session: str) -> None:
        """Take whose they are."""
        self._desk = desk
        self._owner = owner
        self._session = session

    async def read(self) -> str:
        """Give all of it; see `Notes.read`."""
        return await self._desk.read(partial(self._desk.store.read, self._owner, self._session))

    async def topics(self) -> tuple[NoteTopic, ...]:
        """Give the index; see `Notes.topics`."""
        return topics_of(await self.read())

    async def add(
        self, topic: str, notes: Iterable[str], *, only_new: bool = False
    ) -> tuple[tuple[str, ...], tuple[NoteTopic, ...]]:
        """Put notes behind those of a topic; see `Notes.add`."""
        given = tuple(notes)
        faults = [fault_of_memory_text("text", note, MAX_NOTE_BYTES) for note in given]
        wrong = [fault for fault in faults if fault is not None]
        if wrong:
            raise OptionError(wrong)
        added: list[str] = []
        at_ms = now_ms()

        def edit(text: str) -> str:
            # Judged by what stands there now, and not by what stood there when it was asked.
            added[:] = new_notes(text, given) if only_new else given
            return with_notes(text, topic, added, at_ms)

        written = await self._change(edit)
        return tuple(added), topics_of(written)

    async def remove(self, topic: str) -> bool:
        """Remove a topic; see `Notes.remove`."""
        found: list[str] = []

        def edit(text: str) -> str:
            left = without_topic(text, topic)
            if left is None:
                return text
            found.append(topic)
            return left

        await self._change(edit)
        return bool(found)

    async def _change(self, edit: Callable[[str], str]) -> str:
        return await self._desk.read(partial(self._desk.store.change, self._owner, self._session, edit))


class OwnKnowledge(Knowledge):
    """What one session may read."""

    __slots__ = ("_desk", "_reader", "_tell")

    def __init__(
        self, desk: StoreDesk[KnowledgeStore], reader: MemoryOwner, tell: Callable[[str], None] | None = None
    ) -> None:
        """Take who reads, and who is told why no meanings are compared."""
        self._desk = desk
        self._tell = tell
        self._reader = reader

    def telling(self, tell: Callable[[str], None]) -> "OwnKnowledge":
        """Give the same, with a listener for when meanings cannot be compared; see `Knowledge.telling`."""
        return OwnKnowledge(self._desk, self._reader, tell)

    async def bases(self) -> tuple[KnowledgeBase, ...]:
        """Give the bases; see `Knowledge.bases`."""
        return await self._desk.read(partial(self._desk.store.bases, self._reader))

    async def documents(
        self, base: str, *, folder: str | None = None, tags: Iterable[str] = ()
    ) -> tuple[KnowledgeDocument, ...]:
        """Give the documents of a base; see `Knowledge.documents`."""
        within = DocumentFilter(folder=folder, tags=tags)
        return await self._desk.read(partial(self._desk.store.readable, self._reader, base, within))

    async def search(
        self,
        query: str,
        base: str = "",
        *,
        limit: int = 8,
        folder: str | None = None,
        tags: Iterable[str] = (),
    ) -> tuple[Passage, ...]:
        """Give passages about something; see `Knowledge.search`."""
        check_limit(limit, MAX_FOUND_PASSAGES)
        within = DocumentFilter(folder=folder, tags=tags)
        store = self._desk.store
        meaning = await self._desk.meaning_of(VectorKnowledge, self._reader.tenant, query, self._tell)
        if meaning is None:
            return await self._desk.read(
                partial(store.search, self._reader, query, base, within, limit=limit)
            )
        both = partial(search_passages, store, self._reader, query, meaning, base)
        return await self._desk.read(partial(both, within=within, limit=limit))

    async def read(self, passage_id: str, *, around: int = 0) -> tuple[Passage, ...]:
        """Give a passage with its neighbours; see `Knowledge.read`."""
        return await self._desk.read(partial(self._desk.store.read, self._reader, passage_id, around=around))


def search_passages(  # noqa: PLR0913 - as the port, and what the query means
    store: KnowledgeStore,
    reader: MemoryOwner,
    query: str,
    meaning: tuple[bytes, str],
    base: str,
    *,
    within: DocumentFilter = ALL_DOCUMENTS,
    limit: int,
) -> tuple[Passage, ...]:
    """Search by words and by meaning, and make one ranking of both; arguments are as of `search_both` of memories."""
    count = min(max(limit, FUSED_FROM_EACH), MAX_FOUND_PASSAGES)
    said = store.search(reader, query, base, within, limit=count)
    vector, kind = meaning
    meant = (
        store.nearest(reader, vector, kind, base, within, limit=count)
        if offers(store, VectorKnowledge)
        else ()
    )
    return _fused(said, meant, limit)


@frozen(kw_only=True)
class SharedStores:
    """What a supervisor has for all its sessions; the caller closes them.

    Attributes:
        recall: Where sessions remember; None for nowhere.
        notes: Where each session has its working notes; None for nowhere.
        knowledge: Where sessions look things up; None for nowhere.
        embedder: Gives vectors of texts, so that memories and knowledge are found by meaning too; None: by words alone.
        instructions: Gives what reads the files for agents above a working directory; None where none of them is read.
    """

    recall: RecallStore | None = None
    notes: NoteStore | None = None
    knowledge: KnowledgeStore | None = None
    embedder: Embedder | None = None
    instructions: FindInstructions | None = None


NO_STORES: Final = SharedStores()
"""Nothing is remembered, and nothing looked up."""


@frozen(kw_only=True, eq=False)
class OwnStores:
    """What one session has; its children share it.

    Attributes:
        memories: What its owner has remembered; None where nothing is remembered.
        notes: Its working notes; None where it has none.
        knowledge: What its owner may read; None where there is none.
    """

    memories: Memories | None = None
    notes: Notes | None = None
    knowledge: Knowledge | None = None


NOTHING_OWN: Final = OwnStores()
"""Of a session whose supervisor has no stores, or whose owner cannot be said."""


class StoreDesks:
    """Gives each session what its owner has. One of it for each supervisor."""

    def __init__(self, shared: SharedStores, outside: Outside, meanings: Meanings | None = None) -> None:
        """Take the stores."""
        self._memories = None if shared.recall is None else StoreDesk(shared.recall, outside, meanings)
        self._notes = None if shared.notes is None else StoreDesk(shared.notes, outside)
        self._knowledge = None if shared.knowledge is None else StoreDesk(shared.knowledge, outside, meanings)

    def memories_of(self, owner: MemoryOwner) -> Memories | None:
        """Give what an owner has remembered, in no session; None where nothing is remembered here."""
        return None if self._memories is None else OwnMemories(self._memories, owner)

    async def forget(self, owner: MemoryOwner) -> Forgotten:
        """Forget all that an owner has remembered; nothing where nothing is remembered here.

        Cancellation: What has begun is done all the same, and only its answer is lost.
        """
        if self._memories is None:
            await trio.lowlevel.checkpoint()
            return Forgotten(entries=0, is_erased=True)
        return await OwnMemories(self._memories, owner).forget()

    async def forget_notes(self, owner: MemoryOwner) -> int:
        """Forget the working notes of all sessions of an owner, and say of how many.

        Cancellation: As of `forget`.
        """
        if self._notes is None:
            await trio.lowlevel.checkpoint()
            return 0
        return await self._notes.read(partial(self._notes.store.forget, owner))

    def of(self, session_id: SessionId, scope: str, user_data: Mapping[str, Any]) -> OwnStores:
        """Give a session what its owner has."""
        if self._memories is None and self._notes is None and self._knowledge is None:
            return NOTHING_OWN
        owner = decide_owner(scope, user_data)
        return OwnStores(
            memories=None if self._memories is None else OwnMemories(self._memories, owner, session_id),
            notes=None
            if self._notes is None
            else OwnNotes(self._notes, owner, _name_of(scope, owner.tenant, session_id)),
            knowledge=None if self._knowledge is None else OwnKnowledge(self._knowledge, owner),
        )


def _name_of(scope: str, tenant: str, session_id: SessionId) -> str:
    """Name a session among those of its tenant: by its id alone where that says enough, since a person looks for it.

    No scope has a slash, so that no two sessions have one name.
    """
    return session_id if scope == tenant and "/" not in session_id else f"{scope}/{session_id}"
