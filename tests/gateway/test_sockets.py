"""The WebSocket over real connections: who gets one, what it is told, also of the past, and how it ends."""

import json
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from attrs import evolve

from agentrail.errors import RequestRefused
from agentrail.events import Envelope, MaxTurnsReached
from agentrail.gateway import (
    socket_connection,
    socket_connection as open_socket_module,
    sockets as sockets_module,
)
from agentrail.gateway.socket_connection import MAX_REPLAY_BYTES, ClientSubscription, send_past
from agentrail.gateway.socket_frames import Subscribe, socket_event_frame
from agentrail.host.hook_payloads import HandledResponse, Principal
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import Limits
from agentrail.messages import SessionId
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.event_subscription import decide_terms
from agentrail.testing.models import FunctionModel, ScriptedModel, says
from agentrail.wire.server_frames import CloseCode
from tests.gateway.attacks.wire import FREE
from tests.gateway.callers import CALLERS, auth
from tests.gateway.socket_client import no_sockets, refused_upgrade, socket_of
from tests.gateway.web import serving
from tests.host.hosting import Ledger, answering
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time, on_virtual_time
from tests.wire.test_forms import SNAPSHOT


@pytest.mark.host("H-081")
async def test_an_upgrade_is_refused_before_it_is_one():
    """Foreign origins and hosts get a 403, no origin needs a token, and sockets of a caller are counted with its streams."""
    async with serving(answering(), auth=auth, limits=Limits(max_streams_per_principal=1)) as web:
        for given, answer in (
            ({"origin": "https://evil.example", "by": "ann"}, (403, "origin_refused")),
            ({"origin": "null", "by": "ann"}, (403, "origin_refused")),
            ({"origin": ""}, (403, "origin_refused")),
            ({"host": "evil.example", "by": "ann"}, (403, "host_refused")),
            ({"query": "?token=ann"}, (400, "token_in_url")),
            ({"query": "?x=1", "by": "ann"}, (422, "field_unknown")),
            ({"by": "wrong"}, (401, "unauthorized")),
            ({"by": "looks"}, (403, "forbidden")),
            ({"by": "team"}, (422, "field_invalid")),
            ({"by": "ann", "protocol": ""}, (422, "field_invalid")),
        ):
            assert await refused_upgrade(web, **given) == answer, given
        async with socket_of(web, origin="", by="ann") as first:
            assert first.connection.subprotocol == "agentrail.v1"
            assert await refused_upgrade(web, by="ann") == (429, "too_many_streams")
            async with socket_of(web) as client:
                assert (await client.greet("ann"))["error"]["code"] == "too_many_streams"
                assert await client.closed() == 4429
            assert (await first.done("create", session_id="s-1"))["session_id"] == "s-1"
        await no_sockets(web)
        async with socket_of(web, by="ann") as client:
            await client.done("create")


@pytest.mark.host("H-075")
async def test_without_a_token_hello_brings_one_within_five_seconds(monkeypatch):
    """Else 4401; a command before it is refused, and does nothing."""
    monkeypatch.setattr(open_socket_module, "HELLO_SECONDS", 0.2)
    monkeypatch.setattr(sockets_module, "TICK_SECONDS", 0.05)
    async with serving(answering(), auth=auth) as web:
        async with socket_of(web) as client:
            assert await client.refused("create", session_id="s-1") == (401, "unauthorized")
            await client.send(type="ping", n=1)
            assert (await client.next())["error"]["code"] == "unauthorized"
            assert await client.closed() == 4401
            assert client.seen[-1] == {"type": "closing", "reason": "unauthorized", "cursors": {}}
        async with socket_of(web) as client:
            assert (await client.greet("wrong"))["error"]["code"] == "unauthorized"
            assert await client.closed() == 4401
        async with socket_of(web) as client:
            welcome = await client.greet("ann", heartbeat=7)
            wanted = {"type": "welcome", "protocol": "agentrail.v1", "heartbeat": 7}
            assert wanted.items() <= welcome.items()
            await trio.sleep(0.3)  # longer than there was for it
            await client.send(type="ping", n=5)
            assert await client.next() == {"type": "pong", "n": 5}
            assert (await client.greet("bob"))["error"]["code"] == "field_invalid"
            assert web.served.gateway.places.of(SessionOwner("acme", "ann")) == 1
            assert web.served.sockets.statistics().unknown == 0
        await no_sockets(web)
        assert web.host.sessions_of(CALLERS["ann"]) == []


