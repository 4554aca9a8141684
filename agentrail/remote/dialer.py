"""Opens one connection to a server, and interprets a failure or a close. Trio, and trio-websocket."""

import itertools
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
import trio
from attrs import field, frozen

from agentrail import outside, websockets
from agentrail.errors import AgentrailError, OptionError, RemoteRefused, Unauthorized, Unreachable
from agentrail.otp.guarded_calls import leaves
from agentrail.remote.error_codes import CLASS_OF_CODE, Told, error_of_reply, stated_object
from agentrail.remote.frame_codec import LinkTerms, decode_server_frame, hello_frame, ping_frame, terms_in
from agentrail.web import client_socket
from agentrail.wire.server_frames import PROTOCOL, CloseCode

# Delays between attempts. Pure.

FIRST_SECONDS: Final = 0.25
MOST_SECONDS: Final = 10.0

STEADY_SECONDS: Final = 5.0
"""Minimum duration of a connection, in seconds, for the next attempt to count as the first again."""

_MOST_DOUBLINGS: Final = 16


def reconnect_seconds(attempt: int, jitter: float, *, asked: float | None = None) -> float:
    doubled = FIRST_SECONDS * float(1 << min(attempt, _MOST_DOUBLINGS))
    delay = min(doubled, MOST_SECONDS) * (0.5 + jitter / 2)
    return delay if asked is None else max(delay, min(max(asked, 0.0), 60.0))


HANDSHAKE_SECONDS: Final = 10.0
"""Time limit for opening a connection, and for its welcome, in seconds, if the attempt before it was in time."""

MOST_HANDSHAKE_SECONDS: Final = 60.0


def handshake_seconds(too_slow: int) -> float:
    """Return the time limit of an attempt, from the number of attempts right before it that took too long.

    It doubles, like the deadlines of gRPC's clients. Otherwise a server with more clients than it can admit in ten
    seconds admits none, because each has left before its turn, and comes again.
    """
    return min(HANDSHAKE_SECONDS * float(1 << min(too_slow, _MOST_DOUBLINGS)), MOST_HANDSHAKE_SECONDS)


Dial: TypeAlias = Callable[[float], AbstractAsyncContextManager["websockets.WebSocketConnection"]]
"""Opens a connection within a number of seconds, and closes it at the end of the block."""

Serve: TypeAlias = Callable[["websockets.WebSocketConnection", LinkTerms, trio.Nursery], Awaitable[None]]
"""Reads and writes a connection that the server has welcomed, until it ends."""

_PERMANENT: Final = frozenset({CloseCode.MALFORMED, CloseCode.TOO_LARGE, CloseCode.UNAUTHORIZED})
_RETRIED_STATUSES: Final = frozenset({408, 425, 429})
_SERVER_FAULT: Final = 500
_UNAUTHORIZED: Final = 401


@frozen(kw_only=True)
class ServerAddress:
    host: str
    port: int
    path: str
    is_secure: bool

    @property
    def named(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.named}"


def address_of(url: object) -> ServerAddress:
    fault = "url is invalid: expected an address such as 'https://agents.example' or 'http://127.0.0.1:8700/agents'"
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        port = parts.port
        (parts.hostname or "").encode("idna")  # as the resolver does, which accepts no empty label
    except ValueError:
        raise OptionError([fault]) from None
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
        raise OptionError([fault])
    if parts.username is not None or parts.query or parts.fragment:
        fault = "url has a user, a query or a fragment: give only the address, and the token as `token`"
        raise OptionError([fault])
    is_secure = parts.scheme in ("https", "wss")
    return ServerAddress(
        host=parts.hostname,
        port=port or (443 if is_secure else 80),
        path=f"{parts.path.rstrip('/')}/ws",
        is_secure=is_secure,
    )


def dial_for(address: ServerAddress, token: str | None, tls: ssl.SSLContext | None = None) -> Dial:
    websockets.need_websockets("a session on a server")
    if token is not None:
        headers = [(b"authorization", f"Bearer {token}".encode())]
    else:  # a server without tokens accepts only its own pages, as a defence against foreign ones
        headers = [(b"origin", address.origin.encode())]

    def dial(within_seconds: float) -> AbstractAsyncContextManager["websockets.WebSocketConnection"]:
        target = client_socket.SocketTarget(
            host=address.host,
            port=address.port,
            named=address.named,
            path=address.path,
            tls=(tls or ssl.create_default_context()) if address.is_secure else None,
        )
        return client_socket.open_websocket(target, PROTOCOL, headers, within_seconds=within_seconds)

    return dial


# --- meaning of an end


@frozen(kw_only=True)
class AfterEnd:
    """Consequence of a connection's end.

    Attributes:
        fault: Error for every caller, because a retry would be useless, or None to retry.
        wait_seconds: Delay that the server asks for, in seconds, or None.
    """

    fault: AgentrailError | None = field(default=None)
    wait_seconds: float | None = None


