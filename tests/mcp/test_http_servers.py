"""Servers of the older revision over HTTP, which answer calls as real servers and the proxies before them do."""

import gzip
import json
import math
from contextlib import asynccontextmanager
from functools import partial

import httpx2
import pytest
import trio

import agentrail
from agentrail.abc import Error, Ok
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.connection import GuardedHttp
from agentrail.web.backend import NO_ROOTS
from tests.mcp.test_peers import LEAVES_GENERATORS

WITHIN_SECONDS = 60
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}
OK = {"content": [{"type": "text", "text": "ok"}]}


class HttpServer:
    """An application with sessions and one tool. `answer` returns status, headers and body of a call."""

    def __init__(self, answer=lambda result: (200, JSON, json.dumps(result))):
        self.answer = answer
        self.sessions = []
        self.called = trio.Event()
        self.pause_seconds = 0.0

    async def __call__(self, scope, receive, send):
        """Answer one request."""
        if scope["type"] == "lifespan":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        known = dict(scope["headers"]).get(b"mcp-session-id", b"").decode() in self.sessions
        asked = json.loads(body or b"{}")
        if asked.get("method") == "tools/call":
            self.called.set()
            await self.work()
        status, headers, said = self.respond(scope["method"], asked, known=known)
        told = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": told})
        said = said.encode() if isinstance(said, str) else said
        await send({"type": "http.response.body", "body": said})

    async def work(self):
        """Wait within a call."""
        await trio.sleep(self.pause_seconds)

    def respond(self, method, asked, *, known):
        """Return status, headers and body."""
        if method != "POST" or "id" not in asked:
            return 405 if method == "GET" else 202, {}, b""
        answer = {"jsonrpc": "2.0", "id": asked["id"]}
        match asked["method"]:
            case "initialize":
                self.sessions.append(f"s{len(self.sessions)}")
                server = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "h", "version": "1"}}
                result = {**server, "capabilities": {"tools": {}}}
                return (
                    200,
                    {**JSON, "mcp-session-id": self.sessions[-1]},
                    json.dumps({**answer, "result": result}),
                )
            case "server/discover":
                return 400, {}, b""
            case _ if not known:  # in the words of the TypeScript SDK
                error = {"code": -32001, "message": "Session not found"}
                return 404, JSON, json.dumps({"jsonrpc": "2.0", "error": error, "id": None})
            case "tools/list":
                tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
                return 200, JSON, json.dumps({**answer, "result": {"tools": tools}})
            case _:
                return self.answer({**answer, "result": OK})


@asynccontextmanager
async def connected(app, **options):
    """Serve an application, and yield a function that calls its tool, and its source."""
    stop = trio.Event()
    listeners = await open_listeners("127.0.0.1", 0)
    ((host, port),) = addresses_of(listeners)
    server = McpServer("h", url=f"http://{host}:{port}/mcp", required=True, **options)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_app, app, listeners, stop.wait))
        async with agentrail.open_supervisor(mcp=[server]) as supervisor:
            await supervisor.start_session(model="demo:")
            source = supervisor.sources.running["h"].source
            yield partial(supervisor.call_tool, "mcp__h__echo", {}, tools=source.tools), source
        stop.set()


@pytest.mark.parametrize("effect", ["pure", "once"])
async def test_a_session_that_the_server_no_longer_knows_is_replaced(effect):
    """MCP, transports: a client that gets 404 for its session starts a new one. Servers explain it in a JSON-RPC error."""
    app = HttpServer()
    with trio.fail_after(WITHIN_SECONDS):
        async with connected(app, effects={"echo": effect}) as (call, source):
            app.sessions[:] = ["another one"]
            said = await call()
            assert isinstance(said, Ok) == (effect == "pure"), said
            while len(app.sessions) == 1:  # noqa: ASYNC110 - it sets no event
                await trio.sleep(0.01)
            await source.wait_ready(WITHIN_SECONDS)
            assert await call() == Ok(text="ok")


def in_a_stream(answer):
    """Send 200 log messages before the answer."""
    said = {
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {"level": "info", "data": "x" * 900},
    }
    events = [f"data: {json.dumps(one)}\n\n" for one in (*[said] * 200, answer)]
    return 200, EVENTS, "".join(events)


