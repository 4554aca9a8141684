"""What goes out to Responses: items instead of messages, nothing stored, reasoning as it came (7.5)."""

import json

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import ModelRequest
from agentrail.errors import OptionError
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Opaque,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import OpenAIResponses
from agentrail.testing.check_dialects import check_dialect
from tests.providers.transcripts import WIRE, completed, read, request_of, said, tools

LOCAL = "http://127.0.0.1:1/v1"


def _body(request: ModelRequest, **options: object) -> dict[str, object]:
    body = OpenAIResponses(ProviderOptions.parse(options), HttpClients()).encode(request)
    decoded: dict[str, object] = json.loads(body)
    return decoded


def _assistant(*blocks: object) -> AssistantMessage:
    return AssistantMessage(content=blocks, model="openai:m")  # type: ignore[arg-type]


def _call(call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id=CallId(call_id), name="get_weather", arguments={"city": "Lisbon"})


def _results(*call_ids: str) -> ToolMessage:
    return ToolMessage(
        results=tuple(ToolResult(call_id=CallId(i), name="get_weather", text=f"r-{i}") for i in call_ids)
    )


def _reasoning(item_id: str = "rs_1", **members: str) -> Opaque:
    return Opaque(provider="openai", payload={"id": item_id, "type": "reasoning", "summary": [], **members})


SECRET = _reasoning(encrypted_content="gAAAA")


def test_tools_are_flat_and_say_that_their_schemas_are_not_strict():
    """Left out, `strict` would be true, and most schemas are not of that dialect."""
    body = _body(request_of("Hi", tools=tools()), tool_choice="read_file")
    first = body["tools"][0]
    assert (first["type"], first["name"], first["strict"]) == ("function", "get_weather", False)
    assert set(first) == {"type", "name", "description", "parameters", "strict"}
    assert body["tool_choice"] == {"type": "function", "name": "read_file"}
    assert _body(request_of("Hi", tools=tools()), tool_choice="required")["tool_choice"] == "required"


@pytest.mark.parametrize("name", ["reasoning_then_call", "hosted_tool"])
def test_what_only_the_vendor_understands_goes_back_byte_for_byte(name):
    """The item of a transcript stands in the next request as it came, in front of what followed it."""
    message = completed(read(WIRE / "openai_responses" / f"{name}.sse")).message
    results = [_results(*(call.call_id for call in message.calls))] if message.calls else [said("And?")]
    items = _body(request_of("Hi", message, *results))["input"]
    (payload,) = (block.payload for block in message.content if isinstance(block, Opaque))
    assert items[1] == payload
    assert items[2].get("type", "message") in {"function_call", "message"}
    assert "Hm." not in json.dumps([item for item in items if item is not items[1]])


def test_reasoning_in_the_open_goes_back_to_servers_of_ones_own_only():
    """The vendor takes none back that it cannot decrypt, because it keeps none."""
    request = request_of("Hi", _assistant(_reasoning(), _call()), _results("c1"))
    assert [item.get("type") for item in _body(request)["input"]] == [
        None,
        "function_call",
        "function_call_output",
    ]
    assert _body(request, base_url=LOCAL)["input"][1]["type"] == "reasoning"


def test_pictures_and_files():
    """A picture as the vendor wants it; a file as its path, which the model reads with its tools."""
    picture = Image(media_type="image/png", data="aGk=")
    content = _body(request_of(UserMessage(content=(picture, FileRef(path="a.py"), Text(text=" ")))))[
        "input"
    ][0]
    assert content["content"] == [
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="},
        {"type": "input_text", "text": "[file: a.py]"},
    ]


def test_reasoning_bounds_and_shape_have_names_of_their_own():
    """Effort, output limit and JSON schema, as this format says them."""
    schema = {"type": "object"}
    body = _body(
        request_of("Hi", response_format=schema, max_output_tokens=70), reasoning="low", temperature=1
    )
    assert body["reasoning"] == {"effort": "low"}
    assert body["max_output_tokens"] == 70
    assert body["text"] == {"format": {"type": "json_schema", "name": "answer", "schema": schema}}
    assert body["temperature"] == 1
    assert _body(request_of("Hi"), reasoning="off")["reasoning"] == {"effort": "none"}
    assert not {"reasoning", "max_output_tokens", "text", "temperature"} & set(_body(request_of("Hi")))


def test_what_the_format_cannot_say_is_refused():
    """An option that would be ignored is a lie; both faults come at once."""
    with pytest.raises(OptionError, match="not a number of tokens") as caught:
        OpenAIResponses(ProviderOptions.parse({"reasoning": 2000, "stop": "END"}), HttpClients())
    assert len(caught.value.faults) == 2


BLOCKS = st.text(max_size=5).map(lambda text: Text(text=text)) | st.just(SECRET)
TURNS = st.lists(
    st.lists(st.text(max_size=5).map(lambda text: Text(text=text)), max_size=3).map(
        lambda blocks: [UserMessage(content=tuple(blocks))]
    )
    | st.lists(BLOCKS, max_size=3).map(lambda blocks: [_assistant(*blocks)])
    | st.integers(1, 3).map(
        lambda count: [_assistant(SECRET, *map(_call, "abc"[:count])), _results(*"abc"[:count])]
    ),
    max_size=8,
)


@given(turns=TURNS)
def test_any_conversation_is_one_that_the_vendor_would_take(turns):
    """Texts of one role are never neighbours, nothing is empty, reasoning is followed by what it led to."""
    body = _body(request_of(*(message for turn in turns for message in turn)))
    check_dialect("openai", json.dumps(body).encode())
