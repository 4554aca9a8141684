"""A network of messages: nodes and clients exchange ASGI messages over memory, in virtual time, with latencies and faults.

The product's own clients use it, see `Network.installed`. The address of the node `node-0` is `http://node-0`.
"""

import math
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final, Self, TypeAlias
from urllib.parse import unquote

import httpcore
import httpx
import trio

from agentrail import websockets
from agentrail.testing.seams import wrapped
from agentrail.testing.simulation.connections import WINDOW, Connections, Endpoint
from agentrail.testing.simulation.log import Log, place_of_caller
from agentrail.testing.simulation.tape import Tape
from agentrail.web import client_socket
from agentrail.wire.server_frames import PROTOCOL

Message: TypeAlias = dict[str, Any]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
Spawn: TypeAlias = Callable[..., object]
"""Starts a task of a node: `spawn(async_fn, *args)`."""

_SPLIT_RATE: Final = 0.05
_CUT: Final = "agentrail.cut"  # see `agentrail.gateway.serving.connection_cut`
_LAST: Final = ("http.response.body", "websocket.http.response.body", "websocket.close")
_REFUSED: Final = 403


class ClientSocket:
    """A client's WebSocket, with the members of `WebSocketConnection` that the product uses.

    Attributes:
        handshake_headers: Headers of the server's answer.
    """

    def __init__(self, client: Endpoint, handshake_headers: Headers) -> None:
        """Called by `Network.dial`."""
        self.handshake_headers: tuple[tuple[bytes, bytes], ...] = tuple(handshake_headers)
        self._client = client
        self._code = 1006

    async def send_message(self, message: str | bytes) -> None:
        """Send a message. Raises `ConnectionClosed`."""
        kind = "text" if isinstance(message, str) else "bytes"
        try:
            await self._client.send({"type": "websocket.receive", kind: message})
        except trio.BrokenResourceError:
            raise self._closed() from None

    async def get_message(self) -> Any:
        """Return the next message, `str` or `bytes`. Raises `ConnectionClosed`."""
        message = await self._client.receive()
        if message is not None and message["type"] == "websocket.send":
            return message["bytes"] if message.get("text") is None else message["text"]
        if message is not None:
            self._code = message.get("code", 1000)
        self._client.close()
        raise self._closed()

    def _closed(self) -> Exception:
        return websockets.ConnectionClosed(websockets.CloseReason(self._code, ""))


class Answer(httpx.AsyncByteStream):
    """The pieces of an answer. Close it.

    Attributes:
        status: Its status.
        headers: Its headers.
    """

    def __init__(self, client: Endpoint, head: Message, read_seconds: float) -> None:
        """Called by `Network.request`."""
        self.status: int = head["status"]
        self.headers: list[tuple[bytes, bytes]] = list(head.get("headers", ()))
        self._client, self._read_seconds, self._is_more = client, read_seconds, True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece.

        Raises:
            httpcore.RemoteProtocolError, httpcore.ReadError: The connection ended, or was reset, in the middle.
            httpcore.ReadTimeout: No piece came in time.
        """
        while self._is_more:
            message = await _next_of(self._client, self._read_seconds)
            self._is_more = message.get("more_body", False)
            if message.get("body"):
                return bytes(message["body"])
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the connection."""
        self._client.close()
        await trio.lowlevel.checkpoint()


async def _next_of(client: Endpoint, within_seconds: float) -> Message:
    with trio.move_on_after(within_seconds):
        message: Message | None = await client.receive()
        if message is not None:
            return message
        message_of_error = f"the connection was {client.end} before the answer was complete"
        raise (httpcore.ReadError if client.end == "reset" else httpcore.RemoteProtocolError)(
            message_of_error
        )
    raise httpcore.ReadTimeout


async def _connected(client: Endpoint, within_seconds: float) -> None:
    with trio.move_on_after(within_seconds):
        if await client.receive() is None:
            message = f"the connection was {client.end}"
            raise httpcore.ConnectError(message)
        return
    raise httpcore.ConnectTimeout


