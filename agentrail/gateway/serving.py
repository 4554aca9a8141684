"""Serves an ASGI application over TCP: Hypercorn's protocols with our own accept loop. Each connection fails alone."""

import re
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import trio
from attrs import define, field, frozen
from h11 import DONE, IDLE, MUST_CLOSE, NEED_DATA, SEND_BODY, SERVER, Connection, Request as HttpRequest
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.events import Body, Data, Event as StreamEvent, Request, Response, StreamClosed
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import FrameTooLargeError, WSStream
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import MAX_RECV, TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr
from wsproto.connection import ConnectionState as SocketState
from wsproto.events import CloseConnection, Message, Ping, Pong

from agentrail.actors.deferred_error import Kept
from agentrail.config.key_filter import shown_address
from agentrail.errors import OptionError
from agentrail.file_systems import fault_of_reading
from agentrail.gateway.followed_files import SettledContent, follow_file
from agentrail.gateway.request_parser import LINGER_STEP_SECONDS, AsgiApp, linger
from agentrail.host.quotas import Pace, decide_draw
from agentrail.logs import Logger
from agentrail.otp.exits import keep
from agentrail.otp.field_rules import CheckedFields, Count, Pause, TimeLimit
from agentrail.private_paths import keep_private
from agentrail.runtime.crashes import log_crash, raise_what_travels
from agentrail.wire.server_frames import CloseCode

# Protocol of a connection: HTTP/1.1 and WebSocket as in Hypercorn, without input that two parsers could read
# differently.

FRAMES: Final = Pace(500, 1.0, 500)
"""Rate limit on WebSocket frames: parts of messages, pings and pongs. Commands have their own, lower limit."""

_BARE_END: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_FOLDED: Final = re.compile(rb"\n[ \t]")
_VERSIONS: Final = (b"1.0", b"1.1")
_BAD_REQUEST: Final = 400
_OTHER_VERSION: Final = 505


def fault_of_head(head: bytes, request: HttpRequest) -> int | None:
    """Return the status that refuses an ambiguous request head, or None for an unambiguous one.

    Args:
        head: Raw head, up to its empty line.
        request: The head as parsed by h11.
    """
    if request.http_version not in _VERSIONS:
        return _OTHER_VERSION
    names = dict(request.headers)
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        return _BAD_REQUEST
    if _BARE_END.search(head) or _FOLDED.search(head):
        return _BAD_REQUEST
    return None


def is_upgrade(request: HttpRequest) -> bool:
    """Return whether a request asks for a WebSocket."""
    given = {name: value.decode("latin-1").lower() for name, value in request.headers}
    wanted = [token.strip() for token in given.get(b"connection", "").split(",")]
    is_asked = given.get(b"upgrade", "").strip() == "websocket" and "upgrade" in wanted
    return request.method == b"GET" and is_asked


class _HeadRefused(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class _LastRequestCounts(Connection):
    """Leaves input after the last request of a connection unread. h11 refuses it, and the request would have no response."""

    def next_event(self) -> Any:
        return NEED_DATA if self.their_state is MUST_CLOSE else super().next_event()


class StrictHttp(H11Protocol):
    """One connection of HTTP/1.1."""

    _head = b""
    _heard_at = 0.0
    _is_answered = False
    _taking = trio.CancelScope()

    async def handle(self, event: Event) -> None:
        """Handle received data. What follows the last request, or belongs to one that is answered already, is discarded."""
        self._heard_at, taking = trio.current_time(), trio.CancelScope()
        if isinstance(event, RawData):
            if self._is_answered or self.connection.their_state is MUST_CLOSE:
                return
            self._taking = taking
            self._head += event.data if self.connection.their_state is IDLE else b""
        try:
            with taking:
                await super().handle(event)
        except _HeadRefused as refused:
            await self._send_error_response(refused.status)
            await self.send(Closed())

    async def _check_protocol(self, event: HttpRequest) -> None:
        # Before the request, in place of the check for HTTP/2.
        behind = self.connection.trailing_data[0]
        head = self._head[: len(self._head) - len(behind)]
        self._head = b""
        status = fault_of_head(head, event)
        if status is not None:
            raise _HeadRefused(status)

    async def _create_stream(self, request: HttpRequest) -> None:
        kind: type[HTTPStream | WSStream] = StrictSocket if is_upgrade(request) else HTTPStream
        ours: Any = self  # Hypercorn's types are narrower
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

    async def stream_send(self, event: StreamEvent) -> None:
        """Send a part of an answer. One that does not wait for the body of its request announces the end of the connection."""
        if isinstance(event, Response):
            with trio.move_on_after(LINGER_STEP_SECONDS):  # most bodies come right after their head
                while self.connection.their_state is SEND_BODY:  # noqa: ASYNC110 - h11 has no event
                    await trio.sleep(0.002)
            if self.connection.their_state is SEND_BODY:
                event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        await super().stream_send(event)

    async def _maybe_recycle(self) -> None:
        if self.connection.their_state is SEND_BODY and self.stream is not None:
            self._is_answered, self._heard_at = True, trio.current_time()
            self._taking.cancel(reason="the application has answered, and reads no more")
            self.stream.app_put = None  # full perhaps, and no one takes from it
            await linger(lambda: self._heard_at)
        if self.connection.our_state is DONE and self.connection.their_state is DONE:
            self._head = bytes(self.connection.trailing_data[0])  # the beginning of the next request
        await super()._maybe_recycle()


class StrictSocket(WSStream):
    """One WebSocket over HTTP/1.1."""

    def __init__(self, *given: Any) -> None:
        """Create the stream before the handshake, like Hypercorn."""
        super().__init__(*given)
        self._full_at = float("-inf")
        self._heard_at = trio.current_time()
        self._lingering: trio.CancelScope | None = None

    async def handle(self, event: StreamEvent) -> None:
        """Handle received data."""
        self._heard_at = trio.current_time()
        match event:
            case Request():
                await super().handle(event)
                self.handshake.extensions = None
                if self.closed:  # not a handshake; Hypercorn would leave the connection open
                    await self._end()
            case Body() | Data() if not self.handshake.accepted:
                await self._refuse_early()
            case Body() | Data() if self._lingering is not None:
                pass
            case StreamClosed() if self._lingering is not None:
                self._lingering.cancel(reason="its client has disconnected")
                await super().handle(event)
            case _:
                await super().handle(event)

    async def _refuse_early(self) -> None:
        if self.closed:
            return
        self.closed = True  # before any await: otherwise the application may accept it meanwhile
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
        match event:
            case Message(frame_finished=True) | Ping() | Pong() if not self._may_go_on():
                return CloseCode.FLOOD
            case Message():
                return await self._take_piece(event)
            case Ping():
                await self._send_wsproto_event(event.response())
            case CloseConnection() if self.connection.state is SocketState.OPEN:
                return int(event.code)  # not sent by the client: it broke the protocol
            case CloseConnection():
                if self.connection.state is SocketState.REMOTE_CLOSING:
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
        """Send the close code, and ignore later input, which Hypercorn would store without a limit."""
        self._lingering = trio.CancelScope()
        await self._send_wsproto_event(CloseConnection(code=code))
        self.task_group.spawn(self._linger, self._lingering)

    async def _linger(self, scope: trio.CancelScope) -> None:
        with scope:
            await linger(lambda: self._heard_at)
        if not scope.cancelled_caught:
            await self._end()

    async def _end(self) -> None:
        await self.send(StreamClosed(stream_id=self.stream_id))


LOGGER: Final = Logger("agentrail.gateway")

MAX_SOCKET_MESSAGE_BYTES: Final = 1 << 20
"""Limit on a WebSocket message; a larger one closes it with 1009."""

_MAX_PORT: Final = 65_535
_CUT: Final = "agentrail.cut"
_TELL_EVERY_SECONDS: Final = 60.0


@frozen(kw_only=True)
class ConnectionLimits(CheckedFields):
    """Limits on connections.

    Attributes:
        max_connections: Limit on open connections. One more is closed at once.
        backlog: Connections that the system queues before they are accepted.
        idle_seconds: Time limit for a connection without a call, and for receiving the headers of a call.
        handshake_seconds: Time limit for the TLS handshake.
        grace_seconds: Time limit for calls to finish when the server stops, before they are cancelled.
        cut_seconds: Time limit for a cancelled connection before it is cut.
        write_seconds: Time limit for the smallest write. After that the connection is cut, because its client
            does not read.
        slowest_bytes_per_second: Minimum speed for the rest of a larger write, and of each 64 KB of it.
    """

    max_connections: Count = 10_000
    backlog: Count = 1_024
    idle_seconds: TimeLimit = 5.0
    handshake_seconds: TimeLimit = 10.0
    grace_seconds: Pause = 3.0
    cut_seconds: Pause = 1.0
    write_seconds: TimeLimit = 30.0
    slowest_bytes_per_second: Count = 4 << 10


USUAL_LIMITS: Final = ConnectionLimits()


async def open_listeners(
    host: str, port: int, *, backlog: int = USUAL_LIMITS.backlog, flags: str = "--port or --host"
) -> list[trio.SocketListener]:
    """Listen on an address.

    Args:
        host: A name or an address.
        port: Port, or 0 for a free one.
        backlog: Connections that the system queues before they are accepted.
        flags: Flags that change the address, for messages.

    Raises:
        OptionError: The operator's move: the port is in use, the address does not belong to this machine, or
            permission is denied.
    """
    if not 0 <= port <= _MAX_PORT:  # the system would use the port modulo 65,536
        raise OptionError(
            [f"--port {port} is not a port: expected 0 to {_MAX_PORT}, where 0 picks a free one"]
        )
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=backlog)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or f"{error}"
        message = f"cannot listen on {shown_address(show_address(host, port))}: {why}; give another {flags}"
        raise OptionError([message]) from None


