"""HTTP: the only module that uses the HTTP library. It contains no vendor's wire format."""

import codecs
import datetime
import logging
import ssl
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from socket import gaierror
from types import MappingProxyType
from typing import Final, cast
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
from agentrail.web.backend import NO_ROOTS
from agentrail.web.httpx_body import OnePiece, open_raw
from agentrail.wire.sandbox_address import is_loopback_host

# Causes of a failed connection.
#
# The library raises one class for an unknown host, a closed port and an untrusted certificate. The difference is in the
# exception's causes, which come from the standard library. This part uses no HTTP library.

_MAX_CAUSES: Final = 100

_CAUSES: Final[tuple[tuple[type[BaseException], Advice], ...]] = (
    (ssl.SSLCertVerificationError, Advice.CERTIFICATE),  # before SSLError, its base class
    (ssl.SSLError, Advice.NO_TLS),
    (gaierror, Advice.NO_SUCH_HOST),
    (ConnectionRefusedError, Advice.REFUSED),
)


def why_unreachable(error: BaseException) -> Advice:
    """Return the advice for a failed connection, from the first known cause in the table."""
    found = tuple(causes_of(error))
    for kind, advice in _CAUSES:
        if any(isinstance(cause, kind) for cause in found):
            return advice
    return Advice.UNREACHABLE


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, including those of parallel attempts. Limited, so that cycles end."""
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
_MAX_REFUSAL_BYTES: Final = 64 << 10  # of a body used only in an error message
_REFUSAL_SECONDS: Final = 5.0

# No limit on connections: with the default of 100, the 101st session would wait. No read timeout: the session decides
# when to give up a silent stream, and the first chunk has its own deadline.
_TIMEOUT: Final = httpx.Timeout(connect=10, read=None, write=30, pool=30)
_LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60)
_CLOSING_SECONDS: Final = 2.0
_WINDOWS: Final[Mapping[str, int]] = MappingProxyType(
    {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
)
_UNPACKED_AT_A_TIME: Final = 1 << 16


@frozen(kw_only=True)
class Post:
    """One complete request.

    Attributes:
        url: Address of the request.
        headers: All headers that we set, including the key.
        body: The encoded JSON.
        vendor: The vendor, for error messages.
        verify: Same as in `ProviderOptions`.
        trust_env: Same as in `ProviderOptions`.
        http2: Same as in `ProviderOptions`.
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
    """Current state of a supervisor's clients.

    Attributes:
        origins: Servers that have a client, sorted.
        requests: Number of requests sent, answered or not.
        open_responses: Number of responses being read. Each holds a connection.
        ignored_events: Number of stream events that were of an unknown kind or came after the end.
    """

    origins: tuple[str, ...]
    requests: int
    open_responses: int
    ignored_events: int


class LastActivity:
    """Time of the last data from a server: an event, a keep-alive comment, or part of either.

    Attributes:
        beat_at: On Trio's clock, or None before the first byte.
        has_ended: Whether the response was read to its end.
    """

    __slots__ = ("_now", "beat_at", "has_ended")

    def __init__(self) -> None:
        self.beat_at: float | None = None
        self.has_ended: bool = False
        self._now = trio.lowlevel.current_clock().current_time  # called for each piece of a response

    def touch(self) -> None:
        """Record that data arrived."""
        self.beat_at = self._now()


