"""What goes to Gemini is what its own types describe, and is joined from what was encoded before (7.5, 7.13)."""

import itertools
import json
from typing import Any

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import Authentication, RateLimited
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
from agentrail.providers.vendors import PLACEHOLDER, Gemini
from agentrail.testing.check_dialects import check_dialect
from agentrail.testing.serving import open_server, reply, stream
from tests.providers.transcripts import KEY, WIRE, completed, read, request_of, said, tools
from tests.providers.vendors import judge

MODEL = "google:gemini-x"
FIELDS = {
    "contents": "Content",
    "systemInstruction": "Content",
    "tools": "Tool",
    "toolConfig": "ToolConfig",
    "generationConfig": "GenerationConfig",
}
LISTS = {"contents", "tools"}


def _provider(**options: object) -> Gemini:
    return Gemini(ProviderOptions.parse(options), HttpClients())


def _body(*messages: Any, options: dict[str, object] | None = None, **fields: Any) -> Any:
    body = json.loads(
        _provider(**(options or {})).encode(request_of(*messages, **{"model": MODEL, **fields}))
    )
    for name, value in body.items():
        for one in value if name in LISTS else [value]:
            judge("google.genai.types", FIELDS[name]).validate_python(one)
    return body


def _call(call_id: str = "c1", **fields: Any) -> ToolCall:
    values: dict[str, Any] = {"name": "get_weather", "arguments": {"city": "Lisbon"}, **fields}
    return ToolCall(call_id=CallId(call_id), **values)


def _results(*call_ids: str, **fields: Any) -> ToolMessage:
    return ToolMessage(
        results=tuple(
            ToolResult(call_id=CallId(i), name="get_weather", text=f"r-{i}", **fields) for i in call_ids
        )
    )


def _assistant(*blocks: Any, model: str = MODEL) -> AssistantMessage:
    return AssistantMessage(content=blocks, model=model)


def _signature(text: str) -> Opaque:
    return Opaque(provider="google", payload={"thoughtSignature": text})


LOOP = (said("Weather?"), _assistant(Text(text="Looking."), _call("c1"), _call("c2")), _results("c1", "c2"))


# --- the body


