"""Events as JSON."""

import contextlib
import json
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from agentrail import events as e, messages as m
from agentrail.core.protocol.hooks import Lifecycle, RequestResult
from agentrail.core.protocol.request import Chunk, EffectId
from agentrail.core.protocol.signals import ChildPublished, Signal
from agentrail.core.protocol.tool_changes import Change
from agentrail.core.wire.codec import (
    SIGNAL_KINDS,
    decode_event,
    decode_signal,
    encode_event,
    encode_signal,
    event_schema,
)
from agentrail.core.wire.hook_codec import decode_hook_event
from agentrail.errors import CodecError
from tests.core.anything import JSON, OBJECTS, values_of
from tests.thinned import each, first

S = m.SessionId("s-1")
META = e.Envelope(session_id=S, seq=7, at_ms=1_700, path=(S,))


def decoded(event: e.Event) -> dict[str, Any]:
    line = encode_event(event)
    assert b"\n" not in line
    return json.loads(line)  # type: ignore[no-any-return]


def test_every_member_of_a_union_can_be_told_apart():
    """Each block and message has a tag of its own; an event has no field that means something else in its envelope."""
    for union in (m.UserBlock, m.AssistantBlock, m.Message, Chunk, Change, RequestResult):
        configs = [member.__struct_config__ for member in get_args(union)]
        assert len({config.tag for config in configs}) == len(configs)
        assert {config.tag_field for config in configs} == {"role" if union is m.Message else "kind"}
    for kind in e.KINDS:
        names = {field.name for field in msgspec.structs.fields(kind)}
        assert not names & {"kind", "seq", "session_id", "at_ms", "session_path", "ephemeral"}
        assert kind in get_args(e.Event)
    assert set(event_schema()["discriminator"]["mapping"]) == set(e.KINDS.values())
    for kind, name in {
        **e.KINDS,
        **SIGNAL_KINDS,
    }.items():  # what the reference calls a kind is what the codec writes
        config = kind.__struct_config__
        assert (config.tag_field, config.tag) == ("kind", name)


def test_half_a_character_becomes_the_replacement_character():
    """A lone surrogate is U+FFFD, two halves that belong together are their character, on every level of a child; what is no JSON is refused."""
    event = e.ToolExecutionStart(
        name="t", call_id=m.CallId("c"), arguments={"\ud800": ["\ud83d\ude00", {"n": 1}], "fine": "ü"}
    )
    assert decoded(event)["arguments"] == {"\ufffd": ["\U0001f600", {"n": 1}], "fine": "ü"}

    said = e.MessageDelta(meta=META, delta="\ud800")
    for depth in range(3):
        said = e.SubagentEvent(meta=META, call_id=m.CallId("\udc00"), child_id=S, depth=depth, event=said)
    document = decoded(said)
    assert document["call_id"] == "\ufffd"
    assert document["event"]["event"]["event"]["delta"] == "\ufffd"
    line = encode_signal(ChildPublished(at_ms=1, effect_id=EffectId("\ud800"), event=said))
    assert json.loads(line)["event"] == document

    event = e.ToolExecutionStart(name="t", call_id=m.CallId("c"), arguments={"x": object()})
    with pytest.raises(TypeError, match="object is not JSON"):
        encode_event(event)


@given(arguments=OBJECTS, text=st.text())
def test_what_a_model_sends_comes_out_as_it_went_in(arguments, text):
    """Arguments and texts survive the way to JSON and back, whatever they are."""
    start = e.ToolExecutionStart(meta=META, name="t", call_id=m.CallId("c"), arguments=arguments)
    assert decoded(start)["arguments"] == arguments
    message = m.AssistantMessage(content=(m.Text(text=text),), model="m")
    complete = e.ResponseComplete(meta=META, message=message, usage=m.TokenUsage(), stop_reason="end")
    assert decoded(complete)["message"]["content"] == [{"kind": "text", "text": text}]
    received = e.PromptReceived(meta=META, ref=m.PromptRef("r"), content=(m.Text(text=text),))
    assert decoded(received)["content"][0]["text"] == text


