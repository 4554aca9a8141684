"""Writes of `PostgresStore` to journals, including the fence and changes of owners. Reads no clock but the server's.

A session's row repeats its last record, and is advanced only from number and epoch before the new records.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from agentrail.abc.store import Append, Node, Opening, StoredSession, StoredSnapshot, Taken, TakeOver
from agentrail.core.journal.record import ERASED, Record, Tail
from agentrail.errors import AgentrailError, Fenced, HeldBy, OptionError, SessionNotFound
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
from agentrail.stores.postgres_connections import (
    LostRaceError,
    PostgresConnection,
    bigints,
    byteas,
    columns,
    texts,
)
from agentrail.stores.postgres_nodes import END_CLAIM, run_named
from agentrail.stores.postgres_rows import (
    NODE_COLUMNS,
    SESSION_COLUMNS,
    SNAPSHOT_COLUMNS,
    PostgresRow,
    fetch_session,
    known,
    node_of,
    paged_journal,
    run_statement,
    session_of,
)

# --- records


def pack_records(records: Sequence[Record]) -> PostgresRow:
    """Return the arrays of `seq, at_ms, kind, body, does, events, hash`."""
    return columns(
        records, seq=bigints, at_ms=bigints, kind=texts, body=byteas, does=texts, events=bigints, hash=byteas
    )


_PUT_RECORDS: Final = """
INSERT INTO agentrail.record (scope, session, epoch, seq, at_ms, kind, body, does, events, hash)
SELECT * FROM unnest(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b)
"""


def put_records(connection: PostgresConnection, records: Sequence[Record]) -> None:
    keys = columns(records, scope=texts, session=texts, epoch=bigints)
    run_statement(connection, _PUT_RECORDS, *keys, *pack_records(records))


# --- openings

# `ON CONFLICT` alone would wait for a transaction that has changed the row of the node.
_ADD_NODES: Final = """INSERT INTO agentrail.node (id) SELECT DISTINCT new.id FROM unnest(%b) AS new (id)
    WHERE NOT EXISTS (SELECT 1 FROM agentrail.node WHERE node.id = new.id) ON CONFLICT DO NOTHING"""

_OPEN: Final = f"""
WITH owner AS ({_ADD_NODES})
INSERT INTO agentrail.session ({SESSION_COLUMNS}, owner)
SELECT %b, %b, %b, %b, %b::bytea, %b::bigint, %b, now.ms, now.ms, %b, %b, %b, %b, %b, %b, %b, %b, %b::bigint, %b, %b, 0, %b
FROM (SELECT agentrail.now_ms() AS ms) AS now
ON CONFLICT DO NOTHING RETURNING 1
"""  # noqa: S608 - a constant

# Roots of one user are counted one opening at a time. An allowance that is full is removed by a heartbeat.
_LOCK_OWNER: Final = """
INSERT INTO agentrail.allowance VALUES (%b, 0) ON CONFLICT (key) DO UPDATE SET full_at_ms = 0
"""
_COUNT_OPEN_ROOTS: Final = """
SELECT count(*) FROM agentrail.session WHERE owner = %b AND owner <> '' AND session = root AND NOT has_ended
"""


def create_journal(connection: PostgresConnection, opening: Opening) -> None:
    """Create a journal, in a transaction of the caller. See `Store.create`."""
    first = opening.records[0]
    check_dense(opening.records, is_one_epoch=bool(opening.node))  # an imported journal had several owners
    there = fetch_session(connection, first.scope, first.session)
    if there is not None:
        check_same_opening(opening, there, paged_journal(connection, there))
        return
    _check_tree(connection, opening)
    check_quota(opening, lambda owner: _count_open_roots(connection, owner))
    if not run_statement(connection, _OPEN, texts([opening.node]), *_opened_row(opening)):
        raise LostRaceError  # another node created it in between
    put_records(connection, opening.records)
    if opening.blobs:
        digests = sorted(opening.blobs)
        contents = byteas([opening.blobs[one] for one in digests])
        run_statement(connection, _PUT_BLOBS, texts(digests), contents)
        run_statement(connection, _USE_BLOBS, first.scope.encode(), first.session.encode(), texts(digests))


def _check_tree(connection: PostgresConnection, opening: Opening) -> None:
    """Lock the rows that must not change before the opening is stored, and check the owner of its tree."""
    first = opening.records[0]
    needed = [one for one in (opening.root, *(opening.forked_from or ())[:1]) if one != first.session]
    if needed:
        statement = """SELECT 1 FROM agentrail.session WHERE scope = %b AND session = ANY(%b)
            ORDER BY session FOR SHARE"""
        run_statement(connection, statement, first.scope.encode(), texts(map(str, needed)))
    if opening.root != first.session and known(connection, first.scope, opening.root).node != opening.node:
        raise Fenced(first.session, durable_up_to=0)


def _count_open_roots(connection: PostgresConnection, owner: str) -> int:
    run_statement(connection, _LOCK_OWNER, f"owner {owner}".encode())
    return int(run_statement(connection, _COUNT_OPEN_ROOTS, owner.encode())[0][0])


def _opened_row(opening: Opening) -> PostgresRow:
    first, last, standing = opening.records[0], opening.records[-1], opening.standing
    forked_from, forked_at = opening.forked_from or (None, None)
    return (
        *(first.scope.encode(), first.session.encode(), opening.root.encode(), opening.parent.encode()),
        *(None if forked_from is None else forked_from.encode(), forked_at, opening.node.encode()),
        *(first.seq, last.seq, last.epoch, last.hash, last.events),
        *(standing.is_working, standing.has_ended, standing.waits_for, standing.due_at_ms),
        *(standing.title.encode(), opening.codec, opening.owner.encode()),
    )


# A row that exists is locked, so that a deletion in another node, which found no use of it, does not remove it.
_PUT_BLOBS: Final = """
INSERT INTO agentrail.blob SELECT * FROM unnest(%b, %b) ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest
"""
_USE_BLOBS: Final = """
INSERT INTO agentrail.blob_use SELECT %b, %b, unnest(%b) ON CONFLICT DO NOTHING
"""

# --- the fence

_ADVANCE: Final = """
WITH advanced AS (
    UPDATE agentrail.session AS s
    SET last_seq = a.last_seq, hash = a.hash, events = a.events, written_at_ms = (SELECT agentrail.now_ms()),
        is_working = a.is_working = 1, has_ended = a.has_ended = 1, waits_for = a.waits_for, due_at_ms = a.due_at_ms, title = a.title,
        codec = greatest(s.codec, a.codec), deaths = CASE WHEN a.resets_deaths = 1 THEN 0 ELSE s.deaths END
    FROM unnest(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b) AS a (
        place, scope, session, before, epoch, last_seq, hash, events, is_working, has_ended, waits_for, due_at_ms, title, codec, resets_deaths)
    WHERE s.scope = a.scope AND s.session = a.session AND s.last_seq = a.before AND s.epoch = a.epoch
    RETURNING a.place, s.scope, s.session, s.epoch, s.root, a.resets_deaths
), outlived AS (  -- a row is updated once in a statement, and a root that is in the batch has its own records
    UPDATE agentrail.session AS top SET deaths = 0 FROM advanced AS one
    WHERE one.root <> one.session AND one.resets_deaths = 1 AND top.scope = one.scope AND top.session = one.root AND top.deaths > 0
    AND NOT EXISTS (SELECT 1 FROM advanced AS own WHERE own.scope = top.scope AND own.session = top.session)
), written AS (
    INSERT INTO agentrail.record (scope, session, epoch, seq, at_ms, kind, body, does, events, hash)
    SELECT advanced.scope, advanced.session, advanced.epoch, r.seq, r.at_ms, r.kind, r.body, r.does, r.events, r.hash
    FROM unnest(%b, %b, %b, %b, %b, %b, %b, %b) AS r (place, seq, at_ms, kind, body, does, events, hash)
    JOIN advanced ON advanced.place = r.place
)"""

_APPEND: Final = f"{_ADVANCE} SELECT place FROM advanced"  # noqa: S608 - a constant

_APPEND_WITH_BLOBS: Final = f"""{_ADVANCE}, used AS (
    INSERT INTO agentrail.blob_use
    SELECT advanced.scope, advanced.session, u.digest FROM unnest(%b, %b) AS u (place, digest) JOIN advanced ON advanced.place = u.place
    ON CONFLICT DO NOTHING
), kept AS (
    INSERT INTO agentrail.blob
    SELECT b.digest, b.content FROM unnest(%b, %b) AS b (digest, content) WHERE b.digest IN (
        SELECT u.digest FROM unnest(%b, %b) AS u (place, digest) JOIN advanced ON advanced.place = u.place)
    ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest
) SELECT place FROM advanced"""  # noqa: S608 - a constant


def append_batch(connection: PostgresConnection, batch: Sequence[Append]) -> tuple[AppendRefusal | None, ...]:
    return append_in_groups(batch, partial(_advance_all, connection), partial(_append_alone, connection))


def _advance_all(connection: PostgresConnection, appends: Sequence[Append]) -> set[int]:
    """Write each append that fits, and return their places."""
    if not appends:
        return set()
    # Rows are locked in this order, the one in which `take` locks them.
    order = sorted(range(len(appends)), key=lambda place: (appends[place].scope, appends[place].session))
    values = (*_pack_advances(order, appends), *_pack_all_records(order, appends))
    if any(one.blobs for one in appends):
        values += _pack_blobs(appends)
        return {row[0] for row in run_statement(connection, _APPEND_WITH_BLOBS, *values)}
    return {row[0] for row in run_statement(connection, _APPEND, *values)}


def _pack_advances(order: Sequence[int], appends: Sequence[Append]) -> PostgresRow:
    some = [appends[place] for place in order]
    firsts, lasts = [one.records[0] for one in some], [one.records[-1] for one in some]
    standings = [one.standing for one in some]
    return (
        bigints(order),
        *columns(firsts, scope=texts, session=texts),
        bigints([one.seq - 1 for one in firsts]),
        *columns(firsts, epoch=bigints),
        *columns(lasts, seq=bigints, hash=byteas, events=bigints),
        *columns(standings, is_working=bigints, has_ended=bigints, waits_for=bigints),
        *columns(standings, due_at_ms=bigints, title=texts),
        *columns(some, codec=bigints),
        bigints([resets_deaths(one.records) for one in some]),
    )


def _pack_all_records(order: Sequence[int], appends: Sequence[Append]) -> PostgresRow:
    places = [place for place in order for _ in appends[place].records]
    return (bigints(places), *pack_records([record for place in order for record in appends[place].records]))


def _pack_blobs(appends: Sequence[Append]) -> PostgresRow:
    uses = [(place, digest) for place, one in enumerate(appends) for digest in one.blobs]
    contents = {digest: content for one in appends for digest, content in one.blobs.items()}
    digests = sorted(contents)  # locked in this order
    places = (bigints([place for place, _ in uses]), texts(digest for _, digest in uses))
    return (*places, texts(digests), byteas([contents[one] for one in digests]), *places)


def _append_alone(connection: PostgresConnection, one: Append) -> AppendRefusal | None:
    """Write the missing rest of an append that is partly stored, or return why it is refused."""
    there = fetch_session(connection, one.scope, one.session)
    missing = decide_append(one, None if there is None else paged_journal(connection, there))
    if not isinstance(missing, tuple):
        return missing
    # A repeated append changes nothing. In particular it must not restore an older standing of the session.
    if missing and not _advance_all(connection, [replace(one, records=missing)]):
        raise LostRaceError  # the owner changed in between
    return None


# --- owners

_TREE: Final = f"""
SELECT {", ".join(f"s.{name}" for name in SESSION_COLUMNS.split(", "))}, s.claimed_by
FROM agentrail.session AS s JOIN unnest(%b, %b) AS w (scope, root) ON s.scope = w.scope AND s.root = w.root
ORDER BY s.scope, s.session FOR UPDATE OF s
"""  # noqa: S608 - a constant

_OWN: Final = f"""
WITH owner AS ({_ADD_NODES})
UPDATE agentrail.session AS s SET node = t.node, claimed_by = '', last_seq = t.last_seq, epoch = t.epoch, hash = t.hash,
    written_at_ms = t.written_at_ms
