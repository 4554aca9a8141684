"""Names, pages, tokens and ids as an attacker writes them: what stands in the head of a call, spelled in every way that there is.

Spellings are made by a fuzzer out of one value, so that no list of examples has to know them all.
"""

import logging
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from agentrail.gateway.app import ROUTES
from agentrail.gateway.authorization import AccessRules, CallHead, judge_query
from agentrail.gateway.path_endpoint import has_encoded_slash
from agentrail.gateway.tokens import make_token
from tests.gateway.attacks.wire import (
    ANN,
    FREE,
    HOST,
    JSON,
    UPGRADE,
    at_once,
    by_header,
    head,
    statuses,
    tell,
)
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time

TOKEN = make_token("acme", "ann", now=0.0).token
ON_A_SESSION = [route for route in ROUTES if "{session_id}" in route.path]


def spelled(text, how):
    """A text with some of its characters as their codes, once or twice."""
    forms = [(one, f"%{ord(one):02x}", f"%25{ord(one):02X}", one.upper()) for one in text]
    return "".join(ways[how[place % len(how)]] for place, ways in enumerate(forms))


@pytest.mark.host("H-082")
@given(
    name=st.sampled_from(["token", "access_token", "access-token", "Access.Token", "auth token", "token[]"])
    | st.sampled_from(["api_key", "apikey", "bearer", "authorization", "jwt"]),
    how=st.lists(st.integers(0, 3), min_size=1, max_size=5),
    before=st.sampled_from(["", "a=1&", "a=1;", "&", ";;", "limit=5&&"]),
    value=st.sampled_from(["=planted", "=", ""]),
)
@example(name="token", how=[2], before="a=1;", value="=planted")
def test_a_token_in_a_query_is_refused_however_its_name_is_spelled(name, how, before, value):
    """Also without a value; and it is not repeated."""
    query = f"{before}{spelled(name.replace(' ', '+'), how)}{value}"
    call = CallHead(method="GET", path="/sessions", query=query, headers={"host": "127.0.0.1"}, peer="::1")
    for refused in (judge_query(call), AccessRules().judge(call)):
        assert refused is not None
        assert (refused.status, refused.code) == (400, "token_in_url")
        assert "planted" not in f"{refused}"


@pytest.mark.host("H-082")
@given(
    how=st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=5),
    query=st.sampled_from(["{}", "{}=", "limit={}", "a=b&cursor=1~{}", "after=1;x={}"]),
)
def test_a_token_of_ours_is_refused_wherever_it_stands_in_a_url(how, query):
    """Also as a value of something else, where an error would repeat it; and as an id in the path."""
    for call in (
        CallHead(method="GET", path="/sessions", query=query.format(spelled(TOKEN, how))),
        CallHead(method="GET", path=f"/sessions/{TOKEN}/events"),
    ):
        refused = judge_query(call)
        assert refused is not None
        assert refused.code == "token_in_url"
        assert TOKEN not in f"{refused.message} {refused.hint}"


@given(query=st.from_regex(r"\A(limit|after|cursor|path|wait|phase)=[a-z0-9~/._-]{0,20}\Z"))
def test_a_query_as_it_is_meant_passes(query):
    """Names of tokens as values too: a file may be called so."""
    assert judge_query(CallHead(method="GET", path="/sessions/token/files/token", query=query)) is None


@pytest.mark.host("H-088")
@on_bounded_time
async def test_no_header_is_in_any_answer_or_log(caplog):
    """Planted in each header that something reads, over HTTP and in front of a WebSocket."""
    planted = b"agt_planted-in-a-header"
    names = (
        b"Authorization", b"X-Agentrail-User", b"Content-Type", b"Content-Encoding", b"Idempotency-Key", b"Last-Event-ID", b"Origin", b"Accept",
        b"Cookie", b"Range", b"If-None-Match", b"X-Forwarded-For", b"X-Forwarded-Host", b"Forwarded", b"Sec-Fetch-Site", b"Sec-WebSocket-Protocol",
        b"Upgrade", b"Expect", b"TE", b"Referer", b"Agentrail-Direct", b"Traceparent", b"Content-Length", b"Transfer-Encoding",
    )  # fmt: skip
    with caplog.at_level(logging.DEBUG):
        async with serving(answering("a"), auth=by_header, limits=FREE) as web:
            await web.post("/sessions", {"session_id": "s-1"}, headers={"authorization": "Bearer acme/ann"})

            async def check(row):
                name, line = names[int(row.split()[0])], row.partition(" ")[2].encode()
                who = HOST if name == b"Authorization" else ANN
                is_framing = name in (b"Content-Type", b"Content-Length", b"Transfer-Encoding")
                kind = b"" if is_framing else b"Content-Length: 2\r\n" + JSON
                upgrade = UPGRADE if line.endswith(b"/ws") else kind
                answer, _ = await tell(
                    web, head(line, who, upgrade, name + b": " + planted + b"\r\n") + b"{}", seconds=0.3
                )
                assert planted not in answer, (name, line, answer)

            lines = ("POST /sessions", "GET /sessions/s-1/events", "GET /ws", "POST /chat", "GET /sessions")
            await at_once([f"{place} {line}" for place in range(len(names)) for line in lines], check)
    assert planted.decode() not in caplog.text


