"""Requests that a proxy and we could read otherwise, and heads without a bound: each with its answer, and with no second request read out of it.

Over real sockets, since what is attacked is what reads them.
"""

import gzip
import json
from time import thread_time

import pytest
import trio
from h11 import Request
from hypothesis import given, strategies as st

from agentrail.gateway.answers import CallRefused
from agentrail.gateway.protocol import fault_of_head
from agentrail.gateway.reading import check_query
from agentrail.gateway.serving import ConnectionLimits
from tests.gateway import web as web_module
from tests.gateway.attacks.wire import (
    ANN,
    FREE,
    HOST,
    JSON,
    UPGRADE,
    at_once,
    by_header,
    head,
    post,
    statuses,
    tell,
)  # fmt: skip
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time

SECOND = head(b"GET /health", HOST)
"""What stands where a body ought to: if it is answered, it was smuggled in."""

CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.fixture
async def attacked(monkeypatch):
    """A server that knows who calls by what they say; a silent connection is closed soon, but not before a busy machine has read it."""
    hurry = ConnectionLimits(grace_seconds=0.2, cut_seconds=0.2, idle_seconds=1)
    monkeypatch.setattr(web_module, "HURRY", hurry)
    async with serving(answering(*"abcdefgh"), auth=by_header, limits=FREE) as opened:
        yield opened


# --- two readers, two requests


SMUGGLED = {
    "a length and chunks": (head(b"POST /chat", ANN, JSON, CHUNKED, b"Content-Length: 4\r\n") + b"0\r\n\r\n", 400),
    "chunks and a length": (head(b"POST /chat", ANN, JSON, b"Content-Length: 4\r\n", CHUNKED) + b"0\r\n\r\n", 400),
    "chunks of HTTP/1.0": (b"POST /chat HTTP/1.0\r\n" + ANN + JSON + CHUNKED + b"\r\n0\r\n\r\n", 400),
    "chunks by another name": (head(b"POST /chat", ANN, JSON, b"Transfer-Encoding: xchunked\r\n") + b"0\r\n\r\n", 501),
    "chunks and something else": (head(b"POST /chat", ANN, JSON, b"Transfer-Encoding: chunked, identity\r\n"), 501),
    "chunks twice": (head(b"POST /chat", ANN, JSON, CHUNKED, CHUNKED) + b"0\r\n\r\n", 501),
    "chunks behind a tab": (head(b"POST /chat", ANN, JSON, b"Transfer-Encoding:\tchunked\x0b\r\n") + b"0\r\n\r\n", 400),
    "a name with a blank": (head(b"POST /chat", ANN, JSON, b"Transfer-Encoding : chunked\r\n") + b"0\r\n\r\n", 400),
    "two lengths": (head(b"POST /chat", ANN, JSON, b"Content-Length: 2\r\nContent-Length: 3\r\n") + b"{}x", 400),
    "a length with a sign": (head(b"POST /chat", ANN, JSON, b"Content-Length: +2\r\n") + b"{}", 400),
    "a length of hex": (head(b"POST /chat", ANN, JSON, b"Content-Length: 0x2\r\n") + b"{}", 400),
    "a length beyond all": (head(b"POST /chat", ANN, JSON, b"Content-Length: " + b"9" * 30 + b"\r\n"), 400),
    "chunk sizes that are none": (head(b"POST /sessions", ANN, JSON, CHUNKED) + b"-1\r\n{}\r\n0\r\n\r\n", 400),
    "a chunk that is longer": (head(b"POST /sessions", ANN, JSON, CHUNKED) + b"1\r\n{}\r\n0\r\n\r\n", 400),
    "bare ends of lines": (b"GET /sessions HTTP/1.1\n" + ANN.replace(b"\r", b"") + b"\n", 400),
    "one bare end of a line": (b"GET /sessions HTTP/1.1\r\n" + ANN + b"X: y\n\r\n", 400),
    "a folded header": (head(b"GET /sessions", ANN, b"X: y\r\n z\r\n"), 400),
    "a folded token": (head(b"GET /sessions", HOST, b"Authorization: Bearer\r\n acme/ann\r\n"), 400),
    "a NUL": (head(b"GET /sessions", ANN, b"X: y\x00z\r\n"), 400),
    "a carriage return": (head(b"GET /sessions", ANN, b"X: y\rz: 1\r\n"), 400),
    "two blanks": (head(b"GET  /sessions", ANN), 400),
    "two hosts": (head(b"GET /sessions", ANN, b"Host: evil.example\r\n"), 400),
    "no host": (head(b"GET /sessions", b"Authorization: Bearer acme/ann\r\n"), 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 505),
    "HTTP of the future": (b"GET /sessions HTTP/3.7\r\n" + ANN + b"\r\n", 505),
}  # fmt: skip


