"""The workloads of many sessions at once: each makes one cycle behind a model that takes its time."""

from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time
from typing import Final

import trio

import agentrail
from benchmarks import bare
from benchmarks.measure import Effort, Row, Sample, Target, interleave
from benchmarks.ours import StubModel, add, expect, start_watch

_MODEL_SECONDS: Final = 0.1
_PROMPT: Final = "please add 2 and 3"
_SOME: Final = 1_000
_MANY: Final = 10_000


def sessions(effort: Effort) -> list[Row]:
    """A thousand sessions from nothing to their answers; with --full ten thousand too."""
    count = effort.of(_SOME)
    rounds = interleave(partial(_bare_crowd, count), partial(_our_crowd, count), effort.rounds)
    title = f"{count:,} sessions, one cycle each behind a 100 ms model"
    rows = [
        rounds.row(
            "sessions",
            "cpu_seconds",
            f"{title}: CPU",
            unit="s",
            target=Target(of="ratio", must=1.2, aim=0.7),
        ),
        rounds.row("sessions", "wall_seconds", f"{title}: wall", unit="s"),
    ]
    return [*rows, *_ten_thousand()] if effort.full else rows


def _ten_thousand() -> list[Row]:
    rounds = interleave(partial(_growing, _bare_crowd), partial(_growing, _our_crowd), 1)
    title = f"{_MANY:,} sessions, one cycle each behind a 100 ms model"
    return [
        rounds.row(
            "sessions",
            "wall_seconds",
            f"{title}: wall",
            unit="s",
            target=Target(of="ratio", must=1.2, aim=0.6),
        ),
        rounds.row(
            "sessions",
            "growth",
            f"{title}: CPU of one against one of {_SOME:,}",
            unit="×",
            target=Target(of="ours", must=1.15, aim=1.0),
        ),
    ]


def _growing(crowd: Callable[[int], Sample]) -> Sample:
    some, many = crowd(_SOME), crowd(_MANY)
    return {**many, "growth": (many["cpu_seconds"] / _MANY) / (some["cpu_seconds"] / _SOME)}


def _bare_crowd(count: int) -> Sample:
    return trio.run(_bare_crowd_async, count)


async def _bare_crowd_async(count: int) -> Sample:
    model = bare.StubModel(delay_seconds=_MODEL_SECONDS)

    async def live() -> None:
        session = bare.BareSession(model, bare.TOOLS)
        background.start_soon(session.run)
        watch = bare.start_watch(background, session, "end")
        expect("the answer", await session.prompt(_PROMPT), bare.ANSWER)
        await watch.wait_come()

    async with trio.open_nursery() as background:
        began_at, cpu_at = perf_counter(), process_time()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(live)
        took = {"wall_seconds": perf_counter() - began_at, "cpu_seconds": process_time() - cpu_at}
        background.cancel_scope.cancel()
    return took


def _our_crowd(count: int) -> Sample:
    return trio.run(_our_crowd_async, count)


async def _our_crowd_async(count: int) -> Sample:
    model = StubModel(delay_seconds=_MODEL_SECONDS)

    async def live() -> None:
        session = await supervisor.start_session(model=model, tools=[add])
        watch = await start_watch(subscribers, session, agentrail.AgentEnd)
        expect("the answer", await session.ask(_PROMPT), bare.ANSWER)
        await watch.wait_come()

    async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as subscribers:
        began_at, cpu_at = perf_counter(), process_time()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(live)
        took = {"wall_seconds": perf_counter() - began_at, "cpu_seconds": process_time() - cpu_at}
        subscribers.cancel_scope.cancel()
    return took
