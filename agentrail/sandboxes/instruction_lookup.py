"""`FilesAbove`: instruction files of the user, and from the root of a repository down to the working directory.

It reads only the names of `INSTRUCTION_NAMES`. A file is opened beneath the root of its repository, in a single system
call if the kernel supports it, so that no link leads outside, however it is moved meanwhile. All of it blocks: call it
in a thread.
"""

import codecs
import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from agentrail.core.protocol.actions import INSTRUCTION_NAMES
from agentrail.core.protocol.hooks import InstructionsFound, UnreadInstructions
from agentrail.core.values.instruction_order import MAX_READ_CHARACTERS, InstructionFile
from agentrail.sandboxes.safe_open import FLAGS, Opener, find_opener

_USER_FOLDER: Final = ".agentrail"

MAX_INSTRUCTION_LEVELS: Final = 32
"""Maximum number of directories examined, the nearest ones."""

_MAX_BYTES: Final = 4 * MAX_READ_CHARACTERS + 4
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_LED_OUT: Final = frozenset({errno.EXDEV, errno.ELOOP})


class FilesAbove:
    def __init__(self, working_dir: Path, home: Path | None) -> None:
        """Create a lookup without reading."""
        self._working_dir = working_dir
        self._home = home

    def __repr__(self) -> str:
        return f"FilesAbove({str(self._working_dir)!r})"

    def read(self, names: tuple[str, ...]) -> InstructionsFound:
        strange = [name for name in names if name not in INSTRUCTION_NAMES]
        if strange:
            message = f"{strange[0]!r} is not an instruction file; only {', '.join(INSTRUCTION_NAMES)} are read here"
            raise ValueError(message)
        here = Path(os.path.realpath(self._working_dir))
        root = find_root(here)
        levels = (here, *here.parents)[: len(here.relative_to(root).parts) + 1]
        found = _Found(names)
        if self._home is not None and (folder := self._home / _USER_FOLDER) not in levels:
            found.look(partial(_open_in, folder), f"~/{_USER_FOLDER}/")
        if len(levels) > MAX_INSTRUCTION_LEVELS:
            reason = f"only the nearest {MAX_INSTRUCTION_LEVELS} directories are searched"
            found.unread.append(
                UnreadInstructions(path=_name_of_level(MAX_INSTRUCTION_LEVELS), reason=reason)
            )
        try:
            top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | FLAGS)
        except OSError as error:
            return found.with_fault(_name_of_level(len(levels) - 1), error)
        try:
            opener = find_opener(top)
            for depth, level in reversed(tuple(enumerate(levels[:MAX_INSTRUCTION_LEVELS]))):
                open_file = partial(_open_beneath, opener, top, level.relative_to(root).parts)
                found.look(open_file, "../" * depth)
        finally:
            os.close(top)
        return found.all


def find_root(working_dir: Path) -> Path:
    """Return the root of the repository that contains a directory. The directory itself if there is none."""
    return next(
        (place for place in (working_dir, *working_dir.parents) if os.path.lexists(place / ".git")),
        working_dir,
    )


class _Found:
    """The files found so far, the farthest first."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._files: list[InstructionFile] = []
        self.unread: list[UnreadInstructions] = []

    @property
    def all(self) -> InstructionsFound:
        return InstructionsFound(files=tuple(self._files), unread=tuple(self.unread))

    def look(self, open_file: Callable[[str], int], where: str) -> None:
        """Add the first file of a directory that has content."""
        for name in self._names:
            try:
                text = _read(open_file(name))
            except OSError as error:
                if error.errno not in _ABSENT:
                    self.with_fault(f"{where}{name}", error)
                continue
            except ValueError as error:
                self.unread.append(UnreadInstructions(path=f"{where}{name}", reason=str(error)))
                continue
            if text.strip():
                self._files.append(InstructionFile(path=f"{where}{name}", text=text))
                return

    def with_fault(self, path: str, error: OSError) -> InstructionsFound:
        reason = (
            "it is a symbolic link that leads out of the repository"
            if error.errno in _LED_OUT
            else f"the operating system reports: {os.strerror(error.errno or 0)}"
        )
        self.unread.append(UnreadInstructions(path=path, reason=reason))
        return self.all


def _open_in(folder: Path, name: str) -> int:
    # Links are followed: this folder belongs to the user rather than a repository.
    return os.open(folder / name, os.O_RDONLY | FLAGS)


def _open_beneath(opener: Opener, top: int, way: tuple[str, ...], name: str) -> int:
    return opener(top, (*way, name), os.O_RDONLY)


def _name_of_level(depth: int) -> str:
    return "../" * depth or "./"


def _read(descriptor: int) -> str:
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            message = "it is not a regular file"
            raise ValueError(message)
        data = b""
        while len(data) < _MAX_BYTES and (piece := os.read(descriptor, _MAX_BYTES - len(data))):
            data += piece
    finally:
        os.close(descriptor)
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    decoder = codecs.getincrementaldecoder("utf-16" if is_wide else "utf-8-sig")()
    try:
        # Not final if more may follow: a cut character is left out.
        text = decoder.decode(data, final=len(data) < _MAX_BYTES)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        message = "it is not text"
        raise ValueError(message)
    return text[:MAX_READ_CHARACTERS]
