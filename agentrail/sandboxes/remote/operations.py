"""Operations of a remote sandbox, with their arguments and answers, as encoded by client and server."""

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

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
from agentrail.core.wire.normalize import mended
from agentrail.structs import SafeNumber, decoder_of

T = TypeVar("T")

MAX_SANDBOX_BODY_BYTES: Final = 64 << 20
"""Maximum size of one request or answer, including contents of files."""

WIRE_PIECE_BYTES: Final = 1 << 16
"""Maximum size of one message of process input or output."""

MAX_FILES_AT_ONCE: Final = 10_000
"""Maximum number of files in one upload or download."""

LEASE_SECONDS: Final = 30.0
"""How long a server keeps the files of a silent client."""

BEAT_SECONDS: Final = 10.0
"""Interval at which a client renews its lease."""

STOP_SECONDS: Final = 3.0
"""Time limit for a stop. Remaining processes end with the lease."""

SPARE_SECONDS: Final = 5.0
"""How much longer than the time limit of a command its client waits for the answer."""

ANSWER_SECONDS: Final = 60.0
"""Time limit for the answer to anything except a command."""

SANDBOX_PORT: Final = 8710

SANDBOX_TOKEN_VARIABLE: Final = "AGENTRAIL_SANDBOX_TOKEN"  # noqa: S105 - the name of a variable
"""Variable in which both sides look for the token."""

TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,4000}=*")
TOKEN_WORDS: Final = "at least 16 of A-Z a-z 0-9 . _ ~ + / -"  # noqa: S105 - describes tokens

SETTLED_HEADER: Final = "agentrail-settled"
"""The lowest operation number that the client still waits for. Operations with a lower number that arrive later are not run."""

JSON_TYPE: Final = "application/json"

MAX_NUMBER: Final = 2**53
"""Maximum of an operation number, a line, a count. Larger ones have the same meaning."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    can: tuple[str, ...] = ()
    is_unconfined: bool = False


class WireAnswer(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """An answer: the server's description, and the outcome of the operation."""

    facts: Facts
    result: T


# --- requests


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class PathRequest(_Request, frozen=True):
    path: str


class ReadRequest(_Request, frozen=True):
    path: str
    offset: int = 1
    limit: int | None = None


class WriteRequest(_Request, frozen=True):
    path: str
    content: str


class EditRequest(_Request, frozen=True):
    path: str
    old: str
    new: str
    replace_all: bool = False


class GrepRequest(_Request, frozen=True):
    pattern: str
    path: str
    options: GrepOptions


class GlobRequest(_Request, frozen=True):
    pattern: str
    path: str


class UploadRequest(_Request, frozen=True):
    """The head of an `upload`. The contents are the parts after it."""

    paths: tuple[str, ...]


class DownloadRequest(_Request, frozen=True):
    paths: tuple[str, ...]


class ExecuteRequest(_Request, frozen=True):
    command: str
    options: ExecuteOptions


class SnapshotRequest(_Request, frozen=True):
    """`snapshot`."""


class RestoreRequest(_Request, frozen=True):
    snapshot_id: str


class OpenRequest(_Request, frozen=True):
    """`open_process`, as the first message of its WebSocket."""

    argv: tuple[str, ...]
    workdir: str
    env: dict[str, str]
    errors: Literal["merged", "dropped"]
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0)]


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
    """The outcome of one file of an upload or a download.

    Attributes:
        error: Why the file was not transferred, otherwise None.
    """

    size_bytes: SafeNumber = 0
    has_content: bool = False
    error: Refusal | None = None


@frozen
class SandboxOperation:
    """A kind of operation.

    Attributes:
        changes: Whether it may change files. Then a second request with its number gets the answer of the first, and it is
            awaited even if its client has left.
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
"""All operations, by the last part of their path."""


class StoppedOperation(msgspec.Struct, frozen=True, kw_only=True):
    is_gone: bool


# --- messages of a process


class ProcessOpened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    pid: int


class ProcessRefusal(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    code: str
    message: str


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag="exited"):
    code: int


class OutputEnd(msgspec.Struct, frozen=True, tag="output_end"):
    """End of its output."""


class InputEnd(msgspec.Struct, frozen=True, tag="input_end"):
    """End of its input."""


FromProcess: TypeAlias = ProcessOpened | ProcessRefusal | Exited | OutputEnd
"""Text messages of a server about a process. Its output is sent as bytes."""


def encode_said(said: FromProcess | InputEnd | Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(said)
    except UnicodeEncodeError:
        return msgspec.json.encode(mended(msgspec.to_builtins(said), partial(_HALVES.sub, "\ufffd")))


# --- bytes


class UnreadableWire(ValueError):
    """The bytes do not follow this protocol. The message describes the fault without quoting the content."""


_HALVES: Final = re.compile("[\ud800-\udfff]")


def encode_answer(facts: Facts, result: object) -> bytes:
    """Encode an answer. Bytes of a name that are not UTF-8 become U+FFFD."""
    return encode_said({"facts": facts, "result": result})


def encode_request(request: WireRequest) -> bytes:
    return msgspec.json.encode(request)


def decode_as(kind: type[T] | Any, text: bytes) -> T:
    try:
        read: T = decoder_of(kind).decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        where = str(error).partition(" - at `")[2].rstrip("`")
        message = f"expected JSON with a different shape{f', at {where:.80}' if where.isprintable() and where else ''}"
        raise UnreadableWire(message) from None
    return read
