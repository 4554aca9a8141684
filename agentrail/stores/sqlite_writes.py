"""Writes of `SqliteStore`, each within a transaction of its caller, including the fence. Reads no clock.

A session's row repeats its last record and is advanced only from number and epoch before the new records.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

import apsw
from msgspec.structs import replace

from agentrail.abc.store import (
    Append,
    Opening,
    Standing,
    StoredSession,
    StoredSnapshot,
    Taken,
    TakeOver,
)
from agentrail.core.journal.record import ERASED, Tail
from agentrail.errors import AgentrailError, Fenced, HeldBy, OptionError, SessionNotFound
from agentrail.messages import SessionId
from agentrail.stores.append_rules import (
    KEPT_SNAPSHOTS,
    AppendRefusal,
    NodeLease,
    append_in_groups,
    check_dense,
    check_quota,
    check_same_opening,
    check_take,
    checked_root,
    decide_append,
    resets_deaths,
    takeover_record,
)
from agentrail.stores.sqlite_nodes import END_CLAIM, fetch_node
from agentrail.stores.sqlite_queries import known
from agentrail.stores.sqlite_rows import (
    PUT_RECORD,
    PUT_SESSION,
    PUT_SNAPSHOT,
    SESSION_COLUMNS,
    SqliteRow,
    check_witness,
    fetch_session,
    opened_row,
    paged_journal,
    row_of,
    session_of,
    standing_row,
)

_ADVANCE: Final = """
UPDATE session SET last_seq = ?2, hash = ?3, events = ?4, written_at_ms = ?5, codec = max(codec, ?10)
WHERE scope = ?6 AND session = ?7 AND last_seq = ?8 AND epoch = ?9
RETURNING ?1
"""

_ADVANCE_AND_STAND: Final = """
UPDATE session SET last_seq = ?2, hash = ?3, events = ?4, written_at_ms = ?5, codec = max(codec, ?10),
    is_working = ?11, has_ended = ?12, waits_for = ?13, due_at_ms = ?14, title = ?15
