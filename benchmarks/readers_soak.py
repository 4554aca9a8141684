"""`make soak-readers`: sessions with a store write, readers in many threads read their journals, and nothing dies or grows.

Sessions talk, call a tool and a sub-agent, rest and wake. Meanwhile readers fold journals, page events, export sessions and decode what they
get, each in a worker thread, with a switch of threads at each chance. Between two rounds the readers pause, and memory, descriptors, tasks,
threads and objects are counted. After the warm-up they have to be flat; else the exit status is 1. A process that dies of a signal has its
own status.

    python -m benchmarks.readers_soak --seconds 600 --sessions 200 --seed 1
"""

import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, Final, TypeAlias
from unittest import mock

import trio

from agentrail import decode_event, encode_event, open_supervisor
from agentrail.core.journal.exports import read_export
from agentrail.errors import AgentrailError
from agentrail.messages import ToolMessage
from agentrail.runtime import ended_sessions
from agentrail.runtime.persistence import MAX_FOLDS
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from benchmarks.soak import KEPT, Samples, parser_of

READERS: Final = 24
ASKS_OF_A_ROUND: Final = 40
ASKS_OF_A_LIFE: Final = 4
"""Then a session is deleted and begun again, so that journals have a steady length."""
SWITCH_SECONDS: Final = 1e-5

Read: TypeAlias = Callable[[SessionSupervisor, str], Awaitable[object]]


def _model() -> FunctionModel:
    def answer(request: Any) -> Any:
        if isinstance(request.messages[-1], ToolMessage) or "child" in str(request.messages[0].content):
            return says("done ", "it")
        return calls(("look", {"n": 1}), ("task", {"description": "child"}))

    return FunctionModel(answer)


def _code() -> dict[str, Any]:
    return {"model": _model(), "tools": [RecordingTool(name="look"), *builtin("task")]}


# --- readers


async def _page(supervisor: SessionSupervisor, session_id: str) -> None:
    page = await supervisor.events_page(session_id)
    await trio.to_thread.run_sync(lambda: [decode_event(encode_event(event)) for event in page.events])


async def _export(supervisor: SessionSupervisor, session_id: str) -> None:
    text = await supervisor.export_session(session_id)
    await trio.to_thread.run_sync(read_export, text)


READS: Final[tuple[Read, ...]] = (
    lambda supervisor, session_id: supervisor.stored_state(session_id),
    lambda supervisor, session_id: supervisor.stored_journal(session_id),
    _page,
    _export,
)


class ReadersSoak:
    """One run."""

    def __init__(
        self, supervisor: SessionSupervisor, store: SqliteStore, sessions: int, rng: random.Random
    ) -> None:
        """Begin with nothing written."""
        self._supervisor = supervisor
        self._store = store
        self._rng = rng
        self._asked = dict.fromkeys((f"s{number}" for number in range(sessions)), 0)
        self._reading = trio.CapacityLimiter(READERS)
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []

    async def begin(self) -> None:
        """Start all sessions, and play until their journals have the length that they keep.

        As many readers as there are threads read at once: SQLite keeps the descriptor of a connection that is closed for the next one, as
        long as another has a lock, so there are as many as readers were ever at work side by side.
        """
        for session_id in self._asked:
            await self._supervisor.start_session(session_id=session_id, **_code())
        threads = trio.to_thread.current_default_thread_limiter().total_tokens
        with ExitStack() as all_at_once:
            for _ in range(int(threads) + MAX_FOLDS + 1):
                all_at_once.enter_context(self._store._readers.borrowed())  # noqa: SLF001 - no reader holds one for long
        while self.done["asked"] < len(self._asked) * ASKS_OF_A_LIFE // 2 and not self.faults:
            await self.play_round()

    async def play_round(self) -> None:
        """Let some sessions talk while others read, until all that was said is answered; then the readers pause."""
        async with trio.open_nursery() as nursery:
            for _ in range(READERS):
                nursery.start_soon(self._read, random.Random(self._rng.random()))  # noqa: S311 - no secret
            async with trio.open_nursery() as talking:
                for session_id in self._rng.sample(
                    sorted(self._asked), min(ASKS_OF_A_ROUND, len(self._asked))
                ):
                    talking.start_soon(self._talk, session_id)
            nursery.cancel_scope.cancel(reason="the round is over")

    async def _talk(self, session_id: str) -> None:
        if self._asked[session_id] >= ASKS_OF_A_LIFE:
            await self._supervisor.stop_session(session_id)
            await self._supervisor.delete_session(session_id)
            await self._supervisor.start_session(session_id=session_id, **_code())
            self._asked[session_id] = 0
        session = self._supervisor.session(session_id)
        if await session.ask("root") != "done it":
            self.faults.append(f"{session_id} said something else")
        self._asked[session_id] += 1
        self.done["asked"] += 1

    async def _read(self, rng: random.Random) -> None:
        while True:
            session_id, number = rng.choice(list(self._asked)), rng.randrange(len(READS))
            try:
                await READS[number](self._supervisor, session_id)
            except AgentrailError:  # it was deleted meanwhile
                self.done["gone"] += 1
            self.done["read"] += 1
            await trio.lowlevel.checkpoint()


async def soak(seconds: float, sessions: int, seed: int) -> int:
    """Play rounds for so long, print each figure, and return the exit status."""
    print(f"seed {seed}, {seconds:g} s, {sessions} sessions, {READERS} readers", flush=True)
    with tempfile.TemporaryDirectory() as folder, closing(SqliteStore(f"{folder}/soak.db")) as store:
        async with open_supervisor(environ={}, store=store) as supervisor:
            run = ReadersSoak(supervisor, store, sessions, random.Random(seed))  # noqa: S311 - no secret
            await run.begin()
            samples = Samples(seconds)
            while not run.faults and samples.wants_more:
                await run.play_round()
                samples.take(f"{run.done['asked']:>6,} asked {run.done['read']:>7,} read")
    print(dict(sorted(run.done.items())))
    return samples.verdict(run.faults)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and run."""
    parser = parser_of("readers_soak", __doc__)
    parser.add_argument("--sessions", type=int, default=200)
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    sys.setswitchinterval(SWITCH_SECONDS)
    with mock.patch.multiple(ended_sessions, **KEPT):
        return trio.run(partial(soak, given.seconds, given.sessions, given.seed))


if __name__ == "__main__":
    sys.exit(main())
