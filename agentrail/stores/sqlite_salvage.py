"""Salvage of a damaged `SqliteStore` file, row by row into a new one. Records after a gap are kept."""

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from agentrail.abc.store import JOURNAL_BEHIND, Standing, StoredSession
from agentrail.core.journal.record import NO_HASH, Record, Tail, first_broken
from agentrail.messages import SessionId
from agentrail.stores.sqlite_connections import Connector, DamagedStoreError, forgotten_after
from agentrail.stores.sqlite_files import beside, replace_with_private_file
from agentrail.stores.sqlite_owed_rows import PUT_OWED
from agentrail.stores.sqlite_owners import fill_owners
from agentrail.stores.sqlite_rows import (
    OLD_SESSION_COLUMNS,
    PUT_RECORD,
    PUT_SESSION,
    PUT_SNAPSHOT,
    SNAPSHOT_COLUMNS,
    SqliteRow,
    fetch_records,
    fetch_session,
    record_of,
    row_of,
    session_of,
    session_row,
)

_UNREADABLE: Final = (apsw.Error, UnicodeDecodeError, DamagedStoreError)

_MAX_GAP: Final = 1_000_000
"""Record numbers that are tried after the last readable one, if the end of the journal cannot be read."""

_STAND_ALONE: Final = """
UPDATE session SET root = session, parent = '' WHERE NOT EXISTS
(SELECT 1 FROM session AS top WHERE top.scope = session.scope AND top.session = session.root) RETURNING scope, session
"""
"""Turns sessions whose root is lost into roots, because no node could take them otherwise."""

_RECORD_AT: Final = """
SELECT seq, epoch, at_ms, CAST(kind AS BLOB), body, CAST(does AS BLOB), events, hash
FROM record WHERE scope = ? AND session = ? AND seq {bound} ? ORDER BY seq {order} LIMIT 1
"""


class SalvagedSession(msgspec.Struct, frozen=True, kw_only=True):
    """Saved parts of one session.

    Attributes:
        last_good: Number of the last record before a gap or change, counted from the first kept record; 0 for
            none.
        last_known: Highest record number known to have existed.
        is_rebuilt: Whether its session row was lost, so that it is listed as a root that has not ended.
    """

    scope: str
    session: SessionId
    last_good: int
    last_known: int
    is_rebuilt: bool

    @property
    def is_whole(self) -> bool:
        return self.last_good == self.last_known and not self.is_rebuilt


class SalvageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a salvage.

    Attributes:
        damaged: New path of the damaged file. A text file of the same name plus `.report` has this report.
        lost_snapshots: Snapshots that were found but could not be kept. They are created again.
        lost_blobs: References from a session to a large value that is lost or changed.
    """

    damaged: Path
    sessions: tuple[SalvagedSession, ...]
    lost_snapshots: int
    lost_blobs: int

    def __str__(self) -> str:
        hurt = [one for one in self.sessions if not one.is_whole]
        counts = f"{len(self.sessions) - len(hurt)} sessions are intact, {len(hurt)} are damaged"
        lost = f"{self.lost_snapshots} snapshots and {self.lost_blobs} large values are lost"
        lines = [f"{self.damaged.name}: {counts}; {lost}"]
        for one in hurt:
            of = f" of {one.scope!r}" if one.scope else ""
            rebuilt = "; the session's own row was lost" if one.is_rebuilt else ""
            lines.append(
                f"session {one.session!r}{of}: intact up to record {one.last_good} of {one.last_known}{rebuilt}"
            )
        return "\n".join(lines)


def salvage(damaged: Connector, fresh: apsw.Connection) -> SalvageReport:
    beheaded = _with_head_of(damaged, fresh)
    try:
        with forgotten_after((beheaded or damaged).to_read()) as source:
            fresh.execute("BEGIN")  # without a COMMIT the whole new file is discarded
            report = _salvage(damaged.path, source, fresh)
            fresh.execute("COMMIT")
            return report
    finally:
        log, shared = beside(damaged.path)
        shared.unlink(missing_ok=True)
        if log.exists() and log.stat().st_size == 0:
            log.unlink()  # created by the reading connection
        if beheaded is not None:
            for path in (beheaded.path, *beside(beheaded.path)):
                path.unlink(missing_ok=True)


def _with_head_of(damaged: Connector, fresh: apsw.Connection) -> Connector | None:
    """Return a copy with the first page of a new file if the damaged one is unreadable, otherwise None."""
    names = set[str]()
    with suppress(*_UNREADABLE), forgotten_after(damaged.to_read()) as source:
        names = {row[0] for row in source.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        source.execute("SELECT count(*) FROM meta").fetchall()
    if names >= {"session", "record", "snapshot", "blob", "blob_use"}:
        return None
    page = fresh.execute("PRAGMA page_size").get
    fresh.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    head = bytearray(fresh.serialize("main")[:page])
    path = damaged.path.with_name(damaged.path.name + ".read")
    for file, copy in ((damaged.path, path), (beside(damaged.path)[0], beside(path)[0])):
        if file.exists():
            replace_with_private_file(copy)
            shutil.copyfile(file, copy)
    head[28:32] = (path.stat().st_size // page).to_bytes(4, "big")
    head[32:40] = bytes(8)  # its list of free pages is not needed for reading
    head[92:96] = head[24:28]  # ... and the number of pages counts only if these two agree
    with path.open("r+b") as opened:
        opened.write(head)
    return damaged.at(path)


def _salvage(damaged: Path, source: apsw.Connection, fresh: apsw.Connection) -> SalvageReport:
    sessions: dict[tuple[str, str], StoredSession] = {}
    for row in _rows(source, "session", OLD_SESSION_COLUMNS, "scope, session"):
        with suppress(DamagedStoreError):
            there = session_of((*row, 0, 0))
            sessions[there.scope, there.session] = there
    named: Iterator[Any] = _rows(source, "snapshot", "scope, session", "rowid")  # not with their contents
    names = {*sessions, *_owners_of_records(source), *named}
    saved = [
        one
        for name in sorted(name for name in names if all(type(part) is str for part in name))
        if (one := _save_session(source, fresh, name, sessions)) is not None
    ]
    alone = set(fresh.execute(_STAND_ALONE))
    saved = [replace(one, is_rebuilt=one.is_rebuilt or (one.scope, one.session) in alone) for one in saved]
    snapshots = _rows(source, "snapshot", SNAPSHOT_COLUMNS, "rowid")
    lost_snapshots = sum(not _put(fresh, PUT_SNAPSHOT, row) for row in snapshots)
    fill_owners(fresh)  # from the journals: the damaged file may be older than the column
    for digest, content in _rows(source, "blob", "digest, content", "rowid"):
        if type(content) is bytes and hashlib.sha256(content).hexdigest() == digest:
            _put(fresh, "INSERT OR REPLACE INTO blob VALUES (?, ?)", (digest, content))
    lost_blobs = 0
    for row in _rows(source, "blob_use", "scope, session, digest", "scope, session, digest"):
        lost_blobs += not _put(fresh, "INSERT OR REPLACE INTO blob_use VALUES (?, ?, ?)", row)
    for row in _rows(source, "owed", "kind, id, body", "kind, id"):
        _put(fresh, PUT_OWED, (*row, ""))
    _note_cut_off(fresh, sessions.values())
    return SalvageReport(
        damaged=damaged, sessions=tuple(saved), lost_snapshots=lost_snapshots, lost_blobs=lost_blobs
    )


def _note_cut_off(fresh: apsw.Connection, sessions: Iterable[StoredSession]) -> None:
    """Note trees that lost more than their last record, so that they stay parked: a tool may have run in the lost records, and would run again."""
    for there in sessions:
        kept = fetch_session(fresh, there.scope, there.session)
        root, have = (there.root, 0) if kept is None else (kept.root, kept.tail.seq)
        if 1 < there.tail.seq - have <= _MAX_GAP and not there.standing.has_ended:
            key = f"{there.scope}/{root}" if there.scope or "/" in root else root
            body = f"{have} {there.tail.seq}".encode() if root == there.session else b""
            _put(fresh, PUT_OWED, (JOURNAL_BEHIND, key, body, ""))


def _save_session(
    source: apsw.Connection,
    fresh: apsw.Connection,
    name: tuple[str, str],
    sessions: dict[tuple[str, str], StoredSession],
) -> SalvagedSession | None:
    there = sessions.get(name)
    records = sorted(_records(source, name, there), key=lambda record: record.seq)
    if not records:
        # Nothing can follow without a record. The session is still reported, unless it never existed.
        return None if there is None else _saved(there, [], is_rebuilt=False)
    first, last = records[0], records[-1]
    tail = Tail(seq=last.seq, epoch=last.epoch, hash=last.hash)
    is_rebuilt = there is None
    if there is None:
        there = StoredSession(
            scope=name[0],
            session=SessionId(name[1]),
            root=SessionId(name[1]),
            parent="",
            forked_from=None,
            node="",
            opened_at_ms=first.at_ms,
            written_at_ms=last.at_ms,
            first_seq=first.seq,
            tail=tail,
            events=last.events,
            standing=Standing(),
        )
    kept = replace(there, tail=tail, events=last.events)
    if not _put(fresh, PUT_SESSION, session_row(kept)):
        return None
    for record in records:
        _put(fresh, PUT_RECORD, row_of(record))
    return _saved(there, records, is_rebuilt=is_rebuilt)


def _saved(there: StoredSession, records: list[Record], *, is_rebuilt: bool) -> SalvagedSession:
    last_good = 0
    if records and records[0].seq == there.first_seq:
        # If the beginning was trimmed, the record before the first one is missing, and the first is accepted
        # unchecked.
        trimmed = there.first_seq > 1
        behind = Tail(seq=records[0].seq, hash=records[0].hash) if trimmed else Tail(hash=NO_HASH)
        broken = first_broken(records[1:] if trimmed else records, behind)
        last_good = records[-1].seq if broken is None else broken - 1
    return SalvagedSession(
        scope=there.scope,
        session=there.session,
        last_good=last_good,
        last_known=max(there.tail.seq, records[-1].seq if records else 0),
        is_rebuilt=is_rebuilt,
    )


def _put(fresh: apsw.Connection, statement: str, row: SqliteRow) -> bool:
    try:
        fresh.execute(statement, row)
    except apsw.ConstraintError:
        return False
    return True


def _records(source: apsw.Connection, name: tuple[str, str], there: StoredSession | None) -> Iterator[Record]:
    front = 0 if there is None else there.first_seq - 1
    for record in _run(source, name, front, ascending=True):
        yield record
        front = record.seq
    back = 2**62
    for record in _run(source, name, back, ascending=False):
        if record.seq <= front:  # nothing is between, whatever the row of the session says
            back = front + 1
            break
        yield record
        back = record.seq
    if back == 2**62:
        back = 0 if there is None else min(there.tail.seq, front + _MAX_GAP) + 1
    for seq in range(front + 1, back):
        with suppress(*_UNREADABLE):
            yield from fetch_records(source, *name, seq - 1, 1) if _is_there(source, name, seq) else ()


def _run(source: apsw.Connection, name: tuple[str, str], start: int, *, ascending: bool) -> Iterator[Record]:
    # One statement per record, so that an unreadable record ends the run without losing those before it.
    statement = _RECORD_AT.format(bound=">" if ascending else "<", order="ASC" if ascending else "DESC")
    with suppress(*_UNREADABLE):
        while True:
            row = source.execute(statement, (*name, start)).fetchone()
            if row is None or type(row[0]) is not int:
                return
            yield record_of(*name, row)
            start = row[0]


def _is_there(source: apsw.Connection, name: tuple[str, str], seq: int) -> bool:
    found = source.execute("SELECT 1 FROM record WHERE scope = ? AND session = ? AND seq = ?", (*name, seq))
    return found.fetchone() is not None


def _rows(source: apsw.Connection, table: str, columns: str, order: str) -> Iterator[SqliteRow]:
    for direction in ("ASC", "DESC"):
        by = ", ".join(f"{one} {direction}" for one in order.split(", "))
        how = "NOT INDEXED" if table in {"snapshot", "blob"} else ""
        statement = f"SELECT {columns} FROM {table} {how} ORDER BY {by}"  # noqa: S608 - our own words
        with suppress(*_UNREADABLE):
            yield from source.execute(statement)
            return  # complete, so the other direction adds nothing


def _owners_of_records(source: apsw.Connection) -> Iterator[tuple[str, str]]:
    for bound, order in ((">", "ASC"), ("<", "DESC")):
        key: tuple[str, str] | None = None
        with suppress(*_UNREADABLE):
            while True:
                where = "" if key is None else f"WHERE (scope, session) {bound} (?, ?)"
                statement = f"SELECT scope, session FROM record {where} ORDER BY scope {order}, session {order} LIMIT 1"  # noqa: S608 - our own words
                row = source.execute(statement, key or ()).fetchone()
                if row is None:
                    return
                key = (row[0], row[1])
                yield key
