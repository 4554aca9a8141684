"""The workload of stores: durable appends of many sessions, beside a bare loop that writes the same rows with the same syncs."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final, TypeAlias

import apsw
import msgspec

from agentrail.abc.store import Append, Opening, Standing, Store
from agentrail.core.journal.record import Draft, Tail, sealed
from agentrail.messages import SessionId
from agentrail.stores.sqlite import MAX_LOG_BYTES, SqliteStore
from agentrail.stores.sqlite_rows import RECORD_COLUMNS
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect

Batch: TypeAlias = Sequence[Append]

_SESSIONS: Final = 100
_BATCHES: Final = 300
_BURST: Final = 6
"""The records of one cycle: a prompt, a request, a tool, a request, an answer, the end."""

_BODY: Final = b'{"type":"prompt","text":"' + b"x" * 300 + b'"}'
_DOES: Final = "publish 31-33\nrun_tool t7 shell op=9f2c args=77ab\nreply"


def appends(effort: Effort) -> list[Row]:
    """Batches of one record, and of the six of a cycle, from each of a hundred sessions; each batch is one sync."""
    rows: list[Row] = []
    for size in (1, _BURST):
        count = max(3, round(_BATCHES * effort.scale / size))
        batches = batches_of(_SESSIONS, count, size)
        taken = interleave(partial(_bare, batches), partial(_ours, batches), effort.rounds)
        each = "a record" if size == 1 else f"{size} records"
        what = f"{each} from each of {_SESSIONS} sessions, durable"
        factor = 1e6 / (count * _SESSIONS * size)
        rows += [
            taken.row(
                "appends",
                "wall",
                f"{what}: time of one",
                unit="µs",
                factor=factor,
                target=target_of("appends"),
            ),
            taken.row("appends", "cpu", f"{what}: CPU of one", unit="µs", factor=factor),
        ]
    return rows


def batches_of(sessions: int, count: int, size: int) -> Sequence[Batch]:
    """Batches of so many records from each session, after one that opens them."""
    tails = [Tail()] * sessions
    draft = Draft(at_ms=1_790_000_000_000, kind="prompt", body=_BODY, does=_DOES, events=31)
    batches: list[Batch] = []
    for _ in range(count + 1):
        batch: list[Append] = []
        for n, tail in enumerate(tails):
            records, tails[n] = sealed([draft] * size, tail, scope="", session=_session(n))
            batch.append(Append(records=records, standing=Standing(is_working=True)))
        batches.append(batch)
    return batches


def _session(number: int) -> SessionId:
    return SessionId(f"session-{number:04}")


def _ours(batches: Sequence[Batch]) -> Sample:
    with TemporaryDirectory() as folder, closing(SqliteStore(Path(folder) / "sessions.db")) as store:
        return append_to(store, batches)


def append_to(store: Store, batches: Sequence[Batch]) -> Sample:
    """Open the sessions, then append the other batches, which is timed."""
    for one in batches[0]:
        store.create(Opening(records=one.records, root=one.session, node="n", standing=one.standing))
    sample = timed(store.append, batches[1:])
    for one in batches[-1]:
        found = store.get("", one.session)
        expect("the last number", None if found is None else found.tail.seq, one.records[-1].seq)
    return sample


def _bare(batches: Sequence[Batch]) -> Sample:
    insert = f"INSERT INTO record ({RECORD_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - a constant
    with TemporaryDirectory() as folder, closing(apsw.Connection(f"{folder}/bare.db")) as connection:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.wal_autocheckpoint(MAX_LOG_BYTES // 4096)  # as ours sweeps
        connection.execute(
            """CREATE TABLE record (scope TEXT, session TEXT, seq INTEGER, epoch INTEGER, at_ms INTEGER, kind TEXT,
            body BLOB, does TEXT, events INTEGER, hash BLOB, PRIMARY KEY (scope, session, seq)) WITHOUT ROWID"""
        )

        def write(batch: Batch) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                insert, (msgspec.structs.astuple(record) for one in batch for record in one.records)
            )
            connection.execute("COMMIT")

        for one in batches[0]:
            write([one])
        sample = timed(write, batches[1:])
        written = sum(len(one.records) for batch in batches for one in batch)
        expect("the number of records", connection.execute("SELECT count(*) FROM record").get, written)
    return sample


def timed(write: Callable[[Batch], object], batches: Sequence[Batch]) -> Sample:
    """Write batches, and return wall and CPU seconds."""
    began_at, cpu_at = perf_counter(), process_time()
    for batch in batches:
        write(batch)
    return {"wall": perf_counter() - began_at, "cpu": process_time() - cpu_at}
