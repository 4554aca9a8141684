"""Nodes of a `PostgresStore`: heartbeats, reservations, owed rows with owners, allowances."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from agentrail.abc.store import Beat, Heartbeats, Node, OwedRow, SharedDraw, StoredSession
from agentrail.messages import SessionId
from agentrail.stores.append_rules import FORGET_NODE_MS, draw_allowance
from agentrail.stores.postgres_connections import PostgresConnection, bigints, byteas, columns, texts
from agentrail.stores.postgres_rows import (
    NODE_COLUMNS,
    SESSION_COLUMNS,
    PostgresRow,
    node_of,
    owed_of,
    run_statement,
    session_of,
)

DEAD: Final = """
dead AS MATERIALIZED (
    SELECT id FROM agentrail.node, (SELECT agentrail.now_ms() AS ms) AS now
    WHERE id <> %(node)b AND (seen_at_ms = 0 OR gone_at_ms > 0 OR CASE WHEN %(all)b
        THEN now.ms - seen_at_ms >= %(lease)b ELSE (id, seen_at_ms) IN (SELECT * FROM unnest(%(silent)b, %(heard)b))
        AND NOT now.ms - seen_at_ms BETWEEN 0 AND %(lease)b - 1 END)
)"""
"""Common table of the nodes whose sessions may be taken, among them the empty id."""


def dead_values(node: str | None, silent: Heartbeats | None, lease: int) -> dict[str, object]:
    """Return the parameters of `DEAD`, for the node that looks or for none, which is the byte 255: no id contains it."""
    asking = b"\xff" if node is None else node.encode()
    watched = {} if silent is None else silent
    arrays = {"silent": texts(watched), "heard": bigints([*watched.values()])}
    return {"node": asking, "lease": lease, "all": silent is None, **arrays}


def run_named(
    connection: PostgresConnection, statement: str, values: Mapping[str, object]
) -> list[PostgresRow]:
    return connection.execute(statement.encode(), values, binary=True).fetchall()


# --- heartbeats

_BEAT: Final = f"""
WITH old AS (SELECT seen_at_ms, gone_at_ms FROM agentrail.node WHERE id = %(id)b FOR NO KEY UPDATE), put AS (
    INSERT INTO agentrail.node ({NODE_COLUMNS})
    SELECT %(id)b, %(address)b, %(version)b, %(pid)b, %(boot)b, %(load)b, %(codec)b, %(digest)b, %(lease_ms)b, agentrail.now_ms(), 0
    FROM (SELECT count(*) FROM old) AS first  -- a row that this statement has changed is not locked, and would be missing from `old`
    ON CONFLICT (id) DO UPDATE SET address = excluded.address, version = excluded.version, pid = excluded.pid, boot = excluded.boot,
        load = excluded.load, codec = excluded.codec, digest = excluded.digest, lease_ms = excluded.lease_ms, seen_at_ms = excluded.seen_at_ms, gone_at_ms = 0
    RETURNING seen_at_ms
)
SELECT put.seen_at_ms, coalesce(old.seen_at_ms, 0), coalesce(old.gone_at_ms, 0) FROM put LEFT JOIN old ON true
"""  # noqa: S608 - a constant

_OWNS: Final = """EXISTS (SELECT 1 FROM agentrail.session WHERE session.node = one.id)
OR EXISTS (SELECT 1 FROM agentrail.session WHERE claimed_by = one.id AND claimed_by <> '')
OR EXISTS (SELECT 1 FROM agentrail.owed WHERE owed.node = one.id)"""

# Locked rows are left to a later heartbeat: a node that stopped in a transaction must not hold up those of others.
_FORGET: Final = f"""
WITH now AS (SELECT agentrail.now_ms() AS ms), unused AS (
    SELECT key FROM agentrail.allowance WHERE full_at_ms <= (SELECT ms FROM now) FOR UPDATE SKIP LOCKED
), full_allowances AS (
    DELETE FROM agentrail.allowance WHERE key IN (SELECT key FROM unused)
), old AS (
    SELECT id FROM agentrail.node AS one WHERE id <> '' AND least(%b, (SELECT ms FROM now)) - seen_at_ms >= {FORGET_NODE_MS}
    AND NOT ({_OWNS}) FOR UPDATE SKIP LOCKED
)
DELETE FROM agentrail.node WHERE id IN (SELECT id FROM old)
"""  # noqa: S608 - a constant

_GONE: Final = """
UPDATE agentrail.node SET gone_at_ms = CASE gone_at_ms WHEN 0 THEN agentrail.now_ms() ELSE gone_at_ms END
WHERE id = %b AND seen_at_ms > 0 RETURNING 1
"""

_NODES: Final = f"""
SELECT {NODE_COLUMNS} FROM agentrail.node AS one, (SELECT agentrail.now_ms() AS ms) AS now
WHERE seen_at_ms > 0 AND (gone_at_ms = 0 AND now.ms - seen_at_ms < %b OR {_OWNS}) ORDER BY id
"""  # noqa: S608 - a constant


def hear_of(connection: PostgresConnection, node: Node) -> Beat:
    values = {
        name: value.encode() if isinstance(value, str) else value
        for name, value in msgspec.structs.asdict(node).items()
    }
    ((at_ms, before_ms, gone_at_ms),) = run_named(connection, _BEAT, values)
    return Beat(at_ms=at_ms, before_ms=before_ms, was_gone=gone_at_ms > 0)


def forget_nodes(connection: PostgresConnection, before_ms: int) -> None:
    """Remove rows of nodes that own nothing and are old as of a time, and unused allowances."""
    run_statement(connection, _FORGET, before_ms)


def report_gone(connection: PostgresConnection, node: str) -> bool:
    return bool(run_statement(connection, _GONE, node.encode()))


def known_nodes(connection: PostgresConnection, lease: int) -> tuple[Node, ...]:
    return tuple(map(node_of, run_statement(connection, _NODES, lease)))


# --- reservations

_TOP: Final = ", ".join(f"s.{name}" for name in SESSION_COLUMNS.split(", "))

END_CLAIM: Final = (
    "deaths = greatest(s.deaths - (s.node <> '' AND s.claimed_by <> '')::int, 0), claimed_by = ''"
)
"""Changes of a root `s` whose reservation ends without `take`. The death of an owner, which the reservation counted, is taken back."""

_END_OLD_CLAIMS: Final = f"""
WITH {DEAD}
UPDATE agentrail.session AS s SET {END_CLAIM}
FROM (
    SELECT scope, session FROM agentrail.session WHERE claimed_by = %(node)b AND claimed_by <> ''
    AND node <> ALL(ARRAY(SELECT id FROM dead)) FOR UPDATE SKIP LOCKED
) AS top WHERE s.scope = top.scope AND s.session = top.session RETURNING 1
"""  # noqa: S608 - a constant

# The conditions on `top` are tested again on a row that changed before it was locked.
_CLAIM: Final = f"""
WITH {DEAD}, chosen AS (
    SELECT top.scope, top.session, top.deaths - (top.claimed_by = %(node)b)::int AS deaths FROM agentrail.session AS top
    WHERE (top.scope, top.session) IN (
        SELECT scope, root FROM agentrail.session WHERE node = ANY(ARRAY(SELECT id FROM dead)) AND is_working AND NOT has_ended
        UNION SELECT scope, root FROM agentrail.session WHERE node = ANY(ARRAY(SELECT id FROM dead))
            AND due_at_ms IS NOT NULL AND due_at_ms <= (SELECT agentrail.now_ms()) + %(within)b AND NOT has_ended)
    AND (top.scope, top.session) NOT IN (SELECT * FROM unnest(%(scopes)b, %(roots)b))
    AND top.node = ANY(ARRAY(SELECT id FROM dead))
    AND (top.claimed_by = ANY(ARRAY(SELECT id FROM dead)) OR %(again)b AND top.claimed_by = %(node)b
        OR top.claimed_by <> %(node)b AND NOT EXISTS (SELECT 1 FROM agentrail.node WHERE id = top.claimed_by))
    AND NOT EXISTS (SELECT 1 FROM agentrail.session AS one WHERE one.root = top.session AND one.scope = top.scope AND one.codec > %(codec)b)
    ORDER BY top.deaths, top.scope, top.session LIMIT %(limit)b FOR UPDATE OF top SKIP LOCKED
)
UPDATE agentrail.session AS s SET claimed_by = %(node)b,
    deaths = s.deaths + (s.claimed_by <> %(node)b AND NOT (s.node = '' AND s.claimed_by = ''))::int
