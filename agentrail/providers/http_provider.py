"""`HttpProvider`: a provider that carries out a wire format over HTTP. No format enters this file.

`HttpProvider(ChatFormat(options), http)` is a provider; `OpenAIChat(options, http)` is the same under the name of its vendor.
"""

import datetime
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from types import MappingProxyType
from typing import Final

import msgspec
import trio
from attrs import define, evolve, field

from agentrail import outside
from agentrail.abc import Capabilities, Secret
from agentrail.abc.held_secrets import keys_in
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    ModelRequest,
    TextDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import Authentication, ProviderError
from agentrail.errors.advice import with_advice
from agentrail.logs import Logger
from agentrail.messages import AssistantBlock, AssistantMessage, Text, TokenUsage, ToolCall
from agentrail.providers.failures import (
    Vendor,
    advise_about_foreign_key,
    owner_of_foreign_key,
    scrub,
    scrubbed,
)
from agentrail.providers.http import HttpClients, LastActivity, Post, next_before
from agentrail.providers.json_text import shown
from agentrail.providers.options import ProviderOptions
from agentrail.providers.prices import PriceList
from agentrail.providers.wire_format import Reader, WireFormat, merged_headers

# Structured answers of models that take no schema.
#
# The request has one more tool, whose parameters are the schema; a call of it comes back as text, so that the session, its history and its
# subscribers see an answer like any other. The road not taken is the schema in the prompt: such models follow tools better.

ANSWER_TOOL: Final = "final_answer"
_DESCRIPTION: Final = "Give your final answer by calling this tool, once, when you are done: its arguments are the answer. Say it in no other way."


def with_answer_tool(request: ModelRequest) -> tuple[ModelRequest, str | None]:
    """Put the tool into a request whose answer is to have a shape.

    Returns:
        The request without its schema, and what the tool is called in it; the request as it is, and None, where no shape is wanted,
        or one that is no object, which no tool could take.
    """
    schema = request.response_format
    if schema is None or schema.get("type") != "object":
        return request, None
    # On the last turn the others are withheld, and this one may be called all the same.
    specs = request.tools.specs if request.tool_choice == "auto" else ()
    name = ANSWER_TOOL
    while any(spec.name == name for spec in specs):
        name += "_"
    tools = Toolbox((*specs, ToolSpec(name=name, description=_DESCRIPTION, parameters=schema)))
    return msgspec.structs.replace(request, tools=tools, tool_choice="auto", response_format=None), name


@define
class AnswerChunks:
    """The chunks of a response in which a call of the tool is text."""

    chunks: AsyncIterator[Chunk]
    name: str
    _said: dict[int, str] = field(factory=dict, init=False)

    @property
    def pinged_at(self) -> float | None:
        """When the server last gave a sign of life; as of the port."""
        pinged_at: float | None = getattr(self.chunks, "pinged_at", None)
        return pinged_at

    def __aiter__(self) -> "AnswerChunks":
        """Iterate over oneself."""
        return self

    async def __anext__(self) -> Chunk:
        """Give the next chunk, as a session that knows no such tool is to read it."""
        while True:
            chunk = self._read(await anext(self.chunks))
            if chunk is not None:
                return chunk

    def _read(self, chunk: Chunk) -> Chunk | None:
        match chunk:
            case ToolCallStarted(index=index, name=self.name):
                self._said[index] = ""
                return None
            case ArgumentsDelta(index=index, text=text) if index in self._said:
                self._said[index] += text
                return TextDelta(text) if text else None
            case Completed(message=message):
                return self._with_answer(chunk, message)
            case _:
                return chunk

    def _with_answer(self, chunk: Completed, message: AssistantMessage) -> Completed:
        # What came in pieces is what the message says, to the letter: subscribers have read it.
        said = iter(self._said.values())
        content: list[AssistantBlock] = []
        for block in message.content:
            if isinstance(block, ToolCall) and block.name == self.name:
                content.append(Text(text=next(said, "") or _written(block)))
            else:
                content.append(block)
        is_last = not any(isinstance(block, ToolCall) for block in content)
        stop_reason = "end" if is_last and chunk.stop_reason == "tool_use" else chunk.stop_reason
        answered = msgspec.structs.replace(message, content=tuple(content), stop_reason=stop_reason)
        return Completed(stop_reason, answered, chunk.usage)


def _written(call: ToolCall) -> str:
    return call.malformed or json.dumps(call.arguments, ensure_ascii=False)


# A stream of chunks, from a request and a reader.

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


LOGGER: Final = Logger("agentrail.providers")