@pytest.mark.host("H-074")
async def test_one_socket_reads_three_sessions_each_complete_and_in_order():
    """Each after its own number: none, one of the middle, and from the start. Each is read once, and so many at most."""
    limits = Limits(max_subscriptions=3)
    async with serving(answering(*["words"] * 9), limits=limits) as web, socket_of(web) as client:
        for name in ("a", "b", "c"):
            await client.done("create", session_id=name)
            session = await web.host.session(name, Principal(tenant_id="local", user_id="local"))
            await session.ask("Hi")
        last = {name: (await client.done("snapshot", session_id=name))["seq"] for name in "abc"}
        after = {"a": None, "b": 3, "c": 0}
        for name, number in after.items():
            begin = await client.subscribe(name, **({} if number is None else {"after": number}))
            assert begin["seq"] == (last[name] if number is None else number)
            assert ("snapshot" in begin) == (number is None)
        for name in "abc":
            accepted = await client.done("prompt", session_id=name, message="And?")
            assert accepted["request_id"]
        await web.host.quiet()
        ends = {name: (await client.done("snapshot", session_id=name))["seq"] for name in "abc"}
        while any(client.numbers(name)[-1:] != [end] for name, end in ends.items()):
            await client.next()
        for name, number in after.items():
            begins = last[name] if number is None else number
            assert client.numbers(name) == list(range(begins + 1, ends[name] + 1))
        assert web.served.sockets.statistics().subscriptions == 3
        await client.done("create", session_id="d")
        assert await client.refused("subscribe", session_id="a") == (409, "already_started")
        assert await client.refused("subscribe", session_id="d") == (429, "too_many_streams")
        await client.done("unsubscribe", session_id="a")
        assert web.served.sockets.statistics().subscriptions == 2
        await client.subscribe("d")


async def test_what_is_too_old_begins_anew_with_a_snapshot():
    """`events_lost`, and `subscribed` once more with how the session stands; a cursor of the future is refused."""
    async with (
        serving(answering(*["x"] * 30), session_event_buffer_size=100) as web,
        socket_of(web) as client,
    ):
        await client.done("create", session_id="s")
        session = await web.host.session("s", Principal(tenant_id="local", user_id="local"))
        for _ in range(20):
            await session.ask("Hi")
        last = (await session.snapshot()).last_seq
        assert last > 110
        assert (await client.subscribe("s", after=1))["seq"] == 1
        assert (await client.next())["event"]["kind"] == "events_lost"
        anew = await client.next()
        assert (anew["type"], anew["id"]) == ("subscribed", "sub-s")
        assert anew["seq"] == anew["snapshot"]["seq"] == last
        await client.done("unsubscribe", session_id="s")
        assert await client.refused("subscribe", session_id="s", after=last + 1) == (409, "cursor_ahead")
        assert web.served.sockets.statistics().subscriptions == 0


async def test_one_who_comes_back_is_given_what_it_missed_as_fast_as_it_reads():
    """However much that is, beside the bounds of the queue; and what is published meanwhile behind it, in order."""
    words = ["w" * 250_000] * 24
    async with serving(ScriptedModel([says(word) for word in words])) as web, socket_of(web) as client:
        await client.done("create", session_id="s")
        session = await web.host.session("s", Principal(tenant_id="local", user_id="local"))
        for _ in words[1:]:
            await session.ask("Hi")
        await client.subscribe("s", after=0)
        await trio.sleep(0.1)
        await session.ask("Hi")
        end = (await session.snapshot()).last_seq
        while client.numbers("s")[-1:] != [end]:
            await client.next()
        assert client.numbers("s") == list(range(1, end + 1))


