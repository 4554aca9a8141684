"""Memory per session, idle and after a turn, each measurement in a process of its own: `python -m benchmarks.idle ours 2000`.

With `--explain` behind it the process says instead where the memory went, or in other modules the time.
"""

import gc
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import attrs
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import trio
import trio.testing

import agentrail
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.explain import Explanation, Place, largest_holders
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import StubModel, add, expect

ROOT: Final = Path(__file__).parents[1]
_SESSIONS: Final = 2_000
_KIB: Final = 1024


def memory(effort: Effort) -> list[Row]:
    """What an idle session holds: over all of them, and the slope over the last three quarters."""
    count = effort.of(_SESSIONS)
    weigh_side = partial(in_a_process, "benchmarks.idle", count=count)
    explain = partial(explain_in_a_process, "benchmarks.idle", "ours", count)
    rounds = interleave(
        partial(weigh_side, "bare"),
        partial(weigh_side, "ours"),
        effort.rounds,
        explain=explain,
        warm_up=False,
    )
    target = target_of("idle session")
    return [
        rounds.row("memory", "held_kib", f"an idle session, of {count:,}", unit="KiB", target=target),
        rounds.row("memory", "slope_kib", "one more idle session", unit="KiB", target=target),
    ]


def after_turn(effort: Effort) -> list[Row]:
    """What a session holds that has made one cycle with a tool call, and is idle again."""
    count = effort.of(_SESSIONS)
    weigh_side = partial(in_a_process, "benchmarks.idle", count=count)
    explain = partial(explain_in_a_process, "benchmarks.idle", "ours-after-turn", count)
    rounds = interleave(
        partial(weigh_side, "bare-after-turn"),
        partial(weigh_side, "ours-after-turn"),
        min(effort.rounds, 3),
        explain=explain,
        warm_up=False,
    )
    title = f"a session that is idle after one turn, of {count:,}"
    target = target_of("session after a turn")
    return [rounds.row("after-turn", "held_kib", title, unit="KiB", target=target)]


# --- a process for each measurement


def in_a_process(module: str, side: str, count: int) -> Sample:
    """Let a module measure one of its sides in a new process."""
    sample: Sample = json.loads(_ask_a_process(module, side, str(count)))
    return sample


def explain_in_a_process(module: str, side: str, count: int) -> Explanation:
    """Let a module say in a new process where what one of its sides costs goes."""
    found = json.loads(_ask_a_process(module, side, str(count), "--explain"))
    return Explanation(places=[Place(**place) for place in found["places"]], collector=found["collector"])


def reply(measure: Callable[[str, int], Sample], explain: Callable[[str, int], Explanation]) -> None:
    """Be that process: do what the arguments say, and print it."""
    side, count = sys.argv[1], int(sys.argv[2])
    if sys.argv[3:] == ["--explain"]:
        print(json.dumps(attrs.asdict(explain(side, count))))
    else:
        print(json.dumps(measure(side, count)))


def _ask_a_process(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603 - ourselves


# --- what is held

Found = TypeVar("Found")
Weigh: TypeAlias = Callable[[Callable[[int], Awaitable[None]], int], Awaitable[Found]]
"""Start so many of something, and say what it takes."""


async def _hold_bare(weigh: Weigh[Found], count: int, *, turns: int) -> Found:
    model = bare.StubModel()
    async with trio.open_nursery() as nursery:
        sessions: list[bare.BareSession] = []

        async def start(more: int) -> None:
            for _ in range(more):
                session = bare.BareSession(model, bare.TOOLS)
                sessions.append(session)
                nursery.start_soon(session.run)
                for _ in range(turns):
                    expect("the answer", await session.prompt("please add 2 and 3"), bare.ANSWER)
                if turns:
                    _read_all(session)
            await trio.testing.wait_all_tasks_blocked()

        sample = await weigh(start, count)
        nursery.cancel_scope.cancel()
    return sample


def _read_all(session: bare.BareSession) -> None:
    """Read what the session published, as a subscriber would have."""
    while session.events.statistics().current_buffer_used:
        session.events.receive_nowait()


async def _hold_ours(weigh: Weigh[Found], count: int, *, turns: int) -> Found:
    model = StubModel()
    async with agentrail.open_supervisor(environ={}) as supervisor:

        async def start(more: int) -> None:
            for _ in range(more):
                session = await supervisor.start_session(model=model, tools=[add])
                for _ in range(turns):
                    expect("the answer", await session.ask("please add 2 and 3"), bare.ANSWER)
            await trio.testing.wait_all_tasks_blocked()

        return await weigh(start, count)


async def weigh(start: Callable[[int], Awaitable[None]], count: int) -> Sample:
    """Start so many of something, and say what each holds: over all of them, and over the last three quarters."""
    await start(1)  # what is made once for all sessions is not a session's
    empty = _resident_bytes()
    quarter = count // 4
    await start(quarter)
    some = _resident_bytes()
    await start(count - quarter)
    all_bytes = _resident_bytes()
    return {
        "held_kib": (all_bytes - empty) / count / _KIB,
        "slope_kib": (all_bytes - some) / (count - quarter) / _KIB,
    }


async def explain_weight(start: Callable[[int], Awaitable[None]], count: int) -> Explanation:
    """Start so many of something, and say which lines made most of what each holds."""
    await start(1)
    return await largest_holders(partial(start, count), count)


def _resident_bytes() -> int:
    gc.collect()
    resident: int = psutil.Process().memory_info().rss
    return resident


_SIDES: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = {
    "bare": partial(_hold_bare, turns=0),
    "ours": partial(_hold_ours, turns=0),
    "bare-after-turn": partial(_hold_bare, turns=1),
    "ours-after-turn": partial(_hold_ours, turns=1),
}

if __name__ == "__main__":
    reply(
        lambda side, count: trio.run(_SIDES[side], weigh, count),
        lambda side, count: trio.run(_SIDES[side], explain_weight, count),
    )