# Golden files are of each kind.
@pytest.mark.parametrize("kind", [*first(list(e.KINDS), 15), *first(list(SIGNAL_KINDS), 10)])
@given(data=st.data())
@settings(max_examples=15)
def test_every_value_is_the_same_after_the_way_there_and_back(kind, data):
    """Fields, envelope and the event inside an event: `decode_` is the inverse of `encode_`, and a line is one line."""
    value = data.draw(values_of(kind))
    encode, decode = (encode_event, decode_event) if kind in e.KINDS else (encode_signal, decode_signal)
    line = encode(value)
    assert line.startswith(b'{"kind":"%s"' % kind.__struct_config__.tag.encode())
    assert b"\n" not in line
    again = decode(line)
    assert type(again) is kind
    assert again == value
    assert getattr(again, "meta", None) == getattr(value, "meta", None)
    assert encode(again) == line


STANDS = '"seq":7,"session_id":"s-1","at_ms":1700'
CHILDS = f'{{"kind":"subagent_event",{STANDS},"call_id":"c","child_id":"k","depth":1,"event":'
ERROR = '"code":"c","message":"m","retryable":false,"retry_after_seconds":null'
NEWS = {
    "the name that the envelope has in Python": f'{{"kind":"agent_start",{STANDS},"ref":"p",'
    '"meta":{"session_id":"s-2","seq":1,"at_ms":1,"path":["s-2"]}}',
    "that name in an event of a child": CHILDS + '{"kind":"agent_start","ref":"p","meta":null}}',
    "a kind": f'{{"kind":"dreamt",{STANDS},"of":"sheep","weight":1.50}}',
    "a field": f'{{"kind":"agent_start",{STANDS},"ref":"p","mood":1e0}}',
    "a field deep inside": f'{{"kind":"agent_error",{STANDS},"error":{{{ERROR},"blame":"moon"}}}}',
    "a kind of block": f'{{"kind":"prompt_received",{STANDS},"ref":"p",'
    '"content":[{"kind":"smell","of":"\\u0073moke"}]}',
    "a word in a closed set": f'{{"kind":"agent_resumed",{STANDS},"trigger":"full_moon"}}',
    "an event of a child": CHILDS + '{"kind":"dreamt","seq":1,"session_id":"k","at_ms":1}}',
}


@each("line", NEWS.values())
def test_what_is_new_is_kept_whole(line):
    """An unknown event has its kind and its place, and comes out byte by byte as it went in."""
    event = decode_event(line.encode())
    assert isinstance(event, e.UnknownEvent)
    assert event.kind == json.loads(line)["kind"]
    assert event.meta == META
    assert encode_event(event) == line.encode()


STR, INT = "Expected `str`, got `int`", "Expected `int`, got `str`"
RANGE = "Number out of range"
TOGETHER = "seq, session_id and at_ms belong together"
PUBLISHED = '{"kind":"child_published","at_ms":1,"effect_id":"t1","event":'
FINISHED = '{"kind":"tool_finished","at_ms":1,"effect_id":"t1","text":"ok","started_at_ms":1,"changes":'
SWITCH = '{"kind":"switch_model","at_ms":1,"signal_id":"q","model":'


def test_what_is_no_signal_is_refused_with_its_place():
    """The error says where the fault is, also inside of the event of a child, and also of a value that nobody can make."""
    for line, path, fault in (
        (PUBLISHED + '{"kind":"agent_start","ref":7}}', "$.event.ref", STR),
        (PUBLISHED + '{"kind":"agent_start","ref":"p","seq":"7"}}', "$.event.seq", INT),
        (
            PUBLISHED + '{"kind":"agent_start","ref":"p","meta":null}}',
            "$.event",
            "unknown field `meta`; it may come from a newer version",
        ),
        (
            PUBLISHED + '{"kind":"dreamt"}}',
            "$.event.kind",
            "Invalid value 'dreamt'; it may come from a newer version",
        ),
        (PUBLISHED + '{"kind":"stream_stalled","elapsed_seconds":1e400}}', "$.event.elapsed_seconds", RANGE),
        (PUBLISHED.replace(',"event":', "}"), "$", "Object missing required field `event`"),
        ('{"kind":"started","at_ms":1e400}', "$.at_ms", RANGE),
        (
            FINISHED + '[{"kind":"update_context","key":"","value":null}]}',
            "$",
            "UpdateContext has an empty key",
        ),
        (
            SWITCH + '{"model":"m","price":{"input":-1,"output":1}}}',
            "$",
            "price.input is -1.0: expected a finite number",
        ),
    ):
        with pytest.raises(CodecError) as caught:
            decode_signal(line)
        assert caught.value.path == path
        assert str(caught.value).startswith("no signal: ")
        assert fault in str(caught.value)


CHILD = '{"kind":"subagent_event","call_id":"c","child_id":"k","depth":1,"event":'
PAYLOAD = '{"kind":"plugin_event","name":"n","payload":'


