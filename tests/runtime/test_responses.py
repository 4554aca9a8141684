"""Responses of providers, held to their types: what is let through by hand comes back from its bytes."""

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, strategies as st

from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.core.wire.codec import decode_signal, encode_signal
from agentrail.core.wire.normalize import settled
from agentrail.errors import CodecError, ProtocolError
from agentrail.messages import AssistantMessage, CallId, Text, TokenUsage, ToolCall
from agentrail.runtime.model_lookup import is_plain, readable

PLAIN = ResponseCompleted(
    at_ms=5,
    effect_id=EffectId("s1"),
    message=AssistantMessage(
        content=(Text(text="Hi"), ToolCall(call_id=CallId("c"), name="add", arguments={"a": 2, "b": None})),
        model="m",
        stop_reason="tool_use",
    ),
    usage=TokenUsage(input=5, cost_usd=0.5),
    stop_reason="tool_use",
)
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 5, 0.5, "end", "odd", b"x", True, (), ("a",), {"a": 1}, {1: 2}, object(), -(2**70), "\ud800"]
)
PLACES = (
    ("message",),
    ("usage",),
    ("stop_reason",),
    ("jitter",),
    ("misfit",),
    *(("message", name) for name in ("content", "model", "stop_reason", "cut")),
    *(
        ("usage", name)
        for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost_usd", "estimated")
    ),
    *(("text", name) for name in ("text",)),
    *(("call", name) for name in ("call_id", "name", "arguments", "malformed")),
)


def with_odd(place: tuple[str, ...], odd: Any) -> ResponseCompleted:
    """A plain response with one value in the place of another."""
    made = msgspec.structs.replace(PLAIN)
    text, call = (msgspec.structs.replace(block) for block in PLAIN.message.content)
    parts: dict[str, Any] = {"text": text, "call": call, "usage": msgspec.structs.replace(PLAIN.usage)}
    parts["message"] = msgspec.structs.replace(PLAIN.message, content=(text, call))
    msgspec.structs.force_setattr(made, "message", parts["message"])
    msgspec.structs.force_setattr(made, "usage", parts["usage"])
    if place[0] == "usage" and len(place) == 2:
        try:
            msgspec.structs.force_setattr(made, "usage", TokenUsage(**{place[-1]: odd}))
        except TypeError:  # it refuses that itself
            assume(False)  # noqa: FBT003
        return made
    target = made if len(place) == 1 else parts[place[0]]
    msgspec.structs.force_setattr(target, place[-1], odd)
    return made


@given(place=st.sampled_from(PLACES), odd=ODD)
def test_what_is_let_through_by_hand_comes_back_from_its_bytes(place, odd):
    """Whatever stands in the place of whatever: else a journal could not be folded behind it."""
    response = with_odd(place, odd)
    if is_plain(response):
        said = settled(response)
        assert decode_signal(encode_signal(said)) == said


def test_what_is_none_is_refused():
    """With the model, and what is wrong."""
    with pytest.raises(ProtocolError, match="the provider of m returned an invalid response") as caught:
        readable(with_odd(("message", "stop_reason"), "odd"), "m")
    assert not isinstance(caught.value, CodecError)
