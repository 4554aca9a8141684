"""`SqliteStore`: journals in one file of SQLite, for one machine. One process writes it; others may read beside it.

One connection writes, in whatever thread calls; each reading thread has one of its own. An error of the disk is the end of the
connection that met it: the next call opens another, makes durable what lies in the log, and what is written again is idempotent. Pages
that are not as they were written are set aside and salvaged by the next call that writes; `salvaged` tells what became of them.
No Trio enters, and no session. Clock, connections and the file system below them are given.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw
import msgspec

from agentrail import outside
from agentrail.abc.store import (
    Append,
    Cause,
    Erasure,
    Filters,
    Node,
    Opening,
    OwedRow,
    StoredSession,
    StoredSnapshot,
    Taken,
    TakeOver,
)
from agentrail.core.journal.record import Record
from agentrail.errors import (
    AgentrailError,
    Fenced,
    NotAStore,
    OptionError,
    StoreInUse,
    StoreTooNew,
    StoreUnavailable,
)
from agentrail.messages import SessionId
from agentrail.private_places import keep_private
from agentrail.stores.data_directory import no_store_at
from agentrail.stores.sqlite_connections import (
    Connect,
    Connector,
    ReadConnections,
    check_sqlite,
    connect as connect_with_apsw,
    forget,
    forgotten_after,
    is_damage,
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
from agentrail.stores.sqlite_owed import change_rows, fetch_rows
from agentrail.stores.sqlite_reading import (
    due_sessions,
    find_sessions,
    kept_snapshots,
    known_nodes,
    orphans_of,
    read_records,
    size_of,
)
from agentrail.stores.sqlite_removing import delete_tree, erase_tree, trim_journal, write_anew
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
from agentrail.stores.sqlite_writing import (
    Standings,
    append_batch,
    create_journal,
    forget_earlier_nodes,
    hear_of,
    keep_snapshot,
    release_tree,
    take_over_tree,
    take_over_trees,
)

# How the file of a `SqliteStore` is opened: looked at before anything is touched, made, brought up, salvaged. No session is read.


# Of sqlite.org/fileformat.html, 1.3.
_MAGIC: Final = b"SQLite format 3\0"
_ID_AT: Final = 68
_ID_BYTES: Final = 4

_OWN_TABLES: Final = frozenset({"meta", "session", "record", "snapshot", "blob", "node"})


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a file is, as far as can be told without touching it.

    Attributes:
        is_there: Whether there is a file with something in it.
        is_damaged: Whether it is a store of agentrail that cannot be opened as it is.
    """

    is_there: bool
    is_damaged: bool = False


