"""Opens a client's WebSocket over a stream of our own. Trio, and trio-websocket."""

import math
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio
from attrs import frozen

from agentrail import websockets

MAX_SERVER_FRAME_BYTES: Final = 64 << 20
"""Limit of one incoming frame, in bytes: a snapshot contains whole messages."""

_QUEUED_FRAMES: Final = 16


@frozen(kw_only=True)
class SocketTarget:
    """Where a socket is opened.

    Attributes:
        named: Host and port for the header `Host`.
        path: Path of the request.
        tls: Settings of an encrypted connection, or None for a plain one.
    """

    host: str
    port: int
    named: str
    path: str
    tls: ssl.SSLContext | None


@asynccontextmanager
async def open_websocket(
    target: SocketTarget, protocol: str, headers: list[tuple[bytes, bytes]], *, within_seconds: float
) -> "AsyncIterator[websockets.WebSocketConnection]":
    """Open a client socket, and close it at the end of the block.

    Args:
        target: Where to open it.
        protocol: The subprotocol to offer.
        headers: More headers of the upgrade.
        within_seconds: Time limit for opening it.

    Raises:
        trio.TooSlowError: It did not open in time.
        OSError: The server cannot be reached.
        HandshakeError: The server refused it.
    """
    with trio.fail_after(within_seconds) as handshake:
        # Over a stream of our own, because the library leaves its stream open if the upgrade is refused.
        stream = await open_stream(target.host, target.port, target.tls)
        try:
            async with trio.open_nursery() as nursery:
                connection = await websockets.wrap_client_stream(
                    nursery,
                    stream,
                    target.named,
                    target.path,
                    subprotocols=[protocol],
                    extra_headers=headers,
                    message_queue_size=_QUEUED_FRAMES,
                    max_message_size=MAX_SERVER_FRAME_BYTES,
                )
                handshake.deadline = math.inf
                yield connection
                nursery.cancel_scope.cancel(reason="this connection is closed")
        finally:
            await trio.aclose_forcefully(stream)


async def open_stream(
    host: str, port: int, tls: ssl.SSLContext | None
) -> trio.SocketStream | trio.SSLStream[trio.SocketStream]:
    if tls is None:
        return await trio.open_tcp_stream(host, port)
    stream = await trio.open_ssl_over_tcp_stream(host, port, ssl_context=tls, https_compatible=True)
    try:
        # Explicit, because the library waits for an impossible upgrade if the certificate is not trusted.
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream
