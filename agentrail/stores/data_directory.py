"""Location of agentrail's data. The environment is passed in."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agentrail.errors import OptionError, StoreUnavailable

DATA_VARIABLE: Final = "AGENTRAIL_DATA_DIR"
"""Environment variable that overrides the data directory."""

STORE_FILE: Final = "sessions.db"
"""File of `sqlite:` in the data directory."""


def find_data_directory(environ: Mapping[str, str]) -> Path:
    if environ.get(DATA_VARIABLE):
        return expand_home(environ[DATA_VARIABLE])
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "agentrail"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".local" / "share" / "agentrail"
    message = f"no data directory is known: set {DATA_VARIABLE}, XDG_DATA_HOME or HOME, or give --data-dir to the command"
    raise StoreUnavailable(message)


def expand_home(path: str) -> Path:
    """Replace `~` and `~USER` at the start of a path.

    Raises:
        OptionError: Your move: this user has no home directory, or does not exist.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        fault = f"{path!r:.200} is in the home directory of a user who has none: write the whole path"
        raise OptionError([fault]) from None


def no_store_at(path: Path, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"no sessions can be stored in {os.fspath(path)!r}: {reason}; name another place, with the command by --data-dir"
    )
