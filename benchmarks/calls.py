"""The workloads of tool calls: what gates and runner add to a call, a batch that waits, and how soon a process tree is gone."""

import json
import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

import trio
import trio.testing
from jsonschema import Draft202012Validator

import agentrail
from agentrail import plugins as p
from agentrail.sandboxes.local import LocalSandbox
from agentrail.tools.shell import shell
from benchmarks import bare
from benchmarks.measure import Effort, Row, Sample, Target, interleave, percentile, repeat
from benchmarks.ours import StubModel, expect, start_watch

_SESSIONS: Final = 20
_CALLS: Final = 100
_BATCH: Final = 20
_SLEEPERS: Final = 2
_NAP_SECONDS: Final = 0.05
_KILLS: Final = 10
_PROMPT: Final = "please add 2 and 3"
_OBEYS: Final = "sleep 1000 & sleep 1000 & wait"
_IGNORES: Final = "trap '' TERM; sleep 1000 & sleep 1000 & wait; wait"
_PLUGINS: Final = (
    p.AutoCheckpoint, p.ContentPolicy, (p.CostGuard, {"max_tokens": 10**9}), p.EpisodicMemory, p.EventLogger,
    p.HumanApproval, p.LargeResultOffload, p.MemoryFlush, p.MemoryLoader, p.ModelRouter,
    (p.OutputFilter, {"keywords": ["secret"]}), p.PatchToolCalls, p.Planning, p.PromptCache, p.Recovery, (p.Reflection, {"max_reviews": 0}),
    (p.Permissions, {"allow": ["add"]}), p.SecurityGuard, (p.SkillGuard, {"skills": {"x": ["add"]}, "active": ["x"]}),
)  # fmt: skip


@agentrail.tool(polling=True)  # a hundred calls with the same arguments are no loop here
async def add(a: int, b: int) -> int:
    """Add two integers."""
    await trio.lowlevel.checkpoint()
    return a + b


def tool_call(effort: Effort) -> list[Row]:
    """One more call in a batch: what the gates, the runner and the events of a call cost."""
    count = effort.of(_SESSIONS)
    rounds = interleave(partial(trio.run, _bare_calls, count), partial(_our_calls, count, ()), effort.rounds)
    return [
        rounds.row(
            "tool-call",
            "call_seconds",
            "one more no-op async call in a batch; bare: a nursery task, a validator, a channel",
            unit="µs",
            factor=1e6,
            target=Target(of="ratio", must=6.0),
        )
    ]


def gates(effort: Effort) -> list[Row]:
    """The same call behind the built-in plugins, none of which acts; beside it ours without plugins."""
    count = effort.of(_SESSIONS)
    rounds = interleave(partial(_our_calls, count, ()), partial(_our_calls, count, _PLUGINS), effort.rounds)
    return [
        rounds.row(
            "gates",
            "call_seconds",
            f"one more no-op call behind {len(_PLUGINS)} plugins; bare: ours without plugins",
            unit="µs",
            factor=1e6,
            target=Target(of="ratio", must=3.0),
        )
    ]


def tool_batch(effort: Effort) -> list[Row]:
    """Twenty tools that sleep 50 ms each, all at a time."""
    rounds = repeat(partial(trio.run, _our_naps), effort.rounds)
    return [
        rounds.row(
            "tool-batch",
            "batch_seconds",
            f"{_BATCH} parallel tools of 50 ms each, from the first start to the last end",
            unit="ms",
            factor=1e3,
            target=Target(of="ours", must=65.0, aim=52.0),
        )
    ]


def kills(effort: Effort) -> list[Row]:
    """From `abort()` to the receipt, when nothing of a shell with grandchildren is left."""
    count = effort.of(_KILLS)
    obeying = repeat(partial(trio.run, _our_kills, _OBEYS, count), effort.rounds)
    ignoring = repeat(partial(trio.run, _our_kills, _IGNORES, 1), min(effort.rounds, 2))
    return [
        obeying.row(
            "kills",
            "gone_p50",
            "a shell with grandchildren that obey SIGTERM, from abort to gone",
            unit="ms",
            factor=1e3,
            target=Target(of="ours", must=100.0),
        ),
        ignoring.row(
            "kills",
            "gone_p50",
            "the same that ignore it: two seconds, then SIGKILL",
            unit="ms",
            factor=1e3,
            target=Target(of="ours", must=2_200.0),
        ),
    ]


