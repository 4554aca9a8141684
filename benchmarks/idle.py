"""Memory per idle session, each measurement in a process of its own: `python -m benchmarks.idle ours 2000`."""

import gc
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import trio
import trio.testing

import agentrail
from benchmarks import bare
from benchmarks.measure import Effort, Row, Sample, Target, interleave
from benchmarks.ours import StubModel, add

ROOT: Final = Path(__file__).parents[1]
_SESSIONS: Final = 2_000
_KIB: Final = 1024


def memory(effort: Effort) -> list[Row]:
    """What an idle session holds: over all of them, and the slope over the last three quarters."""
    count = effort.of(_SESSIONS)
    weigh_side = partial(in_a_process, "benchmarks.idle", count=count)
    rounds = interleave(partial(weigh_side, "bare"), partial(weigh_side, "ours"), effort.rounds)
    target = Target(of="ours", must=12.0, aim=6.0)
    return [
        rounds.row("memory", "held_kib", f"an idle session, of {count:,}", unit="KiB", target=target),
        rounds.row("memory", "slope_kib", "one more idle session", unit="KiB", target=target),
    ]


def in_a_process(module: str, side: str, count: int) -> Sample:
    """Let a module weigh one of its sides in a new process."""
    command = [sys.executable, "-m", module, side, str(count)]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603 - ourselves
    sample: Sample = json.loads(answer.stdout)
    return sample


async def _hold_bare(count: int) -> Sample:
    model = bare.StubModel()
    async with trio.open_nursery() as nursery:
        sessions: list[bare.BareSession] = []

        async def start(more: int) -> None:
            for _ in range(more):
                sessions.append(bare.BareSession(model, bare.TOOLS))
                nursery.start_soon(sessions[-1].run)
            await trio.testing.wait_all_tasks_blocked()

        sample = await weigh(start, count)
        nursery.cancel_scope.cancel()
    return sample


async def _hold_ours(count: int) -> Sample:
    model = StubModel()
    async with agentrail.open_supervisor(environ={}) as supervisor:

        async def start(more: int) -> None:
            for _ in range(more):
                await supervisor.start_session(model=model, tools=[add])
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


def _resident_bytes() -> int:
    gc.collect()
    resident: int = psutil.Process().memory_info().rss
    return resident


if __name__ == "__main__":
    hold = {"bare": _hold_bare, "ours": _hold_ours}[sys.argv[1]]
    print(json.dumps(trio.run(hold, int(sys.argv[2]))))
