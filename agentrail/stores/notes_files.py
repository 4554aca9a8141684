"""`NoteFiles`: working notes as files, `TENANT/USER/SESSION/NOTES.md` below one directory, for its owner alone.

Each write makes a new file beside the old one and renames it, so that a reader, also after a power failure, sees one of both. Names
of directories are those of owners and sessions where they are plain, and else a hash: any text may be an id.
"""

import hashlib
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from agentrail.abc.recall import MemoryOwner
from agentrail.core.values.notes import MAX_NOTES_BYTES, NOTES_FILE
from agentrail.errors import NotAStore, StoreUnavailable
from agentrail.private_places import keep_private
from agentrail.stores.sqlite_files import sync_directory

_MAX_READ: Final = 4 * MAX_NOTES_BYTES
"""A person may write more than is kept of what tools note."""

# Small letters alone: some file systems take two names that differ in case for one.
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_NO_NAME: Final = "_"


class NoteFiles:
    """Keeps notes in a directory. See `NoteStore` for what each call promises."""

    is_immediate: Final = False

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Open nothing yet.

        Args:
            directory: Where they are; it is made, for its owner alone, with the first note.
        """
        self.directory: Path = Path(directory)
        keep_private(self.directory)
        self._turn = threading.Lock()
        self._is_closed = False

    def __repr__(self) -> str:
        """Say where it is."""
        return f"NoteFiles({os.fspath(self.directory)!r})"

    def path_of(self, owner: MemoryOwner, session: str) -> Path:
        """Give the file of a session, also before there is one."""
        return self._directory_of(owner) / directory_name(session) / NOTES_FILE

    def read(self, owner: MemoryOwner, session: str) -> str:
        """Give the notes of a session; see `NoteStore.read`."""
        path = self.path_of(owner, session)
        with self._said(path):
            return _read(path)

    def change(self, owner: MemoryOwner, session: str, edit: Callable[[str], str]) -> str:
        """Put another text in their place; see `NoteStore.change`."""
        path = self.path_of(owner, session)
        with self._turn, self._said(path):
            old = _read(path)
            new = edit(old)
            if new and new != old:
                _make_directories(self.directory, path.parent)
                _write(path, new.encode())
            elif not new:
                _remove(path)
        return new

    def forget(self, owner: MemoryOwner) -> int:
        """Remove all of an owner; see `NoteStore.forget`."""
        folder = self._directory_of(owner)
        with self._turn, self._said(folder):
            if not folder.is_dir():
                return 0
            found = len([*folder.glob(f"*/{NOTES_FILE}")])
            shutil.rmtree(folder)
            sync_directory(folder.parent)
        return found

    def close(self) -> None:
        """Take no more calls; again if you like."""
        self._is_closed = True

    def _directory_of(self, owner: MemoryOwner) -> Path:
        return self.directory / directory_name(owner.tenant) / directory_name(owner.user)

    @contextmanager
    def _said(self, path: Path) -> Iterator[None]:
        if self._is_closed:
            message = f"the notes in {os.fspath(self.directory)!r} were closed"
            raise StoreUnavailable(message)
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            message = f"the notes {os.fspath(path)!r} cannot be used now: {reason}; try again later"
            raise StoreUnavailable(message) from error


def directory_name(name: str) -> str:
    """Give the name of a directory for any text: itself where it is plain, a hash behind `_` where it is not, `_` for an empty one.

    No plain name begins with `_`, so that no two texts have one directory.
    """
    if not name:
        return _NO_NAME
    if _PLAIN.fullmatch(name) is not None and not name.endswith("."):
        return name
    return f"_{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _read(path: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if path.is_symlink():
            raise _no_notes(path, "it is a link") from error
        raise
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise _no_notes(path, "it is no file")
        data = opened.read(_MAX_READ + 1)
    if len(data) > _MAX_READ:
        raise _no_notes(path, f"it has more than {_MAX_READ:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _no_notes(path, "it is no UTF-8") from error


def _write(path: Path, data: bytes) -> None:
    # One name for all writes: what a crash left lying is written over by the next one, and calls come one after the other.
    beside = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        beside.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o600), "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    beside.replace(path)
    sync_directory(path.parent)


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
        sync_directory(path.parent)


def _make_directories(top: Path, folder: Path) -> None:
    top.parent.mkdir(parents=True, exist_ok=True)
    for one in (top, folder.parent.parent, folder.parent, folder):
        try:
            one.mkdir(mode=0o700)
        except FileExistsError:
            continue
        sync_directory(one.parent)


def _no_notes(path: Path, reason: str) -> NotAStore:
    message = (
        f"{os.fspath(path)!r} can be no notes: {reason}; nothing in it was touched. Mend it, or move it away"
    )
    return NotAStore(message)
