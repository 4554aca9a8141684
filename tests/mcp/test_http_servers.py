"""Servers of the older revision over HTTP, which answer calls as real servers and the proxies before them do."""

import gzip
import json
import math
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

import agentrail
from agentrail.abc import Error, Ok
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.tools.mcp import McpServer
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
