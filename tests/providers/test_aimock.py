"""Each format against a server that we did not write: text, calls, thinking, refusals, cuts."""

import pytest
import trio

from agentrail.core.protocol.request import Chunk, Completed, ModelRequest, ReasoningDelta
from agentrail.errors import Overloaded, RateLimited, Transport
from agentrail.messages import Message, Thinking, ToolMessage, ToolResult
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from tests.peers import Aimock
from tests.providers.transcripts import completed, request_of, said, tools

pytestmark = [
    pytest.mark.services("aimock"),
    pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses, AnthropicMessages, Gemini]),
]


async def _ask(
    kind: type[OpenAIChat | OpenAIResponses | AnthropicMessages | Gemini],
    aimock: Aimock,
    request: ModelRequest,
) -> list[Chunk]:
    base_url = {
        AnthropicMessages: aimock.base_url_anthropic,
        Gemini: aimock.base_url_google,
        OpenAIChat: aimock.base_url_openai,
        OpenAIResponses: aimock.base_url_openai,
    }[kind]
    options = ProviderOptions.parse({"base_url": base_url, "api_key": "a-key-for-the-mock"})
    with trio.fail_after(20):
        async with HttpClients() as http, kind(options, http).open_stream(request) as chunks:
            return [chunk async for chunk in chunks]


async def _loop(
    kind: type[OpenAIChat | OpenAIResponses | AnthropicMessages | Gemini], aimock: Aimock, prompt: str
) -> tuple[Completed, Completed]:
    """Ask, answer every call, and ask again."""
    messages: list[Message] = [said(prompt)]
    first = completed(await _ask(kind, aimock, request_of(*messages, tools=tools())))
    results = tuple(
        ToolResult(call_id=call.call_id, name=call.name, text="done") for call in first.message.calls
    )
    messages += [first.message, ToolMessage(results=results)]
    return first, completed(await _ask(kind, aimock, request_of(*messages, tools=tools())))


async def test_text(kind, aimock):
    """The simplest answer."""
    end = completed(await _ask(kind, aimock, request_of("Hi")))
    assert (end.message.text, end.stop_reason) == ("Hello from the mock.", "end")


async def test_a_tool_call_and_the_answer_to_its_result(kind, aimock):
    """The call arrives whole, and the peer accepts the history with its result."""
    first, second = await _loop(kind, aimock, "the weather, please")
    assert [(call.name, call.arguments) for call in first.message.calls] == [
        ("get_weather", {"city": "Lisbon"})
    ]
    assert first.stop_reason == "tool_use"
    assert second.message.text == "It is sunny in Lisbon."


async def test_parallel_tool_calls(kind, aimock):
    """Both calls of one response, behind the text, with ids of their own."""
    first, second = await _loop(kind, aimock, "both in parallel")
    calls = [(call.name, call.arguments) for call in first.message.calls]
    assert calls == [("list_dir", {"path": "."}), ("read_file", {"path": "README.md"})]
    assert first.message.text == "Looking."
    assert len({call.call_id for call in first.message.calls}) == 2
    assert second.message.text == "I have read both."


async def test_thinking(kind, aimock):
    """Thinking is told apart from the text."""
    chunks = await _ask(kind, aimock, request_of("think"))
    thought, *_, text = completed(
        chunks
    ).message.content  # between them, for one format, what goes back of it
    assert isinstance(thought, Thinking)
    assert thought.text == "Let me think about it."
    assert text.text == "Forty-two."
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)) == thought.text


async def test_a_rate_limit(kind, aimock):
    """429 with the pause that the server asks for."""
    with pytest.raises(RateLimited, match="Too many requests") as caught:
        await _ask(kind, aimock, request_of("ratelimit"))
    assert caught.value.retry_after_seconds == 7


async def test_an_overloaded_server(kind, aimock):
    """529 may be tried again."""
    with pytest.raises(Overloaded) as caught:
        await _ask(kind, aimock, request_of("overloaded"))
    assert (caught.value.status, caught.value.retryable) == (529, True)


async def test_a_stream_that_is_cut(kind, aimock):
    """A stream that ends in the middle is no answer."""
    with pytest.raises(Transport):
        await _ask(kind, aimock, request_of("cut"))


async def test_the_output_limit(kind, aimock):
    """The reason of the end is kept."""
    assert completed(await _ask(kind, aimock, request_of("long"))).stop_reason == "max_tokens"
