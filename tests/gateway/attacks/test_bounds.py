"""What one caller can take of a server: places, bodies, calls and tasks; and that all of it comes back, however a call ends."""

import json

import pytest
import trio
import trio.testing

from agentrail.gateway import sockets as sockets_module
from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.request_parser import BodyReader, CallerLeft
from agentrail.gateway.serving import ConnectionLimits
from agentrail.host.identity import SessionOwner
from tests.gateway.attacks.memory import Caller, in_memory, struck_at
from tests.gateway.test_serving import App, serving as serving_app
from tests.host.hosting import ANN, Ledger, answering
from tests.runtime.rig import on_bounded_time, on_virtual_time
from tests.thinned import IS_NIGHTLY

pytestmark = on_virtual_time

OWNER = SessionOwner.of(ANN)


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


async def test_bodies_of_one_caller_take_half_of_the_room_at_most():
    """One who sends many large ones slowly would keep all others out for hours. What has come of one who leaves in the middle is forgotten."""
    reader = BodyReader(max_bytes_at_once=100, slow_start_seconds=5.0)

    def sends(*pieces):
        given = iter(pieces)

        async def receive():
            piece = next(given, b"")
            if piece is None:
                return {"type": "http.disconnect"}
            if not piece:
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
        with pytest.raises(
            CallRefused, match="the limit of bodies that this server reads at once is reached"
        ):
            await reader.read(sends(b"x" * 101), {}, 999, caller="eve")
    with pytest.raises(CallerLeft):
        await reader.read(sends(b"x", None), {}, 99, caller="ann")
    assert reader.held_bytes == 0
    assert not reader._held_of  # noqa: SLF001 - a caller would be kept for each that there ever was


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


class Stalled(Caller):
    """A caller who reads no body. On our own server, a blocked write ends only when the connection is cut."""

    cut: trio.Event
    is_shielded = True

    def _scope(self):
        self.cut = trio.Event()
        return {**super()._scope(), "state": {"agentrail.cut": self.cut.set}}

    async def _send(self, message):
        await super()._send(message)
        if message["type"] == "http.response.body":
            with trio.move_on_after(200, shield=self.is_shielded):
                await self.cut.wait()


@pytest.mark.parametrize("is_shielded", [True, False])
async def test_an_answer_that_is_not_read_in_time_cuts_its_connection(is_shielded):
    """An answer may take 30 seconds and a second for each 4 KiB, then the connection is cut and the call ends."""
    statuses = []
    async with in_memory(answering("a")) as (app, _):
        for said in ({"message": "Hi"}, {"message": 5}):
            caller, began_at = Stalled(app, "POST", "/chat", said), trio.current_time()
            caller.is_shielded = is_shielded
            with trio.fail_after(100):
                await caller.run()
            assert caller.cut.is_set() or not is_shielded
            assert len(caller.sent) == 2  # nothing was answered twice
            assert 30 <= trio.current_time() - began_at < 31
            statuses.append(caller.status)
    assert statuses == [200, 422]  # a stray cancellation would have ended the block


async def test_an_answer_that_cannot_be_written_is_not_followed_by_another():
    """The error is the server's own, which closes the connection."""

    class Broken(Caller):
        async def _send(self, message):
            await super()._send(message)
            if message["type"] == "http.response.body":
                raise BrokenPipeError

    async with in_memory(answering("a")) as (app, _):
        caller = Broken(app, "POST", "/chat", {"message": "Hi"})
        with pytest.raises(BrokenPipeError):
            await caller.run()
        assert [one["type"] for one in caller.sent] == ["http.response.start", "http.response.body"]


async def test_a_server_that_stops_cuts_an_answer_whose_caller_has_left():
    """Also one whose last write is blocked while the server already knows that its caller sends no more."""
    async with in_memory(answering("a")) as (app, _):
        caller = Stalled(app, "POST", "/chat", {"message": "Hi"})
        began_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller.run)
            await trio.testing.wait_all_tasks_blocked()
            caller.left.set()
            await trio.testing.wait_all_tasks_blocked()
            assert not caller.cut.is_set()
            nursery.cancel_scope.cancel(reason="the server stops")
        assert caller.cut.is_set()
        assert trio.current_time() == began_at


@on_bounded_time
@pytest.mark.parametrize("path", ["/flood", "/large"])
async def test_a_write_that_is_not_taken_ends_its_connection(path):
    """Whoever writes: also what refuses a caller who sends call behind call and reads no answer. A large one gives no more time."""
    app = App()
    hurry = ConnectionLimits(
        grace_seconds=0.05, cut_seconds=0.05, write_seconds=0.1, slowest_bytes_per_second=1 << 20
    )
    async with serving_app(app, limits=hurry) as (_, connect), await connect() as lazy:
        await lazy.send_all(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        with trio.fail_after(3):
            await app.ended.wait()


@pytest.mark.parametrize("every", [19, pytest.param(2 if IS_NIGHTLY else 7, marks=pytest.mark.check)])
@pytest.mark.parametrize("how", ["cancelled", "left"])
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
