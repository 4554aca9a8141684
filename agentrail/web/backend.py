"""The only place that connects to addresses chosen by strangers: it resolves once and connects to a judged IP."""

import ipaddress
import math
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import httpcore
import trio
from attrs import define, field

from agentrail.web.dns import LookUp

JudgePlaces: TypeAlias = Callable[[str, int, Sequence[str]], Sequence[str]]
"""Returns the resolved addresses of a host and port that may be used, or raises `AddressRefused`."""

WEB_CONNECT_SECONDS: Final = 3.0
"""Time limit per address, in seconds: the first of several may be unreachable from here."""

_MAX_PLACES: Final = 4

_PIECE_BYTES: Final = 4_096
"""Bytes that a client parses at once. A stranger may send tiny chunks or a thousand interim answers in each of them."""


class _Pieces:
    """A connection that reads in small pieces, so that other tasks get their turns in between."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, max_bytes: float) -> None:
        self._stream, self._left_bytes = stream, max_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as httpcore has it
        piece = await self._stream.read(min(max_bytes, _PIECE_BYTES), timeout)
        self._left_bytes -= len(piece)
        if self._left_bytes < 0:
            message = "the answer is too long"
            raise httpcore.ReadError(message)
        return piece

    async def start_tls(self, *given: Any, **named: Any) -> "_Pieces":
        return _Pieces(await self._stream.start_tls(*given, **named), self._left_bytes)


@define(eq=False, slots=False)
class GuardedBackend(httpcore.AsyncNetworkBackend):
    """A network for HTTP clients.

    Args:
        judge: Decides which addresses are used.
        resolve: Looks up a host.
        carrier: Connects. httpcore's own by default.
        failures: Errors of the carrier after which the next address is tried.
        max_bytes: Bytes of answers on one connection, with their heads.
    """

    _judge: JudgePlaces
    _resolve: LookUp
    _carrier: Any = field(factory=httpcore.TrioBackend)
    _failures: tuple[type[Exception], ...] = (httpcore.ConnectError, httpcore.ConnectTimeout)
    _max_bytes: float = math.inf

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        found = [host] if _is_number(host) else await self._resolve(host, port)
        places = tuple(self._judge(host, port, found))[:_MAX_PLACES]
        seconds = WEB_CONNECT_SECONDS if timeout is None else min(timeout, WEB_CONNECT_SECONDS)
        for place in places[:-1]:
            try:
                stream = await self._carrier.connect_tcp(place, port, timeout=seconds)
            except self._failures:
                continue  # nothing was sent: otherwise the next address might receive it a second time
            return _Pieces(stream, self._max_bytes)
        return _Pieces(await self._carrier.connect_tcp(places[-1], port, timeout=seconds), self._max_bytes)

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def context_of_system() -> ssl.SSLContext:
    """Return a context with the system's trusted certificates. Blocks for 30 ms."""
    return ssl.create_default_context()


NO_ROOTS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate. For connections without TLS, whose pool needs a context anyway."""
