"""A server that speaks HTTP/2 over TLS, and only that: what the provider option `http2` is tested with."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import trio
from attrs import define, field

from tests.providers.transcripts import tls


@define
class Served:
    """What the server has seen.

    Attributes:
        url: Where it listens.
        connections: How many were accepted.
        left: Set when a client closed a connection.
    """

    url: str
    connections: int = 0
    left: trio.Event = field(factory=trio.Event)


@asynccontextmanager
async def open_h2_server(pieces: Sequence[bytes], *, ends: bool = True) -> AsyncIterator[Served]:
    """Answer every request with these events, each in a frame of its own.

    Args:
        pieces: The body.
        ends: Whether the response ends; else it falls silent.
    """
    context = tls()
    context.set_alpn_protocols(["h2"])
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    served = Served(f"https://localhost:{listener.socket.getsockname()[1]}")
    async with trio.open_nursery() as nursery:
        serve = partial(_serve, served, context, pieces, ends)
        await nursery.start(partial(trio.serve_listeners, serve, [listener]))
        yield served
        nursery.cancel_scope.cancel()


async def _serve(
    served: Served,
    context: ssl.SSLContext,
    pieces: Sequence[bytes],
    ends: bool,  # noqa: FBT001 - of a handler
    plain: trio.SocketStream,
) -> None:
    served.connections += 1
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    )
    async with trio.SSLStream(plain, context, server_side=True) as stream:
        connection.initiate_connection()
        await stream.send_all(connection.data_to_send())
        while received := await _received(stream):
            try:
                events = connection.receive_data(received)
            except h2.exceptions.ProtocolError:  # whoever that is speaks something else
                return
            for event in events:
                match event:
                    case h2.events.DataReceived(flow_controlled_length=length, stream_id=stream_id):
                        connection.acknowledge_received_data(length, stream_id)
                    case h2.events.StreamEnded(stream_id=stream_id):
                        head = [(":status", "200"), ("content-type", "text/event-stream")]
                        connection.send_headers(stream_id, head)
                        for place, piece in enumerate(pieces, start=1):
                            is_last = ends and place == len(pieces)
                            connection.send_data(stream_id, piece, end_stream=is_last)
            await stream.send_all(connection.data_to_send())
        served.left.set()


async def _received(stream: trio.SSLStream[trio.SocketStream]) -> bytes:
    try:
        return bytes(await stream.receive_some())
    except trio.BrokenResourceError:
        return b""
