"""Types of file systems, by the mounts of this machine; files read safely, and trees removed. Locks are unreliable on network file systems."""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")

_NETWORKED: Final = frozenset(
    """
    9p afs afpfs beegfs ceph cifs coda davfs fuse.ceph fuse.cephfs fuse.davfs fuse.glusterfs fuse.gcsfuse fuse.juicefs fuse.rclone
    fuse.s3fs fuse.smbnetfs fuse.sshfs gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs prl_fs smb3 smbfs vboxsf
""".split()  # noqa: SIM905 - a list would fill a page
)
"""Network file systems: locks and shared memory do not work there across machines."""


def network_file_system_of(directory: Path, mounts: Callable[[], str] | None = None) -> str | None:
    """Return the type of a directory's file system if it is a network file system. Blocks.

    Args:
        directory: The directory, which exists.
        mounts: Reads the mounts, in the format of proc_pid_mountinfo(5). None for those of this process.
    """
    kind = file_system_of(directory, mounts or _read_mounts)
    return kind if kind in _NETWORKED else None


def _read_mounts() -> str:
    return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape") if _MOUNTS.exists() else ""


def file_system_of(directory: Path, mounts: Callable[[], str]) -> str:
    """Return the type of a directory's file system; empty if unknown."""
    place = directory.resolve()
    longest, kind = -1, ""
    for line in mounts().splitlines():
        before, _, behind = line.partition(" - ")
        fields, kinds = before.split(), behind.split()
        if len(fields) < 5 or not kinds:  # noqa: PLR2004 - the fifth field is the mount point
            continue
        mounted = Path(fields[4].encode().decode("unicode_escape") if "\\" in fields[4] else fields[4])
        # The same mount point again means that it was mounted over: the last one counts.
        if place.is_relative_to(mounted) and len(mounted.parts) >= longest:
            longest, kind = len(mounted.parts), kinds[0]
    return kind


def fault_of_reading(file: Path) -> str | None:
    """Return why reading a file might not end, or None. A pipe that a shell opened, as for `<(…)`, may be read."""
    if file.is_char_device() or file.is_block_device():  # such as /dev/zero
        return "it is a device"
    return "it is a named pipe" if Path(os.path.realpath(file)).is_fifo() else None


class NotRegular(OSError):
    """A pipe, a device or a directory is in the place of a file."""


def read_regular(path: str | os.PathLike[str], most: int, *, follow: bool = True) -> bytes:
    """Return a regular file, or its first `most` bytes. Anything else is refused at once, and never waited for. Blocks.

    Raises:
        NotRegular: It is not a regular file.
        OSError: It cannot be read. ELOOP without `follow`: it is a symbolic link.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with open(os.open(path, flags), "rb", buffering=0) as file:  # noqa: PTH123 - flags of our own
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotRegular(errno.EINVAL, "it is not a file", os.fspath(path))
        pieces = []
        while most > 0 and (piece := file.read(most)):
            pieces.append(piece)
            most -= len(piece)
        return b"".join(pieces)


_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(directory: Path) -> None:
    """Remove a tree of any depth, even without permissions, if it exists. Links are not followed. Blocks.

    Raises:
        OSError: A part of it is left.
    """
    _grant(directory)
    try:
        top = os.open(directory, _DIRECTORY)
    except FileNotFoundError:
        return
    try:
        first = dict.fromkeys(os.listdir(top))  # noqa: PTH208 - pathlib lists no descriptor
        free = (name for name in map(str, itertools.count()) if name not in first)
        for name in first:
            _grant(name, top)
        while names := os.listdir(top):  # noqa: PTH208
            for name in names:
                _remove_one(top, name, free)
    finally:
        os.close(top)
    directory.rmdir()


def _remove_one(top: int, name: str, free: Iterator[str]) -> None:
    """Remove a file, or a directory, whose entries move to the top: trees may be deeper than a path, or than recursion, can be."""
    try:
        here = os.open(name, _DIRECTORY, dir_fd=top)
    except OSError:
        os.unlink(name, dir_fd=top)
        return
    try:
        for below in os.listdir(here):  # noqa: PTH208
            _grant(below, here)
            os.rename(below, next(free), src_dir_fd=here, dst_dir_fd=top)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)


def _grant(path: str | Path, parent: int | None = None) -> None:
    with contextlib.suppress(OSError, AttributeError):  # no directory, owned by another user, or not Linux
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{descriptor}", 0o700)  # noqa: PTH101 - it is not a path of a file
        finally:
            os.close(descriptor)
