"""What goes out is what the vendors' own types describe, and is joined from what was encoded before (7.5, 7.13)."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import BadRequest, OptionError
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from agentrail.testing.check_dialects import check_dialect
from tests.providers.transcripts import (
    WIRE,
    assistant,
    call_of,
    completed,
    read,
    request_of,
    results_of,
    said,
    tools,
)
from tests.providers.vendors import judge

GOOGLE = "google:gemini-x"
JUDGES: dict[type[Any], tuple[str, str]] = {
    OpenAIChat: ("openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming"),
    OpenAIResponses: ("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming"),
    AnthropicMessages: ("anthropic.types.message_create_params", "MessageCreateParamsStreaming"),
}
FIELDS_OF_GEMINI = {
    "contents": "Content",
    "systemInstruction": "Content",
    "tools": "Tool",
    "toolConfig": "ToolConfig",
    "generationConfig": "GenerationConfig",
}
BOTH = pytest.mark.parametrize("kind", [OpenAIChat, AnthropicMessages])  # those whose body has messages
THREE = pytest.mark.parametrize("kind", list(JUDGES))
EVERY = pytest.mark.parametrize("kind", [*JUDGES, Gemini])
CONVERSATION = {OpenAIChat: "messages", OpenAIResponses: "input", AnthropicMessages: "messages"}
LOCAL = "http://127.0.0.1:1/v1"
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def _provider(kind: type[Any], **options: object) -> Any:
    return kind(ProviderOptions.parse(options), HttpClients())


def _body(kind: type[Any], *messages: Any, options: Mapping[str, object] | None = None, **fields: Any) -> Any:
    if kind is Gemini:
        fields.setdefault("model", GOOGLE)
    body = json.loads(_provider(kind, **(options or {})).encode(request_of(*messages, **fields)))
    if kind is Gemini:
        for name, value in body.items():
            for one in value if isinstance(value, list) else [value]:
                judge("google.genai.types", FIELDS_OF_GEMINI[name]).validate_python(one)
    else:
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


def _signature(text: str) -> Opaque:
    return Opaque(provider="google", payload={"thoughtSignature": text})


def _reasoning(item_id: str = "rs_1", **members: str) -> Opaque:
    return Opaque(provider="openai", payload={"id": item_id, "type": "reasoning", "summary": [], **members})


IMAGE = Image(media_type="image/png", data="aGk=")
LOOP = (
    said("Weather?"),
    assistant(Text(text="Looking."), call_of("c1"), call_of("c2")),
    results_of("c1", "c2"),
)
SECRET = _reasoning(encrypted_content="gAAAA")


# --- messages


@BOTH
def test_ids_and_names_that_a_vendor_would_refuse_are_mapped(kind):
    """The same for call and result, and different for different calls; a made-up name becomes a name."""
    ids = ("a b", "a/b", "x" * 70)
    calls = [call_of(call_id, name="functions.weather now") for call_id in ids]
    text = json.dumps(_body(kind, "Hi", assistant(*calls), results_of(*ids))["messages"])
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


@pytest.mark.parametrize(
    ("kind", "place", "picture", "path"),
    [
        (
            AnthropicMessages,
            ("messages", 0, "content"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            {"type": "text", "text": "[file: a.py]"},
        ),
        (
            OpenAIResponses,
            ("input", 0, "content"),
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="},
            {"type": "input_text", "text": "[file: a.py]"},
        ),
        (
            Gemini,
            ("contents", 0, "parts"),
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
            {"text": "[file: a.py]"},
        ),
    ],
)
def test_pictures_and_files(kind, place, picture, path):
    """A picture as the vendor wants it; a file as its path, which the model reads with its tools."""
    body = _body(kind, UserMessage(content=(IMAGE, FileRef(path="a.py"), Text(text=" "))))
    for step in place:
        body = body[step]
    assert body == [picture, path]


@EVERY
def test_a_model_without_pictures_reads_what_it_does_not_see(kind):
    """A line with name, type and size stands for each picture, and capabilities say so; switched back, it is sent."""
    blind, seeing = _provider(kind, images=False), _provider(kind)
    request = request_of(UserMessage(content=(Text(text="Look."), replace(IMAGE, name="cat.png"))))
    for provider, shows in ((blind, False), (seeing, True), (blind, False)):
        body = provider.encode(request).decode()
        assert ("[image: cat.png, image/png, 2 bytes]" in body) is not shows
        assert (IMAGE.data in body) is shows
        assert provider.capabilities("some-model").images is shows
    assert (blind.encodings, seeing.encodings) == (1, 1)


SEEN = Image(media_type="image/png", data="iVBORw0KGgo=")
SOURCE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
DATA_URL = "data:image/png;base64,iVBORw0KGgo="


def _body_of_result(kind: Any, model: str) -> Any:
    """Encode a conversation whose last message is one result with a picture."""
    result = ToolResult(call_id=CallId("c1"), name="get_weather", text="the window", images=(SEEN,))
    messages = (said("Look"), assistant(call_of(), model=model), ToolMessage(results=(result,)))
    return _body(kind, *messages, model=model)


def test_pictures_in_results_are_shown_where_the_format_has_a_place_for_them():
    """Anthropic as blocks behind the text, Responses as input items in place of it (11.2, K4)."""
    assert _body_of_result(AnthropicMessages, "x:m")["messages"][-1]["content"][0]["content"] == [
        {"type": "text", "text": "the window"},
        {"type": "image", "source": SOURCE},
    ]
    assert _body_of_result(OpenAIResponses, "x:m")["input"][-1]["output"] == [
        {"type": "input_text", "text": "the window"},
        {"type": "input_image", "detail": "auto", "image_url": DATA_URL},
    ]


@pytest.mark.parametrize(
    ("model", "shows"),
    [
        ("google:gemini-3-pro-preview", True),
        ("google:models/gemini-3.5-flash", True),
        ("google:gemini-10", True),
        ("google:gemini-2.5-pro", False),
        ("google:gemini-pro-latest", False),
    ],
)
def test_gemini_shows_pictures_in_results_from_version_three_on(model, shows):
    """Models before that refuse a response with parts, so they read words; each model has its own encoded form."""
    response = _body_of_result(Gemini, model)["contents"][-1]["parts"][0]["functionResponse"]
    assert response["response"] == {"result": "the window" + ("" if shows else "\n[image/png, 8 bytes]")}
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    assert response.get("parts") == ([picture] if shows else None)


@EVERY
def test_text_with_half_a_character_goes_out(kind):
    """A lone surrogate becomes U+FFFD: no encoder takes it, and the session must go on."""
    body = _provider(kind).encode(
        request_of("a\ud800b", assistant(call_of(arguments={"city": "\udc00"})), results_of("c1"))
    )
    assert "a\ufffdb" in body.decode()


@pytest.mark.at(4)
@THREE
@given(order=st.permutations(range(4)), results=st.permutations(["c1", "c2"]))
def test_blocks_go_out_in_the_order_that_the_format_demands(kind, order, results):
    """Thoughts and words before calls, results right behind them, in whichever order the blocks came."""
    thought = Thinking(text="Hm.", signature="c2ln", provider="anthropic")
    blocks = (thought, Text(text="I look."), call_of("c1"), call_of("c2", name="grep"))
    shuffled = assistant(*(blocks[place] for place in order))
    sent = _body(kind, said("Hi"), shuffled, results_of(*results), said("And?"))[CONVERSATION[kind]]
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
        for call_id in results:
            assert places[f"{call_id}function_call"] < places[f"{call_id}function_call_output"]


# --- thinking, signatures and items of a vendor


def test_thinking_goes_back_to_its_vendor_and_to_no_other():
    """Signed blocks and opaque ones unchanged, in their place; cut ones and another vendor's not at all."""
    payload = {"type": "redacted_thinking", "data": "x"}
    signed = Thinking(text="Hm.", signature="c2ln", provider="anthropic")
    message = assistant(
        signed,
        Thinking(text="cut", provider="anthropic"),
        Thinking(text="other", signature="x", provider="google"),
        Opaque(provider="anthropic", payload=payload),
        Opaque(provider="google", payload={"type": "y"}),
        Text(text="42"),
        call_of(),
    )
    body = _body(AnthropicMessages, "Hi", message, results_of("c1"))
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert body["messages"][1]["content"][:3] == [thinking, payload, {"type": "text", "text": "42"}]
    assert "Hm." not in json.dumps(_body(OpenAIChat, "Hi", message, results_of("c1")))


