"""How the file of a `SqliteStore` is opened: looked at before anything is touched, made, brought up, salvaged. No session is read."""

import os
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import msgspec

from agentrail.errors import NotAStore, StoreTooNew
from agentrail.stores.sqlite_connections import Connector, forget, forgotten_after
from agentrail.stores.sqlite_damage import (
    begin_salvage,
    check_sound,
    end_salvage,
    marker_path,
    set_aside,
    write_report,
)
from agentrail.stores.sqlite_files import (
    beside,
    has_lock_file,
    has_log,
    make_private,
    make_private_file,
    sync_directory,
)
from agentrail.stores.sqlite_salvage import SalvageReport, salvage
from agentrail.stores.sqlite_schema import APPLICATION_ID, StoreSchema, bring_up, check_steps, make_tables

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
