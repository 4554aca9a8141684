"""What goes to Gemini is what its own types describe, and is joined from what was encoded before (7.5, 7.13)."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import Authentication
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
from agentrail.providers.vendors import Gemini
from agentrail.testing.check_dialects import check_dialect
from tests.providers.transcripts import WIRE, completed, read, request_of, said, tools
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


# --- the body


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


def test_pictures_and_files():
    """A picture as the vendor wants it; a file as its path, which the model reads with its tools."""
    message = UserMessage(
        content=(Image(media_type="image/png", data="aGk="), FileRef(path="a.py"), Text(text=" "))
    )
    assert _body(message)["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"text": "[file: a.py]"},
    ]


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


async def test_a_missing_key_fails_before_any_connection():
    """It names the variable, and `demo:` as a way to try."""
    async with HttpClients() as http:
        with pytest.raises(Authentication, match=r"GEMINI_API_KEY.*demo:"):
            async with Gemini(ProviderOptions(), http).open_stream(request_of("Hi")):
                pytest.fail("it was opened")
        assert http.statistics().requests == 0
