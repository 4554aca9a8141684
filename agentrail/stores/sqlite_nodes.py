"""Nodes of a `SqliteStore`: heartbeats, reservations, owed rows with owners, allowances. Within a transaction of the caller."""

from collections.abc import Collection, Mapping
from typing import Final

import apsw
import msgspec
from msgspec.structs import replace

from agentrail.abc.store import Beat, Heartbeats, Node, OwedRow, SharedDraw, StoredSession
from agentrail.messages import SessionId
from agentrail.stores.append_rules import NodeLease, draw_allowance
from agentrail.stores.sqlite_owed_rows import change_rows
from agentrail.stores.sqlite_rows import SESSION_COLUMNS, SqliteRow, session_of

ADD_CLAIMS: Final = """
ALTER TABLE session ADD COLUMN codec INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN claimed_by TEXT NOT NULL DEFAULT '';
CREATE INDEX session_deaths ON session (scope, session) WHERE deaths > 0;
CREATE INDEX session_claimed ON session (claimed_by) WHERE claimed_by <> '';
ALTER TABLE node ADD COLUMN load INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN codec INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE node ADD COLUMN lease_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN gone_at_ms INTEGER NOT NULL DEFAULT 0;
UPDATE node SET gone_at_ms = seen_at_ms WHERE is_gone = 1;
CREATE TABLE IF NOT EXISTS owed (
    kind TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID, STRICT;
ALTER TABLE owed ADD COLUMN node TEXT NOT NULL DEFAULT '';
CREATE INDEX owed_by_node ON owed (node, kind, id);
CREATE TABLE allowance (key TEXT PRIMARY KEY, full_at_ms REAL NOT NULL) WITHOUT ROWID, STRICT;
CREATE INDEX allowance_full ON allowance (full_at_ms);
"""
"""Upgrade of tables of version 2 to version 3."""

_NODE_COLUMNS: Final = (
    "id, address, version, pid, boot, load, codec, digest, lease_ms, seen_at_ms, gone_at_ms"
)
"""Columns of a node, in the order of the fields of `Node`."""

_OWNS: Final = "EXISTS (SELECT 1 FROM session WHERE session.node = one.id)"
_KNOWN: Final = f"""{_OWNS}
OR EXISTS (SELECT 1 FROM session WHERE claimed_by = one.id AND claimed_by <> '')
OR EXISTS (SELECT 1 FROM owed WHERE owed.node = one.id)"""  # noqa: S608 - a constant

_FORGET: Final = f"""
DELETE FROM node AS one WHERE (is_gone = 1 OR seen_at_ms <= ?) AND NOT ({_KNOWN})
"""  # noqa: S608 - a constant

END_CLAIM: Final = "deaths = max(deaths - (node <> '' AND claimed_by <> ''), 0), claimed_by = ''"
"""Changes of a root whose reservation ends without `take`. The death of an owner, which the reservation counted, is taken back."""

_END_OLD_CLAIMS: Final = f"""
UPDATE session SET {END_CLAIM} WHERE claimed_by = ? AND claimed_by <> '' AND node IN (SELECT value FROM json_each(?))
"""  # noqa: S608 - a constant

_CLAIMABLE: Final = f"""
SELECT {SESSION_COLUMNS}, claimed_by FROM session AS top
WHERE (scope, session) IN (SELECT * FROM (
    SELECT scope, root FROM session WHERE is_working = 1 AND has_ended = 0
    UNION SELECT scope, root FROM session WHERE due_at_ms IS NOT NULL AND due_at_ms <= :due AND has_ended = 0))
AND json_array(scope, session) NOT IN (SELECT value FROM json_each(:skip))
AND node NOT IN (SELECT value FROM json_each(:alive))
AND (claimed_by NOT IN (SELECT value FROM json_each(:alive)) OR :again AND claimed_by = :node)
AND NOT EXISTS (SELECT 1 FROM session AS one WHERE one.root = top.root AND likely(one.scope = top.scope) AND one.codec > :codec)
ORDER BY deaths, scope, session LIMIT :limit
"""  # noqa: S608 - a constant


def fetch_nodes(connection: apsw.Connection, where: str = "1", *values: object) -> tuple[Node, ...]:
    statement = f"SELECT {_NODE_COLUMNS} FROM node AS one WHERE {where} ORDER BY id"  # noqa: S608 - our own words
    return tuple(
        Node(**dict(zip(Node.__struct_fields__, row, strict=True)))
        for row in connection.execute(statement, values)
    )


def fetch_node(connection: apsw.Connection, node: str) -> Node | None:
    return next(iter(fetch_nodes(connection, "id = ?", node)), None)


def known_nodes(connection: apsw.Connection, lease: NodeLease) -> tuple[Node, ...]:
    """Return the nodes that own a session or have sent a heartbeat within the lease."""
    # A file of version 2 that is only read has no reservations, and no owners of owed rows.
    known = _KNOWN if connection.pragma("user_version") > 2 else _OWNS  # noqa: PLR2004 - see above
    return fetch_nodes(connection, f"is_gone = 0 AND seen_at_ms > ? OR {known}", lease.since_ms)


