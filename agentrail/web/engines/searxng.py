"""Adapter of SearXNG."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.web.exchange import WebRequest
from agentrail.web.search import get


@frozen(kw_only=True)
class Searxng:
    """Searches with SearXNG: `GET /search`. Its settings must allow `format=json`.

    Attributes:
        key: Key of the account. None if the service needs none.
    """

    key: Secret | None = field(default=None, repr=False)
    origin: str = "http://127.0.0.1:8080"

    @property
    def name(self) -> str:
        return "SearXNG"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        headers = {} if self.key is None else {"authorization": f"Bearer {self.key.reveal()}"}
        # It has no parameter for the number of hits, and returns one page.
        return get(f"{self.origin}/search", {"q": query, "format": "json"}, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Yield the hits. See `SearchEngine.read`."""
        for one in answer["results"]:
            yield {**one, "snippet": one.get("content"), "published": one.get("publishedDate")}
