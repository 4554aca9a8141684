"""The workloads of one session at a time: a cycle with a tool, a batch of twenty, a conversation that grows.

Nothing in them waits for anything but the CPU, so the CPU's time is taken: it is the same on a machine of one's own,
and on a shared one it does not measure the neighbours.
"""

import statistics
from collections.abc import Awaitable, Callable
from functools import partial
from time import process_time
from typing import Final

import trio
import trio.testing
from jsonschema import Draft202012Validator

import agentrail
from agentrail import plugins as p
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.explain import slowest_functions
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import StubModel, add, expect, start_watch

_SESSIONS: Final = 300
BATCH: Final = 20
_LISTENERS: Final = 5
_CYCLES: Final = 1000
_EARLY: Final = slice(4, 15)  # around cycle 10
_LATE: Final = slice(-11, None)
FIRST_TURNS: Final = 5
_PROMPT: Final = "please add 2 and 3"
_MICROSECONDS: Final = 1e6


def cycle(effort: Effort) -> list[Row]:
    """One cycle with one tool call in a fresh session, and what starting that session costs."""
    count = effort.of(_SESSIONS)
    rounds = interleave(partial(bare_cycles, count, 1), partial(our_cycles, count, 1), effort.rounds)
    return [
        rounds.row(
            "cycle",
            "cycle_seconds",
            "one cycle with one tool call, fresh session",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("cycle"),
        ),
        rounds.row(
            "cycle",
            "start_seconds",
            "starting that session",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("start"),
            explain=partial(slowest_functions, partial(trio.run, _our_starts, count)),
        ),
    ]


def own_tool(effort: Effort) -> list[Row]:
    """Starting a session with a tool that no other session has, the making of the tool included."""
    count = effort.of(_SESSIONS)
    rounds = interleave(
        partial(trio.run, bare_own_tools, count), partial(trio.run, our_own_tools, count), effort.rounds
    )
    return [
        rounds.row(
            "own-tool",
            "start_seconds",
            "starting a session with a tool object of its own",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("start with own tool"),
        )
    ]


def plugins(effort: Effort) -> list[Row]:
    """The same cycle before plugins that are asked at every hook, and have nothing to say."""
    count = effort.of(_SESSIONS)
    rounds = interleave(
        partial(bare_cycles, count, 1), partial(our_cycles, count, 1, _LISTENERS), effort.rounds
    )
    return [
        rounds.row(
            "plugins",
            "cycle_seconds",
            f"one cycle with one tool call and {_LISTENERS} plugins that listen to every hook",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("5 plugins"),
        )
    ]


