"""Read access to a session's workspace for its owner. An unreadable file is reported as missing."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NoReturn

import trio
from attrs import field, frozen

from agentrail import outside
from agentrail.abc import ListResult, Refusal, Transfer
from agentrail.errors import FilesUnsupported, FileUnknown, SandboxError, TooLarge
from agentrail.runtime.session_files import open_files
from agentrail.runtime.session_handle import Session

MAX_FILE_BYTES: Final = 25 << 20
"""Maximum size of a returned file, in bytes. It is held in memory."""

MAX_FILE_PATH_CHARACTERS: Final = 1_024
_HASHED_HERE: Final = 1 << 20

READ_SECONDS: Final = 30.0
"""Time limit for a listing or a file, in seconds."""

_NOT_THERE: Final = frozenset(
    {"file_not_found", "permission_denied", "is_directory", "invalid_path", "not_text"}
)


@frozen(kw_only=True)
class WorkspaceEntry:
    """A file or a directory.

    Attributes:
        size: Size of a file in bytes. 0 for a directory.
    """

    path: str
    size: int
    is_dir: bool


@frozen(kw_only=True)
class WorkspaceFile:
    """A complete file."""

    path: str
    content: bytes = field(repr=False)
    sha256: str


async def list_directory(session: Session, path: str = "") -> tuple[WorkspaceEntry, ...]:
    names = () if path in ("", ".") else names_of(path)
    with _bounded():
        async with open_files(session) as sandbox:
            listing = await sandbox.list_dir("/".join(names) or ".")
    return entries_of(names, listing)


async def read_workspace(session: Session, path: str) -> WorkspaceFile:
    names = names_of(path)
    with _bounded():
        async with open_files(session) as sandbox:
            moved = await sandbox.download(["/".join(names)])
    made = partial(file_of_transfer, path, moved[0])
    return await outside.offload(made) if len(moved[0].content or b"") > _HASHED_HERE else made()


def names_of(path: str) -> tuple[str, ...]:
    names = tuple(path.split("/"))
    is_sound = 0 < len(path) <= MAX_FILE_PATH_CHARACTERS and "\0" not in path and "\\" not in path
    if not is_sound or any(name in ("", ".", "..") for name in names):
        refuse_file()
    return names


def entries_of(names: tuple[str, ...], listing: ListResult) -> tuple[WorkspaceEntry, ...]:
    """Return the entries of a directory, or raise its refusal."""
    if listing.error is not None:
        refuse_by(listing.error)
    return tuple(
        WorkspaceEntry(path="/".join((*names, one.name)), size=one.size_bytes, is_dir=one.kind == "dir")
        for one in listing.entries
        if one.kind in ("dir", "file")
    )


def file_of_transfer(path: str, moved: Transfer) -> WorkspaceFile:
    """Return the file of a transfer, or raise its refusal."""
    if moved.error is not None:
        refuse_by(moved.error)
    content = moved.content or b""
    if len(content) > MAX_FILE_BYTES:
        raise _too_large()
    return WorkspaceFile(path=path, content=content, sha256=hashlib.sha256(content).hexdigest())


def refuse_by(refusal: Refusal) -> NoReturn:
    if refusal.code in _NOT_THERE:
        refuse_file()
    if refusal.code == "too_large":
        raise _too_large()
    if refusal.code == "unsupported":
        raise FilesUnsupported(_UNSUPPORTED)
    message = f"the workspace could not be read: {refusal.code}: {refusal.message}"
    raise SandboxError(message)


def refuse_file() -> NoReturn:
    message = "the workspace of this session has no such file, or it cannot be read"
    raise FileUnknown(message)


def _too_large() -> TooLarge:
    return TooLarge(f"the file has more than {MAX_FILE_BYTES:,} bytes and cannot be downloaded")


_UNSUPPORTED: Final = "sessions of this profile have no workspace whose files can be read"


@contextmanager
def _bounded() -> Iterator[None]:
    with trio.CancelScope(deadline=trio.current_time() + READ_SECONDS) as scope:
        yield
    if scope.cancelled_caught:
        message = f"reading the workspace took longer than {READ_SECONDS:g} s"
        raise SandboxError(message)
