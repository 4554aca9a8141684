"""Fetching over real sockets: where it connects and where it never does (G-019), how much it takes, where redirects lead."""

import gzip
import zlib

import httpx
import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.web.backend import NO_ROOTS
from agentrail.web.exchange import FetchFailed, WebRequest
from agentrail.web.fetcher import FETCH_SECONDS, INFLATED_PIECE_BYTES, BodyRefused, BoundedBody
from agentrail.web.rules import WebRules, read_inside
from agentrail.web.transport import GuardedTransport
from agentrail.web.web_client import MAX_BODY_BYTES, WebClient
from tests.runtime.rig import on_bounded_time
from tests.web.sites import HERE, Names, Site, open_sites
from tests.web.test_addresses import SPELLINGS

HTML = {"Content-Type": "text/html; charset=ISO-8859-1"}


def fetching(*sites, names=HERE, inside=(), **rules):
    """What fetches from sites of this machine by the name `site.example`, and looks names up as it is told."""
    allowed = read_inside([*[site.origin for site in sites], *inside])
    resolve = names if callable(names) else Names(names)
    return WebClient(WebRules(inside=allowed, **rules), resolve=resolve, tls=NO_ROOTS)


@on_bounded_time
async def test_no_spelling_of_this_machine_reaches_it():
    """G-019: with its very port allowed, and whatever a name leads to, nothing connects; one private answer of two refuses the name."""
    site = Site(any=b"secret")
    public = "93.184.216.34"
    async with open_sites(site):
        for host in SPELLINGS:
            for scheme in ("http", "https"):
                with pytest.raises(FetchFailed, match="no request was sent"):
                    await fetching(ports=[site.port]).fetch(f"{scheme}://{host}:{site.port}/")
        for found in (HERE, (public, *HERE), (*HERE, public), ("::1",), ("::ffff:127.0.0.1",), ()):
            with pytest.raises(FetchFailed, match="no request was sent"):
                await fetching(names=found, ports=[site.port]).fetch(f"https://public.example:{site.port}/")
    assert site.connections == 0


@on_bounded_time
async def test_a_name_that_leads_elsewhere_the_second_time_is_looked_up_once():
    """G-019, rebinding: what was judged is what is connected; and the next fetch judges anew."""
    site = Site(any=b"page")
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    async with open_sites(site):  # at 127.0.0.1 alone
        client = WebClient(
            WebRules(ports=[site.port], inside=read_inside(["127.0.0.2/32"])), resolve=names, tls=NO_ROOTS
        )
        with pytest.raises(FetchFailed, match="no TLS connection"):
            await client.fetch(f"https://public.example:{site.port}/")
        assert names.asked == ["public.example"]
        with pytest.raises(FetchFailed, match="no request was sent"):
            await client.fetch(f"https://public.example:{site.port}/")
    assert site.connections == 0


@pytest.mark.parametrize("to", ["//[x", "http://[::1", "http://a\u2100b/"])
@on_bounded_time
async def test_a_redirect_to_no_address_is_a_refusal(to):
    """Whatever a server writes there, in UTF-8 too. A path that looks like one is asked for as it is."""
    site = Site(any=(302, {"Location": to}, b""))
    async with open_sites(site):
        with pytest.raises(FetchFailed, match=r"site\.example redirects to an invalid address"):
            await fetching(site).fetch(site.origin)
        site.pages["%5Bx"] = b"page"
        assert (await fetching(site).fetch(f"{site.origin}//%5Bx")).content == b"page"
        with pytest.raises(FetchFailed, match=r"robots\.txt"):
            await fetching(site, robots=True).fetch(f"{site.origin}//%5Bx")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "to", ["http://127.0.0.1", "https://localhost", "//127.0.0.1", "http://inner.example"]
)
@on_bounded_time
async def test_a_redirect_to_a_private_address_is_not_followed(status, to):
    """G-019: each address is judged anew; one that was allowed allows no other."""
    inner = Site(any=b"secret")
    async with open_sites(inner):
        outer = Site(any=(status, {"Location": f"{to}:{inner.port}/"}, b""))
        async with open_sites(outer):
            client = fetching(outer, ports=[inner.port])
            with pytest.raises(FetchFailed, match="Not fetched, and no request was sent:"):
                await client.fetch(f"{outer.origin}/")
    assert (outer.connections, inner.connections) == (1, 0)


