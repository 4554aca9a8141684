"""Calls about a session through any node: its owner answers, and the client cannot tell the difference."""

import json
import logging
import re
import shutil
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from agentrail.abc.store import Node
from agentrail.errors import OptionError
from agentrail.gateway import forwarder, token_watcher
from agentrail.gateway.event_hub import WRITE_GRACE_SECONDS
from agentrail.gateway.node_routes import NodeOrder
from agentrail.gateway.node_token import (
    ANSWER_HEADER,
    LIFETIME_MS,
    NODE_HEADER,
    NodeCall,
    digest_of_body,
    encode_node_call,
)
from agentrail.gateway.protocols import a2a_routes, mcp_service  # noqa: F401 - their imports take half a second each, which no test has to wait for
from agentrail.gateway.serving import addresses_of, open_listeners, tls_context
from agentrail.gateway.token_watcher import CallWatch
from agentrail.host import Limits
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_nodes import place_of_session
from agentrail.testing.models import FunctionModel, says
from tests.gateway.callers import CALLERS, by
from tests.gateway.nodes import serving_nodes
from tests.gateway.protocols.wires import PROTOCOLS, WIRES
from tests.gateway.socket_client import socket_of
from tests.gateway.sse import parse
from tests.gateway.web import error_of, serving

a2a_routes.fault_of_a2a()

TLS = Path(__file__).parent / "tls"
PAID = FunctionModel(lambda _: says("paid"))
ENDLESS = FunctionModel(lambda _: says("So", *[" on"] * 2_000, pause_seconds=0.02))
SAID = {"message": "Hi", "client_id": "c"}
DIFFERS = re.compile(
    r'"(created|created_at|\w*_ms|timestamp|retry)": ?[0-9.]+|retry: \d+|\d\d:\d\d:[\d.]+Z|'
    r"resp_\w+|chatcmpl-[\w-]+|\b[0-9a-f]{8}(?=-\d)|\w-s?[0-9a-f]{12,}"
)
"""Times, and ids that no two sessions share."""


@asynccontextmanager
async def streaming(node, method, path, said=None, **more):
    """A stream that may be left early: its first bytes, and a function that reads until a test is true."""
    body = b"" if said is None else json.dumps(said).encode()
    headers = {"host": "127.0.0.1", "content-type": "application/json", **by("ann"), **more}
    lines = [f"{method} {path} HTTP/1.1", *[f"{name}: {value}" for name, value in headers.items()]]
    head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode()
    got = bytearray()

    async def read_until(test):
        with trio.fail_after(10):
            while not test(bytes(got)):
                piece = await stream.receive_some()
                if not piece:
                    return bytes(got)
                got.extend(piece)
        return bytes(got)

    async with await trio.open_tcp_stream(*node.address) as stream:
        await stream.send_all(head + body)
        assert b" 200 " in await read_until(lambda one: b"data:" in one or b"\n:" in one or b" 4" in one[:13])
        yield read_until


async def until(test):
    with trio.fail_after(10):
        while not test():  # noqa: ASYNC110 - what is waited for has no event
            await trio.sleep(0.01)


# --- the same answer


@pytest.mark.machine(8)
async def test_a_forwarded_call_is_charged_and_judged_once(caplog):
    """M-008: charged where it came in, judged by the owner's plugins, with one id in the log of both nodes."""
    limits = Limits(messages_per_minute=6, messages_burst=20)
    async with serving_nodes(2, PAID, limits=limits) as (a, b):
        first = await a.post("/sessions/s/prompt", SAID)
        assert error_of(first, 404, "session_unknown")
        assert (await a.chat("Hi", session_id="s")).status_code == 200
        left = [
            int(re.search(r"r=(\d+)", one.headers["ratelimit"])[1])
            for one in [await a.chat("1", session_id="s")]
        ]
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="agentrail.gateway"):
            second = await b.chat("2", session_id="s")
        third = await a.chat("3", session_id="s")
        left += [int(re.search(r"r=(\d+)", one.headers["ratelimit"])[1]) for one in (third, second)]
        assert (a.seen.messages, b.seen.messages) == (["Hi", "1", "2", "3"], [])
        assert [left[0] - one for one in left] == [
            0,
            2,
            1,
        ]  # of one allowance over both nodes, each message once
        assert second.headers.get_list("ratelimit") == [second.headers["ratelimit"]]
        found = [
            re.search(r"request (\w+) (to|from) node (n-\w+): POST /chat", line) for line in caplog.messages
        ]
        told = [one.groups() for one in found if one is not None]
        assert sorted(one[1:] for one in told) == [("from", b.id), ("to", a.id)]
        assert len({one[0] for one in told}) == 1
        assert not {ANSWER_HEADER, NODE_HEADER} & {*second.headers}
        assert len(second.headers.get_list("date")) == 1


