"""`check_provider` is passed by what we ship, and names the demand that a faulty provider breaks (7.3)."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from attrs import evolve

from agentrail.abc import Provider
from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    ModelRequest,
    TextDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.errors import Overloaded, ProtocolError, ProviderError, Transport
from agentrail.messages import AssistantMessage, Text, TokenUsage
from agentrail.providers.demo import Demo
from agentrail.providers.http import HttpClients, Post
from agentrail.providers.openai_chat_format import ChatStream
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from agentrail.testing.check_provider import (
    ProviderCase,
    check_provider,
    demand_name,
    demands_of,
    request_for,
)
from agentrail.testing.models import ScriptedModel, Turn, calls, fails, says
from tests.providers.transcripts import KEY, WIRE
from tests.thinned import sample

MACHINE_SECONDS = 5.0  # not 0.1: two cores may be shared, and what is checked is that it closes


@asynccontextmanager
async def _open_http(kind: type[Any], url: str) -> AsyncIterator[Provider]:
    async with HttpClients() as http:
        yield kind(ProviderOptions.parse({"base_url": url, "api_key": KEY}), http)


@asynccontextmanager
async def open_local(make: Callable[[], Provider], _url: str) -> AsyncIterator[Provider]:
    """Open a provider that talks to nobody."""
    await trio.lowlevel.checkpoint()
    yield make()


def _over_http(kind: type[Any], wire: str, name: str) -> ProviderCase:
    return ProviderCase(
        open_provider=partial(_open_http, kind),
        request=request_for(f"{kind.name}:some-model"),
        answer=(WIRE / wire / f"{name}.sse").read_bytes(),
        closes_within_seconds=MACHINE_SECONDS,
    )


def _local(make: Callable[[], Provider], model: str) -> ProviderCase:
    return ProviderCase(open_provider=partial(open_local, make), request=request_for(model))


class _Repeated(ScriptedModel):
    """The same turn, as often as it is asked for."""

    def __init__(self, turn: Turn) -> None:
        super().__init__([turn] * 100)


SCRIPT = (
    evolve(calls(("get_weather", {"city": "Lisbon"}), text="Looking."), thinking="Hm."),
    fails(Overloaded("busy"), after="I was about to"),
    says("It ", "is ", "sunny.", pause_seconds=0.001),
)
WIRES = {
    "anthropic": (AnthropicMessages, "anthropic"),
    "openai-chat": (OpenAIChat, "openai_chat"),
    "google": (Gemini, "gemini"),
    "openai": (OpenAIResponses, "openai_responses"),
}
CASES = {
    **{f"{name} text": _over_http(*wire, "text") for name, wire in WIRES.items()},
    **{f"{name} calls": _over_http(*wire, "parallel_calls") for name, wire in WIRES.items()},
    "anthropic thinking": _over_http(AnthropicMessages, "anthropic", "interleaved_thinking"),
    "google signatures": _over_http(Gemini, "gemini", "signature_in_last_part"),
    "demo": _local(lambda: Demo(pause_seconds=0.0), "demo:"),
    **{f"scripted {n}": _local(partial(_Repeated, turn), "scripted:") for n, turn in enumerate(SCRIPT)},
}
# Two formats, and one without a wire; `make check` has a sample of the others, and `make nightly` all.
AT_ONCE = {"anthropic calls", "google calls", "demo"}
DEMANDED = [(name, demand) for name, case in CASES.items() for demand in demands_of(case)]
LATER = [one for one in DEMANDED if one[0] not in AT_ONCE]
TRUE_CASES = [
    pytest.param(CASES[name], demand, id=f"{name}: {demand_name(demand)}", marks=marks)
    for chosen, marks in (
        ([one for one in DEMANDED if one[0] in AT_ONCE], ()),
        (sample(LATER, len(LATER) // 4), pytest.mark.check),
    )
    for name, demand in chosen
]


@pytest.mark.parametrize(("case", "demand"), TRUE_CASES)
async def test_what_we_ship_conforms(case, demand):
    """Every provider of ours keeps every demand that applies to it."""
    await demand(case)


async def test_all_demands_are_one_call():
    """Whoever wants no report asks once."""
    await check_provider(CASES["openai-chat text"])


# --- what is broken is named


class _Faulty:
    """A provider that does one thing wrong to the chunks of another, or to the way they are asked for."""

    name = "faulty"

    def __init__(self, inner: Provider, spoil: Callable[[Any], Any], address: str) -> None:
        self._inner = inner
        self._address = address
        self.kept: list[trio.SocketStream] = []
        self._spoil = spoil
        self.capabilities = inner.capabilities
        self.encode = inner.encode

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        async with (
            self._inner.open_stream(request) as chunks,
            aclosing(self._spoil(chunks)) as spoilt,
        ):
            yield spoilt


def _each(change: Callable[[Any], list[Any]]) -> Callable[[Any], Any]:
    async def spoil(chunks):
        async for chunk in chunks:
            for one in change(chunk):
                yield one

    return spoil


def _shifted(chunk: Any) -> list[Any]:
    has_index = isinstance(chunk, ToolCallStarted | ArgumentsDelta)
    return [msgspec.structs.replace(chunk, index=chunk.index + 1) if has_index else chunk]


_two_terminals = _each(lambda chunk: [chunk] * (1 + isinstance(chunk, Completed)))
_no_terminal = _each(lambda chunk: [chunk] * (not isinstance(chunk, Completed)))
_one_delta_missing = _each(
    lambda chunk: [] if isinstance(chunk, TextDelta) and chunk.text.startswith("Hel") else [chunk]
)
_increments = _each(
    lambda chunk: [UsageUpdate(TokenUsage(output=1)) if isinstance(chunk, UsageUpdate) else chunk]
)


async def _arguments_first(chunks):
    waiting = None
    async for chunk in chunks:
        if isinstance(chunk, ToolCallStarted) and waiting is None:
            waiting = chunk
            continue
        yield chunk
        if waiting is not None and isinstance(chunk, ArgumentsDelta):
            yield waiting
            waiting = None


async def _scope_across_yield(chunks):
    with trio.CancelScope():
        async for chunk in chunks:
            yield chunk


async def _cancelled_is_an_error(chunks):
    try:
        async for chunk in chunks:
            yield chunk
    except trio.Cancelled:
        message = "cancelled"
        raise Transport(message) from None


async def _success_at_any_end(chunks):
    said = []
    try:
        async for chunk in chunks:
            said.append(chunk)
            yield chunk
    except Transport:
        text = "".join(chunk.text for chunk in said if isinstance(chunk, TextDelta))
        message = AssistantMessage(content=(Text(text=text),) if text else (), model="x:y")
        yield Completed("end", message, TokenUsage())


async def _all_at_once(chunks):
    every = [chunk async for chunk in chunks]
    for chunk in every:
        yield chunk


async def _one_behind(chunks):
    held = None
    async for chunk in chunks:
        if held is not None:
            yield held
        held = chunk
    yield held


class _Retrying(_Faulty):
    """Asks again, once, when nothing has come yet."""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        async with aclosing(self._twice(request)) as chunks:
            yield chunks

    async def _twice(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        has_begun = False
        try:
            async with self._inner.open_stream(request) as chunks:
                async for chunk in chunks:
                    has_begun = True
                    yield chunk
        except ProviderError:
            if has_begun:
                raise
            async with self._inner.open_stream(request) as chunks:
                async for chunk in chunks:
                    yield chunk


class _Leaking(_Faulty):
    """Opens a connection of its own for each stream, and closes none."""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        host, _, port = self._address.rpartition("/")[2].partition(":")
        self.kept.append(await trio.open_tcp_stream(host, int(port)))
        async with self._inner.open_stream(request) as chunks:
            yield chunks


class _Following(HttpClients):
    def _client_for(self, post: Post) -> Any:
        client = super()._client_for(post)
        client.follow_redirects, client.event_hooks = True, {}
        return client


class _Fragile(OpenAIChat):
    """Knows each event that there is, and no other."""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ChatStream, "feed", _feed_only_the_known)
            async with super().open_stream(request) as chunks:
                yield chunks


_FEED = ChatStream.feed


def _feed_only_the_known(reader: ChatStream, data: str) -> list[Chunk]:
    if "an_event_of_next_year" in data:
        message = "never heard of it"
        raise ProtocolError(message)
    return _FEED(reader, data)


def _spoilt(
    spoil: Callable[[Any], Any] = aiter, kind: type[_Faulty] = _Faulty, wire: str = "text"
) -> ProviderCase:
    @asynccontextmanager
    async def open_spoilt(url: str) -> AsyncIterator[Provider]:
        async with _open_http(OpenAIChat, url) as inner:
            faulty = kind(inner, spoil, url)
            try:
                yield faulty
            finally:
                for connection in faulty.kept:
                    await trio.aclose_forcefully(connection)

    return evolve(_over_http(OpenAIChat, "openai_chat", wire), open_provider=open_spoilt)


@asynccontextmanager
async def _open_following(url: str) -> AsyncIterator[Provider]:
    async with _Following() as http:
        yield OpenAIChat(ProviderOptions.parse({"base_url": url, "api_key": KEY}), http)


def _opened_by(open_provider: Any) -> ProviderCase:
    return evolve(CASES["openai-chat text"], open_provider=open_provider)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (_spoilt(_two_terminals), r"exactly one terminal: expected one Completed .* Completed at \["),
        (_spoilt(_no_terminal), r"exactly one terminal: .* Completed at \[\], error None"),
        (_spoilt(_one_delta_missing), "the message equals the sum of the deltas: expected"),
        (
            _spoilt(_arguments_first, wire="tool_call"),
            "one of the 0 calls that have begun, got ArgumentsDelta",
        ),
        (_spoilt(_each(_shifted), wire="tool_call"), "expected index 0, an id of its own and a name"),
        (_spoilt(_increments), "usage is a total: expected `Completed` to have the last total"),
        (_spoilt(_scope_across_yield), "no scope is held between chunks"),
        (_spoilt(_cancelled_is_an_error), "cancelled after chunk 0 .* expected the cancellation itself"),
        (_spoilt(kind=_Leaking), "cancelled after chunk 0 .* expected the connection to be closed within"),
        (_spoilt(_success_at_any_end), "an end without a terminal is Transport"),
        (_spoilt(_all_at_once), "nothing is held back .* which came in event"),
        (_spoilt(_one_behind), "nothing is held back .* which came in event"),
        (_opened_by(partial(_open_http, _Fragile)), "unknown events are tolerated"),
        (_spoilt(kind=_Retrying), "nothing is retried inside .* expected one, and its error, got 2 requests"),
        (_opened_by(_open_following), "redirects are not followed: expected"),
    ],
)
async def test_what_is_broken_is_named(case, words):
    """A faulty provider is told which demand it breaks, what was expected and what came."""
    with pytest.raises(AssertionError, match=words):
        await check_provider(evolve(case, closes_within_seconds=0.5))
