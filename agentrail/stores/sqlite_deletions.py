"""Deletions of `SqliteStore`, within a transaction of the caller. Deleted data is overwritten (`secure_delete`).

Copies of the file, from an upgrade or a salvage, still contain it until operators delete them.
"""

from functools import partial
from typing import Final

import apsw

from agentrail.abc.store import Erasure, Standing, StoredSession
from agentrail.core.journal.erasure import closing_record, erased_record, is_erased
from agentrail.core.journal.record import ERASED
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
from agentrail.stores.sqlite_nodes import fetch_node
from agentrail.stores.sqlite_queries import kept_snapshots, known
from agentrail.stores.sqlite_rows import (
    PUT_RECORD,
    check_witness,
    fetch_records,
    row_of,
    standing_row,
)
from agentrail.stores.sqlite_writes import tree_of

_BYTES_OF: tuple[str, ...] = (
    "SELECT sum(length(body) + octet_length(does)) FROM record WHERE scope = ? AND session = ?",
    "SELECT sum(length(state)) FROM snapshot WHERE scope = ? AND session = ?",
)


def delete_tree(
    connection: apsw.Connection, scope: str, root: SessionId, written_before_ms: int | None, lease: NodeLease
) -> int:
    top = checked_root(known(connection, scope, root))
    forks = connection.execute(
        """SELECT session FROM session WHERE likely(scope = ?1) AND root <> ?2 AND unlikely(forked_from IN
        (SELECT session FROM session WHERE root = ?2 AND likely(scope = ?1)))""",
        (scope, root),
    )
    tree = tree_of(connection, scope, root)
    written_at_ms = max(one.written_at_ms for one in tree)
    check_deletion(root, [row[0] for row in forks], written_at_ms, written_before_ms)
    owner = fetch_node(connection, top.node)
    check_left(root, [one.standing for one in tree], owner, lease)
    removed = 0
    for one in tree:
        for statement in _BYTES_OF:
            removed += connection.execute(statement, (scope, one.session)).get or 0
        digests = _digests_of(connection, scope, one.session)
        connection.execute("DELETE FROM session WHERE scope = ? AND session = ?", (scope, one.session))
        for digest in digests:
            removed += _drop_blob(connection, digest) or 0
    return removed


def _digests_of(connection: apsw.Connection, scope: str, session: str) -> list[str]:
    found = connection.execute(
        "SELECT digest FROM blob_use WHERE scope = ? AND session = ?", (scope, session)
    )
    return [str(row[0]) for row in found]


def _drop_blob(connection: apsw.Connection, digest: str) -> int | None:
    """Delete a large value that no session uses, and return its size, or None if it is still used."""
    statement = """DELETE FROM blob WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE digest = ?1)
        RETURNING length(content)"""
    row = connection.execute(statement, (digest,)).fetchone()
    return None if row is None else int(row[0])


# --- erasing content

_PAGE: Final = 500
"""Records that are read and rewritten at a time."""

_ERASE_RECORD: Final = (
    "UPDATE record SET kind = ?, does = ?, body = ? WHERE scope = ? AND session = ? AND seq = ?"
)

_END_SESSION: Final = """
UPDATE session SET node = '', claimed_by = '', last_seq = ?, epoch = ?, hash = ?, written_at_ms = ?,
    is_working = ?, has_ended = ?, waits_for = ?, due_at_ms = ?, title = ?, owner = ''
WHERE scope = ? AND session = ?
"""
_LET_GO: Final = "UPDATE session SET node = '', claimed_by = '' WHERE scope = ? AND session = ?"
"""For a session that was erased before and taken since."""


def erase_tree(
    connection: apsw.Connection, scope: str, root: SessionId, why: str, lease: NodeLease
) -> Erasure:
    top = checked_root(known(connection, scope, root))
    tree = tree_of(connection, scope, root)
    owner = fetch_node(connection, top.node)
    check_left(root, [one.standing for one in tree], owner, lease)
    return sum((_erase_session(connection, one, why, lease.now_ms) for one in tree), Erasure())


def _erase_session(connection: apsw.Connection, one: StoredSession, why: str, now: int) -> Erasure:
    key = (one.scope, one.session)
    check_witness(connection, *key, one)
    end = fetch_records(connection, *key, one.tail.seq - 2, 2)
    records = 0
    if not is_erased(end, why):
        after, records = one.first_seq - 1, 0
        while page := fetch_records(connection, one.scope, one.session, after, _PAGE):
            changed = [erased_record(record, why) for record in page if record.kind != ERASED]
            rows = [(new.kind, new.does, new.body, new.scope, new.session, new.seq) for new in changed]
            connection.executemany(_ERASE_RECORD, rows)
            records += len(changed)
            after = page[-1].seq
        last = closing_record(end[-1], why, now)
        connection.execute(PUT_RECORD, row_of(last))
        row = (last.seq, last.epoch, last.hash, now, *standing_row(Standing(has_ended=True)))
        connection.execute(_END_SESSION, (*row, *key))
    else:
        connection.execute(_LET_GO, key)
    connection.execute("DELETE FROM snapshot WHERE scope = ? AND session = ?", key)
    snapshots = connection.changes()
    digests = _digests_of(connection, *key)
    connection.execute("DELETE FROM blob_use WHERE scope = ? AND session = ?", key)
    blobs = sum(_drop_blob(connection, digest) is not None for digest in digests)
    return Erasure(sessions=bool(records), records=records, snapshots=snapshots, blobs=blobs)


_MOST_IN_MEMORY: Final = 64 * 1024 * 1024
"""File size above which the copy uses an unnamed temporary file instead of memory."""


def write_anew(connection: apsw.Connection) -> None:
    """Rewrite a file outside of any transaction, so that nothing else remains in it. Readers may be active.

    `secure_delete` is not enough: a page that was split keeps copies of moved cells in the gap between its own.
    """
    size = connection.pragma("page_count") * connection.pragma("page_size")
    is_large = size > _MOST_IN_MEMORY
    if is_large:
        connection.pragma("temp_store", "file")
    try:
        connection.execute("VACUUM")
    finally:
        if is_large:
            connection.pragma("temp_store", "memory")


# --- trimming


def trim_journal(connection: apsw.Connection, scope: str, session: SessionId, before: int) -> int:
    """Drop records before a number. Their large values stay, because snapshots may refer to them."""
    there = known(connection, scope, session)
    check_trim(session, before, there.tail.seq)
    if before <= there.first_seq:
        return 0
    snapshots = kept_snapshots(connection, scope, session, None)
    read = partial(fetch_records, connection, scope, session)
    check_trim_has_snapshot(session, before, snapshots, read)
    forks = connection.execute(
        "SELECT session FROM session WHERE likely(scope = ?) AND forked_from = ? AND forked_at >= ? ORDER BY session",
        (scope, session, there.first_seq),
    )
    if by := [row[0] for row in forks]:
        raise StillNeeded(session, by=by)
    connection.execute(
        "DELETE FROM record WHERE scope = ? AND session = ? AND seq < ?", (scope, session, before)
    )
    dropped = connection.changes()
    connection.execute(
        "UPDATE session SET first_seq = ? WHERE scope = ? AND session = ?", (before, scope, session)
    )
    return dropped
