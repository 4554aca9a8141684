"""Nodes and clients over a simulated network, of messages and of bytes: calls, sockets, and what each fault does to them."""

import math

import httpx
import pytest
import trio
from hypothesis import given, settings, strategies as st
from trio_websocket import ConnectionRejected

from agentrail import outside
from agentrail.events import AgentEnd
from agentrail.host import Limits
from agentrail.remote.connect import connect
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import FunctionModel, says
from agentrail.testing.simulation.byte_network import ByteNetwork, SimulatedSocket
from agentrail.testing.simulation.connections import CONNECTED, WINDOW, Connections
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.network import SimulatedNetwork
from agentrail.testing.simulation.tape import Tape
from tests.simulation.two_nodes import NETWORKS, PLACES, committed, lived, started, until_silent

QUICK = FunctionModel(lambda _: says("paid"))

each_network = pytest.mark.parametrize("kind", NETWORKS, ids=lambda kind: kind.__name__)


# --- the product over the network


@each_network
def test_a_call_to_the_other_node_is_forwarded(kind):
    """A node that owns nothing forwards a call over the network, and the client has the owner's answer."""

    async def life(cluster):
        await started(cluster)
        before = cluster.crossed("node-1", "node-0")
        async with cluster.http("node-1") as client:
            answer = await client.post("/chat", json={"message": "Hi", "agent_id": "desk", "session_id": "s"})
        assert (answer.status_code, answer.json()["text"]) == (200, "paid")
        assert cluster.crossed("node-1", "node-0") > before

    lived(kind, life, model=QUICK)


@each_network
def test_a_socket_is_relayed(kind):
    """A socket to a node follows and commands a session of the other one. It is refused without a token."""

    async def life(cluster):
        await started(cluster)
        async with cluster.socket("node-1") as client:
            await client.subscribe("s")
            await client.done("prompt", session_id="s", message="Hi", client_id="c")
            events = await committed(client, 6)
        assert [one["seq"] for one in events] == [2, 3, 4, 5, 6, 7]
        assert cluster.crossed("node-1", "node-0")
        statuses = []
        try:
            async with cluster.network.dial("node-1"):
                pass
        except* ConnectionRejected as group:
            statuses += [one.status_code for one in group.exceptions]
        assert statuses == [403]
        await trio.sleep(1)
        assert [host.sockets.statistics().sockets for host in cluster.hosts] == [0, 0]

    lived(kind, life, model=QUICK)


@each_network
def test_one_seed_is_one_life(kind):
    """The same seed delivers the same messages at the same times, and another seed other times."""

    async def life(cluster):
        times = []
        cluster.network.watchers.append(
            lambda way, message: times.append((trio.current_time(), way, repr(message)[:9]))
        )
        await started(cluster)
        async with cluster.socket("node-1") as client:
            await client.subscribe("s")
            await client.done("prompt", session_id="s", message="Hi", client_id="c")
            await committed(client, 6)
        return times

    assert lived(kind, life, seed=3) == lived(kind, life, seed=3) != lived(kind, life, seed=4)


# --- faults


@pytest.mark.simulation("V-011")
@each_network
def test_a_reader_over_a_one_way_cut_continues_with_its_number(kind):
    """V-011: the client has its own time limit, the server sees no disconnect, and the reader has no gap."""

    async def life(cluster):
        await started(cluster)
        hubs, network, seen = cluster.hosts[0].gateway.hubs, cluster.network, []
        async with cluster.http("node-0", timeout=5) as client:
            async with client.stream("GET", "/sessions/s/events") as answer:
                await client.post("/sessions/s/prompt", json={"message": "Hi", "client_id": "a"})
                network.cut("ann", "node-0", one_way=True)
                seen += await until_silent(answer)
            assert seen[-1]["seq"] == 7  # all that the other direction carries
            gave_up_at = trio.current_time()
            with pytest.raises(httpx.ConnectTimeout):
                await client.get("/sessions/s")
            assert trio.current_time() == pytest.approx(gave_up_at + 5)
            assert hubs.statistics().readers == 1
            network.mend("ann", "node-0")
            await client.post("/sessions/s/prompt", json={"message": "More", "client_id": "b"})
            number = {"last-event-id": f"{seen[-1]['seq']}"}
            async with client.stream("GET", "/sessions/s/events", headers=number) as answer:
                seen += await until_silent(answer)
        await trio.sleep(1)
        assert hubs.statistics().readers == 0
        assert [one["seq"] for one in seen] == list(range(2, 14))

    lived(kind, life, heartbeat=60.0)


