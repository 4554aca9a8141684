"""The port of embeddings: similar texts have similar vectors.

Vectors have length one and are packed as little-endian float32.
"""

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from agentrail.abc.knowledge import ALL_DOCUMENTS, DocumentFilter, Passage
from agentrail.abc.recall import ANY_TAGS, MemoryEntry, MemoryOwner, TagFilter

MAX_EMBEDDED: Final = 64
"""Maximum number of texts per call of an embedder."""


class Embedder(Protocol):
    """Computes vectors of texts."""

    @property
    def name(self) -> str:
        """Name, including model and version. Vectors of different names are not compared."""
        ...

    @property
    def dimension(self) -> int:
        """Number of components of each vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Compute the vector of each text, in order.

        Args:
            texts: 1 to 64 non-empty texts.

        Raises:
            ProviderError: The service is unavailable or refused.

        Cancellation: Leaves nothing open.
        """
        ...


def kind_of_vectors(embedder: Embedder) -> str:
    """Return the kind of an embedder's vectors. Only equal kinds are compared."""
    return f"{embedder.name} {embedder.dimension}"


class VectorKeeper(Protocol):
    """Keeps vectors with texts. Removing a text removes its vector. The store's threading rules apply."""

    def without_vectors(self, tenant: str, kind: str, *, limit: int) -> tuple[tuple[int, str], ...]:
        """Return number and text of the entries without a vector of this kind."""
        ...

    def put_vectors(self, tenant: str, kind: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Store vectors by text number, replacing those of other kinds. Missing texts are skipped. A text that the embedder refuses has zeros."""
        ...


@runtime_checkable
class VectorRecall(VectorKeeper, Protocol):
    """Additional methods of a memory store that compares meanings."""

    def nearest(
        self, owner: MemoryOwner, vector: bytes, kind: str, tags: TagFilter = ANY_TAGS, *, limit: int
    ) -> tuple[MemoryEntry, ...]:
        """Return the owner's entries with the most similar vectors, nearest first."""
        ...


@runtime_checkable
class VectorKnowledge(VectorKeeper, Protocol):
    """Additional methods of a knowledge store that compares meanings."""

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
        """Return readable passages with the most similar vectors. See `KnowledgeStore.search`.

        Raises:
            OptionError: Same as `KnowledgeStore.search`.
        """
        ...
