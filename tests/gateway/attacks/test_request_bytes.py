"""Ambiguous requests, heads without a bound and broken frames: each with its answer, and no second request is read out of it.

Over real sockets, since what is attacked is what reads them.
"""

import gzip
import struct
import zlib

import pytest
import trio
from h11 import Request
from hypothesis import given, strategies as st

from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.request_parser import check_query
from agentrail.gateway.serving import fault_of_head
from tests.gateway.attacks.wire import (
    ANN,
    BINARY,
    CLOSE,
    CONTINUED,
    HOST,
    PING,
    PONG,
    TEXT,
    UPGRADE,
    at_once,
    frame,
    head,
    peer_of,
    post,
    send_quietly,
    statuses,
    tell,
)  # fmt: skip  # fmt: skip
from tests.gateway.socket_client import no_sockets
from tests.runtime.rig import on_bounded_time


@given(
    lines=st.lists(
        st.sampled_from([b"A: b", b"Content-Length: 2", b"Transfer-Encoding: chunked", b" c", b"\td"]),
        max_size=5,
    ),
    ends=st.lists(st.sampled_from([b"\r\n", b"\n", b"\r"]), min_size=6, max_size=6),
    version=st.sampled_from([b"1.1", b"1.0", b"2.0", b"0.9"]),
)
def test_a_head_passes_only_if_there_is_one_way_to_read_it(lines, ends, version):
    """Whatever it is put together of: each line ends alike, none is folded, and the length is said once."""
    raw = b"".join(line + end for line, end in zip([b"GET / HTTP/" + version, *lines], ends, strict=False))
    named = [line.split(b": ") for line in lines if b": " in line]
    request = Request(method="GET", target="/", headers=[("Host", "a")], http_version=version)
    object.__setattr__(request, "headers", [(name.lower(), value) for name, value in named])
    is_plain = (
        set(ends[: len(lines) + 1]) == {b"\r\n"}
        and not any(line[:1] in b" \t" for line in lines)
        and {b"Content-Length: 2", b"Transfer-Encoding: chunked"} - set(lines) != set()
        and version in (b"1.0", b"1.1")
        and not (version == b"1.0" and b"Transfer-Encoding: chunked" in lines)
    )
    assert (fault_of_head(raw, request) is None) is is_plain


@on_bounded_time
async def test_heads_are_read_whole_however_they_are_cut_up(attacked):
    """Three requests on one connection, in one packet and a byte in each; then a folded one, which is refused all the same."""
    plain = head(b"GET /health", HOST) + post(b"/sessions", b"{}") + head(b"GET /health", HOST)
    for last, found in (
        (b"", [200, 201, 200]),
        (head(b"GET /health", HOST, b"X: y\r\n z\r\n"), [200, 201, 200, 400]),
    ):
        stream = await trio.open_tcp_stream(*attacked.address)
        async with stream:
            for place in range(len(plain + last)):
                await stream.send_all((plain + last)[place : place + 1])
                await trio.lowlevel.checkpoint()
            answer = b"".join([bytes(piece) async for piece in stream])
        assert statuses(answer) == found
        answer, _ = await tell(attacked, plain + last)
        assert statuses(answer) == found


ODD = {
    "CONNECT": (head(b"CONNECT evil.example:443", ANN), 404),
    "TRACE": (head(b"TRACE /sessions", ANN, b"X-Secret: planted\r\n"), 405),
    "OPTIONS of all": (head(b"OPTIONS *", ANN), 404),
    "a whole URL": (head(b"GET http://127.0.0.1/health", ANN), 404),
    "a whole URL of another host": (head(b"GET http://evil.example/sessions", ANN), 404),
    "h2c": (head(b"GET /health", HOST, b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), 200),
    "HTTP/1.0": (b"GET /health HTTP/1.0\r\n" + HOST + b"\r\n", 200),
    "HTTP/1.0 without a host": (b"GET /sessions HTTP/1.0\r\nAuthorization: Bearer acme/ann\r\n\r\n", 403),
    "HTTP/1.0 with a line break after the body": (post(b"/sessions", b"{}").replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n", 201),
    "a request after the last one": (head(b"GET /health", HOST, b"Connection: close\r\n") + head(b"GET /health", HOST), 200),
    "a compressed body": (post(b"/sessions", gzip.compress(b" " * 1_000_000 + b"{}"), b"Content-Encoding: gzip\r\n"), 415),
    "a body that says so": (post(b"/sessions", b"{}", b"Content-Encoding: identity, gzip\r\n"), 415),
    "a form": (head(b"POST /sessions", ANN, b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 5\r\n") + b"--x--", 415),
}  # fmt: skip


@on_bounded_time
async def test_what_else_can_be_said_in_http_has_an_answer(attacked):
    """No tunnel, no echo, no other protocol, no body that becomes larger."""

    async def check(name):
        sent, status = ODD[name]
        answer, _ = await tell(attacked, sent)
        assert (name, statuses(answer)) == (name, [status])
        assert b"planted" not in answer

    await at_once(ODD, check)


def test_names_of_a_query_are_looked_at_once():
    """And not each among all others."""
    compared = []

    class Name(str):
        __slots__ = ()

        def __eq__(self, other):
            compared.append(1)
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"n{number}") for number in range(2_000)]
    with pytest.raises(CallRefused):
        check_query(names, ("limit", "cursor"))
    assert len(compared) < 20 * len(names)


MIB = 1 << 20
OWN = b"Origin: http://127.0.0.1\r\n"


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
    "a lone surrogate": (frame(TEXT, b"\xed\xa0\x80"), 1007),
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
    "fewer characters than may be, and more bytes": (frame(TEXT, "\u20ac".encode() * (MIB // 2)), 1009),
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
    await no_sockets(attacked)


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
    """It would stay open and be counted nowhere; the log has nothing of it. Only `/ws` can be upgraded."""

    async def check(name):
        answer, was_closed = await tell(attacked, UPGRADES[name])
        assert (name, statuses(answer), was_closed) == (name, [400], True)

    await at_once(UPGRADES, check)
    await no_sockets(attacked)
    assert caplog.text == ""
    for line, status in ((b"GET /chat", 403), (b"GET /nowhere", 403), (b"POST /ws", 404)):
        answer, _ = await tell(attacked, head(line, ANN, UPGRADE))
        assert (line, statuses(answer)) == (line, [status])
