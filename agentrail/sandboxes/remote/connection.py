"""Connections to the server of a remote sandbox: one exchange, or a process whose pipes share one WebSocket.

Independent of the port. A request without an answer is sent again under its number. The server carries out each change
once per number, so that a retry never repeats it.
"""

import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import httpx
import trio
from attrs import define, field, frozen

from agentrail import websockets
from agentrail.abc import Refusal, Secret
from agentrail.actors.deferred_error import ungrouped
from agentrail.sandboxes.remote.operations import (
    ANSWER_SECONDS,
    JSON_TYPE,
    MAX_SANDBOX_BODY_BYTES,
    SANDBOX_TOKEN_VARIABLE,
    WIRE_PIECE_BYTES,
    Exited,
    FromProcess,
    InputEnd,
    OpenRequest,
    ProcessOpened,
    ProcessRefusal,
    UnreadableWire,
    decode_as,
    encode_request,
    encode_said,
)
from agentrail.web.client_socket import open_stream
from agentrail.wire.sandbox_address import RemoteAddress

SANDBOX_CONNECT_SECONDS: Final = 10.0

PAUSES_SECONDS: Final = (0.05, 0.2)
"""Pauses before each retry of a request without an answer."""

CLOSED_HERE: Final = "it was closed here"

_OK: Final = 200
_SAID: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: f"it rejects the token: {SANDBOX_TOKEN_VARIABLE} must be the same on both machines",
        404: "it does not know this workspace: its server was restarted, or the workspace timed out. Its files no longer exist",
        409: "it no longer accepts this request, or not from this client",
        429: "it is at its limit of concurrent operations: try again",
        503: "it is full: try again later",
    }
)


class NoAnswer(Exception):
    def __init__(self, refusal: Refusal, *, is_lost: bool = False) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.is_lost = is_lost


@frozen(kw_only=True)
class SandboxReply:
    content_type: str
    body: bytes


def refuse_connection(address: RemoteAddress, why: str) -> NoAnswer:
    """Return a refusal about the connection: with the address, and that neither file nor command is the cause."""
    message = f"The sandbox at {address.shown} did not answer. The connection failed, not the request: {why}."
    return NoAnswer(Refusal(code="io_error", message=message))


@define(eq=False)
class Connection:
    _address: RemoteAddress
    _token: Secret
    _tls: ssl.SSLContext | None = None
    _client: httpx.AsyncClient | None = field(init=False, default=None)
    _is_closed: bool = field(init=False, default=False)

    async def send(  # noqa: PLR0913 - the request, and the time limit for its answer
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = JSON_TYPE,
        headers: Mapping[str, str] = MappingProxyType({}),
        within_seconds: float,
        again: bool = True,
    ) -> SandboxReply:
        """Send a request, and retry it without an answer.

        Cancellation: The connection is closed. Whether the request has arrived is unknown.
        """
        given = {**headers, "content-type": content_type}
        with trio.move_on_after(within_seconds):
            for pause in (*PAUSES_SECONDS, None):
                try:
                    return await self._send(method, path, body, given)
                except httpx.HTTPError as error:
                    if pause is None or not again:
                        raise refuse_connection(self._address, _reason_of(error)) from None
                    await trio.sleep(pause)
        raise refuse_connection(self._address, f"no data came within {within_seconds:g} s")

    async def _send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> SandboxReply:
        client = self._open()
        given = {**headers, "authorization": f"Bearer {self._token.reveal()}"}
        async with client.stream(method, path, content=body, headers=given) as response:
            if response.status_code != _OK:
                raise self._refused(response.status_code)
            came = bytearray()
            async for piece in response.aiter_raw():
                came += piece
                if len(came) > MAX_SANDBOX_BODY_BYTES:
                    raise refuse_connection(
                        self._address, f"it answered with more than {MAX_SANDBOX_BODY_BYTES:,} bytes"
                    )
            return SandboxReply(content_type=response.headers.get("content-type", ""), body=bytes(came))

    def _refused(self, status: int) -> NoAnswer:
        if status == 413:  # noqa: PLR2004 - Content Too Large
            message = f"It is too large for one request to the sandbox at {self._address.shown}: at most {MAX_SANDBOX_BODY_BYTES:,} bytes are allowed."
            return NoAnswer(Refusal(code="too_large", message=message))
        said = _SAID.get(status, f"it answered with the status {status}")
        refused = refuse_connection(self._address, said)
        refused.is_lost = status == 404  # noqa: PLR2004 - Not Found
        return refused

    def _open(self) -> httpx.AsyncClient:
        if self._is_closed:
            raise refuse_connection(self._address, CLOSED_HERE)
        if self._client is None:
            is_tls = self._address.url.startswith("https:")
            trusted: ssl.SSLContext | bool = (self._tls or ssl.create_default_context()) if is_tls else False
            socket = self._address.socket
            self._client = httpx.AsyncClient(
                base_url=self._address.url,
                transport=httpx.AsyncHTTPTransport(
                    verify=trusted,
                    trust_env=False,
                    uds=socket,
                ),
                headers={"accept-encoding": "identity", "user-agent": "agentrail-sandbox"},
                timeout=httpx.Timeout(None, connect=SANDBOX_CONNECT_SECONDS),
                trust_env=False,  # no proxy: it would see the token
                follow_redirects=False,  # nor a redirect to another server
            )
        return self._client

    async def aclose(self) -> None:
        self._is_closed = True  # no retry of a broken request
        if self._client is not None:
            await self._client.aclose()
            self._client = None
        await trio.lowlevel.checkpoint()