FROM unnest(%b, %b, %b, %b, %b, %b, %b) AS t (node, scope, session, last_seq, epoch, hash, written_at_ms)
WHERE s.scope = t.scope AND s.session = t.session
"""  # noqa: S608 - a constant

_RELEASE: Final = f"""
UPDATE agentrail.session AS s SET {END_CLAIM}, node = CASE s.node WHEN %(node)b THEN '' ELSE s.node END
FROM (
    SELECT scope, session FROM agentrail.session
    WHERE scope = %(scope)b AND session = %(root)b AND (node = %(node)b OR claimed_by = %(node)b) FOR UPDATE
) AS top WHERE s.root = top.session AND s.scope = top.scope RETURNING 1
"""  # noqa: S608 - a constant


class TreeRows(msgspec.Struct, frozen=True, kw_only=True):
    """A locked tree: its sessions in order of their keys, and the node that reserved its root."""

    sessions: tuple[StoredSession, ...]
    claimed_by: str


def lock_trees(
    connection: PostgresConnection, roots: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], TreeRows]:
    """Lock all rows of trees in order of their keys, and return them."""
    values = (texts(scope for scope, _ in roots), texts(root for _, root in roots))
    # Twice: a child that was created while this waited for the root's row is seen by the second statement.
    run_statement(connection, _TREE, *values)
    found: dict[tuple[str, str], TreeRows] = {}
    for row in run_statement(connection, _TREE, *values):
        one = session_of(row[:-1])
        key = (one.scope, one.root)
        there = found.get(key, TreeRows(sessions=(), claimed_by=""))
        claimed_by = row[-1].decode() if one.session == one.root else there.claimed_by
        found[key] = TreeRows(sessions=(*there.sessions, one), claimed_by=claimed_by)
    return found


def fetch_nodes(connection: PostgresConnection, names: Iterable[str]) -> dict[str, Node]:
    statement = f"SELECT {NODE_COLUMNS} FROM agentrail.node WHERE id = ANY(%b) AND seen_at_ms > 0"  # noqa: S608 - a constant
    return {
        one.id: one for one in map(node_of, run_statement(connection, statement, texts(sorted(set(names)))))
    }


def server_now_ms(connection: PostgresConnection) -> int:
    return int(run_statement(connection, "SELECT agentrail.now_ms()")[0][0])


def take_trees(
    connection: PostgresConnection, wanted: Sequence[TakeOver], lease_ms: int
) -> tuple[Taken | AgentrailError, ...]:
    """Transfer trees, each completely or not at all, in a transaction of the caller. See `ManyTaker.take_many`."""
    trees = lock_trees(connection, [(one.scope, one.root) for one in wanted])
    holders = [name for tree in trees.values() for name in (tree.claimed_by, tree.sessions[0].node)]
    nodes = fetch_nodes(connection, [*holders, *(one.node for one in wanted)])
    lease = NodeLease(server_now_ms(connection), lease_ms)
    answers: list[Taken | AgentrailError] = []
    changed: dict[tuple[str, str], StoredSession] = {}
    records: list[Record] = []
    for one in wanted:
        try:
            tree = trees.get((one.scope, one.root)) or _missing_tree(connection, one)
            top = next(session for session in tree.sessions if session.session == one.root)
            check_take(one, top, tree.claimed_by, nodes.get, lease)
        except (SessionNotFound, OptionError, HeldBy) as error:
            answers.append(error)
            continue
        after, written = _taken_over(tree, one, nodes, lease.now_ms)
        trees[one.scope, one.root] = after
        changed |= {(session.scope, session.session): session for session in after.sessions}
        records += written
        first = next(session for session in after.sessions if session.session == one.root)
        rest = [
            session for session in after.sessions if session is not first and not session.standing.has_ended
        ]
        answers.append(Taken(sessions=(first, *rest)))
    if changed:
        _own(connection, list(changed.values()))
        put_records(connection, records)
    return tuple(answers)


def _missing_tree(connection: PostgresConnection, one: TakeOver) -> TreeRows:
    checked_root(known(connection, one.scope, one.root))  # raises, unless it was created in between
    raise LostRaceError


def _taken_over(
    tree: TreeRows, wanted: TakeOver, nodes: Mapping[str, Node], now: int
) -> tuple[TreeRows, list[Record]]:
    engine = nodes[wanted.node].version if wanted.node in nodes else ""
    sessions: list[StoredSession] = []
    records: list[Record] = []
    for one in tree.sessions:
        owned = replace(one, node=wanted.node)
        if not one.standing.has_ended:
            record = takeover_record(one, node=wanted.node, cause=wanted.cause, engine=engine, now=now)
            records.append(record)
            tail = Tail(seq=record.seq, epoch=record.epoch, hash=record.hash)
            owned = replace(owned, tail=tail, written_at_ms=now)
        sessions.append(owned)
    return TreeRows(sessions=tuple(sessions), claimed_by=""), records


def _own(connection: PostgresConnection, sessions: Sequence[StoredSession]) -> None:
    nodes = texts(one.node for one in sessions)
    keys = columns(sessions, scope=texts, session=texts)
    tails = columns([one.tail for one in sessions], seq=bigints, epoch=bigints, hash=byteas)
    written = columns(sessions, written_at_ms=bigints)
    run_statement(connection, _OWN, nodes, nodes, *keys, *tails, *written)


def release_tree(connection: PostgresConnection, node: str, scope: str, root: str) -> None:
    """Clear the owner or the reservation of a tree, in a transaction of the caller. See `Store.release`."""
    lock_trees(connection, [(scope, root)])
    values = {"node": node.encode(), "scope": scope.encode(), "root": root.encode()}
    run_named(connection, _RELEASE, values)


# --- snapshots

_PUT_SNAPSHOT: Final = f"""
INSERT INTO agentrail.snapshot ({SNAPSHOT_COLUMNS}) VALUES (%b, %b, %b, %b, %b, %b)
ON CONFLICT (scope, session, seq) DO UPDATE SET hash = excluded.hash, state = excluded.state, checked = excluded.checked
"""  # noqa: S608 - a constant
_DROP_SNAPSHOTS: Final = """
DELETE FROM agentrail.snapshot WHERE scope = %b AND session = %b AND seq NOT IN (
    SELECT seq FROM agentrail.snapshot WHERE scope = %b AND session = %b ORDER BY seq DESC LIMIT %b)
"""


def keep_snapshot(connection: PostgresConnection, snapshot: StoredSnapshot) -> None:
    """Store a snapshot, unless its session was deleted or erased, in a transaction of the caller."""
    key = (snapshot.scope.encode(), snapshot.session.encode())
    lock = "SELECT 1 FROM agentrail.session WHERE scope = %b AND session = %b FOR KEY SHARE"
    kind = "SELECT kind FROM agentrail.record WHERE scope = %b AND session = %b AND seq = %b"
    if not run_statement(connection, lock, *key) or run_statement(connection, kind, *key, snapshot.seq) == [
        (ERASED.encode(),)
    ]:
        return
    run_statement(
        connection, _PUT_SNAPSHOT, *key, snapshot.seq, snapshot.hash, snapshot.state, snapshot.check
    )
    run_statement(connection, _DROP_SNAPSHOTS, *key, *key, KEPT_SNAPSHOTS)
