"""Adapter of Tavily."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.web.exchange import WebRequest
from agentrail.web.search import post


@frozen(kw_only=True)
class Tavily:
    """Searches with Tavily: `POST /search`.

    Attributes:
        key: Key of the account. None if the service needs none.
    """

    key: Secret | None = field(default=None, repr=False)
    origin: str = "https://api.tavily.com"

    @property
    def name(self) -> str:
        return "Tavily"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        headers = {} if self.key is None else {"authorization": f"Bearer {self.key.reveal()}"}
        document = {"query": query, "max_results": max_results, "search_depth": "basic"}
        return post(f"{self.origin}/search", document, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Yield the hits. See `SearchEngine.read`."""
        for one in answer["results"]:
            yield {**one, "snippet": one.get("content"), "published": one.get("published_date")}
