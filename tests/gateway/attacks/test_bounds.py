"""What one caller can take of a server: places, bodies, calls and tasks; and that all of it comes back, however a call ends."""

import json
import threading

import pytest
import trio

from agentrail.gateway import chat_routes, endpoint, open_socket, sockets as sockets_module
from agentrail.gateway.answers import CallRefused
from agentrail.gateway.reading import BodyReader
from agentrail.gateway.serving import ConnectionLimits, tls_context
from agentrail.host import Limits
from agentrail.host.identity import SessionOwner
from tests.gateway.attacks.memory import Caller, in_memory, struck_at
from tests.gateway.attacks.wire import ANN as ANN_SAYS, FREE, JSON, by_header
from tests.gateway.test_serving import TLS, App, read_all, serving as serving_app
from tests.gateway.web import serving
from tests.host.hosting import ANN, BOB, Ledger, answering
from tests.runtime.rig import on_bounded_time, on_virtual_time

OWNER = SessionOwner.of(ANN)

# --- what is taken comes back


CALLS = {
    "chat": ("POST", "/chat", {"message": "Hi"}),
    "stream": ("POST", "/stream", {"message": "Hi"}),
    "abort": ("POST", "/chat", {"message": "Hi", "on_disconnect": "abort"}),
    "prompt": ("POST", "/sessions/s-1/prompt", {"message": "Hi"}),
    "create": ("POST", "/sessions", {}),
    "refused": ("POST", "/chat", b'{"message": 5}'),
}


@pytest.mark.parametrize("how", ["cancelled", "left"])
@pytest.mark.parametrize("name", CALLS)
@on_virtual_time
async def test_a_call_that_is_struck_at_any_step_leaves_nothing(name, how):
    """No place, no byte of a body, no reader, no session of the quota; and each request that began has one end."""
    method, path, said = CALLS[name]
    ledger = Ledger()
    async with in_memory(answering(*["a"] * 2_000), ledger) as (app, host):
        await host.create(ANN, session_id="s-1")
        gateway = app.state.host.gateway
        for step in range(1, 2_000):
            caller = Caller(app, method, path, said)
            with trio.fail_after(100):
                was_struck = await struck_at(step, caller, how)
                await host.quiet()
            assert gateway.places.in_all == 0, step
            assert gateway.bodies.held_bytes == 0, step
            assert gateway.hubs.statistics().readers == 0, step
            kinds = [hook for hook, _, _ in ledger.heard]
            assert kinds.count("start") == kinds.count("end"), step
            if not was_struck:
                break
        assert step > 5
        live = {one.session_id for one in host.sessions_of(ANN)}
        assert host._parts.sessions._open_sessions.of(OWNER) == len(live)  # noqa: SLF001 - no call shows it
        assert not gateway.bodies._held_of  # noqa: SLF001


@on_virtual_time
async def test_a_stream_that_is_read_by_one_who_leaves_gives_its_place_back():
    """At any moment, also of a session that says nothing."""
    async with in_memory(answering("a")) as (app, host):
        await host.create(ANN, session_id="s-1")
        places = app.state.host.gateway.places
        for how in ("cancelled", "left"):
            for step in range(1, 60):
                caller = Caller(app, "GET", "/sessions/s-1/events")
                with trio.move_on_after(1):
                    await struck_at(step, caller, how)
                assert places.in_all == 0, (how, step)


# --- one caller and all others


@on_virtual_time
async def test_bodies_of_one_caller_take_half_of_the_room_at_most():
    """One who sends many large ones slowly would keep all others out for hours."""
    reader = BodyReader(max_bytes_at_once=100, slow_start_seconds=5.0)

    def sends(*pieces):
        given = iter(pieces)

        async def receive():
            piece = next(given, None)
            if piece is None:
                await trio.sleep_forever()
            return {"type": "http.request", "body": piece, "more_body": True}

        return receive

    async with trio.open_nursery() as nursery:

        async def slow():
            with pytest.raises(CallRefused, match="expected the body within"):
                await reader.read(sends(b"x" * 25), {}, 99, caller="ann")

        nursery.start_soon(slow)
        nursery.start_soon(slow)
        await trio.testing.wait_all_tasks_blocked()
        assert reader.held_bytes == 50
        with pytest.raises(CallRefused) as refused:
            await reader.read(sends(b"x"), {}, 99, caller="ann")
        assert (refused.value.answer.status, refused.value.answer.headers["retry-after"]) == (429, "5")
        with pytest.raises(CallRefused, match="expected the body within"):
            await reader.read(sends(b"x" * 50), {}, 99, caller="bob")
        with pytest.raises(CallRefused, match="as many bodies as it has room for"):
            await reader.read(sends(b"x" * 101), {}, 999, caller="eve")
    assert reader.held_bytes == 0
    assert not reader._held_of  # noqa: SLF001 - a caller would be kept for each that there ever was