class HttpProvider:
    """A provider for any vendor who is asked by a POST of JSON and answers with server-sent events."""

    def __init__(self, wire: WireFormat, http: HttpClients) -> None:
        """Take the format and the supervisor's clients; nothing is opened."""
        self.name: str = wire.name
        self.model_policy: ModelPolicy = wire.options.model_policy
        self._wire = wire
        self._http = http
        self._last_key: str | None = None
        self._prices = PriceList.of(wire.options, wire.endpoint.base_url)

    def __repr__(self) -> str:
        """Show where the requests go."""
        return f"{type(self).__name__}({self._wire.endpoint.url!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What its requests carry and no record may show: the key of the last one, and what else lets one in."""
        options = self._wire.options
        given = {"api_key": options.api_key, "headers": options.headers, "base_url": options.base_url}
        last = () if self._last_key is None else (self._last_key,)
        return (*last, *[secret.reveal() for secret in keys_in(given)])

    @property
    def encodings(self) -> int:
        """How many messages were encoded so far: in a session one per new message, whatever its length."""
        return self._wire.encodings

    def capabilities(self, model: str) -> Capabilities:
        """Say what is known of a model; of one behind an address of one's own nothing is certain."""
        bound = self._wire.options.max_output_tokens or self._wire.endpoint.max_output_tokens
        known = self._prices.capabilities(model, max_output_tokens=bound)
        return evolve(known, schemas="tool") if self._needs_tool(model) else known

    def _needs_tool(self, model: str) -> bool:
        chosen = self._wire.options.structured
        return chosen == "tool" or (chosen is None and model.startswith(self._wire.endpoint.without_schemas))

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: a join of parts, of which only those of new messages are encoded now."""
        return self._wire.encode(request)

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Open the stream of one response: the body is made, the key asked for, the request sent, and its cost known.

        See `agentrail.abc.Provider.open_stream`.

        Raises:
            Authentication: Your move: there is no key, or it is one of another vendor.
            ProviderError: On entering or while iterating, once.

        Cancellation: Leaving the block, by whatever way, closes the connection.
        """
        wire, options, endpoint = self._wire, self._wire.options, self._wire.endpoint
        answer_tool = None
        if request.response_format is not None and self._needs_tool(request.model_name):
            request, answer_tool = with_answer_tool(request)
        body = wire.encode(request)
        key = await current_key(options, missing=endpoint.key_missing)
        self._last_key = key
        vendor = evolve(endpoint.vendor, secrets=(key,) if key else ())
        refuse_foreign_key(vendor)
        asking = {endpoint.key_header: f"{endpoint.key_prefix}{key}"} if key else {}
        post = make_post(
            options,
            url=wire.url_of(request.model_name),
            headers={**endpoint.headers, **asking},
            body=body,
            vendor=vendor,
        )
        reader = wire.make_reader(
            model=request.model, attempt=request.attempt, vendor=vendor, request_bytes=len(body)
        )
        cost = self._prices.meter(
            request.model_name, at=datetime.datetime.fromtimestamp(outside.wall(), datetime.UTC)
        )
        try:
            async with open_chunks(
                self._http, post, reader, within_seconds=options.timeout, cost=cost
            ) as chunks:
                yield chunks if answer_tool is None else AnswerChunks(chunks, answer_tool)
        finally:
            self._http.note_ignored(reader.ignored_events)
            if reader.draft.strange_counts:
                _warn_of_counts(request.model, reader.draft.strange_counts, vendor)


def refuse_foreign_key(vendor: Vendor) -> None:
    """Keep the key of one vendor from another: it would be refused there, and they would have read it.

    Raises:
        Authentication: Your move: it begins like the keys of another vendor. Only where the vendor itself is asked.
    """
    owner = owner_of_foreign_key(vendor, sure=True)
    if owner is not None:
        said = f"{vendor.name} was not asked, because the key is for another vendor"
        raise Authentication(with_advice(said, advise_about_foreign_key(vendor, owner)))


async def current_key(options: ProviderOptions, *, missing: str | None) -> str | None:
    """Return the key for a request, asking the function where it is one.

    Args:
        options: With the key, or without.
        missing: The message when there is none; None where none is needed.

    Raises:
        Authentication: Your move: there is no key, or the function returned none that could be sent.
    """
    source = options.api_key
    key = source() if callable(source) else source
    if inspect.isawaitable(key):
        key = await key
    if key is None:
        if missing is not None:
            raise Authentication(missing)
        return None
    tidy = (key.reveal() if isinstance(key, Secret) else str(key)).strip()
    if not (tidy and tidy.isascii() and tidy.isprintable()):
        message = "the function in 'api_key' returned no key that a header can carry: expected a printable ASCII text"
        raise Authentication(message)
    return tidy


def _warn_of_counts(model: str, counts: Mapping[str, object], vendor: Vendor) -> None:
    said = {name: scrubbed(shown(f"{value!r:.1000}"), vendor.secrets)[:40] for name, value in counts.items()}
    LOGGER.warning(
        "the provider reports token counts that cannot be: they are left out, and the usage is marked as estimated",
        model=model,
        counts=said,
    )
