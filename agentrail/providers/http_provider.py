"""`HttpProvider`: a provider that runs a wire format over HTTP. It contains no wire format."""

import datetime
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from types import MappingProxyType
from typing import Final

import trio
from attrs import define, evolve, field
from msgspec.structs import replace

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
from agentrail.messages import AssistantBlock, AssistantMessage, JsonObject, Text, TokenUsage, ToolCall
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

# Structured answers for models without schema support.
#
# The request gets one more tool, whose parameters are the schema. A call of it is returned as text, so that the
# session, its history and its subscribers see an ordinary answer. Rejected alternative: the schema in the prompt. Such
# models follow tools better.

ANSWER_TOOL: Final = "final_answer"
_DESCRIPTION: Final = "Give your final answer by calling this tool, once, when you are done: its arguments are the answer. Say it in no other way."


def with_answer_tool(request: ModelRequest) -> tuple[ModelRequest, str | None]:
    """Add the answer tool to a request for a structured answer.

    Returns:
        The request without its schema, and the name of the tool. The unchanged request and None if no schema is set, or if it
        is not an object, which no tool could take.
    """
    schema = request.response_format
    if schema is None or schema.get("type") != "object":
        return request, None
    # On the last turn the other tools are withheld, but this one may still be called.
    specs = request.tools.specs if request.tool_choice == "auto" else ()
    name = ANSWER_TOOL
    while any(spec.name == name for spec in specs):
        name += "_"
    tools = Toolbox((*specs, ToolSpec(name=name, description=_DESCRIPTION, parameters=schema)))
    return replace(request, tools=tools, tool_choice="auto", response_format=None), name


@define
class AnswerChunks:
    """The chunks of a response, with calls of the answer tool turned into text."""

    chunks: AsyncIterator[Chunk]
    name: str
    _said: dict[int, list[str]] = field(factory=dict, init=False)

    @property
    def pinged_at(self) -> float | None:
        """Time of the server's last sign of life, as the port defines it."""
        pinged_at: float | None = getattr(self.chunks, "pinged_at", None)
        return pinged_at

    def __aiter__(self) -> "AnswerChunks":
        return self

    async def __anext__(self) -> Chunk:
        """Return the next chunk, without any trace of the answer tool."""
        while True:
            chunk = self._read(await anext(self.chunks))
            if chunk is not None:
                return chunk

    def _read(self, chunk: Chunk) -> Chunk | None:
        match chunk:
            case ToolCallStarted(index=index, name=self.name):
                self._said[index] = []
                return None
            case ArgumentsDelta(index=index, text=text) if index in self._said:
                self._said[index].append(text)
                return TextDelta(text) if text else None
            case Completed(message=message):
                return self._with_answer(chunk, message)
            case _:
                return chunk

    def _with_answer(self, chunk: Completed, message: AssistantMessage) -> Completed:
        # The message repeats the deltas exactly, because subscribers have already read them.
        said = iter(self._said.values())
        content: list[AssistantBlock] = []
        for block in message.content:
            if isinstance(block, ToolCall) and block.name == self.name:
                written = block.malformed or json.dumps(block.arguments or {}, ensure_ascii=False)
                content.append(Text(text="".join(next(said, ())) or written))
            else:
                content.append(block)
        is_last = not any(isinstance(block, ToolCall) for block in content)
        stop_reason = "end" if is_last and chunk.stop_reason == "tool_use" else chunk.stop_reason
        answered = replace(message, content=tuple(content), stop_reason=stop_reason)
        return Completed(stop_reason, answered, chunk.usage)


# A stream of chunks, from a request and a reader.

_DRAIN_SECONDS: Final = 0.25
_CHUNKS_AT_A_TIME: Final = 1_000
_WITH_USAGE: Final = (UsageUpdate, Completed)  # almost no chunk is either, so most are tested once
_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {"content-type": "application/json", "accept": "text/event-stream"}
)


def make_post(
    options: ProviderOptions, *, url: str, headers: Mapping[str, str], body: bytes, vendor: Vendor
) -> Post:
    """Build a request from our headers, changed by the options, and the connection settings."""
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
    """The chunks of a response, and the time of the last data between them.

    The caller gets the generator itself, to keep the overhead per chunk small.
    """

    def __init__(self, chunks: AsyncGenerator[Chunk, None], activity: LastActivity) -> None:
        self._chunks = chunks
        self._pulse = activity

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._chunks

    async def __anext__(self) -> Chunk:
        return await anext(self._chunks)

    @property
    def pinged_at(self) -> float | None:
        """Time of the last data from the server, even without a chunk, on Trio's clock."""
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
        reader: A new reader.
        within_seconds: Time limit for the first chunk, in seconds.
        cost: Prices the usage, in US dollars. The price is fixed here, so that no replay depends on a price list.

    Raises:
        ProviderError: On entering or while iterating, once.

    Cancellation: Leaving the block always closes the connection.
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
                    # One event may hold thousands of chunks, and other tasks need to run.
                    if number % _CHUNKS_AT_A_TIME == 0:
                        await trio.lowlevel.checkpoint()
                if _has_terminal(chunks):
                    break
            else:
                for chunk in reader.close():
                    yield _priced(chunk, cost)
    except ProviderError as error:  # the context manager `no_keys_shown` would enclose a yield
        scrub(error, post.vendor)
        raise
    # The end of the body is still arriving, and only a connection that was read to its end can be reused. The response
    # is complete, so later errors do not matter.
    with suppress(ProviderError), trio.move_on_after(_DRAIN_SECONDS):
        async for data in events:
            reader.feed(data)


