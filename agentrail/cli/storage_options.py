"""The storage options of `run` and `chat`, as typed. Imports no store."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Final

from attrs import asdict, frozen
from cyclopts import Parameter

from agentrail.stores.data_directory import DATA_VARIABLE, find_data_directory

DEFAULT_STORE: Final = "sqlite:"

STORE_VARIABLE: Final = "AGENTRAIL_STORE"
"""Variable with the store of a server without an application, and of commands that read a store: a URL in it may hold a password."""

DataDirectory = Annotated[
    Path | None,
    Parameter(
        name="--data-dir",
        help=f"The data directory. Default: {DATA_VARIABLE}, otherwise agentrail in your data directory.",
    ),
]


@Parameter(name="*")
@frozen(kw_only=True)
class KeptIn:
    """The storage options of `run` and `chat`.

    Attributes:
        data_dir: The data directory, or None for the default.
    """

    store: Annotated[
        str | None,
        Parameter(
            help="Where the session is kept: sqlite:PATH, sqlite: for the file in the data directory, or memory: to keep nothing."
        ),
    ] = None
    data_dir: DataDirectory = None
    keep_days: Annotated[
        float | None,
        Parameter(
            help="Delete stored sessions whose last record is older than this many days, from 1. Default: all are kept."
        ),
    ] = None
    keep_bytes: Annotated[
        int | None,
        Parameter(
            help="Delete the oldest stored sessions while all together have more bytes than this. Default: all are kept."
        ),
    ] = None


@frozen(kw_only=True)
class KeepingOptions(KeptIn):
    """How to store a session. Without a named store, a chat also runs if the default one cannot be used.

    Attributes:
        resume: The id of the session to resume, `LATEST`, or None for a new one.
    """

    resume: str | None = None


def keeping_from(given: KeptIn, resume: str | None = None) -> KeepingOptions:
    return KeepingOptions(resume=resume, **asdict(given, recurse=False))


def store_arguments(store: str | None, data_dir: Path | None) -> str:
    """Return the options with which a command finds this store from any directory, each after a space, without its password."""
    from agentrail.stores.store_urls import shown_store  # only here: every command imports this module

    words: list[str] = []
    if store is not None and store != DEFAULT_STORE:
        file = store.removeprefix(DEFAULT_STORE)
        whole = f"{DEFAULT_STORE}{Path(file).expanduser().absolute()}"
        words += "--store", shown_store(store) if file == store else whole
    if data_dir is not None:
        words += "--data-dir", f"{data_dir.absolute()}"
    return "".join(f" {shlex.quote(word)}" for word in words)


def directory_of(data_dir: Path | None) -> Path:
    return find_data_directory(os.environ, data_dir)


def directory_for(store: str, data_dir: Path | None) -> Path | None:
    """Return the data directory, or None if a store needs none: with a named file or database, a command may run without a home directory."""
    return None if data_dir is None and store != DEFAULT_STORE else directory_of(data_dir)
