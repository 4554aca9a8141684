"""The workloads of several nodes over PostgreSQL: sessions of a killed process are served again, and a session moves while its model speaks.

The killed node is a process of its own. No bare loop does this, so the figures stand alone.
"""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import trio

import agentrail
from agentrail.abc.store import Node
from agentrail.events import MessageDelta
from agentrail.messages import SessionId
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.postgres import PostgresStore
from agentrail.testing.models import FunctionModel, calls, says
from benchmarks.bars import target_of
from benchmarks.idle import ROOT
from benchmarks.measure import Effort, Row, Sample, repeat
from benchmarks.ours import expect
from benchmarks.postgres import explained, new_databases

LEASE_SECONDS: Final = 3.0
_SESSIONS: Final = 20
_MANY: Final = 1_000
_TURNS: Final = 100
_PAUSE_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 120


@agentrail.tool(effect_class="idempotent")
async def hang() -> str:
    """Never end."""
    await trio.sleep_forever()


def hanging(_opening: object = None) -> Mapping[str, Any]:
    """Options of a session that works until it is stopped."""
    return {"model": FunctionModel(lambda _: calls(("hang", {}))), "tools": [hang]}


def takeovers(effort: Effort) -> list[Row]:
    """The time until all sessions of a killed node are served again."""
    rounds, few, many = min(effort.rounds, 3), effort.of(_SESSIONS), effort.of(_MANY)
    after_report = partial(_take_over_once, few, is_reported=True)
    after_lease, crowd = partial(_take_over_once, few), partial(_take_over_once, many)
    with new_databases() as create:
        told = repeat(partial(after_report, create), rounds, warm_up=False)
        silent = repeat(partial(after_lease, create), rounds, warm_up=False)
        crowded = repeat(partial(crowd, create), 1, warm_up=False)
    return [
        told.row("takeovers", "seconds", f"{few} working sessions of a process that was reported gone: all served again after the report", unit="s", target=target_of("takeover after the report"), explain=explained(after_report)),
        silent.row("takeovers", "seconds", f"{few} working sessions of a killed process, beyond the lease: all served again", unit="s", target=target_of("takeover beyond the lease"), explain=explained(after_lease)),
        crowded.row("takeovers", "seconds", f"{many:,} working sessions of a killed process, beyond the lease: all served again by two nodes", unit="s", target=target_of("takeover of 1,000"), explain=explained(crowd)),
    ]  # fmt: skip


@asynccontextmanager
async def _open_node(url: str, revive: Callable[[Any], Any]) -> AsyncIterator[SessionSupervisor]:
    store = PostgresStore(url, lease_ms=round(LEASE_SECONDS * 1000))
    with closing(store), TemporaryDirectory() as folder:
        async with agentrail.open_supervisor(
            environ={}, store=store, data_dir=folder, lease=LEASE_SECONDS, resume="working", revive=revive
        ) as supervisor:
            yield supervisor


def _take_over_once(sessions: int, create: Callable[[], str], *, is_reported: bool = False) -> Sample:
    return trio.run(_take_over, create(), sessions, is_reported)


async def _take_over(url: str, sessions: int, is_reported: bool) -> Sample:  # noqa: FBT001 - by `trio.run`
    command = [sys.executable, "-m", "benchmarks.nodes", url, f"{sessions}"]
    async with AsyncExitStack() as stack:
        worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603, ASYNC220 - ourselves
        stack.callback(worker.wait)
        stack.callback(worker.kill)
        assert worker.stdout is not None  # noqa: S101 - a pipe
        dead = (await trio.to_thread.run_sync(worker.stdout.readline)).strip()
        nodes = [await stack.enter_async_context(_open_node(url, hanging)) for _ in range(2)]
        await trio.sleep(LEASE_SECONDS * 1.5)  # they have watched it for a whole lease
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        began_at = perf_counter() + (0 if is_reported else LEASE_SECONDS)
        if is_reported:
            with closing(PostgresStore(url)) as store:
                expect("the node is known", await trio.to_thread.run_sync(store.gone, dead), True)  # noqa: FBT003
        with trio.fail_after(_PATIENCE_SECONDS):
            while sum(len(one.sessions()) for one in nodes) < sessions:  # noqa: ASYNC110 - sampled
                await trio.sleep(0.01)
        return {"seconds": max(perf_counter() - began_at, 0.001)}


class _OtherNodes:
    """Calls between the nodes of this process."""

    def __init__(self, nodes: Mapping[str, SessionSupervisor]) -> None:
        self._nodes = nodes

    async def check_revive(self, node: Node, scope: str, session_id: SessionId) -> None:
        await self._nodes[node.id].check_revive(scope, session_id)

    async def take(self, node: Node, scope: str, session_id: SessionId) -> None:
        await self._nodes[node.id].take_moved(scope, session_id)

    async def stop(self, node: Node, scope: str, session_id: SessionId) -> None:
        await self._nodes[node.id].stop_session(session_id, scope=scope)


def moves(effort: Effort) -> list[Row]:
    """The silence for the reader of a session of 200 messages that moves while its model speaks."""
    turns = effort.of(_TURNS)
    with new_databases() as create:
        taken = repeat(partial(_move_once, turns, create), min(effort.rounds, 3))
    what = f"a move while the model speaks, {2 * turns} messages: from the last word here to the first word there"
    why = explained(partial(_move_once, turns))
    return [taken.row("moves", "seconds", what, unit="s", target=target_of("silence of a move"), explain=why)]


def _talking(_opening: object = None) -> Mapping[str, Any]:
    def answer(request: Any) -> Any:
        if "at length" in f"{request.messages[-1]}":
            return says(*["word "] * 3_000, pause_seconds=_PAUSE_SECONDS)
        return says("Yes.")

    return {"model": FunctionModel(answer)}


def _move_once(turns: int, create: Callable[[], str]) -> Sample:
    return trio.run(_move, create(), turns)


async def _move(url: str, turns: int) -> Sample:
    async with _open_node(url, _talking) as one, _open_node(url, _talking) as two:
        nodes = {one.shared_node: one, two.shared_node: two}
        for node in nodes.values():
            node.call_nodes(_OtherNodes(nodes))
        session = await one.start_session(session_id="s", **_talking())
        for _ in range(turns):
            await session.ask("Yes?")
        words: list[float] = []
        has_begun = trio.Event()

        async def read() -> None:
            async with session.subscribe() as events:
                async for event in events:
                    if isinstance(event, MessageDelta):
                        words.append(perf_counter())
                        has_begun.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await session.prompt("Speak at length.")
            await has_begun.wait()
            await one.move_session("s", two.shared_node)
        moved = two.session("s")
        async with moved.subscribe() as events:
            async for event in events:
                if isinstance(event, MessageDelta):
                    break
        silence = perf_counter() - words[-1]
        await moved.abort("it was measured")
        return {"seconds": silence}


async def _work(url: str, sessions: int) -> None:
    """The node that is killed: its sessions work until then."""
    async with _open_node(url, hanging) as supervisor:
        for number in range(sessions):
            session = await supervisor.start_session(session_id=f"s-{number}", **hanging())
            await session.prompt("Work.")
        await trio.sleep(0.5)  # their tools run
        print(supervisor.shared_node, flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(_work, sys.argv[1], int(sys.argv[2]))
