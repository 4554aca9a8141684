r"""`open_server`: an HTTP server on a free port that answers with the very bytes that a test wants.

It can cut an answer at any byte, send it in pieces of any size, or stay silent in the middle, and says when its client
has gone. No wire format enters this file.

    async with open_server(stream(b"data: 1\n\n", b"data: 2\n\n", stays=True)) as server:
        ...  # ask server.url
        await server.wait_deserted()
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import define, field, frozen

from agentrail.otp.exits import leaves


@frozen(kw_only=True)
class ServedReply:
    """What one request gets.

    Attributes:
        pieces: Sent one after the other, each by its own write.
        stays: Whether the connection then stays open until the client closes it.
        pause_seconds: Before each piece but the first.
    """

    pieces: tuple[bytes, ...]
    stays: bool = False
    pause_seconds: float = 0.0


@define
class Served:
    """What a server has seen.

    Attributes:
        url: Where it listens.
        requests: Head and body of each request, oldest first.
        connections: How many were accepted.
        left: Set when a client closed a connection on which a reply stayed open.
        replied: Set when a whole reply was written.
    """

    url: str
    requests: list[tuple[bytes, bytes]] = field(factory=list)
    connections: int = 0
    left: trio.Event = field(factory=trio.Event)
    replied: trio.Event = field(factory=trio.Event)
    _open: int = field(default=0, init=False)
    _deserted: trio.Event = field(factory=trio.Event, init=False)

    def headers(self, number: int = -1) -> dict[str, str]:
        """Read the headers of a request."""
        lines = self.requests[number][0].decode("ascii").split("\r\n")[1:]
        return {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}

    async def wait_deserted(self) -> None:
        """Wait until no connection is open; at once when none is.

        Cancellation: Nothing is lost; ask again.
        """
        if self._open:
            await self._deserted.wait()
        else:
            await trio.lowlevel.checkpoint()

    def _enter(self) -> None:
        self.connections += 1
        self._open += 1

    def _leave(self) -> None:
        self._open -= 1
        if not self._open:
            self._deserted.set()
            self._deserted = trio.Event()


def reply(
    body: str | bytes, *, status: str = "200 OK", kind: str = "text/event-stream", **headers: str
) -> ServedReply:
    """Make a whole reply with a length, after which the connection can be used again."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return ServedReply(pieces=("\r\n".join(lines).encode() + b"\r\n\r\n" + content,), stays=True)


def stream(*pieces: bytes, chunked: bool = True, ends: bool = False, stays: bool = False) -> ServedReply:
    """Make a stream of events, in chunks or until the connection closes; `ends` says so properly."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    if not chunked:
        return ServedReply(pieces=(head + b"connection: close\r\n\r\n", *pieces), stays=stays)
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece]
    tail = [b"0\r\n\r\n"] if ends else []
    return ServedReply(pieces=(head + b"transfer-encoding: chunked\r\n\r\n", *chunks, *tail), stays=stays)


@asynccontextmanager
async def open_server(*replies: ServedReply, tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    """Serve on a free port; the n-th request gets the n-th reply, later ones the last.

    Args:
        replies: At least one.
        tls: Speak HTTPS, with this certificate.

    Yields:
        What it sees.

    Raises:
        BaseException: What the body raised, as itself.

    Cancellation: Closes every connection.
    """
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    served = Served(url=f"http{'s' if tls else ''}://127.0.0.1:{port}")
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(
                partial(trio.serve_listeners, partial(_serve, served, replies, tls), [listener])
            )
            yield served
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The nursery wraps what the body raised, and a test that expects it would look for the group.
        if len(found := leaves(group)) == 1:
            raise found[0] from found[0].__cause__
        raise


async def _serve(
    served: Served, replies: tuple[ServedReply, ...], tls: ssl.SSLContext | None, plain: trio.SocketStream
) -> None:
    served._enter()  # noqa: SLF001 - what it has seen is read by everybody and written here alone
    connection: trio.abc.Stream = trio.SSLStream(plain, tls, server_side=True) if tls else plain
    try:
        async with connection:
            while await _answer(served, replies, connection):
                pass
    except trio.BrokenResourceError:
        served.left.set()
    finally:
        served._leave()  # noqa: SLF001 - as above


async def _answer(served: Served, replies: tuple[ServedReply, ...], connection: trio.abc.Stream) -> bool:
    """Answer one request; tell whether there may be another on this connection."""
    data = head = body = b""
    missing = 1
    while missing > 0:
        received = await connection.receive_some()
        if not received:
            served.left.set()
            return False
        data += received
        head, end, body = data.partition(b"\r\n\r\n")
        missing = _length(head) - len(body) if end else 1
    chosen = replies[min(len(served.requests), len(replies) - 1)]
    served.requests.append((head, body))
    for place, piece in enumerate(chosen.pieces):
        if place and chosen.pause_seconds:
            await trio.sleep(chosen.pause_seconds)
        await connection.send_all(piece)
    served.replied.set()
    return chosen.stays


def _length(head: bytes) -> int:
    lengths = (line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(next(lengths, b"0"))
