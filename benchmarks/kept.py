"""The workloads of sessions that are kept: durable cycles of a hundred, and of one alone, each beside the same with `MemoryStore`.

What a store in memory costs is in both sides, so what is told here is the disk: records encoded into rows, commits, the hand-over to
the thread that writes, and effects that wait. What a journal weighs and how long it takes to come back is in `returns.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

import apsw
import msgspec
import trio

import agentrail
from agentrail.abc.store import Append, Store
from agentrail.core.journal.record import Record
from agentrail.errors import Fenced, JournalBehind
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import MAX_LOG_BYTES, SqliteStore
from agentrail.stores.sqlite_rows import RECORD_COLUMNS
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import StubModel, add, expect

PROMPT: Final = "please add 2 and 3"
RECORDS: Final = 6
"""Of one cycle: a prompt, a stream and its response, a tool, a response, what ends it."""

_SESSIONS: Final = 100
_CYCLES: Final = 10
_ALONE: Final = 300
_COMMITS: Final = (1, 2, 2, 1)
"""How the six records of a cycle go into four commits."""
_MICROSECONDS: Final = 1e6
_MILLISECONDS: Final = 1e3

PUT_BARE: Final = f"INSERT INTO record ({RECORD_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - a constant
BARE_TABLE: Final = """CREATE TABLE record (scope TEXT, session TEXT, seq INTEGER, epoch INTEGER, at_ms INTEGER, kind TEXT,
body BLOB, does TEXT, events INTEGER, hash BLOB, PRIMARY KEY (scope, session, seq)) WITHOUT ROWID"""


class CountingStore(SqliteStore):
    """Counts the commits of records. A snapshot, each of which stands for hundreds of them, is none."""

    commits: int = 0

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | JournalBehind | None, ...]:
        """Write a batch, which is one commit."""
        self.commits += 1
        return super().append(batch)


def kept(effort: Effort) -> list[Row]:
    """Cycles of a hundred sessions at once, on SQLite; bare: with `MemoryStore`."""
    sessions = max(4, round(_SESSIONS * effort.scale))
    cycles = max(2, round(_CYCLES * effort.scale))
    rounds = interleave(
        partial(crowd, MemoryStore, sessions, cycles),
        partial(_on_disk, partial(crowd, sessions=sessions, cycles=cycles)),
        effort.rounds,
    )
    title = f"a cycle on SQLite, {sessions} sessions at once; bare: with MemoryStore"
    return [
        rounds.row(
            "kept",
            "wall",
            f"{title}: time",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("kept cycles"),
        ),
        rounds.row(
            "kept",
            "cpu",
            f"{title}: CPU",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("CPU of kept cycles"),
        ),
        rounds.row("kept", "commits", "commits for such a cycle", unit="commits"),
    ]


def lone(effort: Effort) -> list[Row]:
    """Cycles of one session alone; bare: the same with `MemoryStore`, and four commits by a bare writer thread."""
    cycles = effort.of(_ALONE)
    rounds = interleave(
        partial(_lone_bare, cycles),
        partial(_on_disk, partial(crowd, sessions=1, cycles=cycles)),
        effort.rounds,
    )
    title = "a cycle on SQLite, one session alone; bare: in memory, and four bare commits"
    return [
        rounds.row(
            "lone",
            "cpu",
            f"{title}: CPU",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("CPU of a lone cycle"),
        ),
        rounds.row(
            "lone", "wall", f"{title}: time", unit="ms", factor=_MILLISECONDS, target=target_of("lone cycle")
        ),
        rounds.row(
            "lone",
            "commits",
            "commits for such a cycle",
            unit="commits",
            target=target_of("commits of a lone cycle"),
        ),
    ]


# --- both sides


def crowd(make_store: Callable[[], Store], sessions: int, cycles: int) -> Sample:
    """Cycles of so many sessions at once: wall and CPU seconds of each."""
    return trio.run(_cycles_in, make_store(), sessions, cycles)


async def _cycles_in(store: Store, sessions: int, cycles: int) -> Sample:
    """Let so many sessions make so many cycles each, at once; starting them is not timed."""
    model = StubModel()

    async def live(session: agentrail.Session) -> None:
        for _ in range(cycles):
            expect("the answer", await session.ask(PROMPT), bare.ANSWER)

    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())  # a node of a shared store keeps its lock there
        opened = agentrail.open_supervisor(environ={}, store=store, data_dir=folder)
        supervisor = await stack.enter_async_context(opened)
        started = [
            await supervisor.start_session(model=model, tools=[add], session_id=f"s-{number}")
            for number in range(sessions)
        ]
        commits = getattr(store, "commits", 0)
        began_at, cpu_at = perf_counter(), process_time()
        async with trio.open_nursery() as nursery:
            for session in started:
                nursery.start_soon(live, session)
        wall, cpu = perf_counter() - began_at, process_time() - cpu_at
        commits = getattr(store, "commits", 0) - commits
    made = sessions * cycles
    for number in range(sessions):
        found = store.get("", f"s-{number}")  # type: ignore[arg-type]
        expect("the last number is enough", found is not None and found.tail.seq > RECORDS * cycles, True)  # noqa: FBT003
    sample = {"wall": wall / made, "cpu": cpu / made}
    return {**sample, "commits": commits / made} if commits else sample


def _on_disk(take: Callable[[Callable[[], Store]], Sample]) -> Sample:
    with TemporaryDirectory() as folder, closing(CountingStore(Path(folder) / "sessions.db")) as store:
        return take(lambda: store)


# --- what one would write instead


def _lone_bare(cycles: int) -> Sample:
    """Take the cycles in memory, then write their records in four commits each."""
    store = MemoryStore()
    taken = crowd(lambda: store, 1, cycles)
    records = store.read("", agentrail.SessionId("s-0"), limit=RECORDS * cycles + 100)[-RECORDS * cycles :]
    with bare_file() as connection:
        began_at, cpu_at = perf_counter(), process_time()
        trio.run(_commit_all, connection, records)
        wall, cpu = perf_counter() - began_at, process_time() - cpu_at
    return {"wall": taken["wall"] + wall / cycles, "cpu": taken["cpu"] + cpu / cycles}


@contextmanager
def bare_file() -> Iterator[apsw.Connection]:
    """Open a file with one table, which is written as durably as ours."""
    with TemporaryDirectory() as folder, closing(apsw.Connection(f"{folder}/bare.db")) as connection:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.wal_autocheckpoint(MAX_LOG_BYTES // 4096)  # as ours sweeps
        connection.execute(BARE_TABLE)
        yield connection


async def _commit_all(connection: apsw.Connection, records: Sequence[Record]) -> None:
    def commit(batch: list[Record]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(PUT_BARE, map(msgspec.structs.astuple, batch))
        connection.execute("COMMIT")

    left = iter(records)
    while batch := list(islice(left, _COMMITS[0])):
        await trio.to_thread.run_sync(commit, batch)
        for size in _COMMITS[1:]:
            await trio.to_thread.run_sync(commit, list(islice(left, size)))
