"""The workloads of `abort`: how soon the session says so, how soon all is gone, and that nothing is left behind."""

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import trio
import trio.testing

import agentrail
from agentrail.messages import AssistantMessage, ToolMessage
from agentrail.sandboxes.local import LocalSandbox
from agentrail.tools.shell import shell
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Rounds, Row, Sample, Target, Watch, interleave, percentile, repeat
from benchmarks.ours import StubModel, expect, start_watch
from benchmarks.sse_server import serve_streams
from benchmarks.streams import explain_with_server, model_at, url_at

_SESSIONS: Final = 100
_STUBBORN: Final = 10  # of each kind
_ENDLESS: Final = 100_000
_GAP_US: Final = 20_000
_SETTLE_SECONDS: Final = 0.5
_BETWEEN_SECONDS: Final = 0.002  # so that the streams go on between two aborts
_PATIENCE_SECONDS: Final = 30.0  # for the process trees to stand
_TREE: Final = {"command": "sleep 1000 & sleep 1000", "timeout_seconds": 600}
_PROMPT: Final = "hang"


def abort_tools(effort: Effort) -> list[Row]:
    """Abort one session among a hundred whose async tools hang."""
    count = effort.of(_SESSIONS)
    rounds = interleave(
        partial(trio.run, _bare_hung, count), partial(trio.run, _our_hung, count), effort.rounds
    )
    return _rows(
        rounds,
        "abort-tools",
        f"abort among {count} hung async tools",
        said=Target(of="ours", must=1.0, aim=0.3),
        gone=(target_of("abort tools"), None),
    )


def abort_streams(effort: Effort) -> list[Row]:
    """Abort one session among a hundred that stream fifty deltas a second each."""
    count = effort.of(_SESSIONS)
    with serve_streams() as address:
        rounds = interleave(
            partial(trio.run, _bare_streaming, address, count),
            partial(trio.run, _our_streaming, address, count),
            effort.rounds,
            explain=partial(explain_with_server, _our_streaming, count),
        )
    said = Target(of="ratio", must=2.0, aim=1.2)
    gone = (None, target_of("abort streams"))
    return _rows(rounds, "abort-streams", f"abort among {count} streams", said=said, gone=gone)


def abort_stubborn(effort: Effort) -> list[Row]:
    """Abort sessions whose tools do not want to: hung threads, shielded sleepers, process trees."""
    count = effort.of(_STUBBORN)
    rounds = repeat(partial(trio.run, _our_stubborn, count), effort.rounds)
    title = f"abort of hung threads, shielded sleepers, process trees ({count} each)"
    told = "the receipt of a process tree, p99"
    return [
        rounds.row(
            "abort-stubborn",
            "said_p99",
            f"{title}, p99",
            unit="ms",
            factor=1e3,
            target=Target(of="ours", must=20.0, aim=5.0),
        ),
        rounds.row("abort-stubborn", "gone_p99", told, unit="ms", factor=1e3),
    ]


def _rows(
    rounds: Rounds,
    workload: str,
    title: str,
    *,
    said: Target | None,
    gone: tuple[Target | None, Target | None],
) -> list[Row]:
    half, most = gone
    row = partial(rounds.row, workload, unit="ms", factor=1e3)
    return [
        row("said_p50", f"{title}: AgentAbort, p50"),
        row("said_p99", f"{title}: AgentAbort, p99", target=said),
        row("gone_p50", f"{title}: the receipt, p50", target=half),
        row("gone_p99", f"{title}: the receipt, p99", target=most),
    ]


def _sample(said: list[float], gone: list[float]) -> Sample:
    return {
        "said_p50": percentile(said, 50),
        "said_p99": percentile(said, 99),
        "gone_p50": percentile(gone, 50),
        "gone_p99": percentile(gone, 99),
    }


# --- hung async tools


