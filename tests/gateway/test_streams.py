"""Streams over HTTP as connections: what they end behind, and readers that do not read, over a real socket."""

import json
import socket
from types import SimpleNamespace

import pytest
import trio

from agentrail.errors import ErrorInfo
from agentrail.gateway import chat_routes
from agentrail.gateway.streams import finish_with
from agentrail.host import RequestRecord
from agentrail.messages import SessionId, TokenUsage
from agentrail.testing.models import ScriptedModel, says
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time


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
