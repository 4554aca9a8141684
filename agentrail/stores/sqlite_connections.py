"""Connections of `SqliteStore` through apsw: opening, error translation, and a pool for reading. Names no table."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

import apsw
import msgspec
from msgspec.structs import replace

from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.stores.data_directory import no_store_at
from agentrail.stores.sqlite_files import is_frozen

Connect: TypeAlias = Callable[[str, int, str | None], apsw.Connection]
"""Opens a connection from a URI, SQLite flags, and the name of a SQLite file system."""

READ_PATIENCE_MS: Final = 1000
"""Time that a reader waits while the log is moved or re-read."""

_MAX_IDLE_READERS: Final = 4

_DAMAGE: Final = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.ConstraintError,
    apsw.SQLError,
    UnicodeDecodeError,
)
"""Errors from corrupt pages. Statements and constraints are our own, so a failing one means corruption too."""

_TROUBLE: Final[Mapping[type[apsw.Error], str]] = {
    apsw.FullError: "the disk is full",
    apsw.IOError: "the disk could not be read or written",
    apsw.CantOpenError: "the file cannot be opened",
    apsw.ReadOnlyError: "the file or its directory cannot be written",
    apsw.PermissionsError: "access to the file is denied",
    apsw.BusyError: "another connection has locked it",
    apsw.LockedError: "another connection has locked it",
    apsw.ProtocolError: "another connection has locked it",
    apsw.ConnectionClosedError: "it was closed in the meantime",
}
"""Errors that pass, or that an operator can fix. Every other error is a bug of ours."""


_HEAD_BYTES: Final = 100
"""Size of the head of a database (sqlite.org/fileformat.html, 1.3)."""

FIRST_SOUND: Final = (3, 51, 3)
"""The first SQLite without a fault that could lose commits when a log was restarted."""


def check_sqlite(found: str) -> None:
    """Raise StoreUnavailable for an unsound SQLite. The wheels of apsw bundle a sound one."""
    if tuple(int(part) for part in found.split(".")[:3]) < FIRST_SOUND:
        wanted = ".".join(map(str, FIRST_SOUND))
        message = f"SQLite {found} may lose commits, which {wanted} fixed: install apsw from its wheel, `pip install --force-reinstall apsw`"
        raise StoreUnavailable(message)


class DamagedStoreError(Exception):
    """The file contradicts itself. Triggers a check of the whole file."""


def connect(uri: str, flags: int, vfs: str | None) -> apsw.Connection:
    return apsw.Connection(uri, flags=flags, vfs=vfs)


class Connector(msgspec.Struct, frozen=True, kw_only=True):
    """Opens the connections of one file. A `vfs` of None is the default."""

    path: Path
    connect: Connect = connect
    vfs: str | None = None

    def at(self, path: Path) -> "Connector":
        return replace(self, path=path)

    def to_write(self) -> apsw.Connection:
        connection = self.to_fill()
        try:
            _set_up(connection)
        except BaseException:
            forget(connection)
            raise
        return connection

    def to_read(self, *, is_current: bool = False) -> apsw.Connection:
        """Open a file for reading.

        Args:
            is_current: Whether to show the tables of an older file with the later columns.
        """
        # Readers share memory in a file next to the store, which SQLite would have to create.
        is_alone = self.vfs is None and is_frozen(self.path)
        connection = self.to_look() if is_alone else self._open(apsw.SQLITE_OPEN_READONLY, "mode=ro")
        try:
            connection.set_busy_timeout(READ_PATIENCE_MS)
            connection.pragma("temp_store", "memory")
            if is_current:
                _show_later_columns(connection)
        except BaseException:
            forget(connection)
            raise
        return connection

    def to_fill(self) -> apsw.Connection:
        return self._open(apsw.SQLITE_OPEN_READWRITE)

    def to_look(self) -> apsw.Connection:
        """Open any file, without its log, lock or companion files.

        Uses SQLite, because closing the file in another way would drop the locks of this process.
        """
        return self._open(apsw.SQLITE_OPEN_READONLY, "mode=ro&immutable=1")

    def read_head(self) -> bytes:
        """Return the head of any file, whatever its pages contain."""
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
        file = apsw.VFSFile(self.vfs or "", os.fspath(self.path.absolute()), [flags, 0])
        try:
            return file.xRead(_HEAD_BYTES, 0)
        finally:
            file.xClose()

    def _open(self, flags: int, query: str = "") -> apsw.Connection:
        name = quote(os.fsencode(self.path.absolute()))
        uri = f"file:{name}?{query}" if query else f"file:{name}"
        return self.connect(uri, flags | apsw.SQLITE_OPEN_URI, self.vfs)


def _set_up(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(0)
    if connection.pragma("journal_mode", "wal") != "wal":
        message = "the file system cannot share memory between connections"
        raise apsw.CantOpenError(message)
    connection.pragma("synchronous", "full")
    connection.pragma("foreign_keys", "on")
    connection.pragma("secure_delete", "on")
    # Deleted data must not end up in an unknown temporary file.
    connection.pragma("temp_store", "memory")
    connection.wal_autocheckpoint(0)


_LATER_COLUMNS: Final = (
    ("session", "0 AS codec, 0 AS deaths"),
    ("node", "0 AS load, 0 AS codec, '' AS digest, 0 AS lease_ms, is_gone * seen_at_ms AS gone_at_ms"),
    ("owed", "'' AS node"),
)
_HAS_THEM: Final = 3


def _show_later_columns(connection: apsw.Connection) -> None:
    # If a writer upgrades the file meanwhile, the columns of the tables themselves come first, and win.
    if connection.pragma("user_version") < _HAS_THEM:
        for table, columns in _LATER_COLUMNS:
            if connection.table_exists("main", table):
                connection.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {columns} FROM main.{table}")  # noqa: S608 - constants
            else:
                connection.execute(f"CREATE TEMP TABLE {table} (kind, id, body, node)")


def forget(connection: apsw.Connection) -> None:
    """Close a reading connection or one with an error, without a checkpoint."""
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(True)  # noqa: FBT003 - apsw takes it by position
    except apsw.Error:
        pass  # it is not used again in any case


@contextmanager
def forgotten_after(connection: apsw.Connection) -> Iterator[apsw.Connection]:
    try:
        yield connection
    finally:
        forget(connection)


def is_damage(error: BaseException) -> bool:
    return isinstance(error, (*_DAMAGE, DamagedStoreError))


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and of the system. Their cause can be passed to `is_damage`."""
    try:
        yield
    except OSError as error:
        raise no_store_at(path, error.strerror or str(error)) from error
    except (*_DAMAGE, DamagedStoreError) as error:
        message = f"the store {os.fspath(path)!r} is damaged ({error}): the writing process repairs it at its next attempt"
        raise StoreUnavailable(message) from error
    except tuple(_TROUBLE) as error:
        message = f"the store {os.fspath(path)!r} cannot be used now: {reason_of(error)} ({error}); sessions continue when it can"
        raise StoreUnavailable(message) from error


def reason_of(error: BaseException) -> str:
    return next(text for kind, text in _TROUBLE.items() if isinstance(error, kind))


class ReadConnections:
    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._generation = 0
        self._is_closed = False

    @contextmanager
    def borrowed(self) -> Iterator[apsw.Connection]:
        """Lend a connection for the block. One with an error is not reused."""
        with translated(self._connector.path):
            with self._lock:
                if self._is_closed:
                    message = "the store was closed"
                    raise apsw.ConnectionClosedError(message)
                generation = self._generation
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connector.to_read(is_current=True)
            try:
                yield connection
            except AgentrailError:
                self._give_back(connection, generation)
                raise
            except BaseException:
                forget(connection)
                raise
            self._give_back(connection, generation)

    def _give_back(self, connection: apsw.Connection, generation: int) -> None:
        with self._lock:
            if generation == self._generation and len(self._idle) < _MAX_IDLE_READERS:
                self._idle.append(connection)
                return
        forget(connection)

    def drop(self) -> None:
        """Close idle connections, and the others when they are returned."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._generation += 1
        for connection in idle:
            forget(connection)

    def close(self) -> None:
        """Stop lending. Can be called repeatedly."""
        with self._lock:
            self._is_closed = True
        self.drop()