async def _bare_hung(count: int) -> Sample:
    model = bare.StubModel(tool="hang")
    took: list[float] = []
    async with trio.open_nursery() as nursery:
        sessions = [bare.BareSession(model, bare.TOOLS) for _ in range(count)]
        watches = [bare.start_watch(nursery, session, "aborted") for session in sessions]
        for session in sessions:
            nursery.start_soon(session.run)
            nursery.start_soon(session.prompt, _PROMPT)
        await trio.testing.wait_all_tasks_blocked()
        for session, watch in zip(sessions, watches, strict=True):
            await trio.sleep(_BETWEEN_SECONDS)
            began_at = perf_counter()
            session.cycle.cancel()
            await watch.wait_come()
            took.append(watch.come_at - began_at)
            expect("the last message", session.history[-1]["content"], bare.ABORTED)
        nursery.cancel_scope.cancel()
    # The bare loop waits for its tools before it says anything, so both figures are one.
    return _sample(took, took)


async def _our_hung(count: int) -> Sample:
    @agentrail.tool
    async def hang(a: int, b: int) -> int:  # noqa: ARG001 - the schema is that of `add`
        """Never return."""
        await trio.sleep_forever()

    async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as nursery:
        model = StubModel(tool="hang")
        sessions = [await supervisor.start_session(model=model, tools=[hang]) for _ in range(count)]
        watches = [await start_watch(nursery, session, agentrail.AgentAbort) for session in sessions]
        for session in sessions:
            await session.prompt(_PROMPT)
        await trio.testing.wait_all_tasks_blocked()
        sample = await _abort_all(list(zip(sessions, watches, strict=True)), tasks=1)
        nursery.cancel_scope.cancel()
    return sample


# --- streams


async def _bare_streaming(address: str, count: int) -> Sample:
    url = url_at(address, _ENDLESS, _GAP_US)
    took: list[float] = []
    scopes = [trio.CancelScope() for _ in range(count)]
    ended = [trio.Event() for _ in range(count)]
    streaming = [trio.Event() for _ in range(count)]

    async def read(position: int) -> None:
        with scopes[position]:
            await bare.read_stream(client, url, streaming[position].set)
        ended[position].set()

    async with bare.open_client() as client, trio.open_nursery() as nursery:
        for position in range(count):
            nursery.start_soon(read, position)
        for stream in streaming:
            await stream.wait()
        await trio.sleep(_SETTLE_SECONDS)
        for scope, end in zip(scopes, ended, strict=True):
            await trio.sleep(_BETWEEN_SECONDS)
            began_at = perf_counter()
            scope.cancel()
            await end.wait()
            took.append(perf_counter() - began_at)
    return _sample(took, took)


async def _our_streaming(address: str, count: int) -> Sample:
    options = model_at(address, _ENDLESS, _GAP_US)
    async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as nursery:
        sessions = [await supervisor.start_session(**options) for _ in range(count)]
        watches = [await start_watch(nursery, session, agentrail.AgentAbort) for session in sessions]
        async with trio.open_nursery() as first:  # over when each of them streams
            for session in sessions:
                await first.start(_wait_streaming, session)
                await session.prompt(_PROMPT)
        await trio.sleep(_SETTLE_SECONDS)
        phases = {(await session.status()).phase for session in sessions}
        expect("what the sessions do", phases, {"streaming"})
        sample = await _abort_all(list(zip(sessions, watches, strict=True)), tasks=1)
        nursery.cancel_scope.cancel()
    return sample


async def _wait_streaming(session: agentrail.Session, *, task_status: trio.TaskStatus[None]) -> None:
    async with session.subscribe(kinds=[agentrail.MessageDelta]) as events:
        task_status.started()
        await anext(events)


