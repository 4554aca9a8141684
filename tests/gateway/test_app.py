"""An application as a whole, on a real socket: who gets in, what is refused before any handler, streams, limits, and how it ends."""

import hashlib

import httpx
import pytest
import trio

from agentrail.abc.store import Filters
from agentrail.errors import OptionError
from agentrail.gateway.app import create_app
from agentrail.gateway.tokens import TokenEntry, Tokens, make_token
from agentrail.host import Limits
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, says
from tests.gateway.callers import by
from tests.gateway.web import error_of, serving
from tests.host.hosting import ANN, Ledger, answering, asked, hosting, profile, sleeping
from tests.host.rig import hang, plugin
from tests.runtime.rig import on_bounded_time, on_virtual_time

SLOW = says("So", " it", " is.", pause_seconds=30.0)
PAGE = "https://app.example"


def token_for(tenant, user, *scopes, expires_at=None):
    """A token, and what a file has of it."""
    made = make_token(tenant, user, scopes=scopes or ("use",), now=0.0)
    digest = hashlib.sha256(made.token.encode()).digest()
    entry = TokenEntry(
        digest=digest, tenant_id=tenant, user_id=user, scopes=scopes or ("use",), expires_at=expires_at
    )
    return made.token, entry


@on_bounded_time
@pytest.mark.host("H-011")
async def test_before_the_lifespan_ran_a_call_is_a_503():
    """No hook hears of it, and only `/health` answers; mounted elsewhere a host is opened by hand, once at a time."""
    ledger = Ledger()
    app = create_app(profiles=[profile(answering("a"))], plugins=[ledger], store=None)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", verify=False) as client:  # noqa: S501
        error = error_of(await client.post("/chat", json={"message": "Hi"}), 503, "not_started")
        assert "async with app.state.host.open()" in error["message"]
        assert (await client.get("/health")).json() == {"status": "ok"}
        assert (await client.get("/ready")).status_code == 503
    assert ledger.heard == []
    for _ in range(2):
        async with app.state.host.open() as host:
            assert app.state.host.gateway.host is host
            with pytest.raises(OptionError, match="already"):
                async with app.state.host.open():
                    pass
            await app.state.host.quiet()
        assert app.state.host.gateway.host is None
        await app.state.host.drain()


@on_bounded_time
@pytest.mark.host("H-087")
async def test_a_readiness_check_that_hangs_fails_under_its_name():
    """The others are told; why stands in the log. `/health` and HEAD answer, without a name of this server."""

    async def fail():
        message = "secret of the database"
        raise OSError(message)

    checks = {"queue": sleeping(60), "db": fail}
    async with serving(answering("a"), readiness_checks=checks, check_timeout=0.05) as web:
        response = await web.client.get("/ready", headers={"Host": "10.0.0.7"})
        told = response.json()
        found = {one["name"]: (one["status"], one.get("error")) for one in told["checks"]}
        assert (response.status_code, told["status"]) == (503, "not_ready")
        assert found["queue"] == ("not_ready", "timeout")
        assert found["db"] == ("not_ready", "failed")
        assert found["supervisor"] == found["plugins"] == ("ready", None)
        assert "secret" not in response.text
        assert (await web.client.head("/health", headers={"Host": "10.0.0.7"})).status_code == 200


@on_bounded_time
@pytest.mark.host("H-080", "H-082", "H-085")
async def test_tokens_let_callers_in_and_all_else_is_one_401():
    """Byte by byte; a token in the query is 400; a body that names another tenant is 403; a token of a tenant has to name its user."""
    token, ann = token_for("acme", "ann")
    old, expired = token_for("acme", "bob", expires_at=1.0)
    team, of_tenant = token_for("acme", "")
    looks, inspects = token_for("acme", "ann", "inspect")
    limits = Limits(failed_authentications_per_minute=99)
    async with serving(
        answering("a", "b"), auth=Tokens([ann, expired, of_tenant, inspects]), limits=limits
    ) as web:
        wrong = ("", "Bearer", "Basic YTpi", token, "Bearer agt_x", f"Bearer {token[:-1]}", f"Bearer {old}")
        twice = httpx.Headers([*by(token).items()] * 2)
        bad = [{}, twice, *({"Authorization": one} for one in wrong)]
        found = [await web.post("/chat", {"message": "Hi"}, headers=one) for one in bad]
        assert {one.status_code for one in found} == {401}
        assert len({one.content for one in found}) == 1
        assert len({str({**one.headers, "date": ""}) for one in found}) == 1
        error_of(await web.client.get("/nowhere"), 401, "unauthorized")
        error_of(await web.post(f"/chat?token={token}", {}, headers=by(token)), 400, "token_in_url")
        said = {"message": "Hi", "session_id": "main"}
        for more, given, status, code in (
            ({"tenant_id": "else"}, token, 403, "principal_mismatch"),
            ({}, team, 422, "field_invalid"),
            ({}, looks, 403, "forbidden"),
        ):
            error_of(await web.post("/chat", {**said, **more}, headers=by(given)), status, code)
        said |= {"tenant_id": "acme", "user_id": "ann"}
        assert (await web.post("/chat", said, headers=by(token))).status_code == 200
        named = {**by(team), "X-Agentrail-User": "ann"}
        assert (await web.post("/sessions/main/steer", {"message": "x"}, headers=named)).status_code == 202


