"""Server-sent events, byte for byte: whatever a session says, a reader gets it back."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from agentrail.core.wire.codec import decode_event
from agentrail.events import (
    Envelope,
    EventsLost,
    MessageDelta,
    PromptReceived,
    ToolExecutionStart,
    UnknownEvent,
)
from agentrail.gateway.frame_ring import FrameRing, RingFrame
from agentrail.gateway.sse_frames import event_frame, retry_line, snapshot_frame
from agentrail.messages import CallId, PromptRef, SessionId, Text
from tests.gateway.sse import parse
from tests.wire.test_forms import SNAPSHOT

SESSION = SessionId("s")
NASTY = "a\nb\r\nc\rd\u2028e\u2029f\u0085g\0h\x0bi\x0cj\x1ck\x1dl\x1em\nevent: done\ndata: {}\n\nid: 9"


def at(seq, *, ephemeral=False):
    """Where an event stands."""
    return Envelope(SESSION, seq, 5, (SESSION,), ephemeral)


def prompt(text, seq=3):
    """An event with a text."""
    return PromptReceived(ref=PromptRef("p"), content=(Text(text=text),), meta=at(seq))


@pytest.mark.host("H-067")
def test_only_committed_events_have_an_id():
    """A reader that comes back after one that will not be replayed would lose what follows."""
    assert event_frame(prompt("Hi", 7)).endswith(b"\nid: 7\n\n")
    for event in (
        MessageDelta(delta="a", meta=at(7, ephemeral=True)),
        EventsLost(from_seq=1, to_seq=7, meta=at(7, ephemeral=True)),
        prompt("by hand").__class__(ref=PromptRef("p"), content=()),
    ):
        assert b"\nid:" not in event_frame(event)
    assert b"\nid:" not in snapshot_frame(SNAPSHOT)


@pytest.mark.host("H-073")
@pytest.mark.parametrize("careless", [False, True])
def test_line_ends_and_nul_in_texts_and_arguments_survive(careless):
    """For a reader by the standard, and for one that takes more for the end of a line."""
    events = [
        prompt(NASTY),
        ToolExecutionStart(call_id=CallId("c"), name="t", arguments={NASTY: [NASTY]}, meta=at(4)),
        MessageDelta(delta=NASTY, meta=at(4, ephemeral=True)),
    ]
    read = parse(retry_line(0.5) + b"".join([event_frame(event) for event in events]), careless=careless)
    assert [decode_event(json.dumps(frame.data)) for frame in read] == events
    assert [frame.event for frame in read] == ["prompt_received", "tool_execution_start", "message_delta"]
    assert [frame.id for frame in read] == ["3", "4", None]


@pytest.mark.host("H-073")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=1, max_size=3))
def test_any_text_survives(texts):
    """Frames behind each other are as many as there were, each with what it said."""
    stream = b"".join([event_frame(prompt(text)) for text in texts])
    for careless in (False, True):
        assert [frame.data["content"][0]["text"] for frame in parse(stream, careless=careless)] == texts


def test_an_event_of_a_newer_version_is_passed_on_and_ends_no_frame():
    """Its kind is any text, and its document is written as it came."""
    plain = decode_event(
        b'{"kind": "brand_new", "seq": 4, "session_id": "s", "at_ms": 1, "x": "\xe2\x80\xa8"}'
    )
    (frame,) = parse(event_frame(plain), careless=True)
    assert (frame.event, frame.id, frame.data["x"]) == ("brand_new", "4", "\u2028")
    forged = UnknownEvent(kind="a\n\nevent: done", document=b'{"kind":\n"a",\r"seq": 1}', meta=at(1))
    (frame,) = parse(event_frame(forged))
    assert (frame.event, frame.data) == ("unknown", {"kind": "a", "seq": 1})


@given(draw=st.floats(0, 1, exclude_max=True))
def test_readers_come_back_spread_over_half_a_second_to_three(draw):
    """A server that ends would otherwise have all of them back in the same second."""
    (line,) = retry_line(draw).splitlines()
    assert 500 <= int(line.removeprefix(b"retry: ")) < 3_000


def frame_of(size):
    """A frame of so many bytes."""
    return RingFrame(b"x" * size, size)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 40),
    st.lists(st.one_of(st.tuples(st.just("append"), st.integers(0, 30)), st.tuples(st.just("drop"), st.integers(0, 40)))),
)  # fmt: skip
def test_a_ring_is_the_end_of_a_list(most, most_bytes, steps):
    """Against a plain list: the same frames at the same positions, and never more than it may hold, but for the last one."""
    ring, all_of_them, first = FrameRing(max_frames=most, max_bytes=most_bytes), [], 0
    for kind, number in steps:
        if kind == "append":
            all_of_them.append(frame_of(number))
            ring.append(all_of_them[-1])
            first = max(first, len(all_of_them) - most)
            while (
                sum(len(one.data) for one in all_of_them[first:]) > most_bytes
                and len(all_of_them) - first > 1
            ):
                first += 1
        else:
            ring.drop_before(number)
            first = max(first, min(number, len(all_of_them)))
        assert (ring.first, ring.end) == (first, len(all_of_them))
        assert [ring.at(place) for place in range(ring.first, ring.end)] == all_of_them[first:]
        assert ring.size_bytes == sum(len(one.data) for one in all_of_them[first:])