@given(
    name=st.sampled_from(["127.0.0.1", "localhost", "[::1]", "evil.example"]),
    before=st.sampled_from(["", "a@", "a:b@", "evil.example#", "evil.example/", " ", "x.", "http://", "\t"]),
    behind=st.sampled_from(["", ":80", ":0", ":99999", ":", ".", ".evil.example", "@evil.example"])
    | st.sampled_from(["/", ", evil.example", "%00", "\x0b", "::1"]),
)
def test_a_host_passes_only_as_its_name_with_a_port(name, before, behind):
    """No user in front of it, no dot behind it, no second one, and no other header in its place."""
    others = {
        "x-forwarded-host": "127.0.0.1",
        "forwarded": "for=127.0.0.1;host=127.0.0.1",
        "x-host": "localhost",
    }
    rules = AccessRules(needs_token=True)
    call = CallHead(method="GET", path="/", headers={"host": f"{before}{name}{behind}", **others})
    is_good = not before and name != "evil.example" and behind in ("", ":80", ":0", ":99999")
    assert (rules.judge_host(call) is None) is is_good


@given(
    site=st.sampled_from(["cross-site", "same-site", "same-origin", "none", "", "CROSS-SITE"]),
    mode=st.sampled_from(["no-cors", "cors", "navigate", "websocket", ""]),
    origin=st.sampled_from([None, "null", "https://evil.example", "http://127.0.0.1:8700"]),
)
def test_what_a_page_of_another_site_has_fetched_is_refused(site, mode, origin):
    """Also where its browser sends no Origin: an image, a script; and what passes by Origin does not fail for this."""
    headers = {"host": "127.0.0.1:8700", "sec-fetch-site": site, "sec-fetch-mode": mode}
    if origin is not None:
        headers["origin"] = origin
    refused = AccessRules().judge_origin(CallHead(method="GET", path="/sessions", headers=headers))
    if origin is not None:
        assert (refused is None) is (origin == "http://127.0.0.1:8700")
    else:
        assert (refused is None) is (site not in ("cross-site", "same-site") or mode == "navigate")


def raw_path(route, session_id):
    """A path with this in place of the id, as it goes over the wire."""
    path = route.path.replace("{session_id}", session_id).replace("{request_id}", "r-1")
    return path.replace("{path:path}", "notes.txt").encode("latin-1")


def behind(route):
    """What stands behind an id in some other path than this one's, so that it would be found if the slash between them were one."""
    return "abort" if route.method == "POST" else "messages"


TRICKS = (
    "%2e%2e", "..", "..%2f..%2fetc", "s-1%2f", "%2fs-1", "s-1%2fx", "s-1%5cx", "s-1%00", "s-1%0d%0aX:%20y", "%c0%ae%c0%ae", "%c0%af",
    "s-1%20", "%ef%bc%8e%ef%bc%8e", "s%ef%bc%8d1", "s-1..", ".s-1", "%252e%252e", "s-1%252f", "S-1%c2%ad", "%ff", "~s-1", "s-1;x=y",
)  # fmt: skip


@pytest.mark.host("H-085")
@on_bounded_time
async def test_no_spelling_of_an_id_leads_to_a_session_or_a_route_that_was_not_named(caplog):
    """On every route some of them, on all routes all of them: 422, or 404 and 405 where another path was named; the session `s-1` is reached by no name but its own."""
    async with serving(answering("a"), auth=by_header, limits=FREE) as web:
        await web.post("/sessions", {"session_id": "s-1"}, headers={"authorization": "Bearer acme/ann"})
        before = (await web.client.get("/sessions/s-1", headers={"authorization": "Bearer acme/ann"})).json()

        async def check(row):
            place = int(row)
            route, tricks = (
                ON_A_SESSION[place],
                (*TRICKS[place % 4 :: 4], f"s-1%2F{behind(ON_A_SESSION[place])}"),
            )
            method, more = f"{route.method} ".encode(), (ANN, JSON, b"Content-Length: 2\r\n")
            lines = [head(method + raw_path(route, trick), *more) + b"{}" for trick in tricks]
            answer, _ = await tell(web, b"".join(lines) + b"the end\r\n\r\n")
            found = statuses(answer)
            assert found[-1:] == [400]
            assert len(found) == len(tricks) + 1, (route.path, found)
            for trick, status in zip(tricks, found, strict=False):
                assert status in (403, 404, 405, 422), (route.method, route.path, trick, status)

        await at_once(map(str, range(len(ON_A_SESSION))), check)
        after = (await web.client.get("/sessions/s-1", headers={"authorization": "Bearer acme/ann"})).json()
        assert (after["seq"], after["status"]["phase"]) == (before["seq"], "idle")
        assert len(web.host.sessions_of(by_header({"authorization": "Bearer acme/ann"}))) == 1


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(st.text("ab/.%é ", min_size=1, max_size=6), min_size=1, max_size=4),
    file=st.none() | st.text("ab/.%é ", min_size=1, max_size=9),
)
def test_a_slash_that_was_written_as_a_part_of_a_name_is_found(parts, file):
    """In front of the path of a file, where it may stand."""
    names = [quote(one, safe="") for one in parts]
    raw = "/" + "/".join(names)
    path, params = "/" + "/".join(parts), {}
    if file is not None:
        raw, path, params = f"{raw}/{quote(file, safe='')}", f"{path}/{file}", {"path": file}
    scope = {"raw_path": raw.encode(), "path": path, "path_params": params}
    assert has_encoded_slash(scope) is any("/" in one for one in parts)
