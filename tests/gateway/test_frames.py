"""Server-sent events, byte for byte: whatever a session says, a reader gets it back; and how their connections end."""

import json
import socket
from types import SimpleNamespace

import pytest
import trio
from hypothesis import given, settings, strategies as st

from agentrail.core.wire.codec import decode_event
from agentrail.errors import ErrorInfo
from agentrail.events import (
    Envelope,
    EventsLost,
    MessageDelta,
    PromptReceived,
    ToolExecutionStart,
    UnknownEvent,
)
from agentrail.gateway import chat_routes
from agentrail.gateway.chat_routes import finish_with
from agentrail.gateway.frame_ring import FrameRing, RingFrame
from agentrail.gateway.sse_frames import event_frame, retry_line, snapshot_frame
from agentrail.host import Limits, RequestRecord
from agentrail.host.identity import SessionOwner
from agentrail.messages import CallId, PromptRef, SessionId, Text, TokenUsage
from agentrail.testing.models import ScriptedModel, says
from tests.gateway.sse import parse
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time
from tests.wire.test_forms import SNAPSHOT

SESSION = SessionId("s")
NASTY = "a\nb\r\nc\rd\u2028e\u2029f\u0085g\0h\x0bi\x0cj\x1ck\x1dl\x1em\nevent: done\ndata: {}\n\nid: 9"


def at(seq, *, ephemeral=False):
    return Envelope(SESSION, seq, 5, (SESSION,), ephemeral)


def prompt(text, seq=3):
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


def record(**given):
    """A request that has ended behind event 7."""
    return RequestRecord(
        request_id="r-1", session_id=SessionId("s-1"), agent_id="desk", kind="stream", end_seq=7, **given
    )


@pytest.mark.host("H-068")
def test_a_stream_ends_behind_the_event_that_ends_its_request():
    """With usage and context where it is complete; with what went wrong where it is not."""
    ends = []

    def finish(reason, **told):
        ends.append((reason, {name: value for name, value in told.items() if value is not None}))

    ending, usage = SimpleNamespace(finish=finish), TokenUsage(input=5, output=2)
    failure = ErrorInfo(code="overloaded", message="later")
    finish_with(ending, record(status="completed", usage=usage, last_usage=usage, context_window=100))
    finish_with(ending, record(status="failed", error=failure, usage=usage))
    finish_with(ending, record(status="dropped", reason="a person said so"))
    (reason, told), failed, dropped = ends
    assert (reason, told["behind"], told["usage"]) == ("completed", 7, usage)
    assert (told["context"].tokens, told["context"].window) == (5, 100)
    assert failed == ("failed", {"behind": 7, "request_id": "r-1", "error": failure})
    assert dropped == ("dropped", {"behind": 7, "request_id": "r-1", "detail": "a person said so"})


@on_bounded_time
@pytest.mark.host("H-068")
async def test_a_stream_whose_end_cannot_be_told_ends_as_failed(monkeypatch):
    """One `done`, and not a connection that breaks off."""

    def fail(*_):
        message = "a bug of ours"
        raise ValueError(message)

    monkeypatch.setattr(chat_routes, "finish_with", fail)
    async with serving(answering("a")) as web:
        frames = await web.stream(said={"message": "Hi"})
        assert frames[-1].data["reason"] == "failed"


@on_bounded_time
@pytest.mark.host("H-071")
async def test_a_reader_who_does_not_read_holds_up_neither_others_nor_the_end():
    """Its write is stuck and deaf to cancellation: when its stream has to end, its connection is cut."""
    large = [says(*["x" * 50_000] * 40)] * 6
    async with serving(ScriptedModel(large)) as web:
        await web.chat(session_id="s-1")
        stalled = trio.socket.socket()
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        await stalled.connect(web.address)
        head = f"GET /sessions/s-1/events?after=0 HTTP/1.1\r\nHost: {web.address[0]}\r\n\r\n"
        await stalled.send(head.encode())
        assert b"200" in await stalled.recv(64)
        for _ in range(5):
            frames = await web.stream(said={"message": "Hi", "session_id": "s-1"})
            assert frames[-1].data["reason"] == "completed"
        assert json.loads((await web.client.get("/health")).content) == {"status": "ok"}
        assert web.served.gateway.places.in_all == 1
        hubs = web.served.gateway.hubs
        assert hubs is not None
        await hubs.close("shutdown", within_seconds=0.1)
        while web.served.gateway.places.in_all:  # noqa: ASYNC110 - what is waited for has no event
            await trio.sleep(0.005)
    stalled.close()


async def test_a_stream_beyond_the_limit_of_the_server_is_refused():
    """The caller's own limit is not reached: the server's is, and the answer says so."""
    async with serving(answering("a"), limits=Limits(max_streams=1)) as web:
        await web.chat(session_id="s-1")
        assert web.served.gateway.places.take(SessionOwner("another", "user")) not in ("caller", "process")
        refused = await web.client.get("/sessions/s-1/events")
        error = error_of(refused, 503, "server_full")
        assert error["message"] == "the limit of open streams of this server is reached"
