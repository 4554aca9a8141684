"""Tables of `SqliteStore`, their version (`user_version`), and upgrades from older versions."""

from collections.abc import Callable, Mapping
from typing import Final

import apsw
import msgspec

from agentrail.stores.sqlite_nodes import ADD_CLAIMS
from agentrail.stores.sqlite_owners import add_owners

APPLICATION_ID: Final = 0x61677472
"""Application id in the header of a store: `agtr`."""

_TABLES: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE session (
    scope TEXT NOT NULL, session TEXT NOT NULL, root TEXT NOT NULL, parent TEXT NOT NULL,
    forked_from TEXT, forked_at INTEGER, node TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL, written_at_ms INTEGER NOT NULL,
    first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, epoch INTEGER NOT NULL, hash BLOB NOT NULL, events INTEGER NOT NULL,
    is_working INTEGER NOT NULL, has_ended INTEGER NOT NULL, waits_for INTEGER NOT NULL, due_at_ms INTEGER, title TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    codec INTEGER NOT NULL DEFAULT 0, deaths INTEGER NOT NULL DEFAULT 0, claimed_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (scope, session)
) WITHOUT ROWID, STRICT;
CREATE INDEX session_by_root ON session (root, scope, session);
CREATE INDEX session_by_node ON session (node, scope, session);
CREATE INDEX session_by_owner ON session (owner, scope, session);
CREATE INDEX session_working ON session (scope, session) WHERE is_working = 1;
CREATE INDEX session_due ON session (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX session_deaths ON session (scope, session) WHERE deaths > 0;
CREATE INDEX session_claimed ON session (claimed_by) WHERE claimed_by <> '';
CREATE INDEX session_forks ON session (scope, forked_from) WHERE forked_from IS NOT NULL;

-- Numbers first: to read them no page that only a long body fills is turned.
CREATE TABLE record (
    scope TEXT NOT NULL, session TEXT NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, kind TEXT NOT NULL, events INTEGER NOT NULL, hash BLOB NOT NULL,
    does TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (scope, session, seq),
    FOREIGN KEY (scope, session) REFERENCES session ON DELETE CASCADE
) WITHOUT ROWID, STRICT;

CREATE TABLE snapshot (
    scope TEXT NOT NULL, session TEXT NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, state BLOB NOT NULL, checked BLOB NOT NULL,
    PRIMARY KEY (scope, session, seq),
    FOREIGN KEY (scope, session) REFERENCES session ON DELETE CASCADE
) STRICT;

CREATE TABLE blob (digest TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TABLE blob_use (
    scope TEXT NOT NULL, session TEXT NOT NULL, digest TEXT NOT NULL REFERENCES blob,
    PRIMARY KEY (scope, session, digest),
    FOREIGN KEY (scope, session) REFERENCES session ON DELETE CASCADE
) WITHOUT ROWID, STRICT;
CREATE INDEX blob_use_by_digest ON blob_use (digest);

CREATE TABLE node (
    id TEXT PRIMARY KEY, address TEXT NOT NULL, version TEXT NOT NULL, pid INTEGER NOT NULL, boot TEXT NOT NULL,
    seen_at_ms INTEGER NOT NULL, is_gone INTEGER NOT NULL, load INTEGER NOT NULL DEFAULT 0, codec INTEGER NOT NULL DEFAULT 0,
    digest TEXT NOT NULL DEFAULT '', lease_ms INTEGER NOT NULL DEFAULT 0, gone_at_ms INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID, STRICT;

CREATE TABLE owed (
    kind TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, node TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (kind, id)
) WITHOUT ROWID, STRICT;
CREATE INDEX owed_by_node ON owed (node, kind, id);

CREATE TABLE allowance (key TEXT PRIMARY KEY, full_at_ms REAL NOT NULL) WITHOUT ROWID, STRICT;
CREATE INDEX allowance_full ON allowance (full_at_ms);
"""


class StoreSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Tables of a file.

    Attributes:
        steps: For each older version, the statements or the function that upgrade it by one. They remove
            nothing, so older readers keep working.
    """

    version: int
    tables: str
    steps: Mapping[int, str | Callable[[apsw.Connection], None]] = {}


SCHEMA: Final = StoreSchema(version=3, tables=_TABLES, steps={1: add_owners, 2: ADD_CLAIMS})
"""The current schema."""


def make_tables(connection: apsw.Connection, schema: StoreSchema, *, made_at_ms: int) -> None:
    """Create the tables in an empty file and write its header, before the switch to a separate log."""
    # No rollback here: after some errors SQLite has already rolled back, and a connection with an error is
    # closed in any case.
    connection.execute("BEGIN IMMEDIATE")
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", schema.version)
    connection.execute(schema.tables)
    connection.execute("INSERT INTO meta VALUES ('made_at_ms', ?)", (str(made_at_ms),))
    connection.execute("COMMIT")
    connection.pragma("journal_mode", "wal")


def check_steps(schema: StoreSchema, found: int) -> None:
    """Raise ValueError unless there is an upgrade path from older tables."""
    if any(version not in schema.steps for version in range(found, schema.version)):
        message = f"there is no migration from table version {found} to version {schema.version}"
        raise ValueError(message)


def bring_up(connection: apsw.Connection, schema: StoreSchema, found: int) -> None:
    """Upgrade older tables to the current version, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for version in range(found, schema.version):
        try:
            step = schema.steps[version]
            if callable(step):
                step(connection)
            else:
                connection.execute(step)
        except (apsw.SQLError, apsw.ConstraintError) as error:
            message = f"the migration from table version {version} to the next is wrong: {error}"
            raise ValueError(message) from error
    connection.pragma("user_version", schema.version)
    connection.execute("COMMIT")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
