"""Deletions of `PostgresStore`, within a transaction of the caller. Nothing is overwritten: old row versions stay until the server reuses their space."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from agentrail.abc.store import Erasure, StoredSession
from agentrail.core.journal.erasure import closing_record, erased_record, is_erased
from agentrail.core.journal.record import ERASED
from agentrail.core.journal.session_owner import NO_OWNER
from agentrail.errors import StillNeeded
from agentrail.messages import SessionId
from agentrail.stores.append_rules import (
    NodeLease,
    check_deletion,
    check_left,
    check_trim,
    check_trim_has_snapshot,
    checked_root,
)
from agentrail.stores.postgres_connections import PostgresConnection, bigints, byteas, columns, texts
from agentrail.stores.postgres_rows import fetch_records, fetch_snapshots, known, run_statement
from agentrail.stores.postgres_writes import fetch_nodes, lock_trees, put_records, server_now_ms

_FORKS: Final = """
SELECT session FROM agentrail.session WHERE scope = %b AND root <> %b AND forked_from = ANY(%b) ORDER BY session
"""
_SIZE: Final = """
SELECT (SELECT coalesce(sum(length(body) + length(does)), 0) FROM agentrail.record WHERE scope = %b AND session = ANY(%b))
    + (SELECT coalesce(sum(length(state)), 0) FROM agentrail.snapshot WHERE scope = %b AND session = ANY(%b))
"""
_PAGE: Final = 500
"""Records that are read and rewritten at a time."""


def _locked_tree(
    connection: PostgresConnection, scope: str, root: SessionId
) -> tuple[StoredSession, tuple[StoredSession, ...]]:
    """Return a root, and its tree, after locking all rows."""
    tree = lock_trees(connection, [(scope, root)])
    top = checked_root(known(connection, scope, root))
    return top, tree[scope, root].sessions


def _check_left(
    connection: PostgresConnection, top: StoredSession, tree: Sequence[StoredSession], lease_ms: int
) -> int:
    """Check that a tree may be removed, and return the server's time."""
    lease = NodeLease(server_now_ms(connection), lease_ms)
    owner = fetch_nodes(connection, [top.node]).get(top.node)
    check_left(top.session, [one.standing for one in tree], owner, lease)
    return lease.now_ms


def delete_tree(
    connection: PostgresConnection,
    lease_ms: int,
    scope: str,
    session: SessionId,
    *,
    written_before_ms: int | None = None,
) -> int:
    top, tree = _locked_tree(connection, scope, session)
    names = texts(one.session for one in tree)
    forks = [
        row[0].decode() for row in run_statement(connection, _FORKS, scope.encode(), session.encode(), names)
    ]
    check_deletion(session, forks, max(one.written_at_ms for one in tree), written_before_ms)
    _check_left(connection, top, tree, lease_ms)
    ((size,),) = run_statement(connection, _SIZE, scope.encode(), names, scope.encode(), names)
    freed = _drop_contents(connection, scope, tree)[1]
    for table in ("record", "session"):
        statement = f"DELETE FROM agentrail.{table} WHERE scope = %b AND session = ANY(%b)"  # noqa: S608 - one of two
        run_statement(connection, statement, scope.encode(), names)
    return int(size) + freed


def _drop_contents(
    connection: PostgresConnection, scope: str, tree: Sequence[StoredSession]
) -> tuple[int, int, int]:
    """Drop snapshots and unshared large values of sessions.

    Returns:
        Number of values, their bytes, and number of snapshots.
    """
    keys = (scope.encode(), texts(one.session for one in tree))
    shots = run_statement(
        connection, "DELETE FROM agentrail.snapshot WHERE scope = %b AND session = ANY(%b) RETURNING 1", *keys
    )
    used = run_statement(
        connection,
        "DELETE FROM agentrail.blob_use WHERE scope = %b AND session = ANY(%b) RETURNING digest",
        *keys,
    )
    digests = byteas(sorted({row[0] for row in used}))
    # Locked before the uses are looked at, because an append in another node locks a value before it uses it.
    run_statement(
        connection, "SELECT 1 FROM agentrail.blob WHERE digest = ANY(%b) ORDER BY digest FOR UPDATE", digests
    )
    statement = """DELETE FROM agentrail.blob AS b WHERE digest = ANY(%b)
        AND NOT EXISTS (SELECT 1 FROM agentrail.blob_use AS u WHERE u.digest = b.digest) RETURNING length(content)"""
    sizes = [row[0] for row in run_statement(connection, statement, digests)]
    return len(sizes), sum(sizes), len(shots)


