"""Who may call, decided from the head of a call alone. No server runs here, and no clock."""

import pytest

from agentrail.errors import OptionError
from agentrail.gateway.authorization import (
    ANYONE_HERE,
    AccessRules,
    CallHead,
    FailedAuthentications,
    is_loopback,
    judge_peer,
    name_user,
)
from agentrail.host.hook_payloads import Principal

HERE = {"host": "127.0.0.1:8700"}
OPEN = AccessRules()
LISTED = AccessRules(
    allowed_hosts=("agents.example",), allowed_origins=("https://app.example",), needs_token=True
)
OF_TENANT = Principal(tenant_id="acme", user_id="")
OF_USER = Principal(tenant_id="acme", user_id="ann")


def head(method="GET", *, query="", peer="127.0.0.1", is_websocket=False, **headers):
    """A call to this machine; underscores in names of headers are hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    given = {"query": query, "peer": peer, "is_websocket": is_websocket}
    return CallHead(method=method, path="/chat", headers={**HERE, **named}, **given)


def verdict(answer):
    """Status and code of an answer; None where the call goes on."""
    return None if answer is None else (answer.status, answer.code)


STRANGERS = ("evil.example", "evil.example:8700", "localhost.evil.example", "127.0.0.1.evil.example")
SEVERAL = ("127.0.0.1, evil.example", "evil.example, 127.0.0.1", "127.0.0.1@evil.example", "user@127.0.0.1")
ODD = ("", "127.0.0.2", "[::2]", "::1", "localhost:", "localhost:x", "localhost:123456", "local\u212aost")


@pytest.mark.host("H-081")
@pytest.mark.parametrize("host", [*STRANGERS, *SEVERAL, *ODD, "localhost.", " localhost"])
def test_any_other_name_is_refused(host):
    """A name of a stranger's that leads here is how pages of theirs get in (DNS rebinding)."""
    assert verdict(OPEN.judge(head(host=host))) == (403, "host_refused")


def test_what_no_header_could_be_is_refused_when_rules_are_made():
    """An entry that fits no call is a mistake, and a wildcard a hole."""
    for options, said in (
        ({"allowed_hosts": ["*"]}, "allowed_hosts has '\\*': expected a name or an address"),
        ({"allowed_hosts": ["http://a.example"]}, "allowed_hosts has 'http://a.example'"),
        ({"allowed_hosts": [".example", "a b"]}, "allowed_hosts has '.example'.*; allowed_hosts has 'a b'"),
        ({"allowed_hosts": []}, "allowed_hosts is empty, so no call would be answered"),
        ({"allowed_origins": ["*"]}, "allowed_origins has '\\*': expected scheme and host"),
        ({"allowed_origins": ["null"]}, "allowed_origins has 'null'"),
        ({"allowed_origins": ["app.example"]}, "allowed_origins has 'app.example'"),
        ({"allowed_origins": ["https://app.example/"]}, "allowed_origins has 'https://app.example/'"),
        ({"allowed_origins": ["https://*.example"]}, "allowed_origins has"),
        ({"allowed_origins": ["https://app.example:443"]}, "allowed_origins has"),
        ({"allowed_origins": ["file://"]}, "allowed_origins has 'file://'"),
    ):
        with pytest.raises(OptionError, match=said):
            AccessRules(**options)


OTHERS = ("null", "https://evil.example", "http://127.0.0.1", "http://127.0.0.1:3000")
NO_ORIGINS = ("", "http://127.0.0.1:8700, null", "http://127.0.0.1:8700/", "ws://127.0.0.1:8700")


@pytest.mark.host("H-081")
@pytest.mark.parametrize("is_websocket", [False, True])
@pytest.mark.parametrize(
    "origin", [*OTHERS, *NO_ORIGINS, "http://localhost:8700", "http://127.0.0.1:8700.evil.example"]
)
def test_a_page_of_any_other_origin_is_refused(origin, is_websocket):
    """Also one of another program on this machine; over WebSocket before the upgrade."""
    assert verdict(OPEN.judge(head(origin=origin, is_websocket=is_websocket))) == (403, "origin_refused")


