"""Refusals of a sandbox: codes and sentences, the same for all sandboxes. Pure."""

import difflib
import errno
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from agentrail.abc import Refusal
from agentrail.sandboxes.paths import escape, show_names

T = TypeVar("T")
Names: TypeAlias = tuple[str, ...]

MAX_READ_BYTES: Final = 50_000_000
MAX_WRITTEN_BYTES: Final = 10 << 20

_MAX_NAMES_SHOWN: Final = 5
_MAX_NAMES_COMPARED: Final = 1_000
_MAX_NAME_COMPARED: Final = 32


class PathRefused(Exception):
    def __init__(self, *, code: str, message: str) -> None:
        super().__init__(message)
        self.refusal: Refusal = Refusal(code=code, message=message)


def accept(found: T | Refusal) -> T:
    if isinstance(found, Refusal):
        raise PathRefused(code=found.code, message=found.message)
    return found


def describe_neighbours(every: Sequence[str], names: Names, depth: int) -> str:
    """List the names in a directory in which a name was not found."""
    found = [name for name in every[:_MAX_NAMES_COMPARED] if name.isprintable()]
    found.sort(key=lambda name: (-_likeness(name, names[depth]), name))
    shown = ", ".join(found[:_MAX_NAMES_SHOWN]) or "nothing"
    return f' list_dir("{show_names(names[:depth])}") shows: {shown}'


def _likeness(one: str, other: str) -> float:
    # Compares their beginnings, because some long names take a thousand times as long as others.
    return difflib.SequenceMatcher(None, one[:_MAX_NAME_COMPARED], other[:_MAX_NAME_COMPARED]).ratio()


def refusal_of(error: OSError, shown: str) -> Refusal:
    code, reason = _REASONS.get(error.errno or 0, ("io_error", error.strerror))
    return Refusal(code=code, message=f"{shown}: {reason}.")


_REASONS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        errno.ENOTDIR: ("invalid_path", "it is not a directory, or leads through something that is not one"),
        errno.EXDEV: ("invalid_path", "a link in it leads out of the working directory"),
        errno.ELOOP: ("invalid_path", "it leads through a link that is not followed"),
        errno.ENAMETOOLONG: ("invalid_path", "it is too long"),
        errno.EACCES: ("permission_denied", "permission denied"),
        errno.EPERM: ("permission_denied", "permission denied"),
        errno.EROFS: ("permission_denied", "the file system is read-only"),
        errno.ENXIO: ("permission_denied", "sockets and devices are not opened"),
        errno.ENODEV: ("permission_denied", "sockets and devices are not opened"),
        errno.ENOSPC: ("no_space", "there is no space left"),
        errno.EDQUOT: ("no_space", "the user's disk quota is exhausted"),
    }
)


def encode_text(content: str, shown: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        message = (
            f"The text for {shown} is not valid Unicode at character {error.start}. Leave that character out."
        )
        raise PathRefused(code="not_text", message=message) from None


def check_read_size(size_bytes: int, shown: str) -> None:
    if size_bytes > MAX_READ_BYTES:
        message = f"{shown} has {size_bytes:,} bytes, at most {MAX_READ_BYTES:,} are read. Look at a part with a command."
        raise PathRefused(code="too_large", message=message)


def check_written_size(size_bytes: int, shown: str) -> None:
    """Refuse to write too much at once."""
    if size_bytes > MAX_WRITTEN_BYTES:
        message = f"{size_bytes:,} bytes are too many for {shown}, at most {MAX_WRITTEN_BYTES:,} are written. Write several files."
        raise PathRefused(code="too_large", message=message)


def refuse_missing(what: str, names: Names, neighbours: str) -> PathRefused:
    return PathRefused(code="file_not_found", message=f"No such {what}: {show_names(names)}.{neighbours}")


def refuse_directory(shown: str) -> PathRefused:
    return PathRefused(code="is_directory", message=f'{shown} is a directory. Use list_dir("{shown}").')


def refuse_protected(found: str) -> PathRefused:
    message = f"{escape(found)} is protected: programs trust its contents, so tools must not write it."
    return PathRefused(code="permission_denied", message=message)


def refuse_repository(shown: str) -> PathRefused:
    """Return the refusal of a write that would create a git repository."""
    message = (
        f"{escape(shown)} would make its directory a git repository, whose settings name programs to run. "
        "Use another name, or git init."
    )
    return PathRefused(code="permission_denied", message=message)


def refuse_unreadable(found: str) -> PathRefused:
    return PathRefused(
        code="permission_denied", message=f"{escape(found)} is agentrail's own state, which no tool reads."
    )


def refuse_hard_link(shown: str) -> PathRefused:
    """Return the refusal of a file with other names, which may be outside."""
    message = f"{shown} has other names too (hard links), possibly outside the working directory."
    return PathRefused(code="permission_denied", message=message)


def refuse_commands(why: str) -> Refusal:
    """Return the refusal of all commands, with the reason and the person who can change it."""
    message = (
        f"Commands are disabled: bubblewrap is not available here ({escape(why)}). "
        'Set shell_fallback="unconfined" to run them without a sandbox.'
    )
    return Refusal(code="unsupported", message=message)