@on_virtual_time
async def test_calls_that_cannot_be_read_are_counted_like_others():
    """Else one could send as many as one likes; what stops something is free all the same."""
    bad = [b"{", b'{"nothing": 1}', b'{"message": ""}']
    async with in_memory(answering("a"), limits=Limits(calls_burst=3, calls_per_minute=1)) as (app, _):
        found = []
        for place in range(6):
            caller = Caller(app, "POST", "/chat", bad[place % 3])
            await caller.run()
            found.append(caller.status)
        assert found == [400, 422, 422, 429, 429, 429]
        for _ in range(5):
            stops = Caller(app, "POST", "/sessions/s-1/abort", b"{")
            await stops.run()
            assert stops.status == 400


@on_virtual_time
async def test_who_says_another_address_is_counted_by_the_own_one():
    """A header names as many addresses as one likes."""
    async with in_memory(answering("a"), limits=Limits(failed_authentications_per_minute=3)) as (app, _):
        found = []
        for number in range(5):
            forged = {
                f"{name}": f"10.0.0.{number}" for name in ("x-forwarded-for", "x-real-ip", "cf-connecting-ip")
            }
            caller = Caller(app, "GET", "/sessions", headers={"authorization": "Bearer wrong", **forged})
            await caller.run()
            found.append(caller.status)
        assert found == [401, 401, 401, 429, 429]


@on_virtual_time
async def test_sockets_of_strangers_are_counted_by_their_network(monkeypatch):
    """Who has one address of IPv6 has 2^64 of them, and would take the places of all others."""
    monkeypatch.setattr(sockets_module, "MAX_UNKNOWN_OF_EACH", 2)
    async with in_memory(answering("a")) as (app, _), trio.open_nursery() as nursery:
        own = {"authorization": "", "origin": "http://127.0.0.1"}
        near = [
            Caller(app, "GET", "/ws", headers=own, peer=f"2001:db8::{number}", kind="websocket")
            for number in range(1, 4)
        ]
        far = Caller(app, "GET", "/ws", headers=own, peer="2001:db8:0:1::1", kind="websocket")
        for one in (*near, far):
            nursery.start_soon(one.run)
            await trio.testing.wait_all_tasks_blocked()
        assert [one.status for one in (*near, far)] == [None, None, 429, None]
        assert app.state.host.sockets.statistics().unknown == 3
        nursery.cancel_scope.cancel()


@on_virtual_time
async def test_a_head_of_a_stream_opens_none():
    """It would be open for ever, and show nothing."""
    async with in_memory(answering("a")) as (app, host):
        await host.create(ANN, session_id="s-1")
        caller = Caller(app, "HEAD", "/sessions/s-1/events")
        with trio.fail_after(1):
            await caller.run()
        assert caller.status == 405
        plain = Caller(app, "HEAD", "/sessions/s-1")
        await plain.run()
        assert plain.status == 200


@on_virtual_time
async def test_readiness_is_looked_at_once_for_all_who_ask_meanwhile():
    """It needs no token, so a stranger would otherwise say how often a database is asked."""
    ran = []

    async def check():
        ran.append(trio.current_time())
        await trio.sleep(1)

    async with in_memory(answering("a"), readiness_checks={"db": check}) as (app, _):
        asking = [Caller(app, "GET", "/ready", headers={"authorization": ""}) for _ in range(50)]
        async with trio.open_nursery() as nursery:
            for place, one in enumerate(asking):
                nursery.start_soon(one.run)
                if not place:
                    await trio.sleep(0.5)
        assert {one.status for one in asking} == {200}
        assert len(ran) == 1
        late = Caller(app, "GET", "/ready", headers={"authorization": ""})
        await late.run()
        assert len(ran) == 2


# --- connections


@on_bounded_time
async def test_a_write_that_is_not_taken_ends_its_connection():
    """Whoever writes: also what refuses a caller who sends call behind call and reads no answer."""
    app = App()
    hurry = ConnectionLimits(
        grace_seconds=0.05, cut_seconds=0.05, write_seconds=0.1, slowest_bytes_per_second=1 << 20
    )
    async with serving_app(app, limits=hurry) as (_, connect), await connect() as lazy:
        await lazy.send_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n")
        with trio.fail_after(3):
            await app.ended.wait()


@on_bounded_time
async def test_who_begins_with_tls_and_says_nothing_is_not_waited_for():
    """Nor is one who goes on a byte at a time."""
    hurry = ConnectionLimits(grace_seconds=0.05, cut_seconds=0.05, handshake_seconds=0.2)
    tls = tls_context(TLS / "certificate.pem", TLS / "key.pem")
    async with serving_app(App(), tls=tls, limits=hurry) as (_, connect):
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
            async with await connect() as stream:
                await stream.send_all(sent)
                with trio.fail_after(3):
                    assert await read_all(stream) == b""


