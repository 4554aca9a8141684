"""Files sent with a message: allowed names and sizes, and their transfer into a session's workspace."""

import hashlib
import re
from collections.abc import Collection, Sequence
from functools import cached_property, partial
from itertools import count
from typing import Any, Final

import trio
from attrs import field, frozen

from agentrail import outside
from agentrail.abc import FileBytes, ListResult, Refusal, Sandbox, Transfer
from agentrail.actors.keyed_locks import KeyedLocks
from agentrail.errors import (
    AttachmentInvalid,
    AttachmentsUnsupported,
    SessionDown,
    TooLarge,
    UploadFailed,
)
from agentrail.host.hook_payloads import AttachmentFile
from agentrail.host.identity import digest_of_message
from agentrail.host.quotas import Limits
from agentrail.runtime.crashes import raise_what_travels
from agentrail.runtime.session_files import open_files, place_of_files
from agentrail.runtime.session_handle import Session

UPLOADS: Final = "uploads"
"""Workspace directory for files sent with messages."""

UPLOAD_SECONDS: Final = 60.0
"""Time limit for writing the files of one message, in seconds. Includes waiting for other files of that session."""

NAMELESS: Final = "file"
"""Name of a file whose cleaned name is empty."""

_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]")
_MAX_SEEN: Final = 1_000
_MAX_ENDING: Final = 16
_MIME_TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}")
_ANY_TYPE: Final = "application/octet-stream"
_HASHED_HERE: Final = 1 << 20


@frozen(kw_only=True)
class Attachment:
    """A file sent with a message.

    Attributes:
        name: Name given by the client. Cleaned before it becomes a file name.
        mime_type: Type given by the client. The content is not checked.
        content: The complete content.
    """

    name: str
    mime_type: str
    content: bytes = field(repr=False)

    @cached_property
    def identity(self) -> tuple[str, str, str]:
        """Name, type and SHA-256 of the content. Computed once."""
        return (self.name, self.mime_type, hashlib.sha256(self.content).hexdigest())


def check_attachments(files: Sequence[Attachment], limits: Limits) -> None:
    """Validate the files of a message, before any work is done for it."""
    if len(files) > limits.max_attachments:
        message = f"{len(files)} attachments were sent, at most {limits.max_attachments} are allowed: send the rest with another message"
        raise TooLarge(message)
    whole = 0
    for place, file in enumerate(files):
        _check_kind(place, file)
        size = len(file.content)
        if size > limits.max_attachment_bytes:
            message = f"attachments[{place}] has {size:,} bytes, at most {limits.max_attachment_bytes:,} are allowed"
            raise TooLarge(message)
        whole += size
    if whole > limits.max_attachments_bytes:
        message = f"the attachments have {whole:,} bytes together, at most {limits.max_attachments_bytes:,} are allowed"
        raise TooLarge(message)


def _check_kind(place: int, file: Any) -> None:
    if not isinstance(file, Attachment):
        message = f"attachments[{place}] is of type {type(file).__name__}: expected Attachment(name=…, mime_type=…, content=…)"
        raise AttachmentInvalid(message, index=place)
    given: Any = file
    for name, kind in (("name", str), ("mime_type", str), ("content", bytes)):
        if not isinstance(getattr(given, name), kind):
            message = f"attachments[{place}].{name} is of type {type(getattr(given, name)).__name__}: expected {kind.__name__}"
            raise AttachmentInvalid(message, index=place)


async def digest_with_files(message: str, files: Sequence[Attachment], mode: str | None) -> str:
    """Return the result of `digest_of_message`. Large files are hashed off the event loop."""
    if sum(len(one.content) for one in files) > _HASHED_HERE:
        await outside.offload(partial(_identities, files), abandon_on_cancel=True)
    return digest_of_message(message, _identities(files), mode)


def _identities(files: Sequence[Attachment]) -> list[tuple[str, str, str]]:
    return [one.identity for one in files]


# --- names


def clean_name(name: str, max_characters: int = 100) -> str:
    """Return a file name for a client's name: `A-Z a-z 0-9 . _ -`, no leading dot or dash, no two dots in a row.

    The extension is kept if there is room, because tools depend on it.
    """
    said = _OTHERS.sub("_", name[-_MAX_SEEN:])
    said = re.sub(r"\.{2,}", ".", said).lstrip(".")
    if said.startswith("-"):
        said = f"_{said[1:]}"
    return _cut(said, "", max_characters) or NAMELESS


