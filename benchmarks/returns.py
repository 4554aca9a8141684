"""The workloads of journals that lie there: what one weighs, how long a session takes to come back, and whether idle ones cost a start.

Each file is made once, untimed, and copied for each run that changes it.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from types import MappingProxyType
from typing import Any, Final, TypeVar

import apsw
import msgspec
import trio

import agentrail
from agentrail.abc.store import Append, Opening, StoredSnapshot
from agentrail.core.journal.fold import fold_journal
from agentrail.core.journal.record import Draft, Record, Tail, sealed
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.messages import Message, SessionId
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.stores.sqlite_writes import create_journal
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.explain import explain_in_a_folder
from benchmarks.kept import PROMPT, RECORDS
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import StubModel, add, expect

T = TypeVar("T")

NO_DATA: Final[Mapping[str, Any]] = MappingProxyType({})

_SESSION: Final = SessionId("s-000000")
_LONG: Final = 10_000
_WEIGHED_CYCLES: Final = 500
_IDLE: Final = 10_000
_FEW: Final = 10
_MILLISECONDS: Final = 1e3
_PAGE: Final = 1_000
_FILE: Final = "sessions.db"


def resume(effort: Effort) -> list[Row]:
    """`resume_session` of a journal of 10,000 records, as the runtime left it and without its snapshots; bare: the fold alone."""
    cycles = effort.of(_LONG) // RECORDS + 1
    records, snapshots, messages = _lived(cycles)
    rows: list[Row] = []
    with TemporaryDirectory() as folder:
        for kept, what, target in (
            ((), "without a snapshot", target_of("resume")),
            (snapshots, "with its snapshots", target_of("resume with a snapshot")),
        ):
            file = Path(folder) / f"{len(kept)}.db"
            _write(file, records, kept)
            rounds = interleave(
                partial(_fold, records),
                partial(_resume, file, len(messages)),
                effort.rounds,
                explain=partial(
                    explain_in_a_folder,
                    _on_file(partial(_write, records=records, snapshots=kept)),
                    _on_file(partial(_resume, messages=len(messages))),
                ),
            )
            title = f"{len(records):,} records come back {what}; bare: their fold"
            rows += [
                rounds.row(
                    "resume",
                    "wall",
                    f"{title}: time",
                    unit="ms",
                    factor=_MILLISECONDS,
                    target=target,
                ),
                rounds.row("resume", "cpu", f"{title}: CPU", unit="ms", factor=_MILLISECONDS),
            ]
    return rows


def weights(effort: Effort) -> list[Row]:
    """What the file grows by for a cycle, pages included; bare: the JSON of its four messages."""
    cycles = effort.of(_WEIGHED_CYCLES)
    rows: list[Row] = []
    for what, prompt in (
        ("of a few words", PROMPT),
        ("with a prompt of 2,000 characters", PROMPT + " " + "x" * 2_000),
    ):
        records, _, messages = _lived(cycles, prompt)
        text = sum(len(msgspec.json.encode(message)) for message in messages)
        rounds = interleave(partial(_bare_weight, text, cycles), partial(_weigh, records, cycles), 1)
        rows.append(
            rounds.row(
                "weights",
                "bytes",
                f"a cycle {what} in the file; bare: its messages as JSON",
                unit="bytes",
                target=target_of("bytes of a cycle"),
            )
        )
    return rows


def idle_start(effort: Effort) -> list[Row]:
    """Opening a supervisor that looks for work, with 10,000 idle sessions in its file; bare: with 10."""
    with TemporaryDirectory() as folder:
        few, many = Path(folder) / "few.db", Path(folder) / "many.db"
        fill(few, _FEW)
        fill(many, effort.of(_IDLE))
        rounds = interleave(
            partial(_open, few),
            partial(_open, many),
            effort.rounds,
            explain=partial(
                explain_in_a_folder, _on_file(partial(fill, count=effort.of(_IDLE))), _on_file(_open)
            ),
        )
    title = f"a supervisor opens, {effort.of(_IDLE):,} idle sessions in its file; bare: {_FEW}"
    return [
        rounds.row(
            "idle-start",
            "cpu",
            f"{title}: CPU",
            unit="ms",
            factor=_MILLISECONDS,
            target=target_of("start beside idle sessions"),
        ),
        rounds.row("idle-start", "wall", f"{title}: time", unit="ms", factor=_MILLISECONDS),
    ]


# --- journals


def _lived(
    cycles: int, prompt: str = PROMPT, scope: str = "", user_data: Mapping[str, Any] = NO_DATA
) -> tuple[tuple[Record, ...], tuple[StoredSnapshot, ...], tuple[Message, ...]]:
    """Let a session live so many cycles, and give its records, its snapshots and its messages."""
    store = MemoryStore()

    async def live() -> tuple[Message, ...]:
        async with agentrail.open_supervisor(environ={}, store=store) as supervisor:
            session = await supervisor.start_session(
                model=StubModel(), tools=[add], session_id=_SESSION, scope=scope, user_data=dict(user_data)
            )
            for _ in range(cycles):
                expect("the answer", await session.ask(prompt), bare.ANSWER)
            return tuple(await session.messages())

    messages = trio.run(live)
    records = store.read(scope, _SESSION, limit=2 * RECORDS * cycles + 100)
    return records, store.snapshots(scope, _SESSION, records[-1].seq), messages


def _write(path: Path, records: tuple[Record, ...], snapshots: tuple[StoredSnapshot, ...]) -> None:
    """Make a file of one journal, swept."""
    with closing(SqliteStore(path)) as store:
        store.create(Opening(records=records[:1], root=_SESSION, node=""))
        for place in range(1, len(records), _PAGE):
            expect("refused", store.append([Append(records=records[place : place + _PAGE])]), (None,))
        for snapshot in reversed(snapshots):
            store.put_snapshot(snapshot)
        store.checkpoint()


def fill(path: Path, count: int, *, scope: str = "", user_data: Mapping[str, Any] = NO_DATA) -> None:
    """Make a file of so many idle sessions of one user, `s-000000` and so on, in one transaction."""
    (opened, *_), _, _ = _lived(1, scope=scope, user_data=user_data)
    owner = session_owner_key(user_data)
    with closing(SqliteStore(path)) as store:
        now = store.now_ms()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for number in range(count):
            session = SessionId(f"s-{number:06}")
            body = opened.body.replace(_SESSION.encode(), session.encode())
            draft = Draft(at_ms=opened.at_ms, kind=opened.kind, body=body, events=opened.events)
            records, _ = sealed((draft,), Tail(), scope=scope, session=session)
            create_journal(connection, Opening(records=records, root=session, node="", owner=owner), now)
        connection.execute("COMMIT")


def _on_file(work: Callable[[Path], T]) -> Callable[[str], T]:
    """Do with the file of a folder what is done with a file."""
    return lambda folder: work(Path(folder, _FILE))


@contextmanager
def _copy_of(path: Path) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        copy = Path(folder, _FILE)
        shutil.copyfile(path, copy)
        yield copy


# --- what is timed


def _timed(work: Callable[[], object]) -> Sample:
    began_at, cpu_at = perf_counter(), process_time()
    work()
    return {"wall": perf_counter() - began_at, "cpu": process_time() - cpu_at}


def _fold(records: tuple[Record, ...]) -> Sample:
    def fold() -> None:
        expect("records folded", fold_journal(records).tail.seq, len(records))

    return _timed(fold)


def _resume(path: Path, messages: int) -> Sample:
    async def come_back(store: SqliteStore) -> Sample:
        async with agentrail.open_supervisor(environ={}, store=store) as supervisor:
            began_at, cpu_at = perf_counter(), process_time()
            session = await supervisor.resume_session(_SESSION, model=StubModel(), tools=[add])
            sample = {"wall": perf_counter() - began_at, "cpu": process_time() - cpu_at}
            expect("the length of the history", len(await session.messages()), messages)
        return sample

    with _copy_of(path) as copy, closing(SqliteStore(copy)) as store:
        return trio.run(come_back, store)


def _weigh(records: tuple[Record, ...], cycles: int) -> Sample:
    """Weigh a file of all records against one of the first only, so that tables and head do not count."""
    with TemporaryDirectory() as folder:
        full, empty = Path(folder) / "full.db", Path(folder) / "empty.db"
        _write(full, records, ())
        _write(empty, records[:1], ())
        return {"bytes": (full.stat().st_size - empty.stat().st_size) / cycles}


def _bare_weight(text: int, cycles: int) -> Sample:
    return {"bytes": text / cycles}


def _open(path: Path) -> Sample:
    async def open_it() -> Sample:
        began_at, cpu_at = perf_counter(), process_time()
        async with agentrail.open_supervisor(
            environ={}, store=f"sqlite:{path}", resume="working"
        ) as supervisor:
            sample = {"wall": perf_counter() - began_at, "cpu": process_time() - cpu_at}
            expect("sessions at work", supervisor.sessions(), ())
        return sample

    return trio.run(open_it)
