"""`/mcp` for MCP clients: a profile is a tool. The library speaks the protocol, after the checks of every route."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from agentrail.gateway.error_responses import ErrorAnswer, refuse_call
from agentrail.gateway.path_endpoint import CallAim, CallRoute, Gateway, OwnStream, RouteCall
from agentrail.gateway.request_bodies import McpBody
from agentrail.host.host import Host
from agentrail.protocols.error_shapes import json_rpc_error
from agentrail.protocols.mcp_server import CONNECTION_HEADER, read_session_uri
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

    service = McpService(gateway, await read_state_key(host.supervisor), node=host.supervisor.shared_node)
    async with service.run():
        gateway.mcp = service
        try:
            yield
        finally:
            gateway.mcp = None


async def _pass_on(call: RouteCall) -> OwnStream:  # noqa: RUF029 - the handler of a route, which is awaited
    if call.gateway.mcp is None:
        refuse_call("not_started", "MCP is not served yet, or no longer")
    names_session = _session_of(call, _plain_of(call)) is not None
    return OwnStream(partial(call.gateway.mcp.answer, names_session=names_session))


def _operation_of(body: McpBody) -> str:
    """Return what a message is charged as. A stop is free."""
    return {"tools/call": "chat", "notifications/cancelled": "cancel"}.get(
        str(body.plain.get("method")), "call"
    )


def _aim(call: RouteCall) -> CallAim:
    plain = _plain_of(call)
    node = call.head.headers.get(CONNECTION_HEADER, "").rpartition(".")[0] or None
    client_id = call.client_id if plain.get("method") == "tools/call" else None
    return CallAim(_session_of(call, plain), client_id, node)


def _plain_of(call: RouteCall) -> Any:
    return {} if call.body is None else call.body.plain


def _session_of(call: RouteCall, plain: Any) -> str | None:
    match plain:
        case {"params": {"requestState": str(sealed)}} if call.gateway.mcp is not None:
            found: str | None = call.gateway.mcp.session_of_state(sealed)
            return found
        case {"method": "tools/call", "params": {"arguments": {"session_id": str(session_id)}}}:
            return session_id
        case {"method": "resources/read", "params": {"uri": str(uri)}} | {
            "method": "subscriptions/listen",
            "params": {"notifications": {"resourceSubscriptions": [str(uri), *_]}},
        } if (named := read_session_uri(uri)) is not None:
            return named[0]
    return None


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
    _route("DELETE", "ends a session of the older revision", aim=_aim),
)
