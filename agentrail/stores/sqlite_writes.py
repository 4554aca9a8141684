"""Writes of `SqliteStore`, each within a transaction of its caller, including the fence. Reads no clock.

A session's row repeats its last record and is advanced only from number and epoch before the new records.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import apsw
import msgspec

from agentrail.abc.store import (
    Append,
    Cause,
    Node,
    Opening,
    Standing,
    StoredSession,
    StoredSnapshot,
    Taken,
    TakeOver,
)
from agentrail.core.journal.record import ERASED, Record, sealed, tail_of, taken_draft
from agentrail.errors import AgentrailError, AlreadyExists, Fenced, HeldBy, OptionError, SessionNotFound
from agentrail.messages import SessionId
from agentrail.stores.sqlite_queries import known, known_root
from agentrail.stores.sqlite_rows import (
    PUT_RECORD,
    PUT_SESSION,
    PUT_SNAPSHOT,
    SESSION_COLUMNS,
    SqliteRow,
    check_witness,
    fetch_records,
    fetch_session,
    last_of_epoch,
    opened_row,
    row_of,
    session_of,
    standing_row,
)

_KEPT_SNAPSHOTS: Final = 2

_ADVANCE: Final = """
UPDATE session SET last_seq = ?2, hash = ?3, events = ?4, written_at_ms = ?5
WHERE scope = ?6 AND session = ?7 AND last_seq = ?8 AND epoch = ?9
RETURNING ?1
"""

_ADVANCE_AND_STAND: Final = """
UPDATE session SET last_seq = ?2, hash = ?3, events = ?4, written_at_ms = ?5,
    is_working = ?10, has_ended = ?11, waits_for = ?12, due_at_ms = ?13, title = ?14
WHERE scope = ?6 AND session = ?7 AND last_seq = ?8 AND epoch = ?9
RETURNING ?1
"""

Standings: TypeAlias = dict[tuple[str, str], Standing]
"""Standings in the file, by scope and id, as known to the writing connection. Cleared whenever in doubt."""

_MAX_KNOWN: Final = 20_000


def create_journal(connection: apsw.Connection, opening: Opening, now: int) -> None:
    """Create a journal. See `Store.create`."""
    first = opening.records[0]
    check_dense(opening.records, is_one_epoch=bool(opening.node))  # an imported journal had several owners
    there = fetch_session(connection, first.scope, first.session)
    if there is None:
        check_witness(connection, first.scope, first.session, None)
        _check_tree(connection, opening)
        connection.execute(PUT_SESSION, opened_row(opening, now))
        connection.executemany(PUT_RECORD, map(row_of, opening.records))
        _keep_blobs(connection, first.scope, first.session, opening.blobs.items())
        return
    tail = tail_of(opening.records)
    is_same = (there.root, there.parent, there.forked_from) == (
        opening.root, opening.parent, opening.forked_from
    ) and _are_there(connection, opening.records, there)  # fmt: skip
    if is_same and there.tail.epoch > tail.epoch:
        raise Fenced(there.session, durable_up_to=last_of_epoch(connection, there, tail.epoch))
    if not is_same or there.node not in ("", opening.node):
        message = f"session {there.session!r} already exists: call resume_session, or choose another id"
        raise AlreadyExists(message)


def _check_tree(connection: apsw.Connection, opening: Opening) -> None:
    first = opening.records[0]
    if opening.root != first.session:
        top = known(connection, first.scope, opening.root)
        if top.node != opening.node:
            raise Fenced(first.session, durable_up_to=0)


def _are_there(connection: apsw.Connection, records: Sequence[Record], there: StoredSession) -> bool:
    """Whether all these records are stored. Trimmed ones cannot be compared."""
    if records[-1].seq > there.tail.seq:
        return False
    kept = tuple(record for record in records if record.seq >= there.first_seq)
    if not kept:
        return True
    first = kept[0]
    return fetch_records(connection, first.scope, first.session, first.seq - 1, len(kept)) == kept


def check_dense(records: Sequence[Record], *, is_one_epoch: bool = True) -> None:
    """Raise ValueError for records that no session could have written."""
    first, last = records[0], records[-1]
    if last.seq - first.seq + 1 != len(records) or (is_one_epoch and first.epoch != last.epoch):
        message = f"records {first.seq} to {last.seq} of session {first.session!r} are {len(records)}, of epochs {first.epoch} to {last.epoch}: expected numbers without gaps, and one epoch"
        raise ValueError(message)


# --- the fence


def append_batch(
    connection: apsw.Connection, batch: Sequence[Append], now: int, known: Standings
) -> tuple[Fenced | None, ...]:
    """Append records of many sessions. See `Store.append`."""
    for one in batch:
        check_dense(one.records)
    answers: list[Fenced | None] = [None] * len(batch)
    groups = _by_session(batch)
    joined = [(places, whole) for places in groups if (whole := _joined(batch, places)) is not None]
    advanced = _advance_all(connection, [one for _, one in joined], now, known)
    done = {places[0] for (places, _), is_in in zip(joined, advanced, strict=True) if is_in}
    for places in groups:
        if places[0] in done:
            continue
        refused: Fenced | None = None
        for place in places:
            found = _append_alone(connection, batch[place], now, known, is_behind_refused=refused is not None)
            refused = refused or found
            answers[place] = found
    return tuple(answers)


def _by_session(batch: Sequence[Append]) -> list[list[int]]:
    groups: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(batch):
        first = one.records[0]
        groups.setdefault((first.scope, first.session), []).append(place)
    return list(groups.values())


def _joined(batch: Sequence[Append], places: Sequence[int]) -> Append | None:
    if len(places) == 1:
        return batch[places[0]]
    records: list[Record] = []
    blobs: dict[str, bytes] = {}
    for place in places:
        one = batch[place]
        if records and (
            one.records[0].seq != records[-1].seq + 1 or one.records[0].epoch != records[-1].epoch
        ):
            return None
        records += one.records
        blobs.update(one.blobs)
    return Append(records=tuple(records), standing=batch[places[-1]].standing, blobs=blobs)


def _advance_all(
    connection: apsw.Connection, appends: Sequence[Append], now: int, known: Standings
) -> list[bool]:
    is_in = [False] * len(appends)
    same: list[SqliteRow] = []
    changed: list[SqliteRow] = []
    for place, one in enumerate(appends):
        row = _advance_of(place, one, now)
        # Most records leave the standing of their session unchanged, and updating it would rewrite each of
        # its indexes.
        if known.get((one.scope, one.session)) == one.standing:
            same.append(row)
        else:
            changed.append((*row, *standing_row(one.standing)))
    for statement, rows in ((_ADVANCE, same), (_ADVANCE_AND_STAND, changed)):
        if rows:
            for (place,) in connection.executemany(statement, rows):
                is_in[place] = True
    written = [one for one, is_written in zip(appends, is_in, strict=True) if is_written]
    connection.executemany(PUT_RECORD, (row_of(record) for one in written for record in one.records))
    for one in written:
        known[(one.scope, one.session)] = one.standing
        if one.blobs:
            _keep_blobs(connection, one.scope, one.session, one.blobs.items())
    if len(known) > _MAX_KNOWN:
        known.clear()
    return is_in


def _advance_of(place: int, one: Append, now: int) -> SqliteRow:
    first, last = one.records[0], one.records[-1]
    return (
        *(place, last.seq, last.hash, last.events, now),
        *(first.scope, first.session, first.seq - 1, first.epoch),
    )


def _append_alone(
    connection: apsw.Connection, one: Append, now: int, known: Standings, *, is_behind_refused: bool
) -> Fenced | None:
    """Write the missing rest of an append that is partly stored, or return why it is refused."""
    first = one.records[0]
    there = fetch_session(connection, first.scope, first.session)
    check_witness(connection, first.scope, first.session, there)
    if there is None:
        return Fenced(first.session, durable_up_to=0)
    overlap = one.records[: max(0, there.tail.seq - first.seq + 1)]
    missing = one.records[len(overlap) :]
    if (
        is_behind_refused
        or first.epoch != there.tail.epoch
        or first.seq > there.tail.seq + 1
        or (overlap and not _are_there(connection, overlap, there))
    ):
        return Fenced(first.session, durable_up_to=last_of_epoch(connection, there, first.epoch))
    # A repeated append changes nothing. In particular it must not restore an older standing of the session.
    if missing:
        _advance_all(connection, [msgspec.structs.replace(one, records=missing)], now, known)
    return None


# --- owners


def take_over_tree(  # noqa: PLR0913 - the arguments of the port, and the clock
    connection: apsw.Connection,
    scope: str,
    root: SessionId,
    node: str,
    cause: Cause,
    *,
    force: bool,
    now: int,
    lease: int,
) -> Taken:
    top = known_root(connection, scope, root)
    if top.node not in ("", node) and not force:
        check_not_held(connection, root, top.node, now=now, lease=lease)
    row = connection.execute("SELECT version FROM node WHERE id = ?", (node,)).fetchone()
    engine = "" if row is None else row[0]
    taken: list[StoredSession] = []
    connection.execute("UPDATE session SET node = ? WHERE root = ? AND scope = ?", (node, root, scope))
    for one in tree_of(connection, scope, root):
        check_witness(connection, scope, one.session, one)
        if not one.standing.has_ended:
            draft = taken_draft(node=node, cause=cause, engine=engine, at_ms=now, events=one.events)
            tail = msgspec.structs.replace(one.tail, epoch=one.tail.epoch + 1)
            (record,), after = sealed([draft], tail, scope=scope, session=one.session)
            connection.execute(PUT_RECORD, row_of(record))
            connection.execute(
                "UPDATE session SET last_seq = ?, epoch = ?, hash = ?, written_at_ms = ? WHERE scope = ? AND session = ?",
                (after.seq, after.epoch, after.hash, now, scope, one.session),
            )
            taken.append(msgspec.structs.replace(one, tail=after, written_at_ms=now))
        elif one.session == root:
            taken.append(one)
    return Taken(sessions=tuple(taken))


def take_over_trees(
    connection: apsw.Connection, wanted: Sequence[TakeOver], *, now: int, lease: int
) -> tuple[Taken | AgentrailError, ...]:
    """Transfer many trees, each completely or not at all."""
    answers: list[Taken | AgentrailError] = []
    for one in wanted:
        try:
            with connection:  # a savepoint: a refused tree leaves nothing in the shared transaction
                taken = take_over_tree(
                    connection,
                    one.scope,
                    one.root,
                    one.node,
                    one.cause,
                    force=one.force,
                    now=now,
                    lease=lease,
                )
        except (SessionNotFound, OptionError, HeldBy) as error:
            answers.append(error)
        else:
            answers.append(taken)
    return tuple(answers)


def tree_of(connection: apsw.Connection, scope: str, root: SessionId) -> list[StoredSession]:
    statement = f"SELECT {SESSION_COLUMNS} FROM session WHERE root = ? AND scope = ? ORDER BY session <> root, session"  # noqa: S608 - a constant
    return list(map(session_of, connection.execute(statement, (root, scope))))


def check_not_held(connection: apsw.Connection, root: SessionId, owner: str, *, now: int, lease: int) -> None:
    """Raise HeldBy if the owner is alive."""
    row = connection.execute(
        "SELECT address, seen_at_ms, is_gone FROM node WHERE id = ?", (owner,)
    ).fetchone()
    if row is not None and not row[2] and now - row[1] < lease:
        raise HeldBy(root, node=owner, address=row[0], seen_ago_ms=max(0, now - row[1]))


def release_tree(connection: apsw.Connection, node: str, scope: str, root: SessionId) -> None:
    connection.execute(
        "UPDATE session SET node = '' WHERE root = ? AND scope = ? AND node = ?", (root, scope, node)
    )


def hear_of(connection: apsw.Connection, node: Node, *, now: int, lease: int) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, 0)",
        (node.id, node.address, node.version, node.pid, node.boot, now),
    )
    connection.execute(
        """DELETE FROM node WHERE (is_gone = 1 OR seen_at_ms <= ?)
        AND NOT EXISTS (SELECT 1 FROM session WHERE session.node = node.id)""",
        (now - lease,),
    )


def forget_earlier_nodes(connection: apsw.Connection) -> None:
    connection.execute("UPDATE node SET is_gone = 1 WHERE is_gone = 0")


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
        (*key, _KEPT_SNAPSHOTS),
    )


def _keep_blobs(
    connection: apsw.Connection, scope: str, session: str, blobs: Iterable[tuple[str, bytes]]
) -> None:
    for digest, content in blobs:
        connection.execute("INSERT OR IGNORE INTO blob VALUES (?, ?)", (digest, content))
        connection.execute("INSERT OR IGNORE INTO blob_use VALUES (?, ?, ?)", (scope, session, digest))
