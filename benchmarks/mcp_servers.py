"""The workloads of MCP servers: calls, transports, losses, aborts, closing, crowds and memory: `python -m benchmarks.mcp_servers stdio 100`.

Bare is the library `mcp` with its own client and transport, on the same server.
"""

import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, Final

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import trio
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

import agentrail
from agentrail.abc import Ok
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.gc_settings import many_sessions
from agentrail.sandboxes.server_process import open_server_process
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.connection import StdioTransport
from agentrail.tools.mcp.input_rounds import InputRounds
from benchmarks.bars import target_of
from benchmarks.explain import Explanation
from benchmarks.idle import in_a_process, reply
from benchmarks.mcp_server import LARGE_BYTES, answer_of
from benchmarks.measure import Effort, Rounds, Row, Sample, Target, interleave, percentile, repeat
from benchmarks.ours import expect

_PROGRAM: Final = str(Path(__file__).with_name("mcp_server.py"))
_ALONE: Final = ("-I", "-S")
"""Options of an interpreter without site packages, and without this directory, where `typing.py` is another module."""

_CALLS: Final = 400
_AT_ONCE: Final = 8
_LOSSES: Final = 10
_CLOSED: Final = 20
_CROWD: Final = 200
_WEIGHED: Final = 100
_MAX_BYTES: Final = 16 << 20
_TICK_SECONDS: Final = 0.001
_SENT_SECONDS: Final = 0.05
"""Time until a call that was begun has come to its server."""

_KIB: Final = 1024


def mcp_servers(effort: Effort) -> list[Row]:
    """What a server costs, and how soon it is stopped, lost and back."""
    count, few = effort.of(_CALLS), min(effort.rounds, 3)
    called = interleave(
        partial(trio.run, _library_calls, count), partial(trio.run, _our_calls, count), effort.rounds
    )
    carried = interleave(
        partial(trio.run, _library_pings, count), partial(trio.run, _our_pings, count), effort.rounds
    )
    large = repeat(partial(trio.run, _large_message), effort.rounds)
    lost = repeat(partial(trio.run, _losses, effort.of(_LOSSES)), few, warm_up=False)
    aborted = repeat(partial(trio.run, _aborts, effort.of(_LOSSES)), few, warm_up=False)
    closed = repeat(partial(trio.run, _closings, effort.of(_CLOSED)), few, warm_up=False)
    crowd = repeat(
        partial(in_a_process, "benchmarks.mcp_servers", "crowd", effort.of(_CROWD)),
        few,
        warm_up=False,
    )
    weighed = [
        repeat(
            partial(in_a_process, "benchmarks.mcp_servers", kind, effort.of(_WEIGHED)),
            few,
            warm_up=False,
        )
        for kind in ("stdio", "http")
    ]
    return [
        _row(called, "call", f"a call that does nothing, of {count} at eight a time; bare: the library's", "ms", 1e3, target_of("mcp call")),
        _row(carried, "ping", "a request over the transport alone; bare: the library's", "ms", 1e3, target_of("mcp transport")),
        _row(large, "held", "how long the loop is held by a message of 16 MiB: CPU", "ms", 1e3, target_of("loop beside a large message")),
        _row(lost, "answered", "server killed → the caller is answered, p99", "ms", 1e3, target_of("lost call answered")),
        _row(lost, "back", "server killed → its tools are back, without its own start, p99", "s", 1, target_of("lost server back")),
        _row(aborted, "stdio", "abort → the handler is cancelled, stdio, p99", "ms", 1e3, target_of("abort of an mcp call")),
        _row(aborted, "http", "abort → the handler is cancelled, HTTP, p99", "ms", 1e3, target_of("abort of an mcp call over http")),
        _row(closed, "obedient", "closing 20 servers at once", "s", 1, target_of("closing mcp servers")),
        _row(closed, "stubborn", "closing 20 servers that ignore everything but SIGKILL", "s", 1, target_of("closing stubborn mcp servers")),
        _row(crowd, "opening", "the longest hold of the loop while 200 sessions with a server each are opened: CPU", "ms", 1e3, target_of("mcp crowd")),
        _row(crowd, "closing", "the same while they are closed: CPU", "ms", 1e3, target_of("mcp crowd")),
        _row(crowd, "late", "the same, both, with all that the machine did meanwhile: wall", "ms", 1e3, None),
        _row(weighed[0], "held_kib", "an idle server's actor, stdio", "KiB", 1, target_of("idle mcp server")),
        _row(weighed[1], "held_kib", "an idle server's actor, HTTP", "KiB", 1, target_of("idle mcp server")),
    ]  # fmt: skip


def _row(  # noqa: PLR0913, PLR0917 - the columns of a table
    rounds: Rounds, metric: str, what: str, unit: str, factor: float, target: Target | None
) -> Row:
    return rounds.row("mcp", metric, what, unit=unit, factor=factor, target=target)


def _server(*given: str, name: str = "s", **options: Any) -> McpServer:
    return McpServer(name, command=[sys.executable, *_ALONE, _PROGRAM, *given], required=True, **options)


