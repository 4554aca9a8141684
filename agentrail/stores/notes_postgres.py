"""`PostgresNotes`: working notes in a database, a row per session."""

from collections.abc import Callable
from typing import ClassVar, Final

from agentrail.abc.recall import MemoryOwner
from agentrail.stores.postgres_connections import PostgresConnection, PostgresTables
from agentrail.stores.postgres_rows import run_statement
from agentrail.stores.words import owner_key

_LOCK: Final = """
INSERT INTO agentrail.note AS n VALUES (%b, %b, '') ON CONFLICT (own, session) DO UPDATE SET text = n.text RETURNING text
"""


class PostgresNotes(PostgresTables):
    """Notes in a database. See `NoteStore` for the contract of each call."""

    _WHAT: ClassVar = "notes"

    def read(self, owner: MemoryOwner, session: str) -> str:
        statement = "SELECT text FROM agentrail.note WHERE own = %b AND session = %b"
        rows = self._run(lambda connection: run_statement(connection, statement, *_key_of(owner, session)))
        return bytes(rows[0][0]).decode() if rows else ""

    def change(self, owner: MemoryOwner, session: str, edit: Callable[[str], str]) -> str:
        key = _key_of(owner, session)

        def replace(connection: PostgresConnection) -> str:
            with connection.transaction():
                # Adds an empty row if there are no notes, so that changes by other nodes wait for this one.
                ((old,),) = run_statement(connection, _LOCK, *key)
                new = edit(bytes(old).decode())
                where = "WHERE own = %b AND session = %b"
                if new:
                    statement = f"UPDATE agentrail.note SET text = %b {where}"  # noqa: S608 - a constant
                    run_statement(connection, statement, new.encode(), *key)
                else:
                    run_statement(connection, f"DELETE FROM agentrail.note {where}", *key)  # noqa: S608 - a constant
            return new

        return self._run(replace)

    def forget(self, owner: MemoryOwner) -> int:
        statement = "DELETE FROM agentrail.note WHERE own = %b RETURNING session"
        return len(self._run(lambda connection: run_statement(connection, statement, _key_of(owner, "")[0])))


def _key_of(owner: MemoryOwner, session: str) -> tuple[bytes, bytes]:
    return owner_key(owner.tenant, owner.user).encode(), owner_key(session).encode()
