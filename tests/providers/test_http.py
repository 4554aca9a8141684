"""What happens on the wire: connections, refusals, cuts, bounds, packed answers, cancellation (7.3, 7.4, 7.14)."""

import gzip
import itertools
import json
import ssl
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pytest
import structlog
import trio
from hypothesis import given, strategies as st

from agentrail.app import list_models
from agentrail.core.protocol.request import Chunk
from agentrail.errors import (
    Authentication,
    BadRequest,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Transport,
)
from agentrail.providers import http as http_module
from agentrail.providers.http import HttpClients, Post
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from agentrail.testing.check_provider import ServedReply, open_server, reply, stream
from tests.providers.transcripts import (
    CERTIFICATE,
    KEY,
    VENDOR,
    WIRE,
    WIRES,
    ask,
    ask_once,
    completed,
    provider_at,
    read,
    tls,
    transcript,
)

HELLO = "Hello, wörld ✓"
THREE = pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses, AnthropicMessages])


async def test_a_missing_key_fails_before_any_connection():
    """It names the variable, and `demo:` as a way to try; so does a function that returns none, without showing what came."""
    for kind, variable in (
        (OpenAIChat, "OPENAI_API_KEY"),
        (OpenAIResponses, "OPENAI_API_KEY"),
        (AnthropicMessages, "ANTHROPIC_API_KEY"),
        (Gemini, "GEMINI_API_KEY"),
    ):
        async with HttpClients() as http:
            with pytest.raises(Authentication, match=f"{variable}.*demo:"):
                await ask(kind(ProviderOptions(), http))
            assert http.statistics().requests == 0
    for returned in ("", "schlüssel", None):
        with pytest.raises(Authentication, match=r"api_key|needs a key"):
            await ask_once(AnthropicMessages, reply(""), api_key=lambda returned=returned: returned)


async def _later() -> str:
    await trio.lowlevel.checkpoint()
    return f"{KEY}\n"


@pytest.mark.parametrize("source", [lambda: KEY, _later])
async def test_a_key_may_come_from_a_function(source: Callable[[], Any]):
    """Sync or async, called for each request, so that a rotated key takes effect."""
    _, server, _ = await ask_once(OpenAIChat, reply(transcript(OpenAIChat)), api_key=source)
    assert server.headers()["authorization"] == f"Bearer {KEY}"


async def test_a_key_on_an_open_wire_is_warned_of_once():
    """Once per supervisor, and not for this machine."""
    with structlog.testing.capture_logs() as logs:
        async with HttpClients() as http:
            for host in ("127.0.0.1", "localhost", "[::1]", "example.com", "example.org"):
                post = Post(url=f"http://{host}/", headers={}, body=b"", vendor=VENDOR)
                http._client_for(post)  # noqa: SLF001 - sending would need a network
    assert [log["host"] for log in logs] == ["example.com"]
    assert KEY not in str(logs)


WHOLE = {
    OpenAIChat: "whole_completion",
    OpenAIResponses: "whole_response",
    AnthropicMessages: "whole_message",
}


@THREE
async def test_json_where_a_stream_was_asked_for(kind):
    """Some servers report an error that way, with 200; a whole answer is understood like one event."""
    error = json.dumps({"error": {"message": "Too fast", "code": "rate_limit_exceeded"}})
    with pytest.raises(RateLimited, match="Too fast"):
        await ask_once(kind, reply(error, kind="application/json"))
    lines = transcript(kind, WHOLE[kind]).decode().splitlines()
    body = next(line[6:] for line in lines if line.startswith("data: "))
    chunks, *_ = await ask_once(kind, reply(body, kind="application/json; charset=utf-8"))
    assert [call.name for call in completed(chunks).message.calls] == ["list_dir", "read_file"]


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
        await ask_once(OpenAIResponses, reply(body, status="404 Not Found", kind=kind))
    assert not caught.value.retryable


