"""`GuardedTransport`: carries httpx requests over connections of `GuardedBackend`."""

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import httpcore
import httpx

from agentrail.web.backend import GuardedBackend

_ERRORS: Final = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.UnsupportedProtocol,
    httpcore.ProtocolError,
)
"""With all errors below them, each of which has its name in httpx too."""


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error


class GuardedTransport(httpx.AsyncBaseTransport):
    """A connection pool for `httpx.AsyncClient(transport=…)`."""

    def __init__(self, backend: GuardedBackend, tls: ssl.SSLContext) -> None:
        self._connections = httpcore.AsyncConnectionPool(ssl_context=tls, network_backend=backend)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer after its head. The caller must close it."""
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
        """Close all connections. Idempotent."""
        await self._connections.aclose()


class _Answered(httpx.AsyncByteStream):
    """Body of an answer that raises httpx's errors."""

    def __init__(self, came: httpcore.Response) -> None:
        self._came = came

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in self._came.aiter_stream():
                yield part  # noqa: ASYNC119 - nothing is held here; who reads closes the connection

    async def aclose(self) -> None:
        with _translated():
            await self._came.aclose()
