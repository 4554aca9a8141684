"""The column `owner` of `SqliteStore`: its upgrade and its values from journals. Starts no transaction."""

from typing import Any, Final

import apsw

from agentrail.core.journal.record import OPENED
from agentrail.core.journal.session_owner import NO_OWNER, owner_in_opened, owner_in_state

INDEX_OWNERS: Final = "CREATE INDEX session_by_owner ON session (owner, scope, session)"
"""Makes listing one user's sessions cost that user's rows instead of the tenant's."""


def add_owners(connection: apsw.Connection) -> None:
    """Upgrade tables of version 1 to version 2."""
    connection.execute("ALTER TABLE session ADD COLUMN owner TEXT NOT NULL DEFAULT ''")
    fill_owners(connection)
    connection.execute(INDEX_OWNERS)


def fill_owners(connection: apsw.Connection) -> None:
    sessions: list[tuple[Any, ...]] = connection.execute(
        "SELECT scope, session, first_seq FROM session"
    ).fetchall()
    for scope, session, first_seq in sessions:
        owner = _owner_of(connection, scope, session, first_seq)
        if owner != NO_OWNER:
            connection.execute(
                "UPDATE session SET owner = ? WHERE scope = ? AND session = ?", (owner, scope, session)
            )


def _owner_of(connection: apsw.Connection, scope: str, session: str, first_seq: int) -> str:
    if first_seq > 1:
        statement = "SELECT state FROM snapshot WHERE scope = ? AND session = ? ORDER BY seq DESC LIMIT 1"
        state = connection.execute(statement, (scope, session)).get
        return owner_in_state(state) if type(state) is bytes else NO_OWNER
    statement = "SELECT body FROM record WHERE scope = ? AND session = ? AND seq = 1 AND kind = ?"
    body = connection.execute(statement, (scope, session, OPENED)).get
    return owner_in_opened(body) if type(body) is bytes else NO_OWNER
