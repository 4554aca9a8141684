"""The server of the gateway's rows: an application, beside it what is bare, and the sessions that publish. A process of its own.

It is told what to do by its standard input, a JSON object a line, answers each with one, and ends when the input does, and
therefore with the process that started it.

    python -m benchmarks.gateway.server        # prints its port
"""

import gc
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from time import process_time
from typing import Any, Final

import attrs
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import trio
from starlette.applications import Starlette

from agentrail import Session
from agentrail.core.protocol.request import Chunk, ModelRequest, TextDelta
from agentrail.gateway.app import ServedHost, create_app
from agentrail.gateway.serving import ConnectionLimits, addresses_of, open_listeners, serve_app
from agentrail.gc_settings import many_sessions
from agentrail.host import AgentProfile, HostPlugin, Limits, Principal, RequestContext
from agentrail.runtime.session_options import SessionOptions
from benchmarks.explain import Sampler
from benchmarks.gateway.bare_routes import Board, bare_app
from benchmarks.ours import StubModel

LIMITS: Final = Limits(
    messages_per_minute=10**9,
    messages_burst=10**9,
    calls_per_minute=10**9,
    calls_burst=10**9,
    max_streams_per_principal=10**6,
    max_streams=10**6,
    max_sessions_per_principal=10**6,
    max_subscriptions=10**6,
    commands_per_second=10**6,
)
"""Raised, since one user is all of them here."""

_BUSY_GAP_SECONDS: Final = 0.1


class _Other(StubModel):
    """The model that a session is switched to, and back from: that is one committed event."""

    name = "other"