def test_the_smallest_request():
    """A prompt and nothing else: the model stands in the address."""
    assert _body("Hi") == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def test_the_system_prompt_stands_beside_the_conversation():
    """As a content without a role."""
    assert _body("Hi", system="Be brief.")["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


def test_a_tool_loop():
    """Calls as parts, and as many results in their order in the very next content, in front of any words."""
    _, model, user = _body(*LOOP, "And now?")["contents"]
    assert [call["functionCall"]["id"] for call in model["parts"][1:]] == ["c1", "c2"]
    assert model["parts"][1]["functionCall"] == {
        "id": "c1",
        "name": "get_weather",
        "args": {"city": "Lisbon"},
    }
    assert [part.get("functionResponse", {}).get("id") for part in user["parts"]] == ["c1", "c2", None]
    assert user["parts"][0]["functionResponse"]["response"] == {"result": "r-c1"}
    assert user["parts"][2] == {"text": "And now?"}


def test_an_error_result_says_so():
    """The member `error` is the one that the vendor reads as a failure."""
    _, _, user = _body("Hi", _assistant(_call()), _results("c1", is_error=True))["contents"]
    assert user["parts"][0]["functionResponse"]["response"] == {"error": "r-c1"}


def test_tools_carry_their_schema_as_it_is():
    """JSON Schema goes whole; the vendor's own dialect knows less."""
    (group,) = _body("Hi", tools=tools())["tools"]
    weather, read_file = group["functionDeclarations"]
    assert (weather["name"], read_file["name"]) == ("get_weather", "read_file")
    assert weather["parametersJsonSchema"]["required"] == ["city"]


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("read_file", {"mode": "ANY", "allowedFunctionNames": ["read_file"]}),
    ],
)
def test_the_choice_of_tools(choice, calling):
    """Each word, and a name, as this format says it; what is withheld stays in the list."""
    body = _body("Hi", tools=tools(), options={"tool_choice": choice})
    assert body["toolConfig"] == {"functionCallingConfig": calling}
    withheld = _body("Hi", tools=tools(), options={"tool_choice": choice}, tool_choice="none")
    assert withheld["tools"] == body["tools"]
    assert withheld["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


def test_how_to_write_the_answer():
    """Bounds, sampling, stops and shape, each only when it is given; the smaller bound holds."""
    options = {"max_output_tokens": 50, "temperature": 0, "top_p": 0.5, "stop": "END"}
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert _body("Hi", options=options, max_output_tokens=70, response_format=schema)["generationConfig"] == {
        "maxOutputTokens": 50,
        "temperature": 0,
        "topP": 0.5,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }
    assert "generationConfig" not in _body("Hi")


@pytest.mark.parametrize(
    ("reasoning", "config"),
    [
        ("off", {"thinkingBudget": 0}),
        ("low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        (2000, {"thinkingBudget": 2000, "includeThoughts": True}),
    ],
)
def test_how_much_to_think(reasoning, config):
    """A word is a level, a number a budget."""
    assert _body("Hi", options={"reasoning": reasoning})["generationConfig"] == {"thinkingConfig": config}


def test_extra_members_come_last_and_win():
    """What we do not know can be said verbatim."""
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    provider = _provider(temperature=1, extra_body={"safetySettings": safety, "generationConfig": {}})
    body = json.loads(provider.encode(request_of("Hi")))
    assert (body["safetySettings"], body["generationConfig"]) == (safety, {})


def test_pictures_and_files():
    """A picture as the vendor wants it; a file as its path, which the model reads with its tools."""
    message = UserMessage(
        content=(Image(media_type="image/png", data="aGk="), FileRef(path="a.py"), Text(text=" "))
    )
    assert _body(message)["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"text": "[file: a.py]"},
    ]


def test_malformed_arguments_go_back_as_an_object():
    """The vendor takes nothing else, and the model still reads what it wrote."""
    body = _body("Hi", _assistant(_call(arguments=None, malformed='{"city": Lis')), _results("c1"))
    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == {"_malformed_arguments": '{"city": Lis'}


def test_text_with_half_a_character_goes_out():
    """A lone surrogate becomes U+FFFD: no encoder takes it, and the session must go on."""
    assert "a\ufffdb" in _provider().encode(request_of("a\ud800b")).decode()


# --- signatures


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
    message = completed(read(path)).message
    sent = _body("Hi", AssistantMessage(content=message.content, model=MODEL), _results())["contents"][1][
        "parts"
    ]
    for part in sent:
        part.get("functionCall", {}).pop("id", None)  # made up, because there was none
    signed = [part for part in came if "thoughtSignature" in part]
    assert [part for part in sent if "thoughtSignature" in part] == signed
    assert [part for part in sent if "text" not in part] == [part for part in came if "text" not in part]
    assert "".join(part.get("text", "") for part in sent) == "".join(part.get("text", "") for part in came)


def test_calls_that_another_model_made_get_the_placeholder():
    """On the first call of the step only, and never on a call of this model, which goes back as it came (7.5)."""
    calls = (_call("c1"), _call("c2"))
    own = _assistant(*calls)
    other = _assistant(*calls, model="anthropic:claude-x")
    assert "thoughtSignature" not in json.dumps(_body("Hi", own, _results("c1", "c2")))
    first, second = _body("Hi", other, _results("c1", "c2"))["contents"][1]["parts"]
    assert first["thoughtSignature"] == PLACEHOLDER
    assert "thoughtSignature" not in second


def test_a_signature_of_another_model_of_the_vendor_is_kept():
    """It is worth more than the placeholder."""
    message = _assistant(_signature("c2ln"), _call("c1"), model="google:gemini-w")
    (part,) = _body("Hi", message, _results("c1"))["contents"][1]["parts"]
    assert part["thoughtSignature"] == "c2ln"


def test_what_another_vendor_thought_is_left_out():
    """Thinking and opaque blocks go to nobody but their maker."""
    message = _assistant(
        Thinking(text="Hm.", signature="x", provider="anthropic"),
        Opaque(provider="anthropic", payload={"type": "redacted_thinking"}),
        Text(text="42"),
    )
    assert _body("Hi", message)["contents"][1]["parts"] == [{"text": "42"}]


def test_a_message_of_thoughts_alone_is_left_out():
    """Then its neighbours are neighbours of each other."""
    empty = Opaque(provider="google", payload={"text": "", "thoughtSignature": "c2ln"})
    thought = _assistant(Thinking(text="Hm.", provider="google"), empty)
    (content,) = _body("One", thought, "Two")["contents"]
    assert content == {"role": "user", "parts": [{"text": "One"}, {"text": "Two"}]}


def test_a_signature_without_its_part_signs_nothing_else():
    """A block that is another vendor's stands between them: the signature is not its own."""
    message = _assistant(_signature("c2ln"), Thinking(text="Hm.", provider="anthropic"), Text(text="42"))
    assert _body("Hi", message)["contents"][1]["parts"] == [{"text": "42"}]


# --- joined, not encoded again


@pytest.mark.at(140)
def test_the_body_for_message_1001_encodes_one_message():
    """What a request costs grows with what is new in it, and a quiet turn extends the one before it (7.13, AT-140)."""
    provider = _provider()
    older = [*itertools.chain.from_iterable((said(f"p{n}"), _assistant(Text(text="ok"))) for n in range(500))]
    before = provider.encode(request_of(*older, model=MODEL, tools=tools()))
    assert provider.encodings == 1_000
    body = provider.encode(request_of(*older, said("number 1001"), model=MODEL, tools=tools()))
    assert provider.encodings == 1_001
    end_of_contents = before.index(b'],"tools":')
    assert body.startswith(before[:end_of_contents])
    assert b"number 1001" in body[end_of_contents:]


def test_another_model_encodes_what_it_did_not_say():
    """After a switch the answers of the other model are encoded once more, and nothing else."""
    provider = _provider()
    loop = (said("Weather?"), _assistant(_call()), _results("c1"))
    provider.encode(request_of(*loop, model=MODEL))
    assert provider.encodings == 3
    for _ in range(2):
        provider.encode(request_of(*loop, model="google:gemini-y"))
        provider.encode(request_of(*loop, model=MODEL))
    assert provider.encodings == 4


@pytest.mark.at(138)
def test_tools_in_another_order_change_no_byte():
    """The list is sorted and its bytes are kept (AT-138)."""
    first, second = tools(), Toolbox(reversed(tools().specs))
    provider = _provider()
    assert provider.encode(request_of("Hi", tools=first)) == provider.encode(request_of("Hi", tools=second))
    for box in (first, second):
        assert box.encoded(provider.name, lambda _: b"encoded twice") != b"encoded twice"


BLOCKS = st.text(max_size=5).map(lambda text: Text(text=text)) | st.sampled_from(
    [_signature("c2ln"), Thinking(text="Hm.", provider="google"), Thinking(text="No.", provider="anthropic")]
)
TURNS = st.lists(
    st.lists(st.text(max_size=5).map(lambda text: Text(text=text)), max_size=3).map(
        lambda blocks: UserMessage(content=tuple(blocks))
    )
    | st.lists(BLOCKS, max_size=3).map(lambda blocks: _assistant(*blocks))
    | st.tuples(st.integers(1, 3), st.sampled_from([MODEL, "openai:gpt-x"])).map(
        lambda drawn: [
            _assistant(*map(_call, "abc"[: drawn[0]]), model=drawn[1]),
            _results(*"abc"[: drawn[0]]),
        ]
    ),
    max_size=8,
)


@given(turns=TURNS)
def test_any_conversation_is_one_that_the_vendor_would_take(turns):
    """Roles alternate, no content is empty, and as many results as calls stand directly behind them, in their order."""
    messages = [message for turn in turns for message in (turn if isinstance(turn, list) else [turn])]
    check_dialect("google", json.dumps(_body(*messages)).encode())


# --- on the wire


async def _ask(url: str, **options: object) -> Any:
    with trio.fail_after(10):
        async with HttpClients() as http:
            provider = Gemini(ProviderOptions.parse({"base_url": url, "api_key": KEY, **options}), http)
            async with provider.open_stream(request_of("Hi", model="google:models/gemini x")) as chunks:
                return completed([chunk async for chunk in chunks])


@pytest.mark.parametrize("version", ["", "/v1beta", "/v1beta/"])
async def test_the_address_has_version_and_model(version):
    """With the version or without; the name of a model cannot leave its place in the path."""
    async with open_server(
        stream((WIRE / "gemini" / "text.sse").read_bytes(), ends=True, stays=True)
    ) as server:
        end = await _ask(server.url + version)
        (head, _) = server.requests[0]
        assert head.startswith(b"POST /v1beta/models/gemini%20x:streamGenerateContent?alt=sse HTTP/1.1")
        assert server.headers()["x-goog-api-key"] == KEY
        assert end.message.text == "Hello, wörld ✓"


async def test_a_missing_key_fails_before_any_connection():
    """It names the variable, and `demo:` as a way to try."""
    async with HttpClients() as http:
        with pytest.raises(Authentication, match=r"GEMINI_API_KEY.*demo:"):
            async with Gemini(ProviderOptions(), http).open_stream(request_of("Hi")):
                pytest.fail("it was opened")
        assert http.statistics().requests == 0


async def test_the_pause_that_is_asked_for_stands_in_the_body():
    """`RetryInfo` among the details of the error; a longer one in the headers would count instead."""
    body = (WIRE / "gemini" / "deviations" / "error_rate_limit.sse").read_text().removeprefix("data: ")
    answer = reply(body, status="429 Too Many Requests", kind="application/json", retry_after="7")
    async with open_server(answer) as server:
        with pytest.raises(RateLimited, match="You exceeded") as caught:
            await _ask(server.url)
    assert caught.value.retry_after_seconds == 34.5


async def test_a_wrong_key_comes_as_a_bad_request():
    """The vendor says 400, and what it means only in the details."""
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    error = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": details}
    answer = reply(json.dumps({"error": error}), status="400 Bad Request", kind="application/json")
    async with open_server(answer) as server:
        with pytest.raises(Authentication, match="GEMINI_API_KEY"):
            await _ask(server.url)


def test_what_is_shown_holds_no_key():
    """A repr is fit for a log."""
    provider = _provider(api_key=KEY, base_url="http://h")
    assert repr(provider) == "Gemini('http://h/v1beta/models')"