async def _bare_calls(count: int) -> Sample:
    validator = Draft202012Validator(bare.SCHEMA)
    send, receive = trio.open_memory_channel[tuple[int, int]](_CALLS)

    async def work(position: int) -> None:
        arguments = json.loads(bare.ARGUMENTS)
        expect("the verdict", validator.is_valid(arguments), wanted=True)
        await send.send((position, await bare.add(**arguments)))

    began_at = process_time()
    for _ in range(count):
        async with trio.open_nursery() as nursery:
            for position in range(_CALLS):
                nursery.start_soon(work, position)
        results = [receive.receive_nowait() for _ in range(_CALLS)]
        expect("the sums", {result for _, result in results}, {5})
    return {"call_seconds": (process_time() - began_at) / (count * _CALLS)}


def _our_calls(count: int, plugins: tuple[object, ...]) -> Sample:
    one, many = (trio.run(_our_cycles, count, calls, plugins) for calls in (1, 1 + _CALLS))
    return {"call_seconds": max(many - one, 1e-9) / (count * _CALLS)}


async def _our_cycles(count: int, calls: int, plugins: tuple[object, ...]) -> float:
    with TemporaryDirectory() as root:
        async with agentrail.open_supervisor(environ={}) as supervisor:
            model = StubModel(calls=calls)
            sessions = [
                await supervisor.start_session(model=model, tools=[add], plugins=plugins, working_dir=root)
                for _ in range(count)
            ]
            await trio.testing.wait_all_tasks_blocked()
            began_at = process_time()
            for session in sessions:
                expect("the answer", await session.ask(_PROMPT), bare.ANSWER)
            return process_time() - began_at


async def _our_naps() -> Sample:
    @agentrail.tool
    async def nap(a: int, b: int) -> int:
        """Sleep, and add."""
        await trio.sleep(_NAP_SECONDS)
        return a + b

    kinds = (agentrail.ToolExecutionStart, agentrail.ToolExecutionEnd)
    times: list[float] = []
    async with agentrail.open_supervisor(environ={}) as supervisor:
        session = await supervisor.start_session(
            model=StubModel(tool="nap", calls=_BATCH), tools=[nap], max_parallel_tools=_BATCH
        )
        async with session.subscribe(kinds=kinds) as events:
            await session.prompt(_PROMPT)
            async for _ in events:
                times.append(perf_counter())
                if len(times) == 2 * _BATCH:
                    break
    return {"batch_seconds": times[-1] - times[0]}


async def _our_kills(command: str, count: int) -> Sample:
    took: list[float] = []
    arguments = json.dumps({"command": f"{command} # {os.getpid()}", "timeout_seconds": 600})
    with TemporaryDirectory() as root:
        async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as nursery:
            sandbox = LocalSandbox(root, shell_fallback="unconfined", env={"BENCHMARK": root})
            for _ in range(count):
                session = await supervisor.start_session(
                    model=StubModel(tool="shell", arguments=arguments), tools=[shell], sandbox=sandbox
                )
                await start_watch(nursery, session, agentrail.AgentAbort)
                await session.prompt(_PROMPT)
                while _alive(root, "sleep") < _SLEEPERS:  # noqa: ASYNC110 - a process has no event that one could wait for
                    await trio.sleep(0.01)
                began_at = perf_counter()
                receipt = await session.abort()
                took.append(perf_counter() - began_at)
                expect("what is left", (receipt.stuck, _alive(root)), ((), 0))
                expect("the reaped", receipt.processes_reaped > _SLEEPERS, wanted=True)
            nursery.cancel_scope.cancel()
    return {"gone_p50": percentile(took, 50)}


def _alive(root: str, name: str = "") -> int:
    """Count the processes that carry the mark of a directory, all or those of one program."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"BENCHMARK={root}".encode() in process.joinpath("environ").read_bytes().split(b"\0")
            found += is_ours and (not name or process.joinpath("comm").read_text().strip() == name)
        except OSError:
            continue
    return found
