"""What a server may cost: no certificates are loaded for one that shows none, and nothing that it sends is without end."""

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pytest
import trio

from agentrail.app import list_models
from agentrail.errors import Overloaded, ProtocolError, ProviderError, Transport
from agentrail.providers import http as http_module
from agentrail.providers.failures import Vendor
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from agentrail.testing.check_provider import ServedReply, open_server
from tests.providers.transcripts import KEY, WIRE, request_of

VENDOR: Final = Vendor(name="v", key_help="")
KINDS: Final[dict[str, type[Any]]] = {
    "anthropic": AnthropicMessages,
    "openai_chat": OpenAIChat,
    "openai_responses": OpenAIResponses,
    "gemini": Gemini,
}


async def _stream(wire: str, url: str) -> None:
    async with HttpClients() as http:
        provider = KINDS[wire](ProviderOptions.parse({"base_url": url, "api_key": KEY}), http)
        async with provider.open_stream(request_of("Hi")) as chunks:
            async for _ in chunks:
                pass


async def _fetch(url: str) -> None:
    async with HttpClients() as http:
        await http.get_text(f"{url}/models", headers={}, vendor=VENDOR)


async def _list(url: str) -> None:
    await list_models(f"{url}/v1", KEY)


STREAMS: Final[dict[str, Callable[[str], Awaitable[None]]]] = {wire: partial(_stream, wire) for wire in KINDS}
DOCUMENTS: Final[dict[str, Callable[[str], Awaitable[None]]]] = {"a document": _fetch, "the models": _list}
EVERY = pytest.mark.parametrize("path", [*STREAMS, *DOCUMENTS])


async def _run(path: str, url: str) -> None:
    await {**STREAMS, **DOCUMENTS}[path](url)


# --- certificates


@pytest.fixture
def loaded(monkeypatch):
    """Count what loads certificates of authorities, which takes 30 ms in the loop; no proxies are set."""
    calls: list[str] = []

    def counted(name: str) -> Any:
        real = getattr(ssl.SSLContext, name)

        def count(*args: Any, **options: Any) -> Any:
            calls.append(name)
            return real(*args, **options)

        return count

    for name in ("load_default_certs", "load_verify_locations", "set_default_verify_paths"):
        monkeypatch.setattr(ssl.SSLContext, name, counted(name))
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    return calls


def _answer_for(path: str) -> ServedReply:
    if path in STREAMS:
        body, kind = (WIRE / path / "text.sse").read_bytes(), "text/event-stream"
    else:
        body, kind = b'{"data": []}', "application/json"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return ServedReply(pieces=(head.encode() + body,))


@EVERY
@pytest.mark.parametrize("variable", [None, "NO_PROXY", "HTTPS_PROXY"])
async def test_no_certificates_are_loaded_for_a_server_without_tls(path, variable, loaded, monkeypatch):
    """On no path, and not for the sake of proxies that are for other servers."""
    if variable is not None:
        monkeypatch.setenv(variable, "localhost" if variable == "NO_PROXY" else "http://127.0.0.1:1")
    with trio.fail_after(60):
        async with open_server(_answer_for(path)) as server:
            await _run(path, server.url)
    assert loaded == []


async def test_certificates_are_loaded_once_for_a_server_with_tls(loaded):
    """By the first request, for all origins of a supervisor."""
    with trio.fail_after(60):
        async with HttpClients() as http:
            for port in (1, 2):
                with pytest.raises(Transport):
                    await http.get_text(f"https://127.0.0.1:{port}/", headers={}, vendor=VENDOR)
    assert loaded.count("load_default_certs") == 1


# --- what has no end

_LIMIT: Final = 80_000  # one read is 64 KiB
_SENT: Final = 800 * (1 << 16)  # far more than the buffers between two sockets hold


def _endless(piece: bytes, kind: str, *, status: str = "200 OK") -> ServedReply:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()
    times = (1 << 16) // len(piece)
    return ServedReply(pieces=(head, *((piece * times,) * (_SENT // (times * len(piece))))))


SSE: Final = "text/event-stream"
ENDLESS: Final[dict[str, tuple[ServedReply, type[ProviderError], str]]] = {
    "a line": (_endless(b"x", SSE), ProtocolError, f"an event of the stream is longer than {_LIMIT} bytes"),
    "an event": (
        _endless(b'data: {"x": 1}\n', SSE),
        ProtocolError,
        f"an event of the stream is longer than {_LIMIT} bytes",
    ),
    "comments": (
        _endless(b": hm\n\n", SSE),
        ProtocolError,
        f"an event of the stream is longer than {_LIMIT} b",
    ),
    "events": (
        _endless(b'data: {"x": 1}\n\n', SSE),
        ProtocolError,
        f"the stream is longer than {3 * _LIMIT} bytes",
    ),
}
ANYWHERE: Final[dict[str, tuple[ServedReply, type[ProviderError], str]]] = {
    "a document": (
        _endless(b"[", "application/json"),
        ProtocolError,
        f"the answer is longer than {_LIMIT} bytes, so the request was abandoned",
    ),
    "a refusal": (_endless(b"no ", "text/html", status="503 No"), Overloaded, "answered 503: no no no"),
    "a header": (
        ServedReply(pieces=(b"HTTP/1.1 200 OK\r\nx-much: ", *((b"x" * (1 << 16),) * (_SENT >> 16)))),
        Transport,
        "lost the connection",
    ),
}


@pytest.mark.parametrize(
    ("path", "what"),
    [
        *((path, what) for path in STREAMS for what in (*ENDLESS, *ANYWHERE)),
        *((path, what) for path in DOCUMENTS for what in ANYWHERE),
    ],
)
async def test_what_has_no_end_is_given_up(path, what, monkeypatch):
    """On each path and in each format: with a typed error, and long before it was all sent."""
    monkeypatch.setattr(http_module, "MAX_EVENT_BYTES", _LIMIT)
    monkeypatch.setattr(http_module, "MAX_RESPONSE_BYTES", 3 * _LIMIT)
    monkeypatch.setattr(http_module, "_MAX_REFUSAL_BYTES", _LIMIT)
    reply, kind, words = {**ENDLESS, **ANYWHERE}[what]
    with trio.fail_after(60):
        async with open_server(reply) as server:
            with pytest.raises(kind, match=words) as caught:
                await _run(path, server.url)
            await server.wait_deserted()
            assert not server.replied.is_set()
    assert len(str(caught.value)) < 1_000


async def test_a_packed_refusal_of_a_document_is_told_by_its_status():
    """As that of a stream: the status says more than how its words were packed."""
    head = b"HTTP/1.1 503 No\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nxxx"
    with trio.fail_after(60):
        async with open_server(ServedReply(pieces=(head,))) as server:
            with pytest.raises(Overloaded, match=r"answered 503: .* which was not requested"):
                await _fetch(server.url)
