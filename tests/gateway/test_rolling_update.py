"""A rolling update and its way back, of nodes in one process. An older release is a node with a lower codec (docs: operate PostgreSQL)."""

import random
from functools import partial

import httpx
import pytest
import trio

from agentrail import tool
from agentrail.abc.store import Node
from agentrail.core.journal import record
from agentrail.core.journal.record import REWOUND
from agentrail.host import Limits
from agentrail.runtime import persistence
from agentrail.runtime.session_nodes import node_that_reads
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.plugins import PuppetPlugin
from tests.gateway.nodes import serving_nodes
from tests.gateway.socket_client import socket_of
from tests.gateway.web import error_of
from tests.host.hosting import profile

OLD, NEW = 1, 2
SESSIONS = [f"s{number}" for number in range(6)]


class WatchedStore(MemoryStore):
    """Notes each take: the codec of the node, and that of the tree."""

    def __init__(self):
        super().__init__(is_shared=True)
        self.takes = []

    def take(self, scope, root, node, cause, **options):
        taken = super().take(scope, root, node, cause, **options)
        codecs = {one.id: one.codec for one in self.nodes()}
        self.takes.append((codecs[node], max(one.codec for one in taken.sessions)))
        return taken


class Cluster:
    """Three nodes, each of which can be replaced, and clients that ask any of them."""

    def __init__(self, monkeypatch, nursery):
        self.store, self.nodes = WatchedStore(), []
        self.asked = dict.fromkeys(SESSIONS, 0)
        self.is_over = False
        self._patch, self._nursery = monkeypatch, nursery

    async def start(self, codec):
        async def run(task_status):
            options = {
                "limits": Limits(messages_per_minute=100_000, calls_per_minute=100_000),
                "session_tools": [work],
            }
            async with serving_nodes(1, MODEL, store=self.store, **options) as (node,):
                stop = trio.Event()
                task_status.started((node, stop))
                await stop.wait()

        self._patch.setattr(persistence, "CODEC", codec)
        self.nodes.append(await self._nursery.start(run))

    async def stop_oldest(self):
        node, stop = self.nodes.pop(0)
        stopped = node.id
        stop.set()
        while any(one.id == stopped and not one.gone_at_ms for one in self.store.nodes()):  # noqa: ASYNC110
            await trio.sleep(0.02)

    async def roll(self, codec):
        for _ in range(3):
            await self.start(codec)
            await self.stop_oldest()

    async def post(self, path, body):
        """Send it to any node, and again until one accepts it."""
        while True:
            node = random.choice(self.nodes)[0]  # noqa: S311
            try:
                answer = await node.post(path, body)
            except httpx.TransportError:  # it has just stopped
                continue
            if answer.status_code != 503:
                return answer
            await trio.sleep(0.02)

    async def talk(self, session_id):
        while not self.is_over:
            number = self.asked[session_id] + 1
            said = {"message": f"m{number}", "session_id": session_id, "client_id": f"{session_id}-{number}"}
            answer = await self.post("/chat", said)
            assert (answer.status_code, answer.json().get("text")) == (200, "done"), answer.text
            self.asked[session_id] = number
            await trio.sleep(0.05)


def answer(request):
    if "long" in f"{request.messages[-1]}":
        return calls(("work", {}))
    return says("done")


MODEL = FunctionModel(answer)


@tool(effect_class="idempotent")
async def work() -> str:
    """Work for a long time."""
    await trio.sleep_forever()


