"""HTTP: the only module that knows the HTTP library. No wire format of a vendor enters this file.

Its successor keeps the interface, so that a change of library is a change of this file. `HttpClients` belongs to one
supervisor; it has a pooled client per origin, because scans of a pool grow with its streams, and one TLS context for
all of them, because making one costs milliseconds. Both are made on first use: who only runs `demo` pays for neither.
"""

import codecs
import datetime
import ipaddress
import logging
import ssl
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from socket import gaierror
from types import MappingProxyType, TracebackType
from typing import Final, Self, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx
import httpx_sse
import trio
from attrs import field, frozen

from agentrail import outside
from agentrail.errors import ProtocolError, ProviderError, Timeout, Transport
from agentrail.errors.advice import Advice, advise, setting, with_advice
from agentrail.logs import Logger
from agentrail.providers.failures import Answer, Vendor, failure_of, is_vendor_itself, scrubbed
from agentrail.providers.json_text import shown
from agentrail.web.one_piece import OnePiece

# Why a connection failed.
#
# The library gives one class to a host without a name, a port without a server and a certificate that is not trusted. What they
# are stands in its causes, which are the standard library's. No HTTP library enters this file.

_MAX_CAUSES: Final = 100

_CAUSES: Final[tuple[tuple[type[BaseException], Advice], ...]] = (
    (ssl.SSLCertVerificationError, Advice.CERTIFICATE),  # the special before the general: it is an SSLError
    (ssl.SSLError, Advice.NO_TLS),
    (gaierror, Advice.NO_SUCH_HOST),
    (ConnectionRefusedError, Advice.REFUSED),
)


def why_unreachable(error: BaseException) -> Advice:
    """Say what is in the way of a connection, by the first cause in the table that is there."""
    found = tuple(causes_of(error))
    for kind, advice in _CAUSES:
        if any(isinstance(cause, kind) for cause in found):
            return advice
    return Advice.UNREACHABLE


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all that led to it, also where several attempts failed side by side; not for ever."""
    waiting, seen = [error], {id(error)}
    while waiting and len(seen) <= _MAX_CAUSES:
        current = waiting.pop()
        yield current
        inside = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        for cause in (current.__cause__, current.__context__, *inside):
            if cause is not None and id(cause) not in seen:
                seen.add(id(cause))
                waiting.append(cause)


LOGGER: Final = Logger("agentrail.providers")

MAX_EVENT_BYTES: Final = 4 << 20
MAX_RESPONSE_BYTES: Final = 64 << 20
_MAX_REFUSAL_BYTES: Final = 64 << 10  # of a body that only becomes an error text

# No limit to connections: the default of 100 would make the 101st session wait. No read timeout: whether a stream
# that went silent is given up is decided by the session, and until the first chunk there is a deadline of our own.
_TIMEOUT: Final = httpx.Timeout(connect=10, read=None, write=30, pool=30)
_LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60)
_CLOSING_SECONDS: Final = 2.0
_PLAIN: Final[Mapping[str, str]] = MappingProxyType({"accept-encoding": "identity"})
_WINDOWS: Final[Mapping[str, int]] = MappingProxyType(
    {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
)
_UNPACKED_AT_A_TIME: Final = 1 << 16


@frozen(kw_only=True)
class Post:
    """One request, complete.

    Attributes:
        url: Where it goes.
        headers: All that we set; the key is among them.
        body: JSON, encoded.
        vendor: Who answers, for error texts.
        verify: As in `ProviderOptions`.
        trust_env: As in `ProviderOptions`.
        http2: As in `ProviderOptions`.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    vendor: Vendor
    verify: bool | str = True
    trust_env: bool = True
    http2: bool = False


@frozen(kw_only=True)
class HttpStatistics:
    """What the clients of a supervisor are doing.

    Attributes:
        origins: The servers that have a client, sorted.
        requests: How many were sent, answered or not.
        open_responses: How many are being read now; each holds a connection.
        ignored_events: How many events of streams were of an unknown kind, or came behind the end.
    """

    origins: tuple[str, ...]
    requests: int
    open_responses: int
    ignored_events: int


