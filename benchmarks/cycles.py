"""The workloads of one session at a time: a cycle with a tool, a batch of twenty, a conversation that grows.

Nothing in them waits for anything but the CPU, so the CPU's time is taken: it is the same on a machine of one's own,
and on a shared one it does not measure the neighbours.
"""

import statistics
from functools import partial
from time import process_time
from typing import Final

import trio
import trio.testing

import agentrail
from agentrail import plugins as p
from benchmarks import bare
from benchmarks.measure import Effort, Row, Sample, Target, interleave
from benchmarks.ours import StubModel, add, expect, start_watch

_SESSIONS: Final = 300
_BATCH: Final = 20
_LISTENERS: Final = 5
_CYCLES: Final = 1000
_EARLY: Final = slice(4, 15)  # around cycle 10
_LATE: Final = slice(-11, None)
_PROMPT: Final = "please add 2 and 3"
_MICROSECONDS: Final = 1e6


def cycle(effort: Effort) -> list[Row]:
    """One cycle with one tool call in a fresh session, and what starting that session costs."""
    count = effort.of(_SESSIONS)
    rounds = interleave(partial(_bare_cycles, count, 1), partial(_our_cycles, count, 1), effort.rounds)
    return [
        rounds.row(
            "cycle",
            "cycle_seconds",
            "one cycle with one tool call, fresh session",
            unit="µs",
            factor=_MICROSECONDS,
            target=Target(of="ratio", must=1.2, aim=0.75),
        ),
        rounds.row("cycle", "start_seconds", "starting that session", unit="µs", factor=_MICROSECONDS),
    ]


def plugins(effort: Effort) -> list[Row]:
    """The same cycle before plugins that are asked at every hook, and have nothing to say."""
    count = effort.of(_SESSIONS)
    rounds = interleave(
        partial(_bare_cycles, count, 1), partial(_our_cycles, count, 1, _LISTENERS), effort.rounds
    )
    return [
        rounds.row(
            "plugins",
            "cycle_seconds",
            f"one cycle with one tool call and {_LISTENERS} plugins that listen to every hook",
            unit="µs",
            factor=_MICROSECONDS,
            target=Target(of="ratio", must=1.4, aim=0.9),
        )
    ]


def tools(effort: Effort) -> list[Row]:
    """A cycle whose one response calls twenty tools that do nothing."""
    count = effort.of(_SESSIONS // 3)
    rounds = interleave(
        partial(_bare_cycles, count, _BATCH), partial(_our_cycles, count, _BATCH), effort.rounds
    )
    return [
        rounds.row(
            "tools",
            "cycle_seconds",
            f"{_BATCH} no-op tools in one batch, the whole cycle",
            unit="µs",
            factor=_MICROSECONDS,
            target=Target(of="ratio", must=1.3, aim=0.7),
        )
    ]


def growth(effort: Effort) -> list[Row]:
    """One conversation of a thousand cycles: the last ones against the tenth."""
    count = effort.of(_CYCLES)
    rounds = interleave(partial(_bare_growth, count), partial(_our_growth, count), effort.rounds)
    return [
        rounds.row(
            "growth",
            "growth",
            f"cycle {count:,} of one conversation against cycle 10",
            unit="×",
            target=Target(of="ours", must=1.10, aim=1.03),
        ),
        rounds.row("growth", "late_seconds", f"cycle {count:,} itself", unit="µs", factor=_MICROSECONDS),
    ]


# --- the bare loop


def _bare_cycles(count: int, calls: int) -> Sample:
    return trio.run(_bare_cycles_async, count, calls)


async def _bare_cycles_async(count: int, calls: int) -> Sample:
    model = bare.StubModel(calls=calls)
    async with trio.open_nursery() as nursery:
        began_at = process_time()
        sessions = []
        for _ in range(count):
            sessions.append(bare.BareSession(model, bare.TOOLS))
            nursery.start_soon(sessions[-1].run)
            await trio.lowlevel.checkpoint()
        start_seconds = process_time() - began_at
        watches = [bare.start_watch(nursery, session, "end") for session in sessions]
        await trio.testing.wait_all_tasks_blocked()
        began_at = process_time()
        for session in sessions:
            expect("the answer", await session.prompt(_PROMPT), bare.ANSWER)
        for watch in watches:
            await watch.wait_come()
        cycle_seconds = process_time() - began_at
        nursery.cancel_scope.cancel()
    return {"cycle_seconds": cycle_seconds / count, "start_seconds": start_seconds / count}


def _bare_growth(count: int) -> Sample:
    return trio.run(_bare_growth_async, count)


async def _bare_growth_async(count: int) -> Sample:
    took: list[float] = []
    async with trio.open_nursery() as nursery:
        session = bare.BareSession(bare.StubModel(), bare.TOOLS)
        nursery.start_soon(session.run)
        watch = bare.start_watch(nursery, session, "end")
        for _ in range(count):
            began_at = process_time()
            expect("the answer", await session.prompt(_PROMPT), bare.ANSWER)
            await watch.wait_come()
            took.append(process_time() - began_at)
        nursery.cancel_scope.cancel()
    return _growth_of(took)


# --- agentrail


class _Listener(p.Plugin[int]):
    def init(self) -> int:
        return 0

    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        return p.Continue(state)


def _our_cycles(count: int, calls: int, listeners: int = 0) -> Sample:
    return trio.run(_our_cycles_async, count, calls, listeners)


async def _our_cycles_async(count: int, calls: int, listeners: int) -> Sample:
    model = StubModel(calls=calls)
    stack = [_Listener(name=f"listener {number}") for number in range(listeners)]
    async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as nursery:
        began_at = process_time()
        sessions = [
            await supervisor.start_session(model=model, tools=[add], plugins=stack) for _ in range(count)
        ]
        start_seconds = process_time() - began_at
        watches = [await start_watch(nursery, session, agentrail.AgentEnd) for session in sessions]
        await trio.testing.wait_all_tasks_blocked()
        began_at = process_time()
        for session in sessions:
            expect("the answer", await session.ask(_PROMPT), bare.ANSWER)
        for watch in watches:
            await watch.wait_come()
        cycle_seconds = process_time() - began_at
        nursery.cancel_scope.cancel()
    return {"cycle_seconds": cycle_seconds / count, "start_seconds": start_seconds / count}


def _our_growth(count: int) -> Sample:
    return trio.run(_our_growth_async, count)


async def _our_growth_async(count: int) -> Sample:
    took: list[float] = []
    async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.start_session(model=StubModel(), tools=[add])
        watch = await start_watch(nursery, session, agentrail.AgentEnd)
        for _ in range(count):
            began_at = process_time()
            expect("the answer", await session.ask(_PROMPT), bare.ANSWER)
            await watch.wait_come()
            took.append(process_time() - began_at)
        expect("the length of the history", len(await session.messages()), 4 * count)
        nursery.cancel_scope.cancel()
    return _growth_of(took)


def _growth_of(took: list[float]) -> Sample:
    early, late = statistics.median(took[_EARLY]), statistics.median(took[_LATE])
    return {"growth": late / early, "late_seconds": late}
