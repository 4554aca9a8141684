"""What events, messages and their parts have in common, and `replace`, which makes one like another."""

import copy
import pickle
import sys

import pytest

import agentrail
from agentrail import events, plugins as p
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import ErrorInfo
from agentrail.frozen import FrozenDict
from agentrail.messages import (
    AssistantMessage,
    CallId,
    SessionId,
    Text,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    encoded,
)
from agentrail.structs import replace, tag_name

S = SessionId("s")
META = events.Envelope(session_id=S, seq=7, at_ms=1_700, path=(S,))
MESSAGES = (
    UserMessage(content=(Text(text="Hi"),)),
    AssistantMessage(content=(ToolCall(call_id=CallId("c"), name="t", arguments={"a": [1]}),), model="m"),
    ToolMessage(results=(ToolResult(call_id=CallId("c"), name="t", text="ok", details={"n": 1}),)),
)


def test_an_event_like_another_one_keeps_what_is_not_named():
    """Its place too, unless that is named; what is replaced is frozen and judged as what is made. `replace` is at both doors."""
    assert agentrail.replace is p.replace is replace
    event = events.MessageDelta(meta=META, delta="a", attempt=2)
    other = replace(event, delta="b")
    assert other == events.MessageDelta(delta="b", attempt=2)
    assert other.meta == META
    assert replace(event, meta=None).meta is None
    assert (event.delta, event.meta) == ("a", META)

    kept = [Text(text="one")]
    message = replace(MESSAGES[0], content=kept)
    kept.append(Text(text="two"))
    assert message.content == (Text(text="one"),)
    call = replace(MESSAGES[1].content[0], arguments={"a": {"b": 1}})
    assert type(call.arguments) is FrozenDict
    assert type(call.arguments["a"]) is FrozenDict
    assert replace(TokenUsage(input=3), input=-1) == TokenUsage()


def test_what_cannot_be_replaced_is_refused_by_name():
    """A typo is no change that nobody notices; options are attrs classes, and have their own way."""
    with pytest.raises(TypeError, match=r"`MessageDelta` has no field 'text'"):
        replace(events.MessageDelta(delta="a"), text="b")
    words = r"was given SessionOptions: expected an event, a message.*attrs\.evolve"
    with pytest.raises(TypeError, match=words):
        replace(agentrail.SessionOptions(model="demo:"), model="x")


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_a_message_remembers_is_no_part_of_it(message):
    """The encoded form is kept once for each format; no comparison, copy or text of the message has it."""
    made = copy.copy(message)
    assert encoded(made, "a wire", lambda _: b"1") == encoded(made, "a wire", lambda _: b"2") == b"1"
    assert encoded(made, "another wire", lambda _: b"3") == b"3"
    assert made == message
    assert hash(made) == hash(message)
    assert repr(made) == repr(message)
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), replace(made)):  # noqa: S301 - ours
        assert again == message
        assert encoded(again, "a wire", lambda _: b"anew") == b"anew"


def test_what_a_tool_remembers_is_no_part_of_it():
    """Its compiled schema is made at the first call, and again for another schema. Names on the wire are in snake case."""
    spec = ToolSpec(name="t", description="d", parameters={"type": "object", "required": ["a"]})
    assert spec.faults({}) == spec.faults({}) != ()
    assert spec == replace(spec) == pickle.loads(pickle.dumps(spec))  # noqa: S301 - ours
    assert replace(spec, parameters={"type": "object"}).faults({}) == ()
    names = ("FileRef", "ToolSkippedForSteering")
    assert [*map(tag_name, names)] == ["file_ref", "tool_skipped_for_steering"]


@pytest.mark.parametrize(
    "value",
    [
        *MESSAGES,
        MESSAGES[0].content[0],
        ErrorInfo(code="x", message="y"),
        TokenUsage(),
        ToolSpec(name="t", description="d", parameters={}),
        events.MessageDelta(delta="a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nobody_writes_to_a_value(value):
    """Not to a field, not to what it remembers, not to a name that it has not; and there is no dictionary behind it."""
    for name in (*value.__struct_fields__, "_encoded", "_validator", "other", "__class__"):
        with pytest.raises(AttributeError):
            setattr(value, name, None)
        with pytest.raises(AttributeError):
            delattr(value, name)
    assert not hasattr(value, "__dict__")
    assert type(value).__match_args__ == ()


@pytest.mark.parametrize("name", ["text", "other", "__class__"])
def test_the_setattr_of_object_is_refused_up_to_python_3_12(name):
    """From 3.13 on Python checks it for classes only, and it writes. docs/explanation/architecture.md, "Frozen values"."""
    value = Text(text="as it was")
    if name == "text" and sys.version_info >= (3, 13):
        object.__setattr__(value, name, "rewritten")
        assert value.text == "rewritten"
    else:
        with pytest.raises((AttributeError, TypeError)):
            object.__setattr__(value, name, "rewritten")
        assert value == Text(text="as it was")