def tls_context(certfile: Path | None, keyfile: Path | None) -> ssl.SSLContext | None:
    """Load a certificate and its key, for TLS 1.2 and later. None without them. Blocks.

    Raises:
        OptionError: The operator's move: one cannot be read, or they do not belong together.
    """
    return None if certfile is None or keyfile is None else _load_certificate(certfile, keyfile)


def _load_certificate(certfile: Path, keyfile: Path) -> ssl.SSLContext:
    keep_private(keyfile)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    try:
        if fault := fault_of_reading(certfile) or fault_of_reading(keyfile):
            raise ValueError(fault)  # noqa: TRY301 - told with those of the files
        # Otherwise a password would be requested at the terminal, which may not exist.
        context.load_cert_chain(certfile, keyfile, password=lambda: b"")
    except (OSError, ValueError) as error:  # `ssl.SSLError` is an `OSError`
        why = getattr(error, "strerror", None) or f"{error}"
        raise OptionError(
            [f"the certificate {f'{certfile}'!r} and the key {f'{keyfile}'!r} cannot be used: {why}"]
        ) from None
    return context


class _TlsFiles:
    """A certificate and its key. A renewed one applies to connections that begin afterwards, an invalid one changes nothing.

    Attributes:
        context: TLS context of a server, for all connections.
        can_be_followed: Whether both are files. A pipe that a shell opened, as for `<(…)`, is empty when it is read again.
    """

    def __init__(self, certfile: Path, keyfile: Path) -> None:
        """Read them. Blocks.

        Raises:
            OptionError: The operator's move: see `tls_context`.
        """
        self._files = certfile, keyfile
        self.can_be_followed: bool = certfile.is_file() and keyfile.is_file()
        self._content = SettledContent(self._read)
        self.context: ssl.SSLContext = _load_certificate(certfile, keyfile)
        self._newest = self.context
        # Called at each handshake. The certificate of a context in use is not replaced, since handshakes read it.
        self.context.sni_callback = self._use_newest

    def _use_newest(self, connection: ssl.SSLObject, *_: object) -> None:
        connection.context = self._newest

    def look(self) -> bool:
        was_taken, found = self._content.was_taken, self._content.news()
        if found is None:
            return False
        try:
            self._newest = _load_certificate(*self._files)
        except OptionError as error:
            why = f"{error}"
        else:
            if was_taken:
                LOGGER.info("the certificate %s was reloaded", self._files[0])
            return True
        LOGGER.error("the certificate read before stays in use: %s", why)
        return False

    def _read(self) -> bytes:
        # A file that is left out here is reported when they are loaded.
        try:
            return b"\0".join([one.read_bytes() for one in self._files if fault_of_reading(one) is None])
        except OSError as error:
            raise OptionError([f"{error}"]) from None


