"""Location of agentrail's data. The environment is passed in."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agentrail.errors import StoreUnavailable

DATA_VARIABLE: Final = "AGENTRAIL_DATA_DIR"
"""Environment variable that overrides the data directory."""

STORE_FILE: Final = "sessions.db"
"""File of `sqlite:` in the data directory."""


def find_data_directory(environ: Mapping[str, str]) -> Path:
    if environ.get(DATA_VARIABLE):
        return Path(environ[DATA_VARIABLE]).expanduser()
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "agentrail"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".local" / "share" / "agentrail"
    reason = f"none of {DATA_VARIABLE}, XDG_DATA_HOME and HOME is set"
    raise no_store_at(Path(STORE_FILE), reason)


def no_store_at(path: Path, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"no sessions can be stored in {os.fspath(path)!r}: {reason}; name another place, with the command by --data-dir"
    )