class _Pool(httpcore.AsyncConnectionPool):
    """Takes the place of `httpcore.AsyncConnectionPool`. Each request has its own connection."""

    def __init__(self, network: "Network") -> None:
        super().__init__()
        self._network = network

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        stream: Any = request.stream
        body = b"".join([piece async for piece in stream])
        limits = {name: value for name, value in request.extensions.get("timeout", {}).items() if value}
        answer = await self._network.request(
            request.url.host.decode(),
            request.method.decode(),
            request.url.target.decode(),
            request.headers,
            body,
            connect_seconds=limits.get("connect", math.inf),
            read_seconds=limits.get("read", math.inf),
        )
        return httpcore.Response(answer.status, headers=answer.headers, content=answer)


class Network(Connections):
    """A network on which nodes serve ASGI applications."""

    def __init__(self, tape: Tape, log: Log) -> None:
        """Create a network for one Trio run."""
        super().__init__(tape)
        self._log = log
        self._split = tape.generator("network/split")
        self._addresses: dict[str, str] = {}

    def serve(self, place: str, app: Any, spawn: Spawn) -> None:
        """Serve an application at a place until `leave`. `spawn` starts a task for each connection."""
        self.listen(place, lambda server: spawn(self._serve, app, server))

    async def request(  # noqa: PLR0913 - a request of HTTP
        self,
        place: str,
        method: str,
        path: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        connect_seconds: float = math.inf,
        read_seconds: float = math.inf,
    ) -> Answer:
        """Send a request, and return its answer when the head has arrived.

        Raises:
            httpcore.ConnectError, httpcore.ConnectTimeout: The place refuses connections, or does not answer.
            httpcore.ReadError, httpcore.RemoteProtocolError, httpcore.ReadTimeout: No answer came.
        """
        call = [
            self._head(place, "http", path, headers, method=method, http_version="1.1"),
            *self._pieces({"type": "http.request", "body": body}),
        ]
        client = self.open(place)
        try:
            await _connected(client, connect_seconds)
            way = client.peer.way
            if way.repeats and method not in ("GET", "HEAD"):
                way.repeats -= 1
                twin = self.open(place)
                twin.is_read = False
                self._post_all(twin.peer, call)
            self._post_all(client.peer, call)
            return Answer(client, await _next_of(client, read_seconds), read_seconds)
        except BaseException:
            client.close()
            raise

    @asynccontextmanager
    async def dial(
        self, place: str, path: str = "/ws", headers: Headers = (), *, within_seconds: float = 10.0
    ) -> AsyncIterator[ClientSocket]:
        """Open a WebSocket for the duration of the block. The server is not told why it ends.

        Raises:
            trio.TooSlowError: It did not open in time.
            OSError: The place refuses connections, or the connection was reset.
            ConnectionRejected: The server refused it.
        """
        head = self._head(place, "websocket", path, headers, subprotocols=[PROTOCOL])
        client = self.open(place)
        try:
            with trio.fail_after(within_seconds):
                try:
                    await _connected(client, math.inf)
                    self._post_all(client.peer, [head, {"type": "websocket.connect"}])
                    accepted = await _accepted(client)
                except (httpcore.NetworkError, httpcore.ProtocolError) as error:
                    raise ConnectionError(*error.args) from None
            yield ClientSocket(client, accepted.get("headers", ()))
        finally:
            client.close()

    def pool(self) -> httpcore.AsyncConnectionPool:
        return _Pool(self)

    def http(self, place: str, **options: Any) -> httpx.AsyncClient:
        """Return a client for a place. Options are those of `httpx.AsyncClient`."""
        transport = httpx.AsyncHTTPTransport(verify=False)
        vars(transport)["_pool"] = self.pool()  # the rest of it translates exceptions
        return httpx.AsyncClient(transport=transport, base_url=f"http://{place}", **options)

    def installed(self) -> AbstractContextManager[None]:
        """Let gateways and remote clients use this network within the block."""

        @asynccontextmanager
        async def open_websocket(
            at: client_socket.SocketTarget, _: str, headers: Headers, *, within_seconds: float
        ) -> AsyncIterator[ClientSocket]:
            more = [(b"host", at.named.encode()), *headers]
            async with self.dial(at.host, at.path, more, within_seconds=within_seconds) as socket:
                yield socket

        def with_pool(library: Any) -> Any:
            return SimpleNamespace(**{**vars(library), "AsyncConnectionPool": lambda **_: self.pool()})

        forwarder = import_module("agentrail.gateway.forwarder")
        return wrapped(
            [
                (client_socket, "open_websocket", lambda _: open_websocket),
                (forwarder, "httpcore", with_pool),
                # Without the certificates of the system, which take longer to read than a short life.
                (forwarder, "_tls_of_nodes", lambda _: lambda _: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)),
            ]
        )

    # --- the server

    async def _serve(self, app: Any, server: Endpoint) -> None:
        head = await server.receive()
        if head is None:
            return
        state = {**head["scope"], "state": {_CUT: server.close}}
        try:
            await app(state, partial(self._receive, server, head["lost"]), partial(self._send, server))
        except Exception as error:
            self._log.note("note", f"the application raised {type(error).__name__}: {error}")
            raise
        finally:
            server.close()

    async def _receive(self, server: Endpoint, lost: Message) -> Message:
        message: Message | None = await server.receive()
        return lost if message is None else message

    async def _send(self, server: Endpoint, message: Message) -> None:
        try:
            for piece in self._pieces(message):
                await server.send(piece)
        except trio.BrokenResourceError:
            return  # as Hypercorn does
        if message["type"] in _LAST and not message.get("more_body"):
            server.close()

    # --- messages

    def is_collected(self, messages: Sequence[Any], size_bytes: int) -> bool:
        """Return whether all of them are pieces of an answer that continues, with less than so many bytes."""
        pieces = [one.get("body", b"") for one in messages if isinstance(one, dict) and one.get("more_body")]
        return len(messages) == len(pieces) < WINDOW and sum(map(len, pieces)) < size_bytes

    def _pieces(self, message: Message) -> list[Message]:
        body = message.get("body", b"")
        if len(body) <= 1 or self._split.random() >= _SPLIT_RATE:
            return [message]
        at = self._split.randrange(1, len(body))
        return [{**message, "body": body[:at], "more_body": True}, {**message, "body": body[at:]}]

    def _post_all(self, to: Endpoint, messages: Iterable[Message]) -> None:
        for message in messages:
            to.post(to, message)

    def _head(self, place: str, kind: str, path: str, headers: Headers, **more: Any) -> Message:
        given = [(name.lower(), value) for name, value in headers]
        if b"host" not in dict(given):
            given.append((b"host", place.encode()))
        here, _, query = path.partition("?")
        caller = place_of_caller()
        number = len(self._addresses) + 1
        address = self._addresses.setdefault(caller, f"127.0.{number >> 8}.{number & 255}")
        scope = {
            "type": kind,
            "asgi": {"version": "3.0"},
            "scheme": "http" if kind == "http" else "ws",
            "path": unquote(here),
            "raw_path": here.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": given,
            "client": (address, 50_000),
            "server": (place, 80),
            "extensions": {"websocket.http.response": {}},
            **more,
        }
        lost = (
            {"type": "http.disconnect"} if kind == "http" else {"type": "websocket.disconnect", "code": 1006}
        )
        return {"type": "network.head", "scope": scope, "lost": lost}


async def _accepted(client: Endpoint) -> Message:
    """Return the message that accepts a WebSocket, or raise the refusal."""
    first = await _next_of(client, math.inf)
    if first["type"] == "websocket.accept":
        return first
    status, body, is_more = first.get("status", _REFUSED), b"", first["type"] != "websocket.close"
    while is_more:
        piece = await _next_of(client, math.inf)
        body, is_more = body + piece.get("body", b""), piece.get("more_body", False)
    raise websockets.ConnectionRejected(status, tuple(first.get("headers", ())), body)
