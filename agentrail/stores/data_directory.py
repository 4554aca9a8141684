"""Location of agentrail's data. The environment is passed in."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from agentrail.errors import OptionError, StoreUnavailable
from agentrail.otp.guarded_calls import repr_of

DATA_VARIABLE: Final = "AGENTRAIL_DATA_DIR"
"""Environment variable that overrides the data directory."""

STORE_FILE: Final = "sessions.db"
"""File of `sqlite:` in the data directory."""


def find_data_directory(environ: Mapping[str, str], given: str | os.PathLike[str] | None = None) -> Path:
    if given is not None:
        return checked_path("data_dir", given)
    if environ.get(DATA_VARIABLE):
        return expand_home(environ[DATA_VARIABLE])
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "agentrail"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".local" / "share" / "agentrail"
    message = f"no data directory is known: set {DATA_VARIABLE}, XDG_DATA_HOME or HOME, or give --data-dir to the command"
    raise StoreUnavailable(message)


def checked_path(name: str, value: Any) -> Path:
    """Return a path that a file can have, or raise OptionError: not a path, a NUL or a lone surrogate."""
    with suppress(TypeError, ValueError):
        path = value if isinstance(value, Path) else Path(value)
        if b"\0" not in os.fsencode(path):
            return path
    raise OptionError([f"{name} is {repr_of(value):.200}: expected a path, without NUL or lone surrogates"])


def expand_home(path: str) -> Path:
    """Replace `~` and `~USER` at the start of a path.

    Raises:
        OptionError: Your move: this user has no home directory, or does not exist; or no file can have this path.
    """
    try:
        return checked_path("path", path).expanduser()
    except RuntimeError:
        fault = f"{path!r:.200} is in the home directory of a user who has none: write the whole path"
        raise OptionError([fault]) from None


def no_store_at(path: Path, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"no sessions can be stored in {os.fspath(path)!r}: {reason}; name another place, with the command by --data-dir"
    )
