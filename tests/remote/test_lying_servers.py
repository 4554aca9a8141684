"""Servers that lie, stumble or say nothing: each ends as an exception of ours, in bounded time and memory. And servers over TLS."""

import json
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

import agentrail
from agentrail.errors import AgentrailError, CodecError, Unreachable
from agentrail.events import EventsLost
from agentrail.gateway.serving import open_listeners, serve_app, tls_context
from agentrail.remote.connect import open_remote
from agentrail.remote.frame_codec import ServerFrame, decode_server_frame, terms_in
from agentrail.remote.read_position import RemoteReading
from agentrail.structs import replace
from agentrail.testing.clock import FakeClock
from tests.remote.fake_server import FakeServer, committed
from tests.runtime.rig import on_bounded_time, on_virtual_time

TLS = Path(__file__).parents[1] / "gateway" / "tls"

SAID = {"role": "user", "content": [{"kind": "text", "text": "hi"}]}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 1 << 70)
    | st.floats()
    | st.sampled_from(["failed", "completed", "", 10**4_000])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["seq", "session_id", "status", "error", "next", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


async def each_call(session):
    for call in (
        session.status,
        session.snapshot,
        session.messages,
        session.journal,
        session.turns,
        session.sessions,
        session.commands,
        lambda: session.prompt("Hi"),
        lambda: session.steer("Hi"),
        session.go_on,
        session.abort,
        lambda: session.rewind(1),
        lambda: session.state_at(1),
        lambda: session.receipt_of("c"),
        lambda: session.ask("Hi", timeout_seconds=2),
        lambda: session.run("Hi", timeout_seconds=2),
        lambda: session.collect_reply(timeout_seconds=2),
    ):
        with trio.move_on_after(10), suppress(AgentrailError):
            await call()


@pytest.mark.parametrize(("messages", "after"), [([], 5), ([SAID], 0)])
def test_pages_of_messages_that_lead_nowhere_end(messages, after):
    """An empty page that names a next one, again and again, or a page that leads back."""

    async def main():
        server = FakeServer()
        with trio.fail_after(3_600):
            async with open_remote(server.dial, "s-1", None, 30.0) as session:
                page = {"messages": messages}
                server.on_command = lambda frame: {**page, "next": after and frame["after"] + after}
                with pytest.raises(CodecError, match="so listing would never end"):
                    await session.messages()

    trio.run(main, clock=FakeClock())


@given(answer=JSON)
def test_whatever_a_server_answers_what_is_raised_is_ours(answer):
    """A result of any shape for any command: a value, or an `AgentrailError`."""

    async def main():
        server = FakeServer()
        with trio.fail_after(3_600):
            async with open_remote(server.dial, "s-1", None, 30.0) as session:
                server.on_command = lambda frame: answer if answer is not None else "null"
                await each_call(session)

    trio.run(main, clock=FakeClock())


@pytest.mark.parametrize("status", [["failed"], {"status": "failed"}, 5, None])
@on_virtual_time
async def test_a_request_whose_status_is_no_text_is_not_waited_for(status):
    """Nothing else would ever end the wait."""
    server = FakeServer()
    with trio.fail_after(10):
        async with open_remote(server.dial, "s-1", None, 30.0) as session:
            server.on_command = lambda frame: {"status": status}
            with pytest.raises(CodecError, match="status"):
                await session.wait_for_request("r-1")


@given(
    heartbeat=st.floats() | st.integers(-5, 5),
    limits=st.dictionaries(st.sampled_from(["frame_bytes", "commands_per_second"]), JSON),
)
def test_terms_that_cannot_be_are_refused(heartbeat, limits):
    """A heartbeat of nothing would be a client that does nothing else."""
    try:
        frame = json.dumps({"type": "welcome", "heartbeat": heartbeat, "limits": limits})
        terms = terms_in(decode_server_frame(frame))
    except CodecError:
        return
    assert 1 <= terms.heartbeat <= 3_600
    assert terms.frame_bytes >= 1
    assert terms.frames_a_second >= 2


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "event"},
        {"type": "event", "event": {"kind": "agent_start"}},
        {"type": "event", "event": {"kind": "agent_start", "seq": "one", "session_id": 5}},
        {"type": 5},
        {"no": "type"},
    ],
    ids=["none", "empty", "types", "number", "other"],
)
@on_virtual_time
async def test_a_frame_that_cannot_be_read_ends_all_with_a_reason(frame):
    """What waits for an answer and what is read end alike; nothing hangs, and nothing is tried again."""
    server = FakeServer()
    with trio.fail_after(600):
        async with open_remote(server.dial, "s-1", None, 30.0) as session:
            server.on_command = lambda frame: None
            async with trio.open_nursery() as nursery, session.subscribe() as events:

                async def ask():
                    with pytest.raises(CodecError):
                        await session.status()

                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                await server.say(**frame)
                with pytest.raises(CodecError):
                    await anext(events)
    assert len(server.dialled_at) == 1


@on_virtual_time
async def test_events_out_of_order_twice_or_of_others_change_nothing():
    """Numbers go up, each once; what goes back is left out."""
    server = FakeServer()
    with trio.fail_after(600):
        async with open_remote(server.dial, "s-1", None, 30.0) as session, session.subscribe() as events:
            for number in (1, 3, 2, 3, 1, 4):
                await server.publish(committed(number))
            assert [(await anext(events)).meta.seq for _ in range(3)] == [1, 3, 4]


def test_losses_on_end_fill_no_memory():
    """A server that says for ever that events were lost is one loss to read, and its last snapshot."""
    reading = RemoteReading("s-1", after=0, kinds=None, deltas=True, limit=4)
    frame = ServerFrame(type="subscribed", session_id="s-1", seq=5, snapshot=b"{}")
    reading.take_subscribed(frame)
    for number in range(1, 1_000):
        lost = EventsLost(from_seq=number, to_seq=number + 1)
        reading.take_event(replace(lost, meta=committed(number).meta))
        reading.take_subscribed(frame)
    assert reading.waiting == 1
    assert reading.next().from_seq == 1


async def _app(scope, receive, send):
    """Refuse every upgrade with 401, so that it is known that TLS stands."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await receive()
    await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
    await send({"type": "websocket.http.response.body", "body": b""})


@on_bounded_time
async def test_a_certificate_is_judged_and_another_authority_can_be_given():
    """By default one that the machine does not trust is refused at once; with its authority it is spoken to; and never under another name."""
    trusting = ssl.create_default_context(cafile=TLS / "certificate.pem")
    served = tls_context(TLS / "certificate.pem", TLS / "key.pem")
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:

        async def serve(task_status=trio.TASK_STATUS_IGNORED):
            await serve_app(_app, listeners, trio.sleep_forever, tls=served, task_status=task_status)

        await nursery.start(serve)
        with pytest.raises(Unreachable, match="not trusted"):
            async with agentrail.connect(f"https://localhost:{port}", "t"):
                pass
        with pytest.raises(agentrail.errors.Unauthorized):
            async with agentrail.connect(f"wss://localhost:{port}", "t", tls=trusting):
                pass
        nursery.cancel_scope.cancel()
