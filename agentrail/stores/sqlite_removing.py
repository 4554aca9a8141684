"""What `SqliteStore` removes: trees, and records before a number. Within a transaction that its caller has begun.

What is removed is overwritten in the file (`secure_delete`), and the log is emptied behind it. Copies that were made of the file
before, by a migration or for a salvage, hold it still; an operator removes those.
"""

import hashlib

import apsw

from agentrail.errors import HeldBy, OptionError, StillNeeded
from agentrail.messages import SessionId
from agentrail.stores.sqlite_reading import kept_snapshots, known, known_root
from agentrail.stores.sqlite_rows import fetch_records
from agentrail.stores.sqlite_writing import check_not_held, tree_of

_BYTES_OF: tuple[str, ...] = (
    "SELECT sum(length(body) + octet_length(does)) FROM record WHERE scope = ? AND session = ?",
    "SELECT sum(length(state)) FROM snapshot WHERE scope = ? AND session = ?",
)


def delete_tree(  # noqa: PLR0913 - what the port says, and the clock
    connection: apsw.Connection,
    scope: str,
    root: SessionId,
    *,
    now: int,
    lease: int,
    written_before_ms: int | None = None,
) -> int:
    """Remove a root with its tree; see `Store.delete`.

    Returns:
        How many bytes of records, snapshots and large values that were.

    Raises:
        SessionNotFound: There is none.
        OptionError: It is no root.
        StillNeeded: A fork needs it, a living node works on it, or it was written since.
    """
    top = known_root(connection, scope, root)
    forks = connection.execute(
        """SELECT session FROM session WHERE scope = ?1 AND root <> ?2 AND forked_from IN
        (SELECT session FROM session WHERE root = ?2 AND scope = ?1) ORDER BY session""",
        (scope, root),
    )
    if by := [row[0] for row in forks]:
        raise StillNeeded(root, by=by)
    tree = tree_of(connection, scope, root)
    if any(not one.standing.has_ended for one in tree):
        try:
            check_not_held(connection, root, top.node, now=now, lease=lease)
        except HeldBy as error:
            raise StillNeeded(root, by=[f"node {top.node}"]) from error
    written_at_ms = max(one.written_at_ms for one in tree)
    if written_before_ms is not None and written_at_ms >= written_before_ms:
        raise StillNeeded(root, by=[f"its own records: the last was written at {written_at_ms}"])
    removed = 0
    for one in tree:
        for statement in _BYTES_OF:
            removed += connection.execute(statement, (scope, one.session)).get or 0
        digests = connection.execute(
            "SELECT digest FROM blob_use WHERE scope = ? AND session = ?", (scope, one.session)
        ).fetchall()
        connection.execute("DELETE FROM session WHERE scope = ? AND session = ?", (scope, one.session))
        for (digest,) in digests:
            removed += _drop_blob(connection, str(digest))
    return removed


def _drop_blob(connection: apsw.Connection, digest: str) -> int:
    """Remove a large value that no session has any more, and say how large it was; 0 when one has it."""
    statement = """DELETE FROM blob WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE digest = ?1)
        RETURNING length(content)"""
    row = connection.execute(statement, (digest,)).fetchone()
    return 0 if row is None else int(row[0])


def trim_journal(connection: apsw.Connection, scope: str, session: SessionId, before: int) -> int:
    """Drop records before a number; see `Store.trim`. Large values of theirs stay: snapshots may name them.

    Returns:
        How many records that were.

    Raises:
        SessionNotFound: There is none.
        OptionError: No sound snapshot stands there or behind it, or it is beyond the end.
        StillNeeded: A fork needs what would be dropped.
    """
    there = known(connection, scope, session)
    if before > there.tail.seq:
        fault = f"before is {before}, and session {session!r} ends at {there.tail.seq}: name a record of it"
        raise OptionError([fault])
    if before <= there.first_seq:
        return 0
    if not _has_sound_snapshot(connection, scope, session, before):
        fault = f"session {session!r} has no sound snapshot at record {before} or behind it: trim to where one stands"
        raise OptionError([fault])
    forks = connection.execute(
        "SELECT session FROM session WHERE scope = ? AND forked_from = ? AND forked_at >= ? ORDER BY session",
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


def _has_sound_snapshot(connection: apsw.Connection, scope: str, session: SessionId, before: int) -> bool:
    for one in kept_snapshots(connection, scope, session, None):
        record = fetch_records(connection, scope, session, one.seq - 1, 1)
        is_of_this = bool(record) and (record[0].seq, record[0].hash) == (one.seq, one.hash)
        is_whole = one.check == hashlib.blake2b(one.hash + one.state, digest_size=16).digest()
        if one.seq >= before and is_of_this and is_whole:
            return True
    return False