def test_a_message_of_thinking_alone_is_left_out():
    """The vendor refuses one that ends in thinking; then its neighbours are neighbours of each other. A signature signs its own part alone."""
    signed = Thinking(text="Hm.", signature="c2ln", provider="anthropic")
    assert len(_body(AnthropicMessages, "One", assistant(signed), "Two")["messages"]) == 1
    empty = Opaque(provider="google", payload={"text": "", "thoughtSignature": "c2ln"})
    thought = assistant(Thinking(text="Hm.", provider="google"), empty, model=GOOGLE)
    (content,) = _body(Gemini, "One", thought, "Two")["contents"]
    assert content == {"role": "user", "parts": [{"text": "One"}, {"text": "Two"}]}

    blocks = (_signature("c2ln"), Thinking(text="Hm.", provider="anthropic"), Text(text="42"))
    contents = _body(Gemini, "Hi", assistant(*blocks, model=GOOGLE))["contents"]
    assert contents[1]["parts"] == [{"text": "42"}]


def test_open_reasoning_goes_back_to_compatible_servers_only():
    """Chat: inside a loop, with the calls. Responses: the vendor takes none back that it cannot decrypt."""
    thought = Thinking(text="Hm.", provider="openai-chat")
    later = (assistant(thought, Text(text="Sunny.")), "Thanks")
    messages = ("Hi", assistant(thought, call_of()), results_of("c1"), *later)
    assert "Hm." not in json.dumps(_body(OpenAIChat, *messages))
    body = _body(OpenAIChat, *messages, options={"base_url": LOCAL})
    assert body["messages"][1]["reasoning_content"] == "Hm."
    assert "reasoning_content" not in body["messages"][3]
    messages = ("Hi", assistant(_reasoning(), call_of()), results_of("c1"))
    kinds = [item.get("type") for item in _body(OpenAIResponses, *messages)["input"]]
    assert kinds == [None, "function_call", "function_call_output"]
    assert _body(OpenAIResponses, *messages, options={"base_url": LOCAL})["input"][1]["type"] == "reasoning"


