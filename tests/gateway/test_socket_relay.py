"""One socket of a client that follows and commands sessions of several nodes, wherever they move."""

import pytest
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection

from agentrail.gateway import socket_connection, socket_relay, sockets
from agentrail.gateway.node_token import NODE_HEADER
from agentrail.host import Limits
from agentrail.testing.models import FunctionModel, ScriptedModel, says
from agentrail.wire.server_frames import CloseCode
from tests.gateway.nodes import serving_nodes
from tests.gateway.socket_client import no_sockets, refused_upgrade, socket_of
from tests.gateway.test_forwarding import (
    answers_for_it,
    forbids,
    give_to_other,
    other_node,
    says_421,
    token_for,
    until,
)
from tests.gateway.web import serving

PAID = FunctionModel(lambda _: says("paid"))
LONG = FunctionModel(lambda _: says("So", *[" on"] * 60, pause_seconds=0.05))


def sockets_of(node):
    return node.served.sockets.statistics().sockets


async def until_all(client, kind, sessions):
    """Read until each of these sessions has had an event of a kind."""
    while sessions - {
        frame["event"]["session_id"]
        for frame in client.seen
        if frame["type"] == "event" and frame["event"]["kind"] == kind
    }:
        await client.next()


async def in_store(node, session_id, after):
    page = await node.client.get(f"/sessions/{session_id}/events?format=json&after={after}")
    return [one["seq"] for one in page.json()["events"] if not one.get("ephemeral")]


@pytest.mark.machine(7)
async def test_one_socket_follows_six_sessions_on_three_nodes():
    """M-007: two of them move while their model speaks. Each number comes once and in order, and owners answer commands."""
    async with serving_nodes(3, LONG) as nodes:
        a, b, c = nodes
        owners = dict(zip("uvwxyz", (a, a, b, b, c, c), strict=True))
        for name, node in owners.items():
            await node.post("/sessions", {"session_id": name})
        epochs = {name: node.owner(name)[1] for name, node in owners.items()}
        async with socket_of(a, by="ann") as client:
            began = {name: (await client.subscribe(name))["seq"] for name in owners}
            for name in owners:
                await client.done("prompt", session_id=name, message="Hi", client_id=f"c-{name}")
            await until_all(client, "agent_start", owners.keys())
            for name, source, target in (("u", a, b), ("w", b, c)):
                await source.host.supervisor.move_session(name, target.id, scope="acme")
            await client.send(type="ping", n=7)
            await client.until("pong", n=7)
            for name in owners:
                assert (await client.done("status", session_id=name))["phase"]
            await until_all(client, "agent_end", owners.keys())
            for name, node in owners.items():
                # Whichever node looks first takes a session that was released, perhaps its old one.
                assert (node.owner(name)[1] > epochs[name]) == (name in "uw")
                assert client.numbers(name) == await in_store(node, name, began[name])
            kinds = {frame["type"] for frame in client.seen} - {"lag"}
            assert kinds == {"subscribed", "event", "reply", "pong"}
            assert [sockets_of(node) for node in nodes] == [1, 1, 1]
        for node in nodes:
            await no_sockets(node)
        assert [node.seen.messages for node in nodes] == [["Hi"] * 2] * 3


@pytest.mark.machine(7)
async def test_a_reader_continues_after_the_death_of_the_owner():
    """The node is taken for dead, so another one takes its session, and the reader continues after its last number."""
    async with serving_nodes(2, LONG) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        async with socket_of(b, by="ann") as client:
            began = await client.subscribe("s")
            await client.done("prompt", session_id="s", message="Hi", client_id="c")
            await until_all(client, "agent_start", {"s"})
            a.wire.cut()
            b.store.gone(a.id)
            await until_all(client, "agent_end", {"s"})
            assert client.numbers("s") == await in_store(b, "s", began["seq"])
            assert b.owner()[0] == b.id


@pytest.mark.machine(6)
@pytest.mark.parametrize("handle", [says_421, forbids, answers_for_it], ids=lambda one: one.__name__)
async def test_a_command_for_an_owner_that_does_not_answer_is_503(handle):
    """M-006: also if somebody answers for it. A subscription is refused the same way, and the socket stays open."""
    async with serving_nodes(1, PAID, idle_after=0.1) as (a,), other_node(a.store, handle) as calls:
        await give_to_other(a)
        before = a.store.get("acme", "s").tail
        async with socket_of(a, by="ann") as client:
            for name, fields in (
                ("prompt", {"message": "And?", "client_id": "c"}),
                ("status", {}),
                ("subscribe", {}),
            ):
                assert await client.refused(name, session_id="s", **fields) == (503, "held_by")
            await client.done("sessions")
            a.store.gone("n-other")
            await client.subscribe("s")
            assert (await client.done("prompt", session_id="s", message="And?", client_id="c"))["ref"]
        assert all(b"GET /ws" in one for one in calls)
        assert a.store.get("acme", "s").tail.epoch > before.epoch