FROM chosen WHERE s.scope = chosen.scope AND s.session = chosen.session
RETURNING {_TOP}, greatest(chosen.deaths, 0)
"""  # noqa: S608 - a constant


def claim_trees(  # noqa: PLR0913 - the arguments of the port
    connection: PostgresConnection,
    lease: int,
    node: str,
    silent: Heartbeats | None = None,
    *,
    codec: int = 0,
    within_ms: int = 0,
    skip: Collection[tuple[str, SessionId]] = (),
    limit: int = 8,
    again: bool = False,
) -> tuple[StoredSession, ...]:
    """Reserve trees of dead owners, with one statement. See `Store.claim`."""
    values = dead_values(node, silent, lease)
    values |= {"codec": codec, "within": within_ms, "limit": max(0, limit), "again": again}
    values |= {"scopes": texts(scope for scope, _ in skip), "roots": texts(root for _, root in skip)}
    if again:
        run_named(connection, _END_OLD_CLAIMS, values)
    rows = run_named(connection, _CLAIM, values)
    found = [replace(session_of(row[:-1]), deaths=row[-1]) for row in rows]
    return tuple(sorted(found, key=lambda one: (one.deaths, one.scope, one.session)))


def owned_sessions(connection: PostgresConnection, node: str) -> dict[tuple[str, SessionId], int]:
    """Return the epochs of the sessions of a node, in a transaction of the caller.

    A take that has found the node silent may not be over yet. It has locked the root, so this waits for it.
    """
    mine = "WHERE node = %b AND NOT has_ended"
    lock = f"SELECT 1 FROM agentrail.session {mine} AND session = root ORDER BY scope, session FOR SHARE"  # noqa: S608 - a constant
    run_statement(connection, lock, node.encode())
    epochs = f"SELECT scope, session, epoch FROM agentrail.session {mine}"  # noqa: S608 - a constant
    rows = run_statement(connection, epochs, node.encode())
    return {(scope.decode(), SessionId(session.decode())): epoch for scope, session, epoch in rows}


# --- owed rows

_OWED_COLUMNS: Final = "kind, id, body, node"
_PUT_OWED: Final = f"""
INSERT INTO agentrail.owed ({_OWED_COLUMNS}) SELECT * FROM unnest(%b, %b, %b, %b)
ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body, node = excluded.node
"""  # noqa: S608 - a constant
_DROP_OWED: Final = """
DELETE FROM agentrail.owed AS o USING unnest(%b, %b) AS d (kind, id) WHERE o.kind = d.kind AND o.id = d.id
"""
_ADOPT: Final = f"""
WITH {DEAD}, chosen AS (
    SELECT kind, id FROM agentrail.owed AS o WHERE kind = %(kind)b AND node <> %(node)b
    AND (node = ANY(ARRAY(SELECT id FROM dead)) OR NOT EXISTS (SELECT 1 FROM agentrail.node WHERE node.id = o.node))
    ORDER BY id LIMIT %(limit)b FOR UPDATE SKIP LOCKED
)
UPDATE agentrail.owed AS o SET node = %(node)b FROM chosen WHERE o.kind = chosen.kind AND o.id = chosen.id
RETURNING o.kind, o.id, o.body, o.node
"""  # noqa: S608 - a constant


def change_rows(
    connection: PostgresConnection, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()
) -> None:
    """Insert and delete rows, in a transaction of the caller."""
    rows = list({(row.kind, row.id): row for row in put}.values())
    if rows:
        values = columns(rows, kind=texts, id=texts, body=byteas, node=texts)
        run_statement(connection, _PUT_OWED, *values)
    if drop:
        run_statement(
            connection, _DROP_OWED, texts(kind for kind, _ in drop), texts(name for _, name in drop)
        )


def fetch_rows(
    connection: PostgresConnection, kind: str, after: str = "", limit: int = 1000, *, node: str | None = None
) -> tuple[OwedRow, ...]:
    """Return owed rows of a kind, sorted by id. See `OwedStore.owed`."""
    of_node = "" if node is None else "AND node = %b"
    statement = f"SELECT {_OWED_COLUMNS} FROM agentrail.owed WHERE kind = %b AND id > %b {of_node} ORDER BY id LIMIT %b"  # noqa: S608 - our own words
    values = [kind.encode(), after.encode(), *([] if node is None else [node.encode()]), max(0, limit)]
    return tuple(map(owed_of, run_statement(connection, statement, *values)))


def adopt_rows(  # noqa: PLR0913, PLR0917 - the arguments of the port
    connection: PostgresConnection,
    lease: int,
    kind: str,
    node: str,
    silent: Heartbeats | None = None,
    limit: int = 100,
) -> tuple[OwedRow, ...]:
    """Make a node the owner of rows of dead nodes. See `OwedStore.adopt_owed`."""
    values = dead_values(node, silent, lease) | {"kind": kind.encode(), "limit": max(0, limit)}
    return tuple(sorted(map(owed_of, run_named(connection, _ADOPT, values)), key=lambda row: row.id))


# --- allowances


def draw_piece(connection: PostgresConnection, key: str, step_ms: float, limit_ms: float) -> SharedDraw:
    """Draw one piece of a shared allowance, in a transaction of the caller. See `Store.take_allowance`."""
    lock = """INSERT INTO agentrail.allowance AS a VALUES (%b, 0) ON CONFLICT (key) DO UPDATE SET full_at_ms = a.full_at_ms
        RETURNING full_at_ms, agentrail.now_ms()"""
    ((full_at_ms, now),) = run_statement(connection, lock, key.encode())
    drawn = draw_allowance(full_at_ms, step_ms=step_ms, limit_ms=limit_ms, now=now)
    change = "UPDATE agentrail.allowance SET full_at_ms = %b WHERE key = %b"
    run_statement(connection, change, drawn.full_at_ms, key.encode())
    return drawn