@each_network
@pytest.mark.parametrize(("place", "between"), [("node-0", "ann"), ("node-1", "node-1")])
def test_a_reset_in_the_middle_of_an_answer_is_no_end(kind, place, between):
    """Neither the client nor a node that forwards takes a part for the whole answer."""

    async def life(cluster):
        await started(cluster)
        async with cluster.http(place) as client, client.stream("GET", "/sessions/s/events") as answer:
            pieces = answer.aiter_bytes()
            assert b"snapshot" in await anext(pieces)
            cluster.network.reset(between, "node-0")
            with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
                async for _ in pieces:
                    pass

    lived(kind, life)


@each_network
def test_a_refused_connection_is_known_to_have_accepted_nothing(kind):
    """The forwarder distinguishes a connection that was refused from one that was lost after the call was sent."""

    async def life(cluster):
        await started(cluster)
        async with cluster.http("node-1") as client:
            cluster.network.refuse("node-0")
            refused = await client.post("/sessions/s/prompt", json={"message": "Hi"})
            assert "nothing was accepted" in refused.json()["error"]["message"]
            cluster.network.accept("node-0")

            def lose(way, message):
                if way == "node-1 > node-0" and "POST" in str(message):
                    cluster.network.reset("node-0", "node-1")

            cluster.network.watchers.append(lose)
            lost = await client.post("/sessions/s/prompt", json={"message": "Hi"})
            assert "may have accepted the call" in lost.json()["error"]["message"]
            assert [one.status_code for one in (refused, lost)] == [503, 503]

    lived(kind, life, model=QUICK)


@each_network
def test_a_relayed_command_whose_socket_is_lost_is_sent_over_another_one(kind):
    """One that was not sent is sent whatever it is, and one that may be repeated also if it was. Another may have been accepted."""

    async def life(cluster):
        await started(cluster)
        async with cluster.socket("node-1") as client:
            await client.done("status", session_id="s")
            cluster.network.cut("node-1", "node-0", one_way=True)
            repeated = range(1_000, 1_000 + WINDOW + 2)
            names = [*["status"] * len(repeated), "prompt"]
            await client.send(type="prompt", id=999, session_id="s", message="Sent")
            await trio.sleep(0.5)
            for frame_id, name in enumerate(names, repeated[0]):
                more = {"message": "Not sent"} if name == "prompt" else {}
                await client.send(type=name, id=frame_id, session_id="s", **more)
            await trio.sleep(0.5)
            cluster.network.reset("node-1", "node-0")
            cluster.network.mend("node-1", "node-0")
            replies = {}
            while len(replies) < len(names) + 1:
                frame = await client.until("reply")
                replies[frame["id"]] = frame
        async with cluster.http("node-0") as http:
            page = (await http.get("/sessions/s/events?format=json")).text
        assert (page.count("prompt_received"), page.count('"Sent"')) == (1, 0)
        lost = replies.pop(999)
        assert "may have accepted the call" in lost["error"]["message"]
        assert [one.get("error") for one in replies.values()] == [None] * len(names)

    limits = Limits(commands_per_second=1_000)
    lived(kind, life, model=QUICK, limits=limits, heartbeat=60.0)


