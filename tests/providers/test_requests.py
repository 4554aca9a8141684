"""What goes out is what the vendors' own types describe, and is joined from what was encoded before (7.5, 7.13)."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Opaque,
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
from agentrail.testing.check_dialects import check_dialect
from tests.providers.transcripts import request_of, said, tools
from tests.providers.vendors import judge

JUDGES: dict[type[Any], tuple[str, str]] = {
    OpenAIChat: ("openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming"),
    OpenAIResponses: ("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming"),
    AnthropicMessages: ("anthropic.types.message_create_params", "MessageCreateParamsStreaming"),
}
BOTH = pytest.mark.parametrize("kind", [OpenAIChat, AnthropicMessages])  # those whose body has messages
EVERY = pytest.mark.parametrize("kind", list(JUDGES))
CONVERSATION = {OpenAIChat: "messages", OpenAIResponses: "input", AnthropicMessages: "messages"}


def _provider(kind: type[Any], **options: object) -> Any:
    return kind(ProviderOptions.parse(options), HttpClients())


def _body(kind: type[Any], *messages: Any, options: Mapping[str, object] | None = None, **fields: Any) -> Any:
    body = json.loads(_provider(kind, **(options or {})).encode(request_of(*messages, **fields)))
    _exhaust(judge(*JUDGES[kind]).validate_python(body))
    return body


def _exhaust(value: object) -> None:
    """Walk through what was validated: the judge looks at the items of a list only when they are taken."""
    if isinstance(value, Mapping):
        for item in value.values():
            _exhaust(item)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for item in value:
            _exhaust(item)


def _call(call_id: str = "c1", **fields: Any) -> ToolCall:
    values: dict[str, Any] = {"name": "get_weather", "arguments": {"city": "Lisbon"}, **fields}
    return ToolCall(call_id=CallId(call_id), **values)


def _results(*call_ids: str, **fields: Any) -> ToolMessage:
    return ToolMessage(
        results=tuple(
            ToolResult(call_id=CallId(i), name="get_weather", text=f"r-{i}", **fields) for i in call_ids
        )
    )


def _assistant(*blocks: Any) -> AssistantMessage:
    return AssistantMessage(content=blocks, model="x:some-model")


IMAGE = Image(media_type="image/png", data="aGk=")
LOOP = (said("Weather?"), _assistant(Text(text="Looking."), _call("c1"), _call("c2")), _results("c1", "c2"))


@BOTH
def test_ids_and_names_that_a_vendor_would_refuse_are_mapped(kind):
    """The same for call and result, and different for different calls; a made-up name becomes a name."""
    ids = ("a b", "a/b", "x" * 70)
    calls = [_call(call_id, name="functions.weather now") for call_id in ids]
    text = json.dumps(_body(kind, "Hi", _assistant(*calls), _results(*ids))["messages"])
    assert not any(f'"{call_id}"' in text for call_id in ids)
    messages = json.loads(text)
    if kind is OpenAIChat:
        sent = [call["id"] for call in messages[1]["tool_calls"]]
        answered = [message["tool_call_id"] for message in messages[2:]]
    else:
        sent = [block["id"] for block in messages[1]["content"]]
        answered = [block["tool_use_id"] for block in messages[2]["content"]]
    assert sent == answered
    assert len(set(sent)) == len(ids)
    assert "functions_weather_now" in text


def test_pictures_and_files_in_messages():
    """A picture as the vendor wants it; a file as its path, which the model reads with its tools."""
    content = _body(AnthropicMessages, UserMessage(content=(IMAGE, FileRef(path="a.py"), Text(text=" "))))[
        "messages"
    ][0]["content"]
    assert content == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "text", "text": "[file: a.py]"},
    ]


def test_thinking_goes_back_to_its_vendor_and_to_no_other():
    """Signed blocks and opaque ones unchanged, in their place; cut ones and another vendor's not at all."""
    payload = {"type": "redacted_thinking", "data": "x"}
    message = _assistant(
        Thinking(text="Hm.", signature="c2ln", provider="anthropic"),
        Thinking(text="cut", provider="anthropic"),
        Thinking(text="other", signature="x", provider="google"),
        Opaque(provider="anthropic", payload=payload),
        Opaque(provider="google", payload={"type": "y"}),
        Text(text="42"),
        _call(),
    )
    body = _body(AnthropicMessages, "Hi", message, _results("c1"))
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert body["messages"][1]["content"][:3] == [thinking, payload, {"type": "text", "text": "42"}]
    assert "Hm." not in json.dumps(_body(OpenAIChat, "Hi", message, _results("c1")))