@pytest.mark.host("H-081")
def test_where_origins_are_listed_it_is_exactly_these():
    """An operator who lists some lists all."""
    for origin, good in (
        ("https://app.example", True),
        ("http://app.example", False),
        ("https://app.example:8443", False),
        ("https://agents.example", False),  # its own: where there is a list, it is the list
        ("https://evil.example", False),
        ("null", False),
    ):
        answer = LISTED.judge(head(host="agents.example", origin=origin))
        assert verdict(answer) == (None if good else (403, "origin_refused")), origin


@pytest.mark.host("H-081")
def test_a_websocket_without_an_origin_needs_a_token():
    """A page always sends one; the token is then looked up like any other."""
    for rules, headers, good in (
        (OPEN, {}, False),
        (OPEN, {"authorization": "Bearer agt_1"}, False),  # where no token is asked for, none is looked at
        (OPEN, {"origin": "http://127.0.0.1:8700"}, True),
        (LISTED, {"host": "agents.example"}, False),
        (LISTED, {"host": "agents.example", "authorization": "Bearer agt_1"}, True),
        (LISTED, {"host": "agents.example", "origin": "https://app.example"}, True),
    ):
        answer = rules.judge(head(is_websocket=True, **headers))
        assert verdict(answer) == (None if good else (403, "origin_refused")), headers


def preflight(origin="https://app.example", **headers):
    """What a browser asks before it sends what is more than a form."""
    return head("OPTIONS", origin=origin, access_control_request_method="POST", **headers)


@pytest.mark.host("H-116")
def test_pages_of_listed_origins_alone_may_ask_and_read():
    """A preflight names methods, headers and ten minutes, never credentials or a wildcard; answers vary by Origin."""
    assert LISTED.answer_preflight(preflight(host="evil.example", peer="1.2.3.4"), ("GET", "POST")) == {
        "vary": "Origin",
        "access-control-allow-origin": "https://app.example",
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": (
            "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Agentrail-User"
        ),
        "access-control-max-age": "600",
    }
    assert LISTED.cors_headers(head(origin="https://app.example")) == {
        "vary": "Origin",
        "access-control-allow-origin": "https://app.example",
        "access-control-expose-headers": (
            "X-Session-Id, X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, X-Should-Retry, X-History-Repairs,"
            " X-Agentrail-Ignored, X-Agentrail-History-Differs, Mcp-Session-Id"
        ),
    }
    for rules, call in (
        (LISTED, head(origin="https://evil.example")),
        (LISTED, head()),
        (OPEN, head(origin="http://127.0.0.1:8700")),
    ):
        assert rules.cors_headers(call) == {"vary": "Origin"}


def test_a_page_of_a_listed_origin_may_send_the_headers_of_its_library():
    """Those of MCP depend on the call, and those of OpenAI's library on its version."""
    for sent in ("authorization,mcp-protocol-version,mcp-session-id", "a2a-version", "x-stainless-os"):
        asked = preflight(access_control_request_headers=sent)
        allowed = LISTED.answer_preflight(asked, ("POST",))
        assert allowed is not None
        assert allowed["access-control-allow-headers"] == sent


@pytest.mark.host("H-116")
def test_what_is_no_preflight_of_a_listed_origin_is_judged_like_any_other_call():
    """Another origin's, one of an unknown path, and what only looks like one."""
    for rules, asked, methods in (
        (LISTED, preflight("https://evil.example"), ("POST",)),
        (LISTED, preflight("null"), ("POST",)),
        (OPEN, preflight("http://127.0.0.1:8700"), ("POST",)),  # its own pages ask for nothing
        (LISTED, preflight(), ()),
        (LISTED, head("OPTIONS", origin="https://app.example"), ("POST",)),
        (LISTED, head("POST", origin="https://app.example", access_control_request_method="POST"), ("POST",)),
        (LISTED, head("OPTIONS", access_control_request_method="POST"), ("POST",)),
    ):
        assert rules.answer_preflight(asked, methods) is None, asked


def test_what_is_this_machine():
    """An address, and no name: what leads here is what others wrote."""
    for address in ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "[::1]:5", "127.0.0.1:99"):
        assert is_loopback(address), address
    for address in ("0.0.0.0", "::", "10.0.0.1", "::ffff:8.8.8.8", "127.1"):  # noqa: S104 - nothing is bound to it
        assert not is_loopback(address), address
    for text in ("", "testclient", "localhost", "fe80::1%eth0"):
        assert not is_loopback(text), text


