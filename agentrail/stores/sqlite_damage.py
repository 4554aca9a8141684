"""Damage in a file of `SqliteStore`: detecting it, and setting the file aside. Each step can be repeated after a crash."""

import datetime
import errno
from pathlib import Path
from typing import Final

import apsw

from agentrail.file_systems import NotRegular, read_regular
from agentrail.stores.sqlite_connections import DamagedStoreError
from agentrail.stores.sqlite_files import beside, replace_with_private_file, sync_directory, sync_file
from agentrail.stores.sqlite_rows import (
    RECORD_COLUMNS,
    SESSION_COLUMNS,
    SNAPSHOT_COLUMNS,
    session_of,
)
from agentrail.stores.sqlite_salvage import SalvageReport

_COLUMNS: Final = (
    f"SELECT {RECORD_COLUMNS} FROM record LIMIT 0",  # noqa: S608 - a constant
    f"SELECT {SNAPSHOT_COLUMNS} FROM snapshot LIMIT 0",  # noqa: S608 - a constant
    "SELECT digest, content FROM blob LIMIT 0",
    "SELECT scope, session, digest FROM blob_use LIMIT 0",
    "SELECT key, full_at_ms FROM allowance LIMIT 0",
)
"""Statements that fail unless the tables are current."""

_SMALL: Final = (
    "SELECT id, address, version, pid, boot, load, codec, digest, lease_ms, seen_at_ms, gone_at_ms, is_gone FROM node",
    "SELECT kind, id, body, node FROM owed",
)
"""As above, and all their rows are read: one that is not text keeps a server from starting."""

_STRAYS: Final = (
    "PRAGMA foreign_key_check",
    """SELECT scope, session FROM session AS one WHERE NOT EXISTS (SELECT 1 FROM record AS last WHERE last.scope = one.scope
    AND last.session = one.session AND last.seq = one.last_seq AND last.epoch = one.epoch AND last.hash = one.hash)
    OR EXISTS (SELECT 1 FROM record AS behind WHERE behind.scope = one.scope
    AND behind.session = one.session AND behind.seq > one.last_seq) LIMIT 1""",
)
"""Queries that find lost rows: rows without their session, and sessions whose last record differs from the stored one."""

_MOST_NAME_BYTES: Final = 4096


def check_sound(connection: apsw.Connection, *, is_current: bool = True) -> None:
    said = connection.execute("PRAGMA integrity_check(1)").get
    if said != "ok":
        raise DamagedStoreError(said)
    for row in connection.execute(f"SELECT {SESSION_COLUMNS} FROM session"):  # noqa: S608 - a constant
        session_of(row)
    for statement in _SMALL if is_current else ():
        connection.execute(statement).fetchall()
    for statement in (*(_COLUMNS if is_current else ()), *_STRAYS):
        row = connection.execute(statement).fetchone()
        if row is not None:
            message = f"rows contradict each other: {row}"
            raise DamagedStoreError(message)


# --- setting aside


def marker_path(path: Path) -> Path:
    """Return the path of the marker of a salvage. It contains the new name of the damaged file."""
    return path.with_name(path.name + ".salvaging")


def begin_salvage(path: Path, *, now_ms: int) -> None:
    at = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
    name = f"{path.name}.damaged-{at:%Y%m%dT%H%M%SZ}"
    number = 1
    while path.with_name(name).exists():
        number += 1
        name = f"{path.name}.damaged-{at:%Y%m%dT%H%M%SZ}-{number}"
    marker = marker_path(path)
    fresh = marker.with_name(f"{marker.name}.new")
    replace_with_private_file(fresh)
    fresh.write_text(name, encoding="utf-8")
    sync_file(fresh)
    fresh.rename(marker)  # an empty marker, as a full disk leaves it, would name no file
    sync_directory(path.parent)


def set_aside(path: Path) -> Path | None:
    """Rename the file and its log. Can be repeated."""
    damaged = path.with_name(_name_in(marker_path(path)))
    if path.exists():
        if damaged.exists():
            return None
        path.rename(damaged)
    log, shared = beside(path)
    # Never leave it next to a new file: SQLite would take the old log for the new file's own.
    if log.exists():
        log.rename(beside(damaged)[0])
    shared.unlink(missing_ok=True)
    sync_directory(path.parent)
    return damaged


def _name_in(marker: Path) -> str:
    try:
        name = read_regular(marker, _MOST_NAME_BYTES).decode()
    except (NotRegular, UnicodeDecodeError):
        name = ""
    if not name.isprintable() or name != Path(name).name or not name:
        message = f"{marker.name} names no file: remove it, and the store is checked again"
        raise OSError(errno.EINVAL, message, str(marker))
    return name


def write_report(report: SalvageReport) -> None:
    """Write the report before the new file is in place, so that it survives a crash."""
    written = report.damaged.with_name(report.damaged.name + ".report")
    replace_with_private_file(written)
    written.write_text(f"{report}\n", encoding="utf-8")


def end_salvage(path: Path) -> None:
    marker_path(path).unlink()
    sync_directory(path.parent)
