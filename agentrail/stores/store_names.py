"""Stores by name: `memory:`, `sqlite:`, `sqlite:PATH`, `postgres://…`."""

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import trio

from agentrail import outside
from agentrail.abc.store import NODE_LEASE_SECONDS, Store
from agentrail.config.key_filter import shown_address
from agentrail.distribution import install_command
from agentrail.errors import OptionError
from agentrail.otp.child_specs import is_amount, is_whole
from agentrail.otp.guarded_calls import repr_of
from agentrail.private_paths import keep_private
from agentrail.stores.data_directory import STORE_FILE, checked_path, expand_home, find_data_directory
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite_files import make_data_directory
from agentrail.stores.store_urls import NAMES, PRIVATE, faults_of_url, is_shared_store, shown_store

__all__ = ["NAMES", "faults_of_keeping", "faults_of_limits", "open_store", "opened_store", "path_of_store"]


def path_of_store(name: str, data_directory: Path) -> Path | None:
    """Return the file of a store, or None if it has none.

    Raises:
        OptionError: Your move: not the name of a store. The message contains no password.
    """
    scheme, colon, rest = name.partition(":")
    if name == "memory:":
        return None
    if scheme == "sqlite" and colon and (not rest or Path(rest).name):  # `/` and `.` name no file
        return expand_home(rest) if rest else data_directory / STORE_FILE
    if name == PRIVATE:
        fault = f"store is {name!r}: only agentrail serve --nodes starts a PostgreSQL of its own; name a server, as in postgres://USER@HOST/DATABASE"
        raise OptionError([fault])
    OptionError.raise_for(faults_of_url(name))
    return None


def open_store(
    name: str,
    data_directory: Path | None,
    *,
    read_only: bool = False,
    lease_seconds: float = NODE_LEASE_SECONDS,
) -> Store:
    """Open the store of a name, which the caller closes. Blocks."""
    path = path_of_store(name, Path() if data_directory is None else data_directory)
    if is_shared_store(name):
        try:
            from agentrail.stores.postgres import PostgresStore  # noqa: PLC0415 - as above
        except ImportError as error:  # psycopg without libpq
            fault = (
                f"store is {shown_store(name)!r}: {str(error).splitlines()[0]}; {install_command('postgres')}"
            )
            raise OptionError([fault]) from None
        return PostgresStore(name, lease_ms=round(lease_seconds * 1000))
    if path is None:
        if read_only:
            raise OptionError(
                ["store is 'memory:', which stores nothing to read; name a file, as in 'sqlite:PATH'"]
            )
        return MemoryStore()
    # Imported only if needed: loading SQLite costs more than all the rest of a small program.
    from agentrail.stores.sqlite import SqliteStore  # noqa: PLC0415 - see above

    if data_directory is not None and path.parent == data_directory and not read_only:
        make_data_directory(data_directory)
    if data_directory is not None:
        keep_private(data_directory)
    return SqliteStore(os.fspath(path), read_only=read_only)


MIN_PATIENCE_SECONDS: Final = 0.1


def faults_of_keeping(
    store: object,
    store_patience: object,
    resume: object,
    on_drift: object,
    hibernate_after: object = None,
) -> Iterator[str]:
    if isinstance(store, str):
        try:
            path_of_store(store, Path())
        except OptionError as error:
            yield from error.faults
    elif isinstance(store, list | tuple):
        yield "store names several places, expected one database: shards are not built"
    elif store is not None and not hasattr(store, "append"):
        yield f"store is {repr_of(store):.80}: expected {NAMES}, or a store"
    if not is_amount(store_patience) or store_patience < MIN_PATIENCE_SECONDS:
        yield f"store_patience is {repr_of(store_patience):.80}: expected finite seconds >= {MIN_PATIENCE_SECONDS:g}"
    if resume not in ("none", "working", "all"):
        yield f"resume is {repr_of(resume):.80}: expected 'none', 'working' or 'all'"
    elif resume != "none" and store is None:
        yield f"resume is {resume!r}, but there is no store: give one, such as store='sqlite:'"
    if on_drift not in ("park", "go_on"):
        yield f"on_drift is {repr_of(on_drift):.80}: expected 'park' or 'go_on'"
    if hibernate_after is not None:
        yield from _faults_of_sleep(hibernate_after, store)


