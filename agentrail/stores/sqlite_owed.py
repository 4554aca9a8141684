"""What a `SqliteStore` keeps of `OwedRow`: one table, made when the first row comes. No session and no record enters.

It is no part of the schema and has no version: a file without it owes nothing, who owes nothing has no copy of a whole store made for an
empty table, and an older agentrail passes it by.
"""

from collections.abc import Sequence
from typing import Final

import apsw

from agentrail.abc.store import OwedRow

OWED_COLUMNS: Final = "kind, id, body"
"""In the order of `PUT_OWED`."""

PUT_OWED: Final = "INSERT OR REPLACE INTO owed VALUES (?, ?, ?)"

MAKE_OWED: Final = """
CREATE TABLE IF NOT EXISTS owed (
    kind TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID, STRICT
"""
"""What is once in a file stays so for ever."""


def change_rows(connection: apsw.Connection, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]]) -> None:
    """Keep rows and drop others, in the transaction that is open."""
    if put:
        connection.execute(MAKE_OWED)
        connection.executemany(PUT_OWED, ((row.kind, row.id, row.body) for row in put))
    if drop and has_rows(connection):
        connection.executemany("DELETE FROM owed WHERE kind = ? AND id = ?", drop)


def fetch_rows(connection: apsw.Connection, kind: str, after: str, limit: int) -> tuple[OwedRow, ...]:
    """Give rows of a kind in the order of their ids."""
    if not has_rows(connection):
        return ()
    found = connection.execute(
        "SELECT id, body FROM owed WHERE kind = ? AND id > ? ORDER BY id LIMIT ?",
        (kind, after, max(0, limit)),
    )
    return tuple([OwedRow(kind=kind, id=row[0], body=row[1]) for row in found])


def has_rows(connection: apsw.Connection) -> bool:
    """Say whether anything was ever owed in this file."""
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'owed'").fetchone() is not None
