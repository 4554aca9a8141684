"""Adapter of Exa."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from attrs import frozen

from agentrail.web.engines.keyed import KeyedEngine
from agentrail.web.exchange import WebRequest
from agentrail.web.search import post


@frozen(kw_only=True)
class Exa(KeyedEngine):
    """Searches with Exa: `POST /search` with highlights of each page."""

    name: ClassVar[str] = "Exa"
    origin: str = "https://api.exa.ai"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        headers = self.key_header("x-api-key")
        document = {
            "query": query,
            "numResults": max_results,
            "type": "auto",
            "contents": {"highlights": True},
        }
        return post(f"{self.origin}/search", document, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Yield the hits. See `SearchEngine.read`."""
        for one in answer["results"]:
            highlights = [said for said in one.get("highlights") or () if isinstance(said, str)]
            snippet = " … ".join(highlights) or one.get("text")
            yield {**one, "snippet": snippet, "published": one.get("publishedDate")}
