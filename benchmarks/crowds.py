"""The workloads of many sessions at once: each makes one cycle behind a model that takes its time.

`python -m benchmarks.crowds tuned 10000` is one measurement in a process of its own, where nothing else lives that the
collector would have to look through: `bare` and `ours` with Python's thresholds, `tuned` ours with `many_sessions()`.
"""

import gc
import resource
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter, process_time
from typing import Final

import trio

import agentrail
from agentrail.gc_settings import many_sessions
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.explain import slowest_functions
from benchmarks.idle import explain_in_a_process, in_a_process, reply
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import StubModel, add, expect, start_watch

_MODEL_SECONDS: Final = 0.1
_PROMPT: Final = "please add 2 and 3"
_FEW: Final = 20
_SOME: Final = 1_000
_MANY: Final = 10_000


def sessions(effort: Effort) -> list[Row]:
    """A thousand sessions from nothing to their answers."""
    count = effort.of(_SOME)
    rounds = interleave(partial(_bare_crowd, count), partial(_our_crowd, count), effort.rounds)
    title = f"{count:,} sessions, one cycle each behind a 100 ms model"
    return [
        rounds.row("sessions", "cpu_seconds", f"{title}: CPU", unit="s", target=target_of("1,000 sessions")),
        rounds.row("sessions", "wall_seconds", f"{title}: wall", unit="s"),
    ]


def crowds(effort: Effort) -> list[Row]:
    """Ten thousand with our collector policy, beside bare loops with Python's; with --full without the policy too."""
    some, many = effort.of(_SOME), effort.of(_MANY)
    take = partial(in_a_process, "benchmarks.crowds")
    explain = partial(explain_in_a_process, "benchmarks.crowds", "tuned", many)
    sides = ["tuned", "ours"] if effort.full else ["tuned"]
    rows: list[Row] = []
    for side in sides:
        rounds = interleave(
            partial(_growing, partial(take, "bare"), some, many),
            partial(_growing, partial(take, side), some, many),
            1,
            explain=explain,
            warm_up=False,
        )
        policy = "many_sessions()" if side == "tuned" else "Python's thresholds"
        title = f"{many:,} sessions with {policy}"
        is_judged = side == "tuned"
        rows += [
            rounds.row(
                "crowds",
                "cpu_seconds",
                f"{title}: CPU; bare: with Python's thresholds",
                unit="s",
                target=target_of("10,000 sessions") if is_judged else None,
            ),
            rounds.row("crowds", "wall_seconds", f"{title}: wall", unit="s"),
            rounds.row(
                "crowds",
                "growth",
                f"{title}: CPU of one, against one of {some:,}",
                unit="×",
                target=target_of("growth of sessions") if is_judged else None,
            ),
            rounds.row("crowds", "peak_mib", f"{title}: peak of memory", unit="MiB"),
            rounds.row("crowds", "looks", f"{title}: looks of the collector", unit="looks"),
        ]
    return rows


def _growing(crowd: Callable[[int], Sample], some: int, many: int) -> Sample:
    fewer, more = crowd(some), crowd(many)
    return {**more, "growth": (more["cpu_seconds"] / many) / (fewer["cpu_seconds"] / some)}


def take_side(side: str, count: int) -> Sample:
    """Take one side of `_SIDES`, with its peak of memory and the looks of the collector, after a few that warm up."""
    crowd = _SIDES[side]
    crowd(_FEW)
    gc.collect()
    looks = _looks()
    taken = crowd(count)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**taken, "peak_mib": peak_kib / 1024, "looks": _looks() - looks}


def _looks() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def _bare_crowd(count: int) -> Sample:
    return trio.run(_bare_crowd_async, count)


def _tuned_crowd(count: int) -> Sample:
    with many_sessions():
        return _our_crowd(count)


def _tuned_bare_crowd(count: int) -> Sample:
    with many_sessions():
        return _bare_crowd(count)


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


_SIDES: Final[Mapping[str, Callable[[int], Sample]]] = {
    "bare": _bare_crowd,
    "ours": _our_crowd,
    "tuned": _tuned_crowd,
    "tuned-bare": _tuned_bare_crowd,
}

if __name__ == "__main__":
    reply(take_side, lambda side, count: slowest_functions(partial(_SIDES[side], count)))