def compressed(answer, more=""):
    """Compress the answer."""
    text = json.dumps({**answer, "more": more}).encode()
    return 200, {**JSON, "content-encoding": "gzip"}, gzip.compress(text)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (in_a_stream, Ok),
        (compressed, Ok),
        (partial(compressed, more="x" * 1_000_000), Error),
    ],
)
@LEAVES_GENERATORS
async def test_the_size_limit_is_one_of_each_message_as_the_library_reads_it(answer, kind):
    """A stream of small messages has no limit together. A compressed message is counted decompressed."""
    with trio.fail_after(WITHIN_SECONDS):
        async with connected(HttpServer(answer), max_message_bytes=10_000) as (call, _):
            assert isinstance(await call(), kind)


@pytest.mark.parametrize("status", [502, 504])
async def test_a_call_whose_gateway_gave_up_may_have_taken_effect(status):
    """RFC 9110, 15.6: the gateway got no answer. The server may be working on it."""
    with trio.fail_after(WITHIN_SECONDS):
        async with connected(HttpServer(lambda _: (status, {}, "<html>"))) as (call, source):
            assert "may have taken effect" in (await call()).text
            assert source.state == "ready"


def refused(answer, code, status=200, *, in_stream=False):
    """Answer with an error in place of the result."""
    error = {"code": code, "message": "no such city"}
    text = json.dumps({"jsonrpc": "2.0", "id": answer["id"], "error": error})
    return (200, EVENTS, f"data: {text}\n\n") if in_stream else (status, JSON, text)


@pytest.mark.parametrize("code", [-32000, -32098, -32099, -32700])
@pytest.mark.parametrize("way", [{}, {"status": 400}, {"in_stream": True}])
@LEAVES_GENERATORS
async def test_an_error_of_the_server_is_shown_whatever_its_code(code, way):
    """Also -32000, which the library gives to a lost connection, and those that stand for a missing login here."""
    app = HttpServer(partial(refused, code=code, **way))
    with trio.fail_after(WITHIN_SECONDS):
        async with connected(app, effects={"echo": "pure"}) as (call, _):
            assert await call() == Error(text=f"The server refused the call ({code}): no such city")


@pytest.mark.parametrize("answer", [(EVENTS, ": nothing\n\n"), (EVENTS, "data: {\n\n"), (JSON, "{")])
@LEAVES_GENERATORS
async def test_a_call_whose_answer_is_cut_may_have_taken_effect(answer):
    """The model is told so, and does not take it for a refusal of the server."""
    with trio.fail_after(WITHIN_SECONDS):
        async with connected(HttpServer(lambda _: (200, *answer))) as (call, _):
            assert "may have taken effect" in (await call()).text


async def test_a_call_may_be_silent_for_as_long_as_its_time_limit(mock_clock):
    """A server that answers with JSON sends nothing before its answer."""
    app = HttpServer()
    app.pause_seconds = 500.0
    async with connected(app, timeout_seconds=600.0) as (call, _), trio.open_nursery() as nursery:

        async def jump():
            await app.called.wait()
            mock_clock.autojump_threshold = 0.1  # sockets of this process need some time

        nursery.start_soon(jump)
        assert await call() == Ok(text="ok")
        mock_clock.autojump_threshold = math.inf


class CutStream(HttpServer):
    """Cuts the stream of a GET during a call, which ends when the tools are listed again."""

    def __init__(self):
        super().__init__()
        self.lists = 0
        self.listed_again = trio.Event()

    async def __call__(self, scope, receive, send):
        if scope.get("method") == "GET":
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
            await self.called.wait()
            message = "the stream is cut"
            raise OSError(message)
        await super().__call__(scope, receive, send)

    def respond(self, method, asked, *, known):
        self.lists += asked.get("method") == "tools/list"
        if self.lists == 2:
            self.listed_again.set()
        return super().respond(method, asked, known=known)

    async def work(self):
        await self.listed_again.wait()


async def test_a_cut_stream_of_changes_ends_no_session():
    """A proxy cuts it when it was silent for a minute. What it brought meanwhile is lost, so the tools are listed again."""
    app = CutStream()
    with trio.fail_after(WITHIN_SECONDS):
        async with connected(app) as (call, source):
            assert await call() == Ok(text="ok")
            assert (source.state, app.sessions) == ("ready", ["s0"])


