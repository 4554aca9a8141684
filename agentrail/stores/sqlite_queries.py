"""Queries of `SqliteStore`. Each function gets a connection and changes nothing."""

from typing import Final

import apsw

from agentrail.abc.store import Filters, StoredSession, StoredSnapshot
from agentrail.core.journal.record import Record
from agentrail.errors import Trimmed
from agentrail.messages import SessionId
from agentrail.stores.append_rules import NEIGHBOURS, NodeLease, session_not_found
from agentrail.stores.sqlite_rows import (
    SESSION_COLUMNS,
    SNAPSHOT_COLUMNS,
    check_witness,
    fetch_records,
    fetch_session,
    session_of,
    snapshot_from_row,
)

IS_ALIVE: Final = "(SELECT 1 FROM node WHERE id = {owner} AND is_gone = 0 AND seen_at_ms > :since)"
"""Whether a node sent a heartbeat within the lease to the current writing process.

Nodes of earlier processes are dead.
"""

_ORPHANS: Final = f"""
SELECT {SESSION_COLUMNS} FROM session AS top
WHERE (scope, session) IN (SELECT scope, root FROM session WHERE is_working = 1 AND has_ended = 0)
AND (scope, session) > (:scope, :session) AND NOT EXISTS {IS_ALIVE.format(owner="top.node")}
ORDER BY scope, session LIMIT :limit
"""  # noqa: S608 - a constant

_DUE: Final = f"""
SELECT {SESSION_COLUMNS} FROM session AS one
WHERE due_at_ms IS NOT NULL AND due_at_ms <= :at AND has_ended = 0 AND NOT EXISTS {IS_ALIVE.format(owner="one.node")}
ORDER BY due_at_ms, scope, session LIMIT :limit
"""  # noqa: S608 - a constant


def read_records(
    connection: apsw.Connection, scope: str, session: SessionId, after: int = 0, limit: int = 1000
) -> tuple[Record, ...]:
    """Return records in order. See `Store.read`."""
    records = fetch_records(connection, scope, session, after, max(0, limit))
    if records and records[0].seq == after + 1:
        return records  # the usual case, with one statement
    there = known(connection, scope, session)
    if after + 1 < there.first_seq:
        raise Trimmed(session, first=there.first_seq)
    return records


def known(connection: apsw.Connection, scope: str, session: SessionId) -> StoredSession:
    """Return a session, or raise SessionNotFound."""
    there = fetch_session(connection, scope, session)
    if there is not None:
        return there
    check_witness(connection, scope, session, None)
    # Only its neighbours in order, so that a wrong id costs the same among ten and among a million.
    beside = [
        row[0]
        for order in ("< ? ORDER BY session DESC", "> ? ORDER BY session")
        for row in connection.execute(
            f"SELECT session FROM session WHERE scope = ? AND session {order} LIMIT ?",  # noqa: S608 - one of two
            (scope, session, NEIGHBOURS),
        )
    ]
    raise session_not_found(session, beside)


def find_sessions(
    connection: apsw.Connection,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    *,
    after: tuple[str, str] | None = None,
    limit: int = 100,
) -> tuple[StoredSession, ...]:
    """Return sessions ordered by scope and id. See `Store.find`."""
    conditions, values = _conditions(filters)
    if after is not None:
        conditions.append("(scope, session) > (?, ?)")
        values += after
    return _select(connection, conditions, "scope, session", values, limit)


def newest_sessions(
    connection: apsw.Connection,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    *,
    before: tuple[int, str] | None = None,
    limit: int = 100,
) -> tuple[StoredSession, ...]:
    """Return the sessions that were opened last. See `Store.newest`."""
    conditions, values = _conditions(filters)
    if before is not None:
        conditions.append("(opened_at_ms, session) < (?, ?)")
        values += before
    return _select(connection, conditions, "opened_at_ms DESC, session DESC", values, limit)


def _conditions(filters: Filters) -> tuple[list[str], list[object]]:
    conditions, values = ["1"], list[object]()
    # Without `likely`, SQLite takes rows of one scope for few, and searches all of them instead of using a better index.
    for condition, value in (
        ("likely(scope = ?)", filters.scope),
        ("root = ?", filters.root),
        ("node = ?", filters.node),
        ("owner = ?", filters.owner),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    # Literals instead of parameters: a partial index is used only if its condition is visible.
    for column, is_so in (("is_working", filters.is_working), ("has_ended", filters.has_ended)):
        if is_so is not None:
            conditions.append(f"{column} = {int(is_so)}")
    if filters.only_roots:
        conditions.append("session = root")
    for order, bound in (("<", filters.written_before_ms), (">=", filters.written_after_ms)):
        if bound is not None:
            conditions.append(f"written_at_ms {order} ?")
            values.append(bound)
    return conditions, values


def _select(
    connection: apsw.Connection, conditions: list[str], order: str, values: list[object], limit: int
) -> tuple[StoredSession, ...]:
    statement = (
        f"SELECT {SESSION_COLUMNS} FROM session WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?"  # noqa: S608 - our own words
    )
    return tuple(map(session_of, connection.execute(statement, (*values, max(0, limit)))))


def orphans_of(
    connection: apsw.Connection, lease: NodeLease, limit: int = 100, *, after: tuple[str, str] | None = None
) -> tuple[StoredSession, ...]:
    """Return roots of trees with unfinished work whose owner is not alive, in order, after a position."""
    scope, session = after or ("", "")
    asked = {"scope": scope, "session": session, "since": lease.since_ms, "limit": max(0, limit)}
    return tuple(map(session_of, connection.execute(_ORPHANS, asked)))


def due_sessions(
    connection: apsw.Connection, lease: NodeLease, within_ms: int = 0, limit: int = 100
) -> tuple[StoredSession, ...]:
    """Return sessions without a living owner whose timer is due. See `Store.due`."""
    asked = {"at": lease.now_ms + within_ms, "since": lease.since_ms, "limit": max(0, limit)}
    return tuple(map(session_of, connection.execute(_DUE, asked)))


_SIZE: Final = """
SELECT (SELECT ifnull(sum(length(body) + octet_length(does)), 0) FROM record WHERE scope = ?1 AND session = ?2)
    + (SELECT ifnull(sum(length(state)), 0) FROM snapshot WHERE scope = ?1 AND session = ?2)
    + (SELECT ifnull(sum(length(content)), 0) FROM blob_use JOIN blob USING (digest) WHERE scope = ?1 AND session = ?2)
"""


def size_of(connection: apsw.Connection, scope: str, session: SessionId) -> int:
    """Return the size of one session in bytes, without its tree. See `Store.size`."""
    return int(connection.execute(_SIZE, (scope, session)).get or 0)


def kept_snapshots(
    connection: apsw.Connection, scope: str, session: SessionId, at_most: int | None = None
) -> tuple[StoredSnapshot, ...]:
    """Return the snapshots up to a record number, the newest first."""
    statement = f"""SELECT {SNAPSHOT_COLUMNS} FROM snapshot WHERE scope = ?1 AND session = ?2 AND (?3 IS NULL OR seq <= ?3)
        ORDER BY seq DESC"""  # noqa: S608 - a constant
    return tuple(map(snapshot_from_row, connection.execute(statement, (scope, session, at_most))))
