"""Several `agentrail serve` over one PostgreSQL, as processes that are killed, stopped and cut off (docs: run on many machines)."""

import json
import random
import signal
import time
from collections import Counter
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest
import trio
from httpx_sse import aconnect_sse

from scripts.crash_nodes import NO_LIMITS, check_history, crash_nodes, end_nodes, wait_rest
from scripts.crash_nodes_clients import Crowd
from scripts.crash_nodes_cluster import open_cluster
from scripts.crash_nodes_history import LedgerLine

pytestmark = [pytest.mark.check, pytest.mark.services("nginx", "curl", "node")]

SECONDS = 120.0
"""Limit of a wait. What takes longer hangs."""

_OWNED = "SELECT convert_from(session, 'UTF8') FROM agentrail.session WHERE node = convert_to(%s, 'UTF8') AND is_working"
_TAKES = "SELECT convert_from(session, 'UTF8'), convert_from(body, 'UTF8') FROM agentrail.record WHERE kind = 'taken' AND at_ms >= %s"


class Nodes:
    """A cluster with its clients."""

    def __init__(self, cluster, crowd):
        self.cluster, self.crowd = cluster, crowd

    async def query(self, *asked):
        return await trio.to_thread.run_sync(self.cluster.query, *asked)

    async def owned_by(self, node):
        """Return the working sessions of a node."""
        ids = await trio.to_thread.run_sync(self.cluster.ids)
        return {one for (one,) in await self.query(_OWNED, ids[node.name])}

    async def takes_since(self, at_ms):
        """Return the causes of all takes since a time, by session."""
        rows = await self.query(_TAKES, at_ms)
        return [(session, json.loads(body)["cause"], json.loads(body)["node"]) for session, body in rows]

    def runs(self):
        """Return the ledger."""
        return [
            msgspec.json.decode(line, type=LedgerLine)
            for line in self.cluster.ledger.read_bytes().splitlines()
        ]

    async def until(self, condition):
        with trio.fail_after(SECONDS):
            while not await condition():  # noqa: ASYNC110 - another process, which sets no event
                await trio.sleep(0.05)

    async def until_taken(self, sessions, since_ms):
        async def are_taken():
            return sessions <= {one for one, _, _ in await self.takes_since(since_ms)}

        await self.until(are_taken)

    async def until_running(self, count):
        async def are_running():
            return len(self.runs()) >= count

        await self.until(are_running)

    async def send_directly(self, node, session, word):
        """Create a session at a node and send it a message, past nginx. The node owns it then."""
        headers = {"authorization": f"Bearer {session.user}"}
        name = f"m-{session.id}-{len(session.account.sent)}"
        said = {"message": f"{name} {word}", "client_id": name}
        base = f"http://127.0.0.1:{node.port}"
        for path, body in (
            ("/sessions", {"session_id": session.id}),
            (f"/sessions/{session.id}/prompt", said),
        ):
            status = 503
            while status == 503:  # a busy machine is late with heartbeats
                answer = await self.crowd.client.post(
                    f"{base}{path}", json=body, headers=headers, timeout=SECONDS
                )
                status = answer.status_code
            assert status in (200, 201, 202), answer.text
        session.account.send(name).is_acknowledged = session.is_created = True

    async def finish(self):
        """Let all come to rest, stop the nodes, and compare the history."""
        await wait_rest(self.crowd)
        await end_nodes(self.cluster, self.crowd)
        check_history(self.cluster, self.crowd, (), 0)
        assert self.crowd.faults.told == []


@asynccontextmanager
async def open_nodes(folder, server, *, lease, clients, nodes=3):
    """Open a cluster, and clients whose readers read until the end."""
    database = server.create_database()
    async with (
        open_cluster(folder, server, database, lease=lease, nodes=nodes) as cluster,
        httpx.AsyncClient(limits=NO_LIMITS) as client,
        trio.open_nursery() as nursery,
    ):
        crowd = Crowd(cluster.base, random.Random(1), client)  # noqa: S311 - no secret
        sessions = [crowd.begin(number) for number in range(clients)]
        for one in sessions[::2]:
            nursery.start_soon(crowd.read_by_httpx, one)
        nursery.start_soon(crowd.read_by_event_source, sessions[1::2])
        yield Nodes(cluster, crowd)
        nursery.cancel_scope.cancel()
    server.drop_database(database)


@pytest.mark.machine(1)
async def test_a_node_that_is_killed_and_started_again_costs_no_message(tmp_path, postgres_server):
    """Twelve clients behind nginx repeat with their `client_id` and have one answer each. The sessions are taken because the node is gone, within its lease."""
    async with open_nodes(tmp_path, postgres_server, lease=60, clients=12) as nodes:
        crowd, (victim, *_) = nodes.crowd, nodes.cluster.nodes
        async with trio.open_nursery() as nursery:
            for one in crowd.sessions:
                nursery.start_soon(crowd.send, one, "look 3")
            await nodes.until_running(12)
            killed_ms = int(time.time() * 1000)
            owned = await nodes.owned_by(victim)
            assert owned, "nginx sends calls to all nodes"
            victim.kill()
            nodes.cluster.launch(victim)
            for one in crowd.sessions:
                nursery.start_soon(crowd.send, one, "charge 0.2")
            await nodes.until_taken(owned, killed_ms)
        causes = {
            session: cause for session, cause, _ in await nodes.takes_since(killed_ms) if session in owned
        }
        assert set(causes.values()) == {"gone"}
        await victim.wait_ready()
        await nodes.finish()
        assert (crowd.counts["acknowledged"], crowd.counts["compared"]) == (24, 24)
        assert crowd.counts["repeated"] > 0, "calls reached the node that was not there"


