"""Implementation of `WebClient`: connections, redirects, bodies. Each redirect is judged again."""

import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin
from urllib.robotparser import RobotFileParser

import httpx
import trio
from attrs import frozen

from agentrail import outside
from agentrail.web.backend import NO_ROOTS, WEB_CONNECT_SECONDS, GuardedBackend, context_of_system
from agentrail.web.dns import LookUp
from agentrail.web.exchange import Fetched, FetchFailed, PageGone, WebRequest
from agentrail.web.httpx_body import OnePiece, open_raw
from agentrail.web.rules import WebRules, read_web_url
from agentrail.web.transport import GuardedTransport
from agentrail.web.url_policy import AddressRefused, WebAddress, judge_found

# Parsing of `robots.txt` (RFC 9309). Pure.


_MISSING: Final = range(400, 500)
_THERE: Final = range(200, 300)
_MAX_LINES: Final = 5_000


class RobotsTxt:
    """Rules of one server for one program."""

    __slots__ = ("_agent", "_is_missing", "_parser")

    def __init__(self, status: int, content: bytes, agent: str) -> None:
        self._agent = agent
        self._is_missing = status in _MISSING
        self._parser = RobotFileParser()  # allows nothing until it has parsed a file
        if status in _THERE:
            parser = RobotFileParser()
            with suppress(ValueError):  # with an invalid number or address, it is like an unreachable file
                parser.parse(content.decode("utf-8-sig", "replace").splitlines()[:_MAX_LINES])
                self._parser = parser

    def allows(self, target: str) -> bool:
        with suppress(ValueError):  # the library parses the path as an address
            return self._is_missing or self._parser.can_fetch(self._agent, target)
        return False


# Counts the bytes of a body while they arrive and are decompressed, so that memory use never exceeds the
# limit. Pure. httpx would decompress a chunk as a whole, which can grow a thousandfold before it is counted.


INFLATED_PIECE_BYTES: Final = 65_536
"""Maximum bytes decompressed at once."""

_GZIP: Final = 16 + zlib.MAX_WBITS


class BodyRefused(ValueError):
    """A body is not accepted. The text states the reason."""


