"""What happens on the wire: connections, refusals, cuts, cancellation (7.3, 7.4, 7.14)."""

import itertools
import json
import ssl
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import structlog
import trio
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import Chunk
from agentrail.errors import (
    Authentication,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Transport,
)
from agentrail.providers import http as http_module
from agentrail.providers.http import HttpClients, Post
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, OpenAIChat, OpenAIResponses
from agentrail.testing.check_provider import Served, ServedReply, open_server, reply, stream
from tests.providers.transcripts import KEY, VENDOR, WIRE, completed, read, request_of

HELLO = "Hello, wörld ✓"
WIRES = {
    OpenAIChat: WIRE / "openai_chat",
    OpenAIResponses: WIRE / "openai_responses",
    AnthropicMessages: WIRE / "anthropic",
}
EVERY = pytest.mark.parametrize("kind", list(WIRES))


def _transcript(kind: type[Any], name: str = "text") -> bytes:
    (path,) = WIRES[kind].glob(f"**/{name}.sse")
    return path.read_bytes()


def _provider(kind: type[Any], http: HttpClients, url: str, **options: object) -> Any:
    return kind(ProviderOptions.parse({"base_url": url, "api_key": KEY, **options}), http)


async def _ask_into(seen: list[Chunk], provider: Any) -> None:
    async with provider.open_stream(request_of("Hi")) as chunks:
        async for chunk in chunks:
            seen.append(chunk)  # noqa: PERF401 - what came before an error counts


async def _ask(provider: Any) -> list[Chunk]:
    seen: list[Chunk] = []
    await _ask_into(seen, provider)
    return seen


async def _ask_once(kind: type[Any], *replies: ServedReply, **options: object) -> tuple[list[Chunk], Served]:
    with trio.fail_after(60):
        async with open_server(*replies) as server, HttpClients() as http:
            return await _ask(_provider(kind, http, server.url, **options)), server


# --- keys


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        (OpenAIChat, "OPENAI_API_KEY"),
        (OpenAIResponses, "OPENAI_API_KEY"),
        (AnthropicMessages, "ANTHROPIC_API_KEY"),
    ],
)
async def test_a_missing_key_fails_before_any_connection(kind, variable):
    """It names the variable, and `demo:` as a way to try."""
    async with HttpClients() as http:
        with pytest.raises(Authentication, match=f"{variable}.*demo:"):
            await _ask(kind(ProviderOptions(), http))
        assert http.statistics().requests == 0


async def _later() -> str:
    await trio.lowlevel.checkpoint()
    return f"{KEY}\n"


@pytest.mark.parametrize("source", [lambda: KEY, _later])
async def test_a_key_may_come_from_a_function(source: Callable[[], Any]):
    """Sync or async, called for each request, so that a rotated key takes effect."""
    _, server = await _ask_once(OpenAIChat, reply(_transcript(OpenAIChat)), api_key=source)
    assert server.headers()["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("returned", ["", "schlüssel", None])
async def test_a_function_that_returns_no_key_is_told_so(returned):
    """Before any connection, and without showing what came."""
    with pytest.raises(Authentication, match=r"api_key|needs a key"):
        await _ask_once(AnthropicMessages, reply(""), api_key=lambda: returned)


async def test_a_key_on_an_open_wire_is_warned_of_once():
    """Once per supervisor, and not for this machine."""
    with structlog.testing.capture_logs() as logs:
        async with HttpClients() as http:
            for host in ("127.0.0.1", "localhost", "[::1]", "example.com", "example.org"):
                post = Post(url=f"http://{host}/", headers={}, body=b"", vendor=VENDOR)
                http._client_for(post)  # noqa: SLF001 - sending would need a network
    assert [log["host"] for log in logs] == ["example.com"]
    assert KEY not in str(logs)


# --- refusals


@EVERY
async def test_a_200_with_an_error_in_json(kind):
    """Some servers report an error that way."""
    body = json.dumps({"error": {"message": "Too fast", "code": "rate_limit_exceeded"}})
    with pytest.raises(RateLimited, match="Too fast"):
        await _ask_once(kind, reply(body, kind="application/json"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"detail":"Not Found"}', "application/json"),
        ("404 page not found", "text/plain"),
        ('{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}', "application/json"),
    ],
)
async def test_a_server_that_does_not_speak_responses(body, kind):
    """Most compatible servers know Chat Completions only, and a 404 of theirs says what to write instead (7.7)."""
    with pytest.raises(ProviderError, match="openai-chat:") as caught:
        await _ask_once(OpenAIResponses, reply(body, status="404 Not Found", kind=kind))
    assert not caught.value.retryable


