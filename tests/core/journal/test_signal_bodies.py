"""Bodies of records that are signals: nothing that the record or a default says, and the very signal comes back; for ever."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import NODEFAULT

from agentrail.core.journal.recorded_steps import decode_signal_body, encode_signal_body, whole_body
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ToolFinished
from agentrail.core.wire.codec import SIGNAL_KINDS, decode_signal, encode_signal
from agentrail.errors import CodecError
from agentrail.messages import AssistantMessage, TokenUsage, ToolCall
from tests.core.anything import values_of
from tests.thinned import first

GOLDEN = Path(__file__).parent / "golden"


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


def test_half_of_a_character_becomes_what_it_becomes_in_the_whole_signal():
    """No record can hold it."""
    torn = ToolFinished(at_ms=8, effect_id=EffectId("t2"), text="A \ud800 fox.", started_at_ms=5)
    assert decode_signal_body("tool_finished", 8, encode_signal_body(torn)) == decode_signal(
        encode_signal(torn)
    )


def test_what_is_no_body_is_refused():
    """Whole, and with the reason; whatever a damaged record says that it is."""
    for kind, body, said in (
        ("dreamt", b"{}", "Invalid value 'dreamt'; it may come from a newer version"),
        ('a","x":1,"', b"{}", "Invalid value"),
        ("heard", b'{"kind":"started","at_ms":1}', "expected that of a 'heard' record, got 'started'"),
        ("dreamt", b'{"kind":"started","at_ms":1}', "expected that of a 'dreamt' record"),
        ("started", b'{"mood":"good"}', "unknown field `mood`"),
        ("stream_started", b"{}", "missing required field `effect_id`"),
        ("started", b"", "no signal"),
        ("started", b"}", "no signal"),
        ("started", b"[]", "no signal"),
        ("started", b"{", "no signal"),
    ):
        with pytest.raises(CodecError, match=said):
            decode_signal_body(kind, 1, body)


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