class BoundedBody:
    """Collects the chunks of one body."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        named = encoding.strip().lower()
        if named not in ("", "identity", "gzip", "x-gzip"):
            message = f"its content-encoding is {named!r:.40}: expected gzip or none, as requested"
            raise BodyRefused(message)
        self._inflater = None if named in ("", "identity") else zlib.decompressobj(_GZIP)
        self._max_bytes = max_bytes
        self._taken = 0
        self.content: bytearray = bytearray()

    def take(self, chunk: bytes) -> Iterator[None]:
        """Process a chunk in pieces, letting other tasks run after each."""
        self._taken += len(chunk)
        if self._inflater is None:
            self._keep(chunk)
            yield
            return
        if self._taken > self._max_bytes:
            raise BodyRefused(self._too_large())
        left = chunk
        while left and not self._inflater.eof:  # data after the end is not part of the body
            try:
                piece = self._inflater.decompress(left, INFLATED_PIECE_BYTES)
            except zlib.error as error:
                message = f"it is declared as gzip but is not: {error}"
                raise BodyRefused(message) from None
            left = self._inflater.unconsumed_tail
            self._keep(piece)
            yield

    def finish(self) -> bytes:
        # An empty body is valid under any encoding.
        if self._inflater is not None and self._taken and not self._inflater.eof:
            message = "its gzip data is truncated"
            raise BodyRefused(message)
        return bytes(self.content)

    def _keep(self, piece: bytes) -> None:
        if len(self.content) + len(piece) > self._max_bytes:
            raise BodyRefused(self._too_large())
        self.content += piece

    def _too_large(self) -> str:
        return f"it has more than {self._max_bytes:,} bytes"


MAX_REDIRECTS: Final = 5
FETCH_SECONDS: Final = 30.0
"""Time limit for a fetch including redirects, in seconds."""

AGENT: Final = "agentrail"
"""Our user agent, also matched by rules in `robots.txt`."""

_ACCEPTED: Final = "text/markdown, text/html;q=0.9, application/pdf;q=0.8, text/plain;q=0.8, */*;q=0.1"
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_MAX_ROBOTS_BYTES: Final = 500 << 10
_MAX_ROBOTS: Final = 100
_ROBOTS_SECONDS: Final = 900.0


@frozen
class _Answer:
    status: int
    headers: httpx.Headers
    content: bytes


class Fetching:
    """Carries out a client's requests."""

    def __init__(self, rules: WebRules, resolve: LookUp, tls: ssl.SSLContext | None) -> None:
        """Store the parts. Nothing is opened yet. See `WebClient`."""
        self.rules: WebRules = rules
        self._resolve = resolve
        self._tls = tls
        self._robots: dict[tuple[str, str, int], tuple[float, RobotsTxt]] = {}

    async def fetch(self, url: str, max_bytes: int, *, stays_on_host: bool = False) -> Fetched:
        """Fetch an address. See `WebClient.fetch`."""
        with trio.move_on_after(FETCH_SECONDS):
            try:
                first = read_web_url(url, self.rules)
                address, answer = await self._redirected(first, max_bytes, stays_on_host=stays_on_host)
            except (AddressRefused, BodyRefused, OSError, httpx.HTTPError) as error:
                raise FetchFailed(_why(error)) from None
            if answer.status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
                raise PageGone(_of_status(answer.status))
            return _fetched(address, answer)
        message = f"Not fetched: it took over {FETCH_SECONDS:g} s. Try another page, or this one later."
        raise FetchFailed(message)

    async def send(self, request: WebRequest, max_bytes: int) -> Fetched:
        """Send one request. See `WebClient.send`."""
        with trio.move_on_after(FETCH_SECONDS):
            try:
                address = read_web_url(request.url, self.rules)
                async with self._connected(address) as transport:
                    answer = await _exchange(transport, address, request, max_bytes)
            except (AddressRefused, BodyRefused, OSError, httpx.HTTPError) as error:
                raise FetchFailed(_why(error)) from None
            return _fetched(address, answer)
        message = f"No answer within {FETCH_SECONDS:g} s."
        raise FetchFailed(message)

    async def _redirected(
        self, first: WebAddress, max_bytes: int, *, is_page: bool = True, stays_on_host: bool = False
    ) -> tuple[WebAddress, _Answer]:
        """Ask an address, and those that it redirects to. Only pages are subject to `robots.txt`."""
        address = first
        for _ in range(MAX_REDIRECTS + 1):
            if is_page and self.rules.robots and not (await self._robots_of(address)).allows(address.target):
                message = f"Not fetched: {address.host} does not want this page to be fetched by programs (robots.txt)."
                raise FetchFailed(message)
            async with self._connected(address) as transport:
                answer = await _exchange(transport, address, WebRequest(url=""), max_bytes)
            if answer.status not in _MOVED or "location" not in answer.headers:
                return address, answer
            try:
                target = urljoin(address.url, answer.headers["location"])
            except ValueError:
                message = f"Not fetched: {address.host} redirects to an invalid address."
                raise FetchFailed(message) from None
            address = read_web_url(target, self.rules)
            if stays_on_host and address.host != first.host:
                message = f"Not fetched: {first.host} redirects to another host, which may not be allowed. Fetch {address.url} itself if you want that page."
                raise FetchFailed(message)
        message = f"Not fetched: it was redirected over {MAX_REDIRECTS} times."
        raise FetchFailed(message)

    @asynccontextmanager
    async def _connected(self, address: WebAddress) -> AsyncIterator[httpx.AsyncBaseTransport]:
        tls = NO_ROOTS
        if self.rules.proxy or address.scheme == "https":
            # Takes 30 ms, which would block the loop.
            if self._tls is None:
                self._tls = await outside.offload(context_of_system)
            tls = self._tls
        transport: httpx.AsyncBaseTransport
        if self.rules.proxy:
            # The proxy resolves names, so only the proxy can judge their addresses.
            transport = httpx.AsyncHTTPTransport(proxy=self.rules.proxy, verify=tls, trust_env=False)
        else:

            def judge(_host: str, _port: int, found: Sequence[str]) -> Sequence[str]:
                return judge_found(address, found, self.rules.inside, is_strict=True)

            transport = GuardedTransport(GuardedBackend(judge, self._resolve), tls)
        async with transport:
            yield transport

    async def _robots_of(self, address: WebAddress) -> RobotsTxt:
        now = outside.stopwatch()  # of the process, because a client may outlive a Trio run
        kept = self._robots.get(address.origin)
        if kept is not None and kept[0] > now:
            return kept[1]
        place = WebAddress(
            scheme=address.scheme, host=address.host, port=address.port, target="/robots.txt", ip=address.ip
        )
        try:
            _, answer = await self._redirected(place, _MAX_ROBOTS_BYTES, is_page=False)
            rules = RobotsTxt(answer.status, answer.content, AGENT)
        except (AddressRefused, BodyRefused, FetchFailed):
            rules = RobotsTxt(httpx.codes.INTERNAL_SERVER_ERROR, b"", AGENT)
        while len(self._robots) >= _MAX_ROBOTS:
            del self._robots[next(iter(self._robots))]
        self._robots[address.origin] = (now + _ROBOTS_SECONDS, rules)
        return rules