async def read_to_the_end(client, node, session, reasons, *, task_status):
    """Read a stream at a node itself, and note why it ended."""
    url, headers = (
        f"http://127.0.0.1:{node.port}/sessions/{session.id}/events",
        {"authorization": f"Bearer {session.user}"},
    )
    async with aconnect_sse(client, "GET", url, headers=headers, timeout=SECONDS) as source:
        task_status.started()
        async for event in source.aiter_sse():
            if event.event == "done":
                reasons[session.id] = json.loads(event.data)["reason"]


@pytest.mark.machine(2)
async def test_a_node_that_is_stopped_and_continued_finds_its_sessions_taken(tmp_path, postgres_server):
    """Others take the sessions of a stopped node. When it continues, its streams end with `moved`, and no tool has run in it after the take."""
    async with open_nodes(tmp_path, postgres_server, lease=5, clients=9) as nodes:
        crowd, (victim, *_) = nodes.crowd, nodes.cluster.nodes
        reasons = {}
        async with trio.open_nursery() as nursery:
            for number, one in enumerate(crowd.sessions):
                word = ("look 15", "store_note 15", "charge 15")[number % 3]
                nursery.start_soon(nodes.send_directly, victim, one, word)
        await nodes.until_running(9)
        async with trio.open_nursery() as nursery:
            for one in crowd.sessions:
                await nursery.start(read_to_the_end, crowd.client, victim, one, reasons)
                nursery.start_soon(crowd.send, one, "charge 0.1")
            owned, stopped_ms = await nodes.owned_by(victim), int(time.time() * 1000)
            assert len(owned) == 9
            victim.send(signal.SIGSTOP)
            await nodes.until_taken(owned, stopped_ms)
            victim.send(signal.SIGCONT)
        assert reasons == dict.fromkeys(owned, "moved")
        await nodes.finish()
        epochs = {(one.session, one.epoch) for one in nodes.runs() if one.node == victim.name}
        assert {epoch for _, epoch in epochs} == {1}, "no tool ran in it after the take"
        assert Counter(one.tool for one in nodes.runs() if one.epoch > 1)["look"] == 3, (
            "a pure tool runs again"
        )


@pytest.mark.journal(28)
async def test_a_hundred_trees_of_a_dead_node_are_taken_by_two_others_each_once(tmp_path, postgres_server):
    """The node does not come back. Two others share its hundred working trees after the lease, and none is taken twice."""
    async with open_nodes(tmp_path, postgres_server, lease=5, clients=0) as nodes:
        crowd, (victim, *_) = nodes.crowd, nodes.cluster.nodes
        sessions = [crowd.begin(number) for number in range(100)]
        async with trio.open_nursery() as nursery:
            for one in sessions:
                nursery.start_soon(nodes.send_directly, victim, one, "store_note 20")
        await nodes.until_running(100)
        killed_ms = int(time.time() * 1000)
        victim.kill()
        await nodes.until_taken({one.id for one in sessions}, killed_ms)
        await trio.sleep(1)
        takes = await nodes.takes_since(killed_ms)
        assert Counter(session for session, _, _ in takes) == {one.id: 1 for one in sessions}
        assert {cause for _, cause, _ in takes} == {"lease_over"}
        assert len({node for _, _, node in takes}) == 2


@pytest.mark.journal(26)
async def test_a_node_without_its_store_stops_what_must_not_run_twice(tmp_path, postgres_server):
    """The store is cut off and the clients are not: the process of a `once` tool is ended within the lease, and calls are answered with an error."""
    async with open_nodes(tmp_path, postgres_server, lease=4, clients=2, nodes=2) as nodes:
        crowd, (victim, other) = nodes.crowd, nodes.cluster.nodes
        session = crowd.sessions[0]
        await nodes.send_directly(victim, session, "charge 19")
        await nodes.send_directly(other, crowd.sessions[1], "look 0")
        await nodes.until_running(2)

        def commands():
            return {*nodes.cluster.left_processes()} - {victim.pid, other.pid}

        async def has_begun():  # the command of `charge`
            return commands()

        await nodes.until(has_begun)
        (process,) = commands()
        victim.to_store.cut()
        began = time.monotonic()

        async def has_ended():
            return process not in nodes.cluster.left_processes()

        await nodes.until(has_ended)
        took = time.monotonic() - began
        assert victim.pid, "the node itself goes on"
        assert took < 4 + 2, "the lease, and a busy machine"
        answer = await crowd.client.post(
            f"http://127.0.0.1:{victim.port}/sessions/{session.id}/prompt",
            json={"message": "m-lost say 0", "client_id": "m-lost"},
            headers={"authorization": f"Bearer {session.user}"},
            timeout=SECONDS,
        )
        assert answer.status_code == 503, answer.text
        victim.to_store.mend()
        await nodes.finish()


async def test_a_minute_of_faults_loses_nothing(tmp_path, postgres_server):
    """`make crash-nodes` for a minute: a fault every five seconds, three nodes with a lease of 3 s, clients that are not ours."""
    database = postgres_server.create_database()
    report = await crash_nodes(
        tmp_path,
        postgres_server,
        database,
        seconds=60,
        seed=20261120,
        lease=3,
        clients=12,
        every=5,
        pause=1.5,
    )
    assert report.faults == (), f"{report}"
    assert report.made.total() >= 9
    postgres_server.drop_database(database)