@on_bounded_time
async def test_no_proxy_is_asked_but_that_of_an_operator(monkeypatch):
    """G-019: a proxy of the environment would look names up; the operator's does, and addresses are still judged here."""
    site, proxy = Site(any=b"page"), Site(any=b"from the proxy")
    async with open_sites(site, proxy):
        address = f"http://127.0.0.1:{proxy.port}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, address)
        monkeypatch.setenv("NO_PROXY", "")
        assert (await fetching(site).fetch(site.origin)).content == b"page"
        assert (site.connections, proxy.connections) == (1, 0)
        client = fetching(inside=["http://intra.example:8080"], proxy=address)
        assert (await client.fetch("http://intra.example:8080/x")).content == b"from the proxy"
        assert proxy.asked == [("GET", "http://intra.example:8080/x")]
        with pytest.raises(FetchFailed, match="no request was sent"):
            await client.fetch("https://127.0.0.1/")
    assert proxy.connections == 1


@on_bounded_time
async def test_a_page_comes_with_its_type_and_where_it_stands_after_redirects():
    """Five of them, and six are too many, a circle among them; the name in `Host`, no cookie, one layer of gzip asked for."""
    site = Site(
        any=(200, HTML, b"<p>hello"),
        c=(302, {"Location": "/d"}, b""),
        a=(301, {"Location": "b?x=1", "Set-Cookie": "a=b"}, b""),
    )
    site.pages["b"] = (307, {"Location": "//site.example:0/c"}, b"")
    async with open_sites(site):
        site.pages["b"] = (307, {"Location": f"//site.example:{site.port}/c"}, b"")
        page = await fetching(site).fetch(f"{site.origin}/a#part")
        circle = Site(any=lambda site: (302, {"Location": f"/{len(site.asked)}"}, b""))
        async with open_sites(circle):
            with pytest.raises(FetchFailed, match="over 5 times"):
                await fetching(circle).fetch(circle.origin)
        assert len(circle.asked) == 6
    assert (page.url, page.content) == (f"{site.origin}/d", b"<p>hello")
    assert (page.media_type, page.charset) == ("text/html", "iso-8859-1")
    assert [target for _, target in site.asked] == ["/a", "/b?x=1", "/c", "/d"]
    for one in site.headers:
        assert (one["host"], one["accept-encoding"]) == (f"site.example:{site.port}", "gzip")
        assert "cookie" not in one


@pytest.mark.parametrize(
    "to", ["{other}/x?secret", "//OTHER.example:{port}/", "//b.site.example:{port}/", "//example:{port}/"]
)
@on_bounded_time
async def test_who_was_allowed_one_host_is_led_to_no_other(to):
    """Nothing is sent there, and it is said where that is; on the same host, however it is written, all is as ever."""
    site = Site(b=b"page")
    async with open_sites(site):
        other = site.origin.replace("site", "other")
        hosts = [
            site.origin.replace("site.example", one) for one in ("other.example", "b.site.example", "example")
        ]
        site.pages["a"] = (302, {"Location": f"//SITE.example:{site.port}/b"}, b"")
        site.pages["c"] = (302, {"Location": to.format(other=other, port=site.port)}, b"")
        client = fetching(site, inside=hosts)
        page = await client.fetch(f"{site.origin}/a", stays_on_host=True)
        assert (page.url, page.content) == (f"{site.origin}/b", b"page")
        with pytest.raises(
            FetchFailed, match=r"redirects to another host.* Fetch http://[a-z.]*example:[0-9]+/"
        ):
            await client.fetch(f"{site.origin}/c", stays_on_host=True)
    assert [target for _, target in site.asked] == ["/a", "/b", "/c"]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ((404, {}, b""), "answered 404 Not Found"),
        ((599, {}, b""), "answered 599"),
        ((302, {}, b""), "answered 302"),
        ((302, {"Location": "file:///etc/passwd"}, b""), "file: is not supported"),
        ((302, {"Location": "https://u:p@a.example/"}, b""), "user before its host"),
        ((200, {"Content-Encoding": "br"}, b"x"), "content-encoding is 'br'"),
        ((200, {"Content-Encoding": "gzip, gzip"}, gzip.compress(gzip.compress(b"x"))), "content-encoding"),
        ((200, {"Content-Encoding": "gzip"}, b"no gzip"), "is not"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 1000)[:-9]), "is truncated"),
        ((200, {}, b"x" * 4_097), "4,097 bytes"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 4_097)), "more than 4,096 bytes"),
    ],
)  # fmt: skip
@on_bounded_time
async def test_what_cannot_be_taken_is_an_error_with_its_reason(page, words):
    """And no crash."""
    site = Site(any=page)
    async with open_sites(site):
        with pytest.raises(FetchFailed, match=words):
            await fetching(site).fetch(site.origin, max_bytes=4_096)


