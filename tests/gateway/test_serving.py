"""A trivial application behind real sockets on a free port: connections end alone, and the server ends whatever its callers do."""

import gc
import logging
import shutil
import ssl
import subprocess
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail.errors import OptionError
from agentrail.gateway import followed_files, serving as module
from agentrail.gateway.serving import (
    ConnectionLimits,
    addresses_of,
    connection_cut,
    open_listeners,
    serve_app,
    show_address,
    tls_context,
)
from tests.garbage import without_collector
from tests.runtime.rig import on_bounded_time

pytestmark = on_bounded_time

TLS = Path(__file__).parent / "tls"
HURRY = ConnectionLimits(grace_seconds=0.05, cut_seconds=0.05)
BREAKS_HYPERCORN = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: \xff\r\n\r\n"


class App:
    """An application: says `ok`, and a few more things by its path."""

    def __init__(self):
        self.seen = []
        self.cut = None
        self.flooding = trio.Event()
        self.ended = trio.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.live(scope, receive, send)
            return
        self.seen.append(scope["path"])
        route = {
            "/raise": self.fail,
            "/flood": self.flood,
            "/large": self.flood,
            "/wait": self.wait,
            "/late": self.be_late,
        }.get(scope["path"], self.greet)
        await route(scope, send)

    async def live(self, scope, receive, send):
        assert (await receive())["type"] == "lifespan.startup"
        scope["state"]["name"] = b"ok"
        self.seen.append("begun")
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        self.seen.append("over")
        await send({"type": "lifespan.shutdown.complete"})

    async def be_late(self, scope, send):
        await trio.sleep(0.3)
        await self.greet(scope, send)

    async def greet(self, scope, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": scope["state"]["name"]})

    async def fail(self, scope, send):
        message = "of the application"
        raise ValueError(message)

    async def wait(self, scope, send):
        self.flooding.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended.set()

    async def flood(self, scope, send):
        """Write more than a reader takes who does not read."""
        self.cut = connection_cut(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.flooding.set()
        try:
            times, size = (1, 50_000_000) if scope["path"] == "/large" else (1_000, 100_000)
            for _ in range(times):
                await send({"type": "http.response.body", "body": b"x" * size, "more_body": True})
        finally:
            self.ended.set()


@asynccontextmanager
async def serving(app, *, tls=None, limits=HURRY):
    """Serve an application; gives what stops it, and how to connect to it."""
    stop = trio.Event()
    listeners = await open_listeners("127.0.0.1", 0)
    (address,) = addresses_of(listeners)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_app, app, listeners, stop.wait, tls=tls, limits=limits))
        yield stop, partial(trio.open_tcp_stream, *address)
        stop.set()


