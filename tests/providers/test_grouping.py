"""A wire format is pure, and `HttpProvider` adds nothing to what it says; what a provider keeps of the last conversation never shows (16.4)."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.values.history import Log
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ProviderError
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.providers.anthropic_format import MessagesFormat
from agentrail.providers.gemini_format import GeminiFormat
from agentrail.providers.http import HttpClients, LastActivity, Post
from agentrail.providers.http_provider import HttpProvider
from agentrail.providers.openai_chat_format import ChatFormat
from agentrail.providers.openai_responses_format import ResponsesFormat
from agentrail.providers.options import ProviderOptions
from agentrail.providers.wire_format import WireFormat
from tests.providers.transcripts import KEY, WIRE, WIRES, completed, events_of, request_of, transcripts
from tests.thinned import first

FORMATS: Final = tuple(WIRES)
POOL: Final[tuple[Message, ...]] = (
    UserMessage(content=(Text(text="one"),)),
    UserMessage(content=(Text(text="two"),)),
    UserMessage(content=(Text(text=" "),)),  # of which nothing can be said
    AssistantMessage(content=(Text(text="yes"),), model="stub:a"),
    AssistantMessage(content=(Text(text="no"),), model="stub:b"),
    AssistantMessage(content=(Thinking(text="hm", provider="stub"),), model="stub:a"),
    # Equal in Python, and written otherwise.
    AssistantMessage(
        content=(ToolCall(call_id=CallId("c"), name="t", arguments={"a": True}),), model="stub:a"
    ),
    AssistantMessage(content=(ToolCall(call_id=CallId("c"), name="t", arguments={"a": 1}),), model="stub:a"),
    ToolMessage(results=(ToolResult(call_id=CallId("c"), name="t", text="done"),)),
    UserMessage(content=(Text(text="long " * 250),)),  # its piece is not copied
    AssistantMessage(content=(Text(text="long " * 250),), model="stub:a"),
    ToolMessage(results=()),
)

conversations = st.lists(st.sampled_from(POOL), max_size=8)
# Mostly the same conversation that grows, as it does in a session; at times one that was cut, or another one.
turns = st.lists(
    st.tuples(
        st.sampled_from(("grow", "grow", "grow", "cut", "other", "older", "copy")),
        conversations,
        st.lists(st.integers(0, 12), max_size=2),
        st.sampled_from(("stub:a", "stub:b")),
        st.sampled_from(("", "Be kind.")),
    ),
    min_size=1,
    max_size=8,
)


@given(turns=turns, kind=st.sampled_from(FORMATS))
def test_a_body_is_the_one_that_a_new_provider_makes(turns, kind):
    """Whatever the provider was asked before."""
    asked = kind(ProviderOptions(), HttpClients())
    messages: Log[Message] = Log()  # as a session's: its versions share what they hold
    versions = [messages]
    for change, more, points, model, system in turns:
        versions.append(messages)
        match change:
            case "grow":
                for message in more:
                    messages = messages.appended(message)
            case "cut":
                messages = Log(messages[: len(more)])
            case "other":
                messages = Log(more)
        request = ModelRequest(
            attempt=EffectId("r1"),
            model=model,
            system=system,
            messages=versions[len(more) % len(versions)]
            if change == "older"
            else messages[:]
            if change == "copy"
            else messages,
            tools=Toolbox(),
            cache_points=tuple(points),
        )
        body = asked.encode(request)
        assert body == kind(ProviderOptions(), HttpClients()).encode(request)
        json.loads(body)


@pytest.mark.parametrize("kind", FORMATS)
def test_equal_messages_are_not_the_same(kind):
    """`True` and `1` are equal in Python, and are written otherwise."""
    one, other = (message for message in POOL if isinstance(message, AssistantMessage) and message.calls)
    assert one == other
    asked = kind(ProviderOptions(), HttpClients())
    tail = (POOL[8], POOL[0], POOL[3])
    asked.encode(request_of(POOL[0], one, *tail, model="stub:a"))
    body = asked.encode(request_of(POOL[0], other, *tail, model="stub:a"))
    assert body == kind(ProviderOptions(), HttpClients()).encode(
        request_of(POOL[0], other, *tail, model="stub:a")
    )


@pytest.mark.parametrize("kind", FORMATS)
@given(sizes=st.lists(st.sampled_from((1, 300, 900, 1_100)), min_size=1, max_size=40), step=st.integers(1, 9))
def test_long_and_short_pieces_stay_in_order(kind, sizes, step):
    """Joined in blocks or kept as they are, in a conversation that grows: the body is the one of a new provider."""
    asked = kind(ProviderOptions(), HttpClients())
    messages: Log[Message] = Log()
    for place, size in enumerate(sizes):
        content = (Text(text=f"{place} ".ljust(size, "x")),)
        said = (
            UserMessage(content=content) if place % 2 else AssistantMessage(content=content, model="stub:a")
        )
        messages = messages.appended(said)
        if place % step == 0 or place == len(sizes) - 1:
            request = request_of(*messages, model="stub:a")
            body = asked.encode(request)
            assert body == kind(ProviderOptions(), HttpClients()).encode(request)
            assert re.findall(rb'"(\d+) x*', body) == [b"%d" % number for number in range(place + 1)]
            json.loads(body)
    pieces = asked._wire._grouping._pieces  # noqa: SLF001
    assert len(pieces) <= 2 * sum(size > 1_000 for size in sizes) + len(sizes) // 12 + 1


BY_WIRE: Final[dict[str, type[Any]]] = {
    "anthropic": MessagesFormat,
    "openai_chat": ChatFormat,
    "openai_responses": ResponsesFormat,
    "gemini": GeminiFormat,
}
PROVIDERS: Final = {wire: kind for kind, wire in WIRES.items()}
OPTIONS: Final = st.fixed_dictionaries(
    {"api_key": st.just(KEY)},
    optional={
        "base_url": st.sampled_from(["http://h:1", "https://h/v1", "http://h/v1beta"]),
        "headers": st.sampled_from([{"x-more": "1"}, {"accept": None}]),
        "temperature": st.just(0.5),
        "extra_body": st.just({"more": 1}),
        "max_output_tokens": st.just(7),
    },
)


class _Recorder(HttpClients):
    """Sends nothing, and answers each request with what was given."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.posts: list[Post] = []
        self._answer = answer

    @asynccontextmanager
    async def open_events(
        self, post: Post, *, deadline: float, activity: LastActivity
    ) -> AsyncIterator[AsyncIterator[str]]:
        self.posts.append(post)

        async def events() -> AsyncIterator[str]:
            for data in events_of(self._answer):
                yield data

        await trio.lowlevel.checkpoint()
        yield events()


