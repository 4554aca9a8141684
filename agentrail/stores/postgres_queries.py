"""Queries of `PostgresStore`. Each function gets a connection and changes nothing."""

from typing import Final

from agentrail.abc.store import Filters, StoredSession
from agentrail.core.journal.record import Record
from agentrail.errors import Trimmed
from agentrail.messages import SessionId
from agentrail.stores.postgres_connections import PostgresConnection
from agentrail.stores.postgres_nodes import DEAD, dead_values, run_named
from agentrail.stores.postgres_rows import SESSION_COLUMNS, fetch_records, known, run_statement, session_of

_SLOT_MS: Final = 30_000
"""Unit of the column `written_slot`: its index changes at most once in this time for each session."""

_ORPHANS: Final = f"""
WITH {DEAD}
SELECT {SESSION_COLUMNS} FROM agentrail.session AS top WHERE (scope, session) IN (
    SELECT scope, root FROM agentrail.session WHERE node = ANY(ARRAY(SELECT id FROM dead)) AND is_working AND NOT has_ended)
AND (scope, session) > (%(scope)b, %(session)b) AND node = ANY(ARRAY(SELECT id FROM dead))
ORDER BY scope, session LIMIT %(limit)b
"""  # noqa: S608 - a constant

_DUE: Final = f"""
WITH {DEAD}
SELECT {SESSION_COLUMNS} FROM agentrail.session WHERE node = ANY(ARRAY(SELECT id FROM dead))
AND due_at_ms IS NOT NULL AND due_at_ms <= (SELECT agentrail.now_ms()) + %(within)b AND NOT has_ended
ORDER BY due_at_ms, scope, session LIMIT %(limit)b
"""  # noqa: S608 - a constant

_SIZE: Final = """
SELECT (SELECT coalesce(sum(length(body) + length(does)), 0) FROM agentrail.record WHERE scope = %(scope)b AND session = %(session)b)
    + (SELECT coalesce(sum(length(state)), 0) FROM agentrail.snapshot WHERE scope = %(scope)b AND session = %(session)b)
    + (SELECT coalesce(sum(length(content)), 0) FROM agentrail.blob_use JOIN agentrail.blob USING (digest)
        WHERE scope = %(scope)b AND session = %(session)b)
"""


def read_records(
    connection: PostgresConnection, scope: str, session: SessionId, after: int, limit: int
) -> tuple[Record, ...]:
    """Return records in order. See `Store.read`."""
    records = fetch_records(connection, scope, session, after, limit)
    if records and records[0].seq == after + 1:
        return records  # the usual case, with one statement
    there = known(connection, scope, session)
    if after + 1 < there.first_seq:
        raise Trimmed(session, first=there.first_seq)
    return records


def find_sessions(
    connection: PostgresConnection, filters: Filters, after: tuple[str, str] | None, limit: int
) -> tuple[StoredSession, ...]:
    """Return sessions ordered by scope and id. See `Store.find`."""
    conditions, values = _conditions(filters)
    if after is not None:
        conditions.append("(scope, session) > (%b, %b)")
        values += (after[0].encode(), after[1].encode())
    return _select(connection, conditions, "scope, session", values, limit)


def newest_sessions(
    connection: PostgresConnection, filters: Filters, before: tuple[int, str] | None, limit: int
) -> tuple[StoredSession, ...]:
    """Return sessions by the time of their opening. See `Store.newest`."""
    conditions, values = _conditions(filters)
    if before is not None:
        conditions.append("(opened_at_ms, session) < (%b, %b)")
        values += (before[0], before[1].encode())
    return _select(connection, conditions, "opened_at_ms DESC, session DESC", values, limit)


def _conditions(filters: Filters) -> tuple[list[str], list[object]]:
    conditions, values = ["true"], list[object]()
    for column, value in (
        ("scope", filters.scope),
        ("root", filters.root),
        ("node", filters.node),
        ("owner", filters.owner),
    ):
        if value is not None:
            conditions.append(f"{column} = %b")
            values.append(value.encode())
    if filters.owner:
        conditions.append("owner <> ''")  # a partial index is used only if its condition is visible
    for column, is_so in (("is_working", filters.is_working), ("has_ended", filters.has_ended)):
        if is_so is not None:
            conditions.append(column if is_so else f"NOT {column}")
    if filters.only_roots:
        conditions.append("session = root")
    if filters.written_before_ms is not None:
        conditions.append("written_at_ms < %b")
        values.append(filters.written_before_ms)
    if filters.written_after_ms is not None:
        conditions.append("written_slot >= %b AND written_at_ms >= %b")
        values += (filters.written_after_ms // _SLOT_MS, filters.written_after_ms)
    return conditions, values


def _select(
    connection: PostgresConnection, conditions: list[str], order: str, values: list[object], limit: int
) -> tuple[StoredSession, ...]:
    statement = f"SELECT {SESSION_COLUMNS} FROM agentrail.session WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT %b"  # noqa: S608 - our own words
    return tuple(map(session_of, run_statement(connection, statement, *values, max(0, limit))))


def orphans_of(
    connection: PostgresConnection, after: tuple[str, str] | None, *, lease: int, limit: int
) -> tuple[StoredSession, ...]:
    scope, session = after or ("", "")
    values = dead_values(None, None, lease)
    values |= {"scope": scope.encode(), "session": session.encode(), "limit": max(0, limit)}
    return tuple(map(session_of, run_named(connection, _ORPHANS, values)))


def due_sessions(
    connection: PostgresConnection, within_ms: int, *, lease: int, limit: int
) -> tuple[StoredSession, ...]:
    values = dead_values(None, None, lease) | {"within": within_ms, "limit": max(0, limit)}
    return tuple(map(session_of, run_named(connection, _DUE, values)))


def size_of(connection: PostgresConnection, scope: str, session: SessionId) -> int:
    values = {"scope": scope.encode(), "session": session.encode()}
    return int(run_named(connection, _SIZE, values)[0][0])


def fetch_blob(connection: PostgresConnection, digest: str) -> bytes | None:
    rows = run_statement(connection, "SELECT content FROM agentrail.blob WHERE digest = %b", digest.encode())
    return bytes(rows[0][0]) if rows else None
