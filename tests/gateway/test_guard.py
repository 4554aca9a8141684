"""What every call meets in front of the routes, called as of ASGI, without a server: the guard, and how it learns who calls."""

import json
import logging

import pytest
import trio

from agentrail.gateway.authorization import (
    UNAUTHORIZED,
    AccessGuard,
    AccessRules,
    CallerCheck,
    CallHead,
    caller_of,
)
from agentrail.gateway.error_responses import ErrorAnswer
from agentrail.gateway.tokens import Tokens, decode_tokens, make_token
from agentrail.host.hook_payloads import Principal
from tests.host.rig import hang, raising
from tests.runtime.rig import on_virtual_time

MADE = make_token("acme", "ann", now=0.0)
TOKENS = decode_tokens(MADE.lines.encode(), "f")
BEARER = (b"authorization", f"Bearer {MADE.token}".encode())
ANN = Principal(tenant_id="acme", user_id="ann")
HERE = (b"host", b"localhost:8700")
APP_PAGE = (b"origin", b"https://app.example")
METHODS = {"/chat": ("POST",), "/sessions": ("GET", "POST")}


class Seen:
    """What came through, and what was sent."""

    def __init__(self):
        self.callers = []
        self.sent = []

    async def app(self, scope, receive, send):
        """The routes: any path is one."""
        self.callers.append(caller_of(scope))
        if scope["type"] == "http":
            headers = [(b"x-session-id", b"s1"), (b"vary", b"Accept")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"ok"})

    async def send(self, message):
        self.sent.append(message)

    @property
    def status(self):
        """Of the answer; None where none was begun."""
        return next((one["status"] for one in self.sent if "status" in one), None)

    @property
    def headers(self):
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def code(self):
        return json.loads(self.sent[1]["body"])["error"]["code"]


def guarded(seen, *, auth=True):
    check = CallerCheck(TOKENS if auth else None, AccessRules(allowed_origins=("https://app.example",)))
    return AccessGuard(
        seen.app, check, lambda path: METHODS.get(path, ()), lambda path: path.startswith("/console/")
    )


async def call(*headers, path="/chat", method="POST", kind="http", auth=True, **scope):
    """Make a call; gives what became of it."""
    seen = Seen()
    whole = {"type": kind, "path": path, "headers": [HERE, *headers], "client": ("127.0.0.1", 9), **scope}
    if kind == "http":
        whole["method"] = method
    await guarded(seen, auth=auth)(whole, None, seen.send)
    return seen


@pytest.mark.host("H-080", "H-082")
async def test_what_is_refused_reaches_no_route():
    """Without a token no path differs from another; a token in the query is not repeated; only health needs neither token nor name."""
    for path in ("/chat", "/no/such/path", "/sessions/foreign", "/health/", "/ready/x", "/console"):
        seen = await call(path=path)
        assert (seen.status, seen.code, seen.callers) == (401, "unauthorized", []), path
        assert seen.headers["www-authenticate"] == "Bearer"
        assert seen.headers["content-type"] == "application/json"
        assert int(seen.headers["content-length"]) == len(seen.sent[1]["body"])
    seen = await call(BEARER, query_string=b"token=planted")
    assert (seen.status, seen.code, seen.callers) == (400, "token_in_url", [])
    assert b"planted" not in seen.sent[1]["body"]
    seen = await call(*[(b"a", b"b")] * 200, path="/health")
    assert (seen.status, seen.code, seen.callers) == (431, "headers_too_large", [])
    for path in ("/health", "/ready"):
        seen = await call(path=path, method="GET", headers=[(b"host", b"10.1.2.3")], client=None)
        assert (seen.status, seen.callers) == (200, [None])
    assert (await call(kind="lifespan")).callers == [None]


@pytest.mark.host("H-116")
async def test_a_listed_origin_may_ask_without_a_token_and_reads_every_answer():
    """A preflight is 204 under any name, of a path that there is; what a route sets besides stays."""
    asked = (APP_PAGE, (b"access-control-request-method", b"POST"))
    seen = await call(*asked, path="/sessions", method="OPTIONS", headers=[(b"host", b"any"), *asked])
    assert (seen.status, seen.callers) == (204, [])
    assert seen.headers["access-control-allow-methods"] == "GET, POST"
    assert seen.sent[1]["body"] == b""
    assert (await call(*asked, path="/unknown", method="OPTIONS")).status == 401
    for headers, status in (((BEARER, APP_PAGE), 200), ((APP_PAGE,), 401)):
        seen = await call(*headers)
        assert seen.status == status
        assert seen.headers["access-control-allow-origin"] == "https://app.example"
    lines = (await call(BEARER, APP_PAGE)).sent[0]["headers"]
    assert [value for name, value in lines if name == b"vary"] == [b"Accept", b"Origin"]
    foreign = await call(BEARER, (b"origin", b"https://evil.example"))
    assert (foreign.status, foreign.code) == (403, "origin_refused")
    assert "access-control-allow-origin" not in foreign.headers


