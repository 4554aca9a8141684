"""Adapter of Jina."""

from typing import ClassVar

from attrs import frozen

from agentrail.web.engines.keyed import KeyedEngine
from agentrail.web.exchange import WebRequest
from agentrail.web.search import post


@frozen(kw_only=True)
class Jina(KeyedEngine):
    """Searches with Jina: `POST /` without the content of the pages."""

    name: ClassVar[str] = "Jina"
    names: ClassVar[tuple[str, str, str]] = ("data", "description", "date")
    origin: str = "https://s.jina.ai"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        # Without this header each hit contains its whole page, which is the purpose of `web_fetch`.
        headers = {"x-respond-with": "no-content", **self.key_header("authorization", "Bearer ")}
        return post(f"{self.origin}/", {"q": query, "num": max_results}, headers)