@on_bounded_time
@pytest.mark.host("H-081", "H-116")
async def test_pages_of_other_origins_get_in_where_they_are_listed():
    """A preflight is 204 before any other check; errors can be read too; of a stranger's nothing is allowed."""
    async with serving(
        answering("a"), auth=Tokens([token_for("acme", "ann")[1]]), allowed_origins=[PAGE]
    ) as web:
        asks = {"Access-Control-Request-Method": "POST"}
        allowed = await web.client.options("/chat", headers={"Origin": PAGE, **asks})
        assert (allowed.status_code, allowed.content) == (204, b"")
        assert allowed.headers["access-control-allow-origin"] == PAGE
        assert allowed.headers["access-control-allow-methods"] == "POST"
        assert "access-control-allow-credentials" not in allowed.headers
        refused = await web.client.options("/chat", headers={"Origin": "https://evil.example", **asks})
        assert refused.status_code == 403
        assert not [name for name in refused.headers if name.startswith("access-control")]
        read = await web.post("/chat", {"message": "Hi"}, headers={"Origin": PAGE})
        error_of(read, 401, "unauthorized")
        assert read.headers["access-control-allow-origin"] == PAGE
        assert "X-Session-Id" in read.headers["access-control-expose-headers"]
        assert read.headers["vary"] == "Origin"
        for headers in ({"Origin": "null"}, {"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            assert (await web.post("/chat", {"message": "Hi"}, headers=headers)).status_code == 403


@on_bounded_time
@pytest.mark.host("H-086")
async def test_the_message_behind_the_burst_is_a_429_that_says_how_long():
    """What is left is in each answer that counts; calls have a bucket of their own, and what stops something has none."""
    # One call a minute comes back, so a slow machine uses them up too.
    limits = Limits(messages_per_minute=6, messages_burst=2, calls_per_minute=1, calls_burst=5)
    async with serving(answering("a", "b", "c"), limits=limits) as web:
        first = await web.chat(session_id="s-1")
        assert first.headers["ratelimit-policy"] == '"messages";q=6;w=60'
        assert first.headers["ratelimit"] == '"messages";r=1;t=10'
        await web.chat(session_id="s-1")
        response = await web.chat(session_id="s-1")
        error_of(response, 429, "too_many_requests")
        assert 1 <= int(response.headers["retry-after"]) <= 10
        assert response.headers["ratelimit"].startswith('"messages";r=0;')
        frames = await web.stream("/sessions/s-1/events?after=0&request_id=" + first.json()["request_id"])
        assert frames[-1].data["reason"] == "completed"
        assert "ratelimit" not in (await web.client.get("/health")).headers
        for _ in range(10):
            last = await web.client.get("/sessions")
            if last.status_code == 429:
                break
        error_of(last, 429, "too_many_requests")
        assert int(last.headers["retry-after"]) >= 1
        assert (await web.post("/sessions/s-1/abort")).status_code == 202
        error_of(await web.post("/sessions/s-1/reject", {"approval_id": "x"}), 404, "approval_unknown")
        error_of(await web.post("/sessions/s-1/requests/r/cancel"), 404, "request_unknown")


@on_bounded_time
@pytest.mark.host("H-067", "H-068", "H-070", "H-105")
async def test_cursors_and_sessions_that_have_ended():
    """A stream shows its request whole; a future cursor is a 409; a reader of what has ended gets the rest, and an `EventSource` that has all of it a 204."""
    async with serving(answering("a")) as web:
        said = {"message": "Hi", "session_id": "s-1"}
        async with web.client.stream("POST", "/stream", json=said) as response:
            assert response.headers["content-type"] == "text/event-stream"
            assert response.headers["cache-control"] == "no-store"
            assert response.headers["x-accel-buffering"] == "no"
            assert response.headers["x-session-id"] == "s-1"
            request_id = response.headers["x-request-id"]
            await response.aread()
        path = "/sessions/s-1/events"
        of_request = f"{path}?after=0&request_id={request_id}"
        frames = await web.stream(of_request)
        numbers = [int(frame.id) for frame in frames if frame.id]
        assert numbers == list(range(1, len(numbers) + 1))
        done = frames[-1].data
        assert (done["reason"], done["request_id"], done["seq"]) == ("completed", request_id, numbers[-1])
        assert done["usage"]["input"] > 0
        assert done["context"]["tokens"] > 0
        error = error_of(await web.client.get(f"{path}?after=999"), 409, "cursor_ahead")
        assert error["last_seq"] > 0
        both = await web.client.get(f"{path}?after=0", headers={"Last-Event-ID": "999"})
        error_of(both, 409, "cursor_ahead")

        async def come_back(place: str, last: int) -> list[int]:
            """The statuses for an `EventSource` that has all of it, and for one that lacks the last event."""
            heads = [{"Last-Event-ID": f"{seq}"} for seq in (last, last - 1)]
            return [(await web.client.get(place, headers=head)).status_code for head in heads]

        assert await come_back(of_request, done["seq"]) == [204, 200]
        await web.host.supervisor.stop_session("s-1", "done", scope="local")
        done = (await web.stream(f"{path}?after=1"))[-1].data
        assert done["reason"] == "session_ended"
        assert await come_back(path, done["seq"]) == [204, 200]
        assert (await web.client.get(f"{path}?after={done['seq']}")).status_code == 200  # no browser
        error_of(await web.client.get(path), 409, "session_ended")
        error_of(await web.client.get("/sessions/s-9/events"), 404, "session_unknown")
        error_of(await web.client.get(f"{path}?request_id=r-9"), 404, "request_unknown")


@on_bounded_time
@pytest.mark.host("H-117", "H-068")
async def test_a_server_that_stops_lets_all_know():
    """In `drain_delay` requests work and `/ready` fails; behind it a new one is 503 and its connection closed; streams and chats end."""
    model = ScriptedModel([says("a"), SLOW, SLOW, SLOW])
    ledger = Ledger()
    async with serving(model, ledger, drain_delay=0.3, drain_timeout=0.3) as web:
        await web.chat(session_id="s-1")
        streamed, answered = [], []
        async with trio.open_nursery() as nursery:

            async def stream():
                streamed.extend(await web.stream(said={"message": "Hi", "session_id": "s-1"}))

            async def chat():
                answered.append(await web.chat(session_id="s-2"))

            nursery.start_soon(stream)
            nursery.start_soon(chat)
            await trio.sleep(0.1)
            web.stop.set()
            await trio.sleep(0.05)
            ready = await web.client.get("/ready")
            assert ready.status_code == 503
            assert {one.get("reason") for one in ready.json()["checks"]} == {None, "draining"}
            assert (await web.post("/sessions/s-2/prompt", {"message": "more"})).status_code == 202
            await trio.sleep(0.35)
            refused = await web.chat()
            error_of(refused, 503, "draining")
            assert refused.headers["connection"] == "close"
        assert streamed[-1].data["reason"] == "shutdown"
        assert streamed[-1].data["seq"] > 0
        error_of(answered[0], 503, "draining")
    assert ledger.ends == ["completed", "shutdown", "shutdown", "shutdown"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"profiles": ()}, "profile"),
        ({"heartbeat": 0}, "heartbeat"),
        ({"drain_delay": -1}, "drain_delay"),
        ({"base_path": "agents/"}, "base_path"),
        ({"node_ca": 7}, "node_ca"),
        ({"auth": "token"}, "auth"),
        ({"allowed_hosts": ["*"]}, "allowed_hosts"),
        ({"chat_timeot": 1}, "chat_timeot"),
        *(({"protocols": one}, "'ai-ui'") for one in (("gopher",), ("ag-ui", "gopher"), "ai-ui", None)),
    ],
)
def test_what_cannot_be_is_refused_when_the_application_is_made(given, said):
    """Before anything is opened, with the name of the option."""
    with pytest.raises(OptionError, match=said):
        create_app(**{"profiles": [profile(answering("a"))], **given})


