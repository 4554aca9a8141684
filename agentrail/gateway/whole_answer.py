"""Complete responses: a status, a body and headers. Only here do headers become bytes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from agentrail.gateway.request_parser import AsgiSend
from agentrail.wire.plain import encode_plain

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@frozen(kw_only=True)
class WholeAnswer:
    """A complete response. Header names are in lower case."""

    body: bytes = field(default=b"", repr=False)
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = _NO_HEADERS


def answer_json(value: object, status: int = 200, headers: Mapping[str, str] = _NO_HEADERS) -> WholeAnswer:
    """Return a JSON response with a value. Bytes must be JSON already."""
    body = value if isinstance(value, bytes) else encode_plain(value)
    return WholeAnswer(body=body, status=status, headers=headers)


def header_pairs(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers in the form of ASGI. A question mark replaces what a value cannot carry."""
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]


def start_of(status: int, headers: Mapping[str, str], kind: str = "http.response") -> dict[str, Any]:
    """Return the first message of a response."""
    return {"type": f"{kind}.start", "status": status, "headers": header_pairs(headers)}


async def send_whole(send: AsgiSend, answer: WholeAnswer, kind: str = "http.response") -> None:
    """Send a response. Its headers and those of its body are all that it has."""
    headers = answer.headers
    if answer.body:
        size = f"{len(answer.body)}"
        headers = {"content-type": answer.content_type, **headers, "content-length": size}
    await send(start_of(answer.status, headers, kind))
    await send({"type": f"{kind}.body", "body": answer.body})
