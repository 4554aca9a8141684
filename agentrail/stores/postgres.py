"""`PostgresStore`: journals in PostgreSQL 15 or newer, for nodes on many machines.

One connection writes, one sends heartbeats, up to three read. Each append of a batch is one statement. The clock of all nodes is that of the server.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

import psycopg

from agentrail.abc.store import (
    Beat,
    Filters,
    Node,
    StoredSession,
    Taken,
    TakeOver,
)
from agentrail.core.journal.record import Record
from agentrail.errors import AgentrailError, StoreTooNew, StoreUnavailable, Trimmed
from agentrail.messages import SessionId
from agentrail.stores.append_rules import TreeTaker, leased, lent
from agentrail.stores.postgres_connections import (
    MAX_TRIES,
    Connect,
    ConnectionPool,
    Connector,
    HeardConnection,
    LostRaceError,
    PostgresConnection,
    forget,
    repeated,
)
from agentrail.stores.postgres_deletions import delete_tree, erase_tree, trim_journal
from agentrail.stores.postgres_nodes import (
    DEAD,
    adopt_rows,
    change_rows,
    claim_trees,
    dead_values,
    draw_piece,
    fetch_rows,
    forget_nodes,
    hear_of,
    known_nodes,
    owned_sessions,
    report_gone,
    run_named,
)
from agentrail.stores.postgres_rows import (
    SESSION_COLUMNS,
    fetch_records,
    fetch_session,
    fetch_sessions,
    fetch_snapshots,
    known,
    run_statement,
    session_of,
)
from agentrail.stores.postgres_schema import SCHEMA, PostgresSchema, check_database
from agentrail.stores.postgres_writes import (
    append_batch,
    create_journal,
    keep_snapshot,
    release_tree,
    server_now_ms,
    take_trees,
)

T = TypeVar("T")

_LOST_RACES: Final = (
    LostRaceError,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.ForeignKeyViolation,  # the row of a node was removed while it became an owner
)
_CLOSE_SECONDS: Final = 2.0
"""Time that `close` waits for a call of another thread, which otherwise closes its connection itself."""


# --- queries: each gets a connection, and changes nothing

_SLOT_MS: Final = 30_000
"""Unit of the column `written_slot`: its index changes at most once in this time for each session."""

_ORPHANS: Final = f"""
WITH {DEAD}
SELECT {SESSION_COLUMNS} FROM agentrail.session AS top WHERE (scope, session) IN (
    SELECT scope, root FROM agentrail.session WHERE node = ANY(ARRAY(SELECT id FROM dead)) AND is_working AND NOT has_ended)
AND (scope, session) > (%(scope)b, %(session)b) AND node = ANY(ARRAY(SELECT id FROM dead))
ORDER BY scope, session LIMIT %(limit)b
"""  # noqa: S608 - a constant

_DUE: Final = f"""
WITH {DEAD}
SELECT {SESSION_COLUMNS} FROM agentrail.session WHERE node = ANY(ARRAY(SELECT id FROM dead))
AND due_at_ms IS NOT NULL AND due_at_ms <= (SELECT agentrail.now_ms()) + %(within)b AND NOT has_ended
ORDER BY due_at_ms, scope, session LIMIT %(limit)b
"""  # noqa: S608 - a constant

_SIZE: Final = """
SELECT (SELECT coalesce(sum(length(body) + length(does)), 0) FROM agentrail.record WHERE scope = %(scope)b AND session = %(session)b)
    + (SELECT coalesce(sum(length(state)), 0) FROM agentrail.snapshot WHERE scope = %(scope)b AND session = %(session)b)
    + (SELECT coalesce(sum(length(content)), 0) FROM agentrail.blob_use JOIN agentrail.blob USING (digest)
        WHERE scope = %(scope)b AND session = %(session)b)