async def keep_connected(
    dial: Dial,
    heartbeat_seconds: float,
    serve: Serve,
    welcomed_at: Callable[[], float | None],
    take_end: Callable[[BaseException | None, AgentrailError | None], None],
) -> None:
    """Serve one connection after the other. `take_end` gets each end, and the error that makes it the last one, or None."""
    attempt = too_slow = 0
    while True:
        ended = await _serve_connection(dial, handshake_seconds(too_slow), heartbeat_seconds, serve)
        began = welcomed_at()
        too_slow = too_slow + 1 if began is None and isinstance(ended, trio.TooSlowError) else 0
        if began is not None and trio.current_time() - began >= STEADY_SECONDS:
            attempt = 0
        verdict = decide_after(ended)
        take_end(ended, verdict.fault)
        if verdict.fault is not None:
            return
        delay = reconnect_seconds(attempt, outside.jitter(), asked=verdict.wait_seconds)
        attempt += 1
        await trio.sleep(delay)


async def _serve_connection(
    dial: Dial, within_seconds: float, heartbeat_seconds: float, serve: Serve
) -> BaseException | None:
    """Open a connection, serve it, and return why it ended: preferably its close, which explains the others."""
    ended: list[BaseException] = []
    try:
        async with dial(within_seconds) as connection, trio.open_nursery() as nursery:
            with trio.fail_after(within_seconds):
                terms = await _welcomed_terms(connection, heartbeat_seconds)
            await serve(connection, terms, nursery)
    except* (OSError, trio.TooSlowError, trio.BrokenResourceError, AgentrailError) as group:
        ended += leaves(group)
    except* (
        websockets.ConnectionClosed,
        websockets.HandshakeError,
        websockets.LocalProtocolError,
    ) as group:
        ended = [*leaves(group), *ended]
    explaining = (AgentrailError, websockets.ConnectionClosed, websockets.HandshakeError)
    told = [one for one in ended if isinstance(one, explaining)]
    # Frames of Trio refer to the errors that passed them: cycles, which only the collector would free.
    for one in ended:
        for error in (one, *leaves(one.__cause__ or one)):
            error.__traceback__ = None
    return next(iter(told or ended), None)


async def _welcomed_terms(
    connection: "websockets.WebSocketConnection", heartbeat_seconds: float
) -> LinkTerms:
    await connection.send_message(hello_frame(heartbeat_seconds).decode())
    while (frame := decode_server_frame(await connection.get_message())).type != "welcome":
        pass  # the close code tells the reason
    return terms_in(frame)


async def keep_time(
    connection: "websockets.WebSocketConnection", seconds: float, heard_at: Callable[[], float]
) -> None:
    """Send a heartbeat at each interval. A server that is silent for twice as long counts as lost."""
    for number in itertools.count(1):
        await trio.sleep(seconds)
        if trio.current_time() - heard_at() >= 2 * seconds:
            raise trio.TooSlowError
        await connection.send_message(ping_frame(number).decode())


def decide_after(ended: BaseException | None) -> AfterEnd:
    match ended:
        case AgentrailError():
            return AfterEnd(fault=ended)
        case BaseException() if (fault := _certificate_fault(ended)) is not None:
            return AfterEnd(fault=fault)
        case websockets.ConnectionRejected(status_code=status, headers=headers, body=body):
            return _after_refusal(status, body, dict(headers or ()).get(b"retry-after"))
        case websockets.ConnectionClosed(reason=reason) if reason is not None and reason.code in _PERMANENT:
            if reason.code == CloseCode.UNAUTHORIZED:
                return AfterEnd(fault=_unauthorized())
            code = CloseCode(reason.code).name.lower()
            message = f"the server closed the connection: {code}; the client or the server has a bug"
            return AfterEnd(fault=RemoteRefused(message, code=code, more={}))
        case _:
            return AfterEnd()


def _certificate_fault(ended: BaseException) -> Unreachable | None:
    cause = ended if isinstance(ended, ssl.SSLError) else ended.__cause__
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return None
    return Unreachable(
        f"the certificate of the server is not trusted: {cause.verify_message}; give its certificate authority as tls=ssl.create_default_context(cafile=…)"
    )


def _after_refusal(status: int, body: bytes | None, retry_after: bytes | None) -> AfterEnd:
    told = _error_in(body)
    if status == _UNAUTHORIZED:
        return AfterEnd(fault=_unauthorized())
    if status in _RETRIED_STATUSES or status >= _SERVER_FAULT:
        seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
        return AfterEnd(wait_seconds=seconds)  # a date would need a clock
    if str(told.get("code")) in CLASS_OF_CODE:
        return AfterEnd(fault=error_of_reply({**told, "status": status}, None))
    message = f"the server refused the connection with {status}: {told.get('message', 'it gave no reason')}"
    return AfterEnd(
        fault=RemoteRefused(message, code=str(told.get("code", "refused")), more={**told, "status": status})
    )


def _unauthorized() -> Unauthorized:
    return Unauthorized("the server rejects this token: it is missing, wrong, expired or revoked")


def _error_in(body: bytes | None) -> Told:
    try:  # the decoder refuses half of a surrogate pair
        return stated_object(msgspec.json.decode(body or b"{}")["error"])
    except (msgspec.DecodeError, ValueError, TypeError, KeyError, RecursionError):
        return {}
