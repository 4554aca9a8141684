"""`WebClient`: fetches what stands at an address, within bounds, and reaches no address that was not judged.

What carries it out stands in `fetching.py`, which is imported with the first fetch: a tenth of a second, that most programs never need.
"""

import ssl
from typing import TYPE_CHECKING, Final

from agentrail import outside
from agentrail.web.exchange import Fetched, WebRequest
from agentrail.web.names import LookUp, SystemNames
from agentrail.web.rules import WebRules

if TYPE_CHECKING:
    from agentrail.web.fetching import Fetching

MAX_BODY_BYTES: Final = 10 << 20
"""Of a body, inflated."""


class WebClient:
    """Fetches. One serves any number of sessions, and holds no connection between two fetches."""

    def __init__(
        self, rules: WebRules, *, resolve: LookUp | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """Open nothing yet."""
        self.rules: WebRules = rules
        self._resolve: LookUp = resolve or SystemNames()
        self._tls = tls
        self._fetching: Fetching | None = None

    def with_rules(self, rules: WebRules) -> "WebClient":
        """Give one with other rules, which looks names up and believes certificates as this one does."""
        return WebClient(rules, resolve=self._resolve, tls=self._tls)

    async def fetch(
        self, url: str, *, max_bytes: int = MAX_BODY_BYTES, stays_on_host: bool = False
    ) -> Fetched:
        """Get what stands at an address.

        Cancellation: Closes the connection.
        """
        return await (await self._opened()).fetch(url, max_bytes, stays_on_host=stays_on_host)

    async def send(self, request: WebRequest, *, max_bytes: int = MAX_BODY_BYTES) -> Fetched:
        """Send one request, and take its answer. A redirect is an error: a key might go along.

        Cancellation: Closes the connection.
        """
        return await (await self._opened()).send(request, max_bytes)

    async def _opened(self) -> "Fetching":
        if self._fetching is None:
            # In a thread, because an import holds the loop as long as it takes.
            fetching = await outside.offload(_load)
            self._fetching = fetching(self.rules, self._resolve, self._tls)
        return self._fetching


def _load() -> "type[Fetching]":
    from agentrail.web.fetching import Fetching  # noqa: PLC0415 - see above

    return Fetching
