"""The file of an audit log: only its owner can write it, one process at a time. Calls block."""

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import define

from agentrail.errors import OptionError
from agentrail.otp.guarded_calls import repr_of
from agentrail.private_paths import keep_private
from agentrail.stores.data_directory import expand_home
from agentrail.stores.sqlite_files import close_locked, sync_directory

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE: Final = 0o022

MAX_AUDIT_READ_BYTES: Final = 64 * 1024 * 1024
"""How much of its end is read at the start. It has the decisions of the last seconds, which may come again, many times over."""


def path_of_audit(name: object, store: object) -> Path:
    """Return the file that the name of an audit log means. For `store`, it is next to the file of the store."""
    beside = getattr(store, "path", None)
    if name == "store" and isinstance(beside, Path):
        return beside.with_name(f"{beside.name}.audit.jsonl")
    if isinstance(name, str) and name.startswith("file:") and name != "file:":
        return expand_home(name.removeprefix("file:"))
    fault = f"audit is {repr_of(name):.80}: expected 'file:PATH', or 'store' for a store in a file"
    raise OptionError([fault])


@define(eq=False)
class AuditFile:
    path: Path
    _file: int = -1
    _pid: int = 0
    _before: int | None = None  # size before a failed write

    def read(self) -> Iterator[bytes]:
        """Open or create the file, become its only writer, and yield its last lines. One that was cut off is removed."""
        self.close()
        keep_private(self.path)
        try:
            self._file, self._pid = os.open(self.path, _FLAGS, 0o600), os.getpid()
            found = os.fstat(self._file)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sync_directory(self.path.parent)
        except OSError as error:
            self.close()
            why = "another process writes it" if isinstance(error, BlockingIOError) else error.strerror
            raise OptionError([f"the audit log {self.path} cannot be opened: {why}"]) from error
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
            self.close()
            raise OptionError(
                [f"the audit log {self.path} must be a file that only its owner, you, can write"]
            )
        with open(self._file, "rb", closefd=False) as file:
            whole = file.seek(max(found.st_size - MAX_AUDIT_READ_BYTES, 0))
            if whole:  # in the middle of a line
                whole += len(file.readline())
            for line in file:
                if line.endswith(b"\n"):  # otherwise its events were not taken, and come again
                    whole += len(line)
                    yield line
        self._before = None
        os.ftruncate(self._file, whole)

    def append(self, data: bytes) -> None:
        found = os.fstat(self._file)
        if not os.path.samestat(found, self.path.lstat()):
            message = f"the audit log {self.path} was moved away"  # the next attempt begins a new one
            raise FileNotFoundError(message)
        if self._before is not None:
            os.ftruncate(self._file, min(self._before, found.st_size))
        self._before = os.fstat(self._file).st_size
        with open(self._file, "ab", closefd=False) as file:
            file.write(data)
        os.fsync(self._file)
        self._before = None

    def close(self) -> None:
        close_locked(self._file, self._pid)
        self._file = -1
