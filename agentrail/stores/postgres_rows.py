"""Rows of `PostgresStore` and their values, with the statements that several modules need."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from agentrail.abc.store import Node, OwedRow, StoredSession, StoredSnapshot
from agentrail.core.journal.record import Record
from agentrail.errors import SessionNotFound
from agentrail.messages import SessionId
from agentrail.stores.append_rules import (
    NEIGHBOURS,
    PagedJournal,
    session_not_found,
    session_of_columns,
)
from agentrail.stores.postgres_connections import PostgresConnection, texts

PostgresRow: TypeAlias = tuple[Any, ...]

SESSION_COLUMNS: Final = (
    "scope, session, root, parent, forked_from, forked_at, node, opened_at_ms, written_at_ms, first_seq, "
    "last_seq, epoch, hash, events, is_working, has_ended, waits_for, due_at_ms, title, codec, deaths"
)
_TEXTS: Final = frozenset({0, 1, 2, 3, 4, 6, 18})
"""Places of the texts among the columns of a session."""

RECORD_COLUMNS: Final = "scope, session, seq, epoch, at_ms, kind, body, does, events, hash"
SNAPSHOT_COLUMNS: Final = "scope, session, seq, hash, state, checked"
NODE_COLUMNS: Final = "id, address, version, pid, boot, load, codec, digest, lease_ms, seen_at_ms, gone_at_ms"
"""Columns of a node, in the order of the fields of `Node`."""

_EPOCH_AT: Final = "SELECT epoch FROM agentrail.record WHERE scope = %b AND session = %b AND seq = %b"


def run_statement(connection: PostgresConnection, statement: str, *values: object) -> list[PostgresRow]:
    """Execute a statement with placeholders `%b`, and return its rows."""
    cursor = connection.execute(statement.encode(), values, binary=True)
    return cursor.fetchall() if cursor.description else []


def session_of(row: PostgresRow) -> StoredSession:
    found = enumerate(row)
    return session_of_columns(
        [one.decode() if at in _TEXTS and one is not None else one for at, one in found]
    )


def record_of(row: PostgresRow) -> Record:
    scope, session, seq, epoch, at_ms, kind, body, does, events, digest = row
    return Record(
        scope=scope.decode(),
        session=SessionId(session.decode()),
        seq=seq,
        epoch=epoch,
        at_ms=at_ms,
        kind=kind.decode(),
        body=body,
        does=does.decode(),
        events=events,
        hash=digest,
    )


def snapshot_from_row(row: PostgresRow) -> StoredSnapshot:
    scope, session, seq, digest, state, check = row
    return StoredSnapshot(
        scope=scope.decode(),
        session=SessionId(session.decode()),
        seq=seq,
        hash=digest,
        state=state,
        check=check,
    )


def node_of(row: PostgresRow) -> Node:
    values: list[Any] = [one.decode() if isinstance(one, bytes) else one for one in row]
    return Node(**dict(zip(Node.__struct_fields__, values, strict=True)))


def owed_of(row: PostgresRow) -> OwedRow:
    kind, name, body, node = row
    return OwedRow(kind=kind.decode(), id=name.decode(), body=body, node=node.decode())


def fetch_session(connection: PostgresConnection, scope: str, session: str) -> StoredSession | None:
    statement = f"SELECT {SESSION_COLUMNS} FROM agentrail.session WHERE scope = %b AND session = %b"  # noqa: S608 - a constant
    rows = run_statement(connection, statement, scope.encode(), session.encode())
    return session_of(rows[0]) if rows else None


def fetch_sessions(
    connection: PostgresConnection, places: Sequence[tuple[str, SessionId]]
) -> tuple[StoredSession | None, ...]:
    statement = f"""SELECT {SESSION_COLUMNS} FROM agentrail.session
        JOIN unnest(%b, %b) AS w (scope, session) USING (scope, session)"""  # noqa: S608 - a constant
    values = texts(scope for scope, _ in places), texts(session for _, session in places)
    rows = map(session_of, run_statement(connection, statement, *values))
    found = {(one.scope, one.session): one for one in rows}
    return tuple([found.get(place) for place in places])


def fetch_records(
    connection: PostgresConnection, scope: str, session: str, after: int, limit: int
) -> tuple[Record, ...]:
    statement = f"""SELECT {RECORD_COLUMNS} FROM agentrail.record
        WHERE scope = %b AND session = %b AND seq > %b ORDER BY seq LIMIT %b"""  # noqa: S608 - a constant
    rows = run_statement(connection, statement, scope.encode(), session.encode(), after, max(0, limit))
    return tuple(map(record_of, rows))


def fetch_snapshots(
    connection: PostgresConnection, scope: str, session: str, at_most: int | None = None
) -> tuple[StoredSnapshot, ...]:
    statement = f"""SELECT {SNAPSHOT_COLUMNS} FROM agentrail.snapshot
        WHERE scope = %b AND session = %b AND seq <= %b ORDER BY seq DESC"""  # noqa: S608 - a constant
    last = 2**63 - 1 if at_most is None else at_most
    return tuple(
        map(snapshot_from_row, run_statement(connection, statement, scope.encode(), session.encode(), last))
    )


def known(connection: PostgresConnection, scope: str, session: str) -> StoredSession:
    """Return a session, or raise SessionNotFound."""
    there = fetch_session(connection, scope, session)
    if there is None:
        raise not_found(connection, scope, session)
    return there


def not_found(connection: PostgresConnection, scope: str, session: str) -> SessionNotFound:
    beside: list[str] = []
    for order in ("< %b ORDER BY session DESC", "> %b ORDER BY session"):
        statement = f"SELECT session FROM agentrail.session WHERE scope = %b AND session {order} LIMIT %b"  # noqa: S608 - one of two
        beside += [
            row[0].decode()
            for row in run_statement(connection, statement, scope.encode(), session.encode(), NEIGHBOURS)
        ]
    return session_not_found(session, beside)


def paged_journal(connection: PostgresConnection, there: StoredSession) -> PagedJournal:
    scope, session = there.scope, there.session

    def epoch_at(seq: int) -> int | None:
        rows = run_statement(connection, _EPOCH_AT, scope.encode(), session.encode(), seq)
        return rows[0][0] if rows else None

    return PagedJournal(there, partial(fetch_records, connection, scope, session), epoch_at)
