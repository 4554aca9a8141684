"""The WebSocket over real connections: who gets one, what it is told, and how it ends."""

import json

import pytest
import trio

from agentrail.errors import RequestRefused
from agentrail.gateway import socket_connection as open_socket_module, sockets as sockets_module
from agentrail.host.hook_payloads import HandledResponse, Principal
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import Limits
from agentrail.testing.models import ScriptedModel, says
from agentrail.wire.server_frames import CloseCode
from tests.gateway.socket_client import refused_upgrade, socket_of
from tests.gateway.web import serving
from tests.host.hosting import Ledger, answering
from tests.host.rig import plugin

TOKENS = {
    "ann": Principal(tenant_id="acme", user_id="ann"),
    "bob": Principal(tenant_id="acme", user_id="bob"),
    "team": Principal(tenant_id="acme", user_id=""),
    "looks": Principal(tenant_id="acme", user_id="ann", scopes=("inspect",)),
}


def auth(headers):
    """Know some tokens."""
    return TOKENS.get(headers.get("authorization", "").removeprefix("Bearer "))


# --- who gets one


@pytest.mark.host("H-081")
async def test_an_upgrade_is_refused_before_it_is_one():
    """A foreign or null Origin and a foreign Host are 403, on the upgrade itself; no Origin needs a token."""
    async with serving(answering(), auth=auth) as web:
        assert await refused_upgrade(web, origin="https://evil.example", by="ann") == (
            403,
            "origin_refused",
        )
        assert await refused_upgrade(web, origin="null", by="ann") == (403, "origin_refused")
        assert await refused_upgrade(web, origin="") == (403, "origin_refused")
        assert await refused_upgrade(web, host="evil.example", by="ann") == (403, "host_refused")
        assert await refused_upgrade(web, query="?token=ann") == (400, "token_in_url")
        assert await refused_upgrade(web, query="?x=1", by="ann") == (422, "field_unknown")
        assert await refused_upgrade(web, by="wrong") == (401, "unauthorized")
        assert await refused_upgrade(web, by="looks") == (403, "forbidden")
        assert await refused_upgrade(web, by="team") == (422, "field_invalid")
        assert await refused_upgrade(web, by="ann", protocol="") == (422, "field_invalid")
        async with socket_of(web, origin="", by="ann") as client:
            assert client.connection.subprotocol == "agentrail.v1"
            assert (await client.done("create", session_id="s-1"))["session_id"] == "s-1"
        assert web.served.sockets.statistics().sockets <= 1


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
            assert (welcome["type"], welcome["protocol"], welcome["heartbeat"]) == (
                "welcome",
                "agentrail.v1",
                7,
            )
            await trio.sleep(0.3)  # longer than there was for it
            await client.send(type="ping", n=5)
            assert await client.next() == {"type": "pong", "n": 5}
            assert (await client.greet("bob"))["error"]["code"] == "field_invalid"
            assert web.served.gateway.places.of(SessionOwner("acme", "ann")) == 1
            assert web.served.sockets.statistics().unknown == 0
        await no_sockets(web)
        assert web.host.sessions_of(TOKENS["ann"]) == []


async def test_sockets_of_a_caller_are_counted_with_its_streams():
    """429 at the upgrade; in `hello` it closes; a place is given back however the socket ended."""
    async with serving(answering(), auth=auth, limits=Limits(max_streams_per_principal=1)) as web:
        async with socket_of(web, by="ann") as first:
            assert await refused_upgrade(web, by="ann") == (429, "too_many_streams")
            async with socket_of(web) as client:
                assert (await client.greet("ann"))["error"]["code"] == "too_many_streams"
                assert await client.closed() == 4429
            await first.done("create")
        await no_sockets(web)
        async with socket_of(web, by="ann") as client:
            await client.done("create")


async def no_sockets(web):
    """Wait until the server knows that all have gone."""
    with trio.fail_after(60):
        while web.served.sockets.statistics().sockets:  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.01)
    assert web.served.gateway.places.in_all == web.served.sockets.statistics().unknown == 0


# --- what is read