async def _abort_all(followed: list[tuple[agentrail.Session, Watch]], *, tasks: int) -> Sample:
    """Abort one after the other, while the others go on; hold each receipt and history to what they say."""
    said: list[float] = []
    gone: list[float] = []
    for session, watch in followed:
        await trio.sleep(_BETWEEN_SECONDS)
        began_at = perf_counter()
        receipt = await session.abort()
        gone.append(perf_counter() - began_at)
        await watch.wait_come()
        said.append(watch.come_at - began_at)
        expect("the receipt", (receipt.settled, receipt.tasks_ended, receipt.stuck), (True, tasks, ()))
        await _expect_valid_history(session)
    return _sample(said, gone)


async def _expect_valid_history(session: agentrail.Session) -> None:
    calls, answers = [], []
    for message in await session.messages():
        if isinstance(message, AssistantMessage):
            calls += [call.call_id for call in message.calls]
        elif isinstance(message, ToolMessage):
            answers += [result.call_id for result in message.results]
    expect("the answered calls", answers, calls)


# --- what does not want to stop


async def _our_stubborn(count: int) -> Sample:
    async with _stubborn_sessions(count) as (stubborn, trees):
        said: list[float] = []
        gone: list[float] = []
        for session, watch in stubborn:
            began_at = perf_counter()
            await session.abort(wait=False)
            await watch.wait_come()
            said.append(watch.come_at - began_at)
        for session, watch in trees:
            began_at = perf_counter()
            receipt = await session.abort()
            gone.append(perf_counter() - began_at)
            await watch.wait_come()
            said.append(watch.come_at - began_at)
            expect("the receipt", (receipt.settled, receipt.tasks_ended, receipt.stuck), (True, 1, ()))
            await _expect_valid_history(session)
        expect("the sleepers left", _sleeping(), 0)
    return _sample(said, gone)


@asynccontextmanager
async def _stubborn_sessions(
    count: int,
) -> AsyncIterator[tuple[list[tuple[agentrail.Session, Watch]], list[tuple[agentrail.Session, Watch]]]]:
    """Start sessions whose tools hang: those that cannot be stopped at once, and those with process trees."""
    thread_may_end, sleeper_may_end = threading.Event(), trio.Event()

    @agentrail.tool
    def hang_thread(a: int, b: int) -> int:
        """Hold a worker thread."""
        thread_may_end.wait()
        return a + b

    @agentrail.tool
    async def hang_shielded(a: int, b: int) -> int:
        """Refuse to be cancelled."""
        with trio.CancelScope(shield=True):
            await sleeper_may_end.wait()
        return a + b

    tools = [hang_thread, hang_shielded, shell]
    with TemporaryDirectory() as root:
        # Confined where it can be; a machine without bubblewrap would run no command at all, and there would be no trees.
        sandbox = LocalSandbox(root, shell_fallback="unconfined")
        async with agentrail.open_supervisor(environ={}) as supervisor, trio.open_nursery() as nursery:

            async def start(model: StubModel) -> list[tuple[agentrail.Session, Watch]]:
                started = []
                for _ in range(count):
                    session = await supervisor.start_session(model=model, tools=tools, sandbox=sandbox)
                    started.append((session, await start_watch(nursery, session, agentrail.AgentAbort)))
                    await session.prompt(_PROMPT)
                return started

            try:
                stubborn = [
                    *await start(StubModel(tool="hang_thread")),
                    *await start(StubModel(tool="hang_shielded")),
                ]
                trees = await start(StubModel(tool="shell", arguments=json.dumps(_TREE)))
                with trio.move_on_after(_PATIENCE_SECONDS):
                    while _sleeping() < 2 * count:  # noqa: ASYNC110 - a process has no event that one could wait for
                        await trio.sleep(0.01)
                expect("the sleepers of the process trees", _sleeping(), 2 * count)
                yield stubborn, trees
            finally:
                thread_may_end.set()
                sleeper_may_end.set()
            nursery.cancel_scope.cancel()


def _sleeping() -> int:
    """Count the processes that our shells have started and that still sleep."""
    sleeping = 0
    for process in psutil.Process().children(recursive=True):
        try:
            sleeping += process.name() == "sleep" and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            continue
    return sleeping
