"""`SqliteStore`: journals in one SQLite file, for one machine. One process writes, others may read.

After a disk error the connection is dropped. A corrupt file is set aside and salvaged by the next writing call.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import apsw
import msgspec

from agentrail import outside
from agentrail.abc.store import (
    Append,
    Erasure,
    Opening,
    Taken,
    TakeOver,
)
from agentrail.errors import (
    AgentrailError,
    NotAStore,
    OptionError,
    StoreInUse,
    StoreTooNew,
    StoreUnavailable,
)
from agentrail.messages import SessionId
from agentrail.otp.field_rules import CountOrZero, checks_arguments
from agentrail.private_paths import keep_private
from agentrail.stores.append_rules import AppendRefusal, NodeLease, TreeTaker, leased, lent
from agentrail.stores.data_directory import checked_path, no_store_at
from agentrail.stores.sqlite_connections import (
    Connect,
    Connector,
    ReadConnections,
    check_sqlite,
    connect as connect_with_apsw,
    forget,
    forgotten_after,
    is_damage,
    reason_of,
    translated,
)
from agentrail.stores.sqlite_damage import (
    begin_salvage,
    check_sound,
    end_salvage,
    marker_path,
    set_aside,
    write_report,
)
from agentrail.stores.sqlite_deletions import delete_tree, erase_tree, trim_journal, write_anew
from agentrail.stores.sqlite_files import (
    FileIds,
    WriteLock,
    beside,
    check_place,
    file_ids,
    has_lock_file,
    has_log,
    lock_path,
    make_private,
    make_private_file,
    sync_directory,
)
from agentrail.stores.sqlite_nodes import (
    adopt_rows,
    claim_trees,
    draw_piece,
    forget_earlier_nodes,
    hear_of,
    known_nodes,
    owned_sessions,
    report_gone,
)
from agentrail.stores.sqlite_owed_rows import change_rows, fetch_rows
from agentrail.stores.sqlite_queries import (
    due_sessions,
    find_sessions,
    kept_snapshots,
    newest_sessions,
    orphans_of,
    read_records,
    size_of,
)
from agentrail.stores.sqlite_rows import fetch_session
from agentrail.stores.sqlite_salvage import SalvageReport, salvage
from agentrail.stores.sqlite_schema import (
    APPLICATION_ID,
    SCHEMA,
    StoreSchema,
    bring_up,
    check_steps,
    make_tables,
)
from agentrail.stores.sqlite_writes import (
    Standings,
    append_batch,
    create_journal,
    keep_snapshot,
    release_tree,
    take_over_tree,
    take_over_trees,
)

T = TypeVar("T")

# Opening the file of a `SqliteStore`: inspect it before changing anything, then create, upgrade or salvage
# it. Reads no session.


# From sqlite.org/fileformat.html, 1.3.
_MAGIC: Final = b"SQLite format 3\0"
_ID_AT: Final = 68
_ID_BYTES: Final = 4

_PIECE_BYTES: Final = 1 << 16
"""Bytes of a log that are written again at once. SQLite writes less than 128 KiB in one call."""

_OWN_TABLES: Final = frozenset({"meta", "session", "record", "snapshot", "blob", "node"})


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a file that can be found without changing it.

    Attributes:
        is_there: Whether the file exists and is not empty.
        is_damaged: Whether it is a store of agentrail that cannot be opened as it is.
    """

    is_there: bool
    is_damaged: bool = False


def look_at(connector: Connector, schema: StoreSchema) -> Look:
    """Inspect a file without changing it.

    Raises:
        NotAStore: It is not a store.
        StoreTooNew: A newer version of agentrail created it.
    """
    path = connector.path
    if not path.exists() or path.stat().st_size == 0:
        return Look(is_there=False)
    found: int | None = None
    names: set[str] = set()
    try:
        with forgotten_after(connector.to_look()) as connection:
            found = connection.pragma("application_id")
            version = connection.pragma("user_version")
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, UnicodeDecodeError):
        version = 0
        if found is None:
            found = _id_in(connector.read_head())
    if found == APPLICATION_ID and names >= _OWN_TABLES:
        _check_version(path, version, schema)
        return Look(is_there=True, is_damaged=version < 1)
    # An interrupted checkpoint leaves pages that refer to others still in the log. A process that opens the
    # file with its log finds it whole, or finds the damage.
    if found == APPLICATION_ID and has_log(path):
        return Look(is_there=True)
    # A damaged store is salvaged, a foreign file is left alone. So one mark of a store must be present.
    if found == APPLICATION_ID or names >= _OWN_TABLES or has_lock_file(path):
        return Look(is_there=True, is_damaged=True)
    what = "it is not an SQLite database" if found is None else f"its application id is {found:#010x}"
    message = f"{os.fspath(path)!r} is not a store of agentrail: {what}, expected {APPLICATION_ID:#010x}; it was not modified. Name another file, or omit it for the one in the data directory"
    raise NotAStore(message)


