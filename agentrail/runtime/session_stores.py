"""Additional stores of sessions: memories, working notes and knowledge."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import trio
from attrs import define, evolve, field, frozen
from msgspec import json

from agentrail.abc import (
    Embedder,
    FindInstructions,
    Knowledge,
    KnowledgeStore,
    MakeToolSource,
    Memories,
    Notes,
    NoteStore,
    RecallStore,
    ToolServer,
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
from agentrail.abc.store import OwedRow, OwedStore, Store, decoded_rows, owed_rows
from agentrail.core.values.notes_markdown import (
    MAX_NOTE_BYTES,
    NoteTopic,
    new_notes,
    topics_of,
    with_notes,
    without_topic,
)
from agentrail.core.values.port_members import offers
from agentrail.core.values.ranking import FUSED_FROM_EACH, fuse
from agentrail.errors import ErrorInfo, OptionError
from agentrail.logs import Logger
from agentrail.messages import JsonValue, SessionId
from agentrail.otp.crash_text import describe_bug
from agentrail.outside import Outside
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.vector_search import Meanings
from agentrail.structs import decoder_of

LOGGER: Final = Logger("agentrail.runtime")

T = TypeVar("T")
S = TypeVar("S")

_MAX_READERS: Final = 4
"""Maximum number of threads that use a store at once, in addition to its one writer."""


@define(eq=False)
class StoreDesk(Generic[S]):
    """Runs store calls of sessions where they may block. One for each store of a supervisor."""

    store: S
    outside: Outside
    meanings: Meanings | None = None
    # A limiter of its own, because all shared threads may be busy. And one for writes, as the ports require.
    _writing: trio.CapacityLimiter = field(init=False, factory=partial(trio.CapacityLimiter, 1))
    _reading: trio.CapacityLimiter = field(init=False, factory=partial(trio.CapacityLimiter, _MAX_READERS))

    async def write(self, function: Callable[[], T]) -> T:
        return await self._carry(function, self._writing)

    async def read(self, function: Callable[[], T]) -> T:
        return await self._carry(function, self._reading)

    async def _carry(self, function: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
        if getattr(self.store, "is_immediate", False):
            # In place: it takes no time, and a virtual clock would not wait for a thread.
            await trio.lowlevel.checkpoint()
            return function()
        return await self.outside.offload(function, abandon_on_cancel=True, limiter=limiter)

    def look_after(self, port: Callable[..., VectorKeeper], tenant: str, *, is_new: bool) -> Meanings | None:
        if self.meanings is None or not offers(self.store, port):
            return None
        self.meanings.look_after(self.store, tenant, self.write, is_new=is_new)
        return self.meanings

    async def meaning_of(
        self, port: Callable[..., VectorKeeper], tenant: str, query: str, tell: Callable[[str], None] | None
    ) -> tuple[bytes, str] | None:
        """Return the vector of a query and its kind. None to compare words only, with the reason reported."""
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
    """Return the owner of a session's memories: the tenant and the user that a host writes into `user_data`."""
    tenant, user = user_data.get("tenant_id"), user_data.get("user_id")
    faults = [
        f"user_data[{name!r}] is of type {type(given).__name__}: expected text, to identify the owner of the memories"
        for name, given in (("tenant_id", tenant), ("user_id", user))
        if given is not None and not isinstance(given, str)
    ]
    OptionError.raise_for(faults)
    return MemoryOwner(
        tenant=scope if tenant is None else str(tenant), user="" if user is None else str(user)
    )


