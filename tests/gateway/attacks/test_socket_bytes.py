"""Frames of a WebSocket as no client sends them: each with the code that it ends with, and what is held of it meanwhile.

Over real sockets: of most of this the socket of `socket_connection` hears nothing, since it is refused in front of it.
"""

import struct
import zlib

import pytest
import trio

from agentrail.gateway.serving import ConnectionLimits
from tests.gateway import web as web_module
from tests.gateway.attacks.wire import (
    ANN,
    BINARY,
    CLOSE,
    CONTINUED,
    FREE,
    HOST,
    PING,
    PONG,
    TEXT,
    UPGRADE,
    Peer,
    at_once,
    by_header,
    frame,
    head,
    peer_of,
    send_quietly,
    statuses,
    tell,
)  # fmt: skip
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time

MIB = 1 << 20
OWN = b"Origin: http://127.0.0.1\r\n"


@pytest.fixture
async def attacked(monkeypatch):
    """A server that knows who calls by what they say; a silent connection is closed soon, but not before a busy machine has read it."""
    hurry = ConnectionLimits(grace_seconds=0.2, cut_seconds=0.2, idle_seconds=1)
    monkeypatch.setattr(web_module, "HURRY", hurry)
    async with serving(answering("a"), auth=by_header, limits=FREE) as opened:
        yield opened


def pressed(size: int) -> bytes:
    """So many bytes in very few, as permessage-deflate has them."""
    press = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (press.compress(b"x" * size) + press.flush(zlib.Z_SYNC_FLUSH))[:-4]


BROKEN = {
    "not masked": (frame(TEXT, b"{}", masked=False), 1002),
    "a bit that means nothing": (frame(TEXT, b"{}", bits=1), 1002),
    "a bit of a compression that was not agreed": (frame(TEXT, pressed(64 * MIB), bits=4), 1002),
    "no UTF-8": (frame(TEXT, b"\xff\xfe"), 1007),
    "no UTF-8 across two fragments": (frame(TEXT, b"\xe2\x82", last=False) + frame(CONTINUED, b"\x28"), 1007),
    "half of a character": (frame(TEXT, b"\xed\xa0\x80"), 1007),
    "an unknown kind": (frame(3, b"{}"), 1002),
    "an unknown kind of control": (frame(11, b""), 1002),
    "a ping in fragments": (frame(PING, b"a", last=False), 1002),
    "a long ping": (frame(PING, b"a" * 126), 1002),
    "a continuation of nothing": (frame(CONTINUED, b"{}"), 1002),
    "a message within a message": (frame(TEXT, b"{", last=False) + frame(TEXT, b"}"), 1002),
    "a length beyond all": (b"\x81\xff" + b"\xff" * 8 + bytes(4) + b"x" * 100, 1002),
    "a length that is longer than it has to be": (b"\x81\xfe\x00\x02" + bytes(4) + b"{}", 1002),
    "a close with half of a code": (frame(CLOSE, b"a"), 1002),
    "a close with a code that none may send": (frame(CLOSE, struct.pack(">H", 1005)), 1002),
    "a close": (frame(CLOSE, struct.pack(">H", 1000)), 1000),
    "a mebibyte and a byte": (frame(TEXT, b"x" * (MIB + 1)), 1009),
    "the same in fragments": (frame(TEXT, b"x" * MIB, last=False) + frame(CONTINUED, b"x"), 1009),
    "bytes": (frame(BINARY, b"\0") * 3, 4400),
    "no JSON": (frame(TEXT, b"{") * 3, 4400),
    "deep JSON": (frame(TEXT, b'{"a":' * 10_000) * 3, 4400),
    "a flood of pings": (frame(PING) * 5_000, 4429),
    "a flood of pongs": (frame(PONG) * 5_000, 4429),
    "fragments of one byte": (frame(TEXT, b"{", last=False) + frame(CONTINUED, b" ", last=False) * 5_000, 4429),
    "fragments of nothing": (frame(TEXT, last=False) + frame(CONTINUED, last=False) * 5_000, 4429),
}  # fmt: skip


@pytest.mark.host("H-076")
@on_bounded_time
async def test_what_is_no_frame_ends_the_socket_with_its_code(attacked):
    """1002 and 1007 by RFC 6455, 1009, 4400 and 4429 by ours; whoever calls, and nothing is left behind."""

    async def check(name):
        sent, code = BROKEN[name]
        async with peer_of(attacked) as peer:
            await send_quietly(peer, sent)
            assert (name, await peer.to_end()) == (name, code)

    await at_once(BROKEN, check)
    await nothing_is_open(attacked)


async def nothing_is_open(web):
    """Wait until the server knows that all have gone."""
    with trio.fail_after(3):
        while web.served.sockets.statistics().sockets:  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.01)
    assert web.served.gateway.places.in_all == web.served.sockets.statistics().unknown == 0


UPGRADES = {
    "another version": head(b"GET /ws", ANN, UPGRADE.replace(b"13", b"12")),
    "no key": head(b"GET /ws", ANN, UPGRADE.replace(b"Sec-WebSocket-Key", b"X")),
    "HTTP/1.0": b"GET /ws HTTP/1.0\r\n" + ANN + UPGRADE + b"\r\n",
    "frames in front of the answer": head(b"GET /ws", ANN, UPGRADE) + frame(TEXT, b"{}") * 99,
    "a body": head(b"GET /ws", ANN, UPGRADE, b"Content-Length: 7\r\n") + b"xxxxxxx",
    "a request behind it": head(b"GET /ws", HOST, OWN, UPGRADE) + head(b"GET /health", HOST),
}  # fmt: skip


@on_bounded_time
async def test_an_upgrade_that_is_none_is_refused_and_its_connection_closed(attacked, caplog):
    """It would stay open for ever, and be counted nowhere; and it is no bug of ours that the log has to tell of."""

    async def check(name):
        answer, was_closed = await tell(attacked, UPGRADES[name])
        assert (name, statuses(answer), was_closed) == (name, [400], True)

    await at_once(UPGRADES, check)
    await nothing_is_open(attacked)
    assert caplog.text == ""


@on_bounded_time
async def test_an_upgrade_of_anything_else_than_the_socket_is_refused(attacked):
    """Nor is a POST one."""
    for line, status in ((b"GET /chat", 403), (b"GET /nowhere", 403), (b"POST /ws", 404)):
        answer, _ = await tell(attacked, head(line, ANN, UPGRADE))
        assert (line, statuses(answer)) == (line, [status])


async def flood(peer: Peer) -> None:
    """Send pings that are as large as they may be, and read nothing."""
    many = frame(PING, b"x" * 125) * 500
    while True:
        await peer.stream.send_all(many)