class HttpClients(trio.abc.AsyncResource):
    """The HTTP clients of one supervisor. Leaving the block, or `aclose`, closes every connection."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, bool | str, bool, bool], httpx.AsyncClient] = {}
        self._contexts: dict[bool | str, ssl.SSLContext] = {}
        self._requests = 0
        self._open_responses = 0
        self._ignored_events = 0
        # Open responses per HTTP/2 connection.
        self._sharing: Counter[int] = Counter()
        self._has_warned = False
        self._is_closed = False

    def __repr__(self) -> str:
        return f"HttpClients({self.statistics()!r})"

    async def aclose(self) -> None:
        """Close all connections. Idempotent.

        Cancellation: Shielded for at most two seconds. After that, remaining connections are closed without a handshake.
        """
        self._is_closed = True
        with trio.move_on_after(_CLOSING_SECONDS, shield=True):
            while self._clients:
                _, client = self._clients.popitem()
                await client.aclose()
        await trio.lowlevel.cancel_shielded_checkpoint()  # or it would hide an error of the block

    def statistics(self) -> HttpStatistics:
        """Return the current statistics."""
        return HttpStatistics(
            origins=tuple(sorted({origin for origin, *_ in self._clients})),
            requests=self._requests,
            open_responses=self._open_responses,
            ignored_events=self._ignored_events,
        )

    def note_ignored(self, events: int) -> None:
        """Count stream events that were not understood. New event kinds are not a failure, but should be visible."""
        self._ignored_events += events

    @asynccontextmanager
    async def open_events(
        self, post: Post, *, deadline: float, activity: LastActivity
    ) -> AsyncIterator[AsyncIterator[str]]:
        """Send a request. The iterator yields the data of each event in the response.

        A response that is a single JSON document counts as one event: some servers report errors, or answer stream requests,
        in this way.

        Args:
            post: The request.
            deadline: Deadline for the start of the response, on Trio's clock.
            activity: Updated with each piece of the response.

        Raises:
            ProviderError: On entering or while iterating: no connection, a broken one, a refusal, or not a stream.

        Cancellation: Leaving the block always closes the connection or returns it to the pool.
        """
        client = self._client_for(post)
        self._requests += 1
        self._open_responses += 1
        try:
            request = client.build_request("POST", post.url, headers=post.headers, content=post.body)
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
        """Close a response that was left early. Over HTTP/2, close its connection too, unless other requests use it.

        The library drops an abandoned stream without notifying the server, which then sends it to the end. This is accepted
        only for a shared connection.
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
            self._sharing += Counter()  # drops zero counts

    async def get_text(self, url: str, *, headers: Mapping[str, str], vendor: Vendor) -> str:
        """Fetch a document, such as a list of models, and return its text.

        Args:
            url: Address of the document.
            headers: All headers that we set, including the key.
            vendor: The vendor, for error messages.

        Raises:
            ProviderError: No connection, a broken one, or a status other than 200.

        Cancellation: Closes the connection. Only the caller's time limit applies.
        """
        post = Post(url=url, headers=headers, body=b"", vendor=vendor)
        return await self._text_of("GET", post, MAX_EVENT_BYTES)

    async def post_text(self, post: Post, *, max_bytes: int) -> str:
        """Send a request and return the whole response document.

        Raises:
            ProviderError: No connection, a broken one, a status other than 200, or a document over the limit.

        Cancellation: Closes the connection. Only the caller's time limit applies.
        """
        return await self._text_of("POST", post, max_bytes)

    async def _text_of(self, method: str, post: Post, max_bytes: int) -> str:
        client = self._client_for(post)
        self._requests += 1
        with _translated(post.vendor):
            async with client.stream(method, post.url, headers=post.headers, content=post.body) as response:
                if response.status_code != httpx.codes.OK:
                    raise failure_of(_answer(response, await _read_refusal(response)), post.vendor)
                return await _read_document(response, max_bytes)

    def _client_for(self, post: Post) -> httpx.AsyncClient:
        if self._is_closed:
            message = "the HTTP clients are closed: their supervisor has ended"
            raise trio.ClosedResourceError(message)
        parts = urlsplit(post.url)
        self._warn_of_plain_text(parts.scheme, parts.hostname or "", post)
        key = (f"{parts.scheme}://{parts.netloc}", post.verify, post.trust_env, post.http2)
        client = self._clients.get(key)
        if client is None:
            _keep_headers_out_of_logs()
            with _refused_settings(post.vendor):
                client = self._clients[key] = httpx.AsyncClient(
                    # Compressed data arrives in larger pieces, and so later.
                    headers={"accept-encoding": "identity"},
                    # Loading all certificate authorities takes 30 ms and blocks the loop.
                    verify=self._context(post.verify) if _may_need_tls(parts.scheme, post) else NO_ROOTS,
                    trust_env=post.trust_env,
                    http2=post.http2,
                    limits=_LIMITS,
                    timeout=_TIMEOUT,
                    follow_redirects=False,  # the key must not reach another host
                    event_hooks={"response": [_hide_redirect]},
                    # Sessions share this client, and a cookie of one must not travel with the key of another.
                    cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
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
    """Raise the level of loggers that write headers, and with them the key, when a program logs everything at DEBUG."""
    # One logs HTTP/2 request headers, the other response headers, where a server may repeat its input. Levels are process-wide,
    # unlike everything else here, but a key in a log file is worse. A level that the program has set stays.
    for name in ("hpack", "httpcore"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)


def _may_need_tls(scheme: str, post: Post) -> bool:
    """Return whether a certificate may have to be verified, of the server or of a proxy."""
    if scheme != "http":
        return True
    proxies = getproxies() if post.trust_env else {}
    # Proxies for other schemes do not count, nor does `no_proxy`, which is in the same mapping.
    return any(proxies.get(kind, "").lower().startswith("https:") for kind in ("http", "all"))


def _is_loopback(host: str) -> bool:
    return host.endswith(".localhost") or is_loopback_host(host)


# --- reading an answer


async def _events(
    response: httpx.Response, vendor: Vendor, activity: LastActivity
) -> AsyncGenerator[str, None]:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    with _translated(vendor):
        if response.status_code == httpx.codes.OK and kind == "text/event-stream":
            metered = _Metered(response, activity)
            # The event source uses two members of a response, and `_Metered` has both.
            source = httpx_sse.EventSource(cast("httpx.Response", metered))
            async with aclosing(metered), aclosing(source.aiter_sse()) as events:
                async for event in events:
                    metered.since_event_bytes = 0
                    if event.data:
                        yield event.data  # noqa: ASYNC119 - the iterating caller closes this generator with `aclosing`
            activity.has_ended = True
        elif response.status_code == httpx.codes.OK and kind == "application/json":
            document = await _read_document(response, MAX_EVENT_BYTES)
            activity.has_ended = True
            yield document  # noqa: ASYNC119 - as above
        else:
            raise failure_of(_answer(response, await _read_refusal(response)), vendor)


async def _hide_redirect(response: httpx.Response) -> None:  # noqa: RUF029 - httpx awaits its hooks
    # The library parses the target even if it does not follow it, and fails for some with errors of several types.
    if response.has_redirect_location:
        response.extensions["location"] = response.headers.pop("location")


def _answer(response: httpx.Response, body: str) -> Answer:
    headers = {name.lower(): text for name, text in response.headers.items()}
    return Answer(
        status=response.status_code,
        headers=MappingProxyType({"location": response.extensions.get("location", ""), **headers}),
        body=body,
        now=datetime.datetime.fromtimestamp(outside.wall(), datetime.UTC),
        url=str(response.request.url),
    )


async def _read_document(response: httpx.Response, max_bytes: int) -> str:
    body = bytearray()
    async with _open_pieces(response) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > max_bytes:
                message = f"the answer is longer than {max_bytes} bytes, so the request was abandoned"
                raise ProtocolError(message)
    return body.decode("utf-8", "replace")


async def _read_refusal(response: httpx.Response) -> str:
    """Read the beginning of a body for an error message, for a short time. If it cannot be read, return the reason."""
    body = bytearray()
    try:
        with trio.move_on_after(_REFUSAL_SECONDS):
            async with _open_pieces(response) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) >= _MAX_REFUSAL_BYTES:
                        break
    except (ProtocolError, httpx.HTTPError) as error:  # the status is more useful than the error of its body
        return str(error)
    return body[:_MAX_REFUSAL_BYTES].decode("utf-8", "replace")