def deflated(mebibytes):
    deflater = zlib.compressobj(9, wbits=31)
    return b"".join([*(deflater.compress(bytes(1 << 20)) for _ in range(mebibytes)), deflater.flush()])


BOMB = deflated(24)


@given(st.binary(max_size=2_000), st.integers(1, 300), st.integers(0, 2_500), st.booleans())
def test_a_body_is_the_same_in_any_chunks(content, size, room, is_packed):
    """It is given as a whole where there is room for it, and refused where there is not."""
    sent = gzip.compress(content) if is_packed else content
    body = BoundedBody("gzip" if is_packed else "", max(room, len(sent)) if is_packed else room)
    try:
        for begin in range(0, len(sent), size):
            for _ in body.take(sent[begin : begin + size]):
                pass
        assert body.finish() == content
    except BodyRefused:
        assert not is_packed
        assert len(content) > room


@on_bounded_time
async def test_a_bomb_is_left_when_it_is_too_large_and_the_loop_goes_on():
    """It is inflated in pieces of 64 KiB, up to ten mebibytes, and other tasks have their turns meanwhile."""
    site = Site(any=(200, {"Content-Encoding": "gzip"}, BOMB))
    turns, before = 0, 0

    async def count():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with open_sites(site), trio.open_nursery() as nursery:
        nursery.start_soon(count)
        with pytest.raises(FetchFailed, match="more than 10,485,760 bytes"):
            await fetching(site).fetch(site.origin)
        nursery.cancel_scope.cancel()
    assert turns >= MAX_BODY_BYTES // 65_536
    body = BoundedBody("gzip", MAX_BODY_BYTES)
    with pytest.raises(BodyRefused, match="more than 10,485,760 bytes"):  # noqa: PT012 - it is raised in the middle
        for _ in body.take(BOMB):
            assert len(body.content) - before <= INFLATED_PIECE_BYTES
            before = len(body.content)
    assert before == MAX_BODY_BYTES


async def test_a_page_that_never_ends_is_left_in_time(autojump_clock):
    """All of a fetch takes thirty seconds at most: here the name is never found."""

    async def never(_host, _port):
        await trio.sleep_forever()

    begun = trio.current_time()
    with pytest.raises(FetchFailed, match="over 30 s"):
        await WebClient(WebRules(), resolve=never).fetch("https://slow.example/")
    assert trio.current_time() - begun == pytest.approx(FETCH_SECONDS)


@on_bounded_time
async def test_a_fetch_that_is_cancelled_leaves_no_connection():
    """The server sees its end."""
    begun, ended = trio.Event(), trio.Event()

    async def hang(stream):
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx")
        begun.set()
        assert await stream.receive_some() == b""
        ended.set()

    site = Site()
    site.serve = hang
    async with open_sites(site), trio.open_nursery() as nursery:
        nursery.start_soon(fetching(site).fetch, site.origin)
        await begun.wait()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await ended.wait()


