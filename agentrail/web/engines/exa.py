"""Adapter of Exa."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.web.exchange import WebRequest
from agentrail.web.search import post


@frozen(kw_only=True)
class Exa:
    """Searches with Exa: `POST /search` with highlights of each page.

    Attributes:
        key: Key of the account. None if the service needs none.
    """

    key: Secret | None = field(default=None, repr=False)
    origin: str = "https://api.exa.ai"

    @property
    def name(self) -> str:
        return "Exa"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        headers = {} if self.key is None else {"x-api-key": self.key.reveal()}
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
