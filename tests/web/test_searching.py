"""Search engines: what each is asked, what is read of its answers, and what becomes of those that are none of theirs."""

import inspect
import json
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.abc import Secret
from agentrail.web.backend import NO_ROOTS
from agentrail.web.engines import ENGINES, KEY_VARIABLES
from agentrail.web.exchange import FetchFailed
from agentrail.web.rules import WebRules
from agentrail.web.search import SearchHit, client_for, search_web
from agentrail.web.web_client import WebClient
from tests.runtime.rig import on_bounded_time
from tests.web.sites import HERE, Names, Site, open_sites

HIT = SearchHit(
    title="Trains & more",
    url="https://a.example/trains",
    snippet="First class from four hours on.",
    published="2026-05-01",
)

# As the services document their answers, shortened.
ANSWERS = {
    "brave": {
        "type": "search", "query": {"original": "trains"},
        "web": {"type": "search", "results": [
            {"title": "Trains &amp; more", "url": HIT.url, "description": "<strong>First class</strong> from four hours on.", "age": "May 1, 2026",
             "page_age": "2026-05-01", "meta_url": {"hostname": "a.example"}},
            {"title": "No date", "url": "https://b.example/", "description": "x", "age": "2 days ago"},
        ]},
    },
    "tavily": {
        "query": "trains", "answer": None, "images": [], "response_time": "1.1", "request_id": "x",
        "results": [
            {"title": "Trains & more", "url": HIT.url, "content": "First class from four hours on.", "score": 0.9, "raw_content": None,
             "published_date": "2026-05-01"},
            {"title": "No date", "url": "https://b.example/", "content": "x", "score": 0.1},
        ],
    },
    "exa": {
        "requestId": "x", "resolvedSearchType": "neural", "costDollars": {"total": 0.005},
        "results": [
            {"id": HIT.url, "title": "Trains & more", "url": HIT.url, "publishedDate": "2026-05-01", "author": None,
             "highlights": ["First class from four hours on."], "highlightScores": [0.4]},
            {"id": "b", "title": "No date", "url": "https://b.example/", "text": "x"},
        ],
    },
    "jina": {
        "code": 200, "status": 20000, "meta": {"usage": {"tokens": 10000}},
        "data": [
            {"title": "Trains & more", "url": HIT.url, "description": "First class from four hours on.", "date": "2026-05-01", "content": "",
             "usage": {"tokens": 1000}},
            {"title": "No date", "url": "https://b.example/", "description": "x"},
        ],
    },
    "searxng": {
        "query": "trains", "number_of_results": 0, "answers": [], "infoboxes": [], "suggestions": [],
        "results": [
            {"url": HIT.url, "title": "Trains & more", "content": "First class from\n four hours on.", "engine": "bing", "score": 1.0,
             "publishedDate": "2026-05-01", "category": "general"},
            {"url": "https://b.example/", "title": "No date", "content": "x", "publishedDate": None},
        ],
    },
}  # fmt: skip

ASKED = {
    "brave": ("GET", "/res/v1/web/search", {"q": "trains & <b>", "count": "3", "text_decorations": "false"}, "x-subscription-token"),
    "tavily": ("POST", "/search", {"query": "trains & <b>", "max_results": 3, "search_depth": "basic"}, "authorization"),
    "exa": ("POST", "/search", {"query": "trains & <b>", "numResults": 3, "type": "auto", "contents": {"highlights": True}}, "x-api-key"),
    "jina": ("POST", "/", {"q": "trains & <b>", "num": 3}, "authorization"),
    "searxng": ("GET", "/search", {"q": "trains & <b>", "format": "json"}, "authorization"),
}  # fmt: skip


def asking(engine):
    """What carries out a search, where names lead here."""
    return client_for(engine, WebClient(WebRules(allow=["only.example"]), resolve=Names(HERE), tls=NO_ROOTS))


def test_each_engine_has_an_answer_here_is_short_and_sends_no_key_that_it_has_not():
    """Some have one of their own in front of them. 12.9: one class of at most eighty lines."""
    assert ENGINES.keys() == ANSWERS.keys() == ASKED.keys()
    assert KEY_VARIABLES.keys() | {"searxng"} == ENGINES.keys()
    for name, engine in ENGINES.items():
        headers = engine(key=None).request("x", 1).headers
        assert not {"authorization", "x-api-key", "x-subscription-token"} & headers.keys(), name
        assert len(inspect.getsource(inspect.getmodule(engine)).splitlines()) <= 80, name


