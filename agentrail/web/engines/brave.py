"""Adapter of Brave."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from attrs import frozen

from agentrail.web.engines.keyed import KeyedEngine
from agentrail.web.exchange import WebRequest
from agentrail.web.search import get


@frozen(kw_only=True)
class Brave(KeyedEngine):
    """Searches with Brave: `GET /res/v1/web/search`, at most 20 hits."""

    name: ClassVar[str] = "Brave"
    origin: str = "https://api.search.brave.com"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        headers = self.key_header("x-subscription-token")
        parameters = {"q": query, "count": max_results, "text_decorations": "false"}
        return get(f"{self.origin}/res/v1/web/search", parameters, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Yield the hits. See `SearchEngine.read`."""
        for one in answer.get("web", {}).get("results", ()):
            published = one.get("page_age") or one.get("age")
            yield {**one, "snippet": one.get("description"), "published": published}
