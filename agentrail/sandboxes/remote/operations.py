"""Operations of a remote sandbox, their arguments and answers, as client and server write them.

Results of the port travel as they are, as JSON in UTF-8; a sandbox's refusal is a result too. Contents of files travel as bytes, in `parts.py`.
Nothing is connected or carried out here.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from attrs import frozen

from agentrail.abc import (
    EditResult,
    ExecuteOptions,
    ExecuteResult,
    GlobResult,
    GrepOptions,
    GrepResult,
    ListResult,
    ReadResult,
    Refusal,
    WriteResult,
)
from agentrail.structs import decoder_of

T = TypeVar("T")

MAX_SANDBOX_BODY_BYTES: Final = 64 << 20
"""Of one request or answer, contents of files included."""

WIRE_PIECE_BYTES: Final = 1 << 16
"""Of what a process reads or prints, in one message."""

MAX_FILES_AT_ONCE: Final = 10_000
"""Of one upload or download."""

LEASE_SECONDS: Final = 30.0
"""How long a server keeps the files of a client from which it hears nothing."""

BEAT_SECONDS: Final = 10.0
"""How often a client says that it is there."""

STOP_SECONDS: Final = 3.0
"""How long a stop is waited for; what is not gone by then ends with the lease."""

SPARE_SECONDS: Final = 5.0
"""How much longer than a command may take its client waits for the answer."""

ANSWER_SECONDS: Final = 60.0
"""How long a client waits for the answer to anything that is no command."""

SANDBOX_PORT: Final = 8710

SANDBOX_TOKEN_VARIABLE: Final = "AGENTRAIL_SANDBOX_TOKEN"  # noqa: S105 - the name of one
"""Where both sides look for the token."""

TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,4000}=*")
TOKEN_WORDS: Final = "at least 16 of A-Z a-z 0-9 . _ ~ + / -"  # noqa: S105 - about tokens

SETTLED_HEADER: Final = "agentrail-settled"
"""The lowest number of an operation that its client still waits for: what comes later with a lower one is not carried out."""

JSON_TYPE: Final = "application/json"

LEASE_ID: Final = re.compile(r"[0-9a-f]{32}")

MAX_NUMBER: Final = 2**53
"""Of an operation, a line, a count; larger ones mean the same."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself, in each answer.

    Attributes:
        is_unconfined: Whether its commands run with the rights of the server's user.
    """

    can: tuple[str, ...] = ()
    is_unconfined: bool = False


class WireAnswer(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What comes back: how the server is, and what became of the operation."""

    facts: Facts
    result: T


# --- what is asked


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class PathRequest(_Request, frozen=True):
    """`exists`, `list_dir`, `leads_to`."""

    path: str


class ReadRequest(_Request, frozen=True):
    """`read`; as of the port."""

    path: str
    offset: int = 1
    limit: int | None = None


class WriteRequest(_Request, frozen=True):
    """`write`; as of the port."""

    path: str
    content: str


class EditRequest(_Request, frozen=True):
    """`edit`; as of the port."""

    path: str
    old: str
    new: str
    replace_all: bool = False


class GrepRequest(_Request, frozen=True):
    """`grep`; as of the port."""

    pattern: str
    path: str
    options: GrepOptions


class GlobRequest(_Request, frozen=True):
    """`glob`; as of the port."""

    pattern: str
    path: str


class UploadRequest(_Request, frozen=True):
    """The head of an `upload`; the contents are the parts behind it."""

    paths: tuple[str, ...]


class DownloadRequest(_Request, frozen=True):
    """`download`."""

    paths: tuple[str, ...]


class ExecuteRequest(_Request, frozen=True):
    """`execute`; as of the port."""

    command: str
    options: ExecuteOptions


class SnapshotRequest(_Request, frozen=True):
    """`snapshot`."""


class RestoreRequest(_Request, frozen=True):
    """`restore`; as of the port."""

    snapshot_id: str


class OpenRequest(_Request, frozen=True):
    """`open_process`, as the first message of its WebSocket.

    Attributes:
        workdir: Where it begins.
        env: Variables that it sees besides the usual ones.
        errors: Where its standard error goes.
    """

    argv: tuple[str, ...]
    workdir: str
    env: dict[str, str]
    errors: Literal["merged", "dropped"]
    timeout_seconds: float


