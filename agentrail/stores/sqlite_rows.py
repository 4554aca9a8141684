"""Rows of `SqliteStore` and their values, with the few statements that several modules need."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from agentrail.abc.store import Opening, Standing, StoredSession, StoredSnapshot
from agentrail.core.journal.record import Record, Tail
from agentrail.core.journal.session_owner import NO_OWNER
from agentrail.messages import SessionId
from agentrail.stores.append_rules import PagedJournal, session_of_columns
from agentrail.stores.sqlite_connections import DamagedStoreError
from agentrail.structs import picked_fields

SqliteRow: TypeAlias = tuple[Any, ...]

OLD_SESSION_COLUMNS: Final = (
    "scope, session, root, parent, forked_from, forked_at, node, opened_at_ms, written_at_ms, first_seq, "
    "last_seq, epoch, hash, events, is_working, has_ended, waits_for, due_at_ms, title"
)
"""Columns of a session since version 1, in the order of `session_row`."""

SESSION_COLUMNS: Final = f"{OLD_SESSION_COLUMNS}, codec, deaths"
"""Columns of a session. Readers of an older file get the later ones from `show_later_columns`."""

RECORD_COLUMNS: Final = "at_ms, kind, body, does, events, scope, session, seq, epoch, hash"
"""Columns of a record, in the order of the fields of `Record`: a record is its own row."""

SNAPSHOT_COLUMNS: Final = "scope, session, seq, hash, state, checked"
"""Columns of a snapshot, in the order of the fields of `StoredSnapshot`."""

PUT_SESSION: Final = (
    f"INSERT INTO session ({SESSION_COLUMNS}, owner) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - a constant
)
PUT_RECORD: Final = f"INSERT INTO record ({RECORD_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - a constant
PUT_SNAPSHOT: Final = f"INSERT OR REPLACE INTO snapshot ({SNAPSHOT_COLUMNS}) VALUES (?,?,?,?,?,?)"  # noqa: S608 - a constant

_GET_SESSION: Final = f"SELECT {SESSION_COLUMNS} FROM session WHERE scope = ? AND session = ?"  # noqa: S608 - a constant
_GET_RECORDS: Final = """
SELECT seq, epoch, at_ms, CAST(kind AS BLOB), body, CAST(does AS BLOB), events, hash
FROM record WHERE scope = ? AND session = ? AND seq > ? ORDER BY seq LIMIT ?
"""
"""Selects text as bytes: a flipped bit may make it undecodable, and a damaged record must still be readable."""

_EPOCH_AT: Final = "SELECT epoch FROM record WHERE scope = ? AND session = ? AND seq = ?"

_KINDS: Final = frozenset(
    (*(str,) * 4, *fork, str, *(int,) * 5, bytes, *(int,) * 4, due, str, int, int)
    for fork in ((str, int), (type(None), type(None)))
    for due in (int, type(None))
)
"""Types of the columns of a session, with and without a fork and a timer."""

row_of: Final[Callable[[msgspec.Struct], tuple[Any, ...]]] = msgspec.structs.astuple
"""Return the row of a record or of a snapshot."""


def record_of(scope: str, session: str, row: SqliteRow) -> Record:
    """Return a record, even a damaged one, whose hash shows the fault."""
    seq, epoch, at_ms, kind, body, does, events, digest = row
    return Record(
        scope=scope,
        session=SessionId(session),
        seq=seq,
        epoch=_whole(epoch),
        at_ms=_whole(at_ms),
        kind=_bytes(kind).decode(errors="replace"),
        body=_bytes(body),
        does=_bytes(does).decode(errors="replace"),
        events=_whole(events),
        hash=_bytes(digest),
    )


def _whole(value: object) -> int:
    return value if type(value) is int else -1  # no record has it, so its hash cannot match by chance


def _bytes(value: object) -> bytes:
    return value if type(value) is bytes else b""


def snapshot_from_row(row: SqliteRow) -> StoredSnapshot:
    """Return a snapshot, even a damaged one."""
    scope, session, seq, digest, state, checked = row
    return StoredSnapshot(
        scope=scope,
        session=SessionId(session),
        seq=seq,
        hash=_bytes(digest),
        state=_bytes(state),
        check=_bytes(checked),
    )


def session_of(row: SqliteRow) -> StoredSession:
    if tuple(map(type, row)) not in _KINDS:
        message = f"stored data of session {row[1]!r} has changed since it was written"
        raise DamagedStoreError(message)
    return session_of_columns(row)


def session_row(one: StoredSession, owner: str = NO_OWNER) -> SqliteRow:
    forked_from, forked_at = one.forked_from or (None, None)
    return (
        *(one.scope, one.session, one.root, one.parent, forked_from, forked_at, one.node),
        *(one.opened_at_ms, one.written_at_ms, one.first_seq),
        *(one.tail.seq, one.tail.epoch, one.tail.hash, one.events),
        *standing_row(one.standing),
        *(one.codec, one.deaths, owner),
    )


def standing_row(one: Standing) -> SqliteRow:
    return (int(one.is_working), int(one.has_ended), one.waits_for, one.due_at_ms, one.title)


def opened_row(opening: Opening, now: int) -> SqliteRow:
    first, last = opening.records[0], opening.records[-1]
    return session_row(
        StoredSession(
            **picked_fields(opening, "root", "parent", "forked_from", "node", "standing", "codec"),
            scope=first.scope,
            session=first.session,
            opened_at_ms=now,
            written_at_ms=now,
            first_seq=first.seq,
            tail=Tail(seq=last.seq, epoch=last.epoch, hash=last.hash),
            events=last.events,
        ),
        opening.owner,
    )


def fetch_session(connection: apsw.Connection, scope: str, session: str) -> StoredSession | None:
    """Return one session, or None if the id is unknown."""
    row = connection.execute(_GET_SESSION, (scope, session)).fetchone()
    return None if row is None else session_of(row)


def fetch_records(
    connection: apsw.Connection, scope: str, session: str, after: int, limit: int
) -> tuple[Record, ...]:
    """Return stored records in order, with or without gaps."""
    rows = connection.execute(_GET_RECORDS, (scope, session, after, limit))
    return tuple(record_of(scope, session, row) for row in rows)


def paged_journal(connection: apsw.Connection, there: StoredSession) -> PagedJournal:
    scope, session = there.scope, there.session

    def epoch_at(seq: int) -> int | None:
        row = connection.execute(_EPOCH_AT, (scope, session, seq)).fetchone()
        return None if row is None else row[0]

    return PagedJournal(there, partial(fetch_records, connection, scope, session), epoch_at)


def check_witness(connection: apsw.Connection, scope: str, session: str, there: StoredSession | None) -> None:
    last = None if there is None else there.tail
    row = connection.execute(
        "SELECT seq, epoch, hash FROM record WHERE scope = ? AND session = ? ORDER BY seq DESC LIMIT 1",
        (scope, session),
    ).fetchone()
    found = None if row is None else Tail(seq=row[0], epoch=row[1], hash=row[2])
    if found != last:
        message = f"the last record of session {session!r} is not the one named by the session"
        raise DamagedStoreError(message)