@pytest.mark.machine(9)
async def test_a_socket_that_no_node_signed_is_403():
    """M-009: forged, for another path, with a body, or taken a second time."""
    async with serving_nodes(1, PAID) as (a,), serving(PAID, store="memory:") as alone:
        good = {"method": "GET", "target": b"/ws"}
        refused = {
            "forged": token_for(a, **good)[:-1] + "x",
            "of another path": token_for(a, method="GET"),
            "with a body": token_for(a, text=b"{}", **good),
            "hop 2": token_for(a, hops=2, **good),
        }
        for token in refused.values():
            for node in (a, alone):
                assert await refused_upgrade(node, **{NODE_HEADER: token}) == (403, "forbidden")
        valid = {NODE_HEADER: token_for(a, nonce="f-2", **good)}
        async with socket_of(a, origin="", **valid) as client:
            assert (await client.done("create", session_id="s"))["session_id"] == "s"
        assert await refused_upgrade(a, **valid) == (403, "forbidden")


@pytest.mark.machine(8)
async def test_a_command_is_charged_where_it_came_in():
    """M-008: once, and its socket takes a place there only."""
    limits = Limits(messages_per_minute=6, messages_burst=3)
    async with serving_nodes(2, PAID, limits=limits) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        async with socket_of(b, by="ann") as client:
            for number in range(3):
                await client.done("prompt", session_id="s", message="Hi", client_id=f"c-{number}")
            assert await client.refused("prompt", session_id="s", message="Hi", client_id="c") == (
                429,
                "too_many_requests",
            )
            assert (sockets_of(a), a.served.gateway.places.in_all, b.served.gateway.places.in_all) == (
                1,
                0,
                1,
            )
            assert (a.seen.messages, b.seen.messages) == (["Hi"] * 3, [])


@pytest.mark.machine(7)
async def test_a_socket_between_nodes_closes_when_it_is_unused(monkeypatch):
    """It is opened with the first session, and closed after the last; the client's own stays open."""
    monkeypatch.setattr(socket_relay, "UNUSED_SECONDS", 1.0)
    async with serving_nodes(2, PAID) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        async with socket_of(b, by="ann") as client:
            assert sockets_of(a) == 0
            await client.subscribe("s")
            assert sockets_of(a) == 1
            await client.done("unsubscribe", session_id="s")
            await until(lambda: sockets_of(a) == 0)
            assert (await client.subscribe("s"))["session_id"] == "s"


@pytest.mark.machine(7)
async def test_a_client_that_does_not_read_slows_only_itself(monkeypatch):
    """Its socket ends with 4409, and the one behind it too; another reader of the session misses nothing."""
    monkeypatch.setattr(socket_connection, "STUCK_SECONDS", 0.5)
    monkeypatch.setattr(sockets, "WRITE_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(sockets, "TICK_SECONDS", 0.05)
    words = ["w" * 200_000] * 60
    async with serving_nodes(2, ScriptedModel([says(word) for word in words])) as (a, b):
        await a.post("/sessions", {"session_id": "s"})
        async with socket_of(b, by="ann", x_name="reader") as reader, socket_of(b, by="ann") as stalled:
            await reader.subscribe("s", kinds=["agent_end"])
            await stalled.subscribe("s", deltas=False)
            (slow,) = (one for one in b.served.sockets._open if "x-name" not in one.head.headers)  # noqa: SLF001
            session = a.host.supervisor.session("s", scope="acme")
            with trio.fail_after(60):
                for _ in words:
                    await session.ask("Hi")
                    await reader.until_event("agent_end")
            await until(lambda: (sockets_of(a), sockets_of(b)) == (1, 1))
            assert slow.queue.closing is CloseCode.SLOW
            assert slow.queue.size_bytes < 2 << 20


@pytest.mark.machine(6)
async def test_a_socket_whose_answer_nobody_signed_gets_no_frame():
    """M-006: a proxy that accepts the upgrade for an owner learns nothing, not even that a client is there."""
    frames = []

    async def upgrades(stream):
        server = WSConnection(ConnectionType.SERVER)
        server.receive_data(calls[-1])
        next(server.events())
        await stream.send_all(server.send(AcceptConnection(subprotocol="agentrail.v1")))
        frames.append(bytes(await stream.receive_some()))

    async with serving_nodes(1, PAID, idle_after=0.1) as (a,), other_node(a.store, upgrades) as calls:
        await give_to_other(a)
        async with socket_of(a, by="ann") as client:
            fields = {"session_id": "s", "message": "And?", "client_id": "c"}
            assert await client.refused("prompt", **fields) == (503, "held_by")
        assert calls != []
        assert b"".join(frames) == b""
