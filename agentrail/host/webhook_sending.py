"""Sends one webhook over HTTP: looks its name up once, has that judged, and connects to what was judged and to nothing else.

No schedule and no store enters. A name is not looked up a second time by any library, no redirect is followed, no proxy of the environment
is asked, and the body of the answer is not read: a stranger has chosen all of these.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import httpx
import trio

from agentrail import outside
from agentrail.host.webhook_address import (
    AddressRefused,
    AllowedPlaces,
    WebhookAddress,
    judge_found,
    read_address,
)
from agentrail.host.webhook_schedule import TRY_SECONDS
from agentrail.host.webhooks import SignedWebhook

LookUp: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the IP addresses of a host, or raises `OSError`."""

_CONNECT_SECONDS: Final = 3.0
"""For each address: of a name with several the first may lead nowhere from here."""

_MAX_PLACES: Final = 4
_MAX_LOOKUPS: Final = 8


class WebhookSender:
    """Sends webhooks from this machine."""

    def __init__(
        self, allowed: AllowedPlaces, *, resolve: LookUp | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """Open nothing yet.

        Args:
            allowed: Where they may go besides public servers over TLS.
            resolve: Looks names up; None for what the system does.
            tls: Which certificates are believed; None for what the system has.
        """
        self._allowed = allowed
        self._resolve = resolve or self._look_up
        self._tls = tls
        # A limit of its own: a lookup cannot be cancelled, and names that a stranger chose may all take their time.
        self._lookups = trio.CapacityLimiter(_MAX_LOOKUPS)

    async def __call__(self, signed: SignedWebhook) -> int:
        """Send one, and give the status that came back.

        Raises:
            AddressRefused: It leads where nothing may be sent; nothing was.
            OSError: Its name leads nowhere.
            httpx.HTTPError: No connection, or a broken one.

        Cancellation: Closes the connection. There is no time limit but the caller's, and three seconds for each address.
        """
        address = read_address(
            signed.url, self._allowed
        )  # what is allowed may have changed since it was named
        found = [address.host] if address.ip is not None else await self._resolve(address.host, address.port)
        places = judge_found(address, found, self._allowed)[:_MAX_PLACES]
        for place in places[:-1]:
            try:
                return await self._post(address, place, signed)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue  # nothing was sent: else the next address might get it a second time
        return await self._post(address, places[-1], signed)

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        rows = await outside.offload(look_up, abandon_on_cancel=True, limiter=self._lookups)
        return [str(row[4][0]) for row in rows]

    async def _post(self, address: WebhookAddress, place: str, signed: SignedWebhook) -> int:
        """Send to one IP address what is meant for a name: `Host` and TLS speak of the name."""
        at = f"[{place}]" if ":" in place else place
        extensions = {
            "sni_hostname": address.host,
            "timeout": {
                "connect": _CONNECT_SECONDS,
                "read": TRY_SECONDS,
                "write": TRY_SECONDS,
                "pool": TRY_SECONDS,
            },
        }
        request = httpx.Request(
            "POST",
            f"{address.scheme}://{at}:{address.port}{address.target}",
            headers=[("host", address.host_header), ("connection", "close"), *signed.headers],
            content=signed.body,
            extensions=extensions,
        )
        # A connection for each try, and no client of the library: that would keep them by the IP address, which several names may
        # share, follow what it is told, and write the address to the log, where it may hold what a receiver knows its callers by.
        async with httpx.AsyncHTTPTransport(
            verify=await self._context(address), trust_env=False, retries=0
        ) as transport:
            response = await transport.handle_async_request(request)
            await response.aclose()
            return response.status_code

    async def _context(self, address: WebhookAddress) -> ssl.SSLContext:
        if address.scheme == "http":
            return _NO_ROOTS
        if self._tls is None:
            self._tls = await outside.offload(ssl.create_default_context)  # 30 ms, which would hold the loop
        return self._tls


_NO_ROOTS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def why_not(error: BaseException) -> str:
    """Say why a try got no answer, in words that hold no address and nothing that a stranger wrote."""
    if isinstance(error, AddressRefused):
        return f"not sent: {error}"
    if isinstance(error, socket.gaierror):
        return "its name leads nowhere"
    return f"no answer ({type(error).__name__})"


def is_of_the_network(error: BaseException) -> bool:
    """Say whether an error is one of those that a receiver, or the way to it, can cause."""
    return isinstance(error, OSError | httpx.HTTPError | AddressRefused)
