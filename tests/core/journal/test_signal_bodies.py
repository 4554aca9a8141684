"""Bodies of records that are signals: nothing that the record or a default says, and the very signal comes back; for ever."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import NODEFAULT

from agentrail.core.journal.signal_bodies import decode_signal_body, encode_signal_body, whole_body
from agentrail.core.protocol.request import EffectId, TextDelta
from agentrail.core.protocol.signals import (
    ChunksArrived,
    ResponseCompleted,
    SessionBegan,
    StreamStarted,
    TimerFired,
    ToolFinished,
)
from agentrail.core.wire.codec import SIGNAL_KINDS, decode_signal, encode_signal
from agentrail.errors import CodecError
from agentrail.messages import AssistantMessage, CallId, Text, TokenUsage, ToolCall
from tests.core.anything import values_of
from tests.core.golden_values import SIGNAL_FIELDS, SIGNALS
from tests.thinned import first

R1 = EffectId("r1")
GOLDEN = Path(__file__).parent / "golden"
ALL = {**SIGNALS, **SIGNAL_FIELDS}


def back(signal):
    """What comes back of a signal."""
    return decode_signal_body(SIGNAL_KINDS[type(signal)], signal.at_ms, encode_signal_body(signal))


@pytest.mark.parametrize("kind", first(list(SIGNAL_KINDS), 10), ids=SIGNAL_KINDS.values())
@given(data=st.data())
@settings(max_examples=6)
def test_every_signal_comes_back_from_its_body(kind, data):
    """The same value, which is written whole as it was; its body is one line, and never longer than the whole."""
    signal = data.draw(values_of(kind))
    body = encode_signal_body(signal)
    assert b"\n" not in body
    assert len(body) < len(encode_signal(signal))
    again = decode_signal_body(SIGNAL_KINDS[kind], signal.at_ms, body)
    assert again == signal
    assert encode_signal(again) == encode_signal(signal)
    assert encode_signal_body(again) == body
    assert whole_body(SIGNAL_KINDS[kind], signal.at_ms, body) == encode_signal(signal)


@pytest.mark.parametrize("name", ALL)
def test_a_body_of_version_1_is_the_whole_signal_and_still_read(name):
    """Those that lie in stores are never written anew."""
    signal, whole = ALL[name], encode_signal(ALL[name])
    kind = SIGNAL_KINDS[type(signal)]
    assert decode_signal_body(kind, 0, whole) == signal
    assert whole_body(kind, 0, whole) == whole


def test_what_a_record_or_a_default_says_is_left_out():
    """Of an answer of a model too, whatever number it stands for, and however it came to its zeros."""
    message = AssistantMessage(
        content=(Text(text="I look."), ToolCall(call_id=CallId("c1"), name="read", arguments={"a": None})),
        model="m",
        stop_reason="tool_use",
    )
    done = ResponseCompleted(
        at_ms=7,
        effect_id=R1,
        message=message,
        usage=TokenUsage(input=9, output=3, cost_usd=3.0 - 3.0),
        stop_reason="tool_use",
        jitter=float("0"),
    )
    assert encode_signal_body(done) == (
        b'{"effect_id":"r1","message":{"role":"assistant","content":[{"kind":"text","text":"I look."},'
        b'{"kind":"tool_call","call_id":"c1","name":"read","arguments":{"a":null}}],"model":"m","stop_reason":"tool_use"},'
        b'"usage":{"input":9,"output":3},"stop_reason":"tool_use"}'
    )
    finished = ToolFinished(at_ms=8, effect_id=EffectId("t2"), text="A fox.", started_at_ms=5, ran_ms=0)
    assert encode_signal_body(finished) == b'{"effect_id":"t2","text":"A fox.","started_at_ms":5,"ran_ms":0}'
    assert encode_signal_body(StreamStarted(at_ms=9, effect_id=R1)) == b'{"effect_id":"r1"}'
    assert encode_signal_body(SessionBegan(at_ms=9)) == b"{}"
    assert (back(done), back(finished)) == (done, finished)


def test_what_is_like_a_default_and_is_none_is_written():
    """A zero below zero, and what an unlucky caller put in the place of a number."""
    below = TimerFired(at_ms=1, effect_id=R1, jitter=-0.0)
    assert encode_signal_body(below) == b'{"effect_id":"r1","jitter":-0.0}'
    unknown = TokenUsage(cost_usd=None, cache_read=300)
    used = ResponseCompleted(
        at_ms=1,
        effect_id=R1,
        message=AssistantMessage(content=(), model="m"),
        usage=unknown,
        stop_reason="end",
    )
    assert b'"usage":{"cache_read":300,"cost_usd":null}' in encode_signal_body(used)
    assert back(used) == used


def test_half_of_a_character_becomes_what_it_becomes_in_the_whole_signal():
    """No record can hold it."""
    torn = ToolFinished(at_ms=8, effect_id=EffectId("t2"), text="A \ud800 fox.", started_at_ms=5)
    assert back(torn) == decode_signal(encode_signal(torn))


def test_chunks_that_were_heard_are_read_as_their_signal():
    """By the name of their record, which is another one than that of the signal."""
    heard = ChunksArrived(at_ms=4, effect_id=R1, chunks=(TextDelta("a"), TextDelta("b")))
    assert decode_signal_body("heard", 4, encode_signal_body(heard)) == heard
    assert decode_signal_body("heard", 4, encode_signal(heard)) == heard


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("dreamt", b"{}", "Invalid value 'dreamt'; a newer version may have written it"),
        ('a","x":1,"', b"{}", "Invalid value"),
        ("heard", b'{"kind":"started","at_ms":1}', "expected that of a 'heard' record, got 'started'"),
        ("dreamt", b'{"kind":"started","at_ms":1}', "expected that of a 'dreamt' record"),
        ("started", b'{"mood":"good"}', "unknown field `mood`"),
        ("stream_started", b"{}", "missing required field `effect_id`"),
        ("started", b"", "no signal"),
        ("started", b"}", "no signal"),
        ("started", b"[]", "no signal"),
        ("started", b"{", "no signal"),
    ],
)
def test_what_is_no_body_is_refused(kind, body, said):
    """Whole, and with the reason; whatever a damaged record says that it is."""
    with pytest.raises(CodecError, match=said):
        decode_signal_body(kind, 1, body)


def test_the_body_of_another_record_is_whole_already():
    """It says all by itself, and is not looked at."""
    assert whole_body("closed", 1, b"{...}") == b"{...}"


def test_a_default_means_for_ever_what_it_means_today():
    """What was left out of a stored record is what stands here. Add a field with its default; never change the default of one."""
    known = json.loads((GOLDEN / "defaults.json").read_bytes())
    assert json.loads(msgspec.json.encode(defaults())) == known


def defaults():
    """The defaults of all that a body may leave out, by class and field."""
    found = {}
    for kind in (*SIGNAL_KINDS, AssistantMessage, ToolCall, TokenUsage):
        own = {
            field.name: field.default if field.default_factory is NODEFAULT else field.default_factory()
            for field in msgspec.structs.fields(kind)
            if not field.required
        }
        if own:
            found[kind.__name__] = own
    return found


if __name__ == "__main__":
    (GOLDEN / "defaults.json").write_bytes(msgspec.json.format(msgspec.json.encode(defaults()), indent=1))
