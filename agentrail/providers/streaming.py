"""A stream of chunks from a request and a reader: the piece that all wire formats share. No format enters this file."""

import datetime
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from types import MappingProxyType
from typing import Final, Protocol

import msgspec
import structlog
import trio
from attrs import evolve, frozen

from agentrail.core.request import Chunk, Completed, EffectId, ModelRequest, UsageUpdate
from agentrail.errors import ProviderError
from agentrail.messages import TokenUsage
from agentrail.providers.draft import Draft
from agentrail.providers.failures import Vendor, scrub, scrubbed
from agentrail.providers.http import HttpClients, Post, Pulse, next_before
from agentrail.providers.json_text import shown
from agentrail.providers.options import ProviderOptions
from agentrail.providers.prices import PriceList
from agentrail.providers.wire import current_key, merged_headers

_DRAIN_SECONDS: Final = 0.25
_CHUNKS_AT_A_TIME: Final = 1_000
_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",  # what is compressed comes in larger pieces, and so later
    }
)


class Reader(Protocol):
    """The pure half of a provider that understands its stream: fed with each event, closed when there are no more.

    Attributes:
        draft: What it has made of the response so far.
        ignored_events: How many events came after the terminal, or said nothing that is known to it.
    """

    draft: Draft
    ignored_events: int

    def feed(self, data: str) -> list[Chunk]:
        """Understand the data of one event; after the terminal chunk nothing comes any more."""
        ...

    def close(self) -> list[Chunk]:
        """Say what the end of the stream means: nothing more, a last chunk, or `Transport`."""
        ...


class MakeReader(Protocol):
    """Makes the reader of a response; the class of a reader is one."""

    def __call__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> Reader:
        """Begin a response."""
        ...


@frozen(kw_only=True)
class Endpoint:
    """Where the requests of a provider go, and what is the same for all of them.

    Attributes:
        options: What the provider was told.
        http: The clients of the supervisor.
        prices: What its models cost.
        reader: Makes what understands a response.
        url: Where.
        vendor: Who answers there; the key comes with each request.
        key_header: The header that the key stands in.
        key_prefix: What stands in front of it there.
        key_missing: What to say when there is no key; None where none is needed.
        headers: Besides.
    """

    options: ProviderOptions
    http: HttpClients
    prices: PriceList
    reader: MakeReader
    url: str
    vendor: Vendor
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    key_missing: str | None
    headers: Mapping[str, str] = MappingProxyType({})


@asynccontextmanager
async def open_response(
    endpoint: Endpoint, request: ModelRequest, body: bytes
) -> AsyncIterator[AsyncIterator[Chunk]]:
    """Open the stream of one response: the key is asked for, the request sent, and what it costs is known.

    Args:
        endpoint: Of the provider.
        request: What is asked.
        body: The same, encoded.

    Raises:
        Authentication: Your move: there is no key.
        ProviderError: On entering or while iterating, once.

    Cancellation: Leaving the block, by whatever way, closes the connection.
    """
    key = await current_key(endpoint.options, missing=endpoint.key_missing)
    vendor = evolve(endpoint.vendor, secrets=(key,) if key else ())
    asking = {endpoint.key_header: f"{endpoint.key_prefix}{key}"} if key else {}
    post = make_post(
        endpoint.options, url=endpoint.url, headers={**endpoint.headers, **asking}, body=body, vendor=vendor
    )
    reader = endpoint.reader(
        model=request.model, attempt=request.attempt, vendor=vendor, request_bytes=len(body)
    )
    cost = endpoint.prices.meter(request.model_name, at=datetime.datetime.now(datetime.UTC))
    try:
        async with open_chunks(
            endpoint.http, post, reader, within_seconds=endpoint.options.timeout, cost=cost
        ) as chunks:
            yield chunks
    finally:
        endpoint.http.note_ignored(reader.ignored_events)
        if reader.draft.strange_counts:
            _warn_of_counts(request.model, reader.draft.strange_counts, vendor)


def _warn_of_counts(model: str, counts: Mapping[str, object], vendor: Vendor) -> None:
    said = {name: scrubbed(shown(f"{value!r:.1000}"), vendor.secrets)[:40] for name, value in counts.items()}
    structlog.get_logger(__name__).warning(
        "the provider reports token counts that cannot be: they are left out, and the usage is marked as estimated",
        model=model,
        counts=said,
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

    Whoever iterates gets the generator itself: what each of a thousand chunks goes through should be thin.
    """

    def __init__(self, chunks: AsyncGenerator[Chunk, None], pulse: Pulse) -> None:
        self._chunks = chunks
        self._pulse = pulse

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
    pulse = Pulse()
    async with (
        http.open_events(post, deadline=deadline, pulse=pulse) as events,
        aclosing(_chunks(events, post, reader, deadline, cost)) as chunks,
    ):
        yield ChunkStream(chunks, pulse)


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
        for chunk in _priced(chunks, cost):
            yield chunk
        if not _has_terminal(chunks):
            async for data in events:
                chunks = reader.feed(data)
                for number, chunk in enumerate(_priced(chunks, cost), start=1):
                    yield chunk
                    if (
                        number % _CHUNKS_AT_A_TIME == 0
                    ):  # one event may hold thousands, and others want their turn
                        await trio.lowlevel.checkpoint()
                if _has_terminal(chunks):
                    break
            else:
                for chunk in _priced(reader.close(), cost):
                    yield chunk
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


def _priced(chunks: Iterable[Chunk], cost: Callable[[TokenUsage], float | None]) -> Iterator[Chunk]:
    for chunk in chunks:
        if isinstance(chunk, UsageUpdate | Completed):
            usage = msgspec.structs.replace(chunk.usage, cost_usd=cost(chunk.usage))
            yield msgspec.structs.replace(chunk, usage=usage)
        else:
            yield chunk
