"""One operation: decoded from its request, run on a sandbox, and encoded as a response."""

import hashlib
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from agentrail import outside
from agentrail.abc import FileBytes, Sandbox, Transfer
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer, refuse_call
from agentrail.gateway.whole_answer import WholeAnswer
from agentrail.sandboxes.remote.multipart import (
    boundary_of,
    content_type_of,
    decode_parts,
    encode_parts,
    size_of_part,
)
from agentrail.sandboxes.remote.operations import (
    JSON_TYPE,
    MAX_FILES_AT_ONCE,
    MAX_SANDBOX_BODY_BYTES,
    SANDBOX_OPERATIONS,
    DownloadRequest,
    EditRequest,
    ExecuteRequest,
    Facts,
    FileHead,
    GlobRequest,
    GrepRequest,
    PathRequest,
    ReadRequest,
    RestoreRequest,
    SnapshotRequest,
    UnreadableWire,
    UploadRequest,
    WireRequest,
    WriteRequest,
    decode_as,
    encode_answer,
)
from agentrail.wire.sandbox_address import WIRE_CAPABILITIES

READ_IN_PLACE_BYTES: Final = 64 << 10
"""Limit for parsing in the event loop."""

_ROOM_FOR_HEADS: Final = 4 << 20
_HEAD_BYTES: Final = 16 << 10  # maximum per refused file: an escaped path in its message


@frozen(kw_only=True)
class AskedOperation:
    name: str
    request: WireRequest
    contents: tuple[bytes, ...] = ()
    digest: bytes = b""


async def read_asked(name: str, content_type: str, body: bytes) -> AskedOperation:
    try:
        if len(body) > READ_IN_PLACE_BYTES:
            return await outside.offload(decode_asked, name, content_type, body)
        return decode_asked(name, content_type, body)
    except UnreadableWire as error:
        refuse_call("bad_json", f"the body does not fit {name}: {error}")


def decode_asked(name: str, content_type: str, body: bytes) -> AskedOperation:
    kind, head = SANDBOX_OPERATIONS[name].request, body
    contents: list[bytes] = []
    boundary = boundary_of(content_type)
    if boundary is not None:
        head, contents = decode_parts(body, boundary, max_parts=MAX_FILES_AT_ONCE)
    elif content_type != JSON_TYPE:
        message = f"expected {JSON_TYPE}, or files as multipart"
        raise UnreadableWire(message)
    request: WireRequest = decode_as(kind, head)
    wanted = len(request.paths) if isinstance(request, UploadRequest) else 0
    if len(contents) != wanted or (
        isinstance(request, DownloadRequest) and len(request.paths) > MAX_FILES_AT_ONCE
    ):
        message = f"expected {wanted} files, and at most {MAX_FILES_AT_ONCE:,}"
        raise UnreadableWire(message)
    # Without the boundary, which differs each time.
    digest = hashlib.sha256(f"{name} {len(head)}\n".encode() + head)
    for content in contents:
        digest.update(content)
    return AskedOperation(name=name, request=request, contents=tuple(contents), digest=digest.digest())


def facts_of_sandbox(sandbox: Sandbox) -> Facts:
    return Facts(
        can=tuple(sorted(sandbox.capabilities & WIRE_CAPABILITIES)),
        is_unconfined=getattr(sandbox, "is_unconfined", False) is True,
    )


async def carry_out_operation(sandbox: Sandbox, asked: AskedOperation) -> WholeAnswer:
    request = asked.request
    if isinstance(request, DownloadRequest):
        return await _download(sandbox, request.paths)
    if isinstance(request, UploadRequest):
        files = [
            FileBytes(path=path, content=content)
            for path, content in zip(request.paths, asked.contents, strict=True)
        ]
        result: object = [_head_of(one) for one in await sandbox.upload(files)]
    else:
        result = await _result_of(sandbox, asked.name, request)
    body = encode_answer(facts_of_sandbox(sandbox), result)
    if len(body) > MAX_SANDBOX_BODY_BYTES:
        message = f"the answer has more than {MAX_SANDBOX_BODY_BYTES:,} bytes: ask for less of it at a time"
        raise CallRefused(ErrorAnswer(status=413, code="too_large", message=message))
    return WholeAnswer(body=body)


async def _result_of(sandbox: Sandbox, name: str, request: WireRequest) -> object:
    match request:
        case PathRequest(path=path) if name == "exists":
            return await sandbox.exists(path)
        case PathRequest(path=path) if name == "list_dir":
            return await sandbox.list_dir(path)
        case PathRequest(path=path):
            leads_to = getattr(sandbox, "leads_to", None)  # a sandbox without links does not have it
            return None if leads_to is None else await leads_to(path)
        case ReadRequest():
            return await sandbox.read(request.path, offset=request.offset, limit=request.limit)
        case WriteRequest():
            return await sandbox.write(request.path, request.content)
        case EditRequest():
            return await sandbox.edit(request.path, request.old, request.new, replace_all=request.replace_all)
        case GrepRequest():
            return await sandbox.grep(request.pattern, request.path, request.options)
        case GlobRequest():
            return await sandbox.glob(request.pattern, request.path)
        case ExecuteRequest():
            return await sandbox.execute(request.command, request.options)
        case SnapshotRequest() | RestoreRequest():
            return await _keep(sandbox, request)
        case _:  # transfers are handled elsewhere
            raise AssertionError(name)


async def _keep(sandbox: Sandbox, request: SnapshotRequest | RestoreRequest) -> object:
    keeping: object = sandbox
    snapshot, restore = (getattr(keeping, one, None) for one in ("snapshot", "restore"))
    if "snapshot" not in sandbox.capabilities or snapshot is None or restore is None:
        refuse_call("bad_json", "this sandbox keeps no snapshots")
    if isinstance(request, SnapshotRequest):
        return await snapshot()
    return await restore(request.snapshot_id)


def _head_of(moved: Transfer) -> FileHead:
    return FileHead(size_bytes=moved.size_bytes, has_content=moved.content is not None, error=moved.error)


async def _download(sandbox: Sandbox, paths: Sequence[str]) -> WholeAnswer:
    heads: list[FileHead] = []
    contents: list[bytes] = []
    size = _ROOM_FOR_HEADS
    for path in paths:
        (moved,) = await sandbox.download([path])
        size += _HEAD_BYTES if moved.content is None else size_of_part(len(moved.content))
        if size > MAX_SANDBOX_BODY_BYTES and heads:
            break
        heads.append(_head_of(moved))
        if moved.content is not None:
            contents.append(moved.content)
    boundary = outside.ids(16)
    body = encode_parts(encode_answer(facts_of_sandbox(sandbox), heads), contents, boundary)
    return WholeAnswer(body=body, content_type=content_type_of(boundary))
