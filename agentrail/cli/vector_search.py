"""Vector search for commands, with the configured embedder and the same ranking as in sessions."""

from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

import trio
from cyclopts import Parameter

from agentrail.abc.embeddings import Embedder, VectorKeeper, kind_of_vectors
from agentrail.blueprints.configuration import read_configuration
from agentrail.blueprints.embedder import OpenEmbedder, read_embedder
from agentrail.cli.stdio import write_error
from agentrail.config.toml_positions import ConfigFault
from agentrail.errors import OptionError
from agentrail.providers.embeddings import OpenAIEmbedder
from agentrail.runtime.embedder_guard import EmbedderEdge
from agentrail.runtime.vector_search import Meanings, NoMeaning

T = TypeVar("T")

WordsAlone = Annotated[
    bool, Parameter(name="--words", help="Compare words alone, also where agentrail.toml names an embedder.")
]


def embedder_of_files(environ: Mapping[str, str]) -> OpenAIEmbedder | None:
    faults: list[str] = []
    settings = read_configuration(environ).check().settings
    opened: OpenEmbedder | None = read_embedder(
        settings.embedder, lambda said, text: faults.append(str(ConfigFault(place=said.place, said=text)))
    )
    OptionError.raise_for(faults)
    return None if opened is None else opened()


def meaning_of(query: str, embedder: OpenAIEmbedder | None) -> tuple[bytes, str] | None:
    """Return a query's vector and its kind, or None to compare words alone. A failure of the embedder is reported."""
    if embedder is None or not query.strip():
        return None

    async def ask() -> bytes:
        async with embedder:
            return await _meanings_of(embedder).vector_of(query)

    try:
        return trio.run(ask), kind_of_vectors(embedder)
    except NoMeaning as error:
        write_error(f"words alone are compared: {error}.")
        return None


def make_vectors(embedder: OpenAIEmbedder, keeper: VectorKeeper, tenant: str) -> int:
    async def here(function: Callable[[], T], /) -> T:
        await trio.lowlevel.checkpoint()
        return function()

    async def fill() -> int:
        async with embedder:
            return await _meanings_of(embedder).fill(keeper, tenant, here)

    return trio.run(fill)


def _meanings_of(embedder: Embedder) -> Meanings:
    def start(*_: object) -> None:
        message = "a command waits for all of its work; nothing continues in the background"
        raise AssertionError(message)

    return Meanings(EmbedderEdge(embedder), start)