@frozen(eq=False)
class OwnMemories(Memories):
    _desk: StoreDesk[RecallStore]
    owner: MemoryOwner
    _session: str = ""
    _tell: Callable[[str], None] | None = None

    def telling(self, tell: Callable[[str], None]) -> "OwnMemories":
        return evolve(self, tell=tell)

    async def put(self, text: str, *, tags: Iterable[str] = (), entry_id: str | None = None) -> MemoryEntry:
        minted = f"m-{self._desk.outside.ids(8)}" if entry_id is None else entry_id
        entry = MemoryEntry(id=minted, text=text, tags=tags, session=self._session, at_ms=now_ms())
        await self._desk.write(partial(self._desk.store.put, self.owner, entry))
        self._desk.look_after(VectorRecall, self.owner.tenant, is_new=True)
        return entry

    async def get(self, entry_id: str) -> MemoryEntry | None:
        return await self._desk.read(partial(self._desk.store.get, self.owner, entry_id))

    async def search(
        self, query: str, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        tags = TagFilter(any_of=tags_any, all_of=tags_all)
        check_limit(limit, MAX_FOUND)
        store = self._desk.store
        meaning = await self._desk.meaning_of(VectorRecall, self.owner.tenant, query, self._tell)
        if meaning is None:
            return await self._desk.read(partial(store.search, self.owner, query, tags, limit=limit))
        both = partial(search_both, store, self.owner, query, meaning, tags)
        return await self._desk.read(partial(both, limit=limit))

    async def newest(
        self, *, tags_any: Iterable[str] = (), tags_all: Iterable[str] = (), limit: int = 20
    ) -> tuple[MemoryEntry, ...]:
        tags = TagFilter(any_of=tags_any, all_of=tags_all)
        return await self._desk.read(partial(self._desk.store.list, self.owner, tags, limit=limit))

    async def delete(self, entry_id: str) -> bool:
        return await self._desk.write(partial(self._desk.store.delete, self.owner, entry_id))

    async def forget(self) -> Forgotten:
        """Delete all memories of the owner. For programs, not for tools."""
        return await self._desk.write(partial(self._desk.store.forget, self.owner))


def search_both(  # noqa: PLR0913 - same as the port, and the vector of the query
    store: RecallStore,
    owner: MemoryOwner,
    query: str,
    meaning: tuple[bytes, str],
    tags: TagFilter,
    *,
    limit: int,
) -> tuple[MemoryEntry, ...]:
    count = max(limit, FUSED_FROM_EACH)
    said = store.search(owner, query, tags, limit=count)
    vector, kind = meaning
    meant = store.nearest(owner, vector, kind, tags, limit=count) if offers(store, VectorRecall) else ()
    return _fused(said, meant, limit)


def decide_memory_crash(error: BaseException) -> ErrorInfo:
    message = f"the memories could not be searched ({describe_bug(error)}): this is a bug in their store, please report it"
    return ErrorInfo(code="memory_crashed", message=message)


def json_of_memory(entry: MemoryEntry) -> JsonValue:
    return {
        "id": entry.id,
        "text": entry.text,
        "tags": list(entry.tags),
        "session_id": entry.session,
        "at_ms": entry.at_ms,
        "version": entry.version,
    }


# Working notes: a `NOTES.md` for each session.


@frozen(eq=False)
class OwnNotes(Notes):
    _desk: StoreDesk[NoteStore]
    owner: MemoryOwner
    session: str

    async def read(self) -> str:
        return await self._desk.read(partial(self._desk.store.read, self.owner, self.session))

    async def topics(self) -> tuple[NoteTopic, ...]:
        return topics_of(await self.read())

    async def add(
        self, topic: str, notes: Iterable[str], *, only_new: bool = False
    ) -> tuple[tuple[str, ...], tuple[NoteTopic, ...]]:
        given = tuple(notes)
        faults = [fault_of_memory_text("text", note, MAX_NOTE_BYTES) for note in given]
        wrong = [fault for fault in faults if fault is not None]
        OptionError.raise_for(wrong)
        added: list[str] = []
        at_ms = now_ms()

        def edit(text: str) -> str:
            # Checked against the current text, not the text at the time of the request.
            added[:] = new_notes(text, given) if only_new else given
            return with_notes(text, topic, added, at_ms)

        written = await self._change(edit)
        return tuple(added), topics_of(written)

    async def remove(self, topic: str) -> bool:
        found: list[str] = []

        def edit(text: str) -> str:
            left = without_topic(text, topic)
            if left is None:
                return text
            found.append(topic)
            return left

        await self._change(edit)
        return bool(found)

    async def clear(self) -> None:
        await self._change(lambda _: "")

    def settle(self, store: Store, row: OwedRow) -> None:
        settle_notes(store, row, self._desk.store)

    async def _change(self, edit: Callable[[str], str]) -> str:
        return await self._desk.write(partial(self._desk.store.change, self.owner, self.session, edit))


@frozen(eq=False)
class OwnKnowledge(Knowledge):
    _desk: StoreDesk[KnowledgeStore]
    _reader: MemoryOwner
    _tell: Callable[[str], None] | None = None

    def telling(self, tell: Callable[[str], None]) -> "OwnKnowledge":
        return evolve(self, tell=tell)

    async def bases(self) -> tuple[KnowledgeBase, ...]:
        return await self._desk.read(partial(self._desk.store.bases, self._reader))

    async def documents(
        self, base: str, *, folder: str | None = None, tags: Iterable[str] = ()
    ) -> tuple[KnowledgeDocument, ...]:
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
        return await self._desk.read(partial(self._desk.store.read, self._reader, passage_id, around=around))


def search_passages(  # noqa: PLR0913 - same as the port, and the vector of the query
    store: KnowledgeStore,
    reader: MemoryOwner,
    query: str,
    meaning: tuple[bytes, str],
    base: str,
    *,
    within: DocumentFilter = ALL_DOCUMENTS,
    limit: int,
) -> tuple[Passage, ...]:
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
    """Stores and servers of a supervisor for all its sessions. The caller closes the stores.

    Attributes:
        recall: Store of memories. None without memories.
        notes: Store of working notes. None without notes.
        knowledge: Store of knowledge. None without knowledge.
        embedder: Computes vectors of texts, so that memories and knowledge are also found by meaning. None: by words only.
        instructions: Returns a reader of the instruction files above a working directory. None to read none of them.
        servers: Servers whose tools all sessions can use.
        make_source: Creates the source of a server, also of one that only a session uses. None: there are no sources.
    """

    recall: RecallStore | None = None
    notes: NoteStore | None = None
    knowledge: KnowledgeStore | None = None
    embedder: Embedder | None = None
    instructions: FindInstructions | None = None
    servers: tuple[ToolServer, ...] = ()
    make_source: MakeToolSource | None = None


NO_STORES: Final = SharedStores()
"""No additional stores."""


@frozen(kw_only=True, eq=False)
class OwnStores:
    """Additional stores of one session, shared with its children. None: there is none."""

    memories: Memories | None = None
    notes: Notes | None = None
    knowledge: Knowledge | None = None


NOTHING_OWN: Final = OwnStores()
"""For a session whose supervisor has no stores, or whose owner is unknown."""


class StoreDesks:
    def __init__(self, shared: SharedStores, outside: Outside, meanings: Meanings | None = None) -> None:
        self.recall: RecallStore | None = shared.recall
        self._memories = None if shared.recall is None else StoreDesk(shared.recall, outside, meanings)
        self.notes: StoreDesk[NoteStore] | None = (
            None if shared.notes is None else StoreDesk(shared.notes, outside)
        )
        self._knowledge = None if shared.knowledge is None else StoreDesk(shared.knowledge, outside, meanings)

    def memories_of(self, owner: MemoryOwner) -> Memories | None:
        return None if self._memories is None else OwnMemories(self._memories, owner)

    async def forget(self, owner: MemoryOwner) -> Forgotten:
        if self._memories is None:
            await trio.lowlevel.checkpoint()
            return Forgotten(entries=0, is_erased=True)
        return await OwnMemories(self._memories, owner).forget()

    async def forget_notes(self, owner: MemoryOwner) -> int:
        if self.notes is None:
            await trio.lowlevel.checkpoint()
            return 0
        return await self.notes.write(partial(self.notes.store.forget, owner))

    def notes_of(self, session_id: SessionId, scope: str, user_data: Mapping[str, Any]) -> OwnNotes | None:
        notes = self.notes
        return None if notes is None else OwnNotes(notes, *key_of_notes(session_id, scope, user_data))

    def of(self, session_id: SessionId, scope: str, user_data: Mapping[str, Any]) -> OwnStores:
        if self._memories is None and self.notes is None and self._knowledge is None:
            return NOTHING_OWN
        owner = decide_owner(scope, user_data)
        return OwnStores(
            memories=None if self._memories is None else OwnMemories(self._memories, owner, session_id),
            notes=self.notes_of(session_id, scope, user_data),
            knowledge=None if self._knowledge is None else OwnKnowledge(self._knowledge, owner),
        )


def key_of_notes(session_id: SessionId, scope: str, user_data: Mapping[str, Any]) -> tuple[MemoryOwner, str]:
    owner = decide_owner(scope, user_data)
    is_own = scope == owner.tenant and "/" not in session_id
    return owner, session_id if is_own else f"{scope}/{session_id}"


OWED_NOTES: Final = "session_notes"
"""Kind of owed rows about sessions that are deleted before their notes. The bodies are `[SCOPE, SESSION, TENANT, USER, KEY]`."""

_OWED: Final = decoder_of(tuple[str, SessionId, str, str, str])


def owed_notes(scope: str, session_id: str, owner: MemoryOwner, key: str) -> OwedRow:
    body = json.encode([scope, session_id, owner.tenant, owner.user, key])
    return OwedRow(kind=OWED_NOTES, id=key_of(scope, session_id), body=body)


def settle_notes(store: Store, row: OwedRow, notes: NoteStore | None) -> None:
    """Drop a row. If `notes` is given, first clear the notes there, unless the session still exists. This blocks."""
    scope, session, tenant, user, key = _OWED.decode(row.body)
    if notes is not None and store.get(scope, session) is None:
        notes.change(MemoryOwner(tenant=tenant, user=user), key, lambda _: "")
    if offers(store, OwedStore):
        store.change_owed((), ((row.kind, row.id),))


def settle_left_notes(store: Store, notes: NoteStore) -> None:
    """Clear the notes of deleted sessions that an earlier process left. This blocks."""
    rows = owed_rows(store, OWED_NOTES) if offers(store, OwedStore) else ()
    owed = decoded_rows(rows, lambda row: (row, *_OWED.decode(row.body)), LOGGER.warning, "an owed note")
    for row, scope, session, *_ in owed:
        if store.get(scope, session) is None:  # otherwise another node may be about to delete it
            settle_notes(store, row, notes)
