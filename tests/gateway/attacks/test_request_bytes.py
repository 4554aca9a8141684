"""Requests that a proxy and we could read otherwise, and heads without a bound: each with its answer, and with no second request read out of it.

Over real sockets, since what is attacked is what reads them.
"""

import gzip

import pytest
import trio
from h11 import Request
from hypothesis import given, strategies as st

from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.request_parser import check_query
from agentrail.gateway.serving import ConnectionLimits, fault_of_head
from tests.gateway import web as web_module
from tests.gateway.attacks.wire import (
    ANN,
    FREE,
    HOST,
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

"""What stands where a body ought to: if it is answered, it was smuggled in."""


@pytest.fixture
async def attacked(monkeypatch):
    """A server that knows who calls by what they say; a silent connection is closed soon, but not before a busy machine has read it."""
    hurry = ConnectionLimits(grace_seconds=0.2, cut_seconds=0.2, idle_seconds=1)
    monkeypatch.setattr(web_module, "HURRY", hurry)
    async with serving(answering(*"abcdefgh"), auth=by_header, limits=FREE) as opened:
        yield opened


# --- two readers, two requests


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


# --- heads without a bound


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
