"""`NoteFiles`: working notes as files below one directory, each replaced atomically."""

import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from agentrail.abc.recall import MemoryOwner
from agentrail.core.values.notes_markdown import MAX_NOTES_BYTES, NOTES_FILE
from agentrail.errors import NotAStore, StoreUnavailable
from agentrail.file_systems import NotRegular, read_regular
from agentrail.private_paths import keep_private
from agentrail.stores.data_directory import checked_path
from agentrail.stores.sqlite_files import sync_directory

_MAX_READ: Final = 4 * MAX_NOTES_BYTES
"""Limit on reading: a user may write more into the file than is kept of notes from tools."""

# Lowercase letters only: some file systems ignore case.
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_NO_NAME: Final = "_"


class NoteFiles:
    """Notes in a directory. See `NoteStore` for the contract of each call."""

    is_immediate: Final = False

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Create the object without opening files.

        Args:
            directory: Directory of the notes. It is created, for its owner only, with the first note.
        """
        self.directory: Path = checked_path("directory", directory)
        keep_private(self.directory)
        self._turn = threading.Lock()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"NoteFiles({os.fspath(self.directory)!r})"

    def path_of(self, owner: MemoryOwner, session: str) -> Path:
        """Return the path of a session's file, which may not exist yet."""
        return self._directory_of(owner) / directory_name(session) / NOTES_FILE

    def read(self, owner: MemoryOwner, session: str) -> str:
        """Return the notes of a session. See `NoteStore.read`."""
        path = self.path_of(owner, session)
        with self._said(path):
            return _read(path)

    def change(self, owner: MemoryOwner, session: str, edit: Callable[[str], str]) -> str:
        """Replace the notes of a session. See `NoteStore.change`."""
        path = self.path_of(owner, session)
        with self._turn, self._said(path):
            try:
                old = _read(path)
            except NotAStore:
                if edit("-"):  # notes that are cleared need not be read, and a deleted session leaves none
                    raise
                old = ""
            new = edit(old)
            if new and new != old:
                _make_directories(self.directory, path.parent)
                _write(path, new.encode())
            elif not new:
                _remove(path)
        return new

    def forget(self, owner: MemoryOwner) -> int:
        """Remove all notes of an owner. See `NoteStore.forget`."""
        folder = self._directory_of(owner)
        with self._turn, self._said(folder):
            if not folder.is_dir():
                return 0
            found = len([*folder.glob(f"*/{NOTES_FILE}")])
            shutil.rmtree(folder)
            sync_directory(folder.parent)
        return found

    def close(self) -> None:
        """Accept no more calls. Can be called repeatedly."""
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
    """Return a directory name for any text: a plain name itself, `_` plus a hash for others, `_` for an empty text.

    No plain name starts with `_`, so no two texts share a directory.
    """
    if not name:
        return _NO_NAME
    if _PLAIN.fullmatch(name) is not None and not name.endswith("."):
        return name
    return f"_{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _read(path: Path) -> str:
    try:
        data = read_regular(path, _MAX_READ + 1, follow=False)
    except FileNotFoundError:
        return ""
    except NotRegular as error:
        raise _no_notes(path, "it is not a file") from error
    except OSError as error:
        if path.is_symlink():
            raise _no_notes(path, "it is a link") from error
        raise
    if len(data) > _MAX_READ:
        raise _no_notes(path, f"it has more than {_MAX_READ:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _no_notes(path, "it is not UTF-8") from error


def _write(path: Path, data: bytes) -> None:
    beside = _beside(path)
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(beside, flags, 0o600), "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(path)
    finally:  # on a full disk it would take space
        beside.unlink(missing_ok=True)
    sync_directory(path.parent)


def _beside(path: Path) -> Path:
    """Return the one name for all writes: the next write or removal finds a leftover of a crash. Calls do not overlap."""
    return path.with_name(f".{path.name}.new")


def _remove(path: Path) -> None:
    for one in (path, _beside(path)):
        with suppress(FileNotFoundError):
            one.unlink()
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
    message = f"{os.fspath(path)!r} cannot be used for notes: {reason}; it was not modified. Repair it, or move it away"
    return NotAStore(message)