@pytest.mark.machine(8)
async def test_a_forwarded_stream_takes_a_place_where_it_came_in():
    """A forwarded stream takes a place where it came in."""
    limits = Limits(max_streams_per_principal=1)
    async with serving_nodes(2, ENDLESS, limits=limits) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        async with streaming(b, "GET", "/sessions/s/events"):
            assert (a.served.gateway.places.in_all, b.served.gateway.places.in_all) == (0, 1)
            error_of(await b.client.get("/sessions/s/events"), 429, "too_many_streams")
            async with streaming(a, "GET", "/sessions/s/events"):
                assert a.served.gateway.places.in_all == 1
        await until(lambda: a.served.gateway.places.in_all + b.served.gateway.places.in_all == 0)


@pytest.mark.machine(32)
@pytest.mark.parametrize("wire", [one for one in WIRES if one.name != "acp"], ids=lambda one: one.name)
async def test_each_wire_says_the_same_through_another_node(wire):
    """M-032: streamed, and by the ids that the wire has handed out; but for times and what no two sessions share."""
    model = FunctionModel(lambda _: says("One answer.", pause_seconds=0.1))
    async with serving_nodes(2, model, protocols=PROTOCOLS) as (a, b):
        texts, names = [], []
        for node, session in ((a, "s1"), (b, "s2")):
            await a.post("/sessions", {"session_id": session})
            async with wire.opened(node, session, "Hi") as pieces:
                texts.append("".join([piece async for piece in pieces]))
            names.append(wire.read(texts[-1]).response_id)
        plain = [DIFFERS.sub("", one.replace("s2", "s1")) for one in texts]
        assert plain[0] == plain[1]
        assert wire.read(texts[1]).text.endswith("One answer.")
        if wire.name != "chat":  # without a session in its body it has one of its own, here
            assert b.owner("s2")[0] == a.id
            assert b.seen.messages == []
        if wire.name == "a2a":
            path = f"/a2a/desk/v1/tasks/{names[0]}"
            tasks = [await node.client.get(path, headers=wire.headers) for node in (a, b)]
            assert tasks[0].status_code == 200
            assert tasks[0].content == tasks[1].content
        elif wire.again is not None and wire.name != "ai-ui":
            assert await wire.again(b, "s1", names[0]) == await wire.again(a, "s1", names[0])


@pytest.mark.machine(32)
async def test_a_stream_is_passed_on_piece_by_piece():
    """Each frame is there before the next one is made, and a cursor continues through any node."""
    async with serving_nodes(2, FunctionModel(lambda _: says("a", "b", "c", pause_seconds=0.2))) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        arrived = []
        async with b.client.stream("POST", "/stream", json={"message": "Hi", "session_id": "s"}) as response:
            whole = b""
            async for piece in response.aiter_bytes():
                whole += piece
                arrived.append(trio.current_time())
        frames = parse(whole)
        assert frames[-1].event == "done"
        assert arrived[-1] - arrived[0] > 0.3
        first = next(int(one.id) for one in frames if one.id)
        pages = [await node.client.get(f"/sessions/s/events?format=json&after={first}") for node in (a, b)]
        assert pages[0].content == pages[1].content


@pytest.mark.machine(8)
async def test_a_client_that_leaves_is_noticed_by_the_owner():
    """A client that leaves is noticed by the owner."""
    async with serving_nodes(2, ENDLESS) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        said = {"message": "Hi", "session_id": "s", "on_disconnect": "abort"}
        async with streaming(b, "POST", "/stream", said):
            pass
        session = a.host.supervisor.session("s", scope="acme")
        with trio.fail_after(10):
            while (await session.status()).phase != "idle":  # noqa: ASYNC110 - same
                await trio.sleep(0.05)


