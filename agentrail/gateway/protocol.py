"""What is spoken on one connection: HTTP/1.1 and WebSocket as Hypercorn has them, without what two readers could take for two things.

A proxy in front of us and we have to see the same requests in the same bytes, so what RFC 9112 lets a server repair is refused here: a bare
end of line, a folded header, a length beside chunks. HTTP/2 is not spoken: TLS does not offer it, and a stream of it cannot be cut alone. A
WebSocket is not compressed, since a few bytes of that become as many as one likes, and its frames are counted before they are looked at.
No route enters here, no token, and nothing of ASGI but what Hypercorn gives on.
"""

import re
from typing import Any, Final

import trio
from h11 import DONE, IDLE, Request as HttpRequest
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.events import Body, Data, Event as StreamEvent, Request, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import FrameTooLargeError, WSStream
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Message, Ping, Pong

from agentrail.host.limits import Pace, decide_draw
from agentrail.wire.server_frames import CloseCode

FRAMES: Final = Pace(500, 1.0, 500)
"""How many frames of a WebSocket are looked at: parts of messages, pings and pongs. Commands are counted by themselves, and are fewer."""

_LINGER_SECONDS: Final = 1.0
"""How long a refused WebSocket still takes what comes, and throws it away: a connection with unread bytes is reset, and takes our last word along."""

_LINGER_STEP_SECONDS: Final = 0.1
"""After how much silence it does not."""

_BARE_END: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_FOLDED: Final = re.compile(rb"\n[ \t]")
_VERSIONS: Final = (b"1.0", b"1.1")
_BAD_REQUEST: Final = 400
_OTHER_VERSION: Final = 505


def fault_of_head(head: bytes, request: HttpRequest) -> int | None:
    """Say with which status the head of a request is refused that another reader could read otherwise; None for one that is plain.

    Args:
        head: As it came, up to its empty line.
        request: What h11 made of it.
    """
    if request.http_version not in _VERSIONS:
        return _OTHER_VERSION
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        return _BAD_REQUEST
    if _BARE_END.search(head) or _FOLDED.search(head):
        return _BAD_REQUEST
    return None


def is_upgrade(request: HttpRequest) -> bool:
    """Say whether a request asks for a WebSocket."""
    given = {name: value.decode("latin-1").lower() for name, value in request.headers}
    wanted = [token.strip() for token in given.get(b"connection", "").split(",")]
    is_asked = given.get(b"upgrade", "").strip() == "websocket" and "upgrade" in wanted
    return request.method == b"GET" and is_asked


class _HeadRefused(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class StrictHttp(H11Protocol):
    """One connection of HTTP/1.1."""

    _head = b""

    async def handle(self, event: Event) -> None:
        """Take what came."""
        if isinstance(event, RawData) and self.connection.their_state is IDLE:
            self._head += event.data
        try:
            await super().handle(event)
        except _HeadRefused as refused:
            await self._send_error_response(refused.status)
            await self.send(Closed())

    async def _check_protocol(self, event: HttpRequest) -> None:
        # In front of the request, in place of a look for HTTP/2.
        behind = self.connection.trailing_data[0]
        head = self._head[: len(self._head) - len(behind)]
        self._head = b""
        status = fault_of_head(head, event)
        if status is not None:
            raise _HeadRefused(status)

    async def _create_stream(self, request: HttpRequest) -> None:
        kind: type[HTTPStream | WSStream] = StrictSocket if is_upgrade(request) else HTTPStream
        ours: Any = self  # theirs says of what type each is
        ours.stream = kind(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        if isinstance(self.stream, StrictSocket):
            ours.connection = H11WSConnection(ours.connection)
        self.keep_alive_requests += 1
        await ours.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )

    async def _maybe_recycle(self) -> None:
        if self.connection.our_state is DONE and self.connection.their_state is DONE:
            self._head = bytes(self.connection.trailing_data[0])  # the next request, as far as it has come
        await super()._maybe_recycle()


class StrictSocket(WSStream):
    """One WebSocket over HTTP/1.1."""

    def __init__(self, *given: Any) -> None:
        """Begin in front of the handshake; as of Hypercorn."""
        super().__init__(*given)
        self._full_at = float("-inf")
        self._heard_at = trio.current_time()
        self._lingering: trio.CancelScope | None = None

    async def handle(self, event: StreamEvent) -> None:
        """Take what came."""
        self._heard_at = trio.current_time()
        match event:
            case Request():
                await super().handle(event)
                self.handshake.extensions = None
                if self.closed:  # it was no handshake; Hypercorn would leave the connection open
                    await self._end()
            case Body() | Data() if not self.handshake.accepted:
                await self._refuse_early()
            case Body() | Data() if self._lingering is not None:
                pass
            case StreamClosed() if self._lingering is not None:
                self._lingering.cancel(reason="its client has left")
                await super().handle(event)
            case _:
                await super().handle(event)

    async def _refuse_early(self) -> None:
        """Refuse one who speaks before there is a WebSocket: those bytes may be what someone else was to be made to send."""
        if self.closed:
            return
        self.closed = True  # before anything is awaited: else the application accepts it meanwhile
        await self._send_error_response(_BAD_REQUEST)
        if self.app_put is not None:
            await self.app_put({"type": "websocket.disconnect", "code": 1006})
        await self._end()

    async def _handle_events(self) -> None:
        for event in self.connection.events():
            code = await self._take(event)
            if code is not None:
                await self._refuse(code)
                return

    async def _take(self, event: object) -> int | None:
        """Take one part of what came; gives the code of a WebSocket that ends with it."""
        match event:
            case Message(frame_finished=True) | Ping() | Pong() if not self._may_go_on():
                return CloseCode.FLOOD
            case Message():
                return await self._take_piece(event)
            case Ping():
                await self._send_wsproto_event(event.response())
            case CloseConnection() if self.connection.state is ConnectionState.OPEN:
                return int(event.code)  # not said by them: it broke the protocol
            case CloseConnection():
                if self.connection.state is ConnectionState.REMOTE_CLOSING:
                    await self._send_wsproto_event(event.response())
                await self._end()
            case _:
                pass
        return None

    async def _take_piece(self, piece: Message[Any]) -> int | None:
        try:
            self.buffer.extend(piece)
        except FrameTooLargeError:
            self.buffer.clear()
            return CloseCode.TOO_LARGE
        if piece.message_finished:
            assert self.app_put is not None  # noqa: S101 - it was accepted
            whole = self.buffer.to_message()
            self.buffer.clear()
            await self.app_put(whole)
        return None

    def _may_go_on(self) -> bool:
        self._full_at, draw = decide_draw(self._full_at, FRAMES, trio.current_time())
        return draw.is_allowed

    # --- the end

    async def _refuse(self, code: int) -> None:
        """Say why it ends, and look at nothing that comes behind it: Hypercorn would keep it, without a bound."""
        self._lingering = trio.CancelScope()
        await self._send_wsproto_event(CloseConnection(code=code))
        self.task_group.spawn(self._linger, self._lingering)

    async def _linger(self, scope: trio.CancelScope) -> None:
        until = trio.current_time() + _LINGER_SECONDS
        with scope:
            while trio.current_time() < min(until, self._heard_at + _LINGER_STEP_SECONDS):  # noqa: ASYNC110 - silence has no event
                await trio.sleep(_LINGER_STEP_SECONDS / 2)
        if not scope.cancelled_caught:
            await self._end()

    async def _end(self) -> None:
        await self.send(StreamClosed(stream_id=self.stream_id))
