"""Programs that a sandbox starts outside of itself: located once, and only in places that cannot be written from inside.

An activated environment puts a directory of the project first in `PATH`. A writer of files there could otherwise replace
the `rg` or the `bwrap` that runs with all rights of the user.
"""

import errno
import os
import stat
import sys
from pathlib import Path
from typing import Final

from attrs import frozen

_MAX_LINKS: Final = 40  # the same as in the kernel


@frozen(kw_only=True)
class Programs:
    """Absolute paths of the programs. None for a program that is not installed in a trusted place."""

    bubblewrap: str | None
    ripgrep: str | None
    shell: str | None


def find_programs(root: Path) -> Programs:
    return Programs(
        bubblewrap=find_program("bwrap", root),
        ripgrep=find_program("rg", root),
        shell=find_program("bash", root) or find_program("sh", root),
    )


def find_program(name: str, root: Path | None = None) -> str | None:
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(directory, name)
        # A relative entry refers to the current directory, which is often the root.
        if not path.is_absolute() or not os.access(path, os.X_OK) or not path.is_file():
            continue
        if root is None or root == Path("/") or is_out_of_reach(path, root):
            return str(path)
    return None


def safe_search_path(root: Path | None = None) -> str:
    """Return `PATH` without relative entries, and without directories below a root or reached through it."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    safe = [entry for entry in entries if Path(entry).is_absolute() and os.path.isdir(entry)]  # noqa: PTH112
    if root is not None and root != Path("/"):
        safe = [entry for entry in safe if is_out_of_reach(Path(entry), root)]
    return os.pathsep.join(safe)


def find_interpreter() -> str:
    return os.path.realpath(sys.executable)


def is_out_of_reach(path: Path, root: Path) -> bool:
    """Return whether the whole way to a path, its directories and links, lies outside of the root."""
    try:
        return not any(_is_same(step, root) for step in _walk(path))
    except OSError:
        return False


def find_links(path: Path, root: Path) -> tuple[Path, ...]:
    """Return the links below the root on the way to a path: a writer there decides where the path leads."""
    given = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the links to be found
    if root not in given.parents:
        return ()
    steps = (*reversed(given.parents), given)
    return tuple(step for step in steps if root in step.parents and step.is_symlink())


def _walk(path: Path) -> list[Path]:
    here, waiting = Path("/"), list(path.parts[1:])
    walked = [here]
    links = 0
    while waiting:
        below = here.parent if waiting[0] == ".." else here / waiting[0]
        del waiting[0]
        if not stat.S_ISLNK(below.lstat().st_mode):
            here = below
            walked.append(here)
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = below.readlink()
        if target.is_absolute():
            here = Path("/")
        waiting[:0] = target.parts[1:] if target.is_absolute() else target.parts
    return walked


def _is_same(path: Path, root: Path) -> bool:
    one, other = path.stat(), root.stat()
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