async def _exchange(
    transport: httpx.AsyncBaseTransport, address: WebAddress, request: WebRequest, max_bytes: int
) -> _Answer:
    headers = {
        "host": address.host_header,
        "user-agent": AGENT,
        "accept": _ACCEPTED,
        "accept-encoding": "gzip",
        **request.headers,
    }
    if request.content or request.method != "GET":
        headers["content-length"] = str(len(request.content))
    sent = httpx.Request(
        request.method,
        address.url,
        headers=headers,
        stream=OnePiece(request.content),
        extensions={"timeout": {"connect": WEB_CONNECT_SECONDS}},
    )
    response = await transport.handle_async_request(sent)
    async with open_raw(response) as chunks:
        if not httpx.codes.is_success(response.status_code):
            return _Answer(response.status_code, response.headers, b"")
        return _Answer(response.status_code, response.headers, await _body_of(response, chunks, max_bytes))


async def _body_of(response: httpx.Response, chunks: AsyncIterator[bytes], max_bytes: int) -> bytes:
    said = response.headers.get("content-length", "")
    if said.isdecimal() and int(said[:20]) > max_bytes:
        message = f"it declares {int(said[:20]):,} bytes, at most {max_bytes:,} are fetched"
        raise BodyRefused(message)
    body = BoundedBody(response.headers.get("content-encoding", ""), max_bytes)
    async for chunk in chunks:
        for _ in body.take(chunk):
            await trio.lowlevel.checkpoint()
    return body.finish()


def _fetched(address: WebAddress, answer: _Answer) -> Fetched:
    if not httpx.codes.is_success(answer.status):
        raise FetchFailed(_of_status(answer.status))
    media_type, _, parameters = answer.headers.get("content-type", "").partition(";")
    _, _, charset = parameters.lower().partition("charset=")
    return Fetched(
        url=address.url,
        media_type=media_type.strip().lower(),
        charset=charset.partition(";")[0].strip(" \"'"),
        content=answer.content,
    )


def _of_status(status: int) -> str:
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    return f"Not fetched: the server answered {status}{phrase}."


def _why(error: Exception) -> str:
    """Return the reason of a failure, without text from strangers."""
    match error:
        case AddressRefused():
            return f"Not fetched, and no request was sent: {error}."
        case BodyRefused():
            return f"Not fetched: {error}."
        case OSError():
            return "Not fetched: its host name cannot be resolved. Check the address."
        case httpx.TimeoutException() | httpx.ConnectError():
            return f"Not fetched: no TLS connection could be made in time ({type(error).__name__})."
        case _:
            return (
                f"Not fetched: the connection broke, or the response was not HTTP ({type(error).__name__})."
            )
