"""The guard behind real sockets: the same bytes for each wrong token, and no token in any log."""

import logging
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from agentrail.gateway.authorization import AccessGuard, AccessRules, CallerCheck, caller_of
from agentrail.gateway.serving import ConnectionLimits, addresses_of, open_listeners, serve_app
from agentrail.gateway.tokens import decode_tokens, make_token
from tests.runtime.rig import on_bounded_time

MADE = make_token("acme", "ann", now=0.0)
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"


async def routes(scope, receive, send):
    """Say who calls; one path fails, and says what it was called with."""
    if scope["type"] == "lifespan":
        return
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    if scope["path"] == "/crash":
        message = "a bug"
        raise ValueError(message)
    body = caller_of(scope).user_id.encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def guarded_server():
    """Gives what makes a call: its first line and more headers in, the whole answer out, without its date."""
    check = CallerCheck(decode_tokens(MADE.lines.encode(), "f"), AccessRules(), max_failures_per_minute=99)
    app = AccessGuard(routes, check, lambda _path: (), lambda _path: False)
    listeners = await open_listeners("127.0.0.1", 0)
    ((host, port),) = addresses_of(listeners)
    stop = trio.Event()

    async def call(first=b"GET / HTTP/1.1", *headers):
        async with await trio.open_tcp_stream(host, port) as stream:
            lines = [first, b"Host: localhost", b"Connection: close", *headers]
            if UPGRADE in headers:
                del lines[2]
            await stream.send_all(b"\r\n".join(line.removesuffix(b"\r\n") for line in lines) + b"\r\n\r\n")
            answer = b""
            async for piece in stream:
                answer += piece
                if b" 101 " in answer:
                    break
        return b"\r\n".join(line for line in answer.split(b"\r\n") if not line.lower().startswith(b"date:"))

    async with trio.open_nursery() as nursery:
        limits = ConnectionLimits(grace_seconds=0.05, cut_seconds=0.05)
        await nursery.start(partial(serve_app, app, listeners, stop.wait, limits=limits))
        yield call
        stop.set()


def bearer(token):
    """A header."""
    return f"Authorization: Bearer {token}".encode()


@on_bounded_time
@pytest.mark.host("H-080")
async def test_wrong_tokens_get_answers_of_the_same_bytes_on_the_wire():
    """Missing, empty, truncated, malformed, wrong, twice."""
    async with guarded_server() as call:
        good = await call(b"GET / HTTP/1.1", bearer(MADE.token))
        assert good.startswith(b"HTTP/1.1 200")
        assert good.endswith(b"ann")
        wrong = [
            (),
            (bearer(""),),
            (bearer(MADE.token[:-1]),),
            (b"Authorization: Basic YTpi",),
            (bearer("x"),),
        ]
        answers = {await call(b"GET / HTTP/1.1", *headers) for headers in [*wrong, (bearer(MADE.token),) * 2]}
        (answer,) = answers
        assert answer.startswith(b"HTTP/1.1 401")
        assert b"www-authenticate: bearer" in answer.lower()


@on_bounded_time
@pytest.mark.host("H-081")
async def test_an_upgrade_is_refused_before_it_is_made():
    """A foreign page, another name, no origin; with a token it is made."""
    start, token = b"GET /ws HTTP/1.1", bearer(MADE.token)
    async with guarded_server() as call:
        assert b" 101 " in await call(start, UPGRADE, token)
        for headers in ((b"Origin: https://evil.example", token), (b"Origin: null", token), ()):
            answer = await call(start, UPGRADE, *headers)
            assert answer.startswith(b"HTTP/1.1 403")
            assert b"origin_refused" in answer


@on_bounded_time
@pytest.mark.host("H-082")
@pytest.mark.host("H-088")
async def test_no_token_is_in_any_log_or_answer(caplog, capfd):
    """In the query string, in a header, over a crash, of a caller who breaks the protocol, and when the server stops."""
    planted = MADE.token.encode()
    with caplog.at_level(logging.DEBUG):
        async with guarded_server() as call:
            answers = [
                await call(b"GET /?token=" + planted + b" HTTP/1.1"),
                await call(b"GET /crash?a=" + planted[4:] + b" HTTP/1.1", bearer(MADE.token)),
                await call(
                    b"GET / HTTP/1.1", b"Upgrade: h2c", b"HTTP2-Settings: A" + planted, bearer(MADE.token)
                ),
                await call(planted),
            ]
    assert [answer[9:12] for answer in answers[:2]] == [b"400", b"500"]
    said = caplog.text + "".join(capfd.readouterr())
    assert "the application raised" in said
    assert MADE.token[4:] not in said
    assert planted[4:] not in b"".join(answers)