def _id_in(head: bytes) -> int | None:
    is_database = len(head) > _ID_AT + _ID_BYTES and head.startswith(_MAGIC)
    return int.from_bytes(head[_ID_AT : _ID_AT + _ID_BYTES], "big") if is_database else None


def _check_version(path: Path, found: int, schema: StoreSchema) -> None:
    if found > schema.version:
        message = f"the store {os.fspath(path)!r} has tables of version {found}, but this agentrail supports up to {schema.version}; it was not modified. Use the newer agentrail that created it"
        raise StoreTooNew(message, found=found, known=schema.version)


def prepare(connector: Connector, schema: StoreSchema, *, now_ms: int) -> SalvageReport | None:
    """Ensure a file with current tables: created, salvaged or unchanged. This process holds its lock.

    Returns:
        The report of a salvage, or None.

    Raises:
        NotAStore, StoreTooNew: As in `look_at`. The file may have appeared in between.
        apsw.Error: The disk failed.
    """
    path = connector.path
    if marker_path(path).exists():
        return _go_on_with_salvage(connector, schema, now_ms)
    look = look_at(connector, schema)
    if look.is_damaged:
        return salvage_now(connector, schema, now_ms=now_ms)
    if look.is_there:
        make_private(path)
        return None
    fresh = _make_beside(connector, schema, now_ms)
    _put_in_place(fresh, path)
    return None


def salvage_now(connector: Connector, schema: StoreSchema, *, now_ms: int) -> SalvageReport | None:
    """Set a damaged file aside and replace it with its readable contents. No connection to it is open.

    Returns:
        The report, or None if a process that died during the salvage had finished all but the report.
    """
    begin_salvage(connector.path, now_ms=now_ms)
    return _go_on_with_salvage(connector, schema, now_ms)


def _go_on_with_salvage(connector: Connector, schema: StoreSchema, now_ms: int) -> SalvageReport | None:
    path, report = connector.path, None
    damaged = set_aside(path)
    if damaged is not None:
        fresh = _make_beside(connector, schema, now_ms)
        with closing(connector.at(fresh).to_write()) as connection:
            report = salvage(connector.at(damaged), connection)
        write_report(report)
        _put_in_place(fresh, path)
    end_salvage(path)
    return report


def _make_beside(connector: Connector, schema: StoreSchema, now_ms: int) -> Path:
    """Create a complete store under a temporary name, and rename it."""
    fresh = connector.path.with_name(connector.path.name + ".new")
    for left in (fresh, *beside(fresh), fresh.with_name(fresh.name + "-journal")):
        left.unlink(missing_ok=True)
    make_private_file(fresh)
    with closing(connector.at(fresh).to_fill()) as connection:
        make_tables(connection, schema, made_at_ms=now_ms)
    return fresh


def _put_in_place(fresh: Path, path: Path) -> None:
    for left in beside(path):
        left.unlink(missing_ok=True)  # of an empty file: there was never a store here
    fresh.rename(path)
    sync_directory(path.parent)