def _has_terminal(chunks: list[Chunk]) -> bool:
    return bool(chunks) and type(chunks[-1]) is Completed


def _priced(chunk: Chunk, cost: Callable[[TokenUsage], float | None]) -> Chunk:
    if not isinstance(chunk, UsageUpdate | Completed):
        return chunk
    return replace(chunk, usage=replace(chunk.usage, cost_usd=cost(chunk.usage)))


LOGGER: Final = Logger("agentrail.providers")


class HttpProvider:
    """A provider for any vendor that accepts JSON by POST and answers with server-sent events."""

    def __init__(self, wire: WireFormat, http: HttpClients) -> None:
        """Store the format and the supervisor's clients, without opening a connection."""
        self.name: str = wire.name
        self.model_policy: ModelPolicy = wire.options.model_policy
        self._wire = wire
        self._http = http
        self._last_key: str | None = None
        self._prices = PriceList.of(wire.options, wire.endpoint.base_url)

    def __repr__(self) -> str:
        """Return the address of the requests."""
        return f"{type(self).__name__}({self._wire.endpoint.url!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets in its requests: the last key, and other credentials. They must not appear in any record."""
        options = self._wire.options
        given = {"api_key": options.api_key, "headers": options.headers, "base_url": options.base_url}
        last = () if self._last_key is None else (self._last_key,)
        return (*last, *[secret.reveal() for secret in keys_in(given)])

    @property
    def encodings(self) -> int:
        """Number of messages encoded so far: one per new message of a session, whatever its length."""
        return self._wire.encodings

    def capabilities(self, model: str) -> Capabilities:
        """Return the capabilities of a model. With a custom base URL, they are uncertain."""
        bound = self._wire.options.max_output_tokens or self._wire.endpoint.max_output_tokens
        known = self._prices.capabilities(model, max_output_tokens=bound)
        return evolve(known, schemas="tool") if self._needs_tool(model) else known

    def _needs_tool(self, model: str, schema: JsonObject | None = None) -> bool:
        chosen, endpoint = self._wire.options.structured, self._wire.endpoint
        if chosen is not None:
            return chosen == "tool"
        return model.startswith(endpoint.without_schemas) or not (
            schema is None or endpoint.takes_schema(schema)
        )

    def encode(self, request: ModelRequest) -> bytes:
        """Encode the body of a request, joining cached parts. Only new messages are encoded."""
        return self._wire.encode(request)

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Open the stream of one response: encode the body, get the key, send the request, price the usage.

        See `agentrail.abc.Provider.open_stream`.

        Raises:
            Authentication: Your move: there is no key, or it belongs to another vendor.
            ProviderError: On entering or while iterating, once.

        Cancellation: Leaving the block always closes the connection.
        """
        wire, options, endpoint = self._wire, self._wire.options, self._wire.endpoint
        answer_tool = None
        schema = request.response_format
        if schema is not None and self._needs_tool(request.model_name, schema):
            request, answer_tool = with_answer_tool(request)
        body = wire.encode(request)
        key = await current_key(options, missing=endpoint.key_missing)
        self._last_key = key
        vendor = evolve(endpoint.vendor, secrets=(key,) if key else ())
        refuse_foreign_key(vendor)
        asking = {endpoint.key_header: f"{endpoint.key_prefix}{key}"} if key else {}
        if request.traceparent:
            asking["traceparent"] = request.traceparent
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
    """Refuse to send one vendor's key to another, which would reject it after reading it.

    Raises:
        Authentication: Your move: the key has another vendor's prefix. Raised only for the vendor's own server.
    """
    owner = owner_of_foreign_key(vendor, sure=True)
    if owner is not None:
        said = f"{vendor.name} received no request, because the key is for another vendor"
        raise Authentication(with_advice(said, advise_about_foreign_key(vendor, owner)))


async def current_key(options: ProviderOptions, *, missing: str | None) -> str | None:
    """Return the key for a request, calling the key function if there is one.

    Args:
        options: The options, with or without a key.
        missing: Message if there is no key; None if none is needed.

    Raises:
        Authentication: Your move: there is no key, or the function returned an unusable one.
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
        "the provider reports impossible token counts: they are left out, and the usage is marked as estimated",
        model=model,
        counts=said,
    )
