"""The adapter of Tavily."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.web.exchange import WebRequest
from agentrail.web.searching import post


@frozen(kw_only=True)
class Tavily:
    """Asks Tavily: `POST /search`.

    Attributes:
        key: Of the account; None where the service asks for none.
        origin: Where the service is.
    """

    key: Secret | None = field(default=None, repr=False)
    origin: str = "https://api.tavily.com"

    @property
    def name(self) -> str:
        """What it is called."""
        return "Tavily"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Write the request; see `SearchEngine.request`."""
        headers = {} if self.key is None else {"authorization": f"Bearer {self.key.reveal()}"}
        document = {"query": query, "max_results": max_results, "search_depth": "basic"}
        return post(f"{self.origin}/search", document, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Give the hits; see `SearchEngine.read`."""
        for one in answer["results"]:
            yield {**one, "snippet": one.get("content"), "published": one.get("published_date")}