WHERE scope = ?6 AND session = ?7 AND last_seq = ?8 AND epoch = ?9
RETURNING ?1
"""

_RESET_DEATHS: Final = """
UPDATE session SET deaths = 0 WHERE deaths > 0
AND (scope, session) = (SELECT scope, root FROM session WHERE scope = ? AND session = ?)
"""

_COUNT_OPEN_ROOTS: Final = "SELECT count(*) FROM session WHERE owner = ? AND session = root AND has_ended = 0"

Standings: TypeAlias = dict[tuple[str, str], Standing]
"""Standings in the file, by scope and id, as known to the writing connection. Cleared whenever in doubt."""

_MAX_KNOWN: Final = 20_000


def create_journal(connection: apsw.Connection, opening: Opening, now: int) -> None:
    first = opening.records[0]
    check_dense(opening.records, is_one_epoch=bool(opening.node))  # an imported journal had several owners
    there = fetch_session(connection, first.scope, first.session)
    if there is not None:
        check_same_opening(opening, there, paged_journal(connection, there))
        return
    check_witness(connection, first.scope, first.session, None)
    _check_tree(connection, opening)
    check_quota(opening, lambda owner: int(connection.execute(_COUNT_OPEN_ROOTS, (owner,)).get or 0))
    connection.execute(PUT_SESSION, opened_row(opening, now))
    connection.executemany(PUT_RECORD, map(row_of, opening.records))
    _keep_blobs(connection, first.scope, first.session, opening.blobs.items())


def _check_tree(connection: apsw.Connection, opening: Opening) -> None:
    first = opening.records[0]
    if opening.root != first.session:
        top = known(connection, first.scope, opening.root)
        if top.node != opening.node:
            raise Fenced(first.session, durable_up_to=0)


# --- the fence


def append_batch(
    connection: apsw.Connection, batch: Sequence[Append], now: int, known: Standings
) -> tuple[AppendRefusal | None, ...]:
    return append_in_groups(
        batch,
        lambda appends: _advance_all(connection, appends, now, known),
        lambda one: _append_alone(connection, one, now, known),
    )


def _advance_all(
    connection: apsw.Connection, appends: Sequence[Append], now: int, known: Standings
) -> set[int]:
    is_in: set[int] = set()
    same: list[SqliteRow] = []
    changed: list[SqliteRow] = []
    for place, one in enumerate(appends):
        first, last = one.records[0], one.records[-1]
        row = (
            *(place, last.seq, last.hash, last.events, now),
            *(first.scope, first.session, first.seq - 1, first.epoch, one.codec),
        )
        # Most records leave the standing of their session unchanged, and updating it would rewrite each of
        # its indexes.
        if known.get((one.scope, one.session)) == one.standing:
            same.append(row)
        else:
            changed.append((*row, *standing_row(one.standing)))
    for statement, rows in ((_ADVANCE, same), (_ADVANCE_AND_STAND, changed)):
        if rows:
            is_in.update(place for (place,) in connection.executemany(statement, rows))
    written = [one for place, one in enumerate(appends) if place in is_in]
    connection.executemany(PUT_RECORD, (row_of(record) for one in written for record in one.records))
    if connection.execute("SELECT 1 FROM session WHERE deaths > 0 LIMIT 1").get:
        shown = [(one.scope, one.session) for one in written if resets_deaths(one.records)]
        connection.executemany(_RESET_DEATHS, shown)
    for one in written:
        known[(one.scope, one.session)] = one.standing
        if one.blobs:
            _keep_blobs(connection, one.scope, one.session, one.blobs.items())
    if len(known) > _MAX_KNOWN:
        known.clear()
    return is_in


def _append_alone(
    connection: apsw.Connection, one: Append, now: int, known: Standings
) -> AppendRefusal | None:
    """Write the missing rest of an append that is partly stored, or return why it is refused."""
    there = fetch_session(connection, one.scope, one.session)
    check_witness(connection, one.scope, one.session, there)
    missing = decide_append(one, None if there is None else paged_journal(connection, there))
    if not isinstance(missing, tuple):
        return missing
    # A repeated append changes nothing. In particular it must not restore an older standing of the session.
    if missing:
        _advance_all(connection, [replace(one, records=missing)], now, known)
    return None


# --- owners


def take_over_tree(connection: apsw.Connection, lease: NodeLease, wanted: TakeOver) -> Taken:
    scope, root, node, now = wanted.scope, wanted.root, wanted.node, lease.now_ms
    top = checked_root(known(connection, scope, root))
    claimed_by = connection.execute(
        "SELECT claimed_by FROM session WHERE scope = ? AND session = ?", (scope, root)
    ).get
    check_take(wanted, top, claimed_by, partial(fetch_node, connection), lease)
    taker = fetch_node(connection, node)
    taken: list[StoredSession] = []
    connection.execute(
        "UPDATE session SET node = ?, claimed_by = '' WHERE root = ? AND likely(scope = ?)",
        (node, root, scope),
    )
    for one in tree_of(connection, scope, root):
        check_witness(connection, scope, one.session, one)
        if not one.standing.has_ended:
            record = takeover_record(
                one, node=node, cause=wanted.cause, engine=taker.version if taker else "", now=now
            )
            after = Tail(seq=record.seq, epoch=record.epoch, hash=record.hash)
            connection.execute(PUT_RECORD, row_of(record))
            connection.execute(
                "UPDATE session SET last_seq = ?, epoch = ?, hash = ?, written_at_ms = ? WHERE scope = ? AND session = ?",
                (after.seq, after.epoch, after.hash, now, scope, one.session),
            )
            taken.append(replace(one, tail=after, written_at_ms=now))
        elif one.session == root:
            taken.append(one)
    return Taken(sessions=tuple(taken))


def take_over_trees(
    connection: apsw.Connection, lease: NodeLease, wanted: Sequence[TakeOver]
) -> tuple[Taken | AgentrailError, ...]:
    """Transfer many trees in one transaction, each completely or not at all. See `ManyTaker.take_many`."""
    answers: list[Taken | AgentrailError] = []
    for one in wanted:
        try:
            with connection:  # a savepoint: a refused tree leaves nothing in the shared transaction
                answers.append(take_over_tree(connection, lease, one))
        except (SessionNotFound, OptionError, HeldBy) as error:
            answers.append(error)
    return tuple(answers)


def tree_of(connection: apsw.Connection, scope: str, root: SessionId) -> list[StoredSession]:
    statement = f"SELECT {SESSION_COLUMNS} FROM session WHERE root = ? AND likely(scope = ?) ORDER BY session <> root, session"  # noqa: S608 - a constant
    return list(map(session_of, connection.execute(statement, (root, scope))))


def release_tree(connection: apsw.Connection, node: str, scope: str, root: SessionId) -> None:
    """Remove the owner and the reservation of a tree. See `Store.release`."""
    connection.execute(
        f"""UPDATE session SET {END_CLAIM}, node = iif(node = ?3, '', node) WHERE root = ?1 AND likely(scope = ?2)
        AND EXISTS (SELECT 1 FROM session AS top WHERE top.scope = ?2 AND top.session = ?1 AND ?3 IN (top.node, top.claimed_by))""",  # noqa: S608 - a constant
        (root, scope, node),
    )


# --- snapshots and large values


def keep_snapshot(connection: apsw.Connection, snapshot: StoredSnapshot) -> None:
    """Store a snapshot, unless its session was deleted or erased. Each session keeps its last two."""
    key = (snapshot.scope, snapshot.session)
    if fetch_session(connection, *key) is None:
        return
    kind = "SELECT kind FROM record WHERE scope = ? AND session = ? AND seq = ?"
    if connection.execute(kind, (*key, snapshot.seq)).get == ERASED:
        return
    connection.execute(PUT_SNAPSHOT, row_of(snapshot))
    connection.execute(
        """DELETE FROM snapshot WHERE scope = ?1 AND session = ?2 AND seq NOT IN
        (SELECT seq FROM snapshot WHERE scope = ?1 AND session = ?2 ORDER BY seq DESC LIMIT ?3)""",
        (*key, KEPT_SNAPSHOTS),
    )


def _keep_blobs(
    connection: apsw.Connection, scope: str, session: str, blobs: Iterable[tuple[str, bytes]]
) -> None:
    for digest, content in blobs:
        connection.execute("INSERT OR IGNORE INTO blob VALUES (?, ?)", (digest, content))
        connection.execute("INSERT OR IGNORE INTO blob_use VALUES (?, ?, ?)", (scope, session, digest))