def served_by(*plugins, **options):
    options.setdefault("store", None)
    app = create_app(profiles=[profile(ScriptedModel([SLOW]))], plugins=plugins, **options)
    return app.state.host


@on_virtual_time
async def test_a_drain_and_the_close_behind_it_have_one_budget(caplog):
    """Whatever hangs: cycles, the hook of an end, the stop of a plugin, which has a second of its own."""
    slow = plugin("slow", on_request_end=hang, stop=hang, timeouts={"on_request_end": 1000, "stop": 1000})
    served = served_by(slow, drain_delay=5, drain_timeout=1000, shutdown_timeout=40)
    with caplog.at_level("WARNING", logger="agentrail.host"):
        async with served.open() as host:
            await asked(host)
            began = trio.current_time()
            await served.drain()
            assert trio.current_time() - began <= 40 * 0.95
    assert trio.current_time() - began == 41
    assert "no time left for plugin 'slow' to stop" in caplog.text


@on_virtual_time
async def test_with_a_store_sessions_rest_behind_the_hooks_that_read_them():
    """None of them ends; also where a cycle is cut, and a hook takes all the time that there is."""
    store, read = MemoryStore(), []

    async def look(ctx):
        read.append(len(await ctx.reader.messages()))
        await trio.sleep(1000)

    slow = plugin("slow", on_request_end=look, timeouts={"on_request_end": 1000})
    served = served_by(slow, store=store, drain_timeout=1, shutdown_timeout=20)
    async with served.open() as host:
        await asked(host, session_id="main")
        await trio.sleep(1)
        began = trio.current_time()
    assert trio.current_time() - began <= 20
    assert read == [1]
    [stored] = store.find(Filters(), limit=10)
    assert not stored.standing.has_ended
    async with hosting(answering("Again."), store=store) as host:
        assert [one.session_id for one in await host.list_sessions(ANN)] == ["main"]
