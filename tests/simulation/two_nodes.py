"""Two gateways over one store, each on a machine of its own, and clients that call them over a network of messages or of bytes."""

import contextvars
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import httpx
import trio
from attrs import define

from agentrail import outside
from agentrail.gateway.app import create_app
from agentrail.stores.memory import MemoryStore
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import FunctionModel, says
from agentrail.testing.seeded import seeded_order
from agentrail.testing.simulation.byte_network import ByteNetwork
from agentrail.testing.simulation.disk_store import simulated_witnesses
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.network import SimulatedNetwork
from agentrail.testing.simulation.tape import Tape
from tests.gateway.callers import auth, by
from tests.gateway.socket_client import Client
from tests.host.hosting import profile

PLACES = ("node-0", "node-1")
NETWORKS = (SimulatedNetwork, ByteNetwork)
SLOW_MODEL = FunctionModel(lambda _: says("So", *[" on"] * 20, pause_seconds=0.1))


@define
class Cluster:
    """Both nodes, with their network."""

    network: Any
    hosts: list[Any]
    arrived: list[tuple[str, Any]]

    def http(self, place: str, **options: Any) -> Any:
        return self.network.http(place, headers=by("ann"), timeout=options.pop("timeout", 60), **options)

    @asynccontextmanager
    async def socket(self, place: str, name: str = "ann") -> AsyncIterator[Client]:
        headers = [(b"authorization", f"Bearer {name}".encode())]
        async with self.network.dial(place, headers=headers) as connection:
            client = Client(connection)
            await client.send(type="hello")
            await client.until("welcome")
            yield client

    def crossed(self, source: str, target: str) -> int:
        """The number of messages that have arrived on a way."""
        return sum(way == f"{source} > {target}" for way, _ in self.arrived)


def lived(kind: Any, life: Any, *args: Any, seed: object = 1, **options: Any) -> Any:
    """Run `life(cluster, …)` as the client `ann` of two nodes, in virtual time."""
    network = kind(Tape(seed), LifeLog())

    async def main() -> Any:
        with trio.fail_after(3_600), outside.installed(NodeMachine(seed, "ann")):
            async with _serving(network, seed, options) as cluster:
                return await life(cluster, *args)

    with network.installed(), simulated_witnesses(), seeded_order(seed):
        return trio.run(main, clock=FakeClock())


@asynccontextmanager
async def _serving(network: Any, seed: object, options: dict[str, Any]) -> AsyncIterator[Cluster]:
    cluster = Cluster(network, [], [])
    network.watchers.append(lambda way, message: cluster.arrived.append((way, message)))
    given = {
        "store": MemoryStore(is_shared=True),
        "profiles": [profile(options.pop("model", SLOW_MODEL))],
        "auth": auth,
        "allowed_hosts": PLACES,
        "drain_timeout": 0.5,
        **options,
    }
    over = trio.Event()

    async def run(place: str, task_status: Any) -> None:
        with outside.installed(NodeMachine(seed, place)):
            app = create_app(advertise=f"http://{place}", **given)
            async with app.state.host.open(), trio.open_nursery() as nursery:
                in_place: Any = contextvars.copy_context().run
                network.serve(place, app, partial(in_place, nursery.start_soon))
                task_status.started(app.state.host)
                await over.wait()
                network.leave(place)
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        cluster.hosts = [await nursery.start(run, place) for place in PLACES]
        yield cluster
        over.set()


async def started(cluster: Cluster, place: str = "node-0", session_id: str = "s") -> None:
    """Start a session at a node."""
    async with cluster.http(place) as client:
        answer = await client.post("/sessions", json={"session_id": session_id})
        assert answer.status_code in (200, 201), answer.text


async def committed(client: Client, count: int) -> list[dict[str, Any]]:
    """Read the socket until it has so many committed events, and return them."""
    while True:
        events = [frame["event"] for frame in client.seen if frame["type"] == "event"]
        events += [one for frame in client.seen if frame["type"] == "events" for one in frame["events"]]
        found = [one for one in events if not one.get("ephemeral")]
        if len(found) >= count:
            return found
        await client.next()


async def until_silent(answer: httpx.Response) -> list[dict[str, Any]]:
    """Read a stream until its time limit passes, and return its committed events."""
    lines = []
    with suppress(httpx.ReadTimeout):
        async for line in answer.aiter_lines():
            lines += [line]
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    return [one for one in events if "kind" in one and not one.get("ephemeral")]
