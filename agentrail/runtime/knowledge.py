"""What sessions look things up in: one store for all of a supervisor, and for each session what its owner may read there."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import trio

from agentrail.abc.knowledge import Knowledge, KnowledgeBase, KnowledgeDocument, KnowledgeStore, Passage
from agentrail.abc.recall import MemoryOwner
from agentrail.outside import Outside

T = TypeVar("T")

_MAX_LOOKING: Final = 4
"""How many threads look something up at once; the next one waits for one of them."""


class KnowledgeShelf:
    """Carries what sessions ask of a store to where it may block. One of it for each supervisor."""

    def __init__(self, store: KnowledgeStore, outside: Outside) -> None:
        """Take the store.

        Args:
            store: It stays its caller's.
            outside: Where functions that block are run.
        """
        self.store: KnowledgeStore = store
        self._outside = outside
        self._limiter = trio.CapacityLimiter(_MAX_LOOKING)

    async def look(self, function: Callable[[], T]) -> T:
        """Look something up.

        Cancellation: It is not waited for any more.
        """
        return await self._outside.offload(function, abandon_on_cancel=True, limiter=self._limiter)

    def of(self, owner: MemoryOwner) -> "OwnKnowledge":
        """Give a session what its owner may read."""
        return OwnKnowledge(self, owner)


class OwnKnowledge(Knowledge):
    """What one session may read."""

    __slots__ = ("_reader", "_shelf")

    def __init__(self, shelf: KnowledgeShelf, reader: MemoryOwner) -> None:
        """Take who reads."""
        self._shelf = shelf
        self._reader = reader

    async def bases(self) -> tuple[KnowledgeBase, ...]:
        """Give the bases; see `Knowledge.bases`."""
        return await self._shelf.look(partial(self._shelf.store.bases, self._reader))

    async def documents(self, base: str) -> tuple[KnowledgeDocument, ...]:
        """Give the documents of a base; see `Knowledge.documents`."""
        return await self._shelf.look(partial(self._shelf.store.readable, self._reader, base))

    async def search(self, query: str, base: str = "", *, limit: int = 8) -> tuple[Passage, ...]:
        """Give passages about something; see `Knowledge.search`."""
        return await self._shelf.look(
            partial(self._shelf.store.search, self._reader, query, base, limit=limit)
        )

    async def read(self, passage_id: str, *, around: int = 0) -> tuple[Passage, ...]:
        """Give a passage with its neighbours; see `Knowledge.read`."""
        return await self._shelf.look(
            partial(self._shelf.store.read, self._reader, passage_id, around=around)
        )
