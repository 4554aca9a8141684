"""The workload of `PostgresStore`: durable appends beside a bare loop of `INSERT … unnest`, the CPU of a cycle beside one in memory, and connections.

The server is one of our own, as durable as by default. Its CPU is in no figure.
"""

import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import psycopg

from agentrail.abc.store import Store
from agentrail.stores.memory import MemoryStore
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_connections import Connector
from agentrail.stores.postgres_private import POSTGRES_START_SECONDS, PrivatePostgres
from agentrail.stores.postgres_schema import migrate
from agentrail.stores.postgres_writes import put_records
from benchmarks.bars import target_of
from benchmarks.explain import Explanation, slowest_functions
from benchmarks.kept import crowd
from benchmarks.measure import Effort, Explain, Row, Sample, interleave
from benchmarks.ours import expect
from benchmarks.stores import Batch, append_to, batches_of, timed

_SESSIONS: Final = 64
_BATCHES: Final = 100
_BURST: Final = 6
_CROWD: Final = 50
_CYCLES: Final = 10


@contextmanager
def new_databases() -> Iterator[Callable[[], str]]:
    """A server for a block: each call creates a database with our tables, and returns its URL."""
    nobody = pwd.getpwnam("nobody")
    run_as = (nobody.pw_uid, nobody.pw_gid) if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="agentrail-bench-"))
    server, numbers = PrivatePostgres(folder, os.environ, run_as=run_as), count(1)

    def create() -> str:
        name = f"bench_{next(numbers)}"
        with psycopg.connect(server.url_of(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        url = server.port_url_of(name)
        migrate(url)
        return url

    try:
        server.prepare()
        server.start()
        deadline = time.monotonic() + POSTGRES_START_SECONDS
        while not server.is_ready():
            expect("the start is in time", time.monotonic() < deadline, True)  # noqa: FBT003
            time.sleep(0.05)
        yield create
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def explained(side: Callable[[Callable[[], str]], Sample]) -> Explain:
    """What explains a miss of a side that creates databases: its own server, since that of the runs has stopped."""

    def explain() -> Explanation:
        with new_databases() as create:
            return slowest_functions(partial(side, create))

    return explain


def postgres(effort: Effort) -> list[Row]:
    """Appends of 64 sessions, and cycles of 50."""
    batches = batches_of(_SESSIONS, max(3, round(_BATCHES * effort.scale)), _BURST)
    factor = 1e6 / ((len(batches) - 1) * _SESSIONS * _BURST)
    sessions, cycles = effort.of(_CROWD), max(2, round(_CYCLES * effort.scale))
    ours, cycle = partial(_our_appends, batches), partial(_cycles, sessions, cycles)
    with new_databases() as create:
        written = interleave(partial(_bare_appends, batches, create), partial(ours, create), effort.rounds)
        lived = interleave(
            partial(crowd, MemoryStore, sessions, cycles),
            partial(cycle, create),
            effort.rounds,
        )
    why_appends, why_cycles = explained(ours), explained(cycle)
    what = f"{_BURST} records from each of {_SESSIONS} sessions on PostgreSQL; bare: INSERT … unnest"
    title = f"a cycle on PostgreSQL, {sessions} sessions at once; bare: with MemoryStore"
    return [
        written.row("postgres", "wall", f"{what}: time of one", unit="µs", factor=factor, target=target_of("appends over PostgreSQL"), explain=why_appends),
        written.row("postgres", "cpu", f"{what}: CPU of one", unit="µs", factor=factor),
        lived.row("postgres", "cpu", f"{title}: CPU", unit="µs", factor=1e6, target=target_of("CPU of cycles on PostgreSQL"), explain=why_cycles),
        lived.row("postgres", "wall", f"{title}: time", unit="µs", factor=1e6),
        lived.row("postgres", "connections", "connections of that node", unit="connections", target=target_of("connections of a node"), explain=why_cycles),
    ]  # fmt: skip


def _our_appends(batches: Sequence[Batch], create: Callable[[], str]) -> Sample:
    with closing(PostgresStore(create())) as store:
        return append_to(store, batches)


def _bare_appends(batches: Sequence[Batch], create: Callable[[], str]) -> Sample:
    with closing(Connector(create(), psycopg.connect).open()) as connection:

        def write(batch: Batch) -> None:
            put_records(connection, [record for one in batch for record in one.records])

        write(batches[0])
        sample = timed(write, batches[1:])
        found = connection.execute("SELECT count(*) FROM agentrail.record").fetchone()
        expect("the number of records", found, (sum(len(one.records) for batch in batches for one in batch),))
    return sample


def _cycles(sessions: int, cycles: int, create: Callable[[], str]) -> Sample:
    url = create()
    with closing(PostgresStore(url)) as opened:
        store: Store = opened
        sample = crowd(lambda: store, sessions, cycles)
        with psycopg.connect(url) as connection:
            found = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agentrail' AND datname = current_database()"
            ).fetchone()
    return {**sample, "connections": 0 if found is None else found[0]}
