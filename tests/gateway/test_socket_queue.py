"""The queue of a socket: bounded, in order, and honest about what it left out."""

import json

import pytest
from hypothesis import given, strategies as st

from agentrail.gateway.socket_queue import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, SendQueue
from agentrail.wire.server_frames import CloseCode


def drained(queue):
    """All that waits, read."""
    found = []
    while (frame := queue.take()) is not None:
        found.append(json.loads(frame))
    return found


def filled(count, **bounds):
    """A queue with so many replies."""
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


# --- what was published before


def test_the_past_of_a_session_takes_no_room_from_what_is_live():
    """However large: it is counted for no bound, and goes out by turns with what is."""
    queue = SendQueue(max_frames=4, max_bytes=100)
    assert queue.put_apart("s", 7, b'"' + b"p" * 1_000 + b'"')
    assert (queue.has_room, queue.is_half_full, queue.size_bytes) == (True, False, 0)
    assert queue.put(b"1")
    assert queue.put(b"2")
    assert queue.put_apart("t", None, b'"other"')
    assert [len(json.dumps(frame)) for frame in drained(queue)] == [1, 1_002, 1, 7]
    assert not queue.has_apart("s")
    assert queue.cursors == {"s": 7}


def test_what_of_the_past_has_not_gone_out_counts_for_no_cursor():
    """The client goes on in front of it; and what is not read any more does not go out."""
    queue = SendQueue()
    queue.put_event("s", 3, b"1")
    assert queue.put_apart("s", 9, b'"past"')
    queue.put_apart("t", 5, b'"past"')
    queue.forget("t")
    queue.close(CloseCode.GOING_DOWN)
    assert not queue.put_apart("s", 10, b'"late"')
    assert drained(queue) == [1, {"type": "closing", "reason": "shutdown", "cursors": {"s": 3}}]