def test_what_is_no_event_is_refused_with_its_place():
    """The error says where the fault is, what was expected and what came."""
    for line, path, fault in (
        ('{"kind":"agent_start","ref":7}', "$.ref", STR),
        ('{"kind":"agent_start"}', "$", "Object missing required field `ref`"),
        ('{"ref":"p"}', "$", "Object missing required field `kind`"),
        ('{"kind":7}', "$.kind", "Expected `str`"),
        (
            '{"kind":"prompt_received","ref":"p","content":[{"kind":"text","text":null}]}',
            "$.content[0].text",
            "Expected `str`, got `null`",
        ),
        ('{"kind":"dreamt","seq":"7"}', "$.seq", INT),
        ('{"kind":"agent_start","ref":"p","meta":null,"seq":"7"}', "$.seq", INT),
        ('{"kind":"agent_start","ref":"p"', "$", "Input data was truncated"),
        ("[]", "$", "Expected `object`, got `array`"),
        ("", "$", "Input data was truncated"),
        ("\xff", "$", "JSON is malformed: invalid character (byte 0)"),
        ('{"kind":"agent_start","ref":"p","seq":7}', "$", TOGETHER),
        ('{"kind":"dreamt","at_ms":7}', "$", TOGETHER),
        ('{"kind":"agent_start","ref":"p","seq":"7"}', "$.seq", INT),
        (CHILD + '{"kind":"agent_start","ref":7}}', "$.event.ref", STR),
        (CHILD + '{"kind":"agent_start","ref":"p","at_ms":"7"}}', "$.event.at_ms", INT),
        (CHILD + '{"kind":"agent_start","ref":"p","at_ms":7}}', "$.event", TOGETHER),
        (CHILD + "[7]}", "$.event", "Expected `object`, got `array`"),
        (CHILD.replace(',"event":', "}"), "$", "Object missing required field `event`"),
        ('{"kind":"stream_stalled","elapsed_seconds":1e400}', "$.elapsed_seconds", RANGE),
        (PAYLOAD + '{"a":[1,{"b":-1e400}]}}', "$.payload.a[1].b", RANGE),
        (PAYLOAD + "[" * 20 + "1e400" + "]" * 20 + "}", "$.payload" + "[0]" * 7, RANGE),
    ):
        with pytest.raises(CodecError) as caught:
            decode_event(line.encode("latin-1"))
        assert caught.value.path == path
        assert str(caught.value).startswith(("no event: ", "not an event: "))
        assert fault in str(caught.value)


@pytest.mark.parametrize("given", [None, 5, {}, "\ud800", object()])
def test_what_is_neither_an_event_nor_a_text_is_refused(given):
    """By the error that a caller of the codec expects, in both directions."""
    for code in (encode_event, decode_event):
        with pytest.raises(CodecError):
            code(given)


def test_what_is_no_hook_event_is_refused():
    """With those that there are."""
    for text in ("", "[]", "{}", '{"hook": "Before"}', '{"hook": "BeforeTool"}', "[" * 100_000):
        with pytest.raises(CodecError, match="whose `hook` is one of SessionStarted, SessionEnding"):
            decode_hook_event(text)


@given(line=st.binary(max_size=20) | JSON.map(json.dumps))
def test_nothing_else_than_a_codec_error_comes_out_of_rubbish(line):
    """Whatever the bytes are, decoding them ends with an event or with the one error that says so."""
    for decode in (decode_event, decode_signal):
        with contextlib.suppress(CodecError):
            decode(line)


def structs_below(annotation: Any, found: set[type]) -> set[type]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) and annotation not in found:
        found.add(annotation)
        for hint in get_type_hints(annotation).values():
            structs_below(hint, found)
    for inner in get_args(annotation):
        structs_below(inner, found)
    return found


WRITTEN = sorted(
    structs_below(e.Event | Signal | Lifecycle, set())
    - {e.Envelope},  # which is no object of its own on the wire
    key=lambda kind: (kind.__module__, kind.__name__),
)


@each("kind", WRITTEN)
def test_what_is_written_is_frozen_refuses_what_is_new_and_is_hidden_from_the_collector(kind):
    """A class that forgets one of these can be edited by those it is handed to, or loses a field of a newer version."""
    config = kind.__struct_config__
    assert (config.frozen, config.forbid_unknown_fields, config.gc) == (True, True, False)
    assert not config.dict