WireRequest = (
    PathRequest
    | ReadRequest
    | WriteRequest
    | EditRequest
    | GrepRequest
    | GlobRequest
    | UploadRequest
    | DownloadRequest
    | ExecuteRequest
    | SnapshotRequest
    | RestoreRequest
    | OpenRequest
)


class FileHead(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file of an upload or a download.

    Attributes:
        has_content: Whether a part with its content follows, of a download.
        error: Why nothing was moved, else None.
    """

    size_bytes: int = 0
    has_content: bool = False
    error: Refusal | None = None


@frozen
class SandboxOperation:
    """A kind of operation.

    Attributes:
        changes: Whether it may change something: then a second request of its number gets the answer of the first one, and who has left is
            waited for.
    """

    request: type[WireRequest]
    result: object
    changes: bool = False


SANDBOX_OPERATIONS: Final[Mapping[str, SandboxOperation]] = MappingProxyType(
    {
        "read": SandboxOperation(ReadRequest, ReadResult),
        "write": SandboxOperation(WriteRequest, WriteResult, changes=True),
        "edit": SandboxOperation(EditRequest, EditResult, changes=True),
        "exists": SandboxOperation(PathRequest, bool),
        "list_dir": SandboxOperation(PathRequest, ListResult),
        "leads_to": SandboxOperation(PathRequest, str | None),
        "grep": SandboxOperation(GrepRequest, GrepResult),
        "glob": SandboxOperation(GlobRequest, GlobResult),
        "upload": SandboxOperation(UploadRequest, tuple[FileHead, ...], changes=True),
        "download": SandboxOperation(DownloadRequest, tuple[FileHead, ...]),
        "execute": SandboxOperation(ExecuteRequest, ExecuteResult, changes=True),
        "snapshot": SandboxOperation(SnapshotRequest, str, changes=True),
        "restore": SandboxOperation(RestoreRequest, Refusal | None, changes=True),
    }
)
"""All that can be asked, by the last part of its path."""


class StoppedOperation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a stop."""

    is_gone: bool


# --- what is said of a process


class ProcessOpened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    """It runs."""

    pid: int


class ProcessRefusal(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """It does not."""

    code: str
    message: str


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag="exited"):
    """It has ended."""

    code: int


class OutputEnd(msgspec.Struct, frozen=True, tag="output_end"):
    """It prints no more."""


class InputEnd(msgspec.Struct, frozen=True, tag="input_end"):
    """It is to read the end."""


FromProcess: TypeAlias = ProcessOpened | ProcessRefusal | Exited | OutputEnd
"""What a server says of a process, as text; what it prints comes as bytes."""


def encode_said(said: FromProcess | InputEnd) -> bytes:
    """Write what is said of a process."""
    try:
        return msgspec.json.encode(said)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(msgspec.to_builtins(said)))


# --- bytes


class UnreadableWire(ValueError):
    """What came is not what is said here; the message says what it is instead, and repeats nothing of it."""


_HALVES: Final = re.compile("[\ud800-\udfff]")


def encode_answer(facts: Facts, result: object) -> bytes:
    """Write an answer. Names that are no UTF-8 have U+FFFD where they are none."""
    answer = {"facts": facts, "result": result}
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(msgspec.to_builtins(answer)))


def _mended(value: object) -> object:
    match value:
        case str():
            return _HALVES.sub("\ufffd", value)
        case dict():
            return {key: _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value


def encode_request(request: WireRequest) -> bytes:
    """Write what is asked."""
    return msgspec.json.encode(request)


def decode_as(kind: type[T] | Any, text: bytes) -> T:
    """Read JSON of a known shape, and nothing else: what does not fit is not made."""
    try:
        read: T = decoder_of(kind).decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        where = str(error).partition("`")[2].partition("`")[0]
        message = (
            f"expected JSON of another shape{f', at {where:.80}' if where.isprintable() and where else ''}"
        )
        raise UnreadableWire(message) from None
    return read