"""


def read_records(
    connection: PostgresConnection, scope: str, session: SessionId, after: int = 0, limit: int = 1000
) -> tuple[Record, ...]:
    """Return records in order. See `Store.read`."""
    records = fetch_records(connection, scope, session, after, limit)
    if records and records[0].seq == after + 1:
        return records  # the usual case, with one statement
    there = known(connection, scope, session)
    if after + 1 < there.first_seq:
        raise Trimmed(session, first=there.first_seq)
    return records


def find_sessions(
    connection: PostgresConnection,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    *,
    after: tuple[str, str] | None = None,
    limit: int = 100,
) -> tuple[StoredSession, ...]:
    """Return sessions ordered by scope and id. See `Store.find`."""
    conditions, values = _conditions(filters)
    if after is not None:
        conditions.append("(scope, session) > (%b, %b)")
        values += (after[0].encode(), after[1].encode())
    return _select(connection, conditions, "scope, session", values, limit)


def newest_sessions(
    connection: PostgresConnection,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    *,
    before: tuple[int, str] | None = None,
    limit: int = 100,
) -> tuple[StoredSession, ...]:
    """Return the sessions that were opened last. See `Store.newest`."""
    conditions, values = _conditions(filters)
    if before is not None:
        conditions.append("(opened_at_ms, session) < (%b, %b)")
        values += (before[0], before[1].encode())
    return _select(connection, conditions, "opened_at_ms DESC, session DESC", values, limit)


def _conditions(filters: Filters) -> tuple[list[str], list[object]]:
    conditions, values = ["true"], list[object]()
    for column, value in (
        ("scope", filters.scope),
        ("root", filters.root),
        ("node", filters.node),
        ("owner", filters.owner),
    ):
        if value is not None:
            conditions.append(f"{column} = %b")
            values.append(value.encode())
    if filters.owner:
        conditions.append("owner <> ''")  # a partial index is used only if its condition is visible
    for column, is_so in (("is_working", filters.is_working), ("has_ended", filters.has_ended)):
        if is_so is not None:
            conditions.append(column if is_so else f"NOT {column}")
    if filters.only_roots:
        conditions.append("session = root")
    if filters.written_before_ms is not None:
        conditions.append("written_at_ms < %b")
        values.append(filters.written_before_ms)
    if filters.written_after_ms is not None:
        conditions.append("written_slot >= %b AND written_at_ms >= %b")
        values += (filters.written_after_ms // _SLOT_MS, filters.written_after_ms)
    return conditions, values


def _select(
    connection: PostgresConnection, conditions: list[str], order: str, values: list[object], limit: int
) -> tuple[StoredSession, ...]:
    statement = f"SELECT {SESSION_COLUMNS} FROM agentrail.session WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT %b"  # noqa: S608 - our own words
    return tuple(map(session_of, run_statement(connection, statement, *values, max(0, limit))))


# --- the store


def _within_transaction(call: Callable[[PostgresConnection], T], connection: PostgresConnection) -> T:
    with connection.transaction():
        return call(connection)


class PostgresStore(TreeTaker):
    """Journals in a database. See `Store` for the contract of each call."""

    is_immediate: Final = False
    is_shared: Final = True

    def __init__(
        self,
        url: str,
        *,
        lease_ms: int = 15_000,
        allow_unsafe: bool = False,
        connect: Connect = HeardConnection.connect,
        schema: PostgresSchema = SCHEMA,
    ) -> None:
        """Open a store whose tables exist: see `agentrail.stores.postgres_schema.migrate`.

        Args:
            url: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with libpq's parameters after `?`.
            lease_ms: Time after its last heartbeat during which a node counts as alive.
            allow_unsafe: Whether to accept a server that may lose acknowledged records in a crash.
            connect: Opens connections, like `psycopg.connect`. The default also closes one whose server is silent in a statement for 35 s.
            schema: Expected schema of the tables.

        Raises:
            OptionError: Your move: it is not a URL of PostgreSQL.
            StoreUnavailable: The database cannot be reached, or cannot keep journals. The message has the command to run.
            NotAStore: Your move: the schema `agentrail` belongs to another application.
            StoreTooNew: Your move: a newer agentrail created the tables.
        """
        self._connector = Connector(url, connect)
        self._lease_ms = lease_ms
        self._allow_unsafe = allow_unsafe
        self._schema = schema
        self.pool: ConnectionPool = ConnectionPool(self._connector)
        self._beats = ConnectionPool(self._connector, limit=1)
        self._writer: PostgresConnection | None = None
        # One thread writes. The lock is for another thread that closes the store.
        self._turn = threading.RLock()
        self._is_closed = False
        with self._connector.translated():
            self._writer = self._opened(is_first=True)

    def __repr__(self) -> str:
        return f"PostgresStore({self._connector.place!r}{', closed' if self._is_closed else ''})"

    @property
    def place(self) -> str:
        """URL without password."""
        return self._connector.place

    def _opened(self, *, is_first: bool = False) -> PostgresConnection:
        connection = self._connector.open()
        try:
            check_database(connection, self._connector.place, self._schema, allow_unsafe=self._allow_unsafe)
        except StoreTooNew:
            if is_first:
                forget(connection)
                raise
            # Migrations only add, so a store that is open continues after one, and after a lost connection too.
        except BaseException:
            forget(connection)
            raise
        return connection

    # --- calls

    @contextmanager
    def _writing(self) -> Iterator[PostgresConnection]:
        """Lend the writing connection. After an error of the database it is closed, and the next call opens another."""
        with self._turn:
            try:
                with self._connector.translated():
                    yield self._open_writer()
            except AgentrailError as error:
                if isinstance(error, StoreUnavailable):
                    self._drop_writer()
                raise
            except ValueError:
                raise  # of the caller, before anything was sent
            except BaseException:
                self._drop_writer()
                raise
            finally:
                if self._is_closed:
                    self._drop_writer()

    def _open_writer(self) -> PostgresConnection:
        if self._is_closed:
            message = "the store was closed"
            raise StoreUnavailable(message)
        if self._writer is None:
            self._writer = self._opened()
        return self._writer

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        forget(writer)

    def _write(self, call: Callable[[PostgresConnection], T]) -> T:
        """Make a writing call, again after a deadlock or a lost race. Each statement is a transaction of its own."""
        with self._writing() as connection:
            return self._repeated(call, connection)

    def _repeated(self, call: Callable[[PostgresConnection], T], connection: PostgresConnection) -> T:
        try:
            return repeated(call, connection, *_LOST_RACES)
        except LostRaceError:
            message = f"the store {self.place} changed {MAX_TRIES} times while a call was made: repeat it"
            raise StoreUnavailable(message) from None

    def _transact(self, call: Callable[[PostgresConnection], T]) -> T:
        """Make a writing call in a transaction."""
        return self._write(partial(_within_transaction, call))

    def _transact_aside(self, call: Callable[[PostgresConnection], T]) -> T:
        """Make a writing call in a transaction that may take long, next to those of the writer."""
        with self.pool.borrowed() as connection:
            return self._repeated(partial(_within_transaction, call), connection)

    def _read(self, call: Callable[[PostgresConnection], T]) -> T:
        with self.pool.borrowed() as connection:
            return call(connection)

    def _lease(self) -> int:
        return self._lease_ms

    def now_ms(self) -> int:
        """Return the server's clock: milliseconds since 1970."""
        return self._read(server_now_ms)

    # --- writing

    create: Final = lent("_transact", create_journal)
    release: Final = lent("_transact", release_tree)
    append: Final = lent("_write", append_batch)
    put_snapshot: Final = lent("_transact", keep_snapshot)
    gone: Final = lent("_write", report_gone)
    take_allowance: Final = lent("_transact", draw_piece)
    change_owed: Final = lent("_transact", change_rows)
    trim: Final = lent("_transact", trim_journal)
    claim: Final = leased("_write", claim_trees)
    adopt_owed: Final = leased("_write", adopt_rows)
    delete: Final = leased("_transact_aside", delete_tree)
    erase: Final = leased("_transact_aside", erase_tree)

    def _take(self, wanted: TakeOver) -> Taken:
        (answer,) = self.take_many([wanted])
        if isinstance(answer, AgentrailError):
            raise answer
        return answer

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Transfer many trees to their new owners in one transaction. See `ManyTaker.take_many`."""
        if not wanted:
            return ()
        return self._transact(lambda connection: take_trees(connection, wanted, self._lease_ms))

    def beat(self, node: Node) -> Beat:
        """Record a heartbeat, on a connection of its own. See `Store.beat`."""
        with self._beats.borrowed() as connection:
            beat = self._repeated(lambda one: hear_of(one, node), connection)
            self._repeated(lambda one: forget_nodes(one, beat.before_ms), connection)
            return beat

    def overwrite_removed(self) -> bool:
        """Return False: old row versions, the log and backups of the server are the operator's."""
        return False

    # --- reading

    read: Final = lent("_read", read_records)
    find: Final = lent("_read", find_sessions)
    newest: Final = lent("_read", newest_sessions)
    get: Final = lent("_read", fetch_session)
    get_many: Final = lent("_read", fetch_sessions)
    snapshots: Final = lent("_read", fetch_snapshots)
    owed: Final = lent("_read", fetch_rows)
    owned: Final = lent("_transact_aside", owned_sessions)
    nodes: Final = leased("_read", known_nodes)

    def blob(self, digest: str) -> bytes | None:
        statement = "SELECT content FROM agentrail.blob WHERE digest = %b"
        rows = self._read(lambda connection: run_statement(connection, statement, digest.encode()))
        return bytes(rows[0][0]) if rows else None

    def orphans(self, limit: int = 100, *, after: tuple[str, str] | None = None) -> tuple[StoredSession, ...]:
        scope, session = after or ("", "")
        values = dead_values(None, None, self._lease_ms)
        values |= {"scope": scope.encode(), "session": session.encode(), "limit": max(0, limit)}
        return tuple(map(session_of, self._read(lambda connection: run_named(connection, _ORPHANS, values))))

    def due(self, within_ms: int = 0, limit: int = 100) -> tuple[StoredSession, ...]:
        values = dead_values(None, None, self._lease_ms) | {"within": within_ms, "limit": max(0, limit)}
        return tuple(map(session_of, self._read(lambda connection: run_named(connection, _DUE, values))))

    def size(self, scope: str, session: SessionId) -> int:
        values = {"scope": scope.encode(), "session": session.encode()}
        return int(self._read(lambda connection: run_named(connection, _SIZE, values))[0][0])

    def secret(self) -> bytes:
        """Return 32 random bytes that all nodes share. Only their role can read them."""
        wanted = "SELECT value FROM agentrail.secret WHERE name = 'nodes'"
        ((value,),) = self._read(lambda connection: run_statement(connection, wanted))
        return bytes(value)

    def close(self) -> None:
        """Close all connections. Idempotent. A call in another thread ends with its own connection."""
        self._is_closed = True
        self.pool.close()
        self._beats.close()
        if self._turn.acquire(timeout=_CLOSE_SECONDS):
            try:
                self._drop_writer()
            finally:
                self._turn.release()