def faults_of_durability(durability: object) -> list[str]:
    if durability in ("grouped", "strict"):
        return []
    return [f"durability is {repr_of(durability):.80}: expected 'grouped' or 'strict'"]


def _faults_of_sleep(hibernate_after: object, store: object) -> Iterator[str]:
    given = f"hibernate_after is {repr_of(hibernate_after):.80}"
    if not is_amount(hibernate_after, above_zero=True):
        yield f"{given}: expected finite seconds above 0, or None for never"
    elif store is None:
        yield f"{given}, but there is no store for hibernated sessions: give one, such as store='sqlite:'"


MIN_LEASE_SECONDS: Final = 3.0
MAX_LEASE_SECONDS: Final = 60.0


def faults_of_node(advertise: object, lease: object) -> Iterator[str]:
    if not is_amount(lease) or not MIN_LEASE_SECONDS <= lease <= MAX_LEASE_SECONDS:
        yield f"lease is {repr_of(lease):.80}: expected seconds from {MIN_LEASE_SECONDS:g} to {MAX_LEASE_SECONDS:g}"
    if advertise != "" and not is_node_address(advertise):
        yield f"advertise is {repr_of(shown_address(advertise)):.200}: expected the address under which other nodes reach this one, such as 'http://10.0.0.7:8700'"


def is_node_address(value: object) -> bool:
    """Return whether this can be the address of a node: scheme, host and port, and perhaps a path prefix."""
    if not isinstance(value, str) or re.fullmatch(r"https?://[!-~]+", value) is None or {*value} & {*"?#@"}:
        return False
    try:
        parts = urlsplit(value)
        host = (parts.hostname or "").encode("idna")  # as the resolver does, which accepts no empty label
        return host not in (b"", b"0.0.0.0", b"::") and parts.port != 0
    except ValueError:
        return False


MAX_KEEP_DAYS: Final = 36_500
"""A hundred years. Use None to keep data indefinitely."""


def faults_of_limits(store: object, keep_days: object, keep_bytes: object) -> Iterator[str]:
    if keep_days is not None and not (is_amount(keep_days) and 1 <= keep_days <= MAX_KEEP_DAYS):
        yield f"keep_days is {repr_of(keep_days):.80}: expected days from 1 to {MAX_KEEP_DAYS}, or None to keep all"
    if keep_bytes is not None and not is_whole(keep_bytes, at_least=1):
        yield f"keep_bytes is {repr_of(keep_bytes):.80}: expected a whole number of bytes >= 1, or None to keep all"
    for name, value in (("keep_days", keep_days), ("keep_bytes", keep_bytes)):
        if store is None and value is not None:
            yield f"{name} is {repr_of(value):.80}, but there is no store: give one, such as store='sqlite:'"


@asynccontextmanager
async def opened_store(
    store: str | Store | None,
    data_directory: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
    lease_seconds: float = NODE_LEASE_SECONDS,
) -> AsyncIterator[Store | None]:
    if not isinstance(store, str):
        yield store
        return
    if store == "memory:":
        yield MemoryStore()
        return
    # Determined only if needed: a program that names a file may have no home directory.
    directory = None if data_directory is None else checked_path("data_dir", data_directory)
    if directory is None and store == "sqlite:":
        directory = find_data_directory(environ)
    make = partial(open_store, store, directory, lease_seconds=lease_seconds)
    async with opened_aside(make, is_remote=is_shared_store(store)) as opened:
        yield opened


@asynccontextmanager
async def opened_aside(
    make: Callable[[], Any], *, blocks: bool = True, is_remote: bool = False
) -> AsyncIterator[Any]:
    """Open a store in a thread, for a block. A cancelled caller does not wait for a remote one: the thread then closes it."""
    if not blocks:
        with closing(make()) as opened:
            yield opened
        return
    made: list[Any] = []
    # The thread and the caller both try to take the entry, and no lock is needed. The one that comes second closes the store.
    handover = {"first": True}

    def open_it() -> None:
        made.append(make())
        if not handover.pop("first", False):
            made[0].close()

    try:
        await outside.offload(open_it, abandon_on_cancel=is_remote)
        yield made[0]
    finally:
        if not handover.pop("first", False):
            with trio.CancelScope(shield=True):
                await outside.offload(made[0].close)