# --- calls, and the transport alone


async def _our_calls(count: int) -> Sample:
    took = {}
    async with agentrail.open_supervisor(mcp=[_server()]) as supervisor:
        for number in (1, 1 + count):
            model = ScriptedModel(
                [calls(*[("mcp__s__noop", {"number": one}) for one in range(number)]), says("done")]
            )
            session = await supervisor.start_session(model=model, max_parallel_tools=_AT_ONCE)
            began_at = perf_counter()
            expect("the answer", await session.ask("go"), "done")
            took[number] = perf_counter() - began_at
    return {"call": (took[1 + count] - took[1]) / count}


@asynccontextmanager
async def _library_session() -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(command=sys.executable, args=[*_ALONE, _PROGRAM])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.list_tools()
        yield session


async def _library_calls(count: int) -> Sample:
    async def one_call() -> None:
        async with limiter:
            told = await session.call_tool("noop", {})
            expect("no error", told.is_error, wanted=False)

    limiter = trio.CapacityLimiter(_AT_ONCE)
    async with _library_session() as session:
        began_at = perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one_call)
        return {"call": (perf_counter() - began_at) / count}


async def _library_pings(count: int) -> Sample:
    async with _library_session() as session:
        return await _ping(session, count)


async def _our_pings(count: int) -> Sample:
    command = (sys.executable, *_ALONE, _PROGRAM)
    async with open_server_process(command, directory=".", env={}) as process, trio.open_nursery() as nursery:
        transport = StdioTransport(process, _MAX_BYTES)
        nursery.start_soon(transport.run)
        async with ClientSession(*transport.streams) as session:
            await session.initialize()
            sample = await _ping(session, count)
        nursery.cancel_scope.cancel()
    return sample


async def _ping(session: ClientSession, count: int) -> Sample:
    began_at = perf_counter()
    for _ in range(count):
        await session.send_ping()
    return {"ping": (perf_counter() - began_at) / count}


class _LongestStep(trio.abc.Instrument):
    """The most CPU that the loop's thread used between two turns of a task that is always due."""

    def __init__(self) -> None:
        self.cpu_seconds = self.late_seconds = 0.0

    async def run(self) -> None:
        while True:
            cpu_at, at = thread_time(), perf_counter()
            await trio.sleep(_TICK_SECONDS)
            self.cpu_seconds = max(self.cpu_seconds, thread_time() - cpu_at)
            self.late_seconds = max(self.late_seconds, perf_counter() - at - _TICK_SECONDS)


async def _large_message() -> Sample:
    async with agentrail.open_supervisor(mcp=[_server(timeout_seconds=60)]) as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([says("hi")]))
        source: Any = supervisor.sources.running["s"].source
        connection = source.connection
        longest = _LongestStep()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(longest.run)
            told = await connection.call("large", {}, InputRounds(), report=print, ask=_nobody)
            nursery.cancel_scope.cancel()
        expect("the text", len(told["content"][0]["text"]), LARGE_BYTES)
        await session.stop("measured")
    return {"held": longest.cpu_seconds}


async def _nobody(_: object) -> Any:
    raise NotImplementedError


# --- lost, aborted, closed


async def _losses(count: int) -> Sample:
    logging.getLogger("agentrail").addHandler(logging.NullHandler())  # each loss is reported
    losses = [await _lose_server() for _ in range(count)]
    answered, back = zip(*losses, strict=True)
    return {"answered": percentile(answered, 99), "back": percentile(back, 99)}


async def _lose_server() -> tuple[float, float]:
    outcomes: list[Any] = []
    began_at = perf_counter()
    async with agentrail.open_supervisor(mcp=[_server()]) as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([says("hi")]))
        start_seconds = perf_counter() - began_at
        source: Any = supervisor.sources.running["s"].source
        (tool,) = [one for one in source.tools if one.listed.remote_name == "wait"]
        connection = source.connection
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_call_into, outcomes, supervisor, tool)
            await _until(lambda: bool(connection._asking))  # noqa: SLF001 - nothing tells it
            await trio.sleep(_SENT_SECONDS)
            (child,) = psutil.Process().children()
            killed_at = perf_counter()
            os.kill(child.pid, signal.SIGKILL)
            await _until(lambda: bool(outcomes))
            answered_seconds = perf_counter() - killed_at
        expect("an error", isinstance(outcomes[0], Ok), wanted=False)
        await _until(lambda: source.connection not in {None, connection})
        back_seconds = perf_counter() - killed_at - start_seconds
        await session.stop("measured")
    return answered_seconds, max(back_seconds, 0.0)


async def _call_into(outcomes: list[Any], supervisor: Any, tool: Any) -> None:
    outcomes.append(await supervisor.call_tool(tool.name, {}, tools=[tool]))


async def _until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - what is measured must not be asked to tell
        await trio.sleep(_TICK_SECONDS)


