"""A stream of chunks from a request and a reader: the piece that all wire formats share. No format enters this file."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from types import MappingProxyType
from typing import Final

import msgspec
import trio

from agentrail.core.protocol.request import Chunk, Completed, UsageUpdate
from agentrail.errors import ProviderError
from agentrail.messages import TokenUsage
from agentrail.providers.failures import Vendor, scrub
from agentrail.providers.http import HttpClients, LastActivity, Post, next_before
from agentrail.providers.options import ProviderOptions
from agentrail.providers.wire import merged_headers
from agentrail.providers.wire_format import Reader

_DRAIN_SECONDS: Final = 0.25
_CHUNKS_AT_A_TIME: Final = 1_000
_WITH_USAGE: Final = (UsageUpdate, Completed)  # nearly every chunk is neither, and is not asked twice
_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",  # what is compressed comes in larger pieces, and so later
    }
)


def make_post(
    options: ProviderOptions, *, url: str, headers: Mapping[str, str], body: bytes, vendor: Vendor
) -> Post:
    """Put a request together: our headers as the options change them, and how the connection is to be made."""
    return Post(
        url=url,
        headers=merged_headers({**_HEADERS, **headers}, options),
        body=body,
        vendor=vendor,
        verify=options.verify,
        trust_env=options.trust_env,
        http2=options.http2,
    )


class ChunkStream:
    """The chunks of a response, and a sign of life between them.

    The caller gets the generator itself: what each of a thousand chunks goes through should be thin.
    """

    def __init__(self, chunks: AsyncGenerator[Chunk, None], activity: LastActivity) -> None:
        self._chunks = chunks
        self._pulse = activity

    def __aiter__(self) -> AsyncIterator[Chunk]:
        """Give the generator."""
        return self._chunks

    async def __anext__(self) -> Chunk:
        """Wait for the next chunk."""
        return await anext(self._chunks)

    @property
    def pinged_at(self) -> float | None:
        """When the server last sent anything, a chunk or not, on Trio's clock."""
        return self._pulse.beat_at


@asynccontextmanager
async def open_chunks(
    http: HttpClients,
    post: Post,
    reader: Reader,
    *,
    within_seconds: float,
    cost: Callable[[TokenUsage], float | None],
) -> AsyncIterator[AsyncIterator[Chunk]]:
    """Open the stream of one response.

    Args:
        http: The clients of the supervisor.
        post: The request.
        reader: Fresh.
        within_seconds: Until the first chunk.
        cost: Prices what was used, in US dollars. It is fixed here, so that no replay depends on a list of prices.

    Raises:
        ProviderError: On entering or while iterating, once.

    Cancellation: Leaving the block, by whatever way, closes the connection.
    """
    deadline = trio.current_time() + within_seconds
    activity = LastActivity()
    async with (
        http.open_events(post, deadline=deadline, activity=activity) as events,
        aclosing(_chunks(events, post, reader, deadline, cost)) as chunks,
    ):
        yield ChunkStream(chunks, activity)


async def _chunks(
    events: AsyncIterator[str],
    post: Post,
    reader: Reader,
    deadline: float,
    cost: Callable[[TokenUsage], float | None],
) -> AsyncGenerator[Chunk, None]:
    chunks: list[Chunk] = []
    try:
        while not chunks:
            data = await next_before(events, deadline, post.vendor)
            chunks = reader.close() if data is None else reader.feed(data)
        for chunk in chunks:
            yield _priced(chunk, cost) if type(chunk) in _WITH_USAGE else chunk
        if not _has_terminal(chunks):
            async for data in events:
                chunks = reader.feed(data)
                for number, chunk in enumerate(chunks, start=1):
                    yield _priced(chunk, cost) if type(chunk) in _WITH_USAGE else chunk
                    # One event may hold thousands, and others want their turn.
                    if number % _CHUNKS_AT_A_TIME == 0:
                        await trio.lowlevel.checkpoint()
                if _has_terminal(chunks):
                    break
            else:
                for chunk in reader.close():
                    yield _priced(chunk, cost)
    except ProviderError as error:  # the manager `no_keys_shown` would stand around a yield
        scrub(error, post.vendor)
        raise
    # The end of the body is on its way, and only a connection that was read to its end can serve the next request.
    # The response is complete: whatever goes wrong now is not its failure.
    with suppress(ProviderError), trio.move_on_after(_DRAIN_SECONDS):
        async for data in events:
            reader.feed(data)


def _has_terminal(chunks: list[Chunk]) -> bool:
    return bool(chunks) and type(chunks[-1]) is Completed


def _priced(chunk: Chunk, cost: Callable[[TokenUsage], float | None]) -> Chunk:
    if not isinstance(chunk, UsageUpdate | Completed):
        return chunk
    return msgspec.structs.replace(
        chunk, usage=msgspec.structs.replace(chunk.usage, cost_usd=cost(chunk.usage))
    )
