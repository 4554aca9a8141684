"""The parts of a socket: its queue, which is bounded, in order, and honest about what it left out; its frames; and its memory of commands."""

import json
from functools import partial

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.gateway import idempotency
from agentrail.gateway.error_responses import error_answer
from agentrail.gateway.idempotency import CommandMemory
from agentrail.gateway.socket_frames import (
    CommandFrame,
    FrameRefused,
    agreed_heartbeat,
    decode_frame,
    welcome_frame,
)
from agentrail.gateway.socket_queue import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, SendQueue
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import Limits
from agentrail.wire.server_frames import REASONS, CloseCode


def drained(queue):
    found = []
    while (frame := queue.take()) is not None:
        found.append(json.loads(frame))
    return found


def filled(count, **bounds):
    queue = SendQueue(**bounds)
    for number in range(count):
        assert queue.put(b"%d" % number)
    return queue


def test_from_half_full_on_deltas_are_left_out_and_one_lag_tells_how_many():
    """For each session its own; the next that goes out of a session stands behind it."""
    queue = filled(127)
    assert queue.put_delta("s", b'"fits"')
    for _ in range(5):
        assert not queue.put_delta("s", b'"late"')
    assert not queue.put_delta("t", b'"late"')
    assert queue.put_event("s", 9, b'"committed"')
    for _ in range(60):
        queue.take()
    assert queue.put_delta("s", b'"again"')
    assert drained(queue)[-4:] == [
        "committed",
        {"type": "lag", "session_id": "s", "dropped": 5},
        "again",
        {"type": "lag", "session_id": "t", "dropped": 1},
    ]
    assert queue.take() is None


@pytest.mark.parametrize("how", ["frames", "bytes"])
def test_a_committed_event_without_room_closes_with_a_cursor_per_session(how):
    """4409, behind all that was taken; nothing is taken behind that, and no second `closing` comes."""
    queue = SendQueue()
    queue.put_event("s", 4, b"4")
    queue.put_event("t", 8, b"8")
    if how == "bytes":
        assert queue.put(b'"%b"' % (b"x" * MAX_QUEUED_BYTES))
    else:
        for number in range(MAX_QUEUED_FRAMES - 2):
            assert queue.put_event("s", number + 5, b"0")
    last = queue.cursors["s"]
    assert not queue.put_event("t", 9, b"9")
    assert queue.closing is CloseCode.SLOW
    assert not queue.put(b"1")
    assert not queue.put_delta("s", b"1")
    queue.close(CloseCode.GOING_DOWN)
    found = drained(queue)
    assert found[-1] == {"type": "closing", "reason": "slow_reader", "cursors": {"s": last, "t": 8}}
    assert [frame for frame in found if isinstance(frame, dict)] == found[-1:]
    assert queue.take() is None


def test_a_closing_socket_reports_what_was_left_out_first():
    """`lag` for each session, then `closing`, which nothing follows."""
    queue = filled(128)
    for session_id in ("s", "t", "s"):
        assert not queue.put_delta(session_id, b"0")
    queue.close(CloseCode.GOING_DOWN)
    assert drained(queue)[-3:] == [
        {"type": "lag", "session_id": "s", "dropped": 2},
        {"type": "lag", "session_id": "t", "dropped": 1},
        {"type": "closing", "reason": "shutdown", "cursors": {}},
    ]


MOVES = st.lists(st.sampled_from(["event", "delta", "take", "take", "close"]), max_size=60)


@given(moves=MOVES, most=st.integers(1, 8))
def test_whatever_happens_no_committed_event_is_missing_and_all_that_was_left_out_is_told(moves, most):
    """Committed events are dense up to the cursor; deltas that came, and those that lags tell of, are all there were."""
    queue = SendQueue(max_frames=most)
    out, seq, deltas = [], 0, 0
    for move in moves:
        if move == "event" and queue.put_event("s", seq + 1, b'{"seq":%d}' % (seq + 1)):
            seq += 1
        elif move == "delta" and queue.closing is None:
            queue.put_delta("s", b'{"delta":1}')
            deltas += 1
        elif move == "take":
            frame = queue.take()
            out += [] if frame is None else [json.loads(frame)]
        elif move == "close" and most == 1:
            queue.close(CloseCode.FLOOD)
        assert len(queue) <= most + 2  # a lag, and what it closes with
    out += drained(queue)
    assert [frame["seq"] for frame in out if "seq" in frame] == list(range(1, seq + 1))
    told = sum(frame["dropped"] for frame in out if frame.get("type") == "lag")
    assert told + sum("delta" in frame for frame in out) == deltas
    if queue.closing is not None:
        assert out[-1]["type"] == "closing"
        assert out[-1]["cursors"] == ({"s": seq} if seq else {})


def test_the_past_of_a_session_takes_no_room_from_what_is_live():
    """However large, it counts for no bound and goes out in turns; what has not gone out counts for no cursor."""
    queue = SendQueue(max_frames=4, max_bytes=100)
    assert queue.put_apart("s", 7, b'"' + b"p" * 1_000 + b'"')
    assert (queue.has_room, queue.is_half_full, queue.size_bytes) == (True, False, 0)
    assert queue.put(b"1")
    assert queue.put(b"2")
    assert queue.put_apart("t", None, b'"other"')
    assert [len(json.dumps(frame)) for frame in drained(queue)] == [1, 1_002, 1, 7]
    assert not queue.has_apart("s")
    assert queue.cursors == {"s": 7}
    assert queue.put_apart("s", 9, b'"past"')
    queue.put_apart("t", 5, b'"past"')
    queue.forget("t")
    queue.close(CloseCode.GOING_DOWN)
    assert not queue.put_apart("s", 10, b'"late"')
    assert drained(queue) == [{"type": "closing", "reason": "shutdown", "cursors": {"s": 7}}]


LIMITS = Limits()
COMMANDS = frozenset({"prompt", "abort"})


def read(text, limits=LIMITS):
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
    """The nearest to what was asked for; and each code that a socket closes with has its reason (8.9)."""
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
    assert {int(code) for code in CloseCode} == {1001, 1009, 1011, 4400, 4401, 4408, 4409, 4429}
    assert set(REASONS) == set(CloseCode)


ANN = SessionOwner("acme", "ann")


async def test_what_was_refused_for_the_moment_is_tried_again():
    """A 429 or a fault of ours is no outcome of a command, a refusal for good is; what is remembered is bounded by caller and size."""
    memory, codes = CommandMemory(), ["too_many_requests", "internal", "approval_unknown", "never"]
    abort = CommandFrame(name="abort", id=1, session_id="s", fields={}, size=10)

    async def work():
        await trio.lowlevel.checkpoint()
        return error_answer(codes.pop(0), "no")

    async def work_of(size):
        await trio.lowlevel.checkpoint()
        return b"x" * size

    async with trio.open_nursery() as nursery:
        found = [(await memory.do_once(ANN, abort, "k", nursery, work)).code for _ in range(4)]
        assert found == ["too_many_requests", "internal", "approval_unknown", "approval_unknown"]
        memory = CommandMemory()
        for number in range(300):
            await memory.do_once(ANN, abort, f"k{number}", nursery, partial(work_of, 1_000))
        large = partial(work_of, idempotency.MAX_KEPT_RESULT_BYTES + 1)
        await memory.do_once(ANN, abort, "large", nursery, large)
    assert len(memory) == idempotency.MAX_KEPT_OF_EACH
    assert memory.size_bytes == 1_000 * len(memory)
