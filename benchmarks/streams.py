"""The workloads of streaming over a real socket, with the server in its own process."""

import statistics
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from time import perf_counter, process_time
from typing import Any, Final

import trio

import agentrail
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.explain import Explanation, slowest_functions
from benchmarks.measure import Effort, Row, Sample, Target, interleave, percentile
from benchmarks.ours import expect, start_watch
from benchmarks.sse_server import serve_streams, text_of

_DELTAS: Final = 1_000
_RESPONSES: Final = 5
_STREAMS: Final = 100
_PACED_DELTAS: Final = 200
_GAP_US: Final = 20_000  # 50 deltas a second
_TICK_SECONDS: Final = 0.01
_SETTLE_SECONDS: Final = 1.0
_MEASURED_SECONDS: Final = 2.5


def model_at(address: str, deltas: int, gap_us: int) -> dict[str, Any]:
    """Make the options of a session that streams from the server."""
    return {
        "model": "openai-chat:stub",
        "provider_opts": {"base_url": f"{address}/{deltas}/{gap_us}", "trust_env": False},
    }


def url_at(address: str, deltas: int, gap_us: int) -> str:
    """Make the address that the provider makes of these options."""
    return f"{address}/{deltas}/{gap_us}/chat/completions"


def explain_with_server(ours: Callable[..., Awaitable[Sample]], *arguments: int) -> Explanation:
    """Explain what reads from a server of its own: that of the figures has ended by then."""
    with serve_streams() as address:
        return slowest_functions(partial(trio.run, ours, address, *arguments))


def deltas(effort: Effort) -> list[Row]:
    """A response of a thousand small deltas sent at once, through to a subscriber."""
    count, responses = effort.of(_DELTAS), _RESPONSES
    with serve_streams() as address:
        rounds = interleave(
            partial(trio.run, bare_burst, address, count, responses),
            partial(trio.run, our_burst, address, count, responses),
            effort.rounds,
            explain=partial(explain_with_server, our_burst, count, responses),
        )
    title = f"{count:,} deltas in a burst over HTTP"
    return [
        rounds.row(
            "deltas",
            "cpu_seconds",
            f"{title}: CPU per delta",
            unit="µs",
            factor=1e6,
            target=target_of("burst"),
        ),
        rounds.row("deltas", "wall_seconds", f"{title}: time per response", unit="ms", factor=1e3),
        rounds.row(
            "deltas",
            "first_seconds",
            f"{title}: until the first one is there",
            unit="ms",
            factor=1e3,
            target=target_of("first delta"),
        ),
    ]


def streams(effort: Effort) -> list[Row]:
    """A hundred sessions that stream fifty deltas a second each; four seconds a run."""
    count = effort.of(_STREAMS)
    with serve_streams() as address:
        rounds = interleave(
            partial(trio.run, _bare_streams, address, count),
            partial(trio.run, _our_streams, address, count),
            effort.rounds,
            explain=partial(explain_with_server, _our_streams, count),
        )
    title = f"{count} sessions at {1_000_000 // _GAP_US} deltas/s each"
    return [
        rounds.row(
            "streams",
            "cpu_share",
            f"{title}: CPU",
            unit="% of a core",
            factor=100,
            target=Target(of="ratio", must=1.6, aim=1.2),
        ),
        rounds.row(
            "streams",
            "lag_seconds",
            f"{title}: lag of the loop, p99",
            unit="ms",
            factor=1e3,
            target=Target(of="ours", must=8.0, aim=5.0),
        ),
    ]


# --- a burst


async def bare_burst(address: str, count: int, responses: int) -> Sample:
    """Read so many bursts with httpx and json."""
    url = url_at(address, count, 0)
    async with bare.open_client() as client:
        await bare.read_stream(client, url)  # opens the connection
        came: list[float] = []
        asked: list[float] = []
        began_at, cpu_at = perf_counter(), process_time()
        for _ in range(responses):
            asked.append(perf_counter())
            said = await bare.read_stream(client, url, lambda: came.append(perf_counter()))
            expect("the text", said, text_of(count))
        sample = _burst_of(began_at, cpu_at, count, responses)
        return {**sample, "first_seconds": _first_of(asked, came)}


async def our_burst(address: str, count: int, responses: int) -> Sample:
    """Read so many bursts through a session to its subscriber."""
    heard: list[str] = []
    asked: list[float] = []
    came: list[float] = []

    async def listen(session: agentrail.Session, *, task_status: trio.TaskStatus[None]) -> None:
        async with session.subscribe() as events:
            task_status.started()
            async for event in events:
                if isinstance(event, agentrail.MessageDelta):
                    if len(came) < len(asked):
                        came.append(perf_counter())
                    heard.append(event.delta)

    async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.start_session(**model_at(address, count, 0))
        await nursery.start(listen, session)
        watch = await start_watch(nursery, session, agentrail.AgentEnd)
        await session.ask("go")  # opens the connection
        await watch.wait_come()
        heard.clear()
        began_at, cpu_at = perf_counter(), process_time()
        for _ in range(responses):
            asked.append(perf_counter())
            await session.ask("go")
            await watch.wait_come()
        sample = _burst_of(began_at, cpu_at, count, responses)
        sample = {**sample, "first_seconds": _first_of(asked, came)}
        expect("what the subscriber heard", "".join(heard), text_of(count) * responses)
        nursery.cancel_scope.cancel()
    return sample


def _burst_of(began_at: float, cpu_at: float, count: int, responses: int) -> Sample:
    return {
        "cpu_seconds": (process_time() - cpu_at) / (count * responses),
        "wall_seconds": (perf_counter() - began_at) / responses,
    }


def _first_of(asked: list[float], came: list[float]) -> float:
    expect("the first deltas", len(came), len(asked))
    return statistics.median(at - began_at for began_at, at in zip(asked, came, strict=True))


# --- many at a time


async def _measure_loop() -> Sample:
    """Measure the CPU and how late the loop is, once all streams are connected and before the first one ends."""
    await trio.sleep(_SETTLE_SECONDS)
    late: list[float] = []
    began_at, cpu_at = perf_counter(), process_time()
    while perf_counter() < began_at + _MEASURED_SECONDS:
        due_at = perf_counter() + _TICK_SECONDS
        await trio.sleep(_TICK_SECONDS)
        late.append(perf_counter() - due_at)
    return {
        "cpu_share": (process_time() - cpu_at) / (perf_counter() - began_at),
        "lag_seconds": percentile(late, 99),
    }


async def _bare_streams(address: str, count: int) -> Sample:
    url = url_at(address, _PACED_DELTAS, _GAP_US)

    async def read() -> None:
        expect("the text", await bare.read_stream(client, url), text_of(_PACED_DELTAS))

    async with bare.open_client() as client, trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(read)
        return await _measure_loop()


async def _our_streams(address: str, count: int) -> Sample:
    async def ask(session: agentrail.Session) -> None:
        expect("the text", await session.ask("go"), text_of(_PACED_DELTAS))

    async with AsyncExitStack() as stack:
        supervisor = await stack.enter_async_context(agentrail.open_supervisor(environ={}))
        background = await stack.enter_async_context(trio.open_nursery())
        options = model_at(address, _PACED_DELTAS, _GAP_US)
        sessions = [await supervisor.start_session(**options) for _ in range(count)]
        for session in sessions:
            await start_watch(background, session, agentrail.AgentEnd)
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(ask, session)
            sample = await _measure_loop()
        background.cancel_scope.cancel()
    return sample
