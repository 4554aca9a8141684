"""Paths of agentrail that no session may read: stores, memories, knowledge, tokens and keys.

Sandboxes hide them from commands and file tools. They stay registered for the process's life, because a closed store still holds conversations.
"""

import contextlib
import functools
import os
from pathlib import Path

_USUAL = ("/etc/agentrail",)
_places: dict[Path, None] = dict.fromkeys(map(Path, _USUAL))


def keep_private(*paths: str | os.PathLike[str]) -> None:
    """Register paths, which need not exist yet."""
    for path in paths:
        with contextlib.suppress(ValueError):  # a NUL in it: no file has such a path
            _places[Path(os.path.realpath(path))] = None


def private_places() -> tuple[Path, ...]:
    return tuple(path for path in (*_places,) if path.exists())


def private_below(root: Path) -> tuple[tuple[str, ...], ...]:
    """Return the registered paths below a directory, without itself, as names from there."""
    return _below(root, len(_places))


@functools.lru_cache(maxsize=256)
def _below(
    root: Path, known: int
) -> tuple[tuple[str, ...], ...]:  # called for each file, and `known` shows when there are more
    del known
    return tuple(path.relative_to(root).parts for path in (*_places,) if root in path.parents)
