"""The option `http2`, with a server that speaks nothing else (7.2, 7.4)."""

import importlib.util
import re

import pytest
import trio

from agentrail.core.protocol.request import TextDelta
from agentrail.distribution import install_command
from agentrail.errors import OptionError, ProtocolError
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import Gemini, OpenAIChat
from tests.providers.h2_server import open_h2_server
from tests.providers.transcripts import CERTIFICATE, WIRES, ask, provider_at, request_of, transcript_events
from tests.thinned import first

ONE_AT_ONCE = pytest.mark.parametrize("kind", first(list(WIRES)))
TRUSTED = {"verify": str(CERTIFICATE), "http2": True}


def begun(kind) -> list[bytes]:
    """A recorded answer without its end, event by event."""
    return transcript_events(kind)[: 1 if kind is Gemini else -2]


@ONE_AT_ONCE
async def test_a_stream_that_is_left_or_broken_is_given_up_at_the_server(kind):
    """Leaving the block, or what is no JSON, closes the connection, which nobody else uses, within a tenth of a second."""
    with trio.fail_after(60):
        async with open_h2_server(begun(kind), ends=False) as server, HttpClients() as http:
            provider = provider_at(server.url, kind, http, **TRUSTED)
            with trio.CancelScope() as scope:
                async with provider.open_stream(request_of("Hi")) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, TextDelta):
                            scope.cancel()
            with trio.fail_after(0.1):
                await server.left.wait()
            assert http.statistics().open_responses == 0
        broken = [*begun(kind), b"data: {nothing\n\n"]
        async with open_h2_server(broken, ends=False) as server, HttpClients() as http:
            with pytest.raises(ProtocolError):
                await ask(provider_at(server.url, kind, http, **TRUSTED))
            with trio.fail_after(0.1):
                await server.left.wait()


async def test_a_stream_that_is_left_leaves_the_others_their_connection():
    """One of two goes, and the other still hears what comes; then the next request takes the same connection."""
    with trio.fail_after(60):
        async with open_h2_server(begun(OpenAIChat), ends=False) as server, HttpClients() as http:
            provider = provider_at(server.url, OpenAIChat, http, **TRUSTED)
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