def test_a_message_of_thinking_alone_is_left_out():
    """The vendor refuses one that ends in thinking."""
    thought = _assistant(Thinking(text="Hm.", signature="c2ln", provider="anthropic"))
    assert len(_body(AnthropicMessages, "One", thought, "Two")["messages"]) == 1


def test_open_reasoning_goes_back_inside_a_loop_to_compatible_servers_only():
    """Those that write it want it back with the calls; OpenAI itself knows no such member."""
    thought = Thinking(text="Hm.", provider="openai-chat")
    messages = (
        "Hi",
        _assistant(thought, _call()),
        _results("c1"),
        _assistant(thought, Text(text="Sunny.")),
        "Thanks",
    )
    own = json.dumps(_body(OpenAIChat, *messages))
    body = _body(OpenAIChat, *messages, options={"base_url": "http://localhost:1/v1"})
    assert "Hm." not in own
    assert body["messages"][1]["reasoning_content"] == "Hm."
    assert "reasoning_content" not in body["messages"][3]


@pytest.mark.at(138)
@EVERY
def test_tools_are_sorted_and_encoded_once(kind):
    """The list is the same in whatever order it was attached, and its bytes are kept."""
    first, second = tools(), Toolbox(reversed(tools().specs))
    provider = _provider(kind)
    one = provider.encode(request_of("Hi", tools=first))
    assert (
        one
        == provider.encode(request_of("Hi", tools=second))
        == provider.encode(request_of("Hi", tools=first))
    )
    for box in (first, second):
        assert box.encoded(provider.name, lambda _: b"encoded twice") != b"encoded twice"


@pytest.mark.parametrize(
    ("choice", "chat", "messages"),
    [
        ("auto", "auto", {"type": "auto"}),
        ("none", "none", {"type": "none"}),
        ("required", "required", {"type": "any"}),
        (
            "read_file",
            {"type": "function", "function": {"name": "read_file"}},
            {"type": "tool", "name": "read_file"},
        ),
    ],
)
def test_the_choice_of_tools(choice, chat, messages):
    """Each word, and a name, as each format says it."""
    options = {"tool_choice": choice}
    assert _body(OpenAIChat, "Hi", tools=tools(), options=options)["tool_choice"] == chat
    assert _body(AnthropicMessages, "Hi", tools=tools(), options=options)["tool_choice"] == messages


@pytest.mark.at(4)
@EVERY
@given(order=st.permutations(range(4)), results=st.permutations(["c1", "c2"]))
def test_blocks_go_out_in_the_order_that_the_format_demands(kind, order, results):
    """Thoughts and words before calls, results right behind them, in whichever order the blocks came."""
    thought = Thinking(text="Hm.", signature="c2ln", provider="anthropic")
    blocks = (thought, Text(text="I look."), _call("c1"), _call("c2", name="grep"))
    shuffled = _assistant(*(blocks[place] for place in order))
    body = _body(kind, said("Hi"), shuffled, _results(*results), said("And?"))
    sent = body[CONVERSATION[kind]]
    if kind is AnthropicMessages:
        kinds = [block["type"] for block in sent[1]["content"]]
        assert sorted(kinds[:2]) == ["text", "thinking"]
        assert kinds[2:] == ["tool_use", "tool_use"]
        assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "tool_result", "text"]
    elif kind is OpenAIChat:
        assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
        assert {call["id"] for call in sent[1]["tool_calls"]} == {"c1", "c2"}
        assert sent[1]["content"] == "I look."
    else:
        places = {
            item.get("call_id", "") + item["type"]: place for place, item in enumerate(sent) if "type" in item
        }
        assert all(
            places[f"{call_id}function_call"] < places[f"{call_id}function_call_output"]
            for call_id in results
        )