async def _ask(provider: HttpProvider, request: ModelRequest) -> list[object]:
    async with provider.open_stream(request) as chunks:
        return [chunk async for chunk in chunks]


def _told(tell: Callable[[], list[Any]]) -> list[Any] | str:
    try:
        return tell()
    except ProviderError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("wire", BY_WIRE)
@given(
    options=OPTIONS, messages=conversations, model=st.sampled_from(["x:m", "x:models/a b", "registry:p:m"])
)
def test_what_is_sent_is_what_the_format_says(wire, options, messages, model):
    """Address, body and key header are the format's, whoever carries it out; the key stands in one header alone."""
    make_format, make_provider = BY_WIRE[wire], PROVIDERS[wire]
    parsed = ProviderOptions.parse(options)
    wire_format: WireFormat = make_format(parsed)
    request = request_of(*messages, model=model)
    posts = []
    for provider in (
        lambda http: HttpProvider(make_format(parsed), http),
        lambda http: make_provider(parsed, http),
    ):
        http = _Recorder((WIRE / wire / "text.sse").read_text())
        trio.run(_ask, provider(http), request)
        posts += http.posts
    one, other = posts
    assert one == other
    assert (one.url, one.body) == (wire_format.url_of(request.model_name), wire_format.encode(request))
    endpoint = wire_format.endpoint
    holders = {name for name, text in one.headers.items() if KEY in text}
    assert holders == {endpoint.key_header}
    assert one.headers[endpoint.key_header] == f"{endpoint.key_prefix}{KEY}"
    assert endpoint.headers.items() <= one.headers.items()
    assert KEY not in one.url + repr(one) + one.body.decode()


@pytest.mark.parametrize(
    "path",
    [path for wire in BY_WIRE for path in transcripts(wire, conforming=True)],
    ids=lambda path: f"{path.parent.name} {path.stem}",
)
def test_what_is_heard_is_what_the_reader_says(path):
    """A transcript gives the same text, calls and end through the provider as by hand, with no network and no clock."""
    wire = path.relative_to(WIRE).parts[0]
    make_format, make_provider = BY_WIRE[wire], PROVIDERS[wire]
    options = ProviderOptions.parse({"api_key": KEY, "price": {"input": 0, "output": 0}})
    request = request_of("Hi", model="x:m")
    wire_format: WireFormat = make_format(options)
    reader = wire_format.make_reader(
        model=request.model,
        attempt=request.attempt,
        vendor=wire_format.endpoint.vendor,
        request_bytes=len(wire_format.encode(request)),
    )
    text = path.read_bytes().decode()
    by_hand = _told(
        lambda: [chunk for data in events_of(text) for chunk in reader.feed(data)] + reader.close()
    )
    heard = _told(lambda: trio.run(_ask, make_provider(options, _Recorder(text)), request))
    if isinstance(by_hand, str):
        assert heard == by_hand
        return
    assert not isinstance(heard, str), heard
    assert [type(chunk) for chunk in heard] == [type(chunk) for chunk in by_hand]
    assert completed(heard).message == completed(by_hand).message
    assert completed(heard).stop_reason == completed(by_hand).stop_reason
    assert (completed(by_hand).usage.cost_usd, completed(heard).usage.cost_usd) == (None, 0.0)


@pytest.mark.parametrize("wire", first(list(BY_WIRE)))
def test_a_format_is_understood_without_the_http_library(wire):
    """Who imports a format, to read a transcript or to make a body, does not load what talks to servers."""
    script = (
        "import importlib, sys\n"
        f"importlib.import_module('agentrail.providers.{wire}_format')\n"
        "print(sorted({'httpx', 'httpx_sse', 'httpcore', 'h11', 'genai_prices'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