@pytest.mark.journal(32)
async def test_a_session_of_somebody_else_is_unknown_through_any_node():
    """J-032: another tenant's, and another user's."""
    async with serving_nodes(2, PAID) as (a, b):
        await a.chat("Hi", session_id="s")
        for who in ("eve", "bob"):
            for method, path in (
                ("GET", "/sessions/s"),
                ("GET", "/sessions/s/events"),
                ("DELETE", "/sessions/s"),
            ):
                told = [await node.client.request(method, path, headers=by(who)) for node in (a, b)]
                assert [one.status_code for one in told] == [404, 404]
                assert told[0].json() == told[1].json()
        assert (await b.client.get("/sessions/s")).status_code == 200


@pytest.mark.journal(30)
@pytest.mark.parametrize("is_there", [False, True], ids=["new", "ownerless"])
async def test_one_message_to_three_nodes_at_once_is_in_the_history_once(is_there):
    """J-030: all three get one receipt, whether its session is new, or waits in the store."""
    async with serving_nodes(3, PAID, idle_after=0.1 if is_there else 600.0) as nodes:
        if is_there:
            await nodes[0].chat("First", session_id="s")
            await until(lambda: nodes[0].owner()[0] == "")
        answers = []

        async def send(node):
            answers.append(await node.chat("Hi", session_id="s", client_id="c"))

        async with trio.open_nursery() as nursery:
            for node in nodes:
                nursery.start_soon(send, node)
        assert [one.status_code for one in answers] == [200, 200, 200]
        assert len({one.json()["request_id"] for one in answers}) == 1
        told = (await nodes[2].client.get("/sessions/s/messages")).json()
        assert json.dumps(told).count('"Hi"') == 1


# --- an owner that does not answer


