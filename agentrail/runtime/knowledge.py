"""What sessions look things up in: one store for all of a supervisor, and for each session what its owner may read there."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

import trio

from agentrail.abc.embeddings import VectorKnowledge
from agentrail.abc.knowledge import (
    ALL_DOCUMENTS,
    MAX_FOUND_PASSAGES,
    DocumentFilter,
    Knowledge,
    KnowledgeBase,
    KnowledgeDocument,
    KnowledgeStore,
    Passage,
)
from agentrail.abc.recall import MemoryOwner, check_limit
from agentrail.core.values.offered import offers
from agentrail.core.values.ranking import FUSED_FROM_EACH, fuse
from agentrail.outside import Outside
from agentrail.runtime.meanings import Meanings

T = TypeVar("T")

_MAX_LOOKING: Final = 4
"""How many threads look something up at once; the next one waits for one of them."""


class KnowledgeShelf:
    """Carries what sessions ask of a store to where it may block. One of it for each supervisor."""

    def __init__(self, store: KnowledgeStore, outside: Outside, meanings: Meanings | None = None) -> None:
        """Take the store.

        Args:
            store: It stays its caller's.
            outside: Where functions that block are run.
            meanings: Gives vectors, for a store that keeps some; None: words are all that is compared.
        """
        self.store: KnowledgeStore = store
        self.meanings: Meanings | None = meanings
        self._writing = trio.CapacityLimiter(1)  # as the port wants it
        self._outside = outside
        self._limiter = trio.CapacityLimiter(_MAX_LOOKING)

    async def look(self, function: Callable[[], T]) -> T:
        """Look something up.

        Cancellation: It is not waited for any more.
        """
        return await self._outside.offload(function, abandon_on_cancel=True, limiter=self._limiter)

    async def write(self, function: Callable[[], T]) -> T:
        """Put something beside what is there.

        Cancellation: What has begun is done all the same.
        """
        return await self._outside.offload(function, abandon_on_cancel=True, limiter=self._writing)

    def of(self, owner: MemoryOwner) -> "OwnKnowledge":
        """Give a session what its owner may read."""
        return OwnKnowledge(self, owner)


class OwnKnowledge(Knowledge):
    """What one session may read."""

    __slots__ = ("_reader", "_shelf", "_tell")

    def __init__(
        self, shelf: KnowledgeShelf, reader: MemoryOwner, tell: Callable[[str], None] | None = None
    ) -> None:
        """Take who reads, and who is told why no meanings are compared."""
        self._shelf = shelf
        self._tell = tell
        self._reader = reader

    def telling(self, tell: Callable[[str], None]) -> "OwnKnowledge":
        """Give the same, with a listener for when meanings cannot be compared; see `Knowledge.telling`."""
        return OwnKnowledge(self._shelf, self._reader, tell)

    async def bases(self) -> tuple[KnowledgeBase, ...]:
        """Give the bases; see `Knowledge.bases`."""
        return await self._shelf.look(partial(self._shelf.store.bases, self._reader))

    async def documents(
        self, base: str, *, folder: str | None = None, tags: Iterable[str] = ()
    ) -> tuple[KnowledgeDocument, ...]:
        """Give the documents of a base; see `Knowledge.documents`."""
        within = DocumentFilter(folder=folder, tags=tags)
        return await self._shelf.look(partial(self._shelf.store.readable, self._reader, base, within))

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
        store, meanings = self._shelf.store, self._shelf.meanings
        if meanings is not None and offers(store, VectorKnowledge) and query.strip():
            meanings.look_after(store, self._reader.tenant, self._shelf.write, is_new=False)
            vector = await meanings.vector_or_words(query, self._tell)
            if vector is not None:
                both = partial(search_passages, store, self._reader, query, (vector, meanings.kind), base)
                return await self._shelf.look(partial(both, within=within, limit=limit))
        return await self._shelf.look(partial(store.search, self._reader, query, base, within, limit=limit))

    async def read(self, passage_id: str, *, around: int = 0) -> tuple[Passage, ...]:
        """Give a passage with its neighbours; see `Knowledge.read`."""
        return await self._shelf.look(
            partial(self._shelf.store.read, self._reader, passage_id, around=around)
        )


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
    found = {one.id: one for one in (*said, *meant)}
    order = fuse([one.id for one in said], [one.id for one in meant], limit=limit)
    return tuple([found[one] for one in order])
