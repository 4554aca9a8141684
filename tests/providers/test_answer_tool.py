"""Structured answers of models that take no schema: a tool that nobody runs, whose call is read as text."""

import json

import pytest
import trio

import agentrail
from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Completed,
    TextDelta,
    ToolCallStarted,
)
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.errors import ProviderError
from agentrail.messages import AssistantMessage, Text, TokenUsage
from agentrail.providers.http import HttpClients
from agentrail.providers.http_provider import AnswerChunks, with_answer_tool
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages
from agentrail.testing.check_provider import ServedReply, open_server
from tests.providers.transcripts import request_of

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def request(*names, schema=SCHEMA, tool_choice="auto"):
    """A request whose answer is to have a shape."""
    specs = [ToolSpec(name=name, description="d", parameters={"type": "object"}) for name in names]
    return request_of("Hi", tools=Toolbox(specs), tool_choice=tool_choice, response_format=schema)


def test_the_tool_is_put_in():
    """It has the schema as parameters and a unique name, and is alone on the last turn. Other schemas change nothing."""
    told, name = with_answer_tool(request("look", "final_answer"))
    assert name == "final_answer_"
    assert told.tools.names == ("final_answer", "final_answer_", "look")
    assert told.tools.specs[1].parameters == SCHEMA
    assert (told.response_format, told.tool_choice) == (None, "auto")
    told, name = with_answer_tool(request("look", tool_choice="none"))
    assert (told.tools.names, told.tool_choice) == (("final_answer",), "auto")
    for schema in (None, {"type": "array"}, {}):
        asked = request("look", schema=schema)
        assert with_answer_tool(asked) == (asked, None)


async def answered(*chunks):
    async def stream():
        for chunk in chunks:
            await trio.lowlevel.checkpoint()
            yield chunk

    return [chunk async for chunk in AnswerChunks(stream(), "final_answer")]


def completed(*blocks, stop_reason="tool_use"):
    message = AssistantMessage(content=blocks, model="x:m", stop_reason=stop_reason)
    return Completed(stop_reason, message, TokenUsage())


async def test_a_call_of_the_tool_is_text_and_all_else_passes():
    """In the pieces in which it came; other calls are calls, and run: the model answers again when it has their results."""
    pieces = ('{"city":', ' "Lis', 'bon"}')
    read = await answered(
        ToolCallStarted(0, "c1", "final_answer"),
        *[ArgumentsDelta(0, piece) for piece in pieces],
        completed(read_call("c1", "final_answer", "".join(pieces))),
    )
    assert read[:-1] == [TextDelta(piece) for piece in pieces]
    assert read[-1].message.content == (Text(text="".join(pieces)),)
    assert (read[-1].stop_reason, read[-1].message.stop_reason) == ("end", "end")

    call = read_call("c2", "look", "{}")
    read = await answered(
        ToolCallStarted(0, "c1", "final_answer"),
        ArgumentsDelta(0, "{}"),
        ToolCallStarted(1, "c2", "look"),
        ArgumentsDelta(1, "{}"),
        completed(read_call("c1", "final_answer", "{}"), call),
    )
    assert [type(chunk) for chunk in read] == [TextDelta, ToolCallStarted, ArgumentsDelta, Completed]
    assert (read[-1].message.content, read[-1].stop_reason) == ((Text(text="{}"), call), "tool_use")

    chunks = [TextDelta("Hi"), ToolCallStarted(0, "c1", "look"), ArgumentsDelta(0, "{}")]
    chunks.append(completed(Text(text="Hi"), read_call("c1", "look", "{}")))
    assert await answered(*chunks) == chunks


async def test_over_the_wire():
    """A server that knows tools and no schema: the program has its value."""

    def event(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()

    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "final_answer", "arguments": ""}}
    part = {"index": 0, "function": {"arguments": '{"city": "Lisbon"}'}}
    body = (
        event({"tool_calls": [call]})
        + event({"tool_calls": [part]})
        + event({}, "tool_calls")
        + b"data: [DONE]\n\n"
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    with trio.fail_after(60):
        async with open_server(ServedReply(pieces=(head + body,))) as server:
            options = {"base_url": f"{server.url}/v1", "structured": "tool"}
            async with agentrail.open_supervisor(environ={}) as supervisor:
                session = await supervisor.start_session(model="openai-chat:m", provider_opts=options)
                assert await session.ask("Where?", output=dict[str, str]) == {"city": "Lisbon"}
                assert [m.text for m in await session.messages() if isinstance(m, AssistantMessage)] == [
                    '{"city": "Lisbon"}'
                ]
            sent = json.loads(server.requests[0][1])
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["final_answer"]
    assert "response_format" not in sent


CLOSED = {**SCHEMA, "additionalProperties": False}


@pytest.mark.parametrize(
    ("changes", "options", "is_native"),
    [
        ({}, {}, True),
        ({"properties": {"cities": {"type": "array", "minItems": 1}}}, {}, True),
        ({"properties": {"cities": {"type": "array", "minItems": 2}}}, {}, False),
        (
            {"properties": {"city": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]}}},
            {},
            False,
        ),
        ({"properties": {"city": {"type": ["object", "null"]}}}, {}, False),
        ({"$defs": {"City": {"properties": {"next": {"$ref": "#/$defs/City"}}}}}, {}, False),
        ({"$defs": {"City": {"$ref": "#/$defs/Town"}, "Town": {"$ref": "#/$defs/City"}}}, {}, False),
        ({"$defs": {"City": {"$ref": "#/$defs/Town"}, "Town": {"type": "string"}}}, {}, True),
        ({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}, {}, False),
        ({"additionalProperties": True}, {}, False),
        ({"additionalProperties": True}, {"structured": "native"}, True),
    ],
)
async def test_anthropic_gets_a_tool_where_it_would_refuse_the_schema(changes, options, is_native):
    """Anthropic, structured outputs: objects are closed, and there are no bounds and no recursion."""
    refusal = b"HTTP/1.1 400 Bad\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    with trio.fail_after(60):
        async with open_server(ServedReply(pieces=(refusal,))) as server, HttpClients() as http:
            given = ProviderOptions.parse({"base_url": server.url, "api_key": "k", **options})
            asked = AnthropicMessages(given, http).open_stream(request(schema={**CLOSED, **changes}))
            with pytest.raises(ProviderError):
                async with asked as chunks:
                    await anext(chunks)
            sent = json.loads(server.requests[0][1])
    assert ("output_config" in sent, "tools" in sent) == (is_native, not is_native)


async def test_an_answer_in_many_pieces_is_joined_once():
    """Joined with each piece, an answer of a megabyte held up all sessions for half a minute."""
    copied = 0

    class Piece(str):
        __slots__ = ()

        def __radd__(self, before):
            nonlocal copied
            copied += len(before)
            return f"{before}{self}"

    pieces = [Piece("abcd") for _ in range(100)]
    call = read_call("c1", "final_answer", "".join(pieces))
    deltas = [ArgumentsDelta(0, piece) for piece in pieces]
    *_, end = await answered(ToolCallStarted(0, "c1", "final_answer"), *deltas, completed(call))
    assert end.message.text == "abcd" * 100
    assert copied <= 400
