"""The vendors' own clients read our transcripts, and understand what we understand (7.15)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from agentrail.messages import ToolCall
from tests.providers.transcripts import completed, read, transcripts
from tests.providers.vendors import library

Understood: TypeAlias = tuple[str, list[tuple[str, str, object]], tuple[int, int], str]
"""Text; id, name and arguments of each call; tokens read and written; the vendor's word for the end."""

# The word for the end, by what we call it. `end` and `tool_use` have one word in one of the formats.
WORDS = {
    "openai_chat": {
        "end": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "refused": "content_filter",
    },
    "openai_responses": {
        "end": "completed",
        "tool_use": "completed",
        "max_tokens": "max_output_tokens",
        "refused": "content_filter",
    },
    "anthropic": {
        "end": "end_turn",
        "tool_use": "tool_use",
        "max_tokens": "max_tokens",
        "stop_sequence": "stop_sequence",
        "refused": "refusal",
        "pause": "pause_turn",
    },
}
FAILING = {"failed", "failed_by_server", "failed_prompt", "error_event"}
# A refusal is its own kind of text there, and ends with the ordinary word.
REFUSALS = {("openai_chat", "refusal"), ("openai_responses", "refusal")}


def _client_of(make: Callable[..., Any], path: Path) -> Any:
    httpx2 = library("httpx2")  # the library of both clients, which brings them along

    def answer(_: object) -> Any:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=path.read_bytes())

    return make(api_key="any", http_client=httpx2.Client(transport=httpx2.MockTransport(answer)))


def _parsed(arguments: str) -> object:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def _chat(path: Path) -> Understood:
    said, reason, usage = "", "", (0, 0)
    parts: dict[int, list[str]] = {}
    with _client_of(library("openai").OpenAI, path) as client:
        for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
            for choice in chunk.choices:
                said += (choice.delta.content or "") + (choice.delta.refusal or "")
                reason = choice.finish_reason or reason
                for call in choice.delta.tool_calls or ():
                    part = parts.setdefault(call.index, ["", "", ""])
                    part[0] += call.id or ""
                    part[1] += call.function.name or ""
                    part[2] += call.function.arguments or ""
            if chunk.usage:
                usage = (chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
    return said, [(i, name, _parsed(text)) for i, name, text in parts.values()], usage, reason


def _responses(path: Path) -> Understood:
    with _client_of(library("openai").OpenAI, path) as client:
        *_, last = client.responses.create(model="m", input="", stream=True)
    response = last.response
    calls = [item for item in response.output if item.type == "function_call"]
    texts = (part for item in response.output if item.type == "message" for part in item.content)
    said = "".join(part.refusal if part.type == "refusal" else part.text for part in texts)
    reason = response.incomplete_details.reason if response.incomplete_details else response.status
    return (
        said,
        [(call.call_id, call.name, _parsed(call.arguments)) for call in calls],
        (response.usage.input_tokens, response.usage.output_tokens),
        reason,
    )


def _messages(path: Path) -> Understood:
    with (
        _client_of(library("anthropic").Anthropic, path) as client,
        client.messages.stream(model="m", max_tokens=9, messages=[]) as stream,
    ):
        message = stream.get_final_message()
    calls = [block for block in message.content if block.type == "tool_use"]
    usage = message.usage
    read_tokens = sum(
        count or 0
        for count in (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    )
    return (
        "".join(block.text for block in message.content if block.type == "text"),
        [(call.id, call.name, call.input) for call in calls],
        (read_tokens, usage.output_tokens),
        message.stop_reason or "",
    )


CLIENTS = {"openai_chat": _chat, "openai_responses": _responses, "anthropic": _messages}


def _cases() -> Iterator[Any]:
    for wire in CLIENTS:
        for path in transcripts(wire, conforming=True):
            if path.stem not in FAILING | {"malformed_arguments"}:
                marks = () if path.stem in {"text", "parallel_calls"} else pytest.mark.check
                yield pytest.param(wire, path, id=f"{wire}-{path.stem}", marks=marks)


def _ours(call: ToolCall) -> tuple[str, str, object]:
    return call.call_id, call.name, call.arguments


@pytest.mark.check
@pytest.mark.parametrize(("wire", "path"), list(_cases()))
def test_the_vendors_client_understands_what_we_understand(wire, path):
    """Text, calls, usage and the reason of the end agree, for every transcript that is as the vendor documents it."""
    said, calls, usage, reason = CLIENTS[wire](path)
    end = completed(read(path))
    assert end.message.text == said
    assert [_ours(call) for call in end.message.calls] == calls
    assert (end.usage.input, end.usage.output) == usage
    if (wire, path.stem) not in REFUSALS:
        assert WORDS[wire][end.stop_reason] == reason
