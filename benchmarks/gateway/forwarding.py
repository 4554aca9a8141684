"""The workload of several nodes: a call, and a stream of 50 deltas a second, through a node that owns nothing, beside the same at the owner.

Both nodes are in this process and on loopback, over one store in memory. What a stream costs beyond its like at the owner is what the node between spends.
"""

import json
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter, process_time
from typing import Final

import trio
from attrs import evolve

from agentrail.gateway.app import create_app
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.host import AgentProfile
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.memory import MemoryStore
from benchmarks.bars import target_of
from benchmarks.gateway.server import LIMITS
from benchmarks.gateway.wires import Talker
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect

_CALLS: Final = 200
_STREAMS: Final = 20
_PER_SECOND: Final = 50
_SECONDS: Final = 2.0
_APART_SECONDS: Final = 0.05


@asynccontextmanager
async def _open_nodes(model: Talker, sessions: int) -> AsyncIterator[tuple[int, int]]:
    """The ports of the owner of all sessions, and of a node that owns none."""
    store, ports = MemoryStore(is_shared=True), []
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            listeners = await open_listeners("127.0.0.1", 0)
            ((_, port),) = addresses_of(listeners)
            ports.append(port)
            profile = AgentProfile(
                id="desk", name="Desk", options=SessionOptions(model=model, sandbox="memory")
            )
            app = create_app(
                profiles=[profile], store=store, limits=LIMITS, advertise=f"http://127.0.0.1:{port}"
            )
            await nursery.start(partial(serve_app, app, listeners, trio.sleep_forever))
        for number in range(sessions):
            await _ask(ports[0], "POST", "/sessions", {"session_id": f"s{number}"})
        yield ports[0], ports[1]
        nursery.cancel_scope.cancel()


def _request(method: str, path: str, said: object) -> bytes:
    body = b"" if said is None else json.dumps(said).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _ask(port: int, method: str, path: str, said: object = None) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(_request(method, path, said))
        expect("the class of the status", (await stream.receive_some())[9:10], b"2")


async def _calls(place: int, count: int) -> Sample:
    """Calls of one session, one after the other over one connection."""
    async with _open_nodes(Talker(1), 1) as ports:
        took = []
        async with await trio.open_tcp_stream("127.0.0.1", ports[place]) as stream:
            for _ in range(count):
                began_at = perf_counter()
                await stream.send_all(_request("GET", "/sessions/s0/rules", None))
                got = b""
                while not got.endswith(b"}"):
                    got += await stream.receive_some()
                expect("the status", got[9:12], b"200")
                took.append(perf_counter() - began_at)
        return {"call": statistics.median(took)}


async def _streams(place: int, streams: int, words: int) -> Sample:
    """Streams at once, each of 50 deltas a second: CPU of both nodes per delta, and when the first frame came."""
    first = []

    async def read(port: int, number: int) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            began_at, got = perf_counter(), b""
            await stream.send_all(_request("POST", "/stream", {"message": "Hi", "session_id": f"s{number}"}))
            is_first = True
            while b"event: done" not in got:
                got = got[-20:] + await stream.receive_some()
                if is_first and b"data:" in got:
                    is_first = False
                    first.append(perf_counter() - began_at)

    async with _open_nodes(Talker(words, _PER_SECOND), streams) as ports:
        cpu_at = process_time()
        async with trio.open_nursery() as nursery:
            for number in range(streams):
                nursery.start_soon(read, ports[place], number)
                await trio.sleep(_APART_SECONDS)
        took = process_time() - cpu_at
    return {"delta": took / streams / words, "first": statistics.median(first)}


def forwarding(effort: Effort) -> list[Row]:
    """Calls and streams through another node, beside the same at the owner."""
    rounds, words = min(effort.rounds, 3), effort.of(round(_SECONDS * _PER_SECOND))
    calls = interleave(
        partial(trio.run, _calls, 0, effort.of(_CALLS)),
        partial(trio.run, _calls, 1, effort.of(_CALLS)),
        rounds,
    )
    streams = effort.of(_STREAMS)
    taken = interleave(
        partial(trio.run, _streams, 0, streams, words),
        partial(trio.run, _streams, 1, streams, words),
        rounds,
        warm_up=False,
    )
    brackets = zip(taken.bare[::2], taken.bare[1::2], strict=True)
    beyond = [
        {name: ours[name] - (before[name] + after[name]) / 2 for name in ours}
        for ours, (before, after) in zip(taken.ours, brackets, strict=True)
    ]
    more = evolve(taken, ours=beyond, bare=())
    return [
        calls.row(
            "gateway-nodes",
            "call",
            "a call through another node, beside the same at the owner: p50",
            unit="ms",
            factor=1e3,
            target=target_of("forwarded call"),
        ),
        more.row(
            "gateway-nodes",
            "delta",
            f"{streams} streams of {_PER_SECOND} deltas a second through another node: CPU of that node per delta",
            unit="µs",
            factor=1e6,
            target=target_of("forwarded delta"),
        ),
        more.row(
            "gateway-nodes",
            "first",
            "the first frame through another node, beyond that of the owner: p50",
            unit="ms",
            factor=1e3,
            target=target_of("forwarded first frame"),
        ),
    ]
