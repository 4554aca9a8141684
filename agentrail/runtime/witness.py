"""The witness of a node's end: a locked file in its data directory that names its id. The kernel frees the lock when the process ends, and only then.

A later process on this machine that gets the lock knows that the node has ended. It ends the processes that the node left behind, reports the node as gone, and
only then serves. A stopped process keeps its lock. A file says nothing if it was written on another machine or before the last boot, or if it is a copy.
"""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from agentrail.errors import StoreUnavailable
from agentrail.file_systems import network_file_system_of
from agentrail.logs import Logger
from agentrail.orphaned_processes import ProcessList, end_left_processes, list_beside
from agentrail.structs import decoder_of

LOGGER: Final = Logger("agentrail.runtime")

_SUFFIX: Final = ".node"
"""Suffix of the files' names, after the id of the node."""

_PROCESSES: Final = "processes-of-nodes"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MAX_BYTES: Final = 1_000


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a file: the node, the boot of its machine, and device and inode of the file itself, which a copy has not."""

    id: str
    boot: str
    device: int
    inode: int


_NAMES: Final = decoder_of(_Named)


class Witness:
    """The file of one node, and those of earlier ones in its directory. All methods block.

    Attributes:
        processes: List of the processes that this node starts.
    """

    def __init__(self, directory: Path, node: str) -> None:
        self._directory, self._node = directory, node
        self._path = directory / f"{node}{_SUFFIX}"
        self._file = -1
        self._ended: dict[str, tuple[Path, int]] = {}
        self.processes: ProcessList = list_beside(directory / _PROCESSES, node)

    def find_ended(self) -> tuple[str, ...]:
        """End the processes that earlier nodes left behind, and return the ids of nodes that have ended.

        Raises:
            StoreUnavailable: Your move: the directory cannot be written, or is on a network file system. The message names it.
        """
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = sorted(self._directory.glob(f"*{_SUFFIX}"))
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        kind = network_file_system_of(self._directory)
        if kind is not None:
            reason = f"it is on a network file system ({kind}), where locks are unreliable"
            raise self._unusable(reason)
        for path in found:
            self._look_at(path)
        end_left_processes(self._directory / _PROCESSES)
        return tuple(self._ended)

    def _look_at(self, path: Path) -> None:
        try:
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return  # another process has just removed it, or it belongs to another user
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            named = _NAMES.decode(os.pread(file, _MAX_BYTES, 0))
        except BlockingIOError:  # that node lives, or is stopped
            os.close(file)
            return
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            named = None
        about = os.fstat(file)
        is_own = (
            named is not None
            and path.name == f"{named.id}{_SUFFIX}"
            and (named.boot, named.device, named.inode) == (boot_id(), about.st_dev, about.st_ino)
            and named.boot != ""
        )
        if named is None or not is_own:
            LOGGER.info("%s is a copy, or older than the last boot, and is ignored", path)
            os.close(file)
            return
        self._ended[named.id] = (path, file)

    def forget(self, nodes: Iterable[str]) -> None:
        """Remove the files of nodes that were reported as gone."""
        for node in nodes:
            path, file = self._ended.pop(node)
            path.unlink(missing_ok=True)
            os.close(file)

    def open(self) -> None:
        """Create and lock the file of this node.

        Raises:
            StoreUnavailable: Your move: the directory cannot be written.
        """
        # Under another name until it is locked, so that a process that starts meanwhile never finds it unlocked.
        hidden = self._path.with_name(f".{self._path.name}.new")
        try:
            self._file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            about = os.fstat(self._file)
            named = _Named(id=self._node, boot=boot_id(), device=about.st_dev, inode=about.st_ino)
            os.write(self._file, msgspec.json.encode(named))
            hidden.replace(self._path)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def close(self, *, was_reported: bool) -> None:
        """Remove the file, or leave it to a later process if this node could not be reported as gone. Can be called repeatedly."""
        for _, file in self._ended.values():
            os.close(file)
        self._ended.clear()
        if self._file >= 0:
            if was_reported:
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1

    def _unusable(self, reason: str) -> StoreUnavailable:
        message = f"the state of this node cannot be kept in {self._directory}: {reason}; give a local directory with data_dir"
        return StoreUnavailable(message)


def boot_id() -> str:
    """Return the id of this boot of the machine, or an empty string if it is unknown."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
