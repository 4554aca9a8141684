"""Opens paths strictly inside a directory, however links are placed or moved.

The openers share a signature. `open_in_kernel` uses one system call of Linux, which resolves the whole path and refuses to
leave the directory. `open_by_walk` opens name by name, without following links, on every other system. `open_anywhere`
does not confine. None of them knows about sandboxes. All raise `OSError`.
"""

import contextlib
import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from typing import Final, TypeAlias

from agentrail.sandboxes.paths import join_names
from agentrail.sandboxes.process_tree import has_proc

Opener: TypeAlias = Callable[[int, tuple[str, ...], int], int]
"""Takes a directory's descriptor, names, and flags of `os.open`. Returns a descriptor that the caller closes."""

FLAGS: Final = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Flags of every open: a pipe, a device or a terminal must not block us."""

_OPENAT2: Final = (
    437  # on every architecture except alpha; numbers of new system calls are common since Linux 5.0
)
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08
_MAX_ATTEMPTS: Final = 4


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def find_opener(directory: int) -> Opener:
    """Return the opener that works here, by a trial: a kernel may be too old, or a container may forbid the call."""
    opener: Opener = open_by_walk
    # If links are followed, only /proc shows their target.
    if sys.platform == "linux" and has_proc():
        with contextlib.suppress(OSError):
            os.close(open_in_kernel(directory, (), os.O_RDONLY | os.O_DIRECTORY))
            opener = open_in_kernel
    return opener


def open_in_kernel(directory: int, names: tuple[str, ...], flags: int) -> int:
    """Open with openat2: links are followed as long as they stay beneath the directory."""
    how = _OpenHow(flags=flags | FLAGS, mode=0, resolve=_RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    path = os.fsencode("/".join(names) or ".")
    code = 0
    for _ in range(_MAX_ATTEMPTS):
        descriptor = _libc().syscall(_OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        code = ctypes.get_errno()
        # EAGAIN: a rename during the lookup made the result uncertain. EINTR: a slow disk.
        if code not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(code, os.strerror(code), "/".join(names))


def open_by_walk(directory: int, names: tuple[str, ...], flags: int) -> int:
    """Open one name after the other, holding each directory meanwhile. No link is followed, inside or not."""
    if not names:
        return os.open(".", flags | FLAGS, dir_fd=directory)
    here = os.dup(directory)
    try:
        for name in names[:-1]:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | FLAGS, dir_fd=here)
            os.close(here)
            here = below
        return os.open(names[-1], flags | os.O_NOFOLLOW | FLAGS, dir_fd=here)
    finally:
        os.close(here)


def open_anywhere(directory: int, names: tuple[str, ...], flags: int) -> int:
    """Open the target of the names, links and `..` included, without confinement."""
    return os.open(join_names(names) or ".", flags | FLAGS, dir_fd=directory)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