@pytest.mark.host("H-086")
async def test_messages_cost_what_they_cost_over_http_and_an_abort_nothing():
    """429 with its time behind the burst."""
    limits = Limits(messages_burst=2, calls_burst=10)
    async with serving(answering(*["x"] * 9), limits=limits) as web, socket_of(web) as client:
        await client.done("create", session_id="s")
        for _ in range(2):
            await client.done("prompt", session_id="s", message="Hi")
        reply = await client.ask("prompt", session_id="s", message="Hi")
        assert reply["error"]["code"] == "too_many_requests"
        assert int(reply["error"]["retry_after"]) >= 1
        for _ in range(30):
            await client.done("abort", session_id="s")


@pytest.mark.host("H-016")
async def test_a_prompt_over_a_socket_is_a_request_of_kind_prompt_like_any_other():
    """With its hooks, once each, and its door in the events; a command with wrong fields is refused by name, as over HTTP."""
    ledger = Ledger()
    async with serving(answering("x", "y"), ledger) as web, socket_of(web) as client:
        await client.done("create", session_id="s")
        for name, fields, answer in (
            ("prompt", {"mesage": "Hi"}, (422, "field_unknown")),
            ("prompt", {}, (422, "field_invalid")),
            ("prompt", {"message": "Hi", "user_id": "eve"}, (403, "principal_mismatch")),
            ("abort_tool", {}, (422, "field_invalid")),
            ("abort", {"client_id": "a b"}, (422, "id_invalid")),
            ("messages", {"after": -1}, (422, "field_invalid")),
            ("request", {"request_id": "../x"}, (422, "id_invalid")),
        ):
            assert await client.refused(name, **{"session_id": "s", **fields}) == answer, (name, fields)
        assert await client.refused("prompt", message="Hi") == (422, "field_invalid")
        assert await client.done("abort", session_id="s", wait=True, client_id="k") is not None
        await client.subscribe("s")
        accepted = await client.done("prompt", session_id="s", message="Hi")
        await web.host.quiet()
        assert ledger.heard == [
            ("start", "prompt", None),
            ("persisted", "prompt", "completed"),
            ("end", "prompt", "completed"),
        ]
        named = {"session_id": "s", "request_id": accepted["request_id"]}
        found = await client.done("request", **named)
        assert (found["status"], found["text"]) == ("completed", "x")
        seen = [frame.get("event", {}) for frame in client.seen]
        assert {event["via"] for event in seen if "via" in event} == {"websocket"}
        assert await client.refused("cancel", **named) == (409, "request_over")


@pytest.mark.host("H-026")
async def test_a_guard_sees_words_over_a_socket_first():
    """It refuses by an exception or answers itself, also what answers a question; nothing else of the socket is touched."""

    async def refuse(ctx):
        if ctx.request.message == "answer":
            return HandledResponse(body={"text": "by a plugin"})
        if ctx.request.message == "turn away":
            return HandledResponse(body={"why": "so"}, status=402)
        message = "not you"
        raise RequestRefused(403, "not_you", message)

    guard = plugin("guard", critical=True, intercept_chat_request=refuse)
    async with serving(answering("x"), guard) as web, socket_of(web) as client:
        await client.done("create", session_id="s")
        for name, field, more in (
            ("prompt", "message", {}),
            ("steer", "message", {}),
            ("respond", "response", {"ref": "r"}),
        ):

            def said(words, field=field, more=more):
                return {"session_id": "s", field: words, **more}

            assert await client.refused(name, **said("Hi")) == (403, "not_you")
            assert await client.done(name, **said("answer")) == {"text": "by a plugin"}
            reply = await client.ask(name, **said("turn away"))
            assert (reply["error"]["status"], reply["error"]["body"]) == (402, {"why": "so"})
        assert (await client.done("messages", session_id="s"))["messages"] == []