@on_bounded_time
async def test_what_two_readers_could_take_for_two_things_is_refused_and_the_connection_closed(attacked):
    """A proxy in front of us would give the next one's request on as a part of this one."""

    async def check(name):
        sent, status = SMUGGLED[name]
        answer, was_closed = await tell(attacked, sent + SECOND)
        assert (name, statuses(answer), was_closed) == (name, [status], True)

    await at_once(SMUGGLED, check)


@on_bounded_time
async def test_a_request_without_a_version_is_none(attacked):
    """HTTP/0.9 would be answered without a head."""
    for sent, found in ((b"GET /health\r\n", []), (b"GET /health\r\n\r\n", [400])):
        answer, was_closed = await tell(attacked, sent)
        assert (statuses(answer), was_closed) == (found, True)


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


# --- bodies that are not read


REFUSED = {
    "no token": (head(b"POST /sessions", HOST, JSON, b"Content-Length: 999\r\n"), 401),
    "another host": (head(b"POST /sessions", b"Host: evil.example\r\n", JSON, b"Content-Length: 999\r\n"), 403),
    "too large": (head(b"POST /sessions", ANN, JSON, b"Content-Length: 9999999\r\n"), 413),
    "another type": (head(b"POST /sessions", ANN, b"Content-Type: text/plain\r\nContent-Length: 999\r\n"), 415),
    "an unknown path": (head(b"POST /nowhere", ANN, JSON, b"Content-Length: 999\r\n"), 404),
    "another method": (head(b"PUT /sessions", ANN, JSON, b"Content-Length: 999\r\n"), 405),
    "of a call that has none": (head(b"GET /sessions", ANN, b"Content-Length: 999\r\n"), 200),
    "of a call that has none, in chunks": (head(b"GET /sessions", ANN, CHUNKED) + b"3e7\r\n", 200),
}  # fmt: skip


@on_bounded_time
async def test_behind_a_body_that_was_not_read_the_connection_is_closed(attacked):
    """What stands in it is no request."""

    async def check(name):
        sent, status = REFUSED[name]
        answer, was_closed = await tell(attacked, sent + SECOND)
        assert (name, statuses(answer), was_closed) == (name, [status], True)

    await at_once(REFUSED, check)


@on_bounded_time
async def test_a_request_behind_a_whole_body_is_the_next_one(attacked):
    """That is what keeping a connection is for; extensions of chunks and trailers mean nothing here."""
    chunks = b"2;name=value\r\n{}\r\n0\r\nHost: evil.example\r\nAuthorization: Bearer else/eve\r\n\r\n"
    answer, _ = await tell(attacked, head(b"POST /sessions", ANN, JSON, CHUNKED) + chunks + SECOND)
    assert statuses(answer) == [201, 200]


