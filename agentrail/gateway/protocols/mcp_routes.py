"""`/mcp` for MCP clients: a profile is a tool. The library speaks the protocol, after the checks of every route."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from agentrail.gateway.error_responses import ErrorAnswer, refuse_call
from agentrail.gateway.path_endpoint import CallAim, CallRoute, Gateway, OwnStream, RouteCall
from agentrail.gateway.request_bodies import McpBody
from agentrail.host.host import Host
from agentrail.protocols.error_shapes import json_rpc_error
from agentrail.protocols.mcp_server import read_session_uri
from agentrail.wire.plain import encode_plain


def encode_mcp_error(answer: ErrorAnswer) -> bytes:
    more = {**answer.more, "hint": answer.hint}
    error = json_rpc_error(answer.code, answer.message, answer.status, more=more)
    return encode_plain({"jsonrpc": "2.0", "id": None, "error": error})


@asynccontextmanager
async def open_mcp(gateway: Gateway, host: Host, *, is_served: bool) -> AsyncIterator[None]:
    """Serve MCP for the duration of the block. The library is imported only here, because that takes half a second."""
    if not is_served:
        yield
        return
    from agentrail.gateway.protocols.mcp_service import McpService, read_state_key  # noqa: PLC0415 - see above

    service = McpService(gateway, await read_state_key(host.supervisor))
    async with service.manager.run():
        gateway.mcp = service
        try:
            yield
        finally:
            gateway.mcp = None


async def _pass_on(call: RouteCall) -> OwnStream:  # noqa: RUF029 - the handler of a route, which is awaited
    if call.gateway.mcp is None:
        refuse_call("not_started", "MCP is not served yet, or no longer")
    return OwnStream(write=call.gateway.mcp.answer)


def _operation_of(body: McpBody) -> str:
    """Return what a message is charged as. A stop is free."""
    return {"tools/call": "chat", "notifications/cancelled": "cancel"}.get(
        str(body.plain.get("method")), "call"
    )


def _aim(call: RouteCall) -> CallAim:
    plain: Any = {} if call.body is None else call.body.plain
    params = plain.get("params")
    if not isinstance(params, dict):
        return CallAim()
    match plain.get("method"), params:
        case "tools/call", _:
            arguments = params.get("arguments")
            session_id = arguments.get("session_id") if isinstance(arguments, dict) else None
            named = session_id if isinstance(session_id, str) else None
            return CallAim(named, call.head.headers.get("idempotency-key"))
        case "resources/read", {"uri": str(uri)} if (found := read_session_uri(uri)) is not None:
            return CallAim(found[0])
    return CallAim()


def _route(method: str, does: str, **more: Any) -> CallRoute:
    return CallRoute(
        method, "/mcp", _pass_on, does=does, encode_error=encode_mcp_error, is_described=False, **more
    )


MCP_ROUTES: Final = (
    _route(
        "POST",
        "takes a message of an MCP client",
        body=McpBody,
        aim=_aim,
        operation_of=_operation_of,
        is_stream=True,
    ),
    _route("DELETE", "ends a session of the older revision"),
)