@asynccontextmanager
async def other_node(store, handle=None, *, tls=None, address=None, **more):
    """A node that is in the store, and answers as it likes."""
    listeners = await open_listeners("127.0.0.1", 0)
    ((host, port),) = addresses_of(listeners)
    served = [trio.SSLListener(one, tls, https_compatible=True) for one in listeners] if tls else listeners
    calls = []

    async def answer(stream):
        async with stream:
            try:
                calls.append(bytes(await stream.receive_some(65_536)))
                if handle is not None:
                    await handle(stream)
            except trio.BrokenResourceError:
                calls.append(b"")

    url = f"{'https' if tls else 'http'}://{host}:{port}" if address is None else address
    store.beat(Node(id="n-other", address=url, codec=1_000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(trio.serve_listeners, answer, served))
        yield calls
        nursery.cancel_scope.cancel()


async def give_to_other(node):
    """Create a session, let it rest, and give it to the other node."""
    await node.chat("Hi", session_id="s")
    await until(lambda: node.owner()[0] == "")
    node.store.take("acme", "s", "n-other", "drain", force=True)


async def says_421(stream):
    await stream.send_all(b"HTTP/1.1 421 Misdirected Request\r\ncontent-length: 0\r\n\r\n")


async def forbids(stream):
    await stream.send_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")


async def answers_for_it(stream):
    await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


async def breaks_off(stream):
    await stream.send_all(b"HTTP/1.1 200 O")


async def stays_silent(_):
    await trio.sleep_forever()


@pytest.mark.machine(6)
@pytest.mark.parametrize(
    ("handle", "is_accepted"),
    [(says_421, False), (forbids, False), (answers_for_it, True), (breaks_off, True), (stays_silent, True)],
    ids=lambda one: getattr(one, "__name__", ""),
)
async def test_an_owner_that_does_not_answer_is_503(handle, is_accepted, monkeypatch):
    """M-006: nothing is accepted here; only where it cannot be known it says so. An answer that nobody signed is none."""
    monkeypatch.setattr(forwarder, "HEAD_SECONDS", 0.2)
    async with (
        serving_nodes(1, PAID, idle_after=0.1, chat_timeout=0.2) as (a,),
        other_node(a.store, handle) as calls,
    ):
        await give_to_other(a)
        before = a.store.get("acme", "s").tail
        for method, path, said in (
            ("POST", "/sessions/s/prompt", SAID),
            ("POST", "/sessions/s/abort", {}),
            ("GET", "/sessions/s", None),
            ("POST", "/chat", {**SAID, "session_id": "s"}),
        ):
            response = await a.client.request(method, path, json=said)
            error = error_of(response, 503, "held_by")
            assert response.headers["retry-after"] == "1"
            assert ("may have accepted" in error["message"]) == is_accepted
            assert ("read the session" in error["hint"]) == (is_accepted and path.endswith("abort"))
        assert len(calls) == 4  # each was sent once
        assert a.store.get("acme", "s").tail == before
        assert a.seen.messages == ["Hi"]


async def send_by_socket(client):
    """Send a message that is certainly not accepted."""
    return await client.refused("prompt", session_id="s", message="Hi")


async def send_by_request(client):
    """Send a message that is certainly not accepted."""
    response = await client.post("/sessions/s/prompt", json={"message": "Hi"})
    return response.status_code, response.json()["error"]["code"]


def left_of(response):
    """Return the rest of an allowance in an answer, with its name."""
    name, left = re.fullmatch(r'"(\w+)";r=(\d+);t=\d+', response.headers["ratelimit"]).groups()
    return name, int(left)


@pytest.mark.machine(6)
@pytest.mark.parametrize("send", [send_by_request, send_by_socket])
async def test_a_message_that_was_certainly_not_accepted_costs_a_call(send):
    """Whoever sends it again until the next owner is there can still talk to other sessions. The rate of requests still holds."""
    limits = Limits(messages_per_minute=1, messages_burst=3, calls_per_minute=1, calls_burst=20)
    async with (
        serving_nodes(1, PAID, idle_after=0.1, limits=limits) as (a,),
        other_node(a.store, says_421),
        socket_of(a, by="ann") as socket,
    ):
        await give_to_other(a)
        before = left_of(await a.client.get("/sessions"))
        client = socket if send is send_by_socket else a.client
        assert [await send(client) for _ in range(5)] == [(503, "held_by")] * 5
        assert left_of(await a.client.get("/sessions")) == ("calls", before[1] - 6)
        other = await a.chat("Hi", session_id="t")
        assert (other.status_code, left_of(other)) == (200, ("messages", 1))
        for _ in range(20):
            last = await send(client)
        assert last == (429, "too_many_requests")


@pytest.mark.machine(6)
async def test_an_owner_with_a_wrong_certificate_gets_no_request():
    """An owner with a wrong certificate gets no request."""
    tls = tls_context(TLS / "certificate.pem", TLS / "key.pem")
    async with serving_nodes(1, PAID, idle_after=0.1) as (a,), other_node(a.store, tls=tls) as calls:
        await give_to_other(a)
        error = error_of(await a.post("/sessions/s/prompt", SAID), 503, "held_by")
        assert "nothing was accepted" in error["message"]
        assert b"".join(calls) == b""


@pytest.mark.machine(6)
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, which makes the certificate")
async def test_a_certificate_of_the_cluster_is_accepted(tmp_path):
    """`node_ca` names who signs the certificates of nodes. What comes back is unsigned here, so it is no answer."""
    own, key = tmp_path / "own.pem", tmp_path / "key.pem"
    made = f"-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {key} -out {own} -days 2"
    command = f"openssl req -x509 {made} -subj /CN=n -addext subjectAltName=IP:127.0.0.1"
    await trio.run_process(command.split(), capture_stderr=True)
    key.chmod(0o600)
    async with (
        serving_nodes(1, PAID, idle_after=0.1, node_ca=own) as (a,),
        other_node(a.store, forbids, tls=tls_context(own, key)) as calls,
    ):
        await give_to_other(a)
        error_of(await a.post("/sessions/s/prompt", SAID), 503, "held_by")
        assert b"/sessions/s/prompt" in b"".join(calls)


@pytest.mark.machine(6)
@pytest.mark.parametrize("address", ["", "http://127.0.0.1:1"], ids=["none", "closed"])
async def test_an_owner_that_is_gone_loses_its_session_at_once(address):
    """Refused, so its row is read: while it lives 503, and once it is reported gone the call is answered here."""
    async with serving_nodes(1, PAID, idle_after=0.1) as (a,), other_node(a.store, address=address):
        await give_to_other(a)
        error = error_of(await a.chat("And?", session_id="s", client_id="c"), 503, "held_by")
        assert "nothing was accepted" in error["message"]
        a.store.gone("n-other")
        again = await a.chat("And?", session_id="s", client_id="c")
        assert (again.status_code, again.json()["text"]) == (200, "paid")
        assert a.owner()[0] == a.id


@pytest.mark.machine(6)
async def test_an_owner_that_dies_while_a_call_waits_is_noticed():
    """Its head never comes. The client's name makes the message safe to send again, so it is answered here."""
    async with serving_nodes(1, PAID, idle_after=0.1) as (a,), other_node(a.store, stays_silent) as calls:
        await give_to_other(a)
        told = []

        async def send(path, said):
            told.append(await a.post(path, said))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "/chat", {**SAID, "session_id": "s"})
            nursery.start_soon(send, "/chat", {"message": "Nameless", "session_id": "s"})
            await until(lambda: len(calls) == 2)
            a.store.gone("n-other")
        told.sort(key=lambda one: one.status_code)
        assert told[0].json()["text"] == "paid"
        assert "may have accepted" in error_of(told[1], 503, "held_by")["message"]


