"""The adapter of Jina."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from agentrail.abc.secret import Secret
from agentrail.web.exchange import WebRequest
from agentrail.web.searching import post


@frozen(kw_only=True)
class Jina:
    """Asks Jina: `POST /` without the content of the pages.

    Attributes:
        key: Of the account; None where the service asks for none.
        origin: Where the service is.
    """

    key: Secret | None = field(default=None, repr=False)
    origin: str = "https://s.jina.ai"

    @property
    def name(self) -> str:
        """What it is called."""
        return "Jina"

    def request(self, query: str, max_results: int) -> WebRequest:
        """Write the request; see `SearchEngine.request`."""
        # Without this header each hit brings all of its page, which is what \`web_fetch\` is for.
        headers = {"x-respond-with": "no-content"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key.reveal()}"
        return post(f"{self.origin}/", {"q": query, "num": max_results}, headers)

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Give the hits; see `SearchEngine.read`."""
        for one in answer["data"]:
            yield {**one, "snippet": one.get("description"), "published": one.get("date")}