@each_network
def test_a_place_that_has_ended_resets_its_connections(kind):
    """Its callers learn it although none of its tasks runs: here they are never started. New connections are refused."""

    async def life(cluster):
        network = cluster.network
        network.listen("mute", lambda _: None)
        async with cluster.http("mute") as client, trio.open_nursery() as nursery:
            nursery.start_soon(end_later, network)
            with pytest.raises(httpx.ReadError):
                await client.get("/")
            assert trio.current_time() >= 30
            with pytest.raises(httpx.ConnectError):
                await client.get("/")

    async def end_later(network):
        await trio.sleep(30)
        network.leave("mute")

    lived(kind, life)


@each_network
def test_a_connection_may_be_half_open(kind):
    """A place that ends behind a cut is not known to have ended: its caller meets its own time limit, until the way is mended."""

    async def life(cluster):
        network = cluster.network
        network.listen("mute", lambda _: None)
        async with cluster.http("mute", timeout=60) as client, trio.open_nursery() as nursery:
            nursery.start_soon(end_behind_a_cut, network)
            with pytest.raises(httpx.ReadTimeout):
                await client.get("/")
            network.mend("ann", "mute")
            with pytest.raises(httpx.ConnectError):
                await client.get("/")

    async def end_behind_a_cut(network):
        await trio.sleep(30)
        network.cut("ann", "mute")
        network.leave("mute")

    lived(kind, life)


@each_network
def test_a_large_message_arrives_whole(kind):
    """A body of many chunks arrives as it was sent, also through another node, and back to a slow reader."""
    text = "".join(f"{number}, " for number in range(8_000))

    async def life(cluster):
        await started(cluster)
        async with cluster.http("node-1", timeout=60) as client:
            said = {"message": text, "client_id": "a"}
            assert (await client.post("/sessions/s/prompt", json=said)).status_code == 202
            cluster.network.way("node-1", "ann").bytes_per_second = 100_000
            begun_at = trio.current_time()
            page = await client.get("/sessions/s/messages")
        assert text in [part["text"] for part in page.json()["messages"][0]["content"]]
        assert trio.current_time() - begun_at >= len(page.content) / 100_000

    lived(kind, life, model=QUICK)


def test_half_a_connection_may_end():
    """A socket that has sent its last byte still receives, and its peer reads the end only once all was read."""

    async def life(cluster):
        network = cluster.network
        listener = SimulatedSocket(network, "far")
        listener.listen()
        client = await trio.open_tcp_stream("far", 80)
        server = await trio.SocketListener(listener).accept()
        await client.send_all(b"x" * 50_000)
        await client.send_eof()
        received = b"".join([piece async for piece in server])
        await server.send_all(b"all of it")
        await server.aclose()
        assert (received, b"".join([piece async for piece in client])) == (b"x" * 50_000, b"all of it")
        await client.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await client.receive_some()

    lived(ByteNetwork, life)


def test_a_connection_without_room_in_the_backlog_opens_later():
    """A server that accepts nothing has as many connections as its backlog. Others ask again after 1, 2 and 4 seconds, unless they leave."""

    async def main():
        network, opened = ByteNetwork(Tape(seed=7), LifeLog()), {}
        listener = SimulatedSocket(network, "node-0")
        listener.listen(2)

        async def open_one(name, patience=math.inf):
            socket = SimulatedSocket(network, name)
            with trio.move_on_after(patience) as waiting:
                await socket.connect(("node-0", 80))
                opened[name] = trio.current_time()
            if waiting.cancelled_caught:
                socket.close()

        async with trio.open_nursery() as nursery:
            for name in ("a", "b", "c", "d"):
                nursery.start_soon(open_one, name)
                await trio.sleep(0.1)
            nursery.start_soon(open_one, "gone", 0.5)
            await trio.sleep(1.5)
            assert set(opened) == {"a", "b"}
            await listener.accept()
            await trio.sleep(2)
            assert set(opened) == {"a", "b", "c"}
            assert 3 < opened["c"] < 3.5
            await listener.accept()
        assert set(opened) == {"a", "b", "c", "d"}
        assert 7 < opened["d"] < 7.6
        with trio.move_on_after(60) as waiting:
            accepted = [await listener.accept() for _ in range(2)]
            await listener.accept()  # the one that left is not in the queue
        assert waiting.cancelled_caught
        assert len(accepted) == 2

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_doubled_prompt_is_one_prompt():
    """A request that arrives twice, with one `client_id`, is accepted once, and its sender has one answer."""

    async def life(cluster):
        await started(cluster)
        async with cluster.http("node-1", timeout=5) as client:
            cluster.network.repeat("ann", "node-1")
            said = {"message": "Hi", "client_id": "a"}
            assert (await client.post("/sessions/s/prompt", json=said)).status_code == 202
            async with client.stream("GET", "/sessions/s/events", headers={"last-event-id": "0"}) as answer:
                kinds = [one["kind"] for one in await until_silent(answer)]
            await client.post("/sessions/s/prompt", json=said)
        heads = [
            one["method"] for _, one in cluster.arrived if isinstance(one, dict) and one["type"] == "http"
        ]
        assert (
            heads.count("POST") == 1 + 2 + 2 + 1 + 1
        )  # to start, doubled and forwarded, then once and forwarded
        assert kinds.count("prompt_received") == 1

    lived(SimulatedNetwork, life, model=QUICK)


