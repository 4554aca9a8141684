"""The port of search engines: a pure adapter interface, and its execution."""

import html
import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from attrs import evolve, frozen

from agentrail.frozen import TooDeep
from agentrail.web.exchange import FetchFailed, WebRequest
from agentrail.web.url_policy import AddressRefused, split_url
from agentrail.web.web_client import WebClient

MAX_SEARCH_RESULTS: Final = 10
MAX_ENGINE_QUERY_CHARACTERS: Final = 400

_MAX_ANSWER_BYTES: Final = 2 << 20
_MAX_READ: Final = 1_000  # hits, of which an answer of that size may have 700,000
_MAX_TITLE: Final = 200
_MAX_SNIPPET: Final = 600
_MAX_PUBLISHED: Final = 40
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


@frozen(kw_only=True)
class SearchHit:
    """A search result. All of it was written by strangers.

    Attributes:
        snippet: Excerpt related to the query. May be empty.
        published: Publication date as given by the engine. May be empty.
    """

    title: str
    url: str
    snippet: str = ""
    published: str = ""


class SearchEngine(Protocol):
    """A search engine as pure functions: from query to request, and from answer to hits. `agentrail.web.engines` has five."""

    @property
    def name(self) -> str: ...

    @property
    def origin(self) -> str:
        """Scheme, host and port of the service, such as `https://api.example`. May be private."""
        ...

    def request(self, query: str, max_results: int) -> WebRequest: ...

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Yield the hits of an answer, best first: mappings with `title`, `url`, `snippet` and `published`, all untrusted."""
        ...


async def search_web(
    engine: SearchEngine, client: WebClient, query: str, max_results: int
) -> tuple[SearchHit, ...]:
    fetched = await client.send(engine.request(query, max_results), max_bytes=_MAX_ANSWER_BYTES)
    try:
        found = [_hit(one) for one in islice(engine.read(json.loads(fetched.content)), _MAX_READ)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, TooDeep):
        message = f"{engine.name} did not answer like a search engine; check its address"
        raise FetchFailed(message) from None
    hits = {one.url: one for one in reversed(found) if one is not None}
    return tuple(reversed(hits.values()))[:max_results]


def client_for(engine: SearchEngine, client: WebClient) -> WebClient:
    address = split_url(engine.origin)
    inside = client.rules.inside
    opened = evolve(inside, origins=inside.origins | {address.origin})
    # Domain lists apply to pages, not to the service.
    return client.with_rules(evolve(client.rules, inside=opened, allow=(), block=()))


def _hit(found: Mapping[str, Any]) -> SearchHit | None:
    url = str(found.get("url") or "")
    try:
        split_url(url)
    except AddressRefused:
        if not url.startswith(("https://", "http://")) or not url.isprintable() or " " in url:
            return None
    return SearchHit(
        title=_plain(found.get("title"), _MAX_TITLE) or url[:_MAX_TITLE],
        url=url,
        snippet=_plain(found.get("snippet"), _MAX_SNIPPET),
        published=_plain(found.get("published"), _MAX_PUBLISHED),
    )


def _plain(said: object, max_characters: int) -> str:
    text = html.unescape(_TAG.sub("", said[: 4 * max_characters])) if isinstance(said, str) else ""
    words = " ".join(text.split())
    return words if len(words) <= max_characters else f"{words[: max_characters - 1]}…"


def get(url: str, parameters: Mapping[str, object], headers: Mapping[str, str]) -> WebRequest:
    return WebRequest(
        url=f"{url}?{urlencode(dict(parameters))}", headers={"accept": "application/json", **headers}
    )


def post(url: str, document: Mapping[str, Any], headers: Mapping[str, str]) -> WebRequest:
    return WebRequest(
        method="POST",
        url=url,
        headers={"accept": "application/json", "content-type": "application/json", **headers},
        content=json.dumps(document).encode(),
    )
