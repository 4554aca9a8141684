"""Types of file systems, by the mounts of this machine. Locks are unreliable on network file systems."""

from collections.abc import Callable
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