class LastActivity:
    """When a server last sent anything of an answer: an event, a comment to keep the line open, or a part of either.

    Attributes:
        beat_at: On Trio's clock; None before the first byte.
        has_ended: Whether the answer was read to its end.
    """

    __slots__ = ("_now", "beat_at", "has_ended")

    def __init__(self) -> None:
        self.beat_at: float | None = None
        self.has_ended: bool = False
        self._now = trio.lowlevel.current_clock().current_time  # asked for with each piece of an answer

    def touch(self) -> None:
        """Note that something came."""
        self.beat_at = self._now()


class HttpClients:
    """The HTTP clients of one supervisor. Leaving the block, or `aclose`, closes every connection."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, bool | str, bool, bool], httpx.AsyncClient] = {}
        self._contexts: dict[bool | str, ssl.SSLContext] = {}
        self._requests = 0
        self._open_responses = 0
        self._ignored_events = 0
        # Open responses by the connection of HTTP/2 that they come over.
        self._sharing: Counter[int] = Counter()
        self._has_warned = False
        self._is_closed = False

    def __repr__(self) -> str:
        """Show what `statistics` says."""
        return f"HttpClients({self.statistics()!r})"

    async def __aenter__(self) -> Self:
        """Do nothing yet: clients are made when they are needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; again if you like.

        Cancellation: Shielded, for two seconds at most; what is not closed politely by then is closed all the same.
        """
        self._is_closed = True
        with trio.move_on_after(_CLOSING_SECONDS, shield=True):
            while self._clients:
                _, client = self._clients.popitem()
                await client.aclose()
        await trio.lowlevel.checkpoint()

    def statistics(self) -> HttpStatistics:
        """Say what is going on."""
        return HttpStatistics(
            origins=tuple(sorted({origin for origin, *_ in self._clients})),
            requests=self._requests,
            open_responses=self._open_responses,
            ignored_events=self._ignored_events,
        )

    def note_ignored(self, events: int) -> None:
        """Count events that were not understood; a vendor that invents some is no failure, and no secret either."""
        self._ignored_events += events

    @asynccontextmanager
    async def open_events(
        self, post: Post, *, deadline: float, activity: LastActivity
    ) -> AsyncIterator[AsyncIterator[str]]:
        """Send a request; the iterator gives the data of each event of the answer.

        An answer that is one JSON document is given as one event, because that is how some servers report an error,
        or answer who asked for a stream.

        Args:
            post: The request.
            deadline: When the answer must have begun, on Trio's clock.
            activity: Touched with each piece of the answer that comes.

        Raises:
            ProviderError: On entering or while iterating: no connection, a broken one, a refusal, or no stream.

        Cancellation: Leaving the block, by whatever way, closes the connection or gives it back.
        """
        client = self._client_for(post)
        self._requests += 1
        self._open_responses += 1
        try:
            headers = {**_PLAIN, **post.headers}
            request = client.build_request("POST", post.url, headers=headers, content=post.body)
            request.stream = OnePiece(post.body)
            with _translated(post.vendor), _answered_by(deadline, post.vendor):
                response = await client.send(request, stream=True)
            async with (
                self._closed_behind(response, activity),
                aclosing(_events(response, post.vendor, activity)) as events,
            ):
                yield events
        finally:
            self._open_responses -= 1

    @asynccontextmanager
    async def _closed_behind(self, response: httpx.Response, activity: LastActivity) -> AsyncIterator[None]:
        """Close a response, and over HTTP/2 its connection, if it was left early and no other request uses that.

        The library forgets a stream that is left and tells the server nothing, which then writes it to its end. Only what
        shares its connection with others has to be left to that.
        """
        network = response.extensions["network_stream"] if response.http_version == "HTTP/2" else None
        self._sharing[id(network)] += 1
        try:
            yield
        finally:
            self._sharing[id(network)] -= 1
            is_alone = not self._sharing[id(network)]
            await response.aclose()  # noqa: ASYNC102 - closes a socket, or waits for a lock that is never held for long
            if network is not None and is_alone and not activity.has_ended:
                with suppress(httpx.HTTPError):
                    await network.aclose()  # noqa: ASYNC102 - as above
            self._sharing += Counter()  # drops what is 0

    async def get_text(self, url: str, *, headers: Mapping[str, str], vendor: Vendor) -> str:
        """Fetch a document, such as a list of models, and return its text.

        Args:
            url: Where it is.
            headers: All that we set; the key is among them.
            vendor: Who answers, for error texts.

        Raises:
            ProviderError: No connection, a broken one, or any answer but 200.

        Cancellation: Closes the connection. There is no time limit but the caller's.
        """
        client = self._client_for(Post(url=url, headers=headers, body=b"", vendor=vendor))
        self._requests += 1
        with _translated(vendor):
            async with client.stream("GET", url, headers={**_PLAIN, **headers}) as response:
                if response.status_code != httpx.codes.OK:
                    raise failure_of(_answer(response, await _read_refusal(response)), vendor)
                return await _read_document(response)

    async def post_text(self, post: Post) -> str:
        """Send a request and return the document that answers it, whole.

        Raises:
            ProviderError: No connection, a broken one, or any answer but 200.

        Cancellation: Closes the connection. There is no time limit but the caller's.
        """
        client = self._client_for(post)
        self._requests += 1
        headers = {**_PLAIN, **post.headers}
        with _translated(post.vendor):
            async with client.stream("POST", post.url, headers=headers, content=post.body) as response:
                if response.status_code != httpx.codes.OK:
                    raise failure_of(_answer(response, await _read_refusal(response)), post.vendor)
                return await _read_document(response)

    def _client_for(self, post: Post) -> httpx.AsyncClient:
        if self._is_closed:
            message = "the HTTP clients are closed: the supervisor that they belong to has ended"
            raise trio.ClosedResourceError(message)
        parts = urlsplit(post.url)
        self._warn_of_plain_text(parts.scheme, parts.hostname or "", post)
        key = (f"{parts.scheme}://{parts.netloc}", post.verify, post.trust_env, post.http2)
        client = self._clients.get(key)
        if client is None:
            _keep_headers_out_of_logs()
            client = self._clients[key] = httpx.AsyncClient(
                verify=self._context(post.verify) if _may_need_tls(parts.scheme, post) else _NO_ROOTS,
                trust_env=post.trust_env,
                http2=post.http2,
                limits=_LIMITS,
                timeout=_TIMEOUT,
                follow_redirects=False,  # a key must not travel to another host
            )
        return client

    def _context(self, verify: bool | str) -> ssl.SSLContext:  # noqa: FBT001 - the option's own shape
        context = self._contexts.get(verify)
        if context is None:
            context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
            if verify is False:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self._contexts[verify] = context
        return context

    def _warn_of_plain_text(self, scheme: str, host: str, post: Post) -> None:
        if scheme == "http" and post.vendor.secrets and not self._has_warned and not _is_loopback(host):
            self._has_warned = True
            LOGGER.warning("a key travels unencrypted: use https:// or an address of this machine", host=host)


def _keep_headers_out_of_logs() -> None:
    """Raise the level of loggers that write headers, and so the key, when all of a program logs at DEBUG.

    One writes those of requests with HTTP/2, the other those of answers, where a server may say again what it was told. A
    level is process-wide, which nothing else here is; a key in a log file is worse. A level that the program sets stays.
    """
    for name in ("hpack", "httpcore"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)


# Certificates of all authorities take 30 ms to load, in the loop; a server of the loopback shows none.
_NO_ROOTS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _may_need_tls(scheme: str, post: Post) -> bool:
    """Say whether there may be a certificate to look at: of the server, or of a proxy on the way to it."""
    if scheme != "http":
        return True
    proxies = getproxies() if post.trust_env else {}
    # Those for other servers do not count, nor does `no_proxy`, which is among them.
    return any(proxies.get(kind, "").lower().startswith("https:") for kind in ("http", "all"))


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# --- reading an answer


async def _events(
    response: httpx.Response, vendor: Vendor, activity: LastActivity
) -> AsyncGenerator[str, None]:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    with _translated(vendor):
        if response.status_code == httpx.codes.OK and kind == "text/event-stream":
            metered = _Metered(response, activity)
            # The event source reads two members of a response, and ours has both.
            source = httpx_sse.EventSource(cast("httpx.Response", metered))
            async with aclosing(metered), aclosing(source.aiter_sse()) as events:
                async for event in events:
                    metered.since_event_bytes = 0
                    if event.data:
                        yield event.data  # noqa: ASYNC119 - the iterating caller closes this generator with `aclosing`
            activity.has_ended = True
        elif response.status_code == httpx.codes.OK and kind == "application/json":
            document = await _read_document(response)
            activity.has_ended = True
            yield document  # noqa: ASYNC119 - as above
        else:
            raise failure_of(_answer(response, await _read_refusal(response)), vendor)


def _answer(response: httpx.Response, body: str) -> Answer:
    return Answer(
        status=response.status_code,
        headers=MappingProxyType({name.lower(): text for name, text in response.headers.items()}),
        body=body,
        now=datetime.datetime.fromtimestamp(outside.wall(), datetime.UTC),
        url=str(response.request.url),
    )


async def _read_document(response: httpx.Response) -> str:
    """Read a body that must be whole; one that is too long for what it is to be read as is refused."""
    body, max_bytes = bytearray(), min(MAX_EVENT_BYTES, MAX_RESPONSE_BYTES)
    async with _open_pieces(response) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > max_bytes:
                message = f"the answer is longer than {max_bytes} bytes: it is given up"
                raise ProtocolError(message)
    return body.decode("utf-8", "replace")


async def _read_refusal(response: httpx.Response) -> str:
    """Read the beginning of a body that only becomes an error text; of one that cannot be read, why."""
    body = bytearray()
    try:
        async with _open_pieces(response) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) >= _MAX_REFUSAL_BYTES:
                    break
    except ProtocolError as error:  # its status says more than how it was packed
        return str(error)
    return body[:_MAX_REFUSAL_BYTES].decode("utf-8", "replace")


@asynccontextmanager
async def _open_pieces(response: httpx.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """Give a body in pieces; leaving early closes the connection.

    The library nests generators that do not close each other: left early, the inner ones would wait for the garbage
    collector, which may come at any time and in any task. Read on from a closed connection, they all end at once.
    """
    # Never the library's own unpacking: it makes a gigabyte of a piece before it hands it on.
    raw = response.aiter_raw()
    try:
        unpack = _unpacking(response)
        yield raw if unpack is None else _unpacked(raw, unpack)
    finally:
        await response.aclose()  # noqa: ASYNC102 - closes the socket before it could wait; bounded by the pool
        # Cancelled, because a connection of HTTP/2 that others use is still open, and reading from it would wait.
        with suppress(httpx.HTTPError, httpx.StreamError), trio.CancelScope() as scope:
            scope.cancel()
            async for _ in raw:  # noqa: ASYNC102 - ends at once, the connection is closed
                pass


def _unpacking(response: httpx.Response) -> "zlib._Decompress | None":
    """Say how a body is to be unpacked: not at all, unless the options asked for one of two packings by a header."""
    said = response.headers.get("content-encoding", "").strip().lower()
    if said in {"", "identity"}:
        return None
    asked = {
        one.partition(";")[0].strip().lower()
        for one in response.request.headers["accept-encoding"].split(",")
    }
    if said not in asked or said not in _WINDOWS:
        message = (
            f"the answer is packed ({shown(said)}), which was not asked for: "
            "switch that off at the server or the proxy, or look at base_url"
        )
        raise ProtocolError(message)
    return zlib.decompressobj(_WINDOWS[said])


async def _unpacked(pieces: AsyncIterator[bytes], unpack: "zlib._Decompress") -> AsyncGenerator[bytes, None]:
    """Unpack as much at a time as may be held; the reader counts it and stops."""
    try:
        async for piece in pieces:
            left = piece
            while left:
                if data := unpack.decompress(left, _UNPACKED_AT_A_TIME):
                    yield data  # noqa: ASYNC119 - what it reads from is closed by `_open_pieces`
                    await trio.lowlevel.checkpoint()
                left = unpack.unconsumed_tail
    except zlib.error:
        message = "the answer is not packed as its content-encoding says"
        raise ProtocolError(message) from None


class _Metered:
    """A response that stops a stream which would fill the memory, and reads it as UTF-8 whatever its header says."""

    def __init__(self, response: httpx.Response, activity: LastActivity) -> None:
        self.headers = response.headers
        self._texts = self._read(response, activity)
        self.since_event_bytes = 0

    def aiter_text(self) -> AsyncIterator[str]:
        return self._texts

    async def aclose(self) -> None:
        """Stop reading; the event source does not close what it reads from."""
        await self._texts.aclose()

    async def _read(self, response: httpx.Response, activity: LastActivity) -> AsyncGenerator[str, None]:
        # What the incremental decoder does, without its three calls of Python for each piece.
        half, is_first = b"", True
        total_bytes = 0
        async with _open_pieces(response) as pieces:
            async for piece in pieces:
                activity.touch()
                size = len(piece)
                total_bytes += size
                self.since_event_bytes += size
                if self.since_event_bytes > MAX_EVENT_BYTES:
                    message = f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes: it is given up"
                    raise ProtocolError(message)
                if total_bytes > MAX_RESPONSE_BYTES:
                    message = f"the stream is longer than {MAX_RESPONSE_BYTES} bytes: it is given up"
                    raise ProtocolError(message)
                data = half + piece if half else piece
                if is_first:
                    if len(data) < len(codecs.BOM_UTF8) and codecs.BOM_UTF8.startswith(data):
                        half = data
                        continue
                    is_first, data = False, data.removeprefix(codecs.BOM_UTF8)
                text, taken = codecs.utf_8_decode(data, "replace", False)  # noqa: FBT003 - the interpreter's own
                half = data[taken:]
                if text:
                    yield text  # noqa: ASYNC119 - closed by `_Metered.aclose`


# --- foreign exceptions, translated once

_TRANSLATION: Final[Mapping[type[httpx.HTTPError], tuple[type[ProviderError], str]]] = MappingProxyType(
    {
        httpx.ConnectTimeout: (Timeout, "did not accept the connection in time"),
        httpx.WriteTimeout: (Timeout, "did not take the request in time"),
        httpx.TimeoutException: (Timeout, "took too long"),
        httpx.ConnectError: (Transport, "cannot be reached"),
        httpx.ProxyError: (Transport, "cannot be reached through the proxy"),
        httpx.HTTPError: (Transport, "lost the connection before the answer was complete"),
    }
)
"""From the special to the general; the first that fits counts."""


@contextmanager
def _translated(vendor: Vendor) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        # Not chained: the original carries the request, and with it the key, to the code that logs what is chained.
        raise _translate(error, vendor) from None


def _translate(error: httpx.HTTPError, vendor: Vendor) -> ProviderError:
    kind, words = next(entry for foreign, entry in _TRANSLATION.items() if isinstance(error, foreign))
    detail = scrubbed(shown(str(error)), vendor.secrets) or type(error).__name__
    advice = _advice_of(error, vendor)
    is_distrusted = advice is Advice.CERTIFICATE
    if is_distrusted:
        words = "showed a certificate that is not trusted"
    elif advice is not None and vendor.base_url:
        words = f"{words} at {vendor.base_url}"
    told = (
        ""
        if advice is None
        else advise(advice, setting=_SETTINGS.get(advice, ""), host=urlsplit(vendor.base_url).hostname or "")
    )
    # The same certificate comes next time.
    return kind(
        with_advice(f"{vendor.name} {words}: {detail}", told), retryable=False if is_distrusted else None
    )


_SETTINGS: Final[Mapping[Advice, str]] = MappingProxyType(
    {
        Advice.CERTIFICATE: setting("verify", "/path/to/authority.pem"),
        Advice.PROXY: setting("trust_env", False),  # noqa: FBT003 - the value of an option
    }
)


def _advice_of(error: httpx.HTTPError, vendor: Vendor) -> Advice | None:
    if isinstance(error, httpx.ProxyError):
        return Advice.PROXY
    if isinstance(error, httpx.ConnectError):
        why = why_unreachable(error)
        is_network = why in {Advice.NO_SUCH_HOST, Advice.REFUSED, Advice.UNREACHABLE}
        return Advice.NO_NETWORK if is_network and is_vendor_itself(vendor) else why
    # In the middle of an answer as well: over HTTP/2 a handshake may come late.
    return Advice.CERTIFICATE if why_unreachable(error) is Advice.CERTIFICATE else None


@contextmanager
def _answered_by(deadline: float, vendor: Vendor) -> Iterator[None]:
    """Turn a deadline into the error of a provider. For a single await: nothing may be yielded inside."""
    try:
        with trio.fail_at(deadline):
            yield
    except trio.TooSlowError:
        advice = advise(Advice.NO_ANSWER, setting=setting("timeout"))
        raise Timeout(with_advice(f"{vendor.name} did not begin to answer in time", advice)) from None


async def next_before(events: AsyncIterator[str], deadline: float, vendor: Vendor) -> str | None:
    """Wait for the next event; None at the end of the stream.

    Raises:
        Timeout: The vendor's move: the deadline, on Trio's clock, is over.
    """
    with _answered_by(deadline, vendor):
        return await anext(events, None)
