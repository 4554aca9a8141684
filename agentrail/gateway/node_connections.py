"""Connections to other nodes: HTTP/1.1, kept between calls, with the errors of httpcore.

A pool of httpcore looks at all open connections for each call, and its parser makes three events of each piece of a stream, which
took half of the time of a node that passes calls on.
"""

import os
import re
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Self, TypeAlias
from urllib.parse import urlsplit

import httpcore
import trio
from attrs import define, frozen

from agentrail.abc.store import Node
from agentrail.web import client_socket

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

CONNECT_SECONDS: Final = 2.0
"""Time limit for a connection to another node."""

IDLE_SECONDS: Final = 3.0
"""Time for which an unused connection is kept: shorter than the limit of the server, which would close it during a request."""

MAX_UNUSED: Final = 32

_READ_BYTES: Final = 64 << 10
_MAX_HEAD_BYTES: Final = 100 << 10
_MAX_LINE_BYTES: Final = 1 << 10
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: .*)?")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_NEXT_SIZE: Final = re.compile(rb"\r\n" + _SIZE.pattern)
_FINAL: Final = 200
_NO_CONTENT: Final = (204, 304)


def target_at(address: str, path: str, tls: ssl.SSLContext) -> client_socket.SocketTarget:
    """Return where a path of a node is, from the address in its row."""
    at = urlsplit(address)
    return client_socket.SocketTarget(
        host=at.hostname or "",
        port=at.port or (443 if at.scheme == "https" else 80),
        named=at.netloc,
        path=path,
        tls=tls if at.scheme == "https" else None,
    )


def encode_request(method: str, target: bytes, headers: Headers, body: bytes) -> bytes:
    """Return the bytes of a request.

    Raises:
        httpcore.LocalProtocolError: It would be read as another one: it has a line break.
    """
    lines = [b"%b %b HTTP/1.1" % (method.encode(), target), *(b"%b: %b" % pair for pair in headers)]
    head = b"\r\n".join(lines)
    if max(head.count(b"\n"), head.count(b"\r")) >= len(lines):
        raise httpcore.LocalProtocolError
    return b"%b\r\n\r\n%b" % (head, body)


def decode_head(head: bytes) -> tuple[int, Headers]:
    """Return the status and the headers of an answer.

    Raises:
        httpcore.RemoteProtocolError: It is none.
    """
    first, *lines = head.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise httpcore.RemoteProtocolError
    pairs = [line.partition(b":") for line in lines]
    return int(status[1]), [(name.lower(), value.strip()) for name, _, value in pairs]


class Body:
    """A body that arrives in pieces of any size, and is held back for no longer than a line of its framing."""

    def __init__(self, length: int | None) -> None:
        """Take apart a body of so many bytes, or a chunked one (None)."""
        self.is_over = length == 0
        self._is_chunked, self._left, self._size = length is None, length or 0, _SIZE
        self._rest = b""

    @property
    def is_at_end(self) -> bool:
        """Whether it is over, and nothing has come behind it."""
        return self.is_over and self._rest == (b"\r\n" if self._is_chunked else b"")

    def take(self, data: bytes) -> bytes:
        """Return the content of received bytes, which may be none.

        Raises:
            httpcore.RemoteProtocolError: They are malformed.
        """
        data, parts, at = self._rest + data, [], 0
        while not self.is_over:
            parts.append(data[at : at + self._left])
            at, self._left = at + len(parts[-1]), self._left - len(parts[-1])
            size = self._size.match(data, at) if self._is_chunked and not self._left else None
            if size is not None:
                at, self._left, self._size = size.end(), int(size[1], 16), _NEXT_SIZE
            elif self._left or self._is_chunked:
                break
            self.is_over = not self._left
        self._rest = data[at:]
        if not self.is_over and (len(self._rest) > _MAX_LINE_BYTES or self._rest.find(b"\n", 2) > 0):
            raise httpcore.RemoteProtocolError
        return b"".join(parts)


def body_of(method: str, status: int, headers: Headers) -> Body:
    """Return the body of an answer, before any of it has come.

    Raises:
        httpcore.RemoteProtocolError: Only the end of its connection would end it.
    """
    found = dict(headers)
    if method == "HEAD" or status in _NO_CONTENT:
        return Body(0)
    if found.get(b"transfer-encoding", b"").lower() == b"chunked":
        return Body(None)
    length = found.get(b"content-length", b"")
    if not length.isdigit():
        raise httpcore.RemoteProtocolError
    return Body(int(length))


