"""Where the prompt cache ends, on the wire of the one vendor that wants to be told (7.5)."""

import json

import pytest
from hypothesis import given, strategies as st

from agentrail.messages import (
    AssistantMessage,
    CallId,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, OpenAIChat
from tests.providers.transcripts import request_of, tools
from tests.providers.vendors import judge

MARK = {"type": "ephemeral"}
CONVERSATION = (
    UserMessage(content=(Text(text="Look."), Image(media_type="image/png", data="aGk="))),
    AssistantMessage(
        content=(
            Text(text="I look."),
            ToolCall(call_id=CallId("c1"), name="a", arguments={}),
            ToolCall(call_id=CallId("c2"), name="a", arguments={}),
            Thinking(text="done", signature="signed", provider="anthropic"),
        ),
        model="anthropic:m",
    ),
    ToolMessage(
        results=tuple(
            ToolResult(call_id=CallId(i), name="a", text="here", is_error=True) for i in ("c1", "c2")
        )
    ),
    UserMessage(content=(Text(text="And?"), Text(text=" "))),
)


def provider():
    """A provider, of which only `encode` is used."""
    return AnthropicMessages(ProviderOptions(), HttpClients())


def body(*points, **fields):
    """The body of a request with these cache points, judged by the vendor's own types."""
    made = json.loads(provider().encode(request_of(*CONVERSATION, cache_points=points, **fields)))
    judge("anthropic.types.message_create_params", "MessageCreateParamsStreaming").validate_python(made)
    return made


def marks(value, path=()):
    """Where marks stand in a body."""
    if isinstance(value, dict):
        if "cache_control" in value:
            assert value["cache_control"] == MARK
            yield path
        for key, item in value.items():
            yield from marks(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from marks(item, (*path, position))


def test_the_start_ends_with_the_system_prompt():
    """`system` marks the system prompt, which stands behind the tools; without one the last tool."""
    assert body("system", system="Be brief.", tools=tools())["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": MARK}
    ]
    listed = body("system", system=None, tools=tools())["tools"]
    assert list(marks(listed)) == [(len(listed) - 1,)]
    assert list(marks(body("system", system=None))) == []


def test_more_points_than_the_vendor_takes_are_cut():
    """Four, the first of those that were asked for."""
    assert len(list(marks(body("system", 0, 2, 1, 3, system="s")))) == 3


@pytest.mark.parametrize("points", [(), ("system", 0, 3)])
def test_a_vendor_that_finds_out_by_itself_is_told_nothing(points):
    """The body is the same byte for byte."""
    chat = OpenAIChat(ProviderOptions(), HttpClients())
    plain = chat.encode(request_of(*CONVERSATION, system="s"))
    assert chat.encode(request_of(*CONVERSATION, system="s", cache_points=points)) == plain


@given(
    points=st.lists(st.integers(0, 5) | st.just("system"), max_size=6),
    system=st.none() | st.just("Be brief."),
)
def test_without_its_marks_a_request_is_what_it_was(points, system):
    """Any points: valid for the vendor, at most four, and nothing else differs."""

    def unmarked(value):
        match value:
            case [{"type": "text", "text": "Be brief.", "cache_control": _}]:
                return "Be brief."
            case dict():
                return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
            case list():
                return [unmarked(item) for item in value]
            case _:
                return value

    made = body(*points, system=system, tools=tools())
    assert len(list(marks(made))) <= 4
    assert unmarked(made) == body(system=system, tools=tools())
