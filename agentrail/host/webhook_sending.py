"""Sends one webhook over HTTP: looks its name up once, has that judged, and connects to what was judged and to nothing else.

No schedule and no store enters. A name is not looked up a second time by any library, no redirect is followed, no proxy of the environment
is asked, and the body of the answer is not read: a stranger has chosen all of these.
"""

import socket
import ssl
from collections.abc import Sequence
from functools import partial

import httpx

from agentrail import outside
from agentrail.host.webhook_address import read_address
from agentrail.host.webhook_schedule import TRY_SECONDS
from agentrail.host.webhooks import SignedWebhook
from agentrail.web.backend import (
    NO_ROOTS,
    WEB_CONNECT_SECONDS,
    GuardedBackend,
    context_of_system,
)
from agentrail.web.names import LookUp, SystemNames
from agentrail.web.places import AddressRefused, AllowedPlaces, WebAddress, judge_found
from agentrail.web.transport import GuardedTransport


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
        self._resolve: LookUp = resolve or SystemNames()
        self._tls = tls

    async def __call__(self, signed: SignedWebhook) -> int:
        """Send one, and give the status that came back.

        Raises:
            AddressRefused: It leads where nothing may be sent; nothing was.
            OSError: Its name leads nowhere.
            httpx.HTTPError: No connection, or a broken one.

        Cancellation: Closes the connection. There is no time limit but the caller's, and three seconds for each address.
        """
        # What is allowed may have changed since it was named.
        address = read_address(signed.url, self._allowed)
        request = httpx.Request(
            "POST",
            address.url,
            headers=[("host", address.host_header), ("connection", "close"), *signed.headers],
            content=signed.body,
            extensions={
                "timeout": {
                    "connect": WEB_CONNECT_SECONDS,
                    "read": TRY_SECONDS,
                    "write": TRY_SECONDS,
                    "pool": TRY_SECONDS,
                }
            },
        )
        backend = GuardedBackend(partial(self._judge, address), self._resolve)
        # A pool for each try, and no client of the library: that would follow what it is told, and write the address to the log, where it
        # may hold what a receiver knows its callers by.
        async with GuardedTransport(backend, await self._context(address)) as transport:
            response = await transport.handle_async_request(request)
            await response.aclose()
            return response.status_code

    def _judge(self, address: WebAddress, _host: str, _port: int, found: Sequence[str]) -> Sequence[str]:
        return judge_found(address, found, self._allowed)

    async def _context(self, address: WebAddress) -> ssl.SSLContext:
        if address.scheme == "http":
            return NO_ROOTS
        if self._tls is None:
            self._tls = await outside.offload(context_of_system)  # 30 ms, which would hold the loop
        return self._tls


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
