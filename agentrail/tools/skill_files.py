"""Files of a skill's directory, listed and read safely: links, `..` and absolute names cannot lead outside."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from agentrail.config.skill_set import SkillFile

MAX_SKILL_FILES: Final = 500
MAX_SKILL_TREE_BYTES: Final = 32 * 1024 * 1024
MAX_SKILL_LEVELS: Final = 8

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe would never end, and opening a device may have an effect.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SkillFileFault(Exception):
    """A file in a skill's directory is not read. The message names the file and the reason."""


@frozen(kw_only=True)
class FoundSkillFile:
    """A file before it is read.

    Attributes:
        mark: Values that change with the file: size, times, and inode number.
    """

    path: str
    mark: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.mark[0]


def find_skill_files(directory: str) -> tuple[FoundSkillFile, ...]:
    """List the files of a skill by path. Links to other places inside are left out.

    Raises:
        SkillFileFault: A link leads outside, or the files exceed a limit.
        OSError: The directory cannot be read.
    """
    found: list[FoundSkillFile] = []
    total = 0
    for file in _walk(directory, "", 0):
        found.append(file)
        total += file.size
        if len(found) > MAX_SKILL_FILES:
            message = f"it has over {MAX_SKILL_FILES} files: remove some"
            raise SkillFileFault(message)
        if total > MAX_SKILL_TREE_BYTES:
            message = f"its files have over {MAX_SKILL_TREE_BYTES >> 20} MiB: remove some"
            raise SkillFileFault(message)
    return tuple(sorted(found, key=lambda file: file.path))


def _walk(root: str, below: str, level: int) -> Iterator[FoundSkillFile]:
    with os.scandir(os.path.join(root, below)) as entries:  # noqa: PTH118 - of texts: two hundred skills in a few milliseconds
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.is_symlink():
                end = os.path.realpath(os.path.join(root, path))  # noqa: PTH118 - as above
                if os.path.commonpath((end, os.path.realpath(root))) != os.path.realpath(root):
                    message = f"{path} is a symbolic link that leads outside: replace it with the file itself"
                    raise SkillFileFault(message)
            elif entry.is_dir(follow_symlinks=False):
                if level == MAX_SKILL_LEVELS:
                    message = f"{path} is more than {MAX_SKILL_LEVELS} levels deep: nest less deeply"
                    raise SkillFileFault(message)
                yield from _walk(root, path, level + 1)
            elif entry.is_file(follow_symlinks=False):
                known = entry.stat(follow_symlinks=False)
                mark = (known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino)
                yield FoundSkillFile(path=path, mark=mark)


def hash_skill_file(directory: str, found: FoundSkillFile) -> SkillFile:
    """Read and hash a file.

    Raises:
        SkillFileFault: It differs from the listing.
    """
    data = read_skill_file(directory, found.path, most=found.size)
    return SkillFile(path=found.path, size=len(data), digest=hashlib.sha256(data).hexdigest())


def read_skill_file(directory: str, path: str, *, most: int) -> bytes:
    """Read a file inside a directory. Links are never followed, even if created concurrently.

    Raises:
        SkillFileFault: It is not inside the directory, is not a regular file, is too large, or cannot be read.
    """
    *folders, name = path.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in (*folders, name)):
        message = f"{path!r:.200} is not a path inside the skill: write it as it is listed"
        raise SkillFileFault(message)
    try:
        at = os.open(directory, _DIRECTORY)
        try:
            for folder in folders:
                below = os.open(folder, _DIRECTORY, dir_fd=at)
                os.close(at)
                at = below
            return _read(os.open(name, _FILE, dir_fd=at), path, most)
        finally:
            os.close(at)
    except OSError as error:
        is_link = error.errno in {errno.ELOOP, errno.ENOTDIR}
        message = f"{path!r:.200} cannot be read: {'its path contains a symbolic link' if is_link else error.strerror}"
        raise SkillFileFault(message) from error


def _read(descriptor: int, path: str, most: int) -> bytes:
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            message = f"{path!r:.200} is not a regular file"
            raise SkillFileFault(message)
        data = file.read(most + 1)
    if len(data) > most:
        message = f"{path!r:.200} has over {most:,} bytes"
        raise SkillFileFault(message)
    return data
