"""Connections of `SqliteStore`: how they are opened, what their errors mean, and those that only read. No table is named here.

SQLite is asked through apsw, because it brings a SQLite in which a corruption of the log is mended, and a way to put a file system
of one's own below it.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

import apsw
import msgspec

from agentrail.errors import AgentrailError, StoreUnavailable

Connect: TypeAlias = Callable[[str, int, str | None], apsw.Connection]
"""Opens a connection: a URI, flags of SQLite, and the name of the file system below it."""

READ_PATIENCE_MS: Final = 1000
"""How long a reader waits for a moment in which the log is swept or read anew."""

_MAX_IDLE_READERS: Final = 4

_DAMAGE: Final = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.ConstraintError,
    apsw.SQLError,
    UnicodeDecodeError,
)
"""What pages say that are not as they were written. Statements and constraints are our own: one that fails says the same."""

_TROUBLE: Final[Mapping[type[apsw.Error], str]] = {
    apsw.FullError: "the disk is full",
    apsw.IOError: "the disk could not be read or written",
    apsw.CantOpenError: "the file cannot be opened",
    apsw.ReadOnlyError: "the file cannot be written",
    apsw.PermissionsError: "the file may not be used",
    apsw.BusyError: "another connection holds it",
    apsw.LockedError: "another connection holds it",
    apsw.ProtocolError: "another connection holds it",
    apsw.ConnectionClosedError: "it was closed meanwhile",
}
"""What goes over by itself, or by what an operator does. Every other error is ours."""


_HEAD_BYTES: Final = 100
"""How long the head of a database is (sqlite.org/fileformat.html, 1.3)."""

FIRST_SOUND: Final = (3, 51, 3)
"""The first SQLite without a fault that could lose commits when a log was begun anew."""


def check_sqlite(found: str) -> None:
    """Refuse a SQLite that is not sound. The wheels of apsw bring one that is; the packages of a system may not."""
    if tuple(int(part) for part in found.split(".")[:3]) < FIRST_SOUND:
        wanted = ".".join(map(str, FIRST_SOUND))
        message = f"SQLite {found} may lose commits, {wanted} is the first that does not: install apsw from its wheel, `pip install --force-reinstall apsw`"
        raise StoreUnavailable(message)


class DamagedStoreError(Exception):
    """What is in the file contradicts itself. Stays in this room: it becomes a look at the whole file."""


def connect(uri: str, flags: int, vfs: str | None) -> apsw.Connection:
    """Open a connection as SQLite does."""
    return apsw.Connection(uri, flags=flags, vfs=vfs)


class Connector(msgspec.Struct, frozen=True, kw_only=True):
    """How the connections of one file are opened.

    Attributes:
        path: Of the file.
        connect: What opens one.
        vfs: The name of the file system below it; None for SQLite's own.
    """

    path: Path
    connect: Connect = connect
    vfs: str | None = None

    def at(self, path: Path) -> "Connector":
        """The same for another file."""
        return msgspec.structs.replace(self, path=path)

    def to_write(self) -> apsw.Connection:
        """Open a file that is there, and set up what makes a commit durable."""
        flags = apsw.SQLITE_OPEN_READWRITE
        connection = self.connect(self._uri(), flags | apsw.SQLITE_OPEN_URI, self.vfs)
        try:
            _set_up(connection)
        except BaseException:
            forget(connection)
            raise
        return connection

    def to_read(self) -> apsw.Connection:
        """Open a file that is there, and never write it."""
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = self.connect(self._uri("mode=ro"), flags, self.vfs)
        try:
            connection.set_busy_timeout(READ_PATIENCE_MS)
            connection.pragma("temp_store", "memory")
        except BaseException:
            forget(connection)
            raise
        return connection

    def to_fill(self) -> apsw.Connection:
        """Open a file that was made for this, to be filled and closed again."""
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        return self.connect(self._uri(), flags, self.vfs)

    def to_look(self) -> apsw.Connection:
        """Open a file that may be anything, without its log: no lock is taken, and nothing is made beside it.

        By SQLite, though four bytes are all that is wanted: a file that is closed otherwise drops the locks of this process.
        """
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return self.connect(self._uri("mode=ro&immutable=1"), flags, self.vfs)

    def read_head(self) -> bytes:
        """Read what stands at the beginning of a file that may be anything: the head of a database, whatever its pages say.

        Through SQLite too, and for the same reason.
        """
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
        file = apsw.VFSFile(self.vfs or "", os.fspath(self.path.absolute()), [flags, 0])
        try:
            return file.xRead(_HEAD_BYTES, 0)
        finally:
            file.xClose()

    def _uri(self, query: str = "") -> str:
        name = quote(os.fsencode(self.path.absolute()))
        return f"file:{name}?{query}" if query else f"file:{name}"


def _set_up(connection: apsw.Connection) -> None:
    """Set up what makes a commit durable, and what is deleted gone."""
    connection.set_busy_timeout(0)
    if connection.pragma("journal_mode", "wal") != "wal":
        message = "the file system cannot share memory between connections"
        raise apsw.CantOpenError(message)
    connection.pragma("synchronous", "full")
    connection.pragma("foreign_keys", "on")
    connection.pragma("secure_delete", "on")
    # What is deleted must not lie in a file that nothing knows of.
    connection.pragma("temp_store", "memory")
    connection.wal_autocheckpoint(0)


def forget(connection: apsw.Connection) -> None:
    """Close a connection that only reads or that had an error, and let it do nothing on its way: it may sweep nothing."""
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(True)  # noqa: FBT003 - apsw takes it by place
    except apsw.Error:
        pass  # it is not used again, whatever it says


@contextmanager
def forgotten_after(connection: apsw.Connection) -> Iterator[apsw.Connection]:
    """Close a connection that only reads behind the block."""
    try:
        yield connection
    finally:
        forget(connection)


def is_damage(error: BaseException) -> bool:
    """Whether an error says that pages are not as they were written."""
    return isinstance(error, (*_DAMAGE, DamagedStoreError))


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Say what SQLite's errors mean; `is_damage` is asked of their cause."""
    try:
        yield
    except (*_DAMAGE, DamagedStoreError) as error:
        message = f"the store {os.fspath(path)!r} is damaged ({error}): it is salvaged by the process that writes it, at its next try"
        raise StoreUnavailable(message) from error
    except tuple(_TROUBLE) as error:
        reason = next(text for kind, text in _TROUBLE.items() if isinstance(error, kind))
        message = f"the store {os.fspath(path)!r} cannot be used now: {reason} ({error}); sessions go on when it can"
        raise StoreUnavailable(message) from error


class ReadConnections:
    """Connections that only read. Each is used by one thread at a time; some are kept for the next one."""

    def __init__(self, connector: Connector) -> None:
        """Open none yet."""
        self._connector = connector
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._generation = 0
        self._is_closed = False

    @contextmanager
    def borrowed(self) -> Iterator[apsw.Connection]:
        """Lend a connection for the block. One that had an error is not lent again."""
        with translated(self._connector.path):
            with self._lock:
                if self._is_closed:
                    message = "the store was closed"
                    raise apsw.ConnectionClosedError(message)
                generation = self._generation
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connector.to_read()
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
        """Close those that nothing reads with, and the others when they come back: the file may be another one now."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._generation += 1
        for connection in idle:
            forget(connection)

    def close(self) -> None:
        """Lend none any more; again if you like."""
        with self._lock:
            self._is_closed = True
        self.drop()