def open_writer(connector: Connector, schema: StoreSchema, *, look_closely: bool) -> apsw.Connection:
    """Open the writing connection and make the contents of the log durable.

    A commit whose completion was never confirmed may exist only in memory. It is written again before it is
    relied on.

    Args:
        connector: Connector of an existing file.
        schema: Schema to upgrade to, after a copy.
        look_closely: Whether to check the whole file, because a read found corrupt data.

    Raises:
        StoreTooNew: A newer version of agentrail wrote it.
        DamagedStoreError: The check found damage.
        ValueError: The schema has no upgrade path from this version, or a wrong one.
        apsw.Error: The disk failed.
    """
    sync_directory(connector.path.parent)  # an earlier attempt may have failed
    _write_log_again(connector)
    connection = connector.to_write()
    try:
        found = connection.pragma("user_version")
        _check_version(connector.path, found, schema)
        if look_closely and found == schema.version:  # the check expects the current columns
            check_sound(connection)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        if found < schema.version:
            check_steps(schema, found)
            older = connector.path.with_name(f"{connector.path.name}.v{found}")
            older.with_name(f"{older.name}.new").unlink(missing_ok=True)
            _write_copy(connector, connection, older)
            bring_up(connection, schema, found)
    except BaseException:
        forget(connection)
        raise
    return connection


def _write_log_again(connector: Connector) -> None:
    """Write the log to the disk again, with the same contents.

    After a failed sync the system takes pages for written that are not, and later syncs succeed without them. A
    checkpoint of such a log, and a power cut before the log is truncated, would leave a damaged file.
    """
    if not has_log(connector.path):
        return
    log, _ = beside(connector.path)
    flags = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_READWRITE
    file = apsw.VFSFile(connector.vfs or "", os.fspath(log), [flags, 0])
    try:
        size = file.xFileSize()
        for offset in range(0, size, _PIECE_BYTES):
            file.xWrite(file.xRead(min(_PIECE_BYTES, size - offset), offset), offset)
        file.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        file.xClose()


def copy_store(connector: Connector, source: apsw.Connection, path: Path) -> int:
    """Copy the database of a connection to a new file that only its owner may read, completely or not at all.

    Returns:
        Size of the copy in bytes.

    Raises:
        OptionError: Your move: a file of this name already exists, or one with `.new` after it, the name of an unfinished copy.
        StoreUnavailable: The copy cannot be written. The message has the path and the reason.
        apsw.Error: The store cannot be read.
    """
    try:
        for one in (path, path.with_name(f"{path.name}.new")):
            if one.exists():
                raise OptionError([f"{os.fspath(one)!r} already exists: name a new file"])
        _write_copy(connector, source, path)
        return path.stat().st_size
    except (OSError, apsw.FullError, apsw.IOError, apsw.CantOpenError) as error:
        reason = error.strerror if isinstance(error, OSError) else reason_of(error)
        message = f"the copy {os.fspath(path)!r} cannot be written: {reason}; name another place"
        raise StoreUnavailable(message) from error


def _write_copy(connector: Connector, source: apsw.Connection, path: Path) -> None:
    """Copy a database. The copy replaces an older one once complete."""
    fresh = path.with_name(f"{path.name}.new")
    make_private_file(fresh)
    try:
        with closing(connector.at(fresh).to_fill()) as copy:
            with copy.backup("main", source, "main") as running:
                running.step()  # in one step: later writes are not included
            copy.pragma("journal_mode", "delete")  # a single file, without a log
        fresh.rename(path)
    except BaseException:
        for left in (fresh, fresh.with_name(f"{fresh.name}-journal")):
            left.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


MAX_LOG_BYTES: Final = 16 * 1024 * 1024
"""Log size at which it is moved into the file, if there was no idle moment before."""

_PAGE_BYTES: Final = 4096

_TAKEN_AWAY: Final = "its files were removed or replaced while this process writes them"


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # a loop of links
        return path