def look_at(connector: Connector, schema: StoreSchema) -> Look:
    """Look at a file, and leave it as it is.

    Raises:
        NotAStore: It is something else.
        StoreTooNew: A newer version of agentrail made it.
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
    # A sweep of the log that was broken off leaves pages that speak of others which still lie in the log: a process that opens it
    # with its log finds it whole, or finds out.
    if found == APPLICATION_ID and has_log(path):
        return Look(is_there=True)
    # What is ours and damaged is salvaged, what is not is left alone: so one of its own marks has to be there.
    if found == APPLICATION_ID or names >= _OWN_TABLES or has_lock_file(path):
        return Look(is_there=True, is_damaged=True)
    what = "it is no database of SQLite" if found is None else f"its application id is {found:#010x}"
    message = (
        f"{os.fspath(path)!r} is no store of agentrail: {what}, expected {APPLICATION_ID:#010x}; "
        "nothing in it was touched. Name another file, or none for the one in the data directory"
    )
    raise NotAStore(message)


def _id_in(head: bytes) -> int | None:
    """Read the application id in the head of a database; None where it is none."""
    is_database = len(head) > _ID_AT + _ID_BYTES and head.startswith(_MAGIC)
    return int.from_bytes(head[_ID_AT : _ID_AT + _ID_BYTES], "big") if is_database else None


def _check_version(path: Path, found: int, schema: StoreSchema) -> None:
    if found > schema.version:
        message = (
            f"the store {os.fspath(path)!r} has tables of version {found}, and this agentrail knows up to {schema.version}: "
            "nothing in it was touched. Use the newer agentrail that made it"
        )
        raise StoreTooNew(message, found=found, known=schema.version)


def prepare(connector: Connector, schema: StoreSchema, *, now_ms: int) -> SalvageReport | None:
    """Have a file of today's tables in place: made, salvaged, or as it was. Its lock is held by this process.

    Returns:
        The report of a salvage, where there was one.

    Raises:
        NotAStore, StoreTooNew: As `look_at`; it may have come in between.
        apsw.Error: The disk does not do what it should.
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
    """Set a damaged file aside, and put what can be read of it in its place. No connection to it is open.

    Returns:
        The report; None where a process that died on the way had done all but to say so.
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
    """Make a whole store under another name, so that under its own there is a whole one or none."""
    fresh = connector.path.with_name(connector.path.name + ".new")
    for left in (fresh, *beside(fresh), fresh.with_name(fresh.name + "-journal")):
        left.unlink(missing_ok=True)
    make_private_file(fresh)
    with closing(connector.at(fresh).to_fill()) as connection:
        make_tables(connection, schema, made_at_ms=now_ms)
    return fresh


def _put_in_place(fresh: Path, path: Path) -> None:
    for left in beside(path):
        left.unlink(missing_ok=True)  # of an empty file: no store ever stood here
    fresh.rename(path)
    sync_directory(path.parent)


def open_writer(connector: Connector, schema: StoreSchema, *, look_closely: bool) -> apsw.Connection:
    """Open the connection that writes, and make durable what lies in the log.

    A commit whose end was never heard of may lie there in memory only: it is written anew before it is believed.

    Args:
        connector: Of a file that is in place.
        schema: What it is brought up to, after a copy.
        look_closely: Whether all of it is looked at, because something in it was not as it was written.

    Raises:
        StoreTooNew: A newer version of agentrail has written it.
        DamagedStoreError: It was looked at, and is not sound.
        ValueError: The schema has no way to it, or a wrong one.
        apsw.Error: The disk does not do what it should.
    """
    connection = connector.to_write()
    try:
        found = connection.pragma("user_version")
        _check_version(connector.path, found, schema)
        if look_closely and found == schema.version:  # the columns that are looked for are those of today
            check_sound(connection)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        if found < schema.version:
            check_steps(schema, found)
            _copy(connector, connection, found)
            bring_up(connection, schema, found)
    except BaseException:
        forget(connection)
        raise
    return connection


def _copy(connector: Connector, connection: apsw.Connection, version: int) -> None:
    """Copy a store before it is brought up, to `.v<version>` beside it; an older copy gives way to a whole new one."""
    path = connector.path
    kept = path.with_name(f"{path.name}.v{version}")
    fresh = kept.with_name(kept.name + ".new")
    fresh.unlink(missing_ok=True)
    make_private_file(fresh)
    with closing(connector.at(fresh).to_fill()) as copy:
        with copy.backup("main", connection, "main") as running:
            running.step()
        copy.pragma("journal_mode", "delete")
    fresh.rename(kept)
    sync_directory(path.parent)


# Copies of the file of a `SqliteStore`, made while it is in use, by SQLite itself. A copy is there whole, or not at all.


def copy_store(connector: Connector, source: apsw.Connection, path: Path) -> int:
    """Copy what a connection reads to a new file that only its owner may read.

    Args:
        connector: Of the store.
        source: Reads it.
        path: Of the copy.

    Returns:
        How many bytes it has.

    Raises:
        OptionError: Your move: there is a file of this name already.
        StoreUnavailable: It cannot be written there; the message names the path and the reason.
        apsw.Error: The store cannot be read.
    """
    if path.exists():
        raise OptionError([f"there is a file {os.fspath(path)!r} already: name a new one"])
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        make_private_file(fresh)
        try:
            with closing(connector.at(fresh).to_fill()) as copy:
                with copy.backup("main", source, "main") as running:
                    running.step()  # all of it at once: what is written meanwhile comes behind it
                copy.pragma("journal_mode", "delete")  # one file, without a log beside it
            fresh.rename(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
        return path.stat().st_size
    except OSError as error:
        raise no_store_at(path, error.strerror or str(error)) from error
    except (apsw.FullError, apsw.IOError, apsw.CantOpenError) as error:
        raise no_store_at(path, str(error)) from error


MAX_LOG_BYTES: Final = 16 * 1024 * 1024
"""How large the log beside the file grows before it is swept into the file, if there is no idle moment before."""

_PAGE_BYTES: Final = 4096

_TAKEN_AWAY: Final = "its files were removed or replaced while this process writes them"


class SqliteStore:
    """Keeps journals in a file. See `Store` for what each call promises."""

    is_immediate: Final = False

    def __init__(  # noqa: PLR0913 - what tests put in the place of the machine
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        lease_ms: int = 15_000,
        wall: Callable[[], float] | None = None,
        connect: Connect = connect_with_apsw,
        vfs: str | None = None,
        mounts: Callable[[], str] | None = None,
        schema: StoreSchema = SCHEMA,
    ) -> None:
        """Open a store, and make it where there is none.

        Args:
            path: Of the file, in a directory that exists. Beside it lie its log and its lock.
            read_only: Whether it is opened beside a process that writes: then whatever writes raises `OptionError`.
            lease_ms: For how long a node is taken for alive after it was heard of.
            wall: The clock of the store, in seconds since 1970; that of the machine unless given.
            connect: What opens connections.
            vfs: The name of the file system of SQLite's to use; None for its own.
            mounts: What gives the mounts of the machine, in the form of Linux' `mountinfo`.
            schema: Which tables.

        Raises:
            StoreUnavailable: The directory is missing, cannot be written, or lies on another machine; or the disk is full.
            NotAStore: Your move: the file is something else. Nothing in it was touched.
            StoreInUse: Your move: another process writes it.
            StoreTooNew: Your move: a newer agentrail made it. Nothing in it was touched.
            OptionError: Your move: SQLite knows no such file system.
        """
        check_sqlite(apsw.sqlite_lib_version())
        # One name for one file: through a link there would be a second lock, and a second writer.
        self._path = Path(path).resolve()
        keep_private(self._path, *beside(self._path), lock_path(self._path))
        if vfs is not None and vfs not in apsw.vfs_names():
            raise OptionError(
                [f"vfs is {vfs!r}, and SQLite knows {', '.join(apsw.vfs_names())} here: register it first"]
            )
        self._wall = outside.current().wall if wall is None else wall
        self._lease_ms = lease_ms
        self._schema = schema
        self._connector = Connector(path=self._path, connect=connect, vfs=vfs)
        self._readers = ReadConnections(self._connector)
        self._writer: apsw.Connection | None = None
        self._lock: WriteLock | None = None
        # One thread writes; this is for the one that closes beside it, so that the lock is let go of behind the last commit.
        self._turn = threading.RLock()
        self._standings: Standings = {}
        self._log_pages = 0
        self._files: FileIds = (None, None)
        self._is_suspect = False
        self._must_empty_log = False
        self._may_have_remains = True  # of an earlier process nothing is known
        self._is_closed = False
        self._salvaged: SalvageReport | None = None
        if read_only:
            self._look_to_read()
            return
        check_place(self._path, mounts=mounts)
        with translated(self._path):
            look_at(self._connector, schema)
        self._lock = WriteLock(self._path, since_ms=self.now_ms())
        try:
            self._open_first()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        """Say where it is, and how it is used."""
        state = "closed" if self._is_closed else "reads" if self._lock is None else "writes"
        return f"SqliteStore({os.fspath(self._path)!r}, {state})"

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def salvaged(self) -> SalvageReport | None:
        """What became of a damaged file since this store was opened; None when none was."""
        return self._salvaged

    def now_ms(self) -> int:
        """Read the store's clock: milliseconds since 1970."""
        return int(self._wall() * 1000)

    # --- opening, and opening again

    def _look_to_read(self) -> None:
        if not self._path.exists():
            message = (
                f"no sessions are stored in {os.fspath(self._path)!r}: there is no such file; "
                "keep one with agentrail chat or agentrail run --keep, or name another place with --data-dir"
            )
            raise StoreUnavailable(message)
        with translated(self._path):
            look_at(self._connector, self._schema)

    def _open_first(self) -> None:
        try:
            with translated(self._path):
                self._salvaged = prepare(self._connector, self._schema, now_ms=self.now_ms())
        except OSError as error:
            raise no_store_at(self._path, error.strerror or str(error)) from error
        try:
            with self._transaction() as connection:
                forget_earlier_nodes(connection)
        except StoreUnavailable:
            if not self._is_suspect:
                raise
            with self._transaction() as connection:  # it is damaged, and this try salvages it
                forget_earlier_nodes(connection)

    def _connected(self) -> apsw.Connection:
        if self._lock is None or self._is_closed:
            if not self._is_closed:
                fault = f"the store {os.fspath(self._path)!r} was opened to read: open it without read_only to write"
                raise OptionError([fault])
            message = "the store was closed"
            raise apsw.ConnectionClosedError(message)
        if self._is_suspect:
            self._drop_writer()
        if self._writer is None:
            self._writer = self._opened()
        return self._writer

    def _check_files(self, connection: apsw.Connection) -> None:
        """Look whether the next process will find what was just committed.

        A file that was removed is written again, out of the one that is still open; a log that was removed is swept into its file.
        """
        found = file_ids(self._path)
        if found == self._files:
            return
        (store, log), (own, own_log) = found, self._files
        if store == own and own_log is None:  # the first commit makes the log
            self._files = found
            return
        if store is None:
            self._put_back(connection)
        elif store == own and log != own_log:
            with suppress(apsw.Error):
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        raise no_store_at(self._path, _TAKEN_AWAY)

    def _put_back(self, connection: apsw.Connection) -> None:
        """Write a file that has no name any more to its path again."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not lock_path(self._path).exists():  # it went with its directory
                own, self._lock = self._lock, WriteLock(self._path, since_ms=self.now_ms())
                if own is not None:
                    own.release()
            for old in beside(self._path):  # of the file that was removed: its frames fit no other
                old.unlink(missing_ok=True)
            self._readers.drop()
            copy_store(self._connector, connection, self._path)
        except (OSError, StoreInUse, OptionError) as error:
            raise no_store_at(self._path, str(error)) from error

    def _opened(self) -> apsw.Connection:
        self._log_pages = 0
        if self._files[0] is not None and not self._path.exists():
            raise no_store_at(self._path, _TAKEN_AWAY)  # not another one, without the sessions that run
        try:
            connection = open_writer(self._connector, self._schema, look_closely=self._is_suspect)
        except BaseException as error:  # noqa: ASYNC103 - no loop runs here, and what is no damage is raised
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
        """Drop the connection at an error, and see whether the file has to be looked at."""
        try:
            with self._turn, translated(self._path):
                try:
                    yield
                except OSError as error:
                    raise no_store_at(self._path, error.strerror or str(error)) from error
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
        # What was to be written is durable. The connection is gone, and the next call opens another.
        with suppress(StoreUnavailable):
            self.checkpoint()

    def checkpoint(self) -> None:
        """Sweep the log into the file. Nothing is done where all is swept; else it is two syncs.

        To be called by the thread that writes, when there was nothing to write for some moments, and not behind each commit.

        Raises:
            StoreUnavailable: The disk does not do what it should. What was written stays durable.
        """
        if self._writer is None or not (self._log_pages or self._must_empty_log):
            return
        with self._trouble():
            how = apsw.SQLITE_CHECKPOINT_TRUNCATE if self._must_empty_log else apsw.SQLITE_CHECKPOINT_PASSIVE
            try:
                self._writer.wal_checkpoint(mode=how)
            except apsw.BusyError:
                return  # a reader stands in it: the next idle moment
            self._log_pages = 0
            self._must_empty_log = False

    # --- writing

    def create(self, opening: Opening) -> None:
        """Begin a journal; see `Store.create`."""
        with self._transaction() as connection:
            self._standings.clear()
            create_journal(connection, opening, self.now_ms())

    def take(self, scope: str, root: SessionId, node: str, cause: Cause, *, force: bool = False) -> Taken:
        """Make a node the owner of a tree; see `Store.take`. A node of an earlier process is gone, and holds nothing."""
        with self._transaction() as connection:
            return take_over_tree(
                connection, scope, root, node, cause, force=force, now=self.now_ms(), lease=self._lease_ms
            )

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Make nodes the owners of many trees in one transaction; see `ManyTaker.take_many`."""
        with self._transaction() as connection:
            return take_over_trees(connection, wanted, now=self.now_ms(), lease=self._lease_ms)

    def release(self, node: str, scope: str, root: SessionId) -> None:
        """Let a tree have no owner, if this node is it."""
        with self._transaction() as connection:
            release_tree(connection, node, scope, root)

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | None, ...]:
        """Write records of many sessions in one transaction; see `Store.append`."""
        with self._transaction() as connection:
            return append_batch(connection, batch, self.now_ms(), self._standings)

    def put_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Keep a snapshot; the last two of each session are kept."""
        with self._transaction() as connection:
            keep_snapshot(connection, snapshot)

    def beat(self, node: Node) -> None:
        """Say that a node is alive."""
        with self._transaction() as connection:
            hear_of(connection, node, now=self.now_ms(), lease=self._lease_ms)

    def change_owed(self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()) -> None:
        """Keep rows of what is owed, and drop others; see `OwedStore.change_owed`."""
        with self._transaction() as connection:
            change_rows(connection, put, drop)

    def delete(self, scope: str, session: SessionId, *, written_before_ms: int | None = None) -> int:
        """Remove a root with its tree; see `Store.delete`. What stood there is overwritten, in the file and in its log."""
        now = self.now_ms()
        with self._transaction() as connection:
            self._standings.clear()
            removed = delete_tree(
                connection,
                scope,
                session,
                now=now,
                lease=self._lease_ms,
                written_before_ms=written_before_ms,
            )
        self._must_empty_log = self._may_have_remains = True
        self._sweep_after_commit()
        return removed

    def trim(self, scope: str, session: SessionId, before: int) -> int:
        """Drop records before a number; see `Store.trim`. What stood there is overwritten, as in `delete`."""
        with self._transaction() as connection:
            dropped = trim_journal(connection, scope, session, before)
        self._must_empty_log = self._may_have_remains = True
        self._sweep_after_commit()
        return dropped

    def erase(self, scope: str, session: SessionId, why: str) -> Erasure:
        """Remove what was said in a tree; see `Store.erase`. What stood there is overwritten, as in `delete`."""
        with self._transaction() as connection:
            self._standings.clear()
            erased = erase_tree(connection, scope, session, why, now=self.now_ms(), lease=self._lease_ms)
        self._must_empty_log = self._may_have_remains = True
        return erased

    def overwrite_removed(self) -> bool:
        """Write the file anew where something was removed, and empty its log; see `Store.overwrite_removed`.

        Sessions wait for it, as long as the whole file takes to be copied; what they do meanwhile is kept behind it.
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
        """Let go of the file, and of its lock; again if you like. Readers that are at work have their answer first."""
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
                self._is_suspect = True  # the next call that writes looks at all of it
            raise

    def read(self, scope: str, session: SessionId, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Give records in order; see `Store.read`."""
        with self._reading() as connection:
            return read_records(connection, scope, session, after, limit)

    def check_file(self) -> None:
        """Look at the whole file: its pages, and what its tables say of each other. Beside a process that writes, too.

        Raises:
            StoreUnavailable: Something is not as it was written, or it cannot be read.
        """
        with self._reading() as connection:
            check_sound(connection)

    def back_up(self, path: str | os.PathLike[str]) -> int:
        """Copy the store as it stands, with all that is durable, to a new file of the mode 0600. Beside a process that writes, too.

        Args:
            path: Of the copy. It is there whole, or not at all.

        Returns:
            How many bytes it has.

        Raises:
            OptionError: Your move: there is a file of this name already.
            StoreUnavailable: The copy cannot be written, or the store cannot be read.
        """
        with self._reading() as connection:
            return copy_store(self._connector, connection, Path(path))

    def find(
        self,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        *,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> tuple[StoredSession, ...]:
        """Give sessions in the order of their scopes and ids; see `Store.find`."""
        with self._reading() as connection:
            return find_sessions(connection, filters, after, limit)

    def get(self, scope: str, session: SessionId) -> StoredSession | None:
        """Give one session; None where there is none of this id."""
        with self._reading() as connection:
            return fetch_session(connection, scope, session)

    def size(self, scope: str, session: SessionId) -> int:
        """Say how many bytes one session alone has; see `Store.size`."""
        with self._reading() as connection:
            return size_of(connection, scope, session)

    def snapshots(
        self, scope: str, session: SessionId, at_most: int | None = None
    ) -> tuple[StoredSnapshot, ...]:
        """Give what snapshots there are up to a number, the newest first."""
        with self._reading() as connection:
            return kept_snapshots(connection, scope, session, at_most)

    def blob(self, digest: str) -> bytes | None:
        """Give a large value by its SHA-256; None where there is none."""
        with self._reading() as connection:
            row = connection.execute("SELECT content FROM blob WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else row[0]

    def owed(self, kind: str, after: str = "", limit: int = 1000) -> tuple[OwedRow, ...]:
        """Give rows of what is owed, in the order of their ids; see `OwedStore.owed`."""
        with self._reading() as connection:
            return fetch_rows(connection, kind, after, limit)

    def nodes(self) -> tuple[Node, ...]:
        """Give the nodes that own something, or were heard of within the lease."""
        with self._reading() as connection:
            return known_nodes(connection, now=self.now_ms(), lease=self._lease_ms)

    def orphans(self, limit: int = 100, *, after: tuple[str, str] | None = None) -> tuple[StoredSession, ...]:
        """Give roots of trees in which something is working and whose owner is gone, in order, from behind a place."""
        with self._reading() as connection:
            return orphans_of(connection, after, now=self.now_ms(), lease=self._lease_ms, limit=limit)

    def due(self, within_ms: int = 0, limit: int = 100) -> tuple[StoredSession, ...]:
        """Give sessions without a living owner whose timer is due; see `Store.due`."""
        with self._reading() as connection:
            now = self.now_ms()
            return due_sessions(connection, now + within_ms, now=now, lease=self._lease_ms, limit=limit)