async def ask(connect, path="/", raw=None):
    async with await connect() as stream:
        await stream.send_all(raw or f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        return await read_all(stream)


async def read_ok(stream):
    """Read one answer, head and body, which may come in two pieces."""
    held = b""
    while not held.endswith(b"\r\n\r\nok"):
        piece = await stream.receive_some()
        assert piece, held
        held += piece
    return held


async def read_all(stream):
    """All up to the end; a connection that was cut has one too."""
    pieces = []
    try:
        async for piece in stream:
            pieces.append(bytes(piece))  # noqa: PERF401 - what came before the cut counts
    except trio.BrokenResourceError:
        pass
    return b"".join(pieces)


async def test_a_connection_that_breaks_the_protocol_ends_alone(caplog):
    """What a stranger sends ends no other stream, and is told once, without their words; nor are those of a call that crashes."""
    app = App()
    async with serving(app) as (_, connect), await connect() as other:
        await other.send_all(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
        await read_ok(other)
        with caplog.at_level(logging.WARNING, "agentrail.gateway"):
            for _ in range(3):
                assert b" 200 " not in await ask(connect, raw=BREAKS_HYPERCORN)
            assert b" 400 " in await ask(connect, raw=b"no HTTP at all\r\n\r\n")
        said = [record.getMessage() for record in caplog.records]
        assert said == [
            "a connection was closed because its client broke the protocol (UnicodeDecodeError); 1 so far"
        ]
        with caplog.at_level(logging.DEBUG):
            assert b" 500 " in await ask(connect, "/raise?a=planted")
        assert "the application raised" in caplog.text
        assert "planted" not in caplog.text
        await other.send_all(b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
        await read_ok(other)
    assert app.seen == ["begun", "/first", "/raise", "/second", "over"]


async def test_a_connection_that_ended_is_freed_without_the_collector():
    """A server of many sessions looks at old objects so rarely that each long stream would stay for an hour after its end."""
    async with serving(App()) as (_, connect):
        gc.collect()
        with without_collector():
            for path in ("/", "/raise"):
                assert b"HTTP/1.1" in await ask(connect, path)
            with trio.fail_after(10):  # the server's task may end after its client has read the answer
                while [one for one in gc.get_objects() if isinstance(one, module._Connection)]:  # noqa: ASYNC110, SLF001 - what is to be freed
                    await trio.sleep(0.05)


@pytest.mark.parametrize("size", [5, 3_000_000])
@pytest.mark.parametrize("path", ["/", "/late"])
async def test_a_call_that_is_answered_before_its_body_is_read_ends_its_connection(path, size):
    """It says so, as a pool would lose its next call (RFC 9112, 9.6). Its client gets the whole answer, and no task waits for a reader."""
    async with serving(App()) as (_, connect), await connect() as early, trio.open_nursery() as nursery:
        await early.send_all(
            b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path.encode(), size + 1)
        )
        nursery.start_soon(early.send_all, b"x" * size)  # one byte never comes
        answer = b""
        while piece := await early.receive_some():
            answer += piece
        assert answer.endswith(b"ok")
        assert b"\r\nconnection: close\r\n" in answer


async def test_a_body_that_comes_at_once_leaves_the_connection_open():
    """With its head, and right after it: the next call of a pool uses it again."""
    async with serving(App()) as (_, connect), await connect() as kept:
        for pause in (0.0, 0.01):
            await kept.send_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
            await trio.sleep(pause)
            await kept.send_all(b"hello")
            assert b"connection: close" not in await read_ok(kept)


@pytest.mark.host("H-071")
async def test_a_writer_is_woken_by_a_cut():
    """One that waits for a reader who does not read is deaf to cancellation."""
    app = App()
    async with serving(app) as (_, connect), await connect() as lazy:
        await lazy.send_all(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n")
        await app.flooding.wait()
        with trio.move_on_after(0.05):
            await app.ended.wait()
        assert not app.ended.is_set()
        app.cut()
        app.cut()
        await app.ended.wait()
        assert b"ok" in await ask(connect)


@pytest.mark.parametrize("path", ["/wait", "/flood"])
@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_the_server_ends_whatever_its_callers_do(path, how):
    """One whose answer does not come, one who does not read, one who says nothing."""
    app = App()
    scope = trio.CancelScope()
    async with AsyncExitStack() as callers:  # who stay until the server is gone
        with scope:
            async with serving(app) as (stop, connect):
                lazy, silent = [await callers.enter_async_context(await connect()) for _ in range(2)]
                await lazy.send_all(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                await app.flooding.wait()
                await trio.testing.wait_all_tasks_blocked(0.05)  # the writer too
                began = trio.current_time()
                if how == "stopped":
                    stop.set()
                    assert await read_all(silent) == b""
                else:
                    scope.cancel()
    assert app.ended.is_set()
    assert trio.current_time() - began < 5
    assert app.seen == ["begun", path, *(["over"] if how == "stopped" else [])]


async def test_calls_have_no_time_to_finish_when_the_stop_says_so():
    """They are cancelled at once: whoever sends a second signal has read that it exits at once."""
    app = App()
    (listener,) = await open_listeners("127.0.0.1", 0)
    async with AsyncExitStack() as callers:

        async def stop():
            caller = await callers.enter_async_context(
                await trio.open_tcp_stream(*addresses_of([listener])[0])
            )
            await caller.send_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
            await app.flooding.wait()
            return False

        with trio.fail_after(10):
            await serve_app(
                app, [listener], stop, limits=ConnectionLimits(grace_seconds=60, cut_seconds=0.05)
            )
    assert app.seen == ["begun", "/wait", "over"]


async def test_connections_are_bounded():
    """One more is closed, and another is taken as soon as one has gone."""
    async with serving(App(), limits=ConnectionLimits(max_connections=1, idle_seconds=9)) as (_, connect):
        async with await connect() as first:
            await first.send_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await read_ok(first)
            assert await ask(connect) == b""
        with trio.fail_after(3):  # and not when the idle time of the first is over
            while b"ok" not in await ask(connect):
                await trio.lowlevel.checkpoint()


class Odd(BaseException):
    """What is no `Exception`."""


@pytest.mark.host("H-003")
@pytest.mark.parametrize("error", [ValueError("plugin"), Odd()])
@pytest.mark.parametrize("when", ["begin", "meanwhile", "end"])
async def test_what_the_lifespan_raises_leaves_the_server_as_it_is(error, when):
    """That very object, in no group, and no call is answered behind it."""
    fail = trio.Event()

    async def app(scope, receive, send):
        await receive()
        if when == "begin":
            await send({"type": "lifespan.startup.failed", "message": "a traceback"})
            raise error
        await send({"type": "lifespan.startup.complete"})
        await (fail.wait() if when == "meanwhile" else receive())
        raise error

    listeners = await open_listeners("127.0.0.1", 0)

    async def stop():
        fail.set()
        if when == "meanwhile":
            await trio.sleep_forever()

    with pytest.raises(type(error)) as caught:
        await serve_app(app, listeners, stop)
    assert caught.value is error
    with pytest.raises(OSError, match=r"Bad file descriptor"):
        listeners[0].socket.getsockname()


async def test_what_a_stop_raises_ends_the_server_in_order():
    """That very object, in no group, after the calls and the lifespan have ended: the address may have been told to a full disk."""
    app, error = App(), ValueError("no space")
    (listener,) = listeners = await open_listeners("127.0.0.1", 0)

    async def stop():
        async with await trio.open_tcp_stream(*addresses_of(listeners)[0]) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await read_ok(stream)
        raise error

    with pytest.raises(ValueError, match=r"no space") as caught:
        await serve_app(app, listeners, stop)
    assert caught.value is error
    assert app.seen == ["begun", "/", "over"]
    assert listener.socket.fileno() == -1


async def test_an_application_that_says_only_that_it_failed_is_not_served():
    """As ASGI lets it."""

    async def app(scope, receive, send):
        await send({"type": "lifespan.startup.failed", "message": ""})

    with pytest.raises(RuntimeError, match=r"the application failed: lifespan\.startup\.failed"):
        await serve_app(app, await open_listeners("127.0.0.1", 0), trio.sleep_forever)


async def test_tls_is_spoken_where_there_is_a_certificate():
    """And who speaks something else ends alone."""
    client = ssl.create_default_context(cafile=TLS / "certificate.pem")
    async with serving(App(), tls=tls_context(TLS / "certificate.pem", TLS / "key.pem")) as (_, connect):
        await ask(connect, raw=b"GET / HTTP/1.1\r\n\r\n")
        stream = trio.SSLStream(await connect(), client, server_hostname="localhost", https_compatible=True)
        async with stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert (await read_all(stream)).endswith(b"ok")


def certify(folder, name):
    """A new certificate for localhost, and its key."""
    made = f"-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {folder}/{name}.key -out {folder}/{name}.pem -days 2"
    command = f"openssl req -x509 {made} -subj /CN={name} -addext subjectAltName=DNS:localhost"
    subprocess.run(command.split(), check=True, capture_output=True)
    return folder / f"{name}.pem", folder / f"{name}.key"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, which makes the certificates")
async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path, monkeypatch, caplog):
    """By connections that begin afterwards. One that does not fit its key changes nothing, and the log says so."""
    monkeypatch.setattr(followed_files, "FILE_LOOK_SECONDS", 0.01)
    (cert, key), (second, second_key) = certify(tmp_path, "first"), certify(tmp_path, "second")
    trusting = ssl.create_default_context(cafile=cert)
    trusting.load_verify_locations(second)

    async def connected(connect):
        stream = trio.SSLStream(await connect(), trusting, server_hostname="localhost", https_compatible=True)
        await stream.do_handshake()
        return stream, dict(one[0] for one in stream.getpeercert()["subject"])["commonName"]

    async def until(connect, name):
        found = ""
        while found != name:
            stream, found = await connected(connect)
            await trio.aclose_forcefully(stream)

    caplog.set_level(logging.INFO, "agentrail.gateway")
    async with module.followed_tls(cert, key) as tls, serving(App(), tls=tls) as (_, connect):
        old, name = await connected(connect)
        assert name == "first"
        shutil.copy(second_key, key)
        while "stays in use" not in caplog.text:
            await until(connect, "first")
        shutil.copy(second, cert)
        await until(connect, "second")
        assert caplog.text.count("stays in use") == 1
        assert f"the certificate {cert} was reloaded" in caplog.text
        await old.send_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await read_all(old)).endswith(b"ok")
        await trio.aclose_forcefully(old)
        cert.unlink()
        while caplog.text.count("stays in use") == 1:
            await until(connect, "second")


async def test_an_error_of_a_cancelled_server_is_not_lost(tmp_path):
    """Although the files of its certificate are followed, which is cancelled too."""
    cert, key = certify(tmp_path, "first")

    async def fail_as_cancelled():
        with trio.CancelScope() as scope:
            async with module.followed_tls(cert, key):
                scope.cancel()
                raise OptionError(["of the block"])

    with pytest.raises(OptionError, match="of the block"):
        await fail_as_cancelled()


async def test_an_address_that_cannot_be_had_is_refused():
    """In use, no name, no port; the message says what to change."""
    async with (await open_listeners("127.0.0.1", 0))[0] as listener:
        ((host, port),) = addresses_of([listener])
        for place in ((host, port), ("a\udc80", 0)):
            with pytest.raises(OptionError, match=r"cannot listen on .*; give another --port or --host"):
                await open_listeners(*place)
    for port in (-1, 65_536):
        with pytest.raises(OptionError, match=f"--port {port} is not a port"):
            await open_listeners(host, port)
    assert show_address("::1", 5) == "[::1]:5"
    assert show_address("localhost", 5) == "localhost:5"