class _Busy(StubModel):
    """Says a word ten times a second, and does not come to an end."""

    name = "busy"

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Begin to talk."""
        yield _Words()


class _Words:
    def __aiter__(self) -> "_Words":
        return self

    async def __anext__(self) -> Chunk:
        await trio.sleep(_BUSY_GAP_SECONDS)
        return TextDelta(" word")


class _Leavers(HostPlugin):
    """Notes when requests end whose callers left."""

    name = "leavers"

    def __init__(self) -> None:
        """Begin with none."""
        self.left_at_ms: dict[str, float] = {}

    async def on_request_end(self, ctx: RequestContext) -> None:
        """Note."""
        self.left_at_ms[ctx.session_id] = time.time() * 1e3


class BenchServer:
    """What can be asked of it; each method that begins with `do_` is a command."""

    def __init__(self) -> None:
        """Nothing is open yet."""
        self.board = Board()
        self.stop = trio.Event()
        self._leavers = _Leavers()
        self._sessions: list[Session] = []
        self._is_publishing = False
        self._turns: dict[str, bool] = {}
        self._models = (StubModel(), _Other())
        self._sampler: Sampler | None = None
        self.app = create_app(
            profiles=[
                AgentProfile(id="quick", name="Quick", options=SessionOptions(model=self._models[0])),
                AgentProfile(id="busy", name="Busy", options=SessionOptions(model=_Busy())),
            ],
            plugins=[self._leavers],
            auth=_anyone,
            limits=LIMITS,
            environ={},
            idle_after=None,
            drain_timeout=0.5,
        )
        self.app.mount("/", bare_app(self.board))

    @property
    def served(self) -> ServedHost:
        """The host behind the application."""
        served: ServedHost = self.app.state.host
        return served

    async def do_sessions(self, count: int, agent_id: str = "quick") -> dict[str, Any]:
        """Create so many sessions, and give their ids."""
        host = self.served.gateway.host
        assert host is not None  # noqa: S101 - it serves
        for number in range(len(self._sessions), len(self._sessions) + count):
            made = await host.create(ANYONE, agent_id=agent_id, session_id=f"s-{number}")
            self._sessions.append(made)
        return {"ids": [one.session_id for one in self._sessions]}

    async def do_publish(self, side: str, per_second: float, seconds: float) -> dict[str, Any]:
        """Publish so many committed events a second in each session, or on the board; spread over the time, and held to it."""
        publish = (
            [self._publish_bare] if side == "bare" else [partial(self._switch, one) for one in self._sessions]
        )
        due, began_at = 1.0 / per_second / len(publish), trio.current_time()
        count = round(seconds * per_second) * len(publish)
        self._is_publishing = True
        for number in range(count):
            at = began_at + number * due
            if at > trio.current_time():
                await trio.sleep_until(at)
            if not self._is_publishing and number % len(publish) == 0:
                return {"events": number // len(publish)}
            await publish[number % len(publish)]()
        return {"events": count // len(publish)}

    async def do_cease(self) -> dict[str, Any]:
        """Publish no more."""
        self._is_publishing = False
        return {}

    async def _switch(self, session: Session) -> None:
        turn = self._turns[session.session_id] = not self._turns.get(session.session_id, False)
        await session.switch_model(self._models[turn])

    async def _publish_bare(self) -> None:
        self.board.publish()

    async def do_cpu(self) -> dict[str, Any]:
        """Say what it has cost so far."""
        return {"cpu_seconds": process_time()}

    async def do_weight(self) -> dict[str, Any]:
        """Say what it holds."""
        gc.collect()
        hubs = self.served.gateway.hubs
        counted = None if hubs is None else hubs.statistics()
        return {
            "bytes": psutil.Process().memory_info().rss,
            "frame_bytes": 0 if counted is None else counted.frame_bytes,
            "readers": 0 if counted is None else counted.readers,
        }

    async def do_left(self) -> dict[str, Any]:
        """Say when requests ended, by session."""
        return {"at_ms": self._leavers.left_at_ms}

    async def do_look(self) -> dict[str, Any]:
        """Begin to look where time goes."""
        self._sampler = Sampler()
        self._sampler.begin()
        return {}

    async def do_looked(self) -> dict[str, Any]:
        """Say where it went."""
        assert self._sampler is not None  # noqa: S101 - it was begun
        return attrs.asdict(self._sampler.end())

    async def do_stop(self) -> dict[str, Any]:
        """Let streams end, and the server after them."""
        self.stop.set()
        return {"at_ms": time.time() * 1e3}


ANYONE: Final = Principal(tenant_id="bench", user_id="anyone")


def _anyone(_headers: Mapping[str, str]) -> Principal:
    return ANYONE


async def _obey(server: BenchServer) -> None:
    """Do what lines of standard input say, one at a time but what publishes, until there are no more."""
    async with trio.open_nursery() as nursery:
        received = b""
        async with trio.lowlevel.FdStream(os.dup(0)) as stdin:
            async for piece in stdin:
                *lines, received = (received + piece).split(b"\n")
                for line in lines:
                    command = json.loads(line)
                    do: Callable[..., Awaitable[dict[str, Any]]] = getattr(server, f"do_{command.pop('do')}")
                    nursery.start_soon(_answer, do, command)
        nursery.cancel_scope.cancel(reason="the parent process ended")


async def _answer(do: Callable[..., Awaitable[dict[str, Any]]], command: dict[str, Any]) -> None:
    number = command.pop("number")
    told = await do(**command)
    print(json.dumps({**told, "number": number}), flush=True)


async def serve(send_buffer: int | None) -> None:
    """Serve on a free port until it is told to stop or its parent process ends."""
    server = BenchServer()
    listeners = await open_listeners("127.0.0.1", 0, backlog=4_096)
    if send_buffer is not None:  # what is accepted has it too: so a reader that does not read is noticed soon
        for listener in listeners:
            listener.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, send_buffer)

    async def wait_stop() -> None:
        print(addresses_of(listeners)[0][1], flush=True)
        await server.stop.wait()
        await server.app.state.drain()

    limits = ConnectionLimits(backlog=4_096, idle_seconds=60.0)
    app: Starlette = server.app
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await serve_app(app, listeners, wait_stop, limits=limits)
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        await _obey(server)
        nursery.cancel_scope.cancel()


def main() -> None:
    """Serve, with the collector as `agentrail serve` sets it."""
    send_buffer = int(sys.argv[1]) if len(sys.argv) > 1 else None
    with many_sessions():
        trio.run(serve, send_buffer)


if __name__ == "__main__":
    main()