@on_bounded_time
async def test_a_body_that_is_shorter_than_it_says_is_none():
    """Its caller has left in the middle of it: nothing is made of what came."""
    async with serving(answering("a"), auth=by_header, limits=FREE) as web:
        for end in (b"Content-Length: 99\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"):
            stream = await trio.open_tcp_stream(*web.address)
            async with stream:
                await stream.send_all(b"POST /sessions HTTP/1.1\r\n" + ANN_SAYS + JSON + end)
                await stream.send_eof()
                await read_all(stream)
        assert web.host.sessions_of(ANN) == []
        while web.served.gateway.bodies.held_bytes:  # noqa: ASYNC110 - its connection is gone in front of it, and nothing tells of the call
            await trio.sleep(0.01)


# --- what takes long is done aside


@on_virtual_time
async def test_what_is_large_is_read_where_no_one_waits_for_it(monkeypatch):
    """Bodies, attachments and frames; in two threads at most, since each of them takes turns with the loop."""
    here, seen, at_work, is_over = threading.get_ident(), [], [], threading.Event()

    def watched(read):
        def reading(*given):
            at_work.append(1)
            if threading.get_ident() != here:
                is_over.wait(0.02)  # long enough for others to be at work as well
            seen.append((read.__name__, threading.get_ident() == here, len(at_work)))
            try:
                return read(*given)
            finally:
                at_work.pop()

        return reading

    for module, name in (
        (endpoint, "decode_body"),
        (chat_routes, "decode_files"),
        (open_socket, "decode_frame"),
    ):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    file = {"name": "a", "mime_type": "text/plain", "base64": "AAAA" * 20_000}
    async with in_memory(answering(*"abcdefgh")) as (app, host):
        await host.create(ANN, session_id="s-1")
        small = Caller(app, "POST", "/chat", {"message": "Hi"})
        large = [Caller(app, "POST", "/chat", {"message": "Hi", "attachments": [file]}) for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for one in (small, *large):
                nursery.start_soon(one.run)
        assert [one.status for one in (small, *large)] == [200] * 5
        frames = [
            {"type": "ping", "n": 1},
            {"type": "prompt", "id": 1, "session_id": "s-1", "message": "x" * 70_000},
        ]
        socket = Caller(app, "GET", "/ws", frames=[json.dumps(one) for one in frames], kind="websocket")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(socket.run)
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    assert sorted({(name, is_here) for name, is_here, _ in seen}) == [
        ("decode_body", False), ("decode_body", True), ("decode_files", False), ("decode_frame", False), ("decode_frame", True),
    ]  # fmt: skip
    assert max(most for _, _, most in seen) <= 2
    assert len(seen) == 11


@pytest.mark.parametrize("every", [19, pytest.param(2, marks=pytest.mark.check)])
@pytest.mark.parametrize("how", ["cancelled", "left"])
@on_virtual_time
async def test_a_socket_that_is_struck_at_any_step_leaves_nothing(how, every):
    """As it says who calls, as it reads, as a command of it is at work."""
    said = [
        {"type": "hello", "token": "acme/ann"},
        {"type": "subscribe", "id": 1, "session_id": "s-1"},
        {"type": "prompt", "id": 2, "session_id": "s-1", "message": "Hi"},
        {"type": "nothing"},
        {"type": "unsubscribe", "id": 3, "session_id": "s-1"},
    ]
    ledger = Ledger()
    async with in_memory(answering(*["a"] * 2_000), ledger) as (app, host):
        await host.create(ANN, session_id="s-1")
        served = app.state.host
        for step in range(1, 300, every):
            own = {"authorization": "", "origin": "http://127.0.0.1"}
            frames = [json.dumps(one) for one in said]
            socket = Caller(app, "GET", "/ws", headers=own, frames=frames, kind="websocket")
            with trio.move_on_after(1):
                await struck_at(step, socket, how)
            await host.quiet()
            found = served.sockets.statistics()
            assert (found.sockets, found.unknown, found.subscriptions) == (0, 0, 0), step
            assert served.gateway.places.in_all == 0, step
            kinds = [hook for hook, _, _ in ledger.heard]
            assert kinds.count("start") == kinds.count("end"), step
    assert ledger.ends


@on_virtual_time
async def test_a_quota_that_is_used_up_by_one_is_not_used_up_for_others():
    """Sessions that are created without end, with and without names of their own."""
    async with in_memory(answering("a"), limits=Limits(max_sessions_per_principal=5, calls_burst=100)) as (
        app,
        host,
    ):
        found = []
        for number in range(9):
            caller = Caller(app, "POST", "/sessions", {} if number % 2 else {"session_id": f"s-{number}"})
            await caller.run()
            found.append(caller.status)
        assert found == [201] * 5 + [429] * 4
        assert host.sessions_of(BOB) == []
        other = Caller(app, "POST", "/sessions", headers={"authorization": "Bearer acme/bob"})
        await other.run()
        assert other.status == 201