@pytest.mark.host("H-081")
@pytest.mark.parametrize(
    ("headers", "status", "caller"),
    [
        ((BEARER,), None, [ANN]),
        ((BEARER, APP_PAGE), None, [ANN]),
        ((APP_PAGE,), None, [None]),  # its token comes with `hello`
        ((), 403, []),
        (((b"origin", b"null"), BEARER), 403, []),
        (((b"origin", b"https://evil.example"),), 403, []),
        (((b"host", b"evil.example"), BEARER), 403, []),
        (((b"authorization", b"Bearer wrong"), APP_PAGE), 401, []),
    ],
)
@pytest.mark.parametrize("can_say_why", [True, False])
async def test_a_websocket_is_judged_before_its_upgrade(headers, status, caller, can_say_why):
    """With the answer of any call, where the server can send one; else it says 403."""
    extensions = {"websocket.http.response": {}} if can_say_why else {}
    seen = await call(*headers, path="/ws", kind="websocket", extensions=extensions)
    assert seen.callers == caller
    if status is None:
        assert seen.sent == []
    elif can_say_why:
        assert (seen.status, seen.sent[0]["type"]) == (status, "websocket.http.response.start")
    else:
        assert seen.sent == [{"type": "websocket.close"}]


BAD = {"authorization": "Bearer agt_planted"}
RULES = AccessRules()


def head(headers=None, peer="10.0.0.1"):
    return CallHead(method="GET", path="/", headers={"host": "localhost", **(headers or {})}, peer=peer)


async def admit(door, *calls):
    """The outcome of each call: a principal, or status and code."""
    outcomes = [await door.admit(call) for call in calls]
    return [(one.status, one.code) if isinstance(one, ErrorAnswer) else one for one in outcomes]


@pytest.mark.host("H-080")
async def test_calls_without_a_valid_token_get_answers_of_the_same_bytes():
    """Missing, empty, malformed, truncated, wrong and expired."""
    gone = make_token("acme", days=1, now=0.0)
    door = CallerCheck(Tokens([*TOKENS.entries, *decode_tokens(gone.lines.encode(), "f").entries]), RULES)
    wrong = ("Bearer", "Basic YTpi", f"Bearer {MADE.token[:-1]}", "Bearer wrong", f"Bearer {gone.token}")
    values = (None, "", *wrong)
    answers = [await door.admit(head({} if one is None else {"authorization": one})) for one in values]
    assert {(one.status, one.encode(), tuple(one.headers.items())) for one in answers} == {
        (401, UNAUTHORIZED.encode(), (("www-authenticate", "Bearer"),))
    }


@on_virtual_time
async def test_behind_so_many_failures_the_application_is_not_asked():
    """What it looks up may be guessed, and may cost a query: ten in a minute, or what `Limits` says."""
    asked = []

    async def authenticate(headers):
        await trio.sleep(1)
        asked.append(headers["authorization"])

    refused, too_many = (401, "unauthorized"), (429, "too_many_requests")
    door = CallerCheck(authenticate, RULES)
    assert await admit(door, *[head(BAD)] * 12) == [refused] * 10 + [too_many] * 2
    assert len(asked) == 10
    door = CallerCheck(TOKENS, RULES, max_failures_per_minute=1)
    assert await admit(door, head(), head()) == [refused, too_many]


class Odd(BaseException):
    """What is no `Exception`."""


async def in_a_nursery(_headers):
    """An `authenticate` whose task fails."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raising(ValueError("planted")))
        await trio.sleep_forever()


@on_virtual_time
@pytest.mark.host("H-088")
@pytest.mark.parametrize(
    ("auth", "why"),
    [
        (raising(ValueError("bad token planted")), "it raised ValueError"),
        (raising(Odd("planted")), "it raised Odd"),
        (in_a_nursery, "it raised ExceptionGroup"),
        (lambda headers: {"tenant_id": "planted"}, "principal is of type dict"),
        (lambda headers: True, "principal is of type bool"),
        (lambda headers: Principal(tenant_id="planted planted", user_id=""), "tenant_id is not a valid id"),
        (lambda headers: Principal(tenant_id="acme", user_id="planted planted"), "user_id is not a valid id"),
        (hang, "it took longer than 10 s"),
    ],
)
async def test_an_application_that_fails_lets_no_call_in(caplog, auth, why):
    """503, and neither the answer nor the log repeats what it raised or gave: that may hold the token."""
    with caplog.at_level(logging.ERROR, "agentrail.gateway"):
        answer = await CallerCheck(auth, RULES).admit(head(BAD))
    assert (answer.status, answer.code) == (503, "plugin_failed")
    assert why in caplog.text
    assert "planted" not in caplog.text + f"{answer} {answer.encode()!r}"