WHOLE = {
    OpenAIChat: "whole_completion",
    OpenAIResponses: "whole_response",
    AnthropicMessages: "whole_message",
}


@EVERY
async def test_a_whole_answer_where_a_stream_was_asked_for(kind):
    """One JSON document is understood like one event."""
    name = WHOLE[kind]
    body = next(
        line[6:] for line in _transcript(kind, name).decode().splitlines() if line.startswith("data: ")
    )
    chunks, _ = await _ask_once(kind, reply(body, kind="application/json; charset=utf-8"))
    assert [call.name for call in completed(chunks).message.calls] == ["list_dir", "read_file"]


# --- connections that fail


async def test_a_certificate_that_nobody_knows(tmp_path):
    """It is not retried, and it can be said that it is meant."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",  # for RSA it would look for primes, which takes longer than most tests
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    await trio.run_process(command, stderr=subprocess.DEVNULL)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    answer = stream(_transcript(OpenAIChat), ends=True, stays=True)
    with trio.fail_after(60):
        async with open_server(answer, tls=tls) as server, HttpClients() as http:
            with pytest.raises(Transport, match="not trusted") as caught:
                await _ask(_provider(OpenAIChat, http, server.url))
            assert not caught.value.retryable
            for verify in (str(certificate), False):
                chunks = await _ask(_provider(OpenAIChat, http, server.url, verify=verify))
                assert completed(chunks).message.text == HELLO


# --- limits


async def test_an_event_without_end_is_given_up(monkeypatch):
    """An event is held in memory, so it has a bound."""
    monkeypatch.setattr(http_module, "MAX_EVENT_BYTES", 1000)
    with pytest.raises(ProtocolError, match="longer than 1000 bytes"):
        await _ask_once(OpenAIChat, stream(b"data: " + b"x" * 2000, stays=True))


async def test_a_stream_without_end_is_given_up(monkeypatch):
    """Small events without end have a bound too."""
    monkeypatch.setattr(http_module, "MAX_RESPONSE_BYTES", 1000)
    event = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
    with pytest.raises(ProtocolError, match="longer than 1000 bytes"):
        await _ask_once(OpenAIChat, stream(*[event] * 100, stays=True))


async def test_a_document_without_end_is_given_up(monkeypatch):
    """So has a whole answer."""
    monkeypatch.setattr(http_module, "MAX_RESPONSE_BYTES", 1000)
    with pytest.raises(ProtocolError, match="longer than 1000 bytes"):
        await _ask_once(OpenAIChat, reply("x" * 2000, kind="application/json"))


async def test_the_body_of_a_refusal_is_read_in_part(monkeypatch):
    """It only becomes an error text."""
    monkeypatch.setattr(http_module, "_MAX_REFUSAL_BYTES", 100)
    with pytest.raises(Overloaded, match="xxx"):
        await _ask_once(OpenAIChat, reply("x" * 100_000, status="500 Oops", kind="text/plain"))


async def test_an_event_without_data_is_no_event_for_a_reader():
    """Names, ids and retry times of the transport say nothing."""
    events = b"event: hello\n\nretry: 10\n\n" + _transcript(OpenAIChat)
    chunks, _ = await _ask_once(OpenAIChat, stream(events, ends=True))
    assert completed(chunks).message.text == HELLO


# --- documents


# --- cancellation


class CancelAtStep(trio.abc.Instrument):
    """Cancels at the n-th step of any task."""

    def __init__(self, steps_left: int, scope: trio.CancelScope) -> None:
        self.steps_left, self.scope = steps_left, scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count down; still positive at the end means that the scenario is through."""
        self.steps_left -= 1
        if self.steps_left == 0:
            self.scope.cancel(reason="cancel at every step")