@on_bounded_time
async def test_what_is_no_http_and_a_name_that_leads_nowhere_are_errors():
    """The words of what is no HTTP are not repeated; the transport fits clients of httpx, such as that of MCP's metadata."""

    async def babble(stream):
        await stream.receive_some()
        await stream.send_all(b"SSH-2.0-secret\r\n")
        await stream.aclose()

    async def nowhere(_host, _port):
        await trio.lowlevel.checkpoint()
        raise OSError

    site = Site()
    site.serve = babble
    async with open_sites(site):
        with pytest.raises(FetchFailed, match="not HTTP") as raised:
            await fetching(site).fetch(site.origin)
    assert "secret" not in str(raised.value)
    with pytest.raises(FetchFailed, match="cannot be resolved"):
        await WebClient(WebRules(), resolve=nowhere).fetch("https://nowhere.example/")
    assert issubclass(GuardedTransport, httpx.AsyncBaseTransport)


@on_bounded_time
async def test_a_service_gets_its_key_and_no_redirect_takes_it_along():
    """Neither to another place, nor to the same one."""
    site = Site(ask=b"{}", moved=(307, {"Location": "/ask"}, b""))
    async with open_sites(site):
        client = fetching(site)
        asks, key = f"{site.origin}/ask", {"authorization": "Bearer k"}
        request = WebRequest(method="POST", url=asks, headers=key, content=b'{"q": 1}')
        assert (await client.send(request)).content == b"{}"
        with pytest.raises(FetchFailed, match="answered 307"):
            await client.send(WebRequest(url=f"{site.origin}/moved"))
        with pytest.raises(FetchFailed, match="no request was sent"):
            await client.send(WebRequest(url="https://127.0.0.1/"))
    assert site.headers[0]["authorization"] == "Bearer k"
    assert site.bodies[0] == b'{"q": 1}'
    assert "Bearer" not in repr(request)


@pytest.mark.parametrize(
    ("robots", "is_fetched"),
    [
        (b"User-agent: *\nDisallow: /private", False), (b"User-agent: agentrail\nDisallow: /", False), (b"User-agent: other\nDisallow: /", True),
        ((404, {}, b""), True), ((500, {}, b""), False), (b"x" * 600_000, False), (b"\xff\xfe nonsense", True),
        ("User-agent: *\nCrawl-delay: \u00b2".encode(), False), (b"User-agent: *\nDisallow: //[x", False),
    ],
)  # fmt: skip
@on_bounded_time
async def test_robots_are_heard_where_that_is_wanted(robots, is_fetched):
    """RFC 9309: without a file all is allowed, with a server that is not well nothing. It is asked once in fifteen minutes."""
    site = Site(any=b"page")
    site.pages["robots.txt"] = robots
    async with open_sites(site):
        assert (await fetching(site).fetch(f"{site.origin}/private")).content == b"page"
        client = fetching(site, robots=True)
        for _ in range(2):
            if is_fetched:
                assert await client.fetch(f"{site.origin}/private")
            else:
                with pytest.raises(FetchFailed, match=r"robots\.txt"):
                    await client.fetch(f"{site.origin}/private")
    assert [target for _, target in site.asked].count("/robots.txt") == 1


@pytest.mark.parametrize(
    ("to", "is_fetched"), [("/rules", True), ("//public.example/", False), ("/robots.txt", False)]
)
@on_bounded_time
async def test_robots_are_read_where_a_server_redirects_to(to, is_fetched):
    """RFC 9309, 2.3.1.2. Where that may not be asked, or leads nowhere, nothing is allowed."""
    site = Site(any=b"page", rules=b"User-agent: *\nDisallow: /private")
    site.pages["robots.txt"] = (301, {"Location": to}, b"")
    async with open_sites(site):
        client = fetching(site, robots=True)
        for path, is_allowed in (("open", is_fetched), ("private", False)):
            if is_allowed:
                assert (await client.fetch(f"{site.origin}/{path}")).content == b"page"
            else:
                with pytest.raises(FetchFailed, match=r"\(robots\.txt\)"):
                    await client.fetch(f"{site.origin}/{path}")
