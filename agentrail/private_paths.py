"""Paths of agentrail that no session may read: stores, memories, knowledge, tokens and keys.

Sandboxes hide them from commands and file tools. They stay registered for the process's life, because a closed store still holds conversations.
"""

import contextlib
import errno
import fcntl
import functools
import os
import select
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_TRIES: Final = 200
_TRY_AGAIN_SECONDS: Final = 0.01
_USUAL = ("/etc/agentrail",)
_places: dict[Path, None] = dict.fromkeys(map(Path, _USUAL))


def keep_private(*paths: str | os.PathLike[str]) -> None:
    """Register paths, which need not exist yet."""
    for path in paths:
        with contextlib.suppress(ValueError):  # a NUL in it: no file has such a path
            _places[Path(os.path.realpath(path))] = None


def private_places() -> tuple[Path, ...]:
    return tuple(path for path in (*_places,) if os.path.exists(path))  # noqa: PTH110 - Path raises for a name that is too long


def private_below(root: Path) -> tuple[tuple[str, ...], ...]:
    """Return the registered paths below a directory, without itself, as names from there."""
    return _below(root, len(_places))


@functools.lru_cache(maxsize=256)
def _below(root: Path, known: int) -> tuple[tuple[str, ...], ...]:
    del known  # called for each file, and it shows when there are more
    return tuple(path.relative_to(root).parts for path in (*_places,) if root in path.parents)


def write_private(path: Path, data: bytes, *, before_replacing: Callable[[], None] | None = None) -> None:
    """Replace a file in one step. Only its owner can read it, and its directory if that is new. Blocks.

    Raises:
        OSError: It cannot be written. The earlier file is unchanged.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if before_replacing is not None:
            before_replacing()
        Path(beside).replace(path)
    finally:
        Path(beside).unlink(missing_ok=True)


@contextlib.contextmanager
def changing_files_of(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes that change files in it. Its owner alone can read it if it is new. Blocks.

    Raises:
        OSError: It cannot be created or read, or another process keeps it locked for two seconds.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        take_turn(lock, folder)
        yield
    finally:
        os.close(lock)  # releases the lock


def take_turn(lock: int, folder: str | Path, *, tries: int = _TRIES) -> None:
    for _ in range(tries):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Counts attempts instead of reading a clock, because a simulated clock may stand still.
            select.select((), (), (), _TRY_AGAIN_SECONDS)
        except OSError:  # the file system has no locks: refusing would be worse than the race
            return
        else:
            return
    message = "another process is changing files in it; try again when it is done"
    raise OSError(errno.EAGAIN, message, str(folder))