@pytest.mark.host("H-088")
async def test_a_token_of_a_hello_stands_in_no_log_and_no_frame(caplog):
    """Neither a wrong one nor a right one, whatever fails behind it."""

    def broken(headers):
        message = f"cannot look up {headers.get('authorization')}"
        raise ValueError(message)

    async with serving(answering(), auth=broken) as web, socket_of(web) as client:
        assert (await client.greet("planted-secret"))["error"]["code"] == "plugin_failed"
        assert await client.closed() == 1011
        assert "planted-secret" not in json.dumps(client.seen)
    assert "authenticate failed" in caplog.text
    assert "planted-secret" not in caplog.text


@pytest.mark.host("H-076")
async def test_three_malformed_frames_close_with_4400_and_a_flood_with_4429():
    """The first two are replied to, and frames between them do not make them good; a flood is more than so many a second."""
    async with serving(answering(), limits=Limits(commands_per_second=20)) as web:
        async with socket_of(web) as client:
            await client.connection.send_message(b'{"type": "ping", "n": 1}')
            error = (await client.next())["error"]
            assert error["code"] == "bad_json"
            assert error["message"] == "the frame is binary or empty: expected a text message"
            await client.send(type="ping", n=1)
            assert (await client.next())["type"] == "pong"
            await client.send(type="shout", id="x")
            assert (await client.next())["id"] == "x"
            await client.connection.send_message("{")
            assert await client.closed() == 4400
            assert [frame["type"] for frame in client.seen[-2:]] == ["reply", "closing"]
        async with socket_of(web) as client:
            for number in range(25):
                await client.send(type="ping", n=number)
            assert await client.closed() == 4429


async def test_who_is_not_heard_of_for_twice_its_heartbeat_is_closed_with_4408(monkeypatch):
    """A ping is enough to be heard of."""
    monkeypatch.setattr(open_socket_module, "agreed_heartbeat", lambda _: 0.15)
    monkeypatch.setattr(sockets_module, "TICK_SECONDS", 0.05)
    async with serving(answering()) as web, socket_of(web) as client:
        await client.send(type="hello")
        await client.until("welcome")
        for number in range(4):
            await trio.sleep(0.15)
            await client.send(type="ping", n=number)
            await client.until("pong", n=number)
        assert await client.closed(seconds=1) == 4408


async def test_a_server_that_stops_tells_each_socket_where_to_go_on():
    """`closing` with a cursor per session, and 1001; behind it nothing is taken."""
    async with serving(answering("x", "y")) as web, socket_of(web) as client:
        for name in ("a", "b"):
            await client.done("create", session_id=name)
            await client.subscribe(name)
        await client.done("prompt", session_id="a", message="Hi")
        await client.until_event("agent_end")
        await web.host.quiet()
        stands = {name: (await client.done("snapshot", session_id=name))["seq"] for name in "ab"}
        web.stop.set()
        assert await client.closed() == 1001
        assert client.seen[-1] == {"type": "closing", "reason": "shutdown", "cursors": stands}


async def test_after_the_reply_of_an_unsubscribe_no_event_of_that_session_comes():
    """Also none that its reader had in hand: the reply is the last of its subscription."""
    async with (
        serving(FunctionModel(lambda _: says(*"w" * 100)), limits=FREE) as web,
        socket_of(web) as client,
        trio.open_nursery() as nursery,
    ):
        await client.done("create", session_id="s")
        session = await web.host.session("s", Principal(tenant_id="local", user_id="local"))

        async def talk():
            while True:
                await session.ask("Hi")

        nursery.start_soon(talk)
        for number in range(25):
            await client.subscribe("s")
            await trio.sleep(0.001 * (number % 5))
            await client.send(type="unsubscribe", id=f"u{number}", session_id="s")
            await client.until("reply", id=f"u{number}")
            await client.done("status", session_id="s")
            kinds = [frame["type"] for frame in client.seen]
            left = [frame.get("id") for frame in client.seen].index(f"u{number}")
            assert not {"event", "events"} & {*kinds[left:]}
            client.seen.clear()
        nursery.cancel_scope.cancel()


