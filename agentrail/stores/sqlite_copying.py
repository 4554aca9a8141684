"""Copies of the file of a `SqliteStore`, made while it is in use, by SQLite itself. A copy is there whole, or not at all."""

import os
from contextlib import closing
from pathlib import Path

import apsw

from agentrail.errors import OptionError
from agentrail.stores.data_directory import no_store_at
from agentrail.stores.sqlite_connections import Connector
from agentrail.stores.sqlite_files import make_private_file, sync_directory


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
