"""The adapter of SearXNG."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.web.exchange import WebRequest
from agentrail.web.searching import get


@frozen(kw_only=True)
class Searxng:
    """Asks SearXNG: `GET /search`; its settings have to allow `format=json`.

    Attributes:
        key: Of the account; None where the service asks for none.
        origin: Where the service is.
    """

    key: Secret | None = field(default=None, repr=False)
    origin: str = "http://127.0.0.1:8080"

    @property
    def name(self) -> str:
        """What it is called."""
        return "SearXNG"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Write the request; see `SearchEngine.request`."""
        headers = {} if self.key is None else {"authorization": f"Bearer {self.key.reveal()}"}
        # It has no parameter for a number of hits, and gives a page of them.
        return get(f"{self.origin}/search", {"q": query, "format": "json"}, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Give the hits; see `SearchEngine.read`."""
        for one in answer["results"]:
            yield {**one, "snippet": one.get("content"), "published": one.get("publishedDate")}