@asynccontextmanager
async def followed_tls(certfile: Path | None, keyfile: Path | None) -> AsyncIterator[ssl.SSLContext | None]:
    """Give the TLS context of a server, and follow its files within the block. None without them.

    Raises:
        OptionError: The operator's move: see `tls_context`. All that the block raises.
    """
    if certfile is None or keyfile is None:
        yield None
        return
    files = _TlsFiles(certfile, keyfile)
    failure = Kept()  # a nursery would wrap what the block raises
    async with trio.open_nursery() as nursery:
        if files.can_be_followed:
            nursery.start_soon(follow_file, files)
        with failure:
            yield files.context
        nursery.cancel_scope.shield = True  # a cancellation from outside would hide the error of the block
        nursery.cancel_scope.cancel(reason="the server has ended")
    failure.release()


def show_address(host: str, port: int) -> str:
    """Return an address as written in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def addresses_of(listeners: Sequence[trio.SocketListener]) -> list[tuple[str, int]]:
    """Return host and port of each listener."""
    names = (listener.socket.getsockname() for listener in listeners)
    return [(name[0], name[1]) for name in names]


def connection_cut(scope: Mapping[str, Any]) -> Callable[[], None] | None:
    """Return a function that closes the connection of a call at once. None if another server serves the application.

    A writer that waits for a client that does not read ignores cancellation. This wakes it. Can be called
    repeatedly and from any task.
    """
    return cast("Callable[[], None] | None", scope.get("state", {}).get(_CUT))


async def serve_app(  # noqa: PLR0913 - the application, its address and its end
    app: AsgiApp,
    listeners: list[trio.SocketListener],
    stop: Callable[[], Awaitable[object]],
    *,
    tls: ssl.SSLContext | None = None,
    limits: ConnectionLimits = USUAL_LIMITS,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an application until it is told to stop.

    Its lifespan starts before the first call and ends after the last one. When `stop` returns, no more
    connections are accepted, those without a call are closed, and calls have `grace_seconds` to finish before
    they are cancelled. Streams that need a final event must therefore be ended in `stop`.

    Args:
        app: The application.
        listeners: Listening sockets. They are closed at the end.
        stop: Returns when it is time to stop, and False if calls have no time to finish.
        tls: TLS context, or None for plain TCP.
        limits: Limits on connections.
        task_status: Started when calls are answered.

    Raises:
        BaseException: The exception of the application's lifespan or of `stop`, the same object. Either ends the server.

    Cancellation: Connections are cancelled and cut, and the lifespan is cancelled; both have ended when it
        raises.
    """
    lifespan = _Lifespan(app)
    server = _Server(app, limits, tls, lifespan.state, _config_of(limits))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifespan.run, nursery.cancel_scope)
        try:
            await lifespan.is_begun.wait()
            if lifespan.failure is None:
                await server.serve(listeners, stop, task_status)
            await lifespan.end()
        finally:
            for listener in listeners:
                await trio.aclose_forcefully(listener)
    if lifespan.failure is not None:
        raise lifespan.failure
    server.failure.release()


