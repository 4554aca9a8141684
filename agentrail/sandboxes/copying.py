"""A directory with all that is in it, copied beside its place and put there whole. Blocking; links are copied, and none is followed."""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agentrail import outside
from agentrail.errors import SandboxError
from agentrail.sandboxes.beneath import FLAGS, Opener

_PIECE_BYTES: Final = 1 << 20
_MODE_BITS: Final = 0o777


def copy_tree(root: int, opener: Opener, directory: Path, check: Callable[[], None]) -> None:
    """Copy what is below a directory: files with their modes and times, directories, and links as they are.

    Pipes, sockets and devices are left out. What changes meanwhile is copied as it is when its turn comes.

    Args:
        root: The descriptor of the directory.
        opener: Opens what is below it.
        directory: Where the copy is to be; not there yet, or empty.
        check: Called now and then; raises when no caller wants the copy any more.

    Raises:
        SandboxError: Your move: there is something, it lies in the directory itself, or it cannot be made. Nothing is left of the copy.
    """
    temporary = directory.parent / f".agentrail-{outside.ids(8)}.tmp"
    try:
        _check_place(root, directory)
        temporary.mkdir(mode=0o700)
        _copy_below(root, opener, temporary, check)
        temporary.chmod(os.fstat(root).st_mode & _MODE_BITS)
        temporary.rename(directory)  # in place of an empty one too
    except OSError as error:
        reason = (
            "there is something in it: name one that is not there yet"
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
            else f"{error.strerror}: name another working_dir"
        )
        message = f"the files cannot be copied to {str(directory)!r}: {reason}"
        raise SandboxError(message) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_place(root: int, directory: Path) -> None:
    own = os.fstat(root)
    for above in (directory, *directory.parents):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = above.stat()
            if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino):
                message = f"the files cannot be copied to {str(directory)!r}: it lies in the directory that is copied"
                raise SandboxError(message)
    if directory.is_symlink() or (
        directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
    ):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))


def _copy_below(root: int, opener: Opener, to: Path, check: Callable[[], None]) -> None:
    waiting: list[tuple[str, ...]] = [()]
    modes: list[tuple[Path, int]] = []
    while waiting:
        names = waiting.pop()
        try:
            here = opener(root, names, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # removed since it was seen
            continue
        try:
            with os.scandir(here) as found:
                for entry in found:
                    check()
                    target = to.joinpath(*names, entry.name)
                    if entry.is_symlink():
                        target.symlink_to(os.readlink(entry.name, dir_fd=here))
                    elif entry.is_dir(follow_symlinks=False):
                        target.mkdir(mode=0o700)
                        modes.append((target, entry.stat(follow_symlinks=False).st_mode & _MODE_BITS))
                        waiting.append((*names, entry.name))
                    elif entry.is_file(follow_symlinks=False):
                        _copy_file(here, entry.name, target, check)
        finally:
            os.close(here)
    for path, mode in reversed(modes):  # at the end: one that may not be written could not be filled
        path.chmod(mode)


def _copy_file(parent: int, name: str, target: Path, check: Callable[[], None]) -> None:
    try:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | FLAGS, dir_fd=parent)
    except FileNotFoundError:  # removed since it was seen
        return
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            return
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            while _copy_piece(source, copy):
                check()
            os.fchmod(copy, status.st_mode & _MODE_BITS)
            os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _copy_piece(source: int, copy: int) -> int:
    piece = os.read(source, _PIECE_BYTES)
    written = 0
    while written < len(piece):
        written += os.write(copy, piece[written:])
    return len(piece)