async def test_a_cookie_is_neither_kept_nor_sent():
    """Sessions with different keys share a client, and one cookie that no header can carry made every later request fail."""
    answer = reply(transcript(OpenAIChat), set_cookie="session=wörld")
    async with open_server(answer) as server, HttpClients() as http:
        for _ in range(2):
            await ask(provider_at(server.url, OpenAIChat, http))
        assert "cookie" not in server.headers()


@pytest.mark.parametrize(
    "target", ["mailto:a@example.com", "http://xn--zz--z.com/", "https://example.com:port/"]
)
async def test_a_redirect_to_no_usable_address_is_a_refusal(target):
    """Not a broken connection, which would be tried again, nor an error of the library."""
    with pytest.raises(BadRequest, match=r"answered 302.*base_url"):
        await ask_once(OpenAIChat, reply("moved", status="302 Found", kind="text/html", location=target))


async def test_the_type_of_a_stream_may_be_written_in_capitals():
    """RFC 9110, 8.3.1: a media type has no case."""
    chunks, _, _ = await ask_once(OpenAIChat, reply(transcript(OpenAIChat), kind="Text/Event-Stream"))
    assert completed(chunks).message.text == HELLO


async def test_an_event_without_data_is_no_event_for_a_reader():
    """Names, ids and retry times of the transport say nothing."""
    events = b"event: hello\n\nretry: 10\n\n" + transcript(OpenAIChat)
    chunks, *_ = await ask_once(OpenAIChat, stream(events, ends=True))
    assert completed(chunks).message.text == HELLO


async def test_a_certificate_that_nobody_knows():
    """It is not retried, and it can be said that it is meant."""
    answer = stream(transcript(OpenAIChat), ends=True, stays=True)
    with trio.fail_after(60):
        async with open_server(answer, tls=tls()) as server, HttpClients() as http:
            url = server.url.replace("127.0.0.1", "localhost")
            with pytest.raises(Transport, match="not trusted") as caught:
                await ask(provider_at(url, OpenAIChat, http))
            assert not caught.value.retryable
            for verify in (str(CERTIFICATE), False):
                chunks = await ask(provider_at(url, OpenAIChat, http, verify=verify))
                assert completed(chunks).message.text == HELLO


async def _stream(kind: type[Any], url: str) -> None:
    async with HttpClients() as http:
        await ask(provider_at(url, kind, http))


async def _fetch(url: str) -> None:
    async with HttpClients() as http:
        await http.get_text(f"{url}/models", headers={}, vendor=VENDOR)


async def _list(url: str) -> None:
    await list_models(f"{url}/v1", KEY)


STREAMS: Final[dict[str, Callable[[str], Awaitable[None]]]] = {
    wire: partial(_stream, kind) for kind, wire in WIRES.items()
}
DOCUMENTS: Final[dict[str, Callable[[str], Awaitable[None]]]] = {"a document": _fetch, "the models": _list}


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


@pytest.mark.parametrize("path", [*STREAMS, *DOCUMENTS])
async def test_no_certificates_are_loaded_for_a_server_without_tls(path, loaded, monkeypatch):
    """On no path, and not for the sake of proxies that are for other servers."""
    if path in STREAMS:
        body, kind = (WIRE / path / "text.sse").read_bytes(), "text/event-stream"
    else:
        body, kind = b'{"data": []}', "application/json"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    for variable, value in ((None, ""), ("NO_PROXY", "localhost"), ("HTTPS_PROXY", "http://127.0.0.1:1")):
        with monkeypatch.context() as proxied, trio.fail_after(60):
            if variable is not None:
                proxied.setenv(variable, value)
            async with open_server(ServedReply(pieces=(head.encode() + body,))) as server:
                await {**STREAMS, **DOCUMENTS}[path](server.url)
        assert loaded == [], variable


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