@define(eq=False)
class _Lifespan:
    """The ASGI lifespan of an application, in its own task."""

    app: AsgiApp
    state: dict[str, Any] = field(factory=dict)
    is_begun: trio.Event = field(factory=trio.Event)
    failure: BaseException | None = None
    _is_over: trio.Event = field(factory=trio.Event)
    _to_end: trio.Event = field(factory=trio.Event)
    _was_told: bool = False

    async def run(self, all_of_it: trio.CancelScope) -> None:
        scope = {"type": "lifespan", "asgi": {"spec_version": "2.0", "version": "3.0"}, "state": self.state}
        try:
            await self.app(scope, self._receive, self._send)
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - an edge; cancellation is raised again
            raise_what_travels(raised)
            self.failure = raised
            all_of_it.cancel(reason="the application failed")  # running calls would only fail as well
        finally:
            self.is_begun.set()
            self._is_over.set()

    async def end(self) -> None:
        self._to_end.set()
        await self._is_over.wait()

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._was_told:
            self._was_told = True
            return {"type": "lifespan.startup"}
        await self._to_end.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        match message["type"]:
            case "lifespan.startup.complete":
                self.is_begun.set()
            case "lifespan.startup.failed" | "lifespan.shutdown.failed":
                # Most applications then raise the cause, which says more.
                self.failure = RuntimeError(f"the application failed: {message['type']}")
            case _:
                pass


@define(eq=False)
class _Server:
    """The connections of one application."""

    _app: AsgiApp
    _limits: ConnectionLimits
    _tls: ssl.SSLContext | None
    _state: Mapping[str, Any]
    _config: Config
    failure: Kept = field(init=False, factory=Kept)
    _context: WorkerContext = field(init=False, factory=partial(WorkerContext, None))
    _open: dict[trio.SocketStream, None] = field(init=False, factory=dict)
    _failed: int = field(init=False, default=0)
    _told_at: float = field(init=False, default=float("-inf"))

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        stop: Callable[[], Awaitable[object]],
        task_status: trio.TaskStatus[None],
    ) -> None:
        grace = self._limits.grace_seconds
        async with trio.open_nursery() as cutting:
            cutting.start_soon(self._cut_when_cancelled)
            async with trio.open_nursery() as connections:
                async with trio.open_nursery() as accepting:
                    serve = partial(
                        trio.serve_listeners, self._serve_one, listeners, handler_nursery=connections
                    )
                    await accepting.start(serve)
                    task_status.started()
                    with self.failure:  # raised when the lifespan has ended too
                        grace = 0.0 if await stop() is False else grace
                    accepting.cancel_scope.cancel(reason="the server stops")
                await self._context.terminated.set()
                connections.cancel_scope.deadline = trio.current_time() + grace
                cutting.start_soon(self._cut_at, connections.cancel_scope.deadline + self._limits.cut_seconds)
            cutting.cancel_scope.cancel(reason="no connection is left")

    async def _cut_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            # The writes of a connection are shielded: cancelling the server must not wait for a client that
            # does not read.
            with trio.CancelScope(shield=True):
                await self._cut_at(trio.current_time() + self._limits.cut_seconds if self._open else 0.0)  # noqa: ASYNC102 - bounded

    async def _cut_at(self, at: float) -> None:
        await trio.sleep_until(at)
        for stream in list(self._open):
            stream.socket.close()

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        if len(self._open) >= self._limits.max_connections:
            await trio.aclose_forcefully(stream)
            return
        self._open[stream] = None
        speaks = (
            stream
            if self._tls is None
            else trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
        )
        state: Any = {**self._state, _CUT: stream.socket.close}
        try:
            await _Connection(
                self._call, self._config, self._context, state, speaks, limits=self._limits
            ).run()
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - an edge; cancellation is raised again
            raise_what_travels(raised)
            self._tell_failure(raised)
        finally:
            self._open.pop(stream)
            stream.socket.close()

    async def _call(self, scope: Any, receive: Any, send: Any, *_: object) -> None:
        await self._app(scope, receive, send)

    def _tell_failure(self, error: BaseException) -> None:
        """Log a failed connection, without received data. Not each one, because strangers cause them."""
        self._failed += 1
        if trio.current_time() - self._told_at >= _TELL_EVERY_SECONDS:
            self._told_at = trio.current_time()
            LOGGER.warning(
                "a connection was closed because its client broke the protocol (%s); %d so far",
                _names_of(error),
                self._failed,
            )