@pytest.mark.machine(6)
async def test_an_owner_that_no_longer_owns_it_is_asked_once():
    """It answers 421, and the row names the next one."""
    async with serving_nodes(3, PAID, idle_after=0.3) as (a, b, c):
        await a.chat("Hi", session_id="s")
        assert (await b.client.get("/sessions/s")).status_code == 200  # b remembers that a has it
        await until(lambda: a.owner()[0] == "")
        assert (await c.chat("And?", session_id="s")).status_code == 200
        assert a.owner()[0] == c.id
        assert (await b.client.get("/sessions/s")).status_code == 200
        assert (await b.chat("Then?", session_id="s")).json()["text"] == "paid"
        assert (a.seen.messages, c.seen.messages) == (["Hi"], ["And?", "Then?"])


@pytest.mark.machine(19)
async def test_nodes_that_do_not_reach_each_other_keep_their_sessions():
    """M-019: longer than a lease. Calls through others are 503 and accept nothing; the owner's own clients notice nothing."""
    limits = Limits(messages_per_minute=10_000, messages_burst=1_000)
    async with serving_nodes(2, PAID, lease=3.0, limits=limits) as (a, b):
        await a.chat("Hi", session_id="s")
        owner = a.owner()
        a.wire.cut()
        ends_at = trio.current_time() + 4.0
        number = 0
        while trio.current_time() < ends_at:
            number += 1
            error_of(await b.chat("And?", session_id="s", client_id="lost"), 503, "held_by")
            assert (await a.chat(f"{number}", session_id="s")).status_code == 200
            page = await b.client.get("/sessions/s/events?format=json")
            assert page.status_code == 200  # what is stored can be read anywhere
            await trio.sleep(0.2)
        assert a.owner() == owner
        a.wire.is_cut = False
        answer = await b.chat("And?", session_id="s", client_id="lost")
        assert answer.status_code == 200
        assert a.seen.messages.count("And?") == 1
        assert b.seen.messages == []


@pytest.mark.machine(6)
async def test_a_stream_is_cut_where_its_owner_was():
    """The client gets no end that the owner did not write, and continues after its last number."""
    async with serving_nodes(2, ENDLESS) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        async with streaming(b, "POST", "/stream", {"message": "Hi", "session_id": "s"}) as read_until:
            await read_until(lambda one: one.count(b"data:") > 5)
            a.wire.cut()
            got = await read_until(lambda _: False)
        assert b"event: done" not in got
        assert not got.endswith(b"0\r\n\r\n")
        a.wire.is_cut = False
        last = re.findall(rb"id: (\d+)", got)[-1].decode()
        async with streaming(b, "GET", "/sessions/s/events", **{"last-event-id": last}) as read_until:
            await read_until(lambda one: b"data:" in one)


def check(known, headers):
    """Find a caller among those whose tokens are still valid."""
    return known.get(headers.get("authorization", "").removeprefix("Bearer "))


def raise_(error):
    raise error


