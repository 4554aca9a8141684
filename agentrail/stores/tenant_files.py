"""One SQLite file per tenant, in a directory. Several processes may write it in short transactions."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from agentrail.errors import AgentrailError, NotAStore, StoreTooNew, StoreUnavailable
from agentrail.private_paths import keep_private
from agentrail.stores.porter_stemmer import stem
from agentrail.stores.sqlite_connections import (
    Connector,
    DamagedStoreError,
    ReadConnections,
    check_sqlite,
    forget,
    is_damage,
    translated,
)
from agentrail.stores.sqlite_files import fault_of_file_place, make_private_file
from agentrail.stores.words import KEY_LENGTH
from agentrail.structs import decoder_of

WRITE_PATIENCE_MS: Final = 5_000
"""Time that a transaction waits for another process, and that emptying a log waits for its readers."""

MAX_OPEN_TENANTS: Final = 32
"""Limit on open files. Beyond it, the least recently used one is closed and reopened when needed."""


class TenantSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Schema of each file.

    Attributes:
        what: Plural name of its contents, for messages.
        upgrades: Upgrades from version 1, 2 and so on to the next.
    """

    what: str
    application_id: int
    version: int
    tables: str
    upgrades: tuple[str | Callable[[apsw.Connection], None], ...] = ()


def cut_index_again(
    connection: apsw.Connection, *, table: str, columns: Sequence[str], kept: Sequence[str] = ()
) -> None:
    connection.execute("CREATE VIRTUAL TABLE temp.instances USING fts5vocab(main, words, instance)")
    statement = "SELECT doc, col, term FROM temp.instances ORDER BY doc, col, offset"
    found: list[Any] = connection.execute(statement).fetchall()
    connection.execute(f"DROP TABLE temp.instances; DROP TABLE words; {table}")
    marks = ", ".join("?" * (len(columns) + 1))
    for number, rows in groupby(found, key=lambda row: row[0]):
        texts: dict[str, list[str]] = {name: [] for name in columns}
        for _, column, term in rows:
            key, word = term[:KEY_LENGTH], term[KEY_LENGTH:]
            texts[column].append(key + (word if column in kept else stem(word)))
        connection.execute(
            f"INSERT INTO words (rowid, {', '.join(columns)}) VALUES ({marks})",  # noqa: S608 - our own names
            (number, *(" ".join(texts[name]) for name in columns)),
        )


def file_name(tenant: str) -> str:
    """Return the file name of a tenant: a hash, because a name may be any text."""
    if not tenant:
        return "default.db"
    return f"{hashlib.blake2b(tenant.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}.db"


class TenantFile:
    """File of one tenant."""

    def __init__(self, path: Path, schema: TenantSchema) -> None:
        self.path: Path = path
        self._schema = schema
        self._connector = Connector(path=path)
        self._readers = ReadConnections(self._connector)
        self._turn = threading.RLock()
        self._writer: apsw.Connection | None = None
        self._is_known = False

    def exists(self) -> bool:
        """Return whether it exists. Raise `StoreUnavailable` where none can, such as below a file."""
        with self._said(), translated(self.path), suppress(FileNotFoundError):
            self.path.stat()
            return True
        return False

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection | None]:
        with self._said(), translated(self.path):
            if not self.exists():
                yield None
                return
            if not self.path.is_file():  # opening a pipe would wait for its writer
                raise no_place(self._schema.what, self.path, "it is not a regular file")
            with self._readers.borrowed() as connection:
                if not self._is_known:
                    if not _is_made(connection):
                        yield None  # another process is creating it
                        return
                    self._check(connection)
                    if connection.pragma("user_version") < self._schema.version:
                        # A file that cannot be written is read as it is.
                        with self._turn, suppress(AgentrailError), translated(self.path):
                            self._connected()
                yield connection

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """Lend the writing connection, within a transaction. Creates the file."""
        with self._turn, self._said():
            try:
                with translated(self.path):
                    connection = self._connected()
                    connection.execute("BEGIN IMMEDIATE")
                    try:
                        yield connection
                    except AgentrailError:
                        connection.execute("ROLLBACK")
                        raise
                    connection.execute("COMMIT")
            except AgentrailError as error:
                if isinstance(error, StoreUnavailable):
                    self._drop()
                raise
            except BaseException:  # the state of a connection after an error is unknown
                self._drop()
                raise

    def empty_log(self) -> bool:
        """Move the log into the file and truncate it. Waits some seconds for readers."""
        with self._turn, self._said(), translated(self.path):
            if not self.exists():
                return True
            connection = self._connected()
            with suppress(apsw.BusyError):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                return True
            return False

    def rest(self) -> None:
        """Close the connections. The next call reopens them."""
        self._readers.drop()
        with self._turn:
            self._drop()

    def close(self) -> None:
        """Close the file. Can be called repeatedly. Running calls finish first."""
        with self._turn:
            writer, self._writer = self._writer, None
            if writer is not None:
                with suppress(apsw.Error):
                    writer.close()
        self._readers.close()

    # --- opening

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable as error:
            cause, what, path = error.__cause__, self._schema.what, os.fspath(self.path)
            if cause is None:
                raise
            if isinstance(cause, OSError):
                raise no_place(what, self.path, cause.strerror or str(cause)) from cause
            if is_damage(cause):
                message = f"the file of {what} {path!r} is damaged ({cause}): move it away, or replace it with a backup"
            else:
                message = f"the file of {what} {path!r} cannot be used now: {cause}; try again later"
            raise StoreUnavailable(message) from cause

    def _connected(self) -> apsw.Connection:
        if self._writer is None:
            if not self.path.exists():
                self.path.parent.parent.mkdir(parents=True, exist_ok=True)
                self.path.parent.mkdir(mode=0o700, exist_ok=True)
                with suppress(FileExistsError):
                    make_private_file(self.path)
            fault = fault_of_file_place(self.path)
            if fault is not None:
                raise no_place(self._schema.what, self.path, fault)
            self._writer = self._opened()
        return self._writer

    def _opened(self) -> apsw.Connection:
        connection = self._connector.to_fill()
        try:
            connection.set_busy_timeout(WRITE_PATIENCE_MS)
            connection.pragma("secure_delete", "on")
            # Deleted data must not end up in an unknown temporary file.
            connection.pragma("temp_store", "memory")
            connection.pragma("synchronous", "full")
            # Two processes that create the same file do so one after the other.
            connection.execute("BEGIN IMMEDIATE")
            if _is_made(connection):
                self._check(connection)
                for number in range(connection.pragma("user_version"), self._schema.version):
                    upgrade = self._schema.upgrades[number - 1]
                    if callable(upgrade):
                        upgrade(connection)
                    else:
                        connection.execute(upgrade)
                    connection.pragma("user_version", number + 1)
            else:
                connection.pragma("application_id", self._schema.application_id)
                connection.pragma("user_version", self._schema.version)
                connection.execute(self._schema.tables)
            connection.execute("COMMIT")
            # Another process has just created it too, and one of the two succeeds.
            with suppress(apsw.BusyError):
                connection.pragma("journal_mode", "wal")
        except BaseException:
            forget(connection)
            raise
        return connection

    def _check(self, connection: apsw.Connection) -> None:
        found, version = connection.pragma("application_id"), connection.pragma("user_version")
        path, what = os.fspath(self.path), self._schema.what
        if found != self._schema.application_id:
            message = f"{path!r} is not a file of {what}: its application id is {found:#010x}, expected {self._schema.application_id:#010x}; it was not modified"
            raise NotAStore(message)
        if version > self._schema.version:
            message = f"the file of {what} {path!r} has tables of version {version}, but this agentrail supports up to {self._schema.version}; it was not modified. Use the newer agentrail that created it"
            raise StoreTooNew(message, found=version, known=self._schema.version)
        self._is_known = True

    def _drop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            forget(writer)


def _is_made(connection: apsw.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema").get)


_NAMES: Final = decoder_of(tuple[str, ...])


def list_of(text: Any) -> tuple[str, ...]:
    """Return the names in a column, which is a JSON list. Anything else is damage."""
    try:
        return _NAMES.decode(text)
    except (TypeError, ValueError) as error:  # the first for another type of value
        message = f"not a JSON list of texts: {error}"
        raise DamagedStoreError(message) from error


def no_place(what: str, path: Path, reason: str) -> StoreUnavailable:
    return StoreUnavailable(f"no {what} can be kept in {os.fspath(path)!r}: {reason}; name another directory")


class TenantFiles:
    """Files of all tenants, in one directory."""

    def __init__(self, directory: Path, schema: TenantSchema) -> None:
        check_sqlite(apsw.sqlite_lib_version())
        self.directory: Path = directory
        keep_private(directory)
        self._schema = schema
        self._turn = threading.Lock()
        self._files: dict[str, TenantFile] = {}
        self._is_closed = False

    def of(self, tenant: str) -> TenantFile:
        with self._turn:
            if self._is_closed:
                message = f"the {self._schema.what} in {os.fspath(self.directory)!r} were closed"
                raise StoreUnavailable(message)
            file = self._files.pop(tenant, None) or TenantFile(
                self.directory / file_name(tenant), self._schema
            )
            self._files[tenant] = file  # the last entry is the most recently used one
            oldest = next(iter(self._files)) if len(self._files) > MAX_OPEN_TENANTS else None
            resting = None if oldest is None else self._files.pop(oldest)
        if resting is not None:
            resting.rest()
        return file

    def close(self) -> None:
        """Close all files. Can be called repeatedly."""
        with self._turn:
            self._is_closed = True
            files, self._files = [*self._files.values()], {}
        for file in files:
            file.close()
