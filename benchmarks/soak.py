"""`make soak`: sessions live and die by the thousand, many of them badly, and nothing grows.

Rounds of sessions side by side under one supervisor: prompts, tools of each kind, steers, aborts, approvals, sub-agents,
compactions, commands in the sandbox, and tools, plugins and providers that raise whatever they can. Between two rounds,
when all of them are gone, memory, descriptors, tasks, threads and objects are counted and printed. After the warm-up they
have to be flat, and a session that was there from the beginning has to answer still; else the exit status is 1.

    python -m benchmarks.soak --seconds 600 --seed 1
"""

import argparse
import asyncio
import gc
import logging
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

import trio
from attrs import asdict, frozen

from agentrail import plugins as p, tool
from agentrail.errors import AgentrailError
from agentrail.events import ApprovalRequired
from agentrail.messages import ToolMessage
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime import ended_sessions
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.sandboxes.local import LocalSandbox
from agentrail.testing.cancelling import crash
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools import builtin

SIDE_BY_SIDE: Final = 16
LIVES_OF_A_ROUND: Final = 64
LIFE_SECONDS: Final = 60.0
LEAST_ROUNDS: Final = 4
WARM_UP: Final = 0.3
"""The part of the samples that is left out: caches fill, and Python takes its memory from the system."""

MAX_GROWTH: Final = {"rss_kb": 8_192, "descriptors": 0, "tasks": 0, "threads": 2, "objects": 4_000}
"""How much more the last third of the samples may show than the first one, behind the warm-up, by their medians."""

RSS_PERCENT: Final = 5.0

KEPT: Final[dict[str, Any]] = {"MAX_LAST_WORDS": 32, "MAX_HANDLES": 8}
"""Of how many sessions that have ended something is kept: fewer than end in a round, so that what is kept is flat too."""


class Foreign(BaseException):
    """What some library raises that is no `Exception`."""


class Unprintable(Exception):
    """Printing it raises another exception."""

    def __str__(self) -> str:
        """Raise it."""
        raise Foreign


def _chain() -> BaseException:
    error: BaseException = ValueError("the first of many")
    for number in range(1_000):
        later = KeyError(number)
        later.__cause__ = error
        error = later
    return error


HOSTILE: Final[tuple[Callable[[], BaseException], ...]] = (
    lambda: ValueError("plain"),
    GeneratorExit,
    lambda: asyncio.CancelledError("of another loop"),
    Foreign,
    Unprintable,
    _chain,
    lambda: BaseExceptionGroup("one", [Foreign()]),
    lambda: BaseExceptionGroup("two", [ValueError(), BaseExceptionGroup("in", [GeneratorExit()])]),
)


@frozen(kw_only=True)
class Figures:
    """What is counted when all sessions of a round are gone."""

    rss_kb: int
    descriptors: int
    tasks: int
    threads: int
    objects: int