def _endless(piece: bytes, kind: str = "text/event-stream", *, status: str = "200 OK") -> ServedReply:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()
    times = (1 << 16) // len(piece)
    return ServedReply(pieces=(head, *((piece * times,) * (_SENT // (times * len(piece))))))


_LONG_HEADER: Final = (b"HTTP/1.1 200 OK\r\nx-much: ", *((b"x" * (1 << 16),) * (_SENT >> 16)))
_LONG_EVENT: Final = f"an event of the stream is longer than {_LIMIT} bytes"
ENDLESS: Final[dict[str, tuple[ServedReply, type[ProviderError], str]]] = {
    "a line": (_endless(b"x"), ProtocolError, _LONG_EVENT),
    "an event": (_endless(b'data: {"x": 1}\n'), ProtocolError, _LONG_EVENT),
    "comments": (_endless(b": hm\n\n"), ProtocolError, _LONG_EVENT),
    "events": (
        _endless(b'data: {"x": 1}\n\n'),
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
    "a header": (ServedReply(pieces=_LONG_HEADER), Transport, "lost the connection"),
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
    endless, kind, words = {**ENDLESS, **ANYWHERE}[what]
    with trio.fail_after(60):
        async with open_server(endless) as server:
            with pytest.raises(kind, match=words) as caught:
                await {**STREAMS, **DOCUMENTS}[path](server.url)
            await server.wait_deserted()
            assert not server.replied.is_set()
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("stays", [False, True], ids=["cut", "hanging"])
@pytest.mark.parametrize("path", [next(iter(STREAMS)), next(iter(DOCUMENTS))])
async def test_a_refusal_counts_although_its_body_does_not_end(path, stays, monkeypatch):
    """The status and the headers have arrived. As a lost connection, a wrong key would be tried again."""
    monkeypatch.setattr(http_module, "_REFUSAL_SECONDS", 0.1)
    head = (
        b"HTTP/1.1 401 No\r\ncontent-type: application/json\r\ncontent-length: 99\r\nrequest-id: r1\r\n\r\n{"
    )
    with trio.fail_after(60):
        async with open_server(ServedReply(pieces=(head,), stays=stays)) as server:
            with pytest.raises(Authentication, match="answered 401") as caught:
                await {**STREAMS, **DOCUMENTS}[path](server.url)
    assert caught.value.request_id == "r1"


# --- packed answers: nobody asked for that, and some would fill the memory

TEXT = transcript(OpenAIChat)


def _packed(
    body: bytes, encoding: str, *, status: str = "200 OK", kind: str = "text/event-stream"
) -> ServedReply:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-encoding: {encoding}\r\n"
    return ServedReply(pieces=(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body,))


async def test_who_asks_for_packing_gets_it_and_no_request_of_ours_does():
    """By a header in the options, as for a slow line; not the list of models either, and not where the options remove the header."""
    _, server, _ = await ask_once(OpenAIChat, _packed(TEXT, "identity"), headers={"accept-encoding": None})
    assert server.headers()["accept-encoding"] == "identity"
    with trio.fail_after(60):
        async with open_server(_packed(b"{}", "identity", kind="application/json")) as server:
            await _fetch(server.url)
            assert server.headers()["accept-encoding"] == "identity"
    for encoding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        headers = {"accept-encoding": f"{encoding};q=1, br"}
        chunks, *_ = await ask_once(OpenAIChat, _packed(pack(TEXT), encoding), headers=headers)
        assert completed(chunks).message.text


async def test_what_is_packed_otherwise_than_it_says_is_a_broken_answer():
    """As any other body that is not what it says; of a refusal the status says more than how its words were packed."""
    with pytest.raises(ProtocolError, match="not encoded as its content-encoding declares"):
        await ask_once(OpenAIChat, _packed(TEXT, "gzip"), headers={"accept-encoding": "gzip"})
    with trio.fail_after(60):
        async with open_server(_packed(b"xxx", "gzip", status="503 No", kind="text/html")) as server:
            with pytest.raises(Overloaded, match=r"answered 503: .* which was not requested"):
                await _fetch(server.url)


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
    packed = _packed(gzip.compress(bytes(50_000_000)), "gzip", kind=kind)
    with pytest.raises(ProtocolError, match="longer than 100000 bytes"):
        await ask_once(OpenAIChat, packed, headers={"accept-encoding": "gzip"})
    assert sum(pieces) < 400_000
    assert max(pieces) <= 1 << 16


class CancelAtStep(trio.abc.Instrument):
    def __init__(self, steps_left: int, scope: trio.CancelScope) -> None:
        self.steps_left, self.scope = steps_left, scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count down; still positive at the end means that the scenario is through."""
        self.steps_left -= 1
        if self.steps_left == 0:
            self.scope.cancel(reason="cancel at every step")


@pytest.mark.at(25)
@THREE
async def test_cancelled_at_every_step_nothing_stays(kind, caplog):
    """Whenever it comes, nothing but the cancellation comes out, in silence; no response stays open, and the clients work."""
    caplog.set_level("DEBUG", logger="agentrail")
    answer = stream(transcript(kind), ends=True, stays=True)
    cancelled = 0
    with trio.fail_after(60):
        async with open_server(answer) as server, HttpClients() as http:
            provider = provider_at(server.url, kind, http)
            for steps in range(1, 500):
                with trio.CancelScope() as scope:
                    instrument = CancelAtStep(steps, scope)
                    trio.lowlevel.add_instrument(instrument)
                    try:
                        await ask(provider)
                    finally:
                        trio.lowlevel.remove_instrument(instrument)
                cancelled += scope.cancelled_caught
                assert http.statistics().open_responses == 0
                if instrument.steps_left > 0:
                    break
            else:
                pytest.fail("the scenario never got through")
            assert completed(await ask(provider)).message.text == HELLO
    assert cancelled > 5
    assert caplog.records == []


async def test_closing_works_twice_and_ends_everything():
    """After it nothing can be asked any more."""
    async with open_server(reply(TEXT)) as server:
        http = HttpClients()
        await ask(provider_at(server.url, OpenAIChat, http))
        await http.aclose()
        await http.aclose()
        assert http.statistics().origins == ()
        with pytest.raises(trio.ClosedResourceError, match="supervisor"):
            await ask(provider_at(server.url, OpenAIChat, http))


NAMES = {
    OpenAIChat: "text parallel_calls crlf_no_blank reasoning_then_call lone_surrogate heartbeats",
    OpenAIResponses: "text parallel_calls reasoning_then_call hosted_tool crlf_no_blank",
    AnthropicMessages: "text parallel_calls thinking pings_everywhere hosted_tool",
}


@THREE
@given(data=st.data())
async def test_every_cut_and_every_split_gives_the_same_message_or_transport(kind, data):
    """Bytes in pieces of any size give the same message; an end at any byte gives `Transport`, or the message if it was all there."""
    name = data.draw(st.sampled_from(NAMES[kind].split()), label="name")
    (path,) = (WIRE / WIRES[kind]).glob(f"**/{name}.sse")
    whole, expected = path.read_bytes(), read(path)
    end = data.draw(st.just(len(whole)) | st.integers(0, len(whole)), label="end")
    marks = sorted({0, end, *data.draw(st.lists(st.integers(0, end), max_size=8), label="marks")})
    pieces = [whole[a:b] for a, b in itertools.pairwise(marks)]
    chunked = data.draw(st.booleans(), label="chunked")
    seen: list[Chunk] = []
    try:
        await ask_once(kind, stream(*pieces, chunked=chunked, ends=end == len(whole)), seen=seen)
    except Transport:
        assert end < len(whole)
        assert seen == expected[: len(seen)]
    except ProviderError as error:  # pragma: no cover - what must not happen
        pytest.fail(f"{error!r}")
    else:
        assert completed(seen).message.content == completed(expected).message.content
