"""What `evaluate` adds to the sessions that it runs: 1,000 scripted cases with a tool, two scorers and a store in memory."""

from functools import partial
from time import process_time
from typing import Final

import trio

import agentrail
from agentrail.blueprints import Blueprint
from agentrail.evals import Case, Dataset, Scorer, contains, evaluate, tools_called
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import StubModel, add, expect

_CASES: Final = 1_000
_AT_A_TIME: Final = 8
_PROMPT: Final = "please add 2 and 3, number"


def evals(effort: Effort) -> list[Row]:
    """The same sessions, eight at a time, with and without `evaluate`."""
    count = effort.of(_CASES)
    rounds = interleave(
        partial(trio.run, _sessions, count), partial(trio.run, _evaluated, count), effort.rounds
    )
    what = f"{count:,} scripted cases in an eval: CPU; bare: the same sessions under a supervisor"
    return [rounds.row("evals", "cpu_seconds", what, unit="s", target=target_of("evaluated cases"))]


def _task() -> Blueprint:
    return Blueprint(model=StubModel(), tools=[add])


async def _evaluated(count: int) -> Sample:
    dataset = Dataset("sums", [Case(f"{_PROMPT} {number}", bare.ANSWER) for number in range(count)])
    scorers: list[Scorer] = [contains, partial(tools_called, calls=["add"])]
    began_at = process_time()
    report = await evaluate(dataset, _task(), scorers, max_concurrency=_AT_A_TIME)
    took = process_time() - began_at
    expect("the mean score", report.mean, 1.0)
    return {"cpu_seconds": took}


async def _sessions(count: int) -> Sample:
    left = iter(range(count))
    task = _task()

    async def live() -> None:
        for number in left:
            session = await supervisor.start_session(task)
            expect("the answer", await session.ask(f"{_PROMPT} {number}"), bare.ANSWER)
            await session.stop()

    began_at = process_time()
    async with agentrail.open_supervisor(store="memory:") as supervisor, trio.open_nursery() as nursery:
        for _ in range(_AT_A_TIME):
            nursery.start_soon(live)
    return {"cpu_seconds": process_time() - began_at}