@pytest.mark.host("H-074")
async def test_one_socket_reads_three_sessions_each_complete_and_in_order():
    """Each after its own number: none, one of the middle, and from the start."""
    async with serving(answering(*["words"] * 9)) as web, socket_of(web) as client:
        for name in ("a", "b", "c"):
            await client.done("create", session_id=name)
            session = await web.host.session(name, Principal(tenant_id="local", user_id="local"))
            await session.ask("Hi")
        last = {name: (await client.done("snapshot", session_id=name))["seq"] for name in "abc"}
        after = {"a": None, "b": 3, "c": 0}
        for name, number in after.items():
            begin = await client_subscribe(client, name, number)
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
        await client.done("unsubscribe", session_id="a")
        assert web.served.sockets.statistics().subscriptions == 2


async def client_subscribe(client, session_id, after=None, **more):
    """Subscribe, and give the frame that it begins with."""
    await client.send(
        type="subscribe",
        id=f"sub-{session_id}",
        session_id=session_id,
        **more,
        **({} if after is None else {"after": after}),
    )
    return await client.until("subscribed", session_id=session_id)


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
        assert (await client_subscribe(client, "s", 1))["seq"] == 1
        assert (await client.next())["event"]["kind"] == "events_lost"
        anew = await client.next()
        assert (anew["type"], anew["id"], anew["seq"], anew["snapshot"]["seq"]) == (
            "subscribed",
            "sub-s",
            last,
            last,
        )
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
        await client_subscribe(client, "s", 0)
        await trio.sleep(0.1)
        await session.ask("Hi")
        end = (await session.snapshot()).last_seq
        while client.numbers("s")[-1:] != [end]:
            await client.next()
        assert client.numbers("s") == list(range(1, end + 1))


async def test_a_session_is_read_once_and_so_many_at_most():
    """A second time and one too many are refused; the socket goes on."""
    async with serving(answering(), limits=Limits(max_subscriptions=2)) as web, socket_of(web) as client:
        for name in ("a", "b", "c"):
            await client.done("create", session_id=name)
        await client_subscribe(client, "a")
        assert await client.refused("subscribe", session_id="a") == (409, "already_started")
        await client_subscribe(client, "b")
        assert await client.refused("subscribe", session_id="c") == (429, "too_many_streams")
        await client.done("unsubscribe", session_id="a")
        await client_subscribe(client, "c")


# --- other people's


@pytest.mark.host("H-028")
async def test_what_belongs_to_another_is_unknown_by_every_command():
    """Each command is judged by itself, and answers as for an id that there never was."""
    async with serving(answering(), auth=auth) as web:
        async with socket_of(web, by="ann") as owner:
            await owner.done("create", session_id="mine")
        async with socket_of(web, by="bob") as client:
            for session_id in ("mine", "never"):
                for name, fields in EACH_COMMAND.items():
                    found = await client.refused(name, session_id=session_id, **fields)
                    assert found == (404, "session_unknown"), (name, session_id, found)
                for name, fields in EACH_INSPECTION.items():
                    found = await client.refused(name, session_id=session_id, **fields)
                    assert found == (403, "forbidden"), (name, session_id, found)
            assert await client.done("unsubscribe", session_id="mine") is None
            assert await client.refused("create", session_id="mine") == (404, "session_unknown")


EACH_COMMAND = {
    "subscribe": {},
    "prompt": {"message": "Hi"},
    "steer": {"message": "Hi"},
    "abort": {},
    "abort_tool": {"call_id": "c"},
    "approve": {"approval_id": "a"},
    "reject": {"approval_id": "a"},
    "respond": {"ref": "r", "response": "x"},
    "compact": {},
    "switch_model": {"model": "demo:"},
    "messages": {"after": 0, "limit": 5},
    "snapshot": {},
    "status": {},
    "stop": {},
    "fork": {},
    "rewind": {"to": 1},
    "turns": {"limit": 5},
    "request": {"request_id": "r", "wait": 0},
    "cancel": {"request_id": "r"},
    "go_on": {},
    "receipt_of": {"client_id": "c"},
    "decline": {"ref": "r"},
    "rules": {},
    "revoke_rule": {"rule_id": "rule_1"},
    "answer": {"ref": "r", "text": "x"},
    "commands": {},
    "run_command": {"name": "status"},
}

# What a token without the scope `inspect` may not ask of its own sessions either.
EACH_INSPECTION = {"journal": {}, "state_at": {"number": 1}}


# --- commands


