"""Opening what lies beneath a directory, and nothing else, however links are placed or moved meanwhile.

Two openers of one signature: `open_in_kernel`, where Linux resolves the whole path in one system call and refuses to
leave the directory, and `open_by_walk`, name by name and through no link, for everywhere else. Neither knows what a
sandbox is; both raise `OSError`.
"""

import contextlib
import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from typing import Final, TypeAlias

Opener: TypeAlias = Callable[[int, tuple[str, ...], int], int]
"""Takes the descriptor of a directory, names, and flags of `os.open`; returns a descriptor that the caller closes."""

_ALWAYS: Final = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a pipe, a device or a terminal must not hold us

_OPENAT2: Final = (
    437  # on every architecture but alpha; numbers of new system calls are common since Linux 5.0
)
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08
_MAX_ATTEMPTS: Final = 4


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def find_opener(directory: int) -> Opener:
    """Choose the opener that works here, by trying: a kernel may be too old, or a container may forbid the call."""
    opener: Opener = open_by_walk
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.close(open_in_kernel(directory, (), os.O_RDONLY | os.O_DIRECTORY))
            opener = open_in_kernel
    return opener


def open_in_kernel(directory: int, names: tuple[str, ...], flags: int) -> int:
    """Open with openat2: links are followed as long as they stay beneath the directory.

    Raises:
        OSError: `EXDEV` for a way that leads outside, absolute links included; `ELOOP` for a magic link or a circle.
    """
    how = _OpenHow(flags=flags | _ALWAYS, mode=0, resolve=_RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    path = os.fsencode("/".join(names) or ".")
    code = 0
    for _ in range(_MAX_ATTEMPTS):
        descriptor = _libc().syscall(_OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        code = ctypes.get_errno()
        # EAGAIN: something was renamed while the kernel looked, so that it could not be sure. EINTR: a slow disk.
        if code not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(code, os.strerror(code), "/".join(names))


def open_by_walk(directory: int, names: tuple[str, ...], flags: int) -> int:
    """Open one name after the other and hold each directory meanwhile; no link is followed, inside or not.

    Raises:
        OSError: `ELOOP` or `ENOTDIR` for a link.
    """
    if not names:
        return os.open(".", flags | _ALWAYS, dir_fd=directory)
    here = os.dup(directory)
    try:
        for name in names[:-1]:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | _ALWAYS, dir_fd=here)
            os.close(here)
            here = below
        return os.open(names[-1], flags | os.O_NOFOLLOW | _ALWAYS, dir_fd=here)
    finally:
        os.close(here)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