def test_a_proxy_buffers_a_stream():
    """Events arrive in few pieces, and none is lost."""

    async def life(cluster, size_bytes):
        await started(cluster)
        cluster.network.buffer("ann", "node-0", size_bytes)
        client, number = cluster.http("node-0", timeout=20), {"last-event-id": "0"}
        async with client, client.stream("GET", "/sessions/s/events", headers=number) as answer:
            await client.post("/sessions/s/prompt", json={"message": "Hi"})
            moments = set()
            cluster.network.watchers.append(
                lambda way, _: way == "node-0 > ann" and moments.add(trio.current_time())
            )
            await trio.sleep(3)
            cluster.network.buffer("ann", "node-0", 0)
            return len(moments), [one["seq"] for one in await until_silent(answer)]

    plain, buffered = (lived(SimulatedNetwork, life, size, heartbeat=60.0) for size in (0, 4_096))
    assert plain[1] == buffered[1] == list(range(1, 8))
    assert buffered[0] < plain[0] / 2


@pytest.mark.simulation("V-031")
@settings(max_examples=8)
@given(
    texts=st.lists(st.sampled_from(["Hi", "And?", "x" * 3_000]), min_size=1, max_size=3),
    resets=st.lists(
        st.sampled_from([("ann", "node-0"), ("ann", "node-1"), ("node-1", "node-0")]), max_size=3
    ),
)
def test_both_networks_show_the_same_events(texts, resets):
    """V-031: one script over messages and over bytes, with resets: equal committed events at all readers."""
    shown = [lived(kind, told, texts, resets, model=QUICK) for kind in NETWORKS]
    for at_node_0, at_node_1 in shown:
        assert at_node_0 == at_node_1
    first, second = (
        [(type(one).__name__, one.meta.seq, getattr(one, "content", None)) for one in readers[0]]
        for readers in shown
    )
    assert first == second
    assert [seq for _, seq, _ in first] == list(range(1, 6 * len(texts) + 2))


async def told(cluster, texts, resets):
    """Prompt a session through both nodes in turn, and reset connections meanwhile. Return what a reader at each node saw."""
    await started(cluster)
    shown = {place: [] for place in PLACES}
    tell, ended = trio.open_memory_channel(math.inf)

    async def read(place, task_status):
        async with connect(f"http://{place}", "ann", "s") as session, session.subscribe(after=0) as events:
            task_status.started()
            async for event in events:
                shown[place] += [] if event.meta.ephemeral else [event]
                if isinstance(event, AgentEnd):
                    await tell.send(place)

    async with trio.open_nursery() as nursery:
        for place in PLACES:
            await nursery.start(read, place)
        for number, text in enumerate(texts):
            said = {"message": text, "client_id": f"c{number}"}
            async with cluster.http(PLACES[number % 2]) as client:
                for _ in range(20):
                    if (await client.post("/sessions/s/prompt", json=said)).status_code == 202:
                        break
                    await trio.sleep(0.1)
            for pair in resets[number : number + 1]:
                cluster.network.reset(*pair)
            for _ in range(2):
                await ended.receive()
        nursery.cancel_scope.cancel()
    return [shown[place] for place in PLACES]


