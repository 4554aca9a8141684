"""The one place that connects to what a stranger named: it looks a name up once, has all answers judged, and connects to a judged number.

Names and certificates are left to TLS, which still speaks of the name. No library looks anything up a second time, so what was judged is
what is reached.
"""

import ipaddress
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import httpcore
import trio

from agentrail.web.names import LookUp

JudgePlaces: TypeAlias = Callable[[str, int, Sequence[str]], Sequence[str]]
"""Gives of the addresses that a host and a port lead to those that may be connected to, or raises `AddressRefused`."""

WEB_CONNECT_SECONDS: Final = 3.0
"""For each address: of a name with several the first may lead nowhere from here."""

_MAX_PLACES: Final = 4


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects for a pool of connections of httpcore, to what was judged and to nothing else."""

    def __init__(self, judge: JudgePlaces, resolve: LookUp) -> None:
        """Connect to nothing yet."""
        self._judge = judge
        self._resolve = resolve
        self._carrier = httpcore.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of a host that answers.

        Cancellation: Closes what was begun.
        """
        found = [host] if _is_number(host) else await self._resolve(host, port)
        places = tuple(self._judge(host, port, found))[:_MAX_PLACES]
        seconds = WEB_CONNECT_SECONDS if timeout is None else min(timeout, WEB_CONNECT_SECONDS)
        for place in places[:-1]:
            try:
                return await self._carrier.connect_tcp(place, port, timeout=seconds)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue  # nothing was sent: else the next address might get it a second time
        return await self._carrier.connect_tcp(places[-1], port, timeout=seconds)

    async def sleep(self, seconds: float) -> None:
        """Wait, as httpcore does between tries."""
        await trio.sleep(seconds)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def context_of_system() -> ssl.SSLContext:
    """Believe the certificates that the system believes. This blocks for 30 ms."""
    return ssl.create_default_context()


NO_ROOTS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Believes none: for a connection without TLS, whose pool wants a context nevertheless."""