async def test_a_session_that_ended_or_is_not_read_any_more_has_no_cursor():
    """A socket that stays open for days keeps nothing of the sessions that it has followed."""
    async with serving(answering("x", "y")) as web, socket_of(web) as client:
        for name in ("ended", "left", "open"):
            await client.done("create", session_id=name)
            await client.subscribe(name)
        stands = (await client.done("snapshot", session_id="open"))["seq"]
        await client.done("unsubscribe", session_id="left")
        await client.done("stop", session_id="ended")
        if not any(frame["type"] == "reply" and frame["id"] == "sub-ended" for frame in client.seen):
            await client.until("reply", id="sub-ended")
        web.stop.set()
        assert await client.closed() == 1001
        assert client.seen[-1]["cursors"] == {"open": stands}


async def test_one_who_does_not_read_is_closed_with_4409_and_others_lose_nothing(monkeypatch):
    """Publishing does not wait for it; it is told where to go on, or is cut."""
    monkeypatch.setattr(sockets_module, "WRITE_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(sockets_module, "TICK_SECONDS", 0.05)
    words = ["w" * 200_000] * 40
    async with (
        serving(ScriptedModel([says(word) for word in words])) as web,
        socket_of(web, x_name="reader") as reader,
        socket_of(web, x_name="stalled") as stalled,
    ):
        await reader.done("create", session_id="s")
        await reader.subscribe("s", kinds=["agent_end"])
        await stalled.subscribe("s", deltas=False)
        (slow,) = (one for one in web.served.sockets._open if one.head.headers["x-name"] == "stalled")  # noqa: SLF001
        # Nothing is taken from it any more: its client reads one message ahead, and the connection is full soon.
        session = await web.host.session("s", Principal(tenant_id="local", user_id="local"))
        with trio.fail_after(60):
            for _ in words:
                await session.ask("Hi")
                await reader.until_event("agent_end")
            while web.served.sockets.statistics().sockets > 1:  # noqa: ASYNC110 - nothing tells of it
                await trio.sleep(0.05)
        assert slow.queue.closing is CloseCode.SLOW
        assert slow.queue.size_bytes < 2 << 20


MAIN = SessionId("main")


async def numbers(client, last):
    """The numbers of all events up to one, and the frames that they came in."""
    seqs, frames = [], []
    while not seqs or seqs[-1] < last:
        frame = await client.next()
        if frame["type"] in {"event", "events"}:
            events = frame["events"] if frame["type"] == "events" else [frame["event"]]
            seqs += [event["seq"] for event in events if not event.get("ephemeral")]
            frames.append(frame["type"])
    return seqs, frames


@pytest.mark.c(3)
@on_bounded_time
async def test_the_past_comes_in_one_frame_for_who_asks_and_event_by_event_for_others():
    """The same events, in the same order, each once; behind it what is live comes as it always did."""
    async with serving(answering(*("Hello",) * 9), auth=auth) as web:
        session = await web.host.create(CALLERS["ann"], session_id="main")
        for _ in range(3):
            await session.ask("Hi")
        last = (await session.snapshot()).last_seq
        async with socket_of(web, by="ann") as old, socket_of(web, by="ann") as new:
            await new.send(type="hello", replay_frames=True)
            assert (await new.next())["type"] == "welcome"
            for client in (old, new):
                await client.send(type="subscribe", id="s", session_id="main", after=2)
                assert (await client.next())["type"] == "subscribed"
            assert (await numbers(old, last))[0] == list(range(3, last + 1))
            assert await numbers(new, last) == (list(range(3, last + 1)), ["events"])
            await new.send(type="prompt", id="p", session_id="main", message="Hi")
            kinds = set()
            while "agent_end" not in kinds:
                kinds.add((await new.until("event"))["event"]["kind"])
            await new.send(type="unsubscribe", id="u", session_id="main")
            await new.until("reply", id="u")
            await new.send(type="subscribe", id="t", session_id="main")
            told = await new.until("subscribed", id="t")
            assert {"title", "agent_id", "children", "first_seq", "live", "context", "effects"} <= set(
                told["snapshot"]
            )
            assert (told["snapshot"]["agent_id"], told["snapshot"]["live"]) == ("desk", None)


def event(seq):
    return MaxTurnsReached(turns=seq, meta=Envelope(MAIN, seq, 1, (MAIN,)))


class Told:
    """A socket that writes down what it is given, and is open or closes."""

    def __init__(self, *, is_open=True):
        self.frames, self.seqs, self._is_open = [], [], is_open

    async def send(self, _session_id, seq, frame):
        await trio.lowlevel.checkpoint()
        self.frames.append(json.loads(frame))
        self.seqs.append(seq)
        return self._is_open

    @property
    def numbers(self):
        return [one["seq"] for frame in self.frames if frame["type"] == "events" for one in frame["events"]]


def no_snapshot():
    raise AssertionError


def filled(count, *, keep):
    bus = EventBus(Envelope(MAIN, 0, 1, (MAIN,)), keep=keep)
    for seq in range(1, count + 1):
        bus.publish(event(seq))
    return bus


@asynccontextmanager
async def subscribed(bus, after, *, snapshot=no_snapshot, agent_id=None):
    """A subscription of it, with little room for what is live, as `send_past` is given it."""
    terms = decide_terms(kinds=None, deltas=True, buffer=8)
    asked = Subscribe(id=1, session_id="main", after=after)
    async with bus.subscribe(terms, after=after, take_snapshot=lambda: snapshot) as events:
        yield ClientSubscription(asked, events, agent_id, socket_event_frame)


@on_virtual_time
async def test_a_frame_is_bounded_and_the_next_is_made_when_it_has_gone_out(monkeypatch):
    """No frame is larger than the bound; each says to which number it goes. A socket that closes is given nothing more."""
    monkeypatch.setattr(socket_connection, "MAX_REPLAY_BYTES", 1_000)
    bus, told = filled(100, keep=1_000), Told()
    async with subscribed(bus, 0) as feed:
        assert await send_past(feed, told.send) is None
    assert told.numbers == list(range(1, 101))
    assert len(told.frames) > 5
    assert [frame["events"][-1]["seq"] for frame in told.frames] == told.seqs
    assert all(len(json.dumps(frame)) < 1_400 for frame in told.frames)
    assert MAX_REPLAY_BYTES == 256 << 10
    closes = Told(is_open=False)
    async with subscribed(bus, 0) as feed:
        await send_past(feed, closes.send)
    assert len(closes.frames) == 1


@pytest.mark.c(6)
@on_virtual_time
async def test_what_is_lost_is_said_and_the_snapshot_follows():
    """One line and the snapshot, from whose number the client goes on."""
    bus, told = filled(50, keep=10), Told()
    snapshot = partial(evolve, SNAPSHOT, last_seq=50)
    async with subscribed(bus, 5, snapshot=snapshot, agent_id="desk") as feed:
        await send_past(feed, told.send)
    lost, begin = told.frames
    wanted = {"kind": "events_lost", "from_seq": 6, "to_seq": 50}
    assert wanted.items() <= lost["event"].items()
    assert (begin["type"], begin["seq"], begin["snapshot"]["agent_id"]) == ("subscribed", 50, "desk")
    assert told.seqs == [None, 50]
