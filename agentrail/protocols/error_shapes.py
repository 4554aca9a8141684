"""Errors in the shapes of third-party protocols, from our code and its HTTP status. Pure.

`ERROR_ANSWERS` of the gateway has the status of each code. Every wire keeps our code, so that programs can rely on it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from agentrail.messages import JsonObject

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_FOUND: Final = -32002
"""Numbers of JSON-RPC errors. The last one is the one of MCP and ACP for an unknown session or resource."""

_FAULT_OF_OURS: Final = 500
_OPENAI_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
)
_NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {"bad_json": PARSE_ERROR, "method_not_allowed": METHOD_NOT_FOUND, "route_unknown": METHOD_NOT_FOUND}
)
_NUMBERS_BY_STATUS: Final[Mapping[int, int]] = MappingProxyType(
    {400: INVALID_PARAMS, 404: NOT_FOUND, 413: INVALID_PARAMS, 422: INVALID_PARAMS}
)


def openai_error(code: str, message: str, status: int, *, param: str | None = None) -> dict[str, Any]:
    """Return an error of the OpenAI API.

    Args:
        code: Our code.
        message: Explanation for users.
        status: HTTP status of the code.
        param: Place in the request, or None.
    """
    usual = "server_error" if status >= _FAULT_OF_OURS else "invalid_request_error"
    kind = _OPENAI_TYPES.get(status, usual)
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def json_rpc_error(code: str, message: str, status: int, *, more: JsonObject | None = None) -> dict[str, Any]:
    """Return the `error` of a JSON-RPC response, with our code in its `data`.

    Args:
        code: Our code.
        message: Explanation for users.
        status: HTTP status of the code.
        more: Further details for programs.
    """
    usual = INTERNAL_ERROR if status >= _FAULT_OF_OURS else INVALID_REQUEST
    number = _NUMBERS.get(code, _NUMBERS_BY_STATUS.get(status, usual))
    return {"code": number, "message": message, "data": {**(more or {}), "code": code}}
