"""Result of a call: a status, a JSON value, and headers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from agentrail.gateway.error_responses import plain_headers
from agentrail.host.hook_payloads import HandledResponse
from agentrail.wire.plain import encode_plain


@frozen(kw_only=True)
class CallAnswer:
    """Result of a successful call.

    Attributes:
        body: JSON, or empty.
    """

    status: int = 200
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default=MappingProxyType({}), converter=plain_headers)


NOTHING: Final = b""


def answer_with(value: object, *, status: int = 200, **headers: str) -> CallAnswer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return CallAnswer(status=status, body=encode_plain(value), headers=named)


def answer_handled(handled: HandledResponse) -> CallAnswer:
    return CallAnswer(status=handled.status, body=encode_plain(handled.body), headers=handled.headers)