@pytest.mark.at(25)
@EVERY
async def test_cancelled_at_every_step_nothing_stays(kind, caplog):
    """Whenever it comes, nothing but the cancellation comes out, in silence; no response stays open, and the clients work."""
    caplog.set_level("DEBUG", logger="agentrail")
    answer = stream(_transcript(kind), ends=True, stays=True)
    cancelled = 0
    with trio.fail_after(60):
        async with open_server(answer) as server, HttpClients() as http:
            provider = _provider(kind, http, server.url)
            for steps in range(1, 500):
                with trio.CancelScope() as scope:
                    instrument = CancelAtStep(steps, scope)
                    trio.lowlevel.add_instrument(instrument)
                    try:
                        await _ask(provider)
                    finally:
                        trio.lowlevel.remove_instrument(instrument)
                cancelled += scope.cancelled_caught
                assert http.statistics().open_responses == 0
                if instrument.steps_left > 0:
                    break
            else:
                pytest.fail("the scenario never got through")
            assert completed(await _ask(provider)).message.text == HELLO
    assert cancelled > 5
    assert caplog.records == []


async def test_closing_works_twice_and_ends_everything():
    """After it nothing can be asked any more."""
    async with open_server(reply(_transcript(OpenAIChat))) as server:
        http = HttpClients()
        await _ask(_provider(OpenAIChat, http, server.url))
        await http.aclose()
        await http.aclose()
        assert http.statistics().origins == ()
        with pytest.raises(trio.ClosedResourceError, match="supervisor"):
            await _ask(_provider(OpenAIChat, http, server.url))


# --- every cut, every piece

NAMES = {
    OpenAIChat: [
        "text",
        "parallel_calls",
        "crlf_no_blank",
        "reasoning_then_call",
        "lone_surrogate",
        "heartbeats",
    ],
    OpenAIResponses: ["text", "parallel_calls", "reasoning_then_call", "hosted_tool", "crlf_no_blank"],
    AnthropicMessages: ["text", "parallel_calls", "thinking", "pings_everywhere", "hosted_tool"],
}


@EVERY
@given(data=st.data())
async def test_every_cut_and_every_split_gives_the_same_message_or_transport(kind, data):
    """Bytes in pieces of any size give the same message; an end at any byte gives `Transport`, or the message if it was all there."""
    (path,) = WIRES[kind].glob(f"**/{data.draw(st.sampled_from(NAMES[kind]), label='name')}.sse")
    whole = path.read_bytes()
    end = data.draw(st.just(len(whole)) | st.integers(0, len(whole)), label="end")
    marks = sorted({0, end, *data.draw(st.lists(st.integers(0, end), max_size=8), label="marks")})
    pieces = [whole[a:b] for a, b in itertools.pairwise(marks)]
    chunked = data.draw(st.booleans(), label="chunked")
    expected = read(path)
    seen: list[Chunk] = []
    with trio.fail_after(60):
        async with (
            open_server(stream(*pieces, chunked=chunked, ends=end == len(whole))) as server,
            HttpClients() as http,
        ):
            try:
                await _ask_into(seen, _provider(kind, http, server.url))
            except Transport:
                assert end < len(whole)
                assert seen == expected[: len(seen)]
            except ProviderError as error:  # pragma: no cover - what must not happen
                pytest.fail(f"{error!r}")
            else:
                assert completed(seen).message.content == completed(expected).message.content