@pytest.mark.parametrize("name", ["reasoning_then_call", "hosted_tool"])
def test_what_only_the_vendor_understands_goes_back_byte_for_byte(name):
    """The item of a transcript stands in the next request as it came, in front of what followed it."""
    message = completed(read(WIRE / "openai_responses" / f"{name}.sse")).message
    results = [results_of(*(call.call_id for call in message.calls))] if message.calls else [said("And?")]
    items = json.loads(_provider(OpenAIResponses).encode(request_of("Hi", message, *results)))["input"]
    (payload,) = (block.payload for block in message.content if isinstance(block, Opaque))
    assert items[1] == payload
    assert items[2].get("type", "message") in {"function_call", "message"}
    assert "Hm." not in json.dumps([item for item in items if item is not items[1]])


@pytest.mark.parametrize(
    "path",
    [
        *sorted((WIRE / "gemini").glob("signature_*.sse")),
        *(WIRE / "gemini" / name for name in ("parallel_calls.sse", "code_execution.sse")),
    ],
    ids=lambda path: path.stem,
)
def test_what_came_goes_back_part_by_part(path):
    """A signature goes back on the very part that it came with, and what nobody here understands as it came (7.5)."""
    events = [json.loads(line[6:]) for line in path.read_text().splitlines() if line.startswith("data: ")]
    came = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    message = AssistantMessage(content=completed(read(path)).message.content, model=GOOGLE)
    sent = _body(Gemini, "Hi", message, results_of())["contents"][1]["parts"]
    for part in sent:
        part.get("functionCall", {}).pop("id", None)  # made up, because there was none
    signed = [part for part in came if "thoughtSignature" in part]
    assert [part for part in sent if "thoughtSignature" in part] == signed
    assert [part for part in sent if "text" not in part] == [part for part in came if "text" not in part]
    assert "".join(part.get("text", "") for part in sent) == "".join(part.get("text", "") for part in came)


# --- what options and cycles say


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


def test_tools_of_responses_are_flat_and_say_that_their_schemas_are_not_strict():
    """Left out, `strict` would be true, and most schemas are not of that dialect."""
    body = _body(OpenAIResponses, "Hi", tools=tools(), options={"tool_choice": "read_file"})
    first = body["tools"][0]
    assert (first["type"], first["name"], first["strict"]) == ("function", "get_weather", False)
    assert set(first) == {"type", "name", "description", "parameters", "strict"}
    assert body["tool_choice"] == {"type": "function", "name": "read_file"}
    body = _body(OpenAIResponses, "Hi", tools=tools(), options={"tool_choice": "required"})
    assert body["tool_choice"] == "required"


