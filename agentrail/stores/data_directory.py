"""Where agentrail keeps what it keeps. Environments are given, not read, and no store is imported."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agentrail.errors import StoreUnavailable

DATA_VARIABLE: Final = "AGENTRAIL_DATA_DIR"
"""Names the data directory, where it is not the usual one."""

STORE_FILE: Final = "sessions.db"
"""The file of `sqlite:` in the data directory."""


def find_data_directory(environ: Mapping[str, str]) -> Path:
    """Say where agentrail keeps what it keeps: `AGENTRAIL_DATA_DIR`, else `agentrail` in the user's directory for data."""
    if environ.get(DATA_VARIABLE):
        return Path(environ[DATA_VARIABLE]).expanduser()
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "agentrail"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".local" / "share" / "agentrail"
    reason = f"none of {DATA_VARIABLE}, XDG_DATA_HOME and HOME says where"
    raise no_store_at(Path(STORE_FILE), reason)


def no_store_at(path: Path, reason: str) -> StoreUnavailable:
    """Say that no store can be kept at a path, and what to do."""
    return StoreUnavailable(
        f"no sessions can be stored in {os.fspath(path)!r}: {reason}; name another place with --data-dir"
    )
