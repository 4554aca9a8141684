"""Files of `SqliteStore`: permissions, the write lock, and unsuitable file systems.

The store file is never opened here: closing it would drop SQLite's locks on it in this process.
"""

import datetime
import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from agentrail.errors import StoreInUse
from agentrail.file_systems import network_file_system_of
from agentrail.stores.data_directory import no_store_at
from agentrail.structs import decoder_of


class _Writer(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a lock file."""

    pid: Annotated[int, msgspec.Meta(gt=0, lt=2**31)]
    since_ms: Annotated[int, msgspec.Meta(ge=0, lt=10**14)]  # up to the year 5138
    agentrail: str = "writes the store beside this file"


_WRITERS: Final = decoder_of(_Writer)


def make_data_directory(path: Path) -> None:
    """Create a directory that only its owner may enter, with its parents."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise no_store_at(path, "it is not a directory, or a link that leads to none") from error
    except OSError as error:
        raise no_store_at(path, error.strerror or str(error)) from error


def check_place(path: Path, *, mounts: Callable[[], str] | None = None) -> None:
    is_loop = path.is_symlink() and not path.exists()  # once resolved, no other link leads to nothing
    fault = os.strerror(errno.ELOOP) if is_loop else fault_of_file_place(path, mounts=mounts)
    if fault is not None:
        raise no_store_at(path, fault)


def fault_of_file_place(path: Path, *, mounts: Callable[[], str] | None = None) -> str | None:
    directory = path.parent
    if not directory.is_dir():
        return "the directory does not exist"
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced by a store
        return f"it is {'a directory' if path.is_dir() else 'not a regular file'}, and a file was expected"
    kind = network_file_system_of(directory, mounts)
    if kind is not None:
        return f"it is on a network file system ({kind}), where database locks are unreliable"
    if not os.access(directory, os.W_OK | os.X_OK):
        return "the directory cannot be written"
    return None


_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOCK_BEGINS: Final = b'{"pid":'
_MARK: Final = b'"agentrail"'


def _refuse_foreign(file: int) -> None:
    """Raise unless a file may be overwritten as a lock: `poetry.db` would have the lock file of another program."""
    begin = os.pread(file, 1_000, 0) if stat.S_ISREG(os.fstat(file).st_mode) else b"no file"
    # A process that was killed, or a machine without power, may have written a part of it.
    if _MARK not in begin and not _LOCK_BEGINS.startswith(begin.rstrip(b"\0")[: len(_LOCK_BEGINS)]):
        raise OSError(errno.EEXIST, "another file has the name of its lock")


class WriteLock:
    """Lock that makes this process the only writer of a store. Its file must never be deleted."""

    def __init__(self, store: Path, *, since_ms: int) -> None:
        self.path: Path = lock_path(store)
        self._pid = os.getpid()
        self._file = -1
        try:
            self._file = os.open(self.path, _LOCK_FLAGS, 0o600)
            _refuse_foreign(self._file)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(self._file, 0o600)
            text = msgspec.json.encode(_Writer(pid=self._pid, since_ms=since_ms)) + b"\n"
            # In this order: the file also marks the store, and a process killed in between must not remove
            # the mark.
            os.pwrite(self._file, text, 0)
            os.ftruncate(self._file, len(text))
        except BlockingIOError as error:
            self.release()
            raise _in_use(store) from error
        except OSError as error:
            self.release()
            is_link = error.errno == errno.ELOOP
            reason = "a link has the name of its lock" if is_link else error.strerror or str(error)
            raise no_store_at(store, f"{reason} ({self.path.name})") from error
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock. Can be called repeatedly."""
        close_locked(self._file, self._pid)
        self._file = -1


def close_locked(file: int, pid: int) -> None:
    """Close a file that this process locked, or -1 for none."""
    if file >= 0:
        # Forked processes share the lock: only closed, it would stay with them.
        if pid == os.getpid():
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def lock_path(store: Path) -> Path:
    return store.with_suffix(".lock") if store.suffix != ".lock" else store.with_name(f"{store.name}.lock")


def has_lock_file(store: Path) -> bool:
    path = lock_path(store)
    return path.is_file() and _MARK in path.read_bytes()[:1000]


def writer_of(store: Path) -> int | None:
    """Return the process that last wrote a store, or None if it has ended."""
    writer = _read_writer(lock_path(store))
    if writer is None:
        return None
    try:
        os.kill(writer.pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it runs as another user
    return writer.pid


def _read_writer(path: Path) -> _Writer | None:
    try:
        # A pipe in its place would wait for its writer.
        return _WRITERS.decode(path.read_bytes()[:1000]) if path.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None  # there is none, or it has just started and has not written yet


def _in_use(store: Path) -> StoreInUse:
    by, since = "another process", ""
    if (writer := _read_writer(lock_path(store))) is not None:
        at = datetime.datetime.fromtimestamp(writer.since_ms / 1000, datetime.UTC)
        by, since = f"process {writer.pid}", f" since {at:%Y-%m-%d %H:%M:%S} UTC"
    message = f"the store {os.fspath(store)!r} is written by {by}{since}: read-only commands work meanwhile; to write, stop it first"
    return StoreInUse(message, pid=None if writer is None else writer.pid)


def make_private_file(path: Path) -> None:
    """Create an empty file that only its owner may read. SQLite gives companion files the same mode."""
    path.touch(0o600, exist_ok=False)


def replace_with_private_file(path: Path) -> None:
    """Create such a file in place of what has its name, such as a link."""
    path.unlink(missing_ok=True)
    make_private_file(path)


def make_private(path: Path) -> None:
    for one in (path, *beside(path)):
        if one.is_file() and not one.is_symlink() and one.stat().st_mode & 0o077:
            one.chmod(0o600)


def beside(path: Path) -> tuple[Path, Path]:
    """Return the two companion files of a store: its log, and the shared memory."""
    return (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"))


FileIds: TypeAlias = tuple[tuple[int, int] | None, tuple[int, int] | None]
"""Device and inode of a store and of its log; None for a missing file."""


def file_ids(path: Path) -> FileIds:
    return _file_id(path), _file_id(beside(path)[0])


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def has_log(path: Path) -> bool:
    log, _ = beside(path)
    return log.is_file() and log.stat().st_size > 0


def is_frozen(path: Path) -> bool:
    """Return whether nothing can change a file: it has no log, and its file system is read-only.

    A directory that only this user cannot write is not enough: its owner may start to write at any time.
    """
    return not beside(path)[0].exists() and bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)


def sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Sync a directory, so that files created or renamed in it are durable."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