@pytest.mark.machine(11)
async def test_a_rolling_update_and_back_fails_no_cycle(monkeypatch):
    """M-011: only trees with a record of the newer kind wait on the older nodes, and their callers read why."""
    monkeypatch.setattr(record, "NEWER_KINDS", {REWOUND: NEW})
    async with trio.open_nursery() as nursery:
        cluster = Cluster(monkeypatch, nursery)
        store = cluster.store
        for _ in range(3):
            await cluster.start(OLD)
        async with trio.open_nursery() as clients:
            for session_id in SESSIONS:
                clients.start_soon(cluster.talk, session_id)
            for session_id in ("newer", "working"):
                assert (await cluster.post("/chat", {"message": "Hi", "session_id": session_id})).is_success
            await cluster.roll(NEW)
            for session_id in ("newer", "working"):
                answered = await cluster.post(f"/sessions/{session_id}/rewind", {"to": 2})
                assert answered.is_success, answered.text
            body = {"message": "long", "session_id": "working"}
            assert (await cluster.post("/sessions/working/prompt", body)).status_code == 202
            await cluster.start(OLD)  # beside newer ones
            old = cluster.nodes[-1][0]
            assert (await old.chat("Hi", session_id="newer")).json()[
                "text"
            ] == "done"  # passed on to a newer one
            assert store.get("acme", "newer").codec == NEW
            owner = store.get("acme", "working").node
            cluster.nodes.sort(
                key=lambda one: one[0].id != owner
            )  # it stops first, so a newer one takes its work
            for _ in range(3):
                await cluster.stop_oldest()
                with trio.fail_after(10):
                    while (NEW, NEW) not in store.takes:  # noqa: ASYNC110
                        await trio.sleep(0.02)
                await cluster.start(OLD)
            before = [store.get("acme", one).tail for one in ("newer", "working")]
            for node, _ in cluster.nodes:
                error = error_of(await node.chat("Hi", session_id="newer"), 503, "store_too_new")
                assert "newer version" in error["message"]
                facts = await node.host.supervisor.cluster_facts()
                assert facts.needs_newer == {("acme", "working"): NEW}
            assert [store.get("acme", one).tail for one in ("newer", "working")] == before
            counts = dict(cluster.asked)
            with trio.fail_after(10):  # the others continue
                while not all(cluster.asked[one] > counts[one] for one in SESSIONS):  # noqa: ASYNC110
                    await trio.sleep(0.05)
            cluster.is_over = True
        assert all(node >= tree for node, tree in store.takes)
        for session_id in SESSIONS:
            messages = (await cluster.nodes[0][0].client.get(f"/sessions/{session_id}/messages")).text
            assert all(
                messages.count(f'"m{number}"') == 1 for number in range(1, cluster.asked[session_id] + 1)
            )
        for _, stop in cluster.nodes:
            stop.set()


async def test_a_node_without_the_code_of_a_stored_session_passes_calls_on():
    """An older node has neither a new profile nor a new plugin of an old one. What no node serves is unknown."""
    store = MemoryStore(is_shared=True)
    newer = [profile(MODEL, plugins=[PuppetPlugin((), name="added")]), profile(MODEL, name="fresh")]
    async with serving_nodes(1, MODEL, store=store) as (old,):
        unserved = {"message": "Hi", "session_id": "d", "agent_id": "fresh"}
        error_of(await old.post("/chat", unserved), 404, "profile_unknown")
        async with serving_nodes(1, MODEL, store=store, profiles=newer) as (new,):
            for session_id, agent_id in (("a", "desk"), ("b", "fresh"), ("c", "fresh")):
                body = {"message": "Hi", "session_id": session_id, "agent_id": agent_id}
                assert (await new.post("/chat", body)).is_success
                await new.host.supervisor.rest(session_id, scope="acme")
            for session_id in ("a", "b"):
                answer = await old.post("/chat", {"message": "Again", "session_id": session_id})
                assert (answer.status_code, old.owner(session_id)[0]) == (200, new.id), answer.text
            async with socket_of(old, by="ann") as client:
                assert (await client.subscribe("c"))["snapshot"]["agent_id"] == "fresh"
            nowhere = {"message": "Hi", "session_id": "d", "agent_id": "none"}
            error_of(await old.post("/chat", nowhere), 404, "profile_unknown")


def test_a_session_of_a_newer_codec_is_at_the_idlest_node_that_reads_it():
    """Neither an older node nor a dead one."""
    nodes = [
        Node(id="old", codec=1),
        Node(id="busy", codec=2, load=2),
        Node(id="idle", codec=3, load=1),
        Node(id="gone", codec=2, gone_at_ms=1),
        Node(id="silent", codec=2),
    ]
    find = partial(node_that_reads, nodes=nodes, silent=frozenset({"silent"}))
    assert [one and one.id for one in map(find, (2, 3, 4))] == ["idle", "idle", None]


def test_a_session_of_a_newer_codec_is_at_a_node_that_accepts_calls():
    """Not at a newer chat, which has no address and less to do, as long as a server reads it."""
    chat = Node(id="a-chat", codec=2)
    server = Node(id="server", codec=2, load=9, address="http://10.0.0.7:8700")
    assert node_that_reads(2, [chat, server]) == server
    assert node_that_reads(2, [chat]) == chat