def count() -> Figures:
    """Count; inside of the Trio run."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Figures(
        rss_kb=pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        tasks=trio.lowlevel.current_statistics().tasks_living,
        threads=threading.active_count(),
        objects=len(gc.get_objects()),
    )


def decide_growth(samples: Sequence[Figures]) -> dict[str, float]:
    """Say how much each figure grew: the median of the last third of the samples less that of the first, behind the warm-up.

    Args:
        samples: In order; of too few the first and the last are compared.
    """
    kept = [asdict(sample) for sample in samples[int(len(samples) * WARM_UP) :]]
    third = max(1, len(kept) // 3)
    return {
        name: statistics.median(one[name] for one in kept[-third:])
        - statistics.median(one[name] for one in kept[:third])
        for name in kept[0]
    }


def decide_faults(samples: Sequence[Figures]) -> list[str]:
    """Say what is not flat."""
    allowed = dict(MAX_GROWTH)
    allowed["rss_kb"] = max(allowed["rss_kb"], round(samples[-1].rss_kb * RSS_PERCENT / 100))
    return [
        f"{name} grew by {grew:,.0f}, allowed are {allowed[name]:,}"
        for name, grew in decide_growth(samples).items()
        if grew > allowed[name]
    ]


class Samples:
    """The figures of a run, printed as they are counted."""

    def __init__(self, seconds: float) -> None:
        """Begin with none.

        Args:
            seconds: How long the run takes; longer where it has not had the least rounds by then.
        """
        self._seconds = seconds
        self._began = time.monotonic()
        self._samples: list[Figures] = []

    @property
    def wants_more(self) -> bool:
        """Whether another round is to be played."""
        return time.monotonic() - self._began < self._seconds or len(self._samples) < LEAST_ROUNDS

    def take(self, told: str) -> None:
        """Count, and print what was counted; inside of the Trio run.

        Args:
            told: What was done so far.
        """
        self._samples.append(count())
        shown = "  ".join(f"{name} {value:>9,}" for name, value in asdict(self._samples[-1]).items())
        print(f"{time.monotonic() - self._began:7.1f} s  {told}  {shown}", flush=True)

    def verdict(self, faults: Sequence[str]) -> int:
        """Print the growth and all faults; give the exit status."""
        print(f"growth behind the warm-up: {decide_growth(self._samples)}")
        found = [*faults, *decide_faults(self._samples)]
        for fault in found:
            print(f"FAULT: {fault}")
        print("flat" if not found else "not flat")
        return 1 if found else 0


# --- lives

Life: TypeAlias = Callable[[SessionSupervisor, random.Random], Awaitable[None]]


def _calling(name: str, arguments: Any = None) -> FunctionModel:
    def answer(request: Any) -> Any:
        has_called = any(isinstance(message, ToolMessage) for message in request.messages)
        return says("done") if has_called else calls((name, arguments or {}))

    return FunctionModel(answer)


def _talking() -> FunctionModel:
    return FunctionModel(lambda _: says("a word ", "and another"))


async def _ask(session: Session, text: str = "go") -> None:
    with suppress(AgentrailError):
        await session.ask(text)


async def chat(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """Several prompts, with a subscriber that leaves halfway."""
    session = await supervisor.start_session(model=_talking())
    async with session.subscribe(buffer=rng.choice([1, 4, 1_024])) as events:
        for number in range(rng.randint(1, 4)):
            await session.ask(f"number {number}")
        if rng.choice([True, False]):
            await anext(events)
    await session.compact("by hand")
    await session.ask("behind it")
    await session.stop()


async def hostile_tool(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """A tool that raises: in its task, in the loop, in a thread."""
    make = rng.choice(HOSTILE)

    async def in_its_task() -> str:
        """Raise."""
        await trio.lowlevel.checkpoint()
        raise make()

    def plainly() -> str:
        """Raise."""
        raise make()

    bad: Any = rng.choice([tool(in_its_task), tool(plainly), tool(thread=False)(plainly)])
    session = await supervisor.start_session(model=_calling(bad.name), tools=[bad])
    if await session.ask("go") != "done":
        message = "the model did not go on behind a tool that raised"
        raise AssertionError(message)
    await session.stop()


async def hostile_plugin(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """A plugin that raises on one of its hooks."""
    make = rng.choice(HOSTILE)
    hook: Any = rng.choice([p.BeforePrompt, p.BeforeRequest, p.AfterResponse, p.AfterTurn])

    class Bad(p.Plugin[int]):
        """Raises."""

        def init(self) -> int:
            """Begin."""
            return 0

        @p.on(hook)
        def judge(self, event: Any, state: int, ctx: p.Context) -> p.Action[int]:
            """Raise."""
            raise make()

    session = await supervisor.start_session(model=_talking(), plugins=[Bad])
    await _ask(session)
    await session.stop()


async def hostile_provider(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """A provider that raises; the next prompt is answered."""
    make = rng.choice(HOSTILE)
    asked: list[int] = []

    def answer(_request: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise make()
        return says("ok")

    session = await supervisor.start_session(model=FunctionModel(answer))
    await _ask(session)
    await session.ask("again")
    await session.stop()


async def crashing(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """The actor itself crashes, once or until it is parked."""
    session = await supervisor.start_session(model=_talking(), tools=[HangingTool()])
    await session.ask("go")
    for _ in range(rng.choice([1, 1, 1, 4])):
        crash(session)
        await _ask(session)
    with suppress(AgentrailError):  # it may have been parked
        await session.stop()


async def aborted(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """Hanging tools, and a caller that aborts."""
    hang = HangingTool()
    session = await supervisor.start_session(model=_calling(hang.name), tools=[hang])
    await session.prompt("go")
    await hang.started.wait()
    how = rng.randrange(3)
    if how == 0:
        await session.abort()
    elif how == 1:
        await session.steer("this instead")
        await session.collect_reply()
    await session.stop()


async def approved(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """A person decides, or is away."""
    record = RecordingTool(name="shell")
    session = await supervisor.start_session(
        model=_calling("shell", {"command": "rm x"}), tools=[record], plugins=[HumanApproval]
    )
    async with session.subscribe(kinds=[ApprovalRequired]) as events:
        await session.prompt("go")
        event = await anext(events)
    approval = event.approval  # type: ignore[union-attr]  # no other kind was asked for
    how = rng.randrange(3)
    if how == 0:
        await session.approve(approval.id)
        await session.collect_reply()
    elif how == 1:
        await session.reject(approval.id, "no")
    await session.stop()


async def with_children(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """Sub-agents; some of them are stopped at work."""

    def answer(request: Any) -> Any:
        if isinstance(request.messages[-1], ToolMessage):
            return says("done")
        if "child" in str(request.messages[0].content):
            return says("of the child")
        return calls(("task", {"description": "child one"}), ("task", {"description": "child two"}))

    session = await supervisor.start_session(model=FunctionModel(answer), tools=[*builtin("task")])
    if rng.choice([True, False, False]):
        await session.prompt("go")
    else:
        await _ask(session)
    await session.stop()


async def commands(supervisor: SessionSupervisor, rng: random.Random) -> None:
    """A command in the sandbox; some are stopped."""
    command = rng.choice(
        ["true", "echo hello", "sleep 30 & sleep 30", "head -c 300000 /dev/zero | tr '\\0' x"]
    )
    session = await supervisor.start_session(
        model=_calling("shell", {"command": command}), tools=[*builtin("shell")], tool_max_retries=0
    )
    if "sleep" in command:
        await session.prompt("go")
        for _ in range(rng.randrange(200)):
            await trio.lowlevel.checkpoint()
        await session.abort(kill_tools="all")
    else:
        await _ask(session)
    await session.stop()


LIVES: Final[tuple[Life, ...]] = (
    chat,
    hostile_tool,
    hostile_tool,
    hostile_plugin,
    hostile_provider,
    crashing,
    aborted,
    approved,
    with_children,
    commands,
)


# --- rounds


class Soak:
    """One run."""

    def __init__(self, supervisor: SessionSupervisor, rng: random.Random) -> None:
        """Begin with nobody."""
        self._supervisor = supervisor
        self._rng = rng
        self._limiter = trio.CapacityLimiter(SIDE_BY_SIDE)
        self.lived: Counter[str] = Counter()
        self.faults: list[str] = []

    async def play_round(self) -> None:
        """Let so many sessions live, and wait until all of them are gone."""
        async with trio.open_nursery() as nursery:
            for _ in range(LIVES_OF_A_ROUND):
                nursery.start_soon(self._live, self._rng.choice(LIVES), random.Random(self._rng.random()))  # noqa: S311 - no secret
        with trio.move_on_after(LIFE_SECONDS) as limit:
            while self._supervisor.statistics().live > 1 or len((await self._supervisor.tree()).children) > 1:  # noqa: ASYNC110 - nobody tells of the last
                await trio.sleep(0.01)
        if limit.cancelled_caught:
            self.faults.append(f"{self._supervisor.statistics()} behind a round: expected one live session")

    async def _live(self, life: Life, rng: random.Random) -> None:
        async with self._limiter:
            with trio.move_on_after(LIFE_SECONDS) as limit:
                try:
                    await life(self._supervisor, rng)
                except Exception as error:
                    self.faults.append(f"{life.__name__}: {type(error).__name__}: {error}")
                    raise
            if limit.cancelled_caught:
                self.faults.append(f"{life.__name__} hung for {LIFE_SECONDS:g} s")
            self.lived[life.__name__] += 1


async def soak(seconds: float, seed: int) -> int:
    """Play rounds for so long; print each figure; give the exit status."""
    print(f"seed {seed}, {seconds:g} s, {LIVES_OF_A_ROUND} sessions a round, {SIDE_BY_SIDE} side by side")
    samples = Samples(seconds)
    with tempfile.TemporaryDirectory() as folder:

        def make_sandbox(_name: str, _root: Path) -> LocalSandbox:
            return LocalSandbox(folder, shell_fallback="unconfined", allow_root=True)

        async with open_nameless(make_sandbox) as supervisor:
            witness = await supervisor.start_session(model=_talking(), session_id="witness")
            run = Soak(supervisor, random.Random(seed))  # noqa: S311 - no secret
            while not run.faults and samples.wants_more:
                await run.play_round()
                if len(await witness.ask("still there?")) == 0 or supervisor.statistics().live != 1:
                    run.faults.append("the witness does not answer, or others live on")
                # A new one: what it remembers would grow with the rounds, as it should.
                await supervisor.stop_session(witness.session_id)
                witness = await supervisor.start_session(model=_talking(), session_id="witness")
                samples.take(f"{run.lived.total():>7,} sessions")
            counted = supervisor.statistics()
    print(f"lives: {dict(sorted(run.lived.items()))}")
    print(f"restarts {counted.restarts:,}, parked {counted.parked:,}, left behind {counted.left_behind}")
    return samples.verdict(run.faults)


def parser_of(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Make what reads the command line of a soak."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=doc)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=20261120)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and run."""
    given = parser_of("soak", __doc__).parse_args(arguments)
    logging.disable(logging.CRITICAL)  # thousands of crashes on purpose, each with its traceback
    with mock.patch.multiple(ended_sessions, **KEPT):
        return trio.run(soak, given.seconds, given.seed)


if __name__ == "__main__":
    sys.exit(main())