def _reason_of(error: BaseException) -> str:
    """Return why there was no answer, without control characters for a terminal."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({found.verify_message}); name its authority with SSL_CERT_FILE"
        found = found.__cause__ or found.__context__
    said = str(error)
    return f"{said:.200}" if said and said.isprintable() else "the connection broke"


# A process with open pipes, over one WebSocket.
#
# Its input and output are binary messages. All other messages are text, `wire.FromProcess` and `wire.InputEnd`. An
# ordinary request ends it, so that a full pipe cannot delay that. Uses Trio and trio-websocket.

_QUEUED: Final = 16
"""Output messages waiting to be read. At this number the process waits, as with a full pipe."""

_PAUSE_SECONDS: Final = 0.0025
"""Pause after each message: a server accepts a limited number per second, and treats more as an attack."""

_NO_PROCESS: Final = "it refuses to open a process"


@asynccontextmanager
async def dialed(
    address: RemoteAddress, path: str, headers: Sequence[tuple[bytes, bytes]], tls: ssl.SSLContext | None
) -> AsyncIterator["websockets.WebSocketConnection"]:
    """Open a WebSocket for a block.

    Cancellation: It is closed.
    """
    parts = urlsplit(address.url)
    try:
        with trio.fail_after(SANDBOX_CONNECT_SECONDS):
            stream = await _open_stream(address, tls)
    except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
        raise refuse_connection(address, f"it cannot be reached ({type(error).__name__})") from None
    try:
        with ungrouped():
            async with trio.open_nursery() as nursery:
                try:
                    with trio.fail_after(SANDBOX_CONNECT_SECONDS):
                        connection = await websockets.wrap_client_stream(
                            nursery,
                            stream,
                            parts.netloc,
                            path,
                            extra_headers=[*headers],
                            message_queue_size=_QUEUED,
                            max_message_size=2 * WIRE_PIECE_BYTES,
                        )
                except _failures(trio.TooSlowError):
                    raise refuse_connection(address, _NO_PROCESS) from None
                yield connection
                nursery.cancel_scope.cancel(reason="this process is closed")
    except websockets.HandshakeError:  # raised in a task of the library, whichever task waits for it
        raise refuse_connection(address, _NO_PROCESS) from None
    finally:
        await trio.aclose_forcefully(stream)


async def _open_stream(
    address: RemoteAddress, tls: ssl.SSLContext | None
) -> trio.SocketStream | trio.SSLStream[trio.SocketStream]:
    if address.socket is not None:
        return await trio.open_unix_socket(address.socket)
    parts = urlsplit(address.url)
    is_tls = parts.scheme == "https"
    trusted = (tls or ssl.create_default_context()) if is_tls else None
    return await open_stream(parts.hostname or "", parts.port or (443 if is_tls else 80), trusted)


@define(eq=False)
class RemoteProcess:
    _connection: "websockets.WebSocketConnection"
    pid: int
    _end: Callable[[], Awaitable[None]]
    stdin: trio.abc.SendStream = field(init=False)
    stdout: trio.abc.ReceiveStream = field(init=False)
    _came: trio.MemorySendChannel[bytes] = field(init=False)
    _is_stopped: bool = field(init=False, default=False)
    _stopping: trio.Lock = field(init=False, factory=trio.Lock)
    _has_ended: trio.Event = field(init=False, factory=trio.Event)
    _code: int = field(init=False, default=-int(signal.SIGKILL))

    def __attrs_post_init__(self) -> None:
        self.stdin = _Input(self._connection)
        self._came, pieces = trio.open_memory_channel[bytes](_QUEUED)
        self.stdout = _Output(pieces)

    async def wait(self) -> int:
        """Wait for its end, and return its exit code. A lost connection counts as `SIGKILL`, which its server then sends.

        Cancellation: Only the wait ends.
        """
        await self._has_ended.wait()
        return self._code

    async def stop(self) -> None:
        """End it and all its descendants. Idempotent.

        Cancellation: Shielded, for about four seconds at most.
        """
        with trio.CancelScope(shield=True):
            async with self._stopping:
                if not self._is_stopped:
                    self._is_stopped = True
                    await self._end()
                    self._has_ended.set()

    async def listen(self) -> None:
        try:
            with suppress(*_failures(), UnreadableWire):
                while True:
                    await self._take(await self._connection.get_message())
        finally:
            self._came.close()
            self._has_ended.set()

    async def _take(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            with suppress(trio.BrokenResourceError):  # no one reads it any more
                await self._came.send(message)
            return
        said: FromProcess = decode_as(FromProcess, message.encode())
        if isinstance(said, Exited):
            self._code = said.code
            self._has_ended.set()
        else:
            self._came.close()


class _Input(trio.abc.SendStream):
    def __init__(self, connection: "websockets.WebSocketConnection") -> None:
        self._connection = connection
        self._sending = trio.StrictFIFOLock()
        self._is_closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")
        await trio.lowlevel.checkpoint()
        async with self._sending:
            for start in range(0, len(view), WIRE_PIECE_BYTES):
                await self._send(bytes(view[start : start + WIRE_PIECE_BYTES]))

    async def wait_send_all_might_not_block(self) -> None:
        async with self._sending:
            await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        if not self._is_closed:
            with suppress(*_failures()):
                await self._send(encode_said(InputEnd()).decode())
            self._is_closed = True
        await trio.lowlevel.checkpoint()

    async def _send(self, message: str | bytes) -> None:
        if self._is_closed:
            said = "the input of this process was closed"
            raise trio.ClosedResourceError(said)
        try:
            await self._connection.send_message(message)
        except (websockets.ConnectionClosed, OSError) as error:
            raise trio.BrokenResourceError from error
        await trio.sleep(_PAUSE_SECONDS)


class _Output(trio.abc.ReceiveStream):
    def __init__(self, pieces: trio.MemoryReceiveChannel[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._held:
            await trio.lowlevel.checkpoint()
        while not self._held:
            try:
                self._held = await self._pieces.receive()
            except trio.EndOfChannel:
                return b""
        size = len(self._held) if max_bytes is None else max_bytes
        given, self._held = self._held[:size], self._held[size:]
        return given

    async def aclose(self) -> None:
        self._pieces.close()
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def holding(process: RemoteProcess) -> AsyncIterator[None]:
    """Receive from a process for the duration of a block, and stop it at the end.

    Cancellation: It is stopped first, shielded and with a time limit.
    """
    with ungrouped():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.listen)
            try:
                yield
            finally:
                await process.stop()  # noqa: ASYNC102 - shielded inside
            nursery.cancel_scope.cancel(reason="this process is closed")


def _failures(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the errors of a broken connection, and others. Called only after a failure: the classes come with an extra."""
    return (
        websockets.ConnectionClosed,
        websockets.HandshakeError,
        trio.BrokenResourceError,
        trio.ClosedResourceError,
        OSError,
        *others,
    )


async def begin_process(
    address: RemoteAddress, connection: "websockets.WebSocketConnection", request: OpenRequest
) -> ProcessOpened | ProcessRefusal:
    try:
        with trio.fail_after(ANSWER_SECONDS):
            await connection.send_message(encode_request(request).decode())
            message = await connection.get_message()
        said: FromProcess = decode_as(FromProcess, message.encode() if isinstance(message, str) else b"")
    except _failures(trio.TooSlowError, UnreadableWire):
        raise refuse_connection(address, _NO_PROCESS) from None
    if isinstance(said, ProcessOpened | ProcessRefusal):
        return said
    raise refuse_connection(address, _NO_PROCESS)