async def test_a_command_with_fields_that_cannot_be_is_refused_by_name():
    """As over HTTP, and the socket goes on."""
    async with serving(answering("x")) as web, socket_of(web) as client:
        await client.done("create", session_id="s")
        assert await client.refused("prompt", session_id="s", mesage="Hi") == (422, "field_unknown")
        assert await client.refused("prompt", session_id="s") == (422, "field_invalid")
        assert await client.refused("prompt", message="Hi") == (422, "field_invalid")
        assert await client.refused("prompt", session_id="s", message="Hi", user_id="eve") == (
            403,
            "principal_mismatch",
        )
        assert await client.refused("abort_tool", session_id="s") == (422, "field_invalid")
        assert await client.refused("abort", session_id="s", client_id="a b") == (422, "id_invalid")
        assert await client.refused("messages", session_id="s", after=-1) == (422, "field_invalid")
        assert await client.refused("request", session_id="s", request_id="../x") == (422, "id_invalid")
        assert await client.done("abort", session_id="s", wait=True, client_id="k") is not None


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
    """With its hooks, once each; and the events of its session say which door it came through."""
    ledger = Ledger()
    async with serving(answering("x", "y"), ledger) as web, socket_of(web) as client:
        await client.done("create", session_id="s")
        await client_subscribe(client, "s")
        accepted = await client.done("prompt", session_id="s", message="Hi")
        await web.host.quiet()
        assert ledger.heard == [
            ("start", "prompt", None),
            ("persisted", "prompt", "completed"),
            ("end", "prompt", "completed"),
        ]
        found = await client.done("request", session_id="s", request_id=accepted["request_id"])
        assert (found["status"], found["text"]) == ("completed", "x")
        assert {frame["event"]["via"] for frame in client.seen if "via" in frame.get("event", {})} == {
            "websocket"
        }
        assert await client.refused("cancel", session_id="s", request_id=accepted["request_id"]) == (
            409,
            "request_over",
        )


@pytest.mark.host("H-026")
async def test_a_guard_that_refuses_words_refuses_them_over_a_socket():
    """By exception and by answer; nothing else of the socket is touched."""

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
        for name in ("prompt", "steer"):
            assert await client.refused(name, session_id="s", message="Hi") == (403, "not_you")
            assert await client.done(name, session_id="s", message="answer") == {"text": "by a plugin"}
            reply = await client.ask(name, session_id="s", message="turn away")
            assert (reply["error"]["status"], reply["error"]["body"]) == (402, {"why": "so"})
        assert await client.refused("respond", session_id="s", ref="r", response="Hi") == (403, "not_you")
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


# --- how it ends


@pytest.mark.host("H-076")
@pytest.mark.parametrize("text", ["x" * ((1 << 20) + 1), "\u20ac" * (1 << 19)])
async def test_a_frame_of_one_byte_too_many_closes_with_1009(text):
    """Bytes are counted, and not characters."""
    async with serving(answering()) as web, socket_of(web) as client:
        await client.connection.send_message(text)
        assert await client.closed() == 1009


@pytest.mark.host("H-076")
async def test_the_third_malformed_frame_closes_with_4400():
    """The first two are replied to; frames between them do not make them good."""
    async with serving(answering()) as web, socket_of(web) as client:
        await client.connection.send_message(b"\x00\x01")
        assert (await client.next())["error"]["code"] == "bad_json"
        await client.send(type="ping", n=1)
        assert (await client.next())["type"] == "pong"
        await client.send(type="shout", id="x")
        assert (await client.next())["id"] == "x"
        await client.connection.send_message("{")
        assert await client.closed() == 4400
        assert [frame["type"] for frame in client.seen[-2:]] == ["reply", "closing"]


async def test_a_flood_of_frames_closes_with_4429():
    """More than a hundred a second."""
    async with serving(answering(), limits=Limits(commands_per_second=20)) as web, socket_of(web) as client:
        for number in range(40):
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
            await client_subscribe(client, name)
        await client.done("prompt", session_id="a", message="Hi")
        await client.until_event("agent_end")
        await web.host.quiet()
        stands = {name: (await client.done("snapshot", session_id=name))["seq"] for name in "ab"}
        web.stop.set()
        assert await client.closed() == 1001
        assert client.seen[-1] == {"type": "closing", "reason": "shutdown", "cursors": stands}


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
        await client_subscribe(reader, "s", kinds=["agent_end"])
        await client_subscribe(stalled, "s", deltas=False)
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