@define(eq=False)
class _Connection:
    place: str
    stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]
    unused_at: float = 0.0

    @property
    def socket(self) -> trio.socket.SocketType:
        stream = self.stream
        return (stream.transport_stream if isinstance(stream, trio.SSLStream) else stream).socket

    async def receive(self) -> bytes:
        try:
            data = bytes(await self.stream.receive_some(_READ_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore.ReadError from error
        if not data:
            raise httpcore.RemoteProtocolError
        return data

    async def ask(self, request: bytes) -> tuple[int, Headers, bytes]:
        """Return the head of the answer, and what has come behind it."""
        if isinstance(self.stream, trio.SocketStream):  # as in `serving`: nearly always there is room
            with suppress(OSError):
                request = request[os.write(self.socket.fileno(), request) :]
        if request:
            with suppress(trio.BrokenResourceError):  # an answer may come before the whole request was read
                await self.stream.send_all(request)
        got = b""
        while True:
            head, end, rest = got.partition(b"\r\n\r\n")
            if end:
                status, headers = decode_head(head)
                if status >= _FINAL:
                    return status, headers, rest
                got = rest
            elif len(got) > _MAX_HEAD_BYTES:
                raise httpcore.RemoteProtocolError
            else:
                got += await self.receive()


class Pieces:
    """The body of an answer, in the pieces that arrive."""

    def __init__(
        self,
        connection: _Connection,
        body: Body,
        come: bytes,
        release: Callable[[_Connection], None] | None,
    ) -> None:
        self._connection, self._is_closed = connection, False
        self._body, self._come, self._release = body, come, release

    @property
    def is_over(self) -> bool:
        return self._body.is_over

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece. Cancellation: Safe."""
        while not self.is_over:
            come, self._come = self._come, b""
            piece = self._body.take(come or await self._connection.receive())
            if piece:
                return piece
        raise StopAsyncIteration

    def close(self) -> None:
        """Release its connection, which is closed unless the body was read to its end. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._release is not None and self._body.is_at_end and not self._come:
            self._release(self._connection)
        else:
            self._connection.socket.close()


@frozen
class NodeReply:
    """The answer of another node. Names of headers are in lower case."""

    status: int
    headers: Headers
    pieces: Pieces


class NodeConnections:
    """Connections of one node to all others."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self.unused: list[_Connection] = []  # in the order in which they were released
        self._max_unused = MAX_UNUSED

    async def send(self, node: Node, method: str, target: bytes, headers: Headers, body: bytes) -> NodeReply:
        """Send a request, and return its answer when the head has arrived. Close its pieces.

        Args:
            node: Where to.
            method: In capitals.
            target: Path with the query.
            headers: All of them, also the length of the body.
            body: The body.

        Raises:
            httpcore.ConnectError, httpcore.ConnectTimeout: The node has not got it.
            httpcore.NetworkError, httpcore.ProtocolError: It may have got it. So does reading the answer.

        Cancellation: Closes its connection.
        """
        request = encode_request(method, target, headers, body)
        connection = self._take(node.address) or await self._connect(node.address)
        try:
            status, answered, come = await connection.ask(request)
            left = body_of(method, status, answered)
        except BaseException:
            connection.socket.close()
            raise
        is_kept = dict(answered).get(b"connection", b"").lower() != b"close"
        return NodeReply(status, answered, Pieces(connection, left, come, self._release if is_kept else None))

    def close(self) -> None:
        """Close unused connections, and those in use after their answers."""
        self._max_unused = 0
        self._drop()

    def _take(self, place: str) -> _Connection | None:
        self._drop()
        for one in reversed(self.unused):
            if one.place == place:
                self.unused.remove(one)
                if not one.socket.is_readable():
                    return one
                one.socket.close()  # all that can come is its end
                break
        return None

    def _release(self, one: _Connection) -> None:
        one.unused_at = trio.current_time()
        self.unused.append(one)
        self._drop()

    def _drop(self) -> None:
        oldest = trio.current_time() - IDLE_SECONDS
        while self.unused and (len(self.unused) > self._max_unused or self.unused[0].unused_at <= oldest):
            self.unused.pop(0).socket.close()

    async def _connect(self, place: str) -> _Connection:
        try:
            with trio.fail_after(CONNECT_SECONDS):
                stream = await client_socket.open_stream(target_at(place, "", self._tls))
        except (OSError, trio.BrokenResourceError) as error:
            raise httpcore.ConnectError from error
        except trio.TooSlowError as error:
            raise httpcore.ConnectTimeout from error
        return _Connection(place, stream)