class _Connection(TCPServer):
    """One connection over `protocol`. Unlike Hypercorn's, it ends as soon as its client has disconnected."""

    def __init__(self, *given: Any, limits: ConnectionLimits) -> None:
        super().__init__(*given)
        self._limits = limits

    async def run(self) -> None:
        try:
            is_tls = await self._shake_hands()
            if is_tls is None:
                return
            socket = self.stream.transport_stream.socket if is_tls else cast("Any", self.stream).socket
            async with TaskGroup() as tasks:
                self._task_group = tasks
                client, server = (
                    parse_socket_addr(socket.family, name)
                    for name in (socket.getpeername(), socket.getsockname())
                )
                state = ConnectionState(self.state)
                protocol: Any = StrictHttp(
                    self.app,
                    self.config,
                    self.context,
                    tasks,
                    state,
                    is_tls,
                    client,
                    server,
                    self.protocol_send,
                )
                protocol.connection = _LastRequestCounts(SERVER, self.config.h11_max_incomplete_size)
                self.protocol = protocol
                await self.idle_task.restart(tasks, self._idle_timeout)
                await self._read_data()
        except OSError:
            pass  # the client has left
        finally:
            with trio.move_on_after(self._limits.cut_seconds, shield=True) as closing:
                await self._close()
            if closing.cancelled_caught:
                await trio.aclose_forcefully(self.stream)  # noqa: ASYNC102 - it does not block
            with suppress(AttributeError):  # without a handshake there is none
                del self.protocol  # each refers to the other: a cycle, which only the collector would free

    async def _shake_hands(self) -> bool | None:
        stream: object = self.stream
        if not isinstance(stream, trio.SSLStream):
            return False
        try:
            with trio.fail_after(self._limits.handshake_seconds):
                await stream.do_handshake()
        except (trio.BrokenResourceError, trio.TooSlowError):
            return None
        return True

    async def protocol_send(self, event: Event) -> None:
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        async with self.send_lock:
            # Shielded, because half a response is worse than a slow end. Bounded, because every write to a
            # client goes through here, including small responses to one that sends many requests and reads
            # nothing. Each 64 KB has its own limit, because that of a whole large response would be half an hour.
            slowest, began = self._limits.slowest_bytes_per_second, trio.current_time()
            scope = trio.CancelScope(shield=True)
            with scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                for start in range(0, len(event.data), MAX_RECV):
                    due = min(began + len(event.data) / slowest, trio.current_time() + MAX_RECV / slowest)
                    scope.deadline = due + self._limits.write_seconds
                    await self.stream.send_all(event.data[start : start + MAX_RECV])
                return
        if scope.cancelled_caught:
            await trio.aclose_forcefully(self.stream)
        await self.protocol.handle(Closed())

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


def _names_of(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return type(error).__name__


def _config_of(limits: ConnectionLimits) -> Config:
    config = Config()
    config.accesslog = config.errorlog = None
    config.logger_class = cast("Any", _HypercornLog)
    config.include_server_header = False
    config.keep_alive_timeout = limits.idle_seconds
    config.ssl_handshake_timeout = limits.handshake_seconds
    config.websocket_max_message_size = MAX_SOCKET_MESSAGE_BYTES
    return config


class _HypercornLog:
    def __init__(self, config: Config) -> None:
        pass

    async def access(self, *_: object) -> None:
        pass

    async def exception(self, message: str, *_: object, **__: object) -> None:
        error = sys.exception()
        if error is not None:
            log_crash(
                "the application raised an exception instead of answering: please report it", error, keep
            )
