"""Store checks of `agentrail doctor`, for the default and the `[host]` store: path, size, writer, and commit time."""

import os
import shlex
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import evolve

from agentrail.abc.store import Filters
from agentrail.cli.exits import describe_error
from agentrail.cli.finding import Finding
from agentrail.cli.hosting import directory_of_host, named_stores
from agentrail.cli.kept_in import DEFAULT_STORE
from agentrail.cli.stored import all_sessions, is_process_there
from agentrail.config.settings import Settings
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.stores.data_directory import find_data_directory
from agentrail.stores.named import path_of_store
from agentrail.stores.sqlite import SqliteStore
from agentrail.stores.sqlite_files import beside, check_place, writer_of

_PAGE_BYTES: Final = 4096
_TRIES: Final = 5
_SLOW_MS: Final = 50.0
"""Noticeable from here on: a prompt waits for one commit, a cycle with a tool for four."""
_OF_SERVER: Final = "store of [host]"


def look_at_store(environ: Mapping[str, str], data_dir: Path | None = None) -> tuple[Finding, ...]:
    """Check the default store and its disk."""
    try:
        directory = find_data_directory(environ) if data_dir is None else data_dir
    except AgentrailError as error:
        return (_no_store(str(error)),)
    path = path_of_store(DEFAULT_STORE, directory)
    assert path is not None  # noqa: S101 - the default is a file
    try:
        found = _look_at_file(path)
    except AgentrailError as error:
        return (_no_store(str(error)),)
    return (found, look_at_fsync(_nearest(directory)))


def look_at_store_of_server(settings: Settings, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Check the store of `[host]`, where `agentrail serve` keeps sessions. Other commands use it only on request."""
    try:
        usual = find_data_directory(environ)
        path = path_of_store(
            named_stores(settings).get("store", DEFAULT_STORE), directory_of_host(settings, environ) or usual
        )
        if path in {None, path_of_store(DEFAULT_STORE, usual)}:
            return ()
        assert path is not None  # noqa: S101 - checked above
        found = _look_at_file(path)
    except AgentrailError as error:
        text = f"agentrail serve cannot keep sessions: {describe_error(error)}"
        return (Finding(name=_OF_SERVER, verdict="absent", text=text, remedy="name another place in [host]"),)
    listing = f"agentrail sessions list --store sqlite:{shlex.quote(str(path))} lists them"
    return (evolve(found, name=_OF_SERVER, remedy=listing if path.exists() else found.remedy),)


def _look_at_file(path: Path) -> Finding:
    """Describe a store, or report that it does not exist yet."""
    if path.exists():
        check_place(path)
        return _look_into(path)
    place = _nearest(path.parent)
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        message = f"{place} {'cannot be written' if place.is_dir() else 'is no directory'}"
        raise StoreUnavailable(message)
    return Finding(name="store", verdict="absent", text=f"none yet: sessions will be kept in {path}")


def _no_store(why: str) -> Finding:
    return Finding(
        name="store",
        verdict="absent",  # a run and a chat also work without a store
        text=f"sessions cannot be kept: {why}",
        remedy="name another place with --data-dir or AGENTRAIL_DATA_DIR",
    )


def _look_into(path: Path) -> Finding:
    store = SqliteStore(path, read_only=True)
    try:
        count = sum(1 for _ in all_sessions(store, Filters()))
        store.check_file()
    finally:
        store.close()
    size = sum(one.stat().st_size for one in (path, *beside(path)) if one.exists())
    pid = writer_of(path)
    by = f", written by process {pid}" if pid is not None and is_process_there(pid) else ""
    return Finding(
        name="store", verdict="good", text=f"{path}: {count} sessions, {show_bytes(size)}, not damaged{by}"
    )


def _nearest(directory: Path) -> Path:
    """Return the nearest existing path: the directory or an ancestor, which may be a file."""
    return next(one for one in (directory, *directory.absolute().parents) if os.path.lexists(one))


def look_at_fsync(directory: Path, *, stopwatch: Callable[[], float] = time.perf_counter) -> Finding:
    """Measure how long a page takes to become durable in a directory: the minimum time of a commit."""
    took: list[float] = []
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            for _ in range(_TRIES):
                began = stopwatch()
                file.write(bytes(_PAGE_BYTES))
                file.flush()
                os.fsync(file.fileno())
                took.append((stopwatch() - began) * 1000)
    except OSError as error:
        return Finding(
            name="fsync", verdict="absent", text=f"could not be tried in {directory}: {error.strerror}"
        )
    middle, worst = statistics.median(took), max(took)
    text = f"{middle:.1f} ms in {directory}, at worst {worst:.1f} ms of {_TRIES} tries"
    if middle < _SLOW_MS:
        return Finding(name="fsync", verdict="good", text=text)
    remedy = "each prompt waits for it: keep sessions on a faster disk, with --data-dir"
    return Finding(name="fsync", verdict="absent", text=f"slow: {text}", remedy=remedy)


def show_bytes(size: int) -> str:
    """Format a size in bytes."""
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{size / 1000:.1f} kB"  # noqa: PLR2004 - a million
