"""Where `run` and `chat` keep a session, as the command line says it. Imports no store."""

import os
from pathlib import Path
from typing import Annotated, Final

from attrs import frozen
from cyclopts import Parameter

from agentrail.stores.data_directory import DATA_VARIABLE, find_data_directory

DEFAULT_STORE: Final = "sqlite:"

DataDirectory = Annotated[
    Path | None,
    Parameter(
        name="--data-dir",
        help=f"The data directory. Without it: {DATA_VARIABLE}, else agentrail in your directory for data.",
    ),
]


@Parameter(name="*")
@frozen(kw_only=True)
class KeptIn:
    """Where `run` and `chat` keep a session.

    Attributes:
        store: The name of the store; None for the usual one.
        data_dir: The data directory; None for the usual one.
        keep_days: For how many days sessions are kept there; None for ever.
        keep_bytes: How many bytes they may have; None for any number.
    """

    store: Annotated[
        str | None,
        Parameter(
            help="Where the session is kept: sqlite:PATH, sqlite: for the file in the data directory, or memory: to keep nothing.",
            show_default=False,
        ),
    ] = None
    data_dir: DataDirectory = None
    keep_days: Annotated[
        float | None,
        Parameter(
            help="Delete stored sessions whose last record is older than so many days, from 1; without it all are kept.",
            show_default=False,
        ),
    ] = None
    keep_bytes: Annotated[
        int | None,
        Parameter(
            help="Delete the oldest stored sessions while they have more bytes than this; without it all are kept.",
            show_default=False,
        ),
    ] = None


@frozen(kw_only=True)
class KeepingOptions:
    """How a session is kept.

    Attributes:
        store: The name of the store; None for the usual one, without which a chat goes on too.
        data_dir: The data directory; None for the usual one.
        resume: The id of the session to go on with, `LATEST`, or None to begin one.
    """

    store: str | None = None
    data_dir: Path | None = None
    resume: str | None = None
    keep_days: float | None = None
    keep_bytes: int | None = None


def keeping_from(given: KeptIn, resume: str | None = None) -> KeepingOptions:
    """Take what the command line says."""
    return KeepingOptions(
        store=given.store,
        data_dir=given.data_dir,
        resume=resume,
        keep_days=given.keep_days,
        keep_bytes=given.keep_bytes,
    )


def directory_of(data_dir: Path | None) -> Path:
    """Say where the data directory is."""
    return find_data_directory(os.environ) if data_dir is None else data_dir
