"""Events as JSON."""

import json
from typing import Any, get_args

import attrs
import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.codec import TAGS, encode_event
from agentrail.errors import ErrorInfo
from agentrail.events import (
    KINDS,
    AgentEnd,
    AgentError,
    Envelope,
    Event,
    MessageDelta,
    PromptReceived,
    ResponseComplete,
    SessionStart,
    ToolExecutionStart,
)
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Message,
    Opaque,
    PromptRef,
    SessionId,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserBlock,
    UserMessage,
    encoded,
)

S = SessionId("s-1")
META = Envelope(session_id=S, seq=7, at_ms=1_700, path=(S,))


def decoded(event: Event) -> dict[str, Any]:
    """What a reader of the line sees."""
    line = encode_event(event)
    assert b"\n" not in line
    document: dict[str, Any] = json.loads(line)
    return document


def test_an_event_begins_with_kind_number_session_and_time():
    """The first four members are what every reader needs, then come the fields of the event."""
    event = SessionStart(meta=META, model="demo:", tools=("shell",))
    assert list(decoded(event).items()) == [
        ("kind", "session_start"),
        ("seq", 7),
        ("session_id", "s-1"),
        ("at_ms", 1_700),
        ("model", "demo:"),
        ("tools", ["shell"]),
        ("plugins", []),
    ]


def test_an_ephemeral_event_says_so():
    """`ephemeral` is true where an event is never replayed, and absent where it is."""
    meta = msgspec.structs.replace(META, ephemeral=True)
    assert decoded(MessageDelta(meta=meta, delta="a"))["ephemeral"] is True
    assert "ephemeral" not in decoded(SessionStart(meta=META, model="demo:", tools=()))


def test_the_path_is_there_for_the_session_of_another_session():
    """A child's events carry the chain of sessions from the root."""
    meta = msgspec.structs.replace(META, path=(SessionId("root"), S))
    assert decoded(MessageDelta(meta=meta, delta="a"))["session_path"] == ["root", "s-1"]


def test_an_event_made_by_hand_has_no_number():
    """Without an envelope only the kind and the fields are there."""
    assert decoded(MessageDelta(delta="a")) == {"kind": "message_delta", "delta": "a", "attempt": 1}


@pytest.mark.parametrize("kind", KINDS, ids=KINDS.values())
def test_no_field_of_an_event_hides_a_member_of_its_envelope(kind):
    """`kind`, `seq` and the like mean the same in every event, because no event has a field of that name."""
    names = {field.name for field in attrs.fields(kind)}
    assert not names & {"kind", "seq", "session_id", "at_ms", "session_path", "ephemeral"}
    assert kind in get_args(Event)


def test_every_member_of_a_union_can_be_told_apart():
    """Each block and each message has a tag, and no two in one union have the same."""
    for union in (UserBlock, AssistantBlock, Message):
        members = get_args(union)
        assert len({TAGS[member] for member in members}) == len(members)
        for member in members:
            assert TAGS[member][0] not in {field.name for field in attrs.fields(member)}


def test_blocks_and_messages_carry_their_tags():
    """A whole conversation is encoded with all of its values, and without memos."""
    said = AssistantMessage(
        content=(
            Thinking(text="hm", provider="p"),
            Opaque(provider="p", payload={"a": [1]}),
            Text(text="hello"),
            ToolCall(call_id=CallId("c"), name="t", arguments={"x": None}),
        ),
        model="demo:",
        stop_reason="tool_use",
    )
    encoded(said, "a wire", lambda _: b"a memo")
    asked = UserMessage(
        content=(Image(media_type="image/png", data="QQ=="), FileRef(path="a.py")), ref=PromptRef("r")
    )
    results = ToolMessage(results=(ToolResult(call_id=CallId("c"), name="t", text="ok", details={"n": 1}),))
    document = decoded(
        AgentEnd(meta=META, messages=(asked, said, results), usage=TokenUsage(input=1), stop_reason="end")
    )
    assert document["messages"] == [
        {
            "role": "user",
            "content": [
                {"kind": "image", "media_type": "image/png", "data": "QQ==", "name": "image"},
                {"kind": "file_ref", "path": "a.py"},
            ],
            "origin": "prompt",
            "ref": "r",
        },
        {
            "role": "assistant",
            "content": [
                {"kind": "thinking", "text": "hm", "signature": None, "provider": "p"},
                {"kind": "opaque", "provider": "p", "payload": {"a": [1]}},
                {"kind": "text", "text": "hello"},
                {
                    "kind": "tool_call",
                    "call_id": "c",
                    "name": "t",
                    "arguments": {"x": None},
                    "malformed": None,
                },
            ],
            "model": "demo:",
            "stop_reason": "tool_use",
            "cut": False,
        },
        {
            "role": "tool",
            "results": [{"call_id": "c", "name": "t", "text": "ok", "is_error": False, "details": {"n": 1}}],
        },
    ]
    assert document["usage"] == {
        "input": 1,
        "output": 0,
        "cache_read": 0,
        "cache_write": 0,
        "reasoning": 0,
        "cost_usd": 0.0,
        "estimated": False,
    }


def test_an_error_is_data():
    """An error is encoded by its code, its words and whether to try again."""
    error = ErrorInfo(code="rate_limited", message="slow down", retryable=True, retry_after_seconds=7.0)
    assert decoded(AgentError(error=error))["error"] == {
        "code": "rate_limited",
        "message": "slow down",
        "retryable": True,
        "retry_after_seconds": 7.0,
    }


def test_half_a_character_becomes_the_replacement_character():
    """A lone surrogate is U+FFFD, two halves that belong together are their character, in names as well."""
    event = ToolExecutionStart(
        name="t", call_id=CallId("c"), arguments={"\ud800": ["\ud83d\ude00", {"n": 1}], "fine": "ü"}
    )
    assert decoded(event)["arguments"] == {"\ufffd": ["\U0001f600", {"n": 1}], "fine": "ü"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(arguments=st.dictionaries(st.text(), JSON, max_size=4), text=st.text())
def test_what_a_model_sends_comes_out_as_it_went_in(arguments, text):
    """Arguments and texts survive the way to JSON and back, whatever they are."""
    start = ToolExecutionStart(meta=META, name="t", call_id=CallId("c"), arguments=arguments)
    assert decoded(start)["arguments"] == arguments
    message = AssistantMessage(content=(Text(text=text),), model="m")
    complete = ResponseComplete(meta=META, message=message, usage=TokenUsage(), stop_reason="end")
    assert decoded(complete)["message"]["content"] == [{"kind": "text", "text": text}]
    received = PromptReceived(meta=META, ref=PromptRef("r"), content=(Text(text=text),))
    assert decoded(received)["content"][0]["text"] == text
