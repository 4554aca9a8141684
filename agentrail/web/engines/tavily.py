"""Adapter of Tavily."""

from typing import ClassVar

from attrs import frozen

from agentrail.web.engines.keyed import KeyedEngine
from agentrail.web.exchange import WebRequest
from agentrail.web.search import post


@frozen(kw_only=True)
class Tavily(KeyedEngine):
    """Searches with Tavily: `POST /search`."""

    name: ClassVar[str] = "Tavily"
    origin: str = "https://api.tavily.com"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        headers = self.key_header("authorization", "Bearer ")
        document = {"query": query, "max_results": max_results, "search_depth": "basic"}
        return post(f"{self.origin}/search", document, headers)