@pytest.mark.parametrize("name", ENGINES)
@on_bounded_time
async def test_an_engine_is_asked_as_it_documents_and_its_answer_is_read(name):
    """With its key in its header, at a place that the operator named, whatever pages may be fetched; the order is the engine's."""
    site = Site(any=(200, {"Content-Type": "application/json"}, json.dumps(ANSWERS[name]).encode()))
    async with open_sites(site):
        engine = ENGINES[name](key=Secret("k-123"), origin=site.origin)
        hits = await search_web(engine, asking(engine), "trains & <b>", 3)
    assert hits[0] == HIT
    assert (hits[1].title, hits[1].url, hits[1].snippet) == ("No date", "https://b.example/", "x")
    method, path, asked, header = ASKED[name]
    ((got, target),) = site.asked
    parts = urlsplit(target)
    said = {key: one for key, (one,) in parse_qs(parts.query).items()}
    if method == "POST":
        said = json.loads(site.bodies[0])
    assert (got, parts.path, said) == (method, path, asked)
    assert site.headers[0][header] in ("k-123", "Bearer k-123")
    assert site.headers[0]["accept"] == "application/json"
    assert "k-123" not in repr(engine)
    assert "k-123" not in repr(engine.request("x", 1))


ODD_ANSWERS = [b"", b"<html>", b"[]", b"{}", b"[" * 100_000, b'{"results": 7}']
ODD_FIELDS = [
    b'{"data": null, "results": null, "web": null}',
    b'{"results": [7], "data": [7], "web": {"results": [7]}}',
]


@pytest.mark.parametrize("name", ENGINES)
@on_bounded_time
async def test_an_answer_of_another_kind_is_an_error_or_nothing(name):
    """And no crash: somebody else's service stands there; a refusal is an error with its status, and without the key."""
    site = Site()
    async with open_sites(site):
        engine = ENGINES[name](key=Secret("k-123"), origin=site.origin)
        for answer in (*ODD_ANSWERS, *ODD_FIELDS):
            site.pages["any"] = (200, {}, answer)
            try:
                assert await search_web(engine, asking(engine), "x", 5) == ()
            except FetchFailed as error:
                assert "did not answer like a search engine" in str(error)  # noqa: PT017 - both are right
        site.pages["any"] = (401, {}, b"secret words")
        with pytest.raises(FetchFailed, match="401 Unauthorized") as raised:
            await search_web(engine, asking(engine), "x", 5)
    assert "k-123" not in str(raised.value)


class Told:
    name = "told"

    def __init__(self, origin, found):
        self.origin = origin
        self._found = found

    def request(self, query, max_results):
        return ENGINES["searxng"](key=None, origin=self.origin).request(query, max_results)

    def read(self, _answer):
        return self._found


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
HITS = st.lists(
    st.dictionaries(st.sampled_from(["title", "url", "snippet", "published", "other"]), JSON), max_size=9
)


@given(HITS, st.integers(1, 10))
def test_whatever_hits_an_engine_gives_they_are_plain(found, most):
    """As many as wanted, each address once, all of it short and in one line; what has no address of the web is left out."""

    async def ask():
        site = Site(any=b"{}")
        async with open_sites(site):
            engine = Told(
                site.origin, [{"url": f"https://a.example/{place}", **one} for place, one in enumerate(found)]
            )
            return await search_web(engine, asking(engine), "x", most)

    hits = trio.run(ask)
    assert len(hits) <= most
    assert len({one.url for one in hits}) == len(hits)
    for one in hits:
        assert one.url.startswith(("https://", "http://"))
        for text in (one.title, one.url, one.snippet, one.published):
            assert len(text.splitlines()) <= 1
            assert len(text) <= 2_000


@on_bounded_time
async def test_hits_that_lead_nowhere_and_tags_are_left_out():
    """`javascript:` is no address of a page; entities are read after tags are gone, so that none is made."""
    found = [
        {"url": "javascript:alert(1)", "title": "x"}, {"url": "", "title": "x"}, {"title": "x"}, {"url": "https://a.example/a b"},
        {"url": "https://a.example/ü", "title": "&lt;b&gt; <b>bold</b> a < b", "snippet": 7}, {"url": "https://a.example/ü", "title": "again"},
        {"url": "https://a.example/1", "title": "x" * 300},
    ]  # fmt: skip
    site = Site(any=b"{}")
    async with open_sites(site):
        hits = await search_web(Told(site.origin, found), asking(Told(site.origin, [])), "x", 10)
    assert [(one.url, one.title, one.snippet) for one in hits[:1]] == [
        ("https://a.example/ü", "<b> bold a < b", "")
    ]
    assert len(hits) == 2
    assert len(hits[1].title) == 200


@on_bounded_time
async def test_of_an_answer_with_countless_hits_only_the_first_are_read():
    """Two megabytes of empty ones took two seconds of the event loop."""
    read = []

    def hits():
        for number in range(20_000):
            read.append(number)
            yield {"url": f"https://a.example/{number}"} if number == 900 else {}

    site = Site(any=b"{}")
    async with open_sites(site):
        (found,) = await search_web(Told(site.origin, hits()), asking(Told(site.origin, [])), "x", 10)
    assert found.url == "https://a.example/900"
    assert len(read) < 2_000
