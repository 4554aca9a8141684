"""A network of bytes: sockets over memory, in virtual time, so that httpx, httpcore, trio-websocket and Hypercorn's protocols run unchanged.

It has the faults of `Connections`. Bytes are sent and received in chunks of any size.
"""

import errno
import socket as system
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

import httpcore
import httpx
import trio

from agentrail import outside
from agentrail.testing.seams import wrapped
from agentrail.testing.simulation.connections import CONNECTED, ConnectionEnd
from agentrail.testing.simulation.log import place_of_caller
from agentrail.testing.simulation.network import Headers, SimulatedNetwork, Spawn, without_certificates
from agentrail.web import client_socket
from agentrail.wire.server_frames import PROTOCOL

PORT: Final = 80
MAX_CHUNK_BYTES: Final = 16_384

_WHOLE_RATE: Final = 0.8
_NUMBER: Final = 1 << 20  # no file of this process has it
_CLIENT_PORT: Final = 50_000


class ByteNetwork(SimulatedNetwork, trio.abc.SocketFactory):
    """Connects clients and nodes by sockets. Each place has one port."""

    def serve(self, place: str, app: Any, spawn: Spawn) -> None:
        """Serve an application at a place with the product's server. Its lifespan has begun."""
        trio.socket.set_custom_socket_factory(self)
        serving = import_module("agentrail.gateway.serving")
        listener = SimulatedSocket(self, place)
        listener.listen(serving.USUAL_LIMITS.backlog)
        spawn(serving.serve_app, _without_lifespan(app), [trio.SocketListener(listener)], trio.sleep_forever)

    @asynccontextmanager
    async def dial(
        self, place: str, path: str = "/ws", headers: Headers = (), *, within_seconds: float = 10.0
    ) -> AsyncIterator[Any]:
        """See `SimulatedNetwork.dial`."""
        at = client_socket.SocketTarget(host=place, port=PORT, named=place, path=path, tls=None)
        opening = client_socket.open_websocket(at, PROTOCOL, [*headers], within_seconds=within_seconds)
        async with opening as connection:
            yield connection

    def pool(self) -> httpcore.AsyncConnectionPool:
        """Return a pool of connections."""
        return httpcore.AsyncConnectionPool(network_backend=httpcore.TrioBackend())

    def http(self, place: str, **options: Any) -> httpx.AsyncClient:
        """Return a client for a place. Options are those of `httpx.AsyncClient`."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.AsyncClient(base_url=f"http://{place}", verify=tls, trust_env=False, **options)

    def installed(self) -> AbstractContextManager[None]:
        """Give the libraries the clock, the chance and the names of this network within the block."""
        clock = SimpleNamespace(monotonic=trio.current_time)
        chance = SimpleNamespace(urandom=self._tape.generator("network/masks").randbytes)
        return wrapped(
            [
                without_certificates(),
                # In place of `set_custom_hostname_resolver`: Trio asks the machine about each name before that.
                (trio.socket, "getaddrinfo", lambda _: self.getaddrinfo),
                (import_module("trio._highlevel_open_tcp_stream"), "getaddrinfo", lambda _: self.getaddrinfo),
                (import_module("httpcore._async.http11"), "time", lambda _: clock),
                (import_module("hypercorn.config"), "time", lambda _: outside.wall),
                (import_module("wsproto.frame_protocol"), "os", lambda _: chance),
                (import_module("wsproto.utilities"), "os", lambda _: chance),
            ]
        )

    def socket(self, *_: Any) -> "SimulatedSocket":
        """See `trio.abc.SocketFactory`."""
        return SimulatedSocket(self, place_of_caller())

    async def getaddrinfo(self, host: str | bytes, port: int, *_: Any, **__: Any) -> list[Any]:
        """Resolve the name of a place. Every name has an address, and connections to an unknown place are refused."""
        await trio.lowlevel.checkpoint()
        place = host.decode() if isinstance(host, bytes) else host
        return [(system.AF_INET, system.SOCK_STREAM, system.IPPROTO_TCP, "", (place, port))]


def _without_lifespan(app: Any) -> Any:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for said in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{said}.complete"})

    return call


class SimulatedSocket(trio.socket.SocketType):
    """A socket of a place: one end of a connection, or a listener."""

    family: system.AddressFamily = system.AF_INET
    type: system.SocketKind = system.SOCK_STREAM
    proto: int = system.IPPROTO_TCP
    did_shutdown_SHUT_WR: bool = False  # noqa: N815 - of Trio

    def __init__(self, network: ByteNetwork, place: str, end: ConnectionEnd | None = None) -> None:
        """Create a socket of a place. `end`: its end of a connection."""
        self._network, self._place, self._end = network, place, end
        self._queue: deque[ConnectionEnd] = deque()
        self._lot = trio.lowlevel.ParkingLot()
        self._left, self._is_at_end, self._is_closed = b"", False, False

    def fileno(self) -> int:
        return -1 if self._is_closed else _NUMBER

    def getsockname(self) -> Any:
        return self._network.address_of(self._place), PORT

    def getpeername(self) -> Any:
        return self._network.address_of(self._connected().peer.place), _CLIENT_PORT

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, _level: int, option: int, *_: Any) -> Any:
        return int(option == system.SO_ACCEPTCONN and self._end is None)

    def close(self) -> None:
        self._is_closed = True
        for end in self._queue if self._end is None else [self._end]:
            end.close()
        self._lot.unpark_all()

    def listen(self, backlog: int = 0) -> None:
        self._network.listen(self._place, self._take, lambda: len(self._queue) < max(backlog, 1))

    async def accept(self) -> tuple["SimulatedSocket", Any]:
        await trio.lowlevel.checkpoint()
        while not self._queue and not self._is_closed:
            await self._lot.park()
        self._check()
        one = SimulatedSocket(self._network, self._place, self._queue.popleft())
        return one, one.getpeername()

    def _take(self, server: ConnectionEnd) -> None:
        self._queue.append(server)
        self._lot.unpark()
        if self._is_closed:
            self.close()

    async def connect(self, address: Any) -> None:
        self._check()
        self._end = self._network.open(address[0])
        if await self._end.receive() is not CONNECTED:
            error = ConnectionRefusedError if self._end.end == "refused" else ConnectionResetError
            raise error(errno.ECONNREFUSED, f"the connection was {self._end.end}")

    async def recv(self, size: int, _flags: int = 0, /) -> bytes:
        end = self._connected()
        if self._left or self._is_at_end:
            await trio.lowlevel.checkpoint()
        else:
            received = await end.receive()
            self._check()
            if received is None and end.end == "reset":
                raise ConnectionResetError(errno.ECONNRESET, "the connection was reset")
            self._left, self._is_at_end = received or b"", not received
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    async def send(self, data: Any, _flags: int = 0, /) -> int:
        end, chance = self._connected(), self._network.splits
        most = min(len(data), MAX_CHUNK_BYTES)
        size = most if chance.random() < _WHOLE_RATE else chance.randint(1, most)
        try:
            await end.send(bytes(data[:size]))
        except trio.BrokenResourceError:
            self._check()
            raise BrokenPipeError(errno.EPIPE, "the connection has ended") from None
        return size

    def shutdown(self, _flag: int) -> None:
        end = self._connected()
        if end.end is None and not self.did_shutdown_SHUT_WR:
            end.post(end.peer, b"")
        self.did_shutdown_SHUT_WR = True

    def is_readable(self) -> bool:
        end = self._connected()
        return bool(self._left or self._is_at_end or end.inbox or end.end)

    def _connected(self) -> ConnectionEnd:
        self._check()
        if self._end is None:
            raise OSError(errno.ENOTCONN, "the socket is not connected")
        return self._end

    def _check(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "the socket is closed")
