"""Storage of `OwedRow` in a `SqliteStore`: one table outside of the schema, created with the first row."""

from collections.abc import Sequence
from typing import Final

import apsw

from agentrail.abc.store import OwedRow

OWED_COLUMNS: Final = "kind, id, body"
"""Columns in the order of `PUT_OWED`."""

PUT_OWED: Final = "INSERT OR REPLACE INTO owed VALUES (?, ?, ?)"

MAKE_OWED: Final = """
CREATE TABLE IF NOT EXISTS owed (
    kind TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID, STRICT
"""
"""Must not change: existing files keep it indefinitely."""


def change_rows(connection: apsw.Connection, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]]) -> None:
    """Insert and delete rows, in the open transaction."""
    if put:
        connection.execute(MAKE_OWED)
        connection.executemany(PUT_OWED, ((row.kind, row.id, row.body) for row in put))
    if drop and has_rows(connection):
        connection.executemany("DELETE FROM owed WHERE kind = ? AND id = ?", drop)


def fetch_rows(connection: apsw.Connection, kind: str, after: str, limit: int) -> tuple[OwedRow, ...]:
    if not has_rows(connection):
        return ()
    found = connection.execute(
        "SELECT id, body FROM owed WHERE kind = ? AND id > ? ORDER BY id LIMIT ?",
        (kind, after, max(0, limit)),
    )
    return tuple([OwedRow(kind=kind, id=row[0], body=row[1]) for row in found])


def has_rows(connection: apsw.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'owed'").fetchone() is not None
