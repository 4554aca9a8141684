"""Location of agentrail's data. The environment is passed in."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agentrail.errors import OptionError, StoreUnavailable
from agentrail.otp.field_rules import misfits

DATA_VARIABLE: Final = "AGENTRAIL_DATA_DIR"
"""Environment variable that overrides the data directory."""

STORE_FILE: Final = "sessions.db"
"""File of `sqlite:` in the data directory."""


def find_data_directory(environ: Mapping[str, str], given: str | os.PathLike[str] | None = None) -> Path:
    if given is not None:
        return checked_path("data_dir", given)
    if environ.get(DATA_VARIABLE):
        return expand_home(environ[DATA_VARIABLE], DATA_VARIABLE)
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "agentrail"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".local" / "share" / "agentrail"
    message = f"no data directory is known: set {DATA_VARIABLE}, XDG_DATA_HOME or HOME, or give --data-dir to the command"
    raise StoreUnavailable(message)


def checked_path(name: str, value: Any) -> Path:
    """Return a path that a file can have, or raise OptionError: not a path, a NUL or a lone surrogate."""
    OptionError.raise_for([*misfits(name, value, os.PathLike)])
    return value if isinstance(value, Path) else Path(value)


def expand_home(path: str, variable: str | None = None) -> Path:
    """Replace `~` and `~USER` at the start of a path, perhaps that of a variable, which messages then name.

    Raises:
        OptionError: Your move: this user has no home directory, or does not exist; or no file can have this path.
    """
    try:
        return checked_path(variable or "path", path).expanduser()
    except RuntimeError:
        by = f"{variable}: " if variable else ""
        fault = f"{by}{path!r:.200} is in the home directory of a user who has none: write the whole path"
        raise OptionError([fault]) from None


def no_store_at(path: Path, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"no sessions can be stored in {os.fspath(path)!r}: {reason}; name another place, with the command by --data-dir"
    )
