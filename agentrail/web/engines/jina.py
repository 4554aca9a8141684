"""Adapter of Jina."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.web.exchange import WebRequest
from agentrail.web.search import post


@frozen(kw_only=True)
class Jina:
    """Searches with Jina: `POST /` without the content of the pages.

    Attributes:
        key: Key of the account. None if the service needs none.
    """

    key: Secret | None = field(default=None, repr=False)
    origin: str = "https://s.jina.ai"

    @property
    def name(self) -> str:
        return "Jina"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Build the request. See `SearchEngine.request`."""
        # Without this header each hit contains its whole page, which is the purpose of `web_fetch`.
        headers = {"x-respond-with": "no-content"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key.reveal()}"
        return post(f"{self.origin}/", {"q": query, "num": max_results}, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Yield the hits. See `SearchEngine.read`."""
        for one in answer["data"]:
            yield {**one, "snippet": one.get("description"), "published": one.get("date")}