def tools(effort: Effort) -> list[Row]:
    """A cycle whose one response calls twenty tools that do nothing."""
    count = effort.of(_SESSIONS // 3)
    rounds = interleave(
        partial(one_more, bare_cycles, count), partial(one_more, our_cycles, count), effort.rounds
    )
    return [
        rounds.row(
            "tools",
            "cycle_seconds",
            f"{BATCH} no-op tools in one batch, the whole cycle",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("20 tools"),
        ),
        rounds.row(
            "tools",
            "more_seconds",
            f"one more no-op tool in a batch: {BATCH} less one, by {BATCH - 1}",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("one more tool"),
        ),
    ]


def growth(effort: Effort) -> list[Row]:
    """One conversation of a thousand cycles: the last ones against the tenth."""
    count = effort.of(_CYCLES)
    rounds = interleave(partial(bare_growth, count), partial(our_growth, count), effort.rounds)
    return [
        rounds.row(
            "growth",
            "growth",
            f"cycle {count:,} of one conversation against cycle 10",
            unit="×",
            target=target_of("growth"),
        ),
        rounds.row(
            "growth",
            "early_seconds",
            "cycle 10 itself",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("cycle early"),
        ),
        rounds.row(
            "growth",
            "late_seconds",
            f"cycle {count:,} itself",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("cycle late"),
        ),
    ]


def one_more(cycles: Callable[[int, int], Sample], count: int) -> Sample:
    """Take batches of twenty, and of one: what a batch costs by itself is in both."""
    many, one = cycles(count, BATCH), cycles(count, 1)
    more = (many["cycle_seconds"] - one["cycle_seconds"]) / (BATCH - 1)
    return {**many, "more_seconds": max(more, 1e-9)}


# --- the bare loop


def bare_cycles(count: int, calls: int) -> Sample:
    """Take cycles in fresh sessions of the bare loop: per cycle, and per start."""
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


def bare_growth(count: int) -> Sample:
    """Take one conversation of so many cycles."""
    return _growth_of(trio.run(_bare_turns, count))


def bare_first_turns(count: int) -> Sample:
    """Take the first turns of so many conversations."""
    return _first_turns_of(_bare_turns, count)


async def _bare_turns(count: int, *, is_read: bool = True) -> list[float]:
    took: list[float] = []
    async with trio.open_nursery() as nursery:
        session = bare.BareSession(bare.StubModel(), bare.TOOLS)
        nursery.start_soon(session.run)
        watch = bare.start_watch(nursery, session, "end") if is_read else None
        for _ in range(count):
            began_at = process_time()
            expect("the answer", await session.prompt(_PROMPT), bare.ANSWER)
            if watch is not None:
                await watch.wait_come()
            took.append(process_time() - began_at)
        nursery.cancel_scope.cancel()
    return took


async def bare_own_tools(count: int) -> Sample:
    """Start bare sessions, each with a tool and a validator of its own."""
    model = bare.StubModel()
    sessions = []
    async with trio.open_nursery() as nursery:
        began_at = process_time()
        for _ in range(count):
            validator = Draft202012Validator(bare.SCHEMA)

            async def add(a: int, b: int, validator: Draft202012Validator = validator) -> int:
                await trio.lowlevel.checkpoint()
                return a + b if validator.is_valid({"a": a, "b": b}) else 0

            sessions.append(bare.BareSession(model, {"add": add}))
            nursery.start_soon(sessions[-1].run)
            await trio.lowlevel.checkpoint()
        start_seconds = process_time() - began_at
        expect("the answer", await sessions[-1].prompt(_PROMPT), bare.ANSWER)
        nursery.cancel_scope.cancel()
    return {"start_seconds": start_seconds / count}


# --- agentrail


class _Listener(p.Plugin[int]):
    def init(self) -> int:
        return 0

    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        return p.Continue(state)


def our_cycles(count: int, calls: int, listeners: int = 0) -> Sample:
    """Take cycles in fresh sessions of ours: per cycle, and per start."""
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


async def _our_starts(count: int) -> None:
    model = StubModel()
    async with agentrail.open_supervisor(environ={}) as supervisor:
        for _ in range(count):
            await supervisor.start_session(model=model, tools=[add])


async def our_own_tools(count: int) -> Sample:
    """Start sessions, each with a tool of its own."""
    model = StubModel()
    sessions = []
    async with agentrail.open_supervisor(environ={}) as supervisor:
        began_at = process_time()
        for _ in range(count):

            @agentrail.tool
            async def add(a: int, b: int) -> int:
                """Add two integers."""
                await trio.lowlevel.checkpoint()
                return a + b

            sessions.append(await supervisor.start_session(model=model, tools=[add]))
        start_seconds = process_time() - began_at
        expect("the answer", await sessions[-1].ask(_PROMPT), bare.ANSWER)
    return {"start_seconds": start_seconds / count}


def our_growth(count: int) -> Sample:
    """Take one conversation of so many cycles."""
    return _growth_of(trio.run(_our_turns, count))


def our_first_turns(count: int) -> Sample:
    """Take the first turns of so many conversations."""
    return _first_turns_of(_our_turns, count)


async def _our_turns(count: int, *, is_read: bool = True) -> list[float]:
    took: list[float] = []
    async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.start_session(model=StubModel(), tools=[add])
        watch = await start_watch(nursery, session, agentrail.AgentEnd) if is_read else None
        for _ in range(count):
            began_at = process_time()
            expect("the answer", await session.ask(_PROMPT), bare.ANSWER)
            if watch is not None:
                await watch.wait_come()
            took.append(process_time() - began_at)
        expect("the length of the history", len(await session.messages()), 4 * count)
        nursery.cancel_scope.cancel()
    return took


def _growth_of(took: list[float]) -> Sample:
    early, late = statistics.median(took[_EARLY]), statistics.median(took[_LATE])
    return {"growth": late / max(early, 1e-9), "early_seconds": early, "late_seconds": late}


def _first_turns_of(converse: Callable[..., Awaitable[list[float]]], count: int) -> Sample:
    """Take turns of conversations whose events are read, and of others that nobody reads, as with the peers."""
    found: dict[str, float] = {}
    for kind, is_read in (("turn", True), ("unread_turn", False)):
        one = partial(converse, FIRST_TURNS, is_read=is_read)
        turns = zip(*(trio.run(one) for _ in range(count)), strict=True)
        for number, took in enumerate(turns, 1):
            found[f"{kind}_{number}_seconds"] = statistics.median(took)
    return found
