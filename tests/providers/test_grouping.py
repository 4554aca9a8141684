"""What a provider keeps of the last conversation never shows: each body is the one that a new provider would make."""

import json
import re
from typing import Final

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.values.history import Log
from agentrail.core.values.toolbox import Toolbox
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
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from tests.providers.transcripts import request_of

FORMATS: Final = (AnthropicMessages, OpenAIChat, OpenAIResponses, Gemini)
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