def hear_of(connection: apsw.Connection, lease: NodeLease, node: Node) -> Beat:
    """Record that a node is alive."""
    before = fetch_node(connection, node.id) or Node(id=node.id)
    heard = msgspec.structs.astuple(replace(node, seen_at_ms=lease.now_ms, gone_at_ms=0))
    connection.execute(
        f"INSERT OR REPLACE INTO node ({_NODE_COLUMNS}, is_gone) VALUES (?,?,?,?,?,?,?,?,?,?,?,0)",  # noqa: S608 - a constant
        heard,
    )
    connection.execute(_FORGET, (lease.since_ms,))
    return Beat(at_ms=lease.now_ms, before_ms=before.seen_at_ms, was_gone=bool(before.gone_at_ms))


def report_gone(connection: apsw.Connection, lease: NodeLease, node: str) -> bool:
    """Report that the process of a node has ended. See `Store.gone`."""
    connection.execute(
        "UPDATE node SET is_gone = 1, gone_at_ms = ? WHERE id = ? AND is_gone = 0", (lease.now_ms, node)
    )
    return fetch_node(connection, node) is not None


def forget_earlier_nodes(connection: apsw.Connection, now: int) -> None:
    connection.execute("UPDATE node SET is_gone = 1, gone_at_ms = ? WHERE is_gone = 0", (now,))


def _alive(connection: apsw.Connection, node: str, silent: Heartbeats | None, lease: NodeLease) -> str:
    """Return the ids of a node and of all others that are alive, as JSON."""
    alive = {node, *(one.id for one in fetch_nodes(connection) if not lease.is_dead(one, silent))}
    return msgspec.json.encode(sorted(alive)).decode()


def claim_trees(  # noqa: PLR0913 - the arguments of the port, and the lease
    connection: apsw.Connection,
    lease: NodeLease,
    node: str,
    silent: Heartbeats | None = None,
    *,
    codec: int = 0,
    within_ms: int = 0,
    skip: Collection[tuple[str, SessionId]] = (),
    limit: int = 8,
    again: bool = False,
) -> tuple[StoredSession, ...]:
    """Reserve trees of dead owners. See `Store.claim`."""
    asked = {"due": lease.now_ms + within_ms, "codec": codec, "limit": max(0, limit), "node": node}
    asked |= {"again": again, "alive": _alive(connection, node, silent, lease)}
    if again:
        connection.execute(_END_OLD_CLAIMS, (node, asked["alive"]))
    asked["skip"] = msgspec.json.encode([msgspec.json.encode(one).decode() for one in skip]).decode()
    found = connection.execute(_CLAIMABLE, asked).fetchall()
    return tuple(_reserve(connection, session_of(row[:-1]), str(row[-1]), node) for row in found)


def _reserve(connection: apsw.Connection, top: StoredSession, claimed_by: str, node: str) -> StoredSession:
    if claimed_by == node:
        return replace(top, deaths=max(0, top.deaths - 1))
    connection.execute(
        "UPDATE session SET claimed_by = ?, deaths = deaths + ? WHERE scope = ? AND session = ?",
        (node, bool(top.node or claimed_by), top.scope, top.session),
    )
    return top


def owned_sessions(connection: apsw.Connection, node: str) -> Mapping[tuple[str, SessionId], int]:
    """Return the epochs of a node's sessions. See `Store.owned`."""
    epochs = "SELECT scope, session, epoch FROM session WHERE node = ? AND has_ended = 0"
    rows = connection.execute(epochs, (node,))
    return {(scope, SessionId(session)): epoch for scope, session, epoch in rows}


def adopt_rows(  # noqa: PLR0913, PLR0917 - the arguments of the port, and the lease
    connection: apsw.Connection,
    lease: NodeLease,
    kind: str,
    node: str,
    silent: Heartbeats | None = None,
    limit: int = 100,
) -> tuple[OwedRow, ...]:
    """Make a node the owner of rows of dead nodes. See `OwedStore.adopt_owed`."""
    found: list[SqliteRow] = connection.execute(
        """SELECT id, body FROM owed WHERE kind = ? AND node NOT IN (SELECT value FROM json_each(?))
        ORDER BY id LIMIT ?""",
        (kind, _alive(connection, node, silent, lease), max(0, limit)),
    ).fetchall()
    rows = tuple(OwedRow(kind=kind, id=row[0], body=row[1], node=node) for row in found)
    change_rows(connection, rows, ())
    return rows


def draw_piece(
    connection: apsw.Connection, lease: NodeLease, key: str, step_ms: float, limit_ms: float
) -> SharedDraw:
    """Draw one piece of a shared allowance. See `Store.take_allowance`."""
    now = lease.now_ms
    full_at_ms = connection.execute("SELECT full_at_ms FROM allowance WHERE key = ?", (key,)).get or 0.0
    drawn = draw_allowance(full_at_ms, step_ms=step_ms, limit_ms=limit_ms, now=now)
    connection.execute("INSERT OR REPLACE INTO allowance VALUES (?, ?)", (key, drawn.full_at_ms))
    connection.execute("DELETE FROM allowance WHERE full_at_ms <= ? AND key <> ?", (now, key))
    return drawn
