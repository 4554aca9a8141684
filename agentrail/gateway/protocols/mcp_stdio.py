"""MCP over lines: one client, as the user of this process. Needs the extra `mcp`."""

import anyio
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Misfit
from agentrail.gateway.authorization import ANYONE_HERE, CallHead
from agentrail.gateway.error_responses import error_answer
from agentrail.gateway.path_endpoint import Gateway, RouteCall
from agentrail.gateway.protocols.mcp_routes import encode_mcp_error
from agentrail.gateway.protocols.mcp_service import McpService, discard, read_state_key
from agentrail.gateway.stdio.line_stream import LineStream
from agentrail.host.host import Host
from agentrail.wire.byte_lines import LineTooLong


async def serve_mcp_lines(gateway: Gateway, host: Host, stream: LineStream) -> None:
    """Serve one client until its input ends. Its running calls are cancelled then."""
    head = CallHead(method="POST", path="/mcp")
    call = RouteCall(
        gateway=gateway, head=head, receive=trio.sleep_forever, send=discard, principal=ANYONE_HERE, via="mcp"
    )
    service = McpService(gateway, await read_state_key(host.supervisor), call)
    to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_receive, stream, to_server)
        nursery.start_soon(_send, stream, from_server)
        await service.server.run(read, write, service.server.create_initialization_options())


async def _receive(stream: LineStream, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    async with to_server:
        try:
            async for line in stream.lines():
                try:
                    read_json(line)  # otherwise the last of two values of a key would count
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except (Misfit, ValidationError):
                    refused = error_answer("bad_json", "the line is not a message of JSON-RPC")
                    await stream.send(encode_mcp_error(refused))
                else:
                    await to_server.send(SessionMessage(message))
        except LineTooLong as error:
            await stream.send(encode_mcp_error(error_answer("too_large", str(error))))
            stream.lose("it sent a line that is too long")


async def _send(stream: LineStream, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with from_server:
        async for one in from_server:
            await stream.send(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