def test_reasoning_in_words_and_in_tokens():
    """A word is an effort; a number a budget, below the output limit; chat has no number and says so."""
    assert _body(OpenAIChat, "Hi", options={"reasoning": "low"})["reasoning_effort"] == "low"
    assert _body(OpenAIChat, "Hi", options={"reasoning": "off"})["reasoning_effort"] == "none"
    body = _body(AnthropicMessages, "Hi", options={"reasoning": "high"})
    assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert _body(AnthropicMessages, "Hi", options={"reasoning": "off"})["thinking"] == {"type": "disabled"}
    body = _body(AnthropicMessages, "Hi", options={"reasoning": 2000})
    assert (body["thinking"]["budget_tokens"], body["max_tokens"]) == (2000, 18_384)
    body = _body(AnthropicMessages, "Hi", options={"reasoning": 2000, "max_output_tokens": 1500})
    assert (body["thinking"]["budget_tokens"], body["max_tokens"]) == (1499, 1500)
    with pytest.raises(OptionError, match="not a number of tokens"):
        _provider(OpenAIChat, reasoning=2000)


@BOTH
def test_texts_to_stop_at(kind):
    """Each format that knows them has a name for them."""
    body = _body(kind, "Hi", options={"stop": "END"})
    assert body["stop" if kind is OpenAIChat else "stop_sequences"] == ["END"]


def test_an_answer_of_a_given_shape():
    """Each format's own mode for a JSON schema."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    chat = _body(OpenAIChat, "Hi", response_format=schema)
    assert chat["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema},
    }
    messages = _body(AnthropicMessages, "Hi", response_format=schema)
    assert messages["output_config"] == {"format": {"type": "json_schema", "schema": schema}}


@EVERY
def test_text_with_half_a_character_goes_out(kind):
    """A lone surrogate becomes U+FFFD: no encoder takes it, and the session must go on."""
    body = _provider(kind).encode(
        request_of("a\ud800b", _assistant(_call(arguments={"city": "\udc00"})), _results("c1"))
    )
    assert "a\ufffdb" in body.decode()


# --- joined, not encoded again


@pytest.mark.at(140)
@EVERY
def test_consecutive_requests_share_their_beginning(kind):
    """Byte for byte, up to the end of the older conversation: that is what a vendor's cache looks for."""
    provider = _provider(kind)
    older = provider.encode(request_of(*LOOP, system="S", tools=tools()))
    newer = provider.encode(request_of(*LOOP, _assistant(Text(text="ok")), "more", system="S", tools=tools()))
    begin = older.index(b'"%b":' % CONVERSATION[kind].encode())
    conversation = older[: older.index(b"r-c2", begin)]
    assert newer.startswith(conversation)


BLOCKS = st.text(max_size=5).map(lambda text: Text(text=text))
TURNS = st.lists(
    st.lists(BLOCKS, max_size=3).map(lambda blocks: UserMessage(content=tuple(blocks)))
    | st.lists(BLOCKS, max_size=3).map(lambda blocks: _assistant(*blocks))
    | st.integers(1, 3).map(lambda count: [_assistant(*map(_call, "abc"[:count])), _results(*"abc"[:count])]),
    max_size=8,
)


@BOTH
@given(turns=TURNS)
def test_any_conversation_is_one_that_the_vendor_would_take(kind, turns):
    """Roles alternate, nothing is empty, and the results of calls stand directly behind them."""
    messages = [message for turn in turns for message in (turn if isinstance(turn, list) else [turn])]
    check_dialect(kind.name, json.dumps(_body(kind, *messages)).encode())


NO_IMAGES = (UserMessage(content=(Text(text="Look."), replace(IMAGE, name="cat.png"))),)


@pytest.mark.parametrize("kind", [*JUDGES, Gemini])
def test_a_model_without_pictures_reads_what_it_does_not_see(kind):
    """A line with name, type and size stands for each picture, and capabilities say so; switched back, it is sent."""
    http = HttpClients()
    blind = kind(ProviderOptions.parse({"images": False}), http)
    seeing = kind(ProviderOptions(), http)
    request = request_of(*NO_IMAGES)
    for provider, shows in ((blind, False), (seeing, True), (blind, False)):
        body = provider.encode(request).decode()
        assert ("[image: cat.png, image/png, 2 bytes]" in body) is not shows
        assert (IMAGE.data in body) is shows
        assert provider.capabilities("some-model").images is shows
    assert (blind.encodings, seeing.encodings) == (1, 1)
