"""Frames of the WebSocket: what is read, what is refused and how, and what is written."""

import json

import pytest

from agentrail.core.wire.codec import decode_event, encode_event
from agentrail.events import LoopDetected, MessageDelta
from agentrail.gateway.answers import error_answer
from agentrail.gateway.socket_frames import (
    CommandFrame,
    FrameMalformed,
    FrameRefused,
    Hello,
    Ping,
    Subscribe,
    Unsubscribe,
    WatchRows,
    agreed_heartbeat,
    changed_frame,
    decode_frame,
    refusal_frame,
    reply_frame,
    socket_event_frame,
    watching_frame,
    welcome_frame,
)
from agentrail.gateway.watch_window import WatchPart
from agentrail.host.limits import Limits
from agentrail.wire.plain import encode_plain
from agentrail.wire.rows import RowFilter, SessionRow, WaitingCounts, decode_row
from agentrail.wire.server_frames import REASONS, CloseCode

LIMITS = Limits()
COMMANDS = frozenset({"prompt", "abort"})


def read(text, limits=LIMITS):
    """Read a frame, given as text or as an object."""
    raw = text if isinstance(text, str) else json.dumps(text)
    return decode_frame(raw.encode(), limits, COMMANDS)


@pytest.mark.parametrize(
    ("sent", "made"),
    [
        ({"type": "hello", "token": "t", "heartbeat": 7}, Hello(token="t", heartbeat=7.0)),  # noqa: S106 - none that opens anything,
        ({"type": "hello"}, Hello()),
        ({"type": "ping", "n": 3}, Ping(n=3)),
        ({"type": "subscribe", "id": 1, "session_id": "s"}, Subscribe(id=1, session_id="s")),
        (
            {
                "type": "subscribe",
                "id": "a",
                "session_id": "s",
                "after": 0,
                "kinds": ["agent_end"],
                "deltas": False,
            },
            Subscribe(id="a", session_id="s", after=0, kinds=("agent_end",), deltas=False),
        ),
        ({"type": "unsubscribe", "id": "a", "session_id": "s"}, Unsubscribe(id="a", session_id="s")),
        (
            {"type": "prompt", "id": 1, "session_id": "s", "message": "Hi", "client_id": "c"},
            CommandFrame(
                name="prompt", id=1, session_id="s", fields={"message": "Hi", "client_id": "c"}, size=81
            ),
        ),
        ({"type": "abort", "id": 1}, CommandFrame(name="abort", id=1, session_id=None, fields={}, size=26)),
    ],
)
def test_what_a_client_may_send_is_read(sent, made):
    """Each frame of 8.9."""
    assert read(sent) == made


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "{",
        "[]",
        "1",
        '"hello"',
        '{"type": NaN}',
        "[" * 70,
        '{"n":' * 70,
        "{}",
        '{"type":1}',
        '{"type":"shout"}',
        "\ufeff{}",
    ],
)
def test_what_is_no_frame_is_malformed(sent):
    """No JSON object, or of an unknown type: the third closes the socket."""
    with pytest.raises(FrameMalformed) as caught:
        read(sent)
    assert caught.value.answer.status in (400, 422)


def test_a_malformed_frame_is_replied_to_by_its_id():
    """Where it has one."""
    with pytest.raises(FrameMalformed) as caught:
        read({"type": "shout", "id": "a"})
    assert caught.value.frame_id == "a"


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


def test_a_token_stands_in_no_text_of_a_frame():
    """Neither in its repr nor in what refuses it."""
    assert "secret" not in repr(read({"type": "hello", "token": "secret"}))
    for wrong in ({"token": ["secret"]}, {"token": "secret" * 1_000}, {"token": "secret", "heartbeat": "x"}):
        with pytest.raises(FrameRefused) as caught:
            read({"type": "hello", **wrong})
        assert "secret" not in str(caught.value)


def test_an_event_has_its_wire_form_in_a_field_of_its_own():
    """Whatever stands in it, a client that knows the wire form reads it: also one that has a `type` itself."""
    for event in (
        MessageDelta(delta='\u2028\0"}\n'),
        LoopDetected(type="repeat_pattern", name="book", count=3),
    ):
        frame = socket_event_frame(event)
        assert json.loads(frame) == {"type": "event", "event": json.loads(encode_event(event))}
        assert decode_event(json.dumps(json.loads(frame)["event"])) == event


def test_replies_say_what_http_says():
    """The error with its status, and when to try again."""
    assert json.loads(reply_frame("a", b'{"x":1}')) == {
        "type": "reply",
        "id": "a",
        "ok": True,
        "result": {"x": 1},
    }
    frame = json.loads(refusal_frame(None, error_answer("store_unavailable", "…")))
    assert (frame["ok"], frame["id"]) == (False, None)
    assert (frame["error"]["code"], frame["error"]["status"], frame["error"]["retry_after"]) == (
        "store_unavailable",
        503,
        "5",
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


def test_rows_that_are_watched_stand_in_frames_as_they_are():
    """`watching` first, `changed` behind it; what was left out of a row is null and not missing."""
    row = SessionRow(
        session_id="s-1",
        phase="idle",
        waiting=WaitingCounts(approvals=0, questions=0),
        changed_at_ms=5,
        user="ann",
    )
    part = WatchPart(rows=(encode_plain(row),), gone=("s-0",), total=7)
    asked = read({"type": "watch", "id": 1, "what": "sessions", "filter": {"ended": False}})
    assert asked == WatchRows(id=1, what="sessions", filter=RowFilter(ended=False))
    told = {
        "session_id": "s-1",
        "title": None,
        "first_words": None,
        "agent_id": None,
        "phase": "idle",
        "suspended": False,
        "tearing_down": False,
        "tool": None,
        "running": 0,
        "waiting": {"approvals": 0, "questions": 0},
        "queued": 0,
        "model": None,
        "turn": 0,
        "tokens": None,
        "cost_usd": None,
        "created_at_ms": None,
        "changed_at_ms": 5,
        "outcome": None,
        "restarts": 0,
        "parent": None,
        "ended": False,
        "user": "ann",
    }
    assert json.loads(watching_frame(asked, part)) == {
        "type": "watching",
        "id": 1,
        "what": "sessions",
        "rows": [told],
        "total": 7,
    }
    assert json.loads(changed_frame(1, part)) == {
        "type": "changed",
        "id": 1,
        "rows": [told],
        "gone": ["s-0"],
        "total": 7,
    }
    assert decode_row(SessionRow, {**told, "added": 1}) == row


def test_each_code_has_its_reason():
    """As 8.9 lists them, and one for faults of ours."""
    assert {int(code) for code in CloseCode} == {1001, 1009, 1011, 4400, 4401, 4408, 4409, 4429}
    assert set(REASONS) == set(CloseCode)
