"""A network of messages: nodes and clients exchange messages of ASGI over memory, in virtual time, with latencies and faults.

The product's own clients use it, see `SimulatedNetwork.installed`. The address of the node `node-0` is `http://node-0`.
"""

import math
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, closing
from functools import partial
from importlib import import_module
from random import Random
from types import SimpleNamespace
from typing import Any, Final, Self, TypeAlias
from urllib.parse import unquote

import httpcore
import httpx
import trio

from agentrail import websockets
from agentrail.testing.seams import Seam, wrapped
from agentrail.testing.simulation.connections import LATENCY_SECONDS, ConnectionEnd, Connections
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.tape import Tape
from agentrail.web import client_socket
from agentrail.wire.server_frames import PROTOCOL

AsgiMessage: TypeAlias = dict[str, Any]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
Spawn: TypeAlias = Callable[..., object]
"""Starts a task of a node: `spawn(async_fn, *args)`."""

_SPLIT_RATE: Final = 0.05
_CUT: Final = "agentrail.cut"  # see `agentrail.gateway.serving.connection_cut`
_LAST: Final = ("http.response.body", "websocket.http.response.body", "websocket.close")
_FORBIDDEN: Final = 403


class SimulatedNetwork(Connections):
    """Connects clients and nodes, which serve ASGI applications."""

    def __init__(self, tape: Tape, log: LifeLog, *, latency_seconds: float = LATENCY_SECONDS) -> None:
        """Create a network for one Trio run."""
        super().__init__(tape, latency_seconds=latency_seconds)
        self._log = log
        self.splits: Random = tape.generator("network/splits")

    def serve(self, place: str, app: Any, spawn: Spawn) -> None:
        """Serve an application at a place until `leave`. `spawn` starts a task for each connection."""
        self.listen(place, lambda server: spawn(self._serve, app, server))

    async def request(
        self, place: str, method: str, path: str, headers: Headers = (), body: bytes = b"", **seconds: float
    ) -> httpcore.Response:
        """Send a request, and return its answer when the head has arrived. Close it. `seconds` are `connect` and `read`.

        Raises:
            httpcore.ConnectError, httpcore.ConnectTimeout: The place refuses connections, or does not answer.
            httpcore.ReadError, httpcore.RemoteProtocolError, httpcore.ReadTimeout: No answer came. So does reading it.
        """
        call = httpcore.Request(
            method,
            f"http://{place}{path}",
            headers=[(b"content-length", b"%d" % len(body)), *headers],
            content=body,
            extensions={"timeout": seconds},
        )
        return await self.pool().handle_async_request(call)

    @asynccontextmanager
    async def dial(
        self, place: str, path: str = "/ws", headers: Headers = (), *, within_seconds: float = 10.0
    ) -> AsyncIterator[Any]:
        """Open a WebSocket for the duration of the block. It has the members of trio-websocket's that the product uses.

        Raises:
            trio.TooSlowError: It did not open in time.
            OSError: The place refuses connections, or the connection was reset.
            ConnectionRejected: The server refused it.
        """
        call = {"type": "websocket", "scheme": "ws", "subprotocols": [PROTOCOL]}
        with closing(self.open(place)) as client:
            with trio.fail_after(within_seconds):
                try:
                    await _connected(client, math.inf)
                    self.post(client, self.head(client, path, headers, call), {"type": "websocket.connect"})
                    accepted = await _accepted(client)
                except (httpcore.NetworkError, httpcore.ProtocolError) as error:
                    raise ConnectionError(*error.args) from None
            yield _ClientSocket(client, accepted)

    def pool(self) -> httpcore.AsyncConnectionPool:
        """Return what takes the place of a pool of connections. Each request has its own connection."""
        return _Pool(self)

    def http(self, place: str, **options: Any) -> httpx.AsyncClient:
        """Return a client for a place. Options are those of `httpx.AsyncClient`."""
        transport = httpx.AsyncHTTPTransport(verify=False)
        vars(transport)["_pool"] = self.pool()  # the rest of it translates exceptions
        return httpx.AsyncClient(transport=transport, base_url=f"http://{place}", **options)

    def installed(self) -> AbstractContextManager[None]:
        """Let gateways and remote clients use this network within the block."""

        def open_websocket(
            at: client_socket.SocketTarget, _: str, headers: Headers, *, within_seconds: float
        ) -> AbstractAsyncContextManager[Any]:
            return self.dial(at.host, at.path, headers, within_seconds=within_seconds)

        def with_pool(library: Any) -> Any:
            return SimpleNamespace(**{**vars(library), "AsyncConnectionPool": lambda **_: self.pool()})

        sockets = client_socket, "open_websocket", lambda _: open_websocket
        forwarder = import_module("agentrail.gateway.forwarder")
        return wrapped([sockets, (forwarder, "httpcore", with_pool), without_certificates()])

    def post(self, source: ConnectionEnd, *messages: AsgiMessage) -> None:
        """Send messages whether there is room or not. Bodies are split now and then."""
        for message in messages:
            for piece in self._split(message):
                source.post(source.peer, piece)

    def head(self, client: ConnectionEnd, target: str, headers: Headers, more: AsgiMessage) -> AsgiMessage:
        """Return the scope of a call, which is its first message."""
        path, _, query = target.partition("?")
        given = [(name.lower(), value) for name, value in headers]
        host = [] if b"host" in dict(given) else [(b"host", client.peer.place.encode())]
        return {
            "asgi": {"version": "3.0"},
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "client": (self.address_of(client.place), 50_000),
            "server": (client.peer.place, 80),
            "extensions": {"websocket.http.response": {}},
            "headers": [*host, *given],
            **more,
        }

    def _split(self, message: AsgiMessage) -> list[AsgiMessage]:
        body = message.get("body", b"")
        if len(body) <= 1 or self.splits.random() >= _SPLIT_RATE:
            return [message]
        at = self.splits.randrange(1, len(body))
        return [{**message, "body": body[:at], "more_body": True}, {**message, "body": body[at:]}]

    # --- the server

    async def _serve(self, app: Any, server: ConnectionEnd) -> None:
        head = await server.receive()
        if head is None:
            return
        lost = {"type": f"{head['type']}.disconnect", "code": 1006}
        scope = {**head, "state": {_CUT: server.close}}
        try:
            await app(scope, partial(_receive, server, lost), partial(self._send, server))
        except Exception as error:
            self._log.note("note", f"the application raised {type(error).__name__}: {error}")
            raise
        finally:
            server.close()

    async def _send(self, server: ConnectionEnd, message: AsgiMessage) -> None:
        try:
            for piece in self._split(message):
                await server.send(piece)
        except trio.BrokenResourceError:
            return  # ignored, as by Hypercorn
        if message["type"] in _LAST and not message.get("more_body"):
            server.close()