URL = {"type": "string", "format": "uri"}
ALTERNATIVES = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "allOf": [{"required": ["kind"]}],
    "oneOf": [
        {"properties": {"kind": {"const": "page"}, "url": URL}, "required": ["url"]},
        {"properties": {"kind": {"const": "file"}, "url": URL}, "required": ["url"]},
        {"$ref": "#/$defs/text"},
    ],
    "$defs": {
        "text": {
            "properties": {"url": URL, "name": False},
            "required": ["url"],
            "anyOf": [{"$ref": "#"}, True],
        }
    },
}
FLAT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"anyOf": [{"const": "page"}, {"const": "file"}]},
        "url": URL,
    },
    "required": ["name", "kind", "url"],
    "$defs": ALTERNATIVES["$defs"],
}


@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses, AnthropicMessages])
@pytest.mark.parametrize(
    ("schema", "sent"),
    [(ALTERNATIVES, FLAT), ({"type": "object"}, {"type": "object", "properties": {}})],
)
def test_a_schema_that_a_vendor_refuses_is_sent_in_a_form_that_it_takes(kind, schema, sent):
    """One such tool of an MCP server would fail each request. OpenAI demands `properties`, and neither takes alternatives at the top."""
    spec = ToolSpec(name="t", description="d", parameters=schema)
    (made,) = _body(kind, "Hi", tools=Toolbox((spec,)))["tools"]
    assert (made.get("input_schema") or made.get("function", made)["parameters"]) == sent


def test_reasoning_in_words_and_in_tokens():
    """A word is an effort; a number a budget, below the output limit; where there is no number the format says so."""

    def body(kind: type[Any], **options: object) -> Any:
        return _body(kind, "Hi", options=options)

    assert body(OpenAIChat, reasoning="low")["reasoning_effort"] == "low"
    assert body(OpenAIChat, reasoning="off")["reasoning_effort"] == "none"
    assert body(OpenAIResponses, reasoning="low")["reasoning"] == {"effort": "low"}
    assert body(OpenAIResponses, reasoning="off")["reasoning"] == {"effort": "none"}
    high = body(AnthropicMessages, reasoning="high")
    assert (high["thinking"], high["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert body(AnthropicMessages, reasoning="off")["thinking"] == {"type": "disabled"}
    for options, budget in (
        ({"reasoning": 2000}, (2000, 18_384)),
        ({"reasoning": 2000, "max_output_tokens": 1500}, (1499, 1500)),
        ({"reasoning": 500}, (1024, 17_408)),  # a smaller one is refused
    ):
        made = body(AnthropicMessages, **options)
        assert (made["thinking"]["budget_tokens"], made["max_tokens"]) == budget
    for reasoning, config in (
        ("off", {"thinkingBudget": 0}),
        ("low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        (2000, {"thinkingBudget": 2000, "includeThoughts": True}),
    ):
        assert body(Gemini, reasoning=reasoning)["generationConfig"] == {"thinkingConfig": config}
    with pytest.raises(OptionError, match="not a number of tokens"):
        _provider(OpenAIChat, reasoning=2000)
    with pytest.raises(OptionError, match="not a number of tokens") as caught:
        _provider(OpenAIResponses, reasoning=2000, stop="END")
    assert len(caught.value.faults) == 2  # an option that would be ignored is a lie; both come at once


@pytest.mark.parametrize(("bound", "thinking"), [(1_024, "disabled"), (1_025, "enabled")])
def test_an_answer_too_short_for_a_thinking_budget_has_none(bound, thinking):
    """Anthropic, extended thinking: a budget has at least 1,024 tokens, and stays below the limit of the answer."""
    body = _body(AnthropicMessages, "Hi", options={"reasoning": 2_000, "max_output_tokens": bound})
    assert (body["thinking"]["type"], body["max_tokens"]) == (thinking, bound)


def test_bounds_stops_and_the_shape_of_an_answer_have_names_of_their_own():
    """As each format says them, each only when it is given; the smaller bound holds."""
    assert _body(OpenAIChat, "Hi", options={"stop": "END"})["stop"] == ["END"]
    assert _body(AnthropicMessages, "Hi", options={"stop": "END"})["stop_sequences"] == ["END"]
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    assert _body(OpenAIChat, "Hi", response_format=SCHEMA)["response_format"] == shape
    body = _body(AnthropicMessages, "Hi", response_format=SCHEMA)
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}

    options = {"temperature": 1}
    body = _body(OpenAIResponses, "Hi", response_format=SCHEMA, max_output_tokens=70, options=options)
    assert (body["max_output_tokens"], body["temperature"]) == (70, 1)
    assert body["text"] == {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}
    plain = _body(OpenAIResponses, "Hi")
    assert not {"reasoning", "max_output_tokens", "text", "temperature"} & set(plain)

    options = {"max_output_tokens": 50, "temperature": 0, "top_p": 0.5, "stop": "END"}
    body = _body(Gemini, "Hi", options=options, max_output_tokens=70, response_format=SCHEMA)
    assert body["generationConfig"] == {
        "maxOutputTokens": 50,
        "temperature": 0,
        "topP": 0.5,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
    }
    assert "generationConfig" not in _body(Gemini, "Hi")


def test_what_a_cycle_wants_of_the_model_wins_over_the_options():
    """In each format that knows it."""

    def body(kind: type[Any], settings: PromptSettings, **options: object) -> Any:
        given = {"temperature": 1.0, "top_p": 0.1, **options}
        return json.loads(_provider(kind, **given).encode(request_of("Hi", settings=settings)))

    stops = PromptSettings(stop=("END",))
    assert body(AnthropicMessages, stops, stop="STOP")["stop_sequences"] == ["END"]
    assert body(OpenAIChat, stops, stop="STOP")["stop"] == ["END"]
    assert body(OpenAIChat, PromptSettings(reasoning="low"), reasoning="high")["reasoning_effort"] == "low"
    assert body(OpenAIResponses, PromptSettings(reasoning="off"))["reasoning"] == {"effort": "none"}
    settings = PromptSettings(temperature=0.0, stop=("END",), reasoning=64)
    config = body(Gemini, settings, stop="STOP")["generationConfig"]
    assert (config["temperature"], config["topP"], config["stopSequences"]) == (0.0, 0.1, ["END"])
    assert config["thinkingConfig"]["thinkingBudget"] == 64

    numbers = "takes off, low, medium or high, not a number of tokens"
    for kind, settings, words in (
        (OpenAIChat, PromptSettings(reasoning=64), numbers),
        (OpenAIResponses, PromptSettings(reasoning=64), numbers),
        (OpenAIResponses, stops, "the Responses API does not support stop texts; use openai-chat:"),
    ):
        with pytest.raises(BadRequest, match=words) as caught:
            body(kind, settings)
        assert not caught.value.retryable


# --- joined, not encoded again


@pytest.mark.at(138)
@EVERY
def test_tools_are_sorted_and_encoded_once(kind):
    """The list is the same in whatever order it was attached, and its bytes are kept (AT-138)."""
    first, second = tools(), Toolbox(reversed(tools().specs))
    provider = _provider(kind)
    one, other, again = (provider.encode(request_of("Hi", tools=box)) for box in (first, second, first))
    assert one == other == again
    for box in (first, second):
        assert box.encoded(provider.name, lambda _: b"encoded twice") != b"encoded twice"


@pytest.mark.at(140)
@THREE
def test_consecutive_requests_share_their_beginning(kind):
    """Byte for byte, up to the end of the older conversation: that is what a vendor's cache looks for."""
    provider = _provider(kind)
    older = provider.encode(request_of(*LOOP, system="S", tools=tools()))
    newer = provider.encode(request_of(*LOOP, assistant(Text(text="ok")), "more", system="S", tools=tools()))
    begin = older.index(b'"%b":' % CONVERSATION[kind].encode())
    conversation = older[: older.index(b"r-c2", begin)]
    assert newer.startswith(conversation)


@pytest.mark.at(140)
def test_the_body_for_message_1001_encodes_one_message():
    """What a request costs grows with what is new in it, and a quiet turn extends the one before it (7.13, AT-140)."""
    provider = _provider(Gemini)
    older = [*itertools.chain.from_iterable((said(f"p{n}"), assistant(Text(text="ok"))) for n in range(500))]
    before = provider.encode(request_of(*older, model=GOOGLE, tools=tools()))
    assert provider.encodings == 1_000
    body = provider.encode(request_of(*older, said("number 1001"), model=GOOGLE, tools=tools()))
    assert provider.encodings == 1_001
    end_of_contents = before.index(b'],"tools":')
    assert body.startswith(before[:end_of_contents])
    assert b"number 1001" in body[end_of_contents:]


TEXTS = st.text(max_size=5).map(lambda text: Text(text=text))
OWN_BLOCKS: dict[type[Any], list[Any]] = {
    OpenAIResponses: [SECRET],
    Gemini: [
        _signature("c2ln"),
        Thinking(text="Hm.", provider="google"),
        Thinking(text="No.", provider="anthropic"),
    ],
}


def _turns(kind: type[Any]) -> st.SearchStrategy[list[list[Any]]]:
    own = OWN_BLOCKS.get(kind, [Text(text="ok")])
    calls = st.tuples(st.booleans(), st.integers(1, 3), st.sampled_from([GOOGLE, "openai:gpt-x"]))
    return st.lists(
        st.lists(TEXTS, max_size=3).map(lambda blocks: [UserMessage(content=tuple(blocks))])
        | st.lists(TEXTS | st.sampled_from(own), max_size=3).map(
            lambda blocks: [assistant(*blocks, model=GOOGLE)]
        )
        | calls.map(
            lambda drawn: [
                assistant(*[SECRET] * drawn[0], *map(call_of, "abc"[: drawn[1]]), model=drawn[2]),
                results_of(*"abc"[: drawn[1]]),
            ]
        ),
        max_size=8,
    )


@EVERY
@given(data=st.data())
def test_any_conversation_is_one_that_the_vendor_would_take(kind, data):
    """Roles alternate, nothing is empty, reasoning is followed by what it led to, results stand behind their calls."""
    turns = data.draw(_turns(kind))
    body = _body(kind, *(message for turn in turns for message in turn))
    check_dialect(kind.name, json.dumps(body).encode())


# --- where the prompt cache ends, of which one vendor wants to be told

MARK = {"type": "ephemeral"}
CACHED = (
    UserMessage(content=(Text(text="Look."), IMAGE)),
    assistant(
        Text(text="I look."),
        call_of("c1"),
        call_of("c2"),
        Thinking(text="done", signature="signed", provider="anthropic"),
    ),
    results_of("c1", "c2", is_error=True),
    UserMessage(content=(Text(text="And?"), Text(text=" "))),
)


def _cached(*points: object, **fields: Any) -> Any:
    return _body(AnthropicMessages, *CACHED, cache_points=points, **fields)


def _marks(value: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    if isinstance(value, dict):
        if "cache_control" in value:
            assert value["cache_control"] == MARK
            yield path
        for key, item in value.items():
            yield from _marks(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _marks(item, (*path, position))


def test_the_first_points_of_the_cache_are_marked():
    """`system` marks the system prompt, which stands behind the tools; without one the last tool. Four at most."""
    assert _cached("system", system="Be brief.", tools=tools())["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": MARK}
    ]
    listed = _cached("system", system=None, tools=tools())["tools"]
    assert list(_marks(listed)) == [(len(listed) - 1,)]
    assert list(_marks(_cached("system", system=None))) == []
    assert len(list(_marks(_cached("system", 0, 2, 1, 3, system="s")))) == 3

    chat = _provider(OpenAIChat)  # which finds out by itself
    plain = chat.encode(request_of(*CACHED, system="s"))
    for points in ((), ("system", 0, 3)):
        assert chat.encode(request_of(*CACHED, system="s", cache_points=points)) == plain


def _unmarked(value: Any) -> Any:
    match value:
        case [{"type": "text", "text": "Be brief.", "cache_control": _}]:
            return "Be brief."
        case dict():
            return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
        case list():
            return [_unmarked(item) for item in value]
        case _:
            return value


@given(
    points=st.lists(st.integers(0, 5) | st.just("system"), max_size=6),
    system=st.none() | st.just("Be brief."),
)
def test_without_its_marks_a_request_is_what_it_was(points, system):
    """Any points: valid for the vendor, at most four, and nothing else differs."""
    made = _cached(*points, system=system, tools=tools())
    assert len(list(_marks(made))) <= 4
    assert _unmarked(made) == _cached(system=system, tools=tools())
