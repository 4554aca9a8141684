"""Complete responses: a status, a body and headers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

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