@asynccontextmanager
async def _open_pieces(response: httpx.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield a body in pieces, decompressed here: the library expands a piece to a gigabyte before it returns it."""
    async with open_raw(response) as raw:
        unpack = _unpacking(response)
        yield raw if unpack is None else _unpacked(raw, unpack)


def _unpacking(response: httpx.Response) -> "zlib._Decompress | None":
    """Return the decompressor of a body: None, unless the options requested one of two encodings by a header."""
    said = response.headers.get("content-encoding", "").strip().lower()
    if said in {"", "identity"}:
        return None
    asked = {
        one.partition(";")[0].strip().lower()
        for one in response.request.headers["accept-encoding"].split(",")
    }
    if said not in asked or said not in _WINDOWS:
        message = f"the answer is compressed ({shown(said)}), which was not requested: disable compression at the server or the proxy, or check base_url"
        raise ProtocolError(message)
    return zlib.decompressobj(_WINDOWS[said])


async def _unpacked(pieces: AsyncIterator[bytes], unpack: "zlib._Decompress") -> AsyncGenerator[bytes, None]:
    try:
        async for piece in pieces:
            left = piece
            while left:
                if data := unpack.decompress(left, _UNPACKED_AT_A_TIME):
                    yield data  # noqa: ASYNC119 - what it reads from is closed by `_open_pieces`
                    await trio.lowlevel.checkpoint()
                left = unpack.unconsumed_tail
    except zlib.error:
        message = "the response is not encoded as its content-encoding declares"
        raise ProtocolError(message) from None


class _Metered:
    """A response that limits its size in memory, and is read as UTF-8 whatever its header says."""

    def __init__(self, response: httpx.Response, activity: LastActivity) -> None:
        self.headers = {"content-type": "text/event-stream"}  # the event source does not know upper case
        self._texts = self._read(response, activity)
        self.since_event_bytes = 0

    def aiter_text(self) -> AsyncIterator[str]:
        return self._texts

    async def aclose(self) -> None:
        """Stop reading. The event source does not close its source."""
        await self._texts.aclose()

    async def _read(self, response: httpx.Response, activity: LastActivity) -> AsyncGenerator[str, None]:
        # Same as the incremental decoder, without its three Python calls per piece.
        half, is_first = b"", True
        total_bytes = 0
        async with _open_pieces(response) as pieces:
            async for piece in pieces:
                activity.touch()
                size = len(piece)
                total_bytes += size
                self.since_event_bytes += size
                if self.since_event_bytes > MAX_EVENT_BYTES:
                    message = f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes, so the request was abandoned"
                    raise ProtocolError(message)
                if total_bytes > MAX_RESPONSE_BYTES:
                    message = (
                        f"the stream is longer than {MAX_RESPONSE_BYTES} bytes, so the request was abandoned"
                    )
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


# --- translation of library exceptions

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
"""Most specific first, and the first match counts."""


@contextmanager
def _translated(vendor: Vendor) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        # Not chained: the original exception carries the request, and with it the key, into logs.
        raise _translate(error, vendor) from None


@contextmanager
def _refused_settings(vendor: Vendor) -> Iterator[None]:
    """Report settings that make no client: a proxy variable, or the file that `verify` names. A retry would meet the same."""
    try:
        yield
    except OSError as error:
        said = f"the certificate of {vendor.name} cannot be verified: the file in verify cannot be read: {error.strerror}"
        advice = Advice.CERTIFICATE
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        # Only the first is free of the address, which may hold a password.
        detail = shown(str(error)) if isinstance(error, ImportError) else "the address is not valid"
        said, advice = f"{vendor.name} cannot be reached through the proxy: {detail}", Advice.PROXY
    else:
        return
    raise Transport(with_advice(said, advise(advice, setting=_SETTINGS[advice])), retryable=False)


def _translate(error: httpx.HTTPError, vendor: Vendor) -> ProviderError:
    kind, words = next(entry for foreign, entry in _TRANSLATION.items() if isinstance(error, foreign))
    detail = scrubbed(shown(str(error)), vendor.secrets) or type(error).__name__
    advice = _advice_of(error, vendor)
    is_distrusted = advice is Advice.CERTIFICATE
    if is_distrusted:
        words = "showed a certificate that is not trusted"
    elif advice is not None and vendor.base_url not in {"", vendor.name}:
        words = f"{words} at {vendor.base_url}"
    host = urlsplit(vendor.base_url).hostname or ""
    told = "" if advice is None else advise(advice, setting=_SETTINGS.get(advice, ""), host=host)
    # A retry would meet the same certificate.
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
    # Also in the middle of a response: over HTTP/2 a handshake may come late.
    return Advice.CERTIFICATE if why_unreachable(error) is Advice.CERTIFICATE else None


@contextmanager
def _answered_by(deadline: float, vendor: Vendor) -> Iterator[None]:
    """Turn a deadline into a provider error. For a single await: nothing may be yielded inside."""
    try:
        with trio.fail_at(deadline):
            yield
    except trio.TooSlowError:
        advice = advise(Advice.NO_ANSWER, setting=setting("timeout"))
        raise Timeout(with_advice(f"{vendor.name} did not begin to answer in time", advice)) from None


async def next_before(events: AsyncIterator[str], deadline: float, vendor: Vendor) -> str | None:
    """Wait for the next event. Return None at the end of the stream.

    Raises:
        Timeout: The vendor's move: the deadline, on Trio's clock, has passed.
    """
    with _answered_by(deadline, vendor):
        return await anext(events, None)
