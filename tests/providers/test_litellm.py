"""Three formats through a proxy that we did not write either, each to a server of another format: `make litellm`.

It translates what we send and what comes back, so it reads our requests with other eyes than the mock, and writes
streams with other habits: no indexes, no sequence numbers, `[DONE]` where none belongs.
"""

import pytest
import trio

from agentrail.core.protocol.request import Chunk, Completed, ReasoningDelta
from agentrail.errors import Overloaded, RateLimited
from agentrail.messages import Message, Opaque, Thinking, ToolMessage, ToolResult
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, OpenAIChat, OpenAIResponses
from tests.peers import Litellm
from tests.providers.transcripts import completed, request_of, said, tools

pytestmark = [
    pytest.mark.services("aimock", "litellm"),
    pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses, AnthropicMessages]),
    pytest.mark.parametrize("model", Litellm(url="").models),
]


async def _ask(
    kind: type[OpenAIChat | OpenAIResponses | AnthropicMessages],
    litellm: Litellm,
    model: str,
    *messages: Message,
) -> list[Chunk]:
    base_url = litellm.url if kind is AnthropicMessages else f"{litellm.url}/v1"
    options = ProviderOptions.parse({"base_url": base_url, "api_key": litellm.key})
    request = request_of(*messages, model=f"x:{model}", tools=tools(), max_output_tokens=100)
    with trio.fail_after(60):
        async with HttpClients() as http, kind(options, http).open_stream(request) as chunks:
            return [chunk async for chunk in chunks]


def _answered(end: Completed) -> list[Message]:
    results = tuple(
        ToolResult(call_id=call.call_id, name=call.name, text="done") for call in end.message.calls
    )
    return [end.message, ToolMessage(results=results)]


async def test_text_limits_and_refusals(kind, litellm, model):
    """The proxy keeps text, stop reason and 429. Whatever it makes of a 529 is retryable."""
    end = completed(await _ask(kind, litellm, model, said("Hi")))
    assert (end.message.text, end.stop_reason) == ("Hello from the mock.", "end")
    assert completed(await _ask(kind, litellm, model, said("long"))).stop_reason == "max_tokens"
    with pytest.raises(RateLimited, match="Too many requests"):
        await _ask(kind, litellm, model, said("ratelimit"))
    with pytest.raises(Overloaded) as caught:
        await _ask(kind, litellm, model, said("overloaded"))
    assert caught.value.retryable


async def test_parallel_tool_calls_and_the_answer_to_their_results(kind, litellm, model):
    """Both calls arrive behind the text, and the history with their results is understood on the other side."""
    prompt = said("both in parallel")
    end = completed(await _ask(kind, litellm, model, prompt))
    calls = [(call.name, call.arguments) for call in end.message.calls]
    assert calls == [("list_dir", {"path": "."}), ("read_file", {"path": "README.md"})]
    assert (end.message.text, end.stop_reason) == ("Looking.", "tool_use")
    assert len({call.call_id for call in end.message.calls}) == 2
    second = completed(await _ask(kind, litellm, model, prompt, *_answered(end)))
    assert second.message.text == "I have read both."


async def test_thinking(kind, litellm, model):
    """It is told apart from the text, and said once."""
    chunks = await _ask(kind, litellm, model, said("think"))
    blocks = [block for block in completed(chunks).message.content if not isinstance(block, Opaque)]
    thought, text = blocks
    assert isinstance(thought, Thinking)
    assert thought.text == "Let me think about it."
    assert text.text == "Forty-two."
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)) == thought.text
