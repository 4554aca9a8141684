"""The edge of an embedder: texts in, packed vectors out, and every failure as one sentence."""

from collections.abc import Sequence
from typing import Final

from agentrail.abc.embeddings import Embedder, kind_of_vectors
from agentrail.core.values.ranking import pack_vector
from agentrail.errors import AgentrailError, BadRequest, ContentRefused, ContextWindowExceeded, ErrorInfo
from agentrail.otp.crash_text import describe_bug, words_of
from agentrail.runtime.crashes import PortCrashed, crash_edge
from agentrail.runtime.vector_search import NoMeaning, TextRefused

_REFUSALS: Final = (BadRequest, ContentRefused, ContextWindowExceeded)


class EmbedderEdge:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name: str = embedder.name
        self.kind: str = kind_of_vectors(embedder)

    async def vectors_of(self, texts: Sequence[str]) -> list[bytes]:
        try:
            with crash_edge(self._decide_crash, AgentrailError):
                given = await self._embedder.embed(texts)
                if len(given) != len(texts):
                    message = f"{len(given)} vectors for {len(texts)} texts"
                    raise ValueError(message)
                return [pack_vector(one, self._embedder.dimension) for one in given]
        except PortCrashed as crashed:
            raise TextRefused(crashed.error.message) from None
        except AgentrailError as error:
            message = f"the embedder {self.name} failed: {words_of(error)}"
            raise (TextRefused if isinstance(error, _REFUSALS) else NoMeaning)(message) from error

    def _decide_crash(self, error: BaseException) -> ErrorInfo:
        message = (
            f"the embedder {self.name} crashed ({describe_bug(error)}): this is a bug in it, please report it"
        )
        return ErrorInfo(code="embedder_crashed", message=message)