# --- erasing content

_ERASE_RECORDS: Final = """
UPDATE agentrail.record AS r SET kind = e.kind, does = e.does, body = e.body
FROM unnest(%b, %b, %b, %b) AS e (seq, kind, does, body) WHERE r.scope = %b AND r.session = %b AND r.seq = e.seq
"""
_END_SESSION: Final = """
UPDATE agentrail.session SET node = '', claimed_by = '', last_seq = %b, epoch = %b, hash = %b, written_at_ms = %b,
    is_working = false, has_ended = true, waits_for = 0, due_at_ms = NULL, title = '', owner = %b
WHERE scope = %b AND session = %b
"""
_LET_GO: Final = "UPDATE agentrail.session SET node = '', claimed_by = '' WHERE scope = %b AND session = %b"


def erase_tree(
    connection: PostgresConnection, lease_ms: int, scope: str, session: SessionId, why: str
) -> Erasure:
    top, tree = _locked_tree(connection, scope, session)
    now = _check_left(connection, top, tree, lease_ms)
    return sum((_erase_session(connection, one, why, now) for one in tree), Erasure())


def _erase_session(connection: PostgresConnection, one: StoredSession, why: str, now: int) -> Erasure:
    key = (one.scope.encode(), one.session.encode())
    end = fetch_records(connection, one.scope, one.session, one.tail.seq - 2, 2)
    records = 0
    if not is_erased(end, why):
        records = _erase_records(connection, one, why)
        last = closing_record(end[-1], why, now)
        put_records(connection, [last])
        run_statement(connection, _END_SESSION, last.seq, last.epoch, last.hash, now, NO_OWNER.encode(), *key)
    else:
        run_statement(connection, _LET_GO, *key)
    blobs, _, snapshots = _drop_contents(connection, one.scope, [one])
    return Erasure(sessions=bool(records), records=records, snapshots=snapshots, blobs=blobs)


def _erase_records(connection: PostgresConnection, one: StoredSession, why: str) -> int:
    after, count = one.first_seq - 1, 0
    while page := fetch_records(connection, one.scope, one.session, after, _PAGE):
        changed = [erased_record(record, why) for record in page if record.kind != ERASED]
        values = columns(changed, seq=bigints, kind=texts, does=texts, body=byteas)
        run_statement(connection, _ERASE_RECORDS, *values, one.scope.encode(), one.session.encode())
        count += len(changed)
        after = page[-1].seq
    return count


# --- trimming


def trim_journal(connection: PostgresConnection, scope: str, session: SessionId, before: int) -> int:
    """Drop records before a number. Their large values stay, because snapshots may refer to them."""
    key = (scope.encode(), session.encode())
    run_statement(
        connection, "SELECT 1 FROM agentrail.session WHERE scope = %b AND session = %b FOR UPDATE", *key
    )
    there = known(connection, scope, session)
    check_trim(session, before, there.tail.seq)
    if before <= there.first_seq:
        return 0
    snapshots = fetch_snapshots(connection, scope, session, None)
    read = partial(fetch_records, connection, scope, session)
    check_trim_has_snapshot(session, before, snapshots, read)
    forks = """SELECT session FROM agentrail.session
        WHERE scope = %b AND forked_from = %b AND forked_at >= %b ORDER BY session"""
    if by := [row[0].decode() for row in run_statement(connection, forks, *key, there.first_seq)]:
        raise StillNeeded(session, by=by)
    dropped = "DELETE FROM agentrail.record WHERE scope = %b AND session = %b AND seq < %b RETURNING 1"
    count = len(run_statement(connection, dropped, *key, before))
    first = "UPDATE agentrail.session SET first_seq = %b WHERE scope = %b AND session = %b"
    run_statement(connection, first, before, *key)
    return count