# --- connections


FAULTS = st.sampled_from(
    [
        ("cut", ("a", "b")),
        ("cut", ("b", "a")),
        ("slow", ("a", "b", 0.3)),
        ("slow", ("a", "b", 0.0)),
        ("mend", ("a", "b")),
    ]
)


@given(
    sizes=st.lists(st.integers(1, 200), max_size=60),
    faults=st.lists(st.tuples(st.floats(0, 1), FAULTS), max_size=6),
    seed=st.integers(0, 9),
    bytes_per_second=st.sampled_from([math.inf, 5_000.0]),
)
def test_order_holds_within_a_connection(sizes, faults, seed, bytes_per_second):
    """Whatever happens to a way, its messages arrive in order, each once, and then the end."""
    network = Connections(Tape(seed))
    accepted, received = [], []

    async def send(client):
        for size in sizes:
            await client.send(bytes([size]) * size)
        client.close()

    async def strike():
        for after, (name, places) in faults:
            await trio.sleep(after)
            getattr(network, name)(*places)
        await trio.sleep(1)
        network.mend_all()

    async def main():
        network.listen("b", accepted.append)
        with outside.installed(NodeMachine(seed, "a")):
            client = network.open("b")
        network.way("a", "b").bytes_per_second = bytes_per_second
        assert await client.receive() is CONNECTED
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, client)
                nursery.start_soon(strike)
                while (message := await accepted[0].receive()) is not None:
                    received.append(message)
        assert (accepted[0].end, network.open_connections) == ("closed", 0)

    trio.run(main, clock=FakeClock())
    assert received == [bytes([size]) * size for size in sizes]


def test_a_slow_way_is_slow_in_both_directions():
    """Opening a connection takes the latency of both directions."""

    async def main():
        network = Connections(Tape(1))
        network.listen("world", lambda _: None)
        network.slow("world", "world", 7.0)
        assert await network.open("world").receive() is CONNECTED
        return trio.current_time()

    assert 14 < trio.run(main, clock=FakeClock()) < 15


def test_a_reset_loses_what_is_under_way():
    """Messages that have arrived are read, the others are not, and then both ends know."""

    async def main():
        network, accepted = Connections(Tape(1)), []
        network.listen("world", accepted.append)
        client = network.open("world")
        assert await client.receive() is CONNECTED
        await client.send("first")
        await trio.sleep(1)
        await client.send("second")
        network.reset("world", "world")
        await trio.sleep(1)
        assert [await accepted[0].receive() for _ in range(2)] == ["first", None]
        assert (accepted[0].end, client.end, network.open_connections) == ("reset", "reset", 0)
        with pytest.raises(trio.BrokenResourceError):
            await client.send("third")

    trio.run(main, clock=FakeClock())


@pytest.mark.parametrize("bytes_per_second", [1_000.0, 10_000.0])
def test_bandwidth_limits_a_connection(bytes_per_second):
    """A sender waits for a slow reader once its window is full, and all of it takes size / bandwidth seconds."""

    async def main():
        network, accepted = Connections(Tape(1)), []
        network.listen("world", accepted.append)
        network.way("world", "world").bytes_per_second = bytes_per_second
        client = network.open("world")
        assert await client.receive() is CONNECTED
        begun_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_all, client)
            for _ in range(2 * WINDOW):
                await accepted[0].receive()
        took = trio.current_time() - begun_at
        assert took == pytest.approx(2 * WINDOW * 100 / bytes_per_second, rel=0.1, abs=0.2)

    async def send_all(client):
        begun_at = trio.current_time()
        for _ in range(2 * WINDOW):
            await client.send(b"x" * 100)
        assert trio.current_time() - begun_at >= (WINDOW - 1) * 100 / bytes_per_second

    trio.run(main, clock=FakeClock())