def _cut(name: str, mark: str, room: int) -> str:
    stem, dot, ending = name.rpartition(".")
    ending = f".{ending}" if stem and dot and len(ending) <= _MAX_ENDING else ""
    if len(mark) + len(ending) >= room:
        ending = ""
    stem = name.removesuffix(ending)
    return f"{stem[: room - len(mark) - len(ending)]}{mark}{ending}"


def decide_file_names(
    names: Sequence[str], taken: Collection[str], max_characters: int = 100
) -> tuple[str, ...]:
    """Return a unique name for each file, in order. A name in use gets a number."""
    used = {one.casefold() for one in taken}
    next_of: dict[
        str, int
    ] = {}  # by cleaned name, so that ten thousand equal names do not take quadratic time
    given: list[str] = []
    for name in names:
        cleaned = clean_name(name, max_characters)
        known = cleaned.casefold()
        chosen = cleaned
        if known in used:
            for number in count(next_of.get(known, 2)):
                chosen = _cut(cleaned, f"-{number}", max_characters)
                if chosen.casefold() not in used:
                    next_of[known] = number + 1
                    break
        used.add(chosen.casefold())
        given.append(chosen)
    return tuple(given)


def file_of(name: str, attachment: Attachment) -> AttachmentFile:
    is_type = _MIME_TYPE.fullmatch(attachment.mime_type) is not None
    return AttachmentFile(
        name=name,
        mime_type=attachment.mime_type if is_type else _ANY_TYPE,
        container_path=f"{UPLOADS}/{name}",
        size_kb=round(len(attachment.content) / 1024),
        size_bytes=len(attachment.content),
    )


def message_of_files(message: str, files: Sequence[AttachmentFile]) -> str:
    """Return the message, or a list of the files if it is empty, because models reject empty messages."""
    if message.strip() or not files:
        return message
    return f"[Files: {', '.join(one.container_path for one in files)}]"


# --- writing


class Uploads:
    """Writer of message files into session workspaces. One message at a time per workspace, so that names do not clash."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._locks = KeyedLocks()

    def __len__(self) -> int:
        return len(self._locks)

    async def write(self, session: Session, files: Sequence[Attachment]) -> tuple[AttachmentFile, ...]:
        """Write files into `uploads/` of a session's workspace, each under an unused name.

        Cancellation: Written files stay.
        """
        if not files:
            return ()
        try:
            with trio.fail_after(UPLOAD_SECONDS):
                async with self._locks.hold(place_of_files(session)), open_files(session) as sandbox:
                    return await self._write(sandbox, files)
        except (TooLarge, AttachmentsUnsupported, UploadFailed, SessionDown):
            raise
        except BaseException as raised:  # noqa: ASYNC103 - the edge of a sandbox: a request fails, and no host
            raise_what_travels(raised)
            raise UploadFailed(_NOT_WRITTEN) from raised  # noqa: ASYNC104 - what travels was raised

    async def _write(self, sandbox: Sandbox, files: Sequence[Attachment]) -> tuple[AttachmentFile, ...]:
        taken = decide_taken(await sandbox.list_dir(UPLOADS))
        names = decide_file_names([one.name for one in files], taken, self._limits.max_attachment_name)
        told = tuple([file_of(name, one) for name, one in zip(names, files, strict=True)])
        contents = [one.content for one in files]
        moved = await sandbox.upload(
            [
                FileBytes(path=one.container_path, content=content)
                for one, content in zip(told, contents, strict=True)
            ]
        )
        check_moved(moved, len(files))
        return told


def decide_taken(listing: ListResult) -> tuple[str, ...]:
    if listing.error is None:
        return tuple(one.name for one in listing.entries)
    if listing.error.code == "file_not_found":
        return ()
    raise _failure_of(listing.error)


def check_moved(moved: Sequence[Transfer], expected: int) -> None:
    """Raise the first failed transfer."""
    for one in moved:
        if one.error is not None:
            raise _failure_of(one.error)
    if len(moved) != expected:
        raise UploadFailed(_NOT_WRITTEN) from RuntimeError(
            f"upload returned {len(moved)} files instead of {expected}"
        )


_NOT_WRITTEN: Final = "the files could not be put into the workspace: see the log"


def _failure_of(refusal: Refusal) -> Exception:
    """Map a refusal to its error: the client's fault if no file system would accept it."""
    if refusal.code == "too_large":
        return TooLarge("a file is too large for the workspace: send a smaller one")
    if refusal.code == "unsupported":
        return AttachmentsUnsupported(
            "the workspace of this session accepts no files: send the text without them"
        )
    failed = UploadFailed(_NOT_WRITTEN)
    failed.__cause__ = RuntimeError(f"{refusal.code}: {refusal.message}")
    return failed
