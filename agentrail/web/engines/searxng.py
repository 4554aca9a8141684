"""Adapter of SearXNG."""

from typing import ClassVar

from attrs import frozen

from agentrail.web.engines.keyed import KeyedEngine
from agentrail.web.exchange import WebRequest
from agentrail.web.search import get


@frozen(kw_only=True)
class Searxng(KeyedEngine):
    """Searches with SearXNG: `GET /search`. Its settings must allow `format=json`."""

    name: ClassVar[str] = "SearXNG"
    names: ClassVar[tuple[str, str, str]] = ("results", "content", "publishedDate")
    origin: str = "http://127.0.0.1:8080"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        headers = self.key_header("authorization", "Bearer ")
        # It has no parameter for the number of hits, and returns one page.
        return get(f"{self.origin}/search", {"q": query, "format": "json"}, headers)