@pytest.fixture
def hurry(monkeypatch):
    """Judge tokens of open streams as often as a test can wait for."""
    monkeypatch.setattr(token_watcher, "EXPIRY_SECONDS", 0.05)
    monkeypatch.setattr(token_watcher, "JUDGED_EVERY_SECONDS", 0.05)


async def revoke(a, b, known):
    """Remove the token of the client."""
    await trio.lowlevel.checkpoint()
    del known["ann"]


async def drain_entry(a, b, known):
    """Drain the node that the client has called."""
    await trio.lowlevel.checkpoint()
    b.stop.set()


@pytest.mark.machine(32)
@pytest.mark.parametrize(("end", "code"), [(revoke, "unauthorized"), (drain_entry, "shutdown")])
async def test_a_forwarded_stream_ends_with_done_where_its_client_is(end, code, hurry):
    """The token of its client, or the node that it has called, ends it as a stream of that node: with one `done`."""
    known = {"ann": CALLERS["ann"]}
    async with serving_nodes(2, ENDLESS, auth=partial(check, known)) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        async with streaming(b, "POST", "/stream", {"message": "Hi", "session_id": "s"}) as read_until:
            await read_until(lambda one: one.count(b"data:") > 5)
            await end(a, b, known)
            got = await read_until(lambda one: one.endswith(b"0\r\n\r\n"))
        assert got.count(b"event: done") == 1
        assert f'"reason":"{code}"'.encode() in got
        assert got.endswith(b"0\r\n\r\n")


@pytest.mark.machine(32)
async def test_a_forwarded_stream_is_cut_if_its_owner_cannot_end_it(hurry, monkeypatch):
    """One of an older version, which does not know the call. The token is valid no longer, so nothing more is passed on."""
    refusal = OptionError(["'end' is not an action: expected check, take, stop, move or drain"])
    monkeypatch.setattr(CallWatch, "end_forwarded", lambda *_: raise_(refusal))
    known = {"ann": CALLERS["ann"]}
    async with serving_nodes(2, ENDLESS, auth=partial(check, known)) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        async with streaming(b, "POST", "/stream", {"message": "Hi", "session_id": "s"}) as read_until:
            known.clear()
            with trio.fail_after(WRITE_GRACE_SECONDS - 1):
                got = await read_until(lambda _: False)
        assert b"event: done" not in got
        assert not got.endswith(b"0\r\n\r\n")


@pytest.mark.machine(32)
async def test_an_accepted_message_is_answered_through_another_node_after_its_token_has_ended(hurry):
    """As on its own node, if its client wants no stream: the owner has nothing to end."""
    known = {"ann": CALLERS["ann"]}
    slow = FunctionModel(lambda _: says("One", " answer.", pause_seconds=1))
    async with serving_nodes(2, slow, auth=partial(check, known), protocols=PROTOCOLS) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        answers = []

        async def respond(node):
            said = {"model": "desk", "input": "Hi", "conversation": "s"}
            answers.append(await node.post("/v1/responses", said))

        for node in (a, b):
            known["ann"] = CALLERS["ann"]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(respond, node)
                await trio.sleep(0.5)
                known.clear()
        assert [one.status_code for one in answers] == [200, 200], answers[1].text
        assert "One answer." in answers[1].text


def test_an_order_of_another_kind_has_no_new_field():
    """A node of an older version refuses a field that it does not know."""
    assert msgspec.json.encode(NodeOrder(scope="acme", session_id="s")) == (
        b'{"scope":"acme","session_id":"s","to":null,"within":30.0}'
    )


@pytest.mark.machine(32)
@pytest.mark.parametrize(
    "wire", [one for one in WIRES if one.name not in ("acp", "chat")], ids=lambda one: one.name
)
async def test_a_forwarded_stream_of_each_wire_has_a_terminal_frame(wire, hurry):
    """After the token of its client was revoked, in the shape of the wire."""
    known = {"ann": CALLERS["ann"]}
    async with serving_nodes(2, ENDLESS, auth=partial(check, known), protocols=PROTOCOLS) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        text = ""
        async with wire.opened(b, "s", "Hi") as pieces:
            async for piece in pieces:
                text += piece
                if text.count("data:") > 5:
                    known.clear()
        told = wire.read(text)
        assert (told.ends, told.is_last) == (1, True)
        assert wire.tells_end(told, "unauthorized")


