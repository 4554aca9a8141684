"""The workloads of sub-agents: what one costs beside a session of one's own, a hundred of them, and an abort among eight.

"bare" is sessions that are started, asked and stopped directly, under the same supervisor and with the same model.
"""

from functools import partial
from time import perf_counter, process_time
from typing import Final

import trio

import agentrail
from agentrail.abc import ModelRequest
from agentrail.events import AgentAbort
from agentrail.messages import ToolMessage
from agentrail.runtime.agent import Agent
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing.models import FunctionModel, Turn, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave, percentile, repeat
from benchmarks.ours import expect

_TASKS: Final = 100
_AGENTS: Final = 100
_ABORTED: Final = 8
_TRIALS: Final = 40
_LOOK: Final = "Look."


def agents(effort: Effort) -> list[Row]:
    """A `task`, a hundred agents in the background, and an abort among eight children."""
    return [*_task_rows(effort), *_crowd_rows(effort), *_abort_rows(effort)]


def _task_rows(effort: Effort) -> list[Row]:
    count = effort.of(_TASKS)
    rounds = interleave(
        partial(trio.run, _direct_sessions, count), partial(trio.run, _tasks, count), effort.rounds
    )
    title = "a task with an empty child, less the turns of its parent; bare: a session, asked and stopped"
    return [rounds.row("agents", "cpu_ms", title, unit="ms", target=target_of("task"))]


def _crowd_rows(effort: Effort) -> list[Row]:
    count = effort.of(_AGENTS)
    rounds = interleave(
        partial(trio.run, _direct_sessions, count), partial(trio.run, _crowd, count), effort.rounds
    )
    title = f"{count} agents in the background: start, one cycle each, wait for all; bare: as many sessions"
    return [rounds.row("agents", "cpu_ms", f"{title}; for each", unit="ms", target=target_of("100 agents"))]


def _abort_rows(effort: Effort) -> list[Row]:
    rounds = repeat(partial(trio.run, _aborts, effort.of(_TRIALS)), effort.rounds)
    title = f"abort among {_ABORTED} children whose tools hang"
    return [
        rounds.row(
            "agents", "said_ms", f"{title}: said, p99", unit="ms", target=target_of("abort of 8 said")
        ),
        rounds.row(
            "agents", "gone_ms", f"{title}: gone, p99", unit="ms", target=target_of("abort of 8 gone")
        ),
    ]


async def _direct_sessions(count: int) -> Sample:
    async with agentrail.open_supervisor() as supervisor:
        model = FunctionModel(lambda _: says("done"))
        await _asked(supervisor, model)
        began_at = process_time()
        for _ in range(count):
            await _asked(supervisor, model)
        return {"cpu_ms": (process_time() - began_at) * 1e3 / count}


async def _asked(supervisor: SessionSupervisor, model: FunctionModel) -> None:
    session = await supervisor.start_session(model=model)
    expect("the answer", await session.ask("go"), "done")
    await session.stop()


async def _tasks(count: int) -> Sample:
    """Measure cycles with a task, and the same cycles with a tool that does nothing."""

    def answer(tool: str, request: ModelRequest) -> Turn:
        is_asked = type(request.messages[-1]).__name__ == "UserMessage"
        if not is_asked or "task" not in request.tools.names:
            return says("done")
        return calls((tool, {"description": _LOOK}))

    spent = []
    async with agentrail.open_supervisor() as supervisor:
        for tool in ("record", "task"):
            session = await supervisor.start_session(
                model=FunctionModel(partial(answer, tool)), tools=[TaskTool(), RecordingTool()]
            )
            await session.ask("warm up")
            began_at = process_time()
            for _ in range(count):
                await session.ask("go")
            spent.append((process_time() - began_at) * 1e3 / count)
            await session.stop()
    return {"cpu_ms": spent[1] - spent[0]}


async def _crowd(count: int) -> Sample:
    scout = Agent(name="scout", description="Looks.", system_prompt=_LOOK, background=True, tools=())

    def answer(request: ModelRequest) -> Turn:
        if request.system == _LOOK:
            return says("done")
        if len(request.messages) == 1:
            return calls(*[("spawn_agent", {"agent": "scout", "task": "go"})] * count)
        last = request.messages[-1]
        said = last.results[0].text if isinstance(last, ToolMessage) else ""
        return says(str(said.count("is idle"))) if "is idle" in said else calls(("wait_agents", {}))

    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(
            model=FunctionModel(answer), agents=[scout], max_agents=count, max_agents_total=count
        )
        began_at = process_time()
        expect("the agents that are idle", await session.ask("go"), str(count))
        return {"cpu_ms": (process_time() - began_at) * 1e3 / count}


async def _aborts(trials: int) -> Sample:
    said, gone = [], []
    for _ in range(trials):
        hanging = HangingTool(name="hang")

        def answer(request: ModelRequest) -> Turn:
            if "task" not in request.tools.names:
                return calls(("hang", {}))
            return calls(*[("task", {"description": _LOOK})] * _ABORTED)

        async with agentrail.open_supervisor() as supervisor:
            session = await supervisor.start_session(model=FunctionModel(answer), tools=[TaskTool(), hanging])
            await session.prompt("go")
            while len(hanging.calls) < _ABORTED:  # noqa: ASYNC110 - a tool of the test kit has no event for that
                await trio.sleep(0.001)
            async with session.subscribe(kinds=[AgentAbort]) as events:
                began_at = perf_counter()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(partial(session.abort, "enough"))
                    await anext(events)
                    said.append((perf_counter() - began_at) * 1e3)
                gone.append((perf_counter() - began_at) * 1e3)
            receipt = await session.abort("nothing is left")
            expect("what is left", receipt.tasks_ended, 0)
    return {"said_ms": percentile(said, 99), "gone_ms": percentile(gone, 99)}
