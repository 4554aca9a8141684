"""The port for meanings: texts become vectors, and texts that mean nearly the same have vectors that point nearly the same way.

What compares vectors is a store. One that keeps them has the members of `VectorKeeper` besides its own, and `nearest`; one that does not is
searched by words alone. It is given vectors of length one, packed as float32, the least significant byte first.
"""

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from agentrail.abc.knowledge import ALL_DOCUMENTS, DocumentFilter, Passage
from agentrail.abc.recall import ANY_TAGS, MemoryEntry, MemoryOwner, TagFilter

MAX_EMBEDDED: Final = 64
"""How many texts an embedder is given at once at most."""


class Embedder(Protocol):
    """Makes vectors of texts."""

    @property
    def name(self) -> str:
        """What it is called, with its model and version: vectors of two names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """How many numbers each vector has."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Make a vector of each text, in their order.

        Args:
            texts: 1 to 64 of them, none of them empty.

        Raises:
            ProviderError: It cannot be had now, or the service refused.

        Cancellation: Nothing is left open.
        """
        ...


def kind_of_vectors(embedder: Embedder) -> str:
    """Say of which kind the vectors of an embedder are; those of two kinds are not compared."""
    return f"{embedder.name} {embedder.dimension}"


class VectorKeeper(Protocol):
    """Keeps vectors beside texts. What is removed takes its vector along. Calls are as those of the store, from one thread at a time."""

    def without_vectors(self, tenant: str, kind: str, *, limit: int) -> tuple[tuple[int, str], ...]:
        """Give the number and the text of what has no vector of this kind."""
        ...

    def put_vectors(self, tenant: str, kind: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Keep vectors by the numbers of their texts, in place of those of other kinds; a text that is gone meanwhile gets none."""
        ...


@runtime_checkable
class VectorRecall(VectorKeeper, Protocol):
    """What a store of memories has besides, that compares meanings."""

    def nearest(
        self, owner: MemoryOwner, vector: bytes, kind: str, tags: TagFilter = ANY_TAGS, *, limit: int
    ) -> tuple[MemoryEntry, ...]:
        """Give the entries of an owner whose vectors point the way of this one, the nearest first; none that points away."""
        ...


@runtime_checkable
class VectorKnowledge(VectorKeeper, Protocol):
    """What a store of knowledge has besides, that compares meanings."""

    def nearest(  # noqa: PLR0913 - as the port, and what is near
        self,
        reader: MemoryOwner,
        vector: bytes,
        kind: str,
        base: str = "",
        within: DocumentFilter = ALL_DOCUMENTS,
        *,
        limit: int,
    ) -> tuple[Passage, ...]:
        """Give passages that a user may read whose vectors point the way of this one, as `KnowledgeStore.search` does.

        Raises:
            OptionError: As there.
        """
        ...
