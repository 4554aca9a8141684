"""Frames of the WebSocket: what is read, what is refused and how, and what is written."""

import json

import pytest

from agentrail.gateway.socket_frames import (
    FrameRefused,
    agreed_heartbeat,
    decode_frame,
    welcome_frame,
)
from agentrail.host.quotas import Limits
from agentrail.wire.server_frames import REASONS, CloseCode

LIMITS = Limits()
COMMANDS = frozenset({"prompt", "abort"})


def read(text, limits=LIMITS):
    """Read a frame, given as text or as an object."""
    raw = text if isinstance(text, str) else json.dumps(text)
    return decode_frame(raw.encode(), limits, COMMANDS)


@pytest.mark.host("H-085")
@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"type": "hello", "tokn": "x"}, "field_unknown"),
        ({"type": "hello", "token": 5}, "field_invalid"),
        ({"type": "hello", "token": "x" * 5_000}, "field_invalid"),
        ({"type": "hello", "heartbeat": -1}, "field_invalid"),
        ({"type": "hello", "heartbeat": 1e300}, "field_invalid"),
        ({"type": "ping", "n": 1 << 60}, "field_invalid"),
        ({"type": "subscribe", "session_id": "s"}, "field_invalid"),
        ({"type": "subscribe", "id": True, "session_id": "s"}, "field_invalid"),
        ({"type": "subscribe", "id": "x" * 129, "session_id": "s"}, "field_invalid"),
        ({"type": "subscribe", "id": 1}, "field_invalid"),
        ({"type": "subscribe", "id": 1, "session_id": "s", "after": -1}, "cursor_invalid"),
        ({"type": "subscribe", "id": 1, "session_id": "s", "after": 1 << 60}, "cursor_invalid"),
        ({"type": "subscribe", "id": 1, "session_id": "s", "after": "1"}, "field_invalid"),
        ({"type": "subscribe", "id": 1, "session_id": "s", "kinds": ["agent_ent"]}, "field_invalid"),
        ({"type": "prompt", "session_id": "s"}, "field_invalid"),
        ({"type": "prompt", "id": 1, "session_id": 5}, "field_invalid"),
        *[
            ({"type": kind, "id": 1, "session_id": bad}, "id_invalid")
            for kind in ("prompt", "subscribe", "unsubscribe")
            for bad in ("a/b", "..", "a\0", "a b", "x" * 129, "")
        ],
    ],
)
def test_a_frame_whose_fields_cannot_be_is_refused_and_the_socket_goes_on(sent, code):
    """With the code that the same fault has over HTTP."""
    with pytest.raises(FrameRefused) as caught:
        read(sent)
    assert caught.value.answer.code == code
    assert caught.value.frame_id == (
        sent.get("id") if sent.get("id") == 1 and sent["id"] is not True else None
    )


@pytest.mark.at(78)
@pytest.mark.parametrize(("asked", "agreed"), [(None, 15), (0, 5), (5, 5), (30, 30), (1e9, 60)])
def test_a_heartbeat_lies_between_5_and_60_seconds(asked, agreed):
    """The nearest to what was asked for."""
    assert agreed_heartbeat(asked) == agreed
    told = welcome_frame(agreed, LIMITS, version="1.2", instance="i-1")
    assert json.loads(told) == {
        "type": "welcome",
        "protocol": "agentrail.v1",
        "heartbeat": agreed,
        "limits": {"frame_bytes": 1 << 20, "subscriptions": 64, "commands_per_second": 100},
        "version": "1.2",
        "instance": "i-1",
    }


def test_each_code_has_its_reason():
    """As 8.9 lists them, and one for faults of ours."""
    assert {int(code) for code in CloseCode} == {1001, 1009, 1011, 4400, 4401, 4408, 4409, 4429}
    assert set(REASONS) == set(CloseCode)
