"""A client for the soak: calls, streams and sockets over plain connections, each of which may end at any moment.

It shares no code with the server, and keeps no connection: a call that got no whole answer is `Lost`, and its sender does not know what
became of it.
"""

import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from attrs import define, frozen
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, connect_websocket

OK: Final = 200
CALL_SECONDS: Final = 30.0
"""How long an answer may take; a server that was killed answers by its end."""

_PIECE: Final = 65_536


class Lost(Exception):
    """A connection ended before the answer was whole."""


@frozen
class Answer:
    """What a call was answered with.

    Attributes:
        status: Of HTTP.
        body: The JSON object; empty where there is none.
    """

    status: int
    body: dict[str, Any]

    @property
    def code(self) -> str:
        """What an error is called; empty for none."""
        found: str = self.body.get("error", {}).get("code", "")
        return found


@frozen
class SseFrame:
    """A frame of a stream.

    Attributes:
        event: Its name.
        data: What it says.
        number: Of a committed event; None for others.
    """

    event: str
    data: bytes
    number: int | None


@define
class SoakClient:
    """Calls one server, which comes and goes.

    Attributes:
        port: Where.
        is_open: How many connections there are now.
    """

    port: int
    is_open: int = 0

    async def call(
        self, method: str, path: str, user: str, body: Any = None, *, seconds: float = CALL_SECONDS
    ) -> Answer:
        """Call, and wait for the whole answer.

        Raises:
            Lost: It did not come.
        """
        with trio.move_on_after(seconds):
            async with self._open(method, path, user, body, ("connection: close",)) as (stream, head, begun):
                status, headers = _read_head(head)
                length, rest = int(headers.get("content-length", "0")), begun
                while len(rest) < length:
                    rest += await _receive(stream)
                return Answer(status, json.loads(rest) if rest else {})
        raise Lost

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, user: str, body: Any = None, headers: tuple[str, ...] = ()
    ) -> AsyncIterator[tuple[Answer, "SseFrames"]]:
        """Open a stream; where it is refused, the answer says so, and there are no frames.

        Raises:
            Lost: It could not be opened. The frames raise it where they end in the middle.
        """
        async with self._open(method, path, user, body, headers) as (stream, head, begun):
            status, names = _read_head(head)
            if status == OK:
                yield Answer(status, {"request_id": names.get("x-request-id", "")}), SseFrames(stream, begun)
                return
            length, rest = int(names.get("content-length", "0")), begun
            with trio.fail_after(CALL_SECONDS):
                while len(rest) < length:
                    rest += await _receive(stream)
            yield Answer(status, json.loads(rest) if rest else {}), SseFrames(None)

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, user: str, body: Any, headers: tuple[str, ...]
    ) -> AsyncIterator[tuple[trio.SocketStream, bytes, bytes]]:
        text = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: 127.0.0.1:{self.port}",
            f"authorization: Bearer {user}",
            *headers,
            *([] if method == "GET" else ["content-type: application/json", f"content-length: {len(text)}"]),
        ]
        stream = await self._connect()
        self.is_open += 1
        try:
            with trio.fail_after(CALL_SECONDS):
                await stream.send_all("\r\n".join([*lines, "", ""]).encode() + text)
                received = b""
                while b"\r\n\r\n" not in received:
                    received += await _receive(stream)
            head, _, rest = received.partition(b"\r\n\r\n")
            yield stream, head, rest
        except (trio.BrokenResourceError, trio.TooSlowError):
            raise Lost from None
        finally:
            self.is_open -= 1
            stream.socket.close()

    async def _connect(self) -> trio.SocketStream:
        try:
            with trio.fail_after(CALL_SECONDS):
                return await trio.open_tcp_stream("127.0.0.1", self.port)
        except (OSError, trio.TooSlowError):
            raise Lost from None

    @asynccontextmanager
    async def socket(self, user: str) -> AsyncIterator[WebSocketConnection]:
        """Open a WebSocket.

        Raises:
            Lost: It could not be opened, or was closed.
        """
        self.is_open += 1
        try:
            async with trio.open_nursery() as nursery:
                with trio.fail_after(CALL_SECONDS):
                    connection = await connect_websocket(
                        nursery,
                        "127.0.0.1",
                        self.port,
                        "/ws",
                        use_ssl=False,
                        subprotocols=["agentrail.v1"],
                        extra_headers=[(b"authorization", f"Bearer {user}".encode())],
                    )
                try:
                    yield connection
                finally:
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            lost = group.subgroup((Lost, ConnectionClosed, HandshakeError, OSError, trio.TooSlowError))
            if lost is None or lost.exceptions != group.exceptions:
                raise
            raise Lost from None
        finally:
            self.is_open -= 1


def _read_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def _receive(stream: trio.SocketStream) -> bytes:
    try:
        came = await stream.receive_some(_PIECE)
    except trio.BrokenResourceError:
        raise Lost from None
    if not came:
        raise Lost
    return bytes(came)


class _Chunks:
    """Takes the chunks of a body apart, which come in pieces of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_over = False

    def feed(self, came: bytes) -> bytes:
        data, found = self._rest + came, b""
        while not self.is_over:
            size, end, behind = data.partition(b"\r\n")
            if not end:
                break
            length = int(size, 16)
            if len(behind) < length + 2:
                break
            found += behind[:length]
            data = behind[length + 2 :]
            self.is_over = length == 0
        self._rest = data
        return found


def _frame_of(text: bytes) -> SseFrame | None:
    event, number, data = "message", None, b""
    for line in text.split(b"\n"):
        name, _, value = line.partition(b": ")
        if name == b"event":
            event = value.decode()
        elif name == b"data":
            data = value
        elif name == b"id":
            number = int(value)
    return SseFrame(event, data, number) if data else None


class SseFrames:
    """The frames of a stream, one after another, to its end."""

    def __init__(self, stream: trio.SocketStream | None, rest: bytes = b"") -> None:
        """Read on behind the head; None for none."""
        self._stream = stream
        self._chunks = _Chunks()
        self._text = self._chunks.feed(rest)
        self._whole: deque[SseFrame] = deque()

    def __aiter__(self) -> "SseFrames":
        """Iterate over oneself."""
        return self

    async def __anext__(self) -> SseFrame:
        """Give the next frame.

        Raises:
            Lost: The connection ended in the middle.
        """
        while True:
            *whole, self._text = self._text.split(b"\n\n")
            self._whole.extend(frame for frame in map(_frame_of, whole) if frame is not None)
            if self._whole:
                return self._whole.popleft()
            if self._stream is None or self._chunks.is_over:
                raise StopAsyncIteration
            self._text += self._chunks.feed(await _receive(self._stream))