def test_a_silent_owner_has_no_session():
    """A silent owner has no session."""

    async def main():
        async with serving_nodes(1, PAID) as (a,):
            await a.chat("Hi", session_id="s")
            row, nodes = a.store.get("acme", "s"), a.store.nodes()
            assert place_of_session(row, nodes, a.id) == "here"
            assert place_of_session(row, nodes, "n-b").id == a.id
            assert place_of_session(row, nodes, "n-b", {a.id}) == "nowhere"
            assert place_of_session(row, (), "n-b") == "nowhere"
            assert place_of_session(None, nodes, "n-b") == "nowhere"

    trio.run(main)


# --- what does not come from a node


def token_for(node, *, secret=None, method="POST", target=b"/sessions/s/prompt", text=b"", **changed):
    call = NodeCall(
        sender="n-b",
        receiver=node.id,
        tenant_id="acme",
        user_id="ann",
        scopes=("use",),
        digest=digest_of_body(text),
        nonce="f-1",
        at_ms=now_ms(),
    )
    return encode_node_call(
        secret or node.store.secret(), msgspec.structs.replace(call, **changed), method, target
    )


@pytest.mark.machine(9)
async def test_a_request_that_no_node_signed_is_403():
    """M-009: nothing of it is in any journal. A valid one is answered, and not twice."""
    text = json.dumps({**SAID, "user_id": "bob"}).encode()
    good = json.dumps(SAID).encode()
    async with serving_nodes(1, PAID) as (a,):
        await a.chat("Hi", session_id="s")
        before = a.store.get("acme", "s").tail
        late, early = now_ms() - LIFETIME_MS - 1, now_ms() + 60_000
        refused = {
            "forged": token_for(a, text=good)[:-1] + "x",
            "empty": "",
            "foreign": token_for(a, secret=bytes(32), text=good),
            "expired": token_for(a, text=good, at_ms=late),
            "ahead": token_for(a, text=good, at_ms=early),
            "hop 2": token_for(a, text=good, hops=2),
            "of another node": token_for(a, text=good, receiver="n-c"),
            "of another path": token_for(a, text=good, target=b"/sessions/t/prompt"),
            "of another body": token_for(a, text=b"{}"),
        }
        headers = {"content-type": "application/json"}
        for case, token in refused.items():
            more = {**headers, NODE_HEADER: token}
            response = await a.client.post("/sessions/s/prompt", content=good, headers=more)
            assert (response.status_code, case) == (403, case)
        other = {**headers, NODE_HEADER: token_for(a, text=text, nonce="f-2")}
        response = await a.client.post("/sessions/s/prompt", content=text, headers=other)
        error_of(response, 403, "principal_mismatch")
        for path in ("/health", "/ready", "/nothing"):
            assert (await a.client.get(path, headers={NODE_HEADER: "x"})).status_code in (200, 403)
        assert a.store.get("acme", "s").tail == before
        valid = {**headers, NODE_HEADER: token_for(a, text=good, nonce="f-3")}
        assert (await a.client.post("/sessions/s/prompt", content=good, headers=valid)).status_code == 202
        assert (await a.client.post("/sessions/s/prompt", content=good, headers=valid)).status_code == 403


@pytest.mark.machine(9)
async def test_a_server_alone_takes_no_request_of_a_node():
    """A server alone takes no request of a node."""
    async with serving(PAID, store="memory:") as web:
        error_of(await web.client.get("/sessions", headers={NODE_HEADER: "x"}), 403, "forbidden")


@pytest.mark.machine(9)
async def test_a_node_does_not_pass_on_what_another_has_passed_on():
    """It answers 421 for a session of a third one."""
    async with serving_nodes(1, PAID, idle_after=0.1) as (a,), other_node(a.store, forbids) as calls:
        await give_to_other(a)
        text = json.dumps(SAID).encode()
        headers = {"content-type": "application/json", NODE_HEADER: token_for(a, text=text)}
        response = await a.client.post("/sessions/s/prompt", content=text, headers=headers)
        error_of(response, 421, "not_owner")
        assert calls == []
