"""Adapter of Brave."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.web.exchange import WebRequest
from agentrail.web.search import get


@frozen(kw_only=True)
class Brave:
    """Searches with Brave: `GET /res/v1/web/search`, at most 20 hits.

    Attributes:
        key: Key of the account. None if the service needs none.
        origin: Origin of the service.
    """

    key: Secret | None = field(default=None, repr=False)
    origin: str = "https://api.search.brave.com"

    @property
    def name(self) -> str:
        """Name of the engine."""
        return "Brave"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        headers = {} if self.key is None else {"x-subscription-token": self.key.reveal()}
        parameters = {"q": query, "count": max_results, "text_decorations": "false"}
        return get(f"{self.origin}/res/v1/web/search", parameters, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Yield the hits. See `SearchEngine.read`."""
        for one in answer.get("web", {}).get("results", ()):
            published = one.get("page_age") or one.get("age")
            yield {**one, "snippet": one.get("description"), "published": published}