def without_certificates() -> Seam:
    """Let gateways not read the certificates of the system, which takes longer than a short life."""
    forwarder = import_module("agentrail.gateway.forwarder")
    return forwarder, "tls_of_nodes", lambda _: lambda _: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _receive(server: ConnectionEnd, lost: AsgiMessage) -> AsgiMessage:
    message: AsgiMessage | None = await server.receive()
    return lost if message is None else message


class _ClientSocket:
    def __init__(self, client: ConnectionEnd, accepted: AsgiMessage) -> None:
        self.handshake_headers = tuple(accepted.get("headers", ()))
        self._client = client
        self._code = 1006

    async def send_message(self, message: str | bytes) -> None:
        kind = "text" if isinstance(message, str) else "bytes"
        try:
            await self._client.send({"type": "websocket.receive", kind: message})
        except trio.BrokenResourceError:
            raise self._closed() from None

    async def get_message(self) -> Any:
        message = await self._client.receive()
        if message is not None and message["type"] == "websocket.send":
            return message["bytes"] if message.get("text") is None else message["text"]
        if message is not None:
            self._code = message.get("code", 1000)
        self._client.close()
        raise self._closed()

    def _closed(self) -> Exception:
        return websockets.ConnectionClosed(websockets.CloseReason(self._code, ""))


class _Pool(httpcore.AsyncConnectionPool):
    def __init__(self, network: SimulatedNetwork) -> None:
        super().__init__()
        self._network = network

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        stream: Any = request.stream
        body = b"".join([piece async for piece in stream])
        limits = {
            key: math.inf if value is None else value
            for key, value in request.extensions.get("timeout", {}).items()
        }
        clients = [self._network.open(request.url.host.decode())]
        more = {"type": "http", "scheme": "http", "http_version": "1.1", "method": request.method.decode()}
        head = self._network.head(clients[0], request.url.target.decode(), request.headers, more)
        way = clients[0].peer.way
        try:
            await _connected(clients[0], limits.get("connect", math.inf))
            if way.repeats and request.method not in (b"GET", b"HEAD"):
                way.repeats -= 1
                clients.append(self._network.open(clients[0].peer.place))
                clients[1].is_read = False
            for client in clients:
                self._network.post(client, head, {"type": "http.request", "body": body})
            pieces = _Pieces(clients[0], limits.get("read", math.inf))
            begin = await pieces.next()
        except BaseException:
            clients[0].close()
            raise
        return httpcore.Response(begin["status"], headers=begin.get("headers"), content=pieces)


class _Pieces:
    """The body of an answer."""

    def __init__(self, client: ConnectionEnd, within_seconds: float) -> None:
        self._client, self._within_seconds, self._is_more = client, within_seconds, True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while self._is_more:
            message = await self.next()
            self._is_more = message.get("more_body", False)
            if message.get("body"):
                return bytes(message["body"])
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._client.close()
        await trio.lowlevel.checkpoint()

    async def next(self) -> AsgiMessage:
        with trio.move_on_after(self._within_seconds):
            message: AsgiMessage | None = await self._client.receive()
            if message is not None:
                return message
            error = httpcore.ReadError if self._client.end == "reset" else httpcore.RemoteProtocolError
            raise error(*_why(self._client))
        raise httpcore.ReadTimeout


def _why(client: ConnectionEnd) -> tuple[str]:
    return (f"the connection to {client.peer.place} was {client.end}",)


async def _connected(client: ConnectionEnd, within_seconds: float) -> None:
    """Wait until a connection is open."""
    with trio.move_on_after(within_seconds):
        if await client.receive() is not None:
            return
        raise httpcore.ConnectError(*_why(client))
    raise httpcore.ConnectTimeout


async def _accepted(client: ConnectionEnd) -> AsgiMessage:
    """Return the message that accepts a WebSocket, or raise the refusal."""
    pieces = _Pieces(client, math.inf)
    first = await pieces.next()
    if first["type"] == "websocket.accept":
        return first
    body = b"" if first["type"] == "websocket.close" else b"".join([piece async for piece in pieces])
    headers = tuple(first.get("headers", ()))
    raise websockets.ConnectionRejected(first.get("status", _FORBIDDEN), headers, body)