class SqliteStore(TreeTaker):
    """Journals in a file. See `Store` for the contract of each call."""

    is_immediate: Final = False
    is_shared: Final = False

    @checks_arguments
    def __init__(  # noqa: PLR0913 - replaceable for tests
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        lease_ms: CountOrZero = 15_000,
        wall: Callable[[], float] | None = None,
        connect: Connect = connect_with_apsw,
        vfs: str | None = None,
        mounts: Callable[[], str] | None = None,
        schema: StoreSchema = SCHEMA,
    ) -> None:
        """Open a store. Create it if it does not exist.

        Args:
            path: Path of the file, in an existing directory. Its log and its lock are in the same directory.
            read_only: Whether to open it next to a process that writes. Writing calls then raise `OptionError`.
            lease_ms: Time after its last heartbeat during which a node counts as alive.
            wall: Clock of the store, in seconds since 1970. Default: the machine's clock.
            connect: Opens connections.
            vfs: Name of the SQLite file system to use. None: the default.
            mounts: Returns the mounts of the machine, in the format of Linux' `mountinfo`.
            schema: Schema of the tables.

        Raises:
            StoreUnavailable: The directory is missing, not writable or on another machine, or the disk is full.
            NotAStore: Your move: the file is not a store. It was not changed.
            StoreInUse: Your move: another process writes it.
            StoreTooNew: Your move: a newer agentrail created it. It was not changed.
            OptionError: Your move: not a path, or SQLite knows no such file system.
        """
        check_sqlite(apsw.sqlite_lib_version())
        # One name per file: a link would lead to a second lock, and a second writer.
        self._path = _resolved(checked_path("path", path))
        keep_private(self._path, *beside(self._path), lock_path(self._path))
        if vfs is not None and vfs not in apsw.vfs_names():
            raise OptionError(
                [f"vfs is {vfs!r}, but SQLite knows only {', '.join(apsw.vfs_names())}: register it first"]
            )
        self._wall = outside.current().wall if wall is None else wall
        self._lease_ms = lease_ms
        self._schema = schema
        self._connector = Connector(path=self._path, connect=connect, vfs=vfs)
        self._readers = ReadConnections(self._connector)
        self._writer: apsw.Connection | None = None
        self._lock: WriteLock | None = None
        # One thread writes. The lock is for another thread that closes the store, so that the file lock is
        # released after the last commit.
        self._turn = threading.RLock()
        self._standings: Standings = {}
        self._log_pages = 0
        self._files: FileIds = (None, None)
        self._is_suspect = self._must_empty_log = self._is_closed = False
        self._may_have_remains = True  # an earlier process may have left some
        self._salvaged: SalvageReport | None = None
        with translated(self._path):
            if read_only:
                self._check_is_file()
            else:
                check_place(self._path, mounts=mounts)
            look_at(self._connector, schema)
        if read_only:
            return
        self._lock = WriteLock(self._path, since_ms=self.now_ms())
        try:
            self._open_first()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "reads" if self._lock is None else "writes"
        return f"SqliteStore({os.fspath(self._path)!r}, {state})"

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._path

    @property
    def salvaged(self) -> SalvageReport | None:
        """Report of the salvage since this store was opened, or None."""
        return self._salvaged

    def now_ms(self) -> int:
        """Return the store's clock: milliseconds since 1970."""
        return int(self._wall() * 1000)

    def _lease(self) -> NodeLease:
        return NodeLease(self.now_ms(), self._lease_ms)

    # --- opening and reopening

    def _check_is_file(self) -> None:
        if not self._path.is_file():
            reason = "it is not a regular file" if self._path.exists() else "there is no such file"
        elif not self._path.stat().st_size:
            reason = "it is empty"
        else:
            return
        message = f"no sessions are stored in {os.fspath(self._path)!r}: {reason}; store one with agentrail chat or agentrail run --keep, or name another place with --data-dir"
        raise StoreUnavailable(message)

    def _open_first(self) -> None:
        with translated(self._path):
            self._salvaged = prepare(self._connector, self._schema, now_ms=self.now_ms())
        try:
            with self._transaction() as connection:
                forget_earlier_nodes(connection, self.now_ms())
        except StoreUnavailable:
            if not self._is_suspect:
                raise
            with self._transaction() as connection:  # it is damaged, and this attempt salvages it
                forget_earlier_nodes(connection, self.now_ms())

    def _connected(self) -> apsw.Connection:
        if self._lock is None or self._is_closed:
            if not self._is_closed:
                fault = f"the store {os.fspath(self._path)!r} was opened read-only: open it without read_only to write"
                raise OptionError([fault])
            message = "the store was closed"
            raise apsw.ConnectionClosedError(message)
        if self._is_suspect:
            self._drop_writer()
        if self._writer is None:
            self._writer = self._opened()
        return self._writer

    def _check_files(self, connection: apsw.Connection) -> None:
        """Check that the next process will find the last commit, and put removed files back."""
        found = file_ids(self._path)
        if found == self._files:
            return
        (store, log), (own, own_log) = found, self._files
        if store == own and own_log is None:  # the first commit creates the log
            self._files = found
            return
        if store is None:
            self._put_back(connection)
        elif store == own and log != own_log:
            with suppress(apsw.Error):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        raise no_store_at(self._path, _TAKEN_AWAY)

    def _put_back(self, connection: apsw.Connection) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not lock_path(self._path).exists():  # it was removed with its directory
                own, self._lock = self._lock, WriteLock(self._path, since_ms=self.now_ms())
                if own is not None:
                    own.release()
            # Of the removed file: its frames fit no other. An unfinished file is replaced.
            for old in (*beside(self._path), self._path.with_name(f"{self._path.name}.new")):
                old.unlink(missing_ok=True)
            self._readers.drop()
            copy_store(self._connector, connection, self._path)
        except (OSError, StoreInUse, OptionError) as error:
            raise no_store_at(self._path, str(error)) from error

    def _opened(self) -> apsw.Connection:
        self._log_pages = 0
        if self._files[0] is not None and not self._path.exists():
            raise no_store_at(self._path, _TAKEN_AWAY)  # not a new store, without the running sessions
        try:
            connection = open_writer(self._connector, self._schema, look_closely=self._is_suspect)
        except BaseException as error:  # noqa: ASYNC103 - no loop runs here, and other errors are raised again
            if not self._is_suspect or not is_damage(error):
                raise
            self._readers.drop()
            report = salvage_now(self._connector, self._schema, now_ms=self.now_ms())
            self._salvaged = report or self._salvaged
            connection = open_writer(self._connector, self._schema, look_closely=False)
        self._is_suspect = False
        connection.set_wal_hook(self._note_log)
        self._files = file_ids(self._path)
        return connection

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _drop_writer(self) -> None:
        self._standings = {}
        writer, self._writer = self._writer, None
        if writer is not None:
            forget(writer)

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            with self._turn, translated(self._path):
                yield
        except StoreUnavailable as error:
            self._drop_writer()
            if error.__cause__ is not None and is_damage(error.__cause__):
                self._is_suspect = True
            raise
        except AgentrailError:
            raise
        except BaseException:
            self._drop_writer()
            raise

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        with self._trouble():
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except AgentrailError:
                self._standings = {}
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self._check_files(connection)
        if self._log_pages * _PAGE_BYTES >= MAX_LOG_BYTES:
            self._sweep_after_commit()

    def _sweep_after_commit(self) -> None:
        # The data is durable. The connection is dropped, and the next call opens another.
        with suppress(StoreUnavailable):
            self.checkpoint()

    def checkpoint(self) -> None:
        """Move the log into the file. Does nothing if the log is empty; otherwise costs two syncs.

        Call it from the writing thread after some idle moments, not after each commit.

        Raises:
            StoreUnavailable: The disk failed. Written data stays durable.
        """
        if self._writer is None or not (self._log_pages or self._must_empty_log):
            return
        with self._trouble():
            how = apsw.SQLITE_CHECKPOINT_TRUNCATE if self._must_empty_log else apsw.SQLITE_CHECKPOINT_PASSIVE
            try:
                self._writer.wal_checkpoint(mode=how)
            except apsw.BusyError:
                return  # a reader uses it: retry at the next idle moment
            self._log_pages = 0
            self._must_empty_log = False

    def _transact(self, call: Callable[[apsw.Connection], T]) -> T:
        with self._transaction() as connection:
            return call(connection)

    # --- writing

    release: Final = lent("_transact", release_tree)
    put_snapshot: Final = lent("_transact", keep_snapshot)
    change_owed: Final = lent("_transact", change_rows)
    take_many: Final = leased("_transact", take_over_trees)
    claim: Final = leased("_transact", claim_trees)
    beat: Final = leased("_transact", hear_of)
    gone: Final = leased("_transact", report_gone)
    take_allowance: Final = leased("_transact", draw_piece)
    adopt_owed: Final = leased("_transact", adopt_rows)

    def create(self, opening: Opening) -> None:
        """Create a journal. See `Store.create`."""
        with self._transaction() as connection:
            self._standings.clear()
            create_journal(connection, opening, self.now_ms())

    def _take(self, wanted: TakeOver) -> Taken:
        # Nodes of earlier processes are dead and hold nothing.
        return self._transact(lambda connection: take_over_tree(connection, self._lease(), wanted))

    def append(self, batch: Sequence[Append]) -> tuple[AppendRefusal | None, ...]:
        """Append records of many sessions in one transaction. See `Store.append`."""
        with self._transaction() as connection:
            return append_batch(connection, batch, self.now_ms(), self._standings)

    def delete(self, scope: str, session: SessionId, *, written_before_ms: int | None = None) -> int:
        """Delete a root with its tree. See `Store.delete`. The data is overwritten in the file and in its log."""
        self._must_empty_log = self._may_have_remains = True  # first, because the outcome may be unknown
        with self._transaction() as connection:
            self._standings.clear()
            removed = delete_tree(connection, scope, session, written_before_ms, self._lease())
        self._sweep_after_commit()
        return removed

    def trim(self, scope: str, session: SessionId, before: int) -> int:
        """Drop records before a number. See `Store.trim`. The data is overwritten as in `delete`."""
        self._must_empty_log = self._may_have_remains = True
        with self._transaction() as connection:
            dropped = trim_journal(connection, scope, session, before)
        self._sweep_after_commit()
        return dropped

    def erase(self, scope: str, session: SessionId, why: str) -> Erasure:
        """Erase the content of a tree. See `Store.erase`. The data is overwritten as in `delete`."""
        self._must_empty_log = self._may_have_remains = True
        with self._transaction() as connection:
            self._standings.clear()
            return erase_tree(connection, scope, session, why, self._lease())

    def overwrite_removed(self) -> bool:
        """Rewrite the file if data was deleted, and empty its log. See `Store.overwrite_removed`.

        Sessions wait while the whole file is copied. Their writes follow afterwards.
        """
        with self._trouble():
            connection = self._connected()
            if self._may_have_remains:
                write_anew(connection)
                self._may_have_remains = False
        self._must_empty_log = True
        self.checkpoint()
        return not self._must_empty_log

    def close(self) -> None:
        """Close the file and release its lock. Can be called repeatedly. Running reads finish first."""
        self._readers.close()
        with self._turn:
            self._is_closed = True
            writer, self._writer = self._writer, None
            if writer is not None:
                try:
                    writer.close()
                except apsw.Error:
                    forget(writer)
            if self._lock is not None:
                self._lock.release()

    # --- reading

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        try:
            with self._readers.borrowed() as connection:
                yield connection
        except StoreUnavailable as error:
            if error.__cause__ is not None and is_damage(error.__cause__):
                self._is_suspect = True  # the next writing call checks the whole file
            raise

    def _read(self, call: Callable[[apsw.Connection], T]) -> T:
        with self._reading() as connection:
            return call(connection)

    read: Final = lent("_read", read_records)
    find: Final = lent("_read", find_sessions)
    newest: Final = lent("_read", newest_sessions)
    get: Final = lent("_read", fetch_session)
    size: Final = lent("_read", size_of)
    snapshots: Final = lent("_read", kept_snapshots)
    owed: Final = lent("_read", fetch_rows)
    owned: Final = lent("_read", owned_sessions)
    nodes: Final = leased("_read", known_nodes)
    orphans: Final = leased("_read", orphans_of)
    due: Final = leased("_read", due_sessions)

    def check_file(self) -> None:
        """Check the whole file: its pages and the consistency of its tables. Also works next to a writing process.

        Raises:
            StoreUnavailable: The file is damaged or cannot be read.
        """
        with self._reading() as connection:
            check_sound(connection, is_current=connection.pragma("user_version") == self._schema.version)

    def back_up(self, path: str | os.PathLike[str]) -> int:
        """Copy the store, with all durable data, to a new file of mode 0600. Also works next to a writing process.

        Args:
            path: Path of the copy, which exists completely or not at all.

        Returns:
            Size of the copy in bytes.

        Raises:
            OptionError: Your move: a file of this name already exists.
            StoreUnavailable: The copy cannot be written, or the store cannot be read.
        """
        with self._reading() as connection:
            return copy_store(self._connector, connection, checked_path("path", path))

    def blob(self, digest: str) -> bytes | None:
        """Return a large value by its SHA-256, or None if it is unknown."""
        with self._reading() as connection:
            row = connection.execute("SELECT content FROM blob WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else row[0]