class SilentAtTheEnd(HttpServer):
    """Does not answer the DELETE of a session."""

    async def __call__(self, scope, receive, send):
        if scope.get("method") == "DELETE":
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            await super().__call__(scope, receive, send)


async def test_a_restart_does_not_wait_for_a_server_that_does_not_end_its_session(mock_clock):
    """It hangs, which may be why the restart was asked for."""
    app = SilentAtTheEnd()
    async with connected(app) as (call, source):
        source.restart()
        mock_clock.autojump_threshold = 0.1  # sockets of this process need some time
        with trio.fail_after(WITHIN_SECONDS):
            while len(app.sessions) == 1:  # noqa: ASYNC110 - it sets no event
                await trio.sleep(1)
            await source.wait_ready(WITHIN_SECONDS)
            assert await call() == Ok(text="ok")


def fetched_through(monkeypatch, method, headers=None, body=b""):
    """Return a function that sends a request to a server with this answer, whatever is asked, and returns the answer."""

    async def answer(_transport, request):
        await trio.lowlevel.checkpoint()
        return httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(body), request=request)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", answer)
    server = McpServer("h", url="https://h.example/mcp", max_message_bytes=1_000)
    transport = GuardedHttp(server, NO_ROOTS, trio.Event())
    return partial(transport.handle_async_request, httpx2.Request(method, "https://h.example/mcp"))


async def test_a_stream_that_its_server_ends_at_once_is_opened_ever_more_slowly(monkeypatch, autojump_clock):
    """WHATWG, server-sent events: `retry: 0` asks for it at once. A thousand times in a second would take the processor."""
    fetch = fetched_through(monkeypatch, "GET")
    began = trio.current_time()
    for _ in range(2_000):
        await fetch()
    assert trio.current_time() - began > 15_000
    began = trio.current_time()
    await fetch()
    assert trio.current_time() - began == 30
    for _ in range(10):
        await fetched_through(monkeypatch, "POST")()
    assert trio.current_time() - began == 30


@LEAVES_GENERATORS
async def test_a_compressed_stream_of_comments_lets_other_tasks_run(monkeypatch):
    """A few bytes become millions of lines, none of them an event. Compressed twice, they would never end."""
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    comments = gzip.compress(b":\n" * 1_000_000)
    gzipped = {**EVENTS, "content-encoding": "gzip"}
    response = await fetched_through(monkeypatch, "POST", gzipped, comments)()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        pieces = [len(piece) async for piece in response.aiter_raw()]
        nursery.cancel_scope.cancel()
    assert sum(pieces) == 2_000_000
    assert max(pieces) <= 1 << 16
    assert turns > len(pieces) / 2
    twice = {**EVENTS, "content-encoding": "gzip, gzip"}
    response = await fetched_through(monkeypatch, "POST", twice, gzip.compress(comments))()
    assert await response.aread() == b""


async def test_the_character_set_of_an_answer_is_utf_8_whatever_it_says(monkeypatch):
    """WHATWG, server-sent events: always UTF-8. The library would decode it as punycode, in quadratic time."""
    headers = {"content-type": "text/event-stream; charset=punycode"}
    response = await fetched_through(monkeypatch, "POST", headers, "data: ä\n\n".encode())()
    assert [text async for text in response.aiter_text()] == ["data: ä\n\n"]


@pytest.mark.parametrize("retry", ["-5", "9" * 400])
@LEAVES_GENERATORS
async def test_a_time_that_nobody_can_wait_is_the_fault_of_its_server(retry):
    """The library fails, and the connection with it. The reason does not sound like a bug of this program."""
    app = HttpServer(lambda _: (200, EVENTS, f"id: 1\nretry: {retry}\ndata:\n\n"))
    with trio.fail_after(WITHIN_SECONDS):
        async with connected(app) as (call, source):
            assert "may have taken effect" in (await call()).text
            while source.reason is None:  # noqa: ASYNC110 - it sets no event
                await trio.sleep(0.01)
            assert source.reason.startswith("it sent something that its client cannot use: ")
