"""The only place that connects to addresses chosen by strangers: it resolves once and connects to a judged IP."""

import ipaddress
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import httpcore
import trio

from agentrail.web.dns import LookUp

JudgePlaces: TypeAlias = Callable[[str, int, Sequence[str]], Sequence[str]]
"""Returns the resolved addresses of a host and port that may be used, or raises `AddressRefused`."""

WEB_CONNECT_SECONDS: Final = 3.0
"""Time limit per address, in seconds: the first of several may be unreachable from here."""

_MAX_PLACES: Final = 4


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """A network for HTTP clients.

    Args:
        judge: Decides which addresses are used.
        resolve: Looks up a host.
        carrier: Connects. httpcore's own by default.
        failures: Errors of the carrier after which the next address is tried.
    """

    def __init__(
        self,
        judge: JudgePlaces,
        resolve: LookUp,
        carrier: Any = None,
        failures: tuple[type[Exception], ...] = (httpcore.ConnectError, httpcore.ConnectTimeout),
    ) -> None:
        self._judge = judge
        self._resolve = resolve
        self._carrier: httpcore.AsyncNetworkBackend = carrier or httpcore.TrioBackend()
        self._failures = failures

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        found = [host] if _is_number(host) else await self._resolve(host, port)
        places = tuple(self._judge(host, port, found))[:_MAX_PLACES]
        seconds = WEB_CONNECT_SECONDS if timeout is None else min(timeout, WEB_CONNECT_SECONDS)
        for place in places[:-1]:
            try:
                return await self._carrier.connect_tcp(place, port, timeout=seconds)
            except self._failures:
                continue  # nothing was sent: otherwise the next address might receive it a second time
        return await self._carrier.connect_tcp(places[-1], port, timeout=seconds)

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
