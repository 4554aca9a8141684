"""Answers that are packed: nobody asked for that, and some would fill the memory."""

import gzip
import zlib

import pytest
import trio

from agentrail.errors import ProtocolError
from agentrail.providers import http as http_module
from agentrail.providers.failures import Vendor
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import OpenAIChat
from agentrail.testing.check_provider import ServedReply, open_server
from tests.providers.transcripts import KEY, WIRE, completed, request_of

TEXT = (WIRE / "openai_chat" / "text.sse").read_bytes()


def _packed(body, encoding, *, status="200 OK", kind="text/event-stream"):
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n"
    return ServedReply(pieces=(head.encode() + body,))


async def _ask(kind, served, **options):
    with trio.fail_after(60):
        async with open_server(served) as server, HttpClients() as http:
            provider = kind(ProviderOptions.parse({"base_url": server.url, "api_key": KEY, **options}), http)
            seen = []
            async with provider.open_stream(request_of("Hi")) as chunks:
                async for chunk in chunks:
                    seen.append(chunk)  # noqa: PERF401 - as elsewhere
            return seen, server


async def test_no_request_of_ours_asks_for_it():
    """Not the list of models either, and not where the options remove the header."""
    _, server = await _ask(OpenAIChat, _packed(TEXT, "identity"), headers={"accept-encoding": None})
    assert server.headers()["accept-encoding"] == "identity"
    with trio.fail_after(60):
        async with (
            open_server(_packed(b"{}", "identity", kind="application/json")) as server,
            HttpClients() as http,
        ):
            await http.get_text(server.url, headers={}, vendor=Vendor(name="v", key_help=""))
            assert server.headers()["accept-encoding"] == "identity"


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_who_asks_for_it_gets_it(encoding, pack):
    """By a header in the options, as for a slow line."""
    chunks, _ = await _ask(
        OpenAIChat, _packed(pack(TEXT), encoding), headers={"accept-encoding": f"{encoding};q=1, br"}
    )
    assert completed(chunks).message.text


async def test_what_was_asked_for_and_is_none_is_a_broken_answer():
    """As any other body that is not what it says."""
    with pytest.raises(ProtocolError, match="not encoded as its content-encoding declares"):
        await _ask(OpenAIChat, _packed(TEXT, "gzip"), headers={"accept-encoding": "gzip"})


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_a_packed_answer_is_counted_as_it_is_unpacked(kind, monkeypatch):
    """A megabyte that becomes a gigabyte is given up where it is too much, and no piece of it is large."""
    monkeypatch.setattr(http_module, "MAX_EVENT_BYTES", 100_000)
    pieces = []
    unpack = http_module._unpacked  # noqa: SLF001 - what it hands on is what is held

    async def noting(*args):
        async for piece in unpack(*args):
            pieces.append(len(piece))
            yield piece

    monkeypatch.setattr(http_module, "_unpacked", noting)
    with pytest.raises(ProtocolError, match="longer than 100000 bytes"):
        await _ask(
            OpenAIChat,
            _packed(gzip.compress(bytes(50_000_000)), "gzip", kind=kind),
            headers={"accept-encoding": "gzip"},
        )
    assert sum(pieces) < 400_000
    assert max(pieces) <= 1 << 16
