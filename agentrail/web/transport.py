"""`GuardedTransport`: carries requests of httpx over connections that `GuardedBackend` makes.

httpx takes no network backend, so this stands in the place of its `AsyncHTTPTransport`, on the public pool of httpcore. It knows no proxy, no
variable of the environment, no unix socket and no HTTP/2.
"""

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import httpcore
import httpx

from agentrail.web.backend import GuardedBackend

# From the narrow to the wide: the first that fits is the one.
_ERRORS: Final[Mapping[type[Exception], type[httpx.TransportError]]] = {
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.TimeoutException: httpx.TimeoutException,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.NetworkError: httpx.NetworkError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
    httpcore.ProtocolError: httpx.ProtocolError,
}


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except tuple(_ERRORS) as error:
        kind = next(its for theirs, its in _ERRORS.items() if isinstance(error, theirs))
        raise kind(str(error)) from error


class GuardedTransport(httpx.AsyncBaseTransport):
    """A pool of connections, for `httpx.AsyncClient(transport=…)` or alone. It is an async context manager, and closes all of them."""

    def __init__(self, backend: GuardedBackend, tls: ssl.SSLContext) -> None:
        """Connect to nothing yet."""
        self._connections = httpcore.AsyncConnectionPool(ssl_context=tls, network_backend=backend)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request, and give the answer when its head is there; close the answer.

        Cancellation: Closes the connection.
        """
        url = request.url
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            came = await self._connections.handle_async_request(sent)
        return httpx.Response(
            came.status, headers=came.headers, stream=_Answered(came), extensions=came.extensions
        )

    async def aclose(self) -> None:
        """Close all connections; again if you like."""
        await self._connections.aclose()


class _Answered(httpx.AsyncByteStream):
    """The body of an answer, in the errors of httpx."""

    def __init__(self, came: httpcore.Response) -> None:
        self._came = came

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in self._came.aiter_stream():
                yield part  # noqa: ASYNC119 - nothing is held here; who reads closes the connection

    async def aclose(self) -> None:
        with _translated():
            await self._came.aclose()
