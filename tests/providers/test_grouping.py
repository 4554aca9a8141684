"""What a provider keeps of the last conversation never shows: each body is the one that a new provider would make."""

import gc
import json
import re
import sys
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
from agentrail.providers.wire_format import Grouping, Placed
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


def test_another_model_is_told_of_calls_in_its_own_way():
    """Gemini wants a placeholder on calls that it did not make, so what was joined for one model is not for another."""
    messages = (POOL[0], POOL[6], POOL[8], POOL[0])
    asked = Gemini(ProviderOptions(), HttpClients())
    bodies = []
    for model in ("stub:a", "stub:b", "stub:a"):
        request = ModelRequest(
            attempt=EffectId("r1"), model=model, system="", messages=messages, tools=Toolbox()
        )
        bodies.append(asked.encode(request))
        assert bodies[-1] == Gemini(ProviderOptions(), HttpClients()).encode(request)
    assert bodies[0] == bodies[2] != bodies[1]


@pytest.mark.parametrize("kind", FORMATS)
def test_the_last_group_is_open_again_when_what_followed_it_is_taken_back(kind):
    """It was settled because a message of another role stood behind it, which does not any more."""
    asked = kind(ProviderOptions(), HttpClients())
    first, second, answer = POOL[0], POOL[1], POOL[3]
    for messages in ((first, second, answer), (first, second), (first, second, POOL[9])):
        request = request_of(*messages, model="stub:a")
        assert asked.encode(request) == kind(ProviderOptions(), HttpClients()).encode(request)


def test_what_is_settled_is_wrapped_once():
    """A conversation that grows by a message wraps that and what it follows; a mark keeps what is behind it fresh."""
    wrapped: list[int] = []

    def wrap(group: list[Placed]) -> list[bytes]:
        wrapped.extend(place for place, _ in group)
        return [b"%d" % group[0][0]]

    def join(length: int, steady: int | None = None) -> bytes:
        wrapped.clear()
        pieces = grouping.pieces_of(messages[:length], says=lambda _: b"x", wrap=wrap, steady=steady)
        return b"".join(pieces)

    grouping = Grouping(lambda message: type(message).__name__)
    messages = [POOL[0], POOL[3]] * 10
    assert join(10) == b"[0,1,2,3,4,5,6,7,8,9]"
    assert (join(11), wrapped) == (b"[0,1,2,3,4,5,6,7,8,9,10]", [9, 10])
    whole = b"[%b]" % b",".join(b"%d" % place for place in range(20))
    assert (join(20, steady=14), wrapped) == (whole, [*range(10, 20)])
    assert (join(20, steady=14), wrapped) == (whole, [*range(14, 20)])
    assert (join(20, steady=3), wrapped) == (whole, [*range(20)])


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


@pytest.mark.parametrize("kind", FORMATS)
def test_a_conversation_that_is_over_is_not_held(kind):
    """A provider keeps the last conversation that it was asked about, and nothing of those before."""
    provider = kind(ProviderOptions(), HttpClients())
    firsts: list[Message] = [UserMessage(content=(Text(text=f"{number}"),)) for number in range(4)]
    for first in firsts[:3]:
        messages: Log[Message] = Log([first, *(POOL[place % 2] for place in range(9))])
        provider.encode(request_of(*messages, model="stub:a"))
        del messages
    del first
    gc.collect()
    alone, asked = sys.getrefcount(firsts[3]), [sys.getrefcount(firsts[place]) for place in range(3)]
    assert asked == [alone, alone, alone + 1]


@pytest.mark.parametrize("kind", FORMATS)
def test_no_text_is_kept_twice(kind):
    """The pieces are those that the messages keep, so a long conversation costs pointers."""
    provider = kind(ProviderOptions(), HttpClients())
    text = "x" * 10_000
    messages = tuple(
        UserMessage(content=(Text(text=text),))
        if place % 2 == 0
        else AssistantMessage(content=(Text(text=text),), model="stub:a")
        for place in range(20)
    )
    provider.encode(
        ModelRequest(attempt=EffectId("r1"), model="stub:a", system="", messages=messages, tools=Toolbox())
    )
    kept = {id(piece) for message in messages for _, piece in message._encoded}  # noqa: SLF001
    long = [piece for piece in provider._wire._grouping._pieces if len(piece) > 1_000]  # noqa: SLF001
    assert len(long) == 19
    assert all(id(piece) in kept for piece in long)