async def _aborts(count: int) -> Sample:
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder, "cancelled")

        async def cancelled_there() -> float:
            while not (await trio.Path(notes).exists() and await trio.Path(notes).read_text()):  # noqa: ASYNC110 - of another process
                await trio.sleep(_TICK_SECONDS)
            at = float(await trio.Path(notes).read_text())
            await trio.Path(notes).unlink()
            return at

        stdio = [await _abort(_server(str(notes)), cancelled_there) for _ in range(count)]
    async with _serving_http() as far:
        url = McpServer("s", url=f"{far.origin}/mcp", required=True)
        http = [await _abort(url, far.next_cancelled) for _ in range(count)]
    return {"stdio": percentile(stdio, 99), "http": percentile(http, 99)}


async def _abort(server: McpServer, cancelled: Callable[[], Awaitable[float]]) -> float:
    model = ScriptedModel([calls(("mcp__s__wait", {})), says("done")])
    async with agentrail.open_supervisor(mcp=[server]) as supervisor:
        session = await supervisor.start_session(model=model)
        await session.prompt("go")
        source: Any = supervisor.sources.running["s"].source
        await _until(lambda: bool(source.connection._asking))  # noqa: SLF001 - nothing tells it
        await trio.sleep(_SENT_SECONDS)
        aborted_at = perf_counter()
        await session.abort("measured", kill_tools="all")
        return await cancelled() - aborted_at


class _FarServer:
    """The same server over HTTP, in this process."""

    origin = ""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[float](100)
        self._waiting: dict[object, trio.CancelScope] = {}

    async def next_cancelled(self) -> float:
        return await self._receive.receive()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked = json.loads(body or b"{}")
        if asked.get("method") == "notifications/cancelled":
            self._waiting[asked["params"]["requestId"]].cancel(reason="cancelled by the client")
        if scope["method"] != "POST" or "id" not in asked:
            await _reply(send, 405 if scope["method"] != "POST" else 202)
            return
        try:
            told: Any = {"result": answer_of(asked)}
        except LookupError:
            told = {"error": {"code": -32601, "message": "unknown"}}
        if told.get("result", told) is None:
            with trio.CancelScope() as waiting:
                self._waiting[asked["id"]] = waiting
                while (await receive())["type"] != "http.disconnect":
                    pass
            self._send.send_nowait(perf_counter())
        await _reply(send, 200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}).encode())


async def _reply(send: Any, status: int, body: bytes = b"") -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def _serving_http() -> AsyncIterator[_FarServer]:
    far, stop = _FarServer(), trio.Event()
    listeners = await open_listeners("127.0.0.1", 0)
    far.origin = f"http://127.0.0.1:{addresses_of(listeners)[0][1]}"
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_app, far, listeners, stop.wait))
        yield far
        stop.set()
        nursery.cancel_scope.cancel()


async def _closings(count: int) -> Sample:
    sample = {}
    for kind in ("obedient", "stubborn"):
        servers = [_server(kind, name=f"s{number}") for number in range(count)]
        async with no_orphans():
            async with agentrail.open_supervisor(mcp=servers) as supervisor:
                await supervisor.start_session(model=ScriptedModel([says("hi")]))
                began_at = perf_counter()
            sample[kind] = perf_counter() - began_at
    return sample


# --- in a process of its own


async def _crowd(count: int) -> Sample:
    opening, closing = _LongestStep(), _LongestStep()
    async with no_orphans(), trio.open_nursery() as nursery:
        async with agentrail.open_supervisor() as supervisor:
            async with trio.open_nursery() as watching:
                watching.start_soon(opening.run)
                async with trio.open_nursery() as starting:
                    for _ in range(count):
                        options = {
                            "model": ScriptedModel([says("hi")]),
                            "mcp": [_server(connect_timeout=120)],
                        }
                        starting.start_soon(partial(supervisor.start_session, **options))
                watching.cancel_scope.cancel()
            nursery.start_soon(closing.run)
            await trio.sleep(2 * _TICK_SECONDS)
        nursery.cancel_scope.cancel()
    late = max(opening.late_seconds, closing.late_seconds)
    return {"opening": opening.cpu_seconds, "closing": closing.cpu_seconds, "late": late}


async def _weigh(kind: str, count: int) -> Sample:
    async with _serving_http() as far:

        def server(number: int) -> McpServer:
            if kind == "stdio":
                return _server(name=f"s{number}")
            return McpServer(f"s{number}", url=f"{far.origin}/mcp", required=True)

        held = []
        for many in (10, 10 + count):  # the first ones load the library
            async with agentrail.open_supervisor(
                mcp=[server(number) for number in range(many)]
            ) as supervisor:
                await supervisor.start_session(model=ScriptedModel([says("hi")]))
                await trio.sleep(1)
                held.append(psutil.Process().memory_info().rss)
        return {"held_kib": (held[1] - held[0]) / count / _KIB}


def _measure(side: str, count: int) -> Sample:
    with many_sessions():
        return trio.run(_crowd, count) if side == "crowd" else trio.run(_weigh, side, count)


def _explain(_side: str, _count: int) -> Explanation:
    raise NotImplementedError


if __name__ == "__main__":
    reply(_measure, _explain)
