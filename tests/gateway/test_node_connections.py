"""Connections between nodes: what is read of an answer in any pieces, and which connections are used again."""

from contextlib import asynccontextmanager

import httpcore
import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.abc.store import Node
from agentrail.gateway import node_connections
from agentrail.gateway.node_connections import Body, NodeConnections, decode_head, encode_request

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
pieces = st.lists(st.binary(min_size=1, max_size=40), max_size=8)


@asynccontextmanager
async def node_that(handle):
    """A node that answers each of its connections, and the connections to it."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port, opened = listeners[0].socket.getsockname()[1], []

    async def serve(stream):
        opened.append(stream)
        async with stream:
            await handle(stream)

    connections = NodeConnections(None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield connections, Node(id="n", address=f"http://127.0.0.1:{port}", codec=1), opened
        connections.close()
        nursery.cancel_scope.cancel()


def answering(*answers):
    """Answer the requests of a connection in order, then close it."""

    async def handle(stream):
        for answer in answers:
            if not await stream.receive_some(65_536):
                return
            await stream.send_all(answer)

    return handle


async def ask(connections, node, *, method="GET"):
    reply = await connections.send(node, method, b"/", [(b"host", b"n")], b"")
    try:
        return reply.status, b"".join([piece async for piece in reply.pieces])
    finally:
        reply.pieces.close()


def taken(parts):
    body = Body(None)
    return b"".join([body.take(part) for part in parts if not body.is_over]), body


@given(pieces, st.data())
def test_a_chunked_body_is_the_same_in_any_pieces(bodies, data):
    """However its bytes are split, also one by one, with extensions and capital digits."""
    sizes = [b"%X;a=b" % len(one) if data.draw(st.booleans()) else b"%x" % len(one) for one in bodies]
    whole = b"".join(b"%b\r\n%b\r\n" % pair for pair in zip(sizes, bodies, strict=True)) + b"0\r\n\r\n"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1))))
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    got, body = taken(parts)
    assert (got, body.is_over) == (b"".join(bodies), True)
    assert taken([whole])[1].is_at_end


@pytest.mark.parametrize(
    "broken",
    [b"x\r\nab", b"-1\r\n", b"\r\n\r\n", b"2\r\nabc\r\n", b"2\r\nab2\r\nab\r\n", b"2;" + b"a" * 2_000],
)
def test_a_malformed_chunk_is_no_content(broken):
    """A size that is none, a chunk that is longer than it says, and a line without an end."""
    with pytest.raises(httpcore.RemoteProtocolError):
        taken([broken])
    with pytest.raises(httpcore.RemoteProtocolError):
        taken([broken[at : at + 1] for at in range(len(broken))])


@pytest.mark.parametrize("head", [b"", b"HTTP/2 200", b"HTTP/1.1 99 No", b"SSH-2.0-x", b"HTTP/1.1 200x"])
def test_what_is_no_answer_is_refused(head):
    """What is no answer is refused."""
    with pytest.raises(httpcore.RemoteProtocolError):
        decode_head(head)


@pytest.mark.parametrize("value", [b"a\nb: c", b"a\r\nb: c", b"a\rb"])
def test_a_header_adds_no_line_to_a_request(value):
    """A header adds no line to a request, and neither does its path."""
    assert encode_request("GET", b"/", [(b"a", b"b")], b"x") == b"GET / HTTP/1.1\r\na: b\r\n\r\nx"
    for target, header in ((b"/", value), (value, b"b")):
        with pytest.raises(httpcore.LocalProtocolError):
            encode_request("GET", target, [(b"a", header)], b"")


async def test_a_connection_is_used_again_after_a_whole_answer():
    """Counted or chunked, and for a HEAD without a body; early hints are no answer."""
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    answers = [OK, CHUNKED + b"2\r\nok\r\n0\r\n\r\n", hints + OK, OK[:-2], OK]
    async with node_that(answering(*answers)) as (connections, node, opened):
        for method in ("GET", "GET", "GET", "HEAD", "GET"):
            assert await ask(connections, node, method=method) == (200, b"" if method == "HEAD" else b"ok")
        assert len(opened) == 1


@pytest.mark.parametrize(
    "first",
    [
        OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        OK + b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged",
        CHUNKED + b"2\r\nok\r\n0\r\nx: y\r\n\r\n",
    ],
    ids=["close", "more", "trailer"],
)
async def test_a_connection_with_something_left_is_not_used_again(first):
    """What comes behind an answer is never read as the next one."""
    async with node_that(answering(first, OK)) as (connections, node, opened):
        assert [await ask(connections, node) for _ in "ab"] == [(200, b"ok")] * 2
        assert len(opened) == 2


async def test_an_unused_connection_that_its_node_has_closed_is_not_used():
    """An unused connection that its node has closed is not used."""
    async with node_that(answering(OK)) as (connections, node, opened):
        await ask(connections, node)
        with trio.fail_after(5):
            while not connections.unused[0].socket.is_readable():  # noqa: ASYNC110 - of the system
                await trio.sleep(0.01)
        assert await ask(connections, node) == (200, b"ok")
        assert len(opened) == 2


@pytest.mark.parametrize("limit", ["IDLE_SECONDS", "MAX_UNUSED"])
async def test_unused_connections_are_neither_old_nor_many(limit, monkeypatch):
    """Unused connections are neither old nor many."""
    monkeypatch.setattr(node_connections, limit, 0)
    async with node_that(answering(OK, OK, OK)) as (connections, node, opened):
        assert [await ask(connections, node) for _ in "ab"] == [(200, b"ok")] * 2
        assert (len(opened), connections.unused) == (2, [])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpcore.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok", httpcore.RemoteProtocolError),
        (CHUNKED + b"5\r\nok", httpcore.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\n\r\nok", httpcore.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\na: " + b"a" * 200_000, httpcore.RemoteProtocolError),
    ],
    ids=["none", "length", "chunk", "endless", "head"],
)
async def test_an_answer_that_ends_early_is_none(answer, error):
    """A part is never taken for the whole."""
    async with node_that(answering(answer)) as (connections, node, _):
        with pytest.raises(error):
            await ask(connections, node)
        assert connections.unused == []


async def test_a_node_that_does_not_listen_has_got_nothing():
    """A node that does not listen has got nothing."""
    with pytest.raises(httpcore.ConnectError):
        await ask(NodeConnections(None), Node(id="n", address="http://127.0.0.1:1", codec=1))


async def test_an_answer_that_is_left_closes_its_connection():
    """By cancellation while its head is awaited, and when a stream is left in its middle."""
    ended = trio.Event()

    async def handle(stream):
        await stream.receive_some(65_536)
        await stream.send_all(CHUNKED + b"2\r\nok\r\n")
        assert await stream.receive_some(1) == b""
        ended.set()

    async with node_that(handle) as (connections, node, _):
        reply = await connections.send(node, "GET", b"/", [], b"")
        assert await anext(reply.pieces) == b"ok"
        reply.pieces.close()
        reply.pieces.close()
        with trio.fail_after(5):
            await ended.wait()

    async def stay(_):
        await trio.sleep_forever()

    async with node_that(stay) as (connections, node, opened):
        with trio.move_on_after(0.1):
            await ask(connections, node)
        with trio.fail_after(5):
            assert await opened[0].receive_some(65_536)
            assert await opened[0].receive_some(1) == b""
        assert connections.unused == []
