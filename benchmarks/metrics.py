"""The workloads of metrics: what they add to a cycle, and a scrape of many series beside many sessions."""

from functools import partial
from time import perf_counter, process_time
from typing import Final

import trio

import agentrail
from agentrail.runtime.supervisor_gauges import LoopLag
from agentrail.telemetry.metric_totals import METRICS
from agentrail.telemetry.metrics import Metrics
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave, repeat
from benchmarks.ours import StubModel, add, expect

_PROMPT: Final = "please add 2 and 3"
_SESSIONS: Final = 50
_CYCLES: Final = 40
_IDLE: Final = 10_000
_MILLISECONDS: Final = 1e3
_MICROSECONDS: Final = 1e6


def metrics(effort: Effort) -> list[Row]:
    """Cycles with metrics beside the same without, and scrapes."""
    sessions, cycles = effort.of(_SESSIONS), effort.of(_CYCLES)
    rounds = interleave(
        partial(_crowd, sessions, cycles, is_measured=False),
        partial(_crowd, sessions, cycles, is_measured=True),
        effort.rounds,
    )
    idle = effort.of(_IDLE)
    scrapes = repeat(partial(trio.run, _scrape, idle), effort.rounds)
    title = f"a scrape of 2,000 series beside {idle:,} sessions"
    return [
        rounds.row(
            "metrics",
            "cpu",
            "a cycle with a tool and metrics: CPU; bare: without metrics",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("CPU of metrics"),
        ),
        scrapes.row(
            "metrics", "cpu", f"{title}: CPU", unit="ms", factor=_MILLISECONDS, target=target_of("scrape")
        ),
        scrapes.row(
            "metrics",
            "held",
            f"{title}: the loop held",
            unit="ms",
            factor=_MILLISECONDS,
            target=target_of("loop beside a scrape"),
        ),
    ]


def _crowd(sessions: int, cycles: int, *, is_measured: bool) -> Sample:
    return trio.run(_cycles_of, sessions, cycles, Metrics() if is_measured else None)


async def _cycles_of(sessions: int, cycles: int, measured: Metrics | None) -> Sample:
    """Let so many sessions make so many cycles each, and count what the reader has yet to pass on too."""
    model = StubModel()

    async def live(session: agentrail.Session) -> None:
        for _ in range(cycles):
            expect("the answer", await session.ask(_PROMPT), bare.ANSWER)

    async with agentrail.open_supervisor(environ={}, metrics=measured) as supervisor:
        started = [await supervisor.start_session(model=model, tools=[add]) for _ in range(sessions)]
        cpu_at = process_time()
        async with trio.open_nursery() as nursery:
            for session in started:
                nursery.start_soon(live, session)
        while any(one.behind for one in supervisor.statistics().consumers):  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.01)
        cpu = process_time() - cpu_at
    return {"cpu": cpu / (sessions * cycles)}


async def _scrape(sessions: int) -> Sample:
    measured = Metrics()
    async with agentrail.open_supervisor(environ={}, metrics=measured) as supervisor:
        model = StubModel()
        for _ in range(sessions):
            await supervisor.start_session(model=model, tools=[])
        totals = measured.totals
        for number in range(500):
            for name, one in METRICS.items():
                if one.kind != "gauge":
                    labels = tuple([f"{label}-{number}" for label in one.labels])
                    (totals.observe if one.buckets else totals.add)((name, *labels), 1.0)
        await measured.render()
        lag = LoopLag()
        trio.lowlevel.add_instrument(lag)
        await trio.sleep(0.05)
        lag.take()
        began_at, cpu_at = perf_counter(), process_time()
        _, text = await measured.render()
        cpu, wall = process_time() - cpu_at, perf_counter() - began_at
        await trio.sleep(0.05)
        trio.lowlevel.remove_instrument(lag)
        lines = sum(not line.startswith(b"#") for line in text.splitlines())
    return {"cpu": cpu, "wall": wall, "held": lag.take(), "series": float(lines)}
