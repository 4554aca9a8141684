"""`WebClient`: fetches an address within limits, and reaches only judged addresses."""

import ssl
from typing import TYPE_CHECKING, Final

from agentrail import outside
from agentrail.web.dns import LookUp, SystemNames
from agentrail.web.exchange import Fetched, WebRequest
from agentrail.web.rules import WebRules

if TYPE_CHECKING:
    from agentrail.web.fetcher import Fetching

MAX_BODY_BYTES: Final = 10 << 20
"""Size limit of a decompressed body, in bytes."""


class WebClient:
    """Web client. Serves any number of sessions, and holds no connection between two fetches."""

    def __init__(
        self, rules: WebRules, *, resolve: LookUp | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.rules: WebRules = rules
        self._resolve: LookUp = resolve or SystemNames()
        self._tls = tls
        self._fetching: Fetching | None = None

    def with_rules(self, rules: WebRules) -> "WebClient":
        return WebClient(rules, resolve=self._resolve, tls=self._tls)

    async def fetch(
        self, url: str, *, max_bytes: int = MAX_BODY_BYTES, stays_on_host: bool = False
    ) -> Fetched:
        return await (await self._opened()).fetch(url, max_bytes, stays_on_host=stays_on_host)

    async def send(self, request: WebRequest, *, max_bytes: int = MAX_BODY_BYTES) -> Fetched:
        """Send one request and return its answer. A redirect is an error, because it might leak a key."""
        return await (await self._opened()).send(request, max_bytes)

    async def _opened(self) -> "Fetching":
        if self._fetching is None:
            # In a thread, because an import blocks the loop.
            fetching = await outside.offload(_load)
            self._fetching = fetching(self.rules, self._resolve, self._tls)
        return self._fetching


def _load() -> "type[Fetching]":
    from agentrail.web.fetcher import Fetching  # noqa: PLC0415 - see above

    return Fetching