ODD = {
    "CONNECT": (head(b"CONNECT evil.example:443", ANN), 404),
    "TRACE": (head(b"TRACE /sessions", ANN, b"X-Secret: planted\r\n"), 405),
    "OPTIONS of all": (head(b"OPTIONS *", ANN), 404),
    "a whole URL": (head(b"GET http://127.0.0.1/health", ANN), 404),
    "a whole URL of another host": (head(b"GET http://evil.example/sessions", ANN), 404),
    "h2c": (head(b"GET /health", HOST, b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), 200),
    "HTTP/1.0": (b"GET /health HTTP/1.0\r\n" + HOST + b"\r\n", 200),
    "HTTP/1.0 without a host": (b"GET /sessions HTTP/1.0\r\nAuthorization: Bearer acme/ann\r\n\r\n", 403),
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


@on_bounded_time
async def test_who_waits_for_100_gets_an_answer(attacked):
    """And one that is refused is closed behind it."""
    waits = b"Content-Length: 2\r\nExpect: 100-continue\r\n"
    answer, was_closed = await tell(attacked, head(b"POST /sessions", HOST, JSON, waits))
    assert (statuses(answer)[-1], was_closed) == (401, True)
    answer, _ = await tell(attacked, head(b"POST /sessions", ANN, JSON, waits) + b"{}")
    assert statuses(answer) == [100, 201]


# --- heads without a bound


ENDLESS = {
    "a million headers": b"GET /sessions HTTP/1.1\r\n" + ANN + b"a:b\r\n" * 200_000,
    "a header of 10 MB": b"GET /sessions HTTP/1.1\r\n" + ANN + b"a: " + b"b" * 10_000_000,
    "a URL of 1 MB": b"GET /" + b"a" * 1_000_000,
    "100,000 names in a query": b"GET /sessions?" + b"&".join(b"%x" % number for number in range(100_000)),
    "10,000 headers in one packet": head(b"GET /sessions", ANN, b"a:b\r\n" * 10_000),
    "10,000 names in one packet": head(
        b"GET /sessions?" + b"&".join(b"%x" % one for one in range(8_000)), ANN
    ),
    "the same before a WebSocket": head(
        b"GET /ws?" + b"&".join(b"%x" % one for one in range(8_000)),
        HOST,
        b"Origin: http://127.0.0.1\r\n",
        UPGRADE,
    ),
    "trailers": head(b"POST /sessions", ANN, JSON, CHUNKED) + b"0\r\n" + b"a:b\r\n" * 200_000,
}


@on_bounded_time
async def test_a_head_without_a_bound_is_refused_before_others_notice(attacked):
    """431, or 400 behind the begin of an answer; reading it holds no other call up."""
    longest = 0.0

    async def look(scope):
        nonlocal longest
        with scope:
            while True:
                began = thread_time()  # of the loop alone: how busy the machine is besides does not matter
                await trio.sleep(0.001)
                longest = max(longest, thread_time() - began)

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look, scope)
        for name, sent in ENDLESS.items():
            answer, was_closed = await tell(attacked, sent)
            assert (name, statuses(answer)[:1] in ([431], [400]), was_closed) == (name, True, True)
        scope.cancel()
    assert longest < 0.5  # the names of a query took that long when each was looked for among all others


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


# --- JSON that takes long


HARD = {
    "deep": b"[" * 100_000,
    "deep and closed": b'{"metadata":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
    "a number of 100,000 digits": b'{"metadata":{"a":' + b"1" * 100_000 + b"}}",
    "an exponent": b'{"metadata":{"a":1e999999999}}',
    "NaN": b'{"metadata":{"a":NaN}}',
    "infinity": b'{"metadata":{"a":-Infinity}}',
    "a key twice": b'{"session_id":"a","session_id":"b"}',
    "a key twice, once escaped": b'{"session_id":"a","session\\u005fid":"b"}',
    "half of a character": b'{"session_id":"\\ud800"}',
    "no UTF-8": b'{"session_id":"\xff"}',
    "UTF-16": json.dumps({}).encode("utf-16"),
    "a mark in front": b"\xef\xbb\xbf{}",
    "more behind": b"{}{}",
    "200,000 keys": b"{" + b",".join(b'"k%d":1' % number for number in range(120_000)) + b"}",
    "a comment": b"{/* */}",
}


@on_bounded_time
async def test_json_that_is_hard_to_read_is_refused(attacked):
    """400, 413 or 422, and no session is made of it."""

    async def check(name):
        answer, _ = await tell(attacked, post(b"/sessions", HARD[name]))
        assert (name, statuses(answer) in ([400], [413], [422])) == (name, True)

    await at_once(HARD, check)
    assert attacked.host.sessions_of(by_header({"authorization": "Bearer acme/ann"})) == []
