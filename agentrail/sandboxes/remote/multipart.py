"""Multipart bodies (RFC 2046): the bytes of several files in one body."""

import re
from collections.abc import Sequence
from typing import Final

from agentrail.sandboxes.remote.operations import UnreadableWire

BOUNDARY: Final = re.compile(r"[0-9a-f]{32}")

_KIND: Final = "multipart/mixed; boundary="
_HEAD_KIND: Final = b"application/json"
_FILE_KIND: Final = b"application/octet-stream"
_PART: Final = re.compile(
    rb"\r\n--([0-9a-f]{32})\r\ncontent-type: (application/json|application/octet-stream)\r\n"
    rb"content-length: (0|[1-9][0-9]{0,15})\r\n\r\n"
)


def content_type_of(boundary: str) -> str:
    return f"{_KIND}{boundary}"


def boundary_of(content_type: str) -> str | None:
    """Return the boundary of a content type. None for another kind of body."""
    boundary = content_type.removeprefix(_KIND)
    return boundary if content_type.startswith(_KIND) and BOUNDARY.fullmatch(boundary) else None


def encode_parts(head: bytes, contents: Sequence[bytes], boundary: str) -> bytes:
    pieces = [*_part(_HEAD_KIND, head, boundary)]
    for content in contents:
        pieces += _part(_FILE_KIND, content, boundary)
    pieces.append(f"\r\n--{boundary}--\r\n".encode())
    return b"".join(pieces)


def _part(kind: bytes, content: bytes, boundary: str) -> tuple[bytes, bytes]:
    lines = b"\r\n--%s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
    return lines % (boundary.encode(), kind, len(content)), content


def size_of_part(content_bytes: int) -> int:
    return content_bytes + len(_part(_FILE_KIND, b"", "0" * 32)[0]) + 16


def decode_parts(body: bytes, boundary: str, *, max_parts: int) -> tuple[bytes, list[bytes]]:
    parts: list[bytes] = []
    end, at, mark = f"\r\n--{boundary}--\r\n".encode(), 0, boundary.encode()
    while body[at : at + len(end)] != end:
        found = _PART.match(body, at)
        wanted = _FILE_KIND if parts else _HEAD_KIND
        if found is None or found[1] != mark or found[2] != wanted:
            message = f"expected a part or the end of the body at byte {at}"
            raise UnreadableWire(message)
        begin, at = found.end(), found.end() + int(found[3])
        if at > len(body) or len(parts) > max_parts:
            message = f"a part ends after the body, or there are more than {max_parts}"
            raise UnreadableWire(message)
        parts.append(body[begin:at])
    if not parts or at + len(end) != len(body):
        message = "expected a head, and no data after the end"
        raise UnreadableWire(message)
    return parts[0], parts[1:]
