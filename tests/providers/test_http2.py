"""The option `http2`, with a server that speaks nothing else (7.2, 7.4)."""

import importlib.util
import re

import pytest
import trio

from agentrail.core.protocol.request import Chunk, TextDelta
from agentrail.distribution import install_command
from agentrail.errors import OptionError, ProtocolError
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from tests.providers.h2_server import Served, open_h2_server
from tests.providers.transcripts import KEY, WIRE, request_of
from tests.thinned import first

WIRES = {
    AnthropicMessages: "anthropic",
    OpenAIChat: "openai_chat",
    OpenAIResponses: "openai_responses",
    Gemini: "gemini",
}
ONE_AT_ONCE = pytest.mark.parametrize("kind", first(list(WIRES)))


def events_of(kind) -> list[bytes]:
    """A recorded answer, event by event."""
    (path,) = (WIRE / WIRES[kind]).glob("**/text.sse")
    return [event + b"\n\n" for event in path.read_bytes().replace(b"\r\n", b"\n").split(b"\n\n") if event]


def begun(kind) -> list[bytes]:
    """The same answer without its end."""
    return events_of(kind)[: 1 if kind is Gemini else -2]


def provider_of(kind, http: HttpClients, server: Served, **options):
    """A provider that trusts the server."""
    given = {"base_url": server.url, "api_key": KEY, "verify": server.certificate, "http2": True, **options}
    return kind(ProviderOptions.parse(given), http)


async def ask(provider) -> list[Chunk]:
    """Read a response to its end."""
    async with provider.open_stream(request_of("Hi")) as chunks:
        return [chunk async for chunk in chunks]


@ONE_AT_ONCE
async def test_a_stream_that_is_left_is_given_up_at_the_server(kind, tmp_path):
    """Leaving the block closes the connection, which nobody else uses, within a tenth of a second."""
    with trio.fail_after(60):
        async with (
            open_h2_server(tmp_path, begun(kind), ends=False) as server,
            HttpClients() as http,
        ):
            provider = provider_of(kind, http, server)
            with trio.CancelScope() as scope:
                async with provider.open_stream(request_of("Hi")) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, TextDelta):
                            scope.cancel()
            with trio.fail_after(0.1):
                await server.left.wait()
            assert http.statistics().open_responses == 0


@ONE_AT_ONCE
async def test_a_broken_stream_is_given_up(kind, tmp_path):
    """What is no JSON ends the response with its error, also where the server would go on."""
    with trio.fail_after(60):
        async with (
            open_h2_server(tmp_path, [*begun(kind), b"data: {nothing\n\n"], ends=False) as server,
            HttpClients() as http,
        ):
            with pytest.raises(ProtocolError):
                await ask(provider_of(kind, http, server))
            with trio.fail_after(0.1):
                await server.left.wait()


async def test_a_stream_that_is_left_leaves_the_others_their_connection(tmp_path):
    """One of two goes, and the other still hears what comes; then the next request takes the same connection."""
    with trio.fail_after(60):
        async with (
            open_h2_server(tmp_path, begun(OpenAIChat), ends=False) as server,
            HttpClients() as http,
        ):
            provider = provider_of(OpenAIChat, http, server)
            async with provider.open_stream(request_of("Hi")) as stays:
                assert await anext(aiter(stays))
                async with provider.open_stream(request_of("Hi")) as leaves:
                    assert await anext(aiter(leaves))
                with trio.move_on_after(0.2):
                    await server.left.wait()
                assert not server.left.is_set()
                assert server.connections == 1
            with trio.fail_after(0.1):
                await server.left.wait()


def test_without_the_package_the_option_says_what_to_install(monkeypatch):
    """At the start of the session, and not at the first request."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "h2" else found(name))
    with pytest.raises(
        OptionError, match=re.escape(f"HTTP/2 needs the package h2: {install_command('http2')}")
    ):
        ProviderOptions.parse({"http2": True})
    assert not ProviderOptions.parse({"http2": False}).http2