def test_through_a_proxy_on_this_machine_no_other_machine_gets_in():
    """The peer is then the proxy; what it says of whom it calls for has to be this machine as well."""
    for headers, good in (
        ({}, True),
        ({"x_forwarded_for": "127.0.0.1, ::1"}, True),
        ({"x_forwarded_for": "8.8.8.8"}, False),
        ({"x_forwarded_for": "127.0.0.1, 8.8.8.8"}, False),
        ({"x_forwarded_for": ""}, False),
        ({"x_real_ip": "8.8.8.8"}, False),
        ({"forwarded": "for=127.0.0.1;proto=http"}, True),
        ({"forwarded": 'for=127.0.0.1, For="[2001:db8::1]:5"'}, False),
        ({"forwarded": "for=_hidden"}, False),
        ({"forwarded": "proto=https"}, False),
    ):
        assert verdict(judge_peer(head(**headers))) == (None if good else (403, "forbidden")), headers


@pytest.mark.host("H-085")
@pytest.mark.parametrize(
    ("principal", "header", "body", "user"),
    [
        (OF_USER, None, {}, "ann"),
        (OF_USER, "ann", {"tenant_id": "acme", "user_id": "ann"}, "ann"),
        (OF_TENANT, "bob", {}, "bob"),
        (OF_TENANT, None, {"user_id": "bob"}, "bob"),
        (OF_TENANT, "bob", {"tenant_id": "acme", "user_id": "bob"}, "bob"),
        (OF_TENANT, None, {}, ""),
        (ANYONE_HERE, None, {"tenant_id": "local", "user_id": "local"}, "local"),
    ],
)
def test_a_call_names_its_user_where_the_token_does_not(principal, header, body, user):
    """In a header, or in its body; what both name has to agree."""
    headers = {} if header is None else {"x-agentrail-user": header}
    found = name_user(principal, headers, **body)
    assert isinstance(found, Principal)
    assert (found.tenant_id, found.user_id, found.scopes) == (principal.tenant_id, user, principal.scopes)


@pytest.mark.host("H-085")
def test_what_contradicts_the_token_is_refused():
    """403, and the message tells neither what the token says nor what came."""
    for principal, header, body in (
        (OF_USER, None, {"tenant_id": "globex"}),
        (OF_USER, None, {"tenant_id": ""}),
        (OF_USER, None, {"user_id": "bob"}),
        (OF_USER, "bob", {}),
        (OF_USER, "", {}),
        (OF_USER, "ann, bob", {}),
        (OF_TENANT, None, {"tenant_id": "globex", "user_id": "bob"}),
        (OF_TENANT, "bob", {"user_id": "eve"}),
        (ANYONE_HERE, None, {"tenant_id": "acme"}),
    ):
        answer = name_user(principal, {} if header is None else {"x-agentrail-user": header}, **body)
        assert verdict(answer) == (403, "principal_mismatch"), (header, body)
        assert not any(one in answer.message for one in ("acme", "globex", "ann", "bob", "eve")), (
            header,
            body,
        )


@pytest.mark.host("H-085")
@pytest.mark.parametrize(
    "user", ["a/b", "..", "a..b", "a\0b", "a b", "a" * 129, "", "ä", "-a", "a, b", "a\n"]
)
@pytest.mark.parametrize("where", ["header", "body"])
def test_a_user_that_is_no_id_is_refused(user, where):
    """422, and it is not repeated."""
    named = ({"x-agentrail-user": user}, None) if where == "header" else ({}, user)
    answer = name_user(OF_TENANT, named[0], user_id=named[1])
    assert verdict(answer) == (422, "id_invalid")
    assert len(user) < 3 or user not in f"{answer.message} {answer.hint}"


def test_failures_of_many_addresses_are_forgotten():
    """Old ones are dropped, and beyond a limit the oldest; a call shows neither its headers nor its query."""
    failures = FailedAuthentications(limit=1, max_addresses=100)
    for number in range(1_000):
        failures.failed(f"10.0.{number // 250}.{number % 250}", float(number % 7))
        assert len(failures) <= 100
    assert failures.wait_of("10.0.3.249", 7.0) > 0
    for number in range(100):
        failures.failed(f"10.1.0.{number}", 1_000.0)
    assert len(failures) == 100
    assert failures.wait_of("10.0.3.249", 7.0) == 0.0
    assert "planted" not in repr(head(query="token=planted", authorization="Bearer planted"))
