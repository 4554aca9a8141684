"""What every call meets in front of the routes, called as of ASGI, without a server."""

import json

import pytest

from agentrail.gateway.authorization import AccessGuard, AccessRules, CallerCheck, caller_of
from agentrail.gateway.tokens import decode_tokens, make_token
from agentrail.host.hook_payloads import Principal

MADE = make_token("acme", "ann", now=0.0)
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
        """The caller's side."""
        self.sent.append(message)

    @property
    def status(self):
        """Of the answer; None where none was begun."""
        return next((one["status"] for one in self.sent if "status" in one), None)

    @property
    def headers(self):
        """Of the answer."""
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def code(self):
        """Of the error."""
        return json.loads(self.sent[1]["body"])["error"]["code"]


def guarded(seen, *, auth=True, **rules):
    """Routes behind a guard."""
    tokens = decode_tokens(MADE.lines.encode(), "f") if auth else None
    check = CallerCheck(tokens, AccessRules(**{"allowed_origins": ("https://app.example",), **rules}))
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


@pytest.mark.host("H-080")
@pytest.mark.parametrize(
    "path", ["/chat", "/no/such/path", "/sessions/foreign", "/health/", "/ready/x", "/console"]
)
async def test_without_a_token_no_path_answers_otherwise_than_another(path):
    """Not even whether it exists."""
    seen = await call(path=path)
    assert (seen.status, seen.code, seen.callers) == (401, "unauthorized", [])
    assert seen.headers["www-authenticate"] == "Bearer"
    assert seen.headers["content-type"] == "application/json"
    assert int(seen.headers["content-length"]) == len(seen.sent[1]["body"])


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_health_needs_none_of_it(path):
    """A balancer knows no name of the server."""
    seen = Seen()
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [(b"host", b"10.1.2.3")],
        "client": None,
    }
    await guarded(seen)(scope, None, seen.send)
    assert (seen.status, seen.callers) == (200, [None])


@pytest.mark.host("H-116")
async def test_a_preflight_of_a_listed_origin_is_204_before_any_other_check():
    """Without a token, under any name."""
    asked = (APP_PAGE, (b"access-control-request-method", b"POST"))
    seen = await call(*asked, path="/sessions", method="OPTIONS", headers=[(b"host", b"any"), *asked])
    assert (seen.status, seen.callers) == (204, [])
    assert seen.headers["access-control-allow-methods"] == "GET, POST"
    assert seen.sent[1]["body"] == b""
    assert (await call(*asked, path="/unknown", method="OPTIONS")).status == 401


@pytest.mark.host("H-116")
async def test_answers_can_be_read_by_a_listed_origin_also_where_they_refuse():
    """What a route sets besides stays."""
    for headers, status in (((BEARER, APP_PAGE), 200), ((APP_PAGE,), 401)):
        seen = await call(*headers)
        assert seen.status == status
        assert seen.headers["access-control-allow-origin"] == "https://app.example"
    lines = (await call(BEARER, APP_PAGE)).sent[0]["headers"]
    assert [value for name, value in lines if name == b"vary"] == [b"Accept", b"Origin"]
    foreign = await call(BEARER, (b"origin", b"https://evil.example"))
    assert (foreign.status, foreign.code) == (403, "origin_refused")
    assert "access-control-allow-origin" not in foreign.headers


@pytest.mark.host("H-082")
async def test_a_token_in_the_query_string_is_400():
    """Also beside a valid one; it is not repeated."""
    seen = await call(BEARER, query_string=b"token=planted")
    assert (seen.status, seen.code, seen.callers) == (400, "token_in_url", [])
    assert b"planted" not in seen.sent[1]["body"]


async def test_a_call_with_too_many_headers_goes_no_further():
    """Not even to the health route."""
    seen = await call(*[(b"a", b"b")] * 200, path="/health")
    assert (seen.status, seen.code, seen.callers) == (431, "headers_too_large", [])


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
