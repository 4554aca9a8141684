"""Storage of `OwedRow` in a `SqliteStore`."""

from collections.abc import Sequence
from typing import Final

import apsw

from agentrail.abc.store import OwedRow

PUT_OWED: Final = "INSERT OR REPLACE INTO owed (kind, id, body, node) VALUES (?, ?, ?, ?)"


def change_rows(
    connection: apsw.Connection, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()
) -> None:
    """Insert and delete owed rows, in the open transaction. See `OwedStore.change_owed`."""
    connection.executemany(PUT_OWED, ((row.kind, row.id, row.body, row.node) for row in put))
    connection.executemany("DELETE FROM owed WHERE kind = ? AND id = ?", drop)


def fetch_rows(
    connection: apsw.Connection, kind: str, after: str = "", limit: int = 1000, *, node: str | None = None
) -> tuple[OwedRow, ...]:
    """Return owed rows ordered by id. See `OwedStore.owed`."""
    found = connection.execute(
        "SELECT id, body, node FROM owed WHERE kind = ?1 AND id > ?2 AND (?4 IS NULL OR node = ?4) ORDER BY id LIMIT ?3",
        (kind, after, max(0, limit), node),
    )
    return tuple([OwedRow(kind=kind, id=row[0], body=row[1], node=row[2]) for row in found])
