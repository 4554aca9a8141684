"""One response over SSE, on a wire of the tests: one terminal frame whatever ends it, and what a disconnect does."""

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpx
import msgspec
import pytest
import trio
from attrs import evolve
from msgspec.structs import replace

from agentrail.errors import BadRequest
from agentrail.events import AgentStart, Envelope, EventsLost
from agentrail.gateway import app as app_module
from agentrail.gateway.app import create_app
from agentrail.gateway.openapi import describe_interface
from agentrail.gateway.path_endpoint import CallRoute
from agentrail.gateway.protocols import ai_ui_routes
from agentrail.gateway.protocols.response_stream import ResponseReader, SseWire
from agentrail.gateway.whole_answer import answer_json
from agentrail.host.identity import SessionOwner
from agentrail.messages import PromptRef, SessionId
from agentrail.protocols.error_shapes import openai_error
from agentrail.protocols.response_changes import ResponseEnd
from agentrail.protocols.response_state import Bridge, Bridged, Response
from agentrail.runtime.event_subscription import Subscription, decide_terms
from agentrail.testing.cancelling import crash
from agentrail.testing.models import ScriptedModel, calls, fails, says
from agentrail.wire.plain import encode_plain
from tests.gateway.protocols.ui_scenarios import (
    ENDLESS,
    asking,
    assistant,
    decided,
    opened,
    post,
    saying_hi,
    user,
)
from tests.gateway.web import serving
from tests.host.hosting import profile
from tests.runtime.rig import on_bounded_time, on_virtual_time
from tests.wire.test_forms import BARE

SLOW = says("So", " it", " is.", pause_seconds=20)


def show(own, change, response):
    """Write each change by its name, and the end with its code."""
    frame = {"type": type(change).__name__}
    if isinstance(change, ResponseEnd):
        frame |= {"kind": change.kind, "code": change.code}
    return own, (frame,)


WIRE = SseWire(name="test", bridge=Bridge(show), on_disconnect="abort", last="over")


def fails_on_text(own, change, response):
    """A bridge with a bug."""
    if type(change).__name__ == "PartText":
        raise ValueError(change)
    return show(own, change, response)


def frames_of(stream):
    """Read a stream to its end: its last frame is the one that the wire adds."""
    *frames, last = [one for one in stream.replace(":\n", "").split("\n\n") if one]
    assert last == "data: over"
    return [json.loads(one.removeprefix("data: ")) for one in frames]


async def nothing(session, reader, hubs):
    """Let the response come to its own end."""
    await trio.lowlevel.checkpoint()


async def aborts(session, reader, hubs):
    """Stop the cycle."""
    await session.abort()


async def crashes(session, reader, hubs):
    """Crash the session, which is then restarted."""
    await trio.lowlevel.checkpoint()
    crash(session)


async def stops(session, reader, hubs):
    """End the session."""
    await session.stop()


async def shuts_down(session, reader, hubs):
    """Stop the server."""
    await hubs.close("shutdown")


async def revokes(session, reader, hubs):
    """End the stream as the watcher of tokens does."""
    await trio.lowlevel.checkpoint()
    reader.finish("unauthorized")
    reader.finish("shutdown")  # the first reason holds


async def is_away(session, reader, hubs):
    """End the stream as an outage of the store does."""
    await trio.lowlevel.checkpoint()
    reader.finish("store_unavailable")


ENDS = {
    "complete": (SLOW, nothing, 4_096, ("finished", None)),
    "provider": (fails(BadRequest("no")), nothing, 4_096, ("failed", None)),
    "abort": (SLOW, aborts, 4_096, ("aborted", "aborted")),
    "crash": (SLOW, crashes, 4_096, ("failed", None)),
    "stop": (SLOW, stops, 4_096, ("aborted", "aborted")),
    "shutdown": (SLOW, shuts_down, 4_096, ("failed", "draining")),
    "token": (SLOW, revokes, 4_096, ("failed", "unauthorized")),
    "outage": (SLOW, is_away, 4_096, ("failed", "store_unavailable")),
    "slow reader": (says(*"abcdefghij", pause_seconds=1), nothing, 2, ("failed", "subscriber_too_slow")),
}


@asynccontextmanager
async def reading(supervisor, turn, buffer, bridge=WIRE.bridge):
    """A session that works on a prompt, and a reader of its response."""
    session = await supervisor.start_session(model=ScriptedModel([turn]))
    async with session.subscribe(after=0, buffer=buffer) as subscription:
        receipt = await session.prompt("Hi")
        state = Bridged(Response(ref=receipt.ref), None)
        yield session, ResponseReader(subscription, evolve(WIRE, bridge=bridge), state)


@pytest.mark.protocol(59)
@on_virtual_time
@pytest.mark.parametrize("name", ENDS)
async def test_a_stream_has_one_terminal_frame_whatever_ends_it(supervisor, hubs, name):
    """And it is the last one; a reader that was cut off is told as well (11.7)."""
    turn, end, buffer, (kind, code) = ENDS[name]
    pieces = []

    async def read(reader):
        with hubs.watch_stream(reader), reader.scope:
            pieces.extend([piece async for piece in reader])

    async with reading(supervisor, turn, buffer) as (session, reader), trio.open_nursery() as nursery:
        if buffer < 100:
            await trio.sleep(60)  # reads nothing while it is said
        nursery.start_soon(read, reader)
        await trio.sleep(25)
        await end(session, reader, hubs)
    frames = frames_of(b"".join(pieces).decode())
    assert [frame["type"] for frame in frames].count("ResponseEnd") == 1
    last = frames[-1]
    assert last["kind"] == kind
    assert code is None or last["code"] == code
    assert reader.reason == "completed"


@on_virtual_time
async def test_a_bridge_with_a_bug_ends_its_stream_with_a_terminal_frame_too(supervisor):
    """What it had not written is left out."""
    async with reading(supervisor, says("a"), 4_096, Bridge(fails_on_text)) as (_, reader):
        with pytest.raises(ValueError, match="PartText"):
            async for _ in reader:
                pass
        assert frames_of(reader.fail().decode())[-1] == {
            "type": "ResponseEnd",
            "kind": "failed",
            "code": "internal",
        }
        assert reader.reason == "failed"


# --- events that are kept no longer

PROMPT = PromptRef("p1")
LOST = EventsLost(from_seq=1, to_seq=8)


@asynccontextmanager
async def reading_what_is_left(*replay, queued=(), ref=PROMPT):
    """A reader of a response that may have begun before the first event that is kept, and its subscription."""
    status = evolve(BARE, queued=queued)
    taken = lambda: SimpleNamespace(status=status, text="")  # noqa: E731 - of a snapshot, what a reader asks for
    subscription = Subscription(
        decide_terms(kinds=None, deltas=True, buffer=8),
        enter=lambda entered: entered.begin(SessionId("s"), replay, taken),
        leave=lambda _: None,
    )
    async with subscription:
        yield ResponseReader(subscription, WIRE, Bridged(Response(ref=ref), None)), subscription, taken


@on_bounded_time
async def test_a_response_of_which_events_are_lost_says_so():
    """Unless its prompt still waits, its start is kept, or no prompt is meant; a rewind ends every response."""
    start = replace(AgentStart(ref=PROMPT), meta=Envelope(SessionId("s"), 9, 0, (SessionId("s"),)))
    async with reading_what_is_left(LOST) as (reader, _, _):
        assert frames_of((await anext(reader)).decode())[-1]["code"] == "trimmed"
    for replay, given in (((LOST,), {"queued": (PROMPT,)}), ((LOST, start), {}), ((LOST,), {"ref": None})):
        async with reading_what_is_left(*replay, **given) as (reader, subscription, taken):
            assert not reader.is_due_to_end
            subscription.begin_anew(LOST, taken)
            assert frames_of((await anext(reader)).decode())[-1]["code"] == "trimmed"


# --- over HTTP

OWNER = SessionOwner(tenant_id="local", user_id="local")


async def leave(opening):
    """Open a response, and close its connection in the middle of the text."""
    with trio.CancelScope() as scope:
        async with opening as pieces:
            async for piece in pieces:
                if "text-delta" in piece:
                    scope.cancel()
    assert scope.cancelled_caught


async def settled(web):
    """How the last cycle of the chat ended, as soon as it has."""
    session = web.host.supervisor.session("c1", scope="local")
    while (await session.status()).phase != "idle":  # noqa: ASYNC110 - a page asks for it too
        await trio.sleep(0.01)
    async with session.subscribe(after=0) as events:
        kinds = []
        try:
            while True:
                kinds.append(type(events.next_nowait()).__name__)
        except trio.WouldBlock:
            return next(kind for kind in reversed(kinds) if kind in ("AgentEnd", "AgentAbort", "AgentError"))


@pytest.mark.protocol(29, 53)
@on_bounded_time
@pytest.mark.parametrize(("on_disconnect", "end"), [("abort", "AgentAbort"), ("continue", "AgentEnd")])
async def test_a_client_that_leaves_stops_its_cycle_where_there_is_no_other_way(
    monkeypatch, on_disconnect, end
):
    """With `continue` the cycle comes to its end; its place in the limits is free again in both cases."""
    monkeypatch.setattr(ai_ui_routes, "WIRE", evolve(ai_ui_routes.WIRE, on_disconnect=on_disconnect))
    talking = ENDLESS if on_disconnect == "abort" else says(*["on "] * 20, pause_seconds=0.01)
    async with serving(ScriptedModel([talking])) as web:
        await leave(saying_hi(web))
        assert await settled(web) == end
        while web.served.gateway.places.of(OWNER):  # noqa: ASYNC110 - given back with the connection
            await trio.sleep(0.01)


@pytest.mark.protocol(29)
@on_bounded_time
async def test_a_client_that_leaves_a_response_that_goes_on_stops_it_too(monkeypatch):
    """After its answer there is no request of its own; one that has read the end of a wait stops nothing."""
    monkeypatch.setattr(ai_ui_routes, "WIRE", evolve(ai_ui_routes.WIRE, on_disconnect="abort"))
    async with asking(calls(("shell", {"command": "a"})), ENDLESS) as (web, shell):
        asked = await post(web, user("Hi"))
        session = web.host.supervisor.session("c1", scope="local")
        assert (await session.status()).suspended
        said = {"id": "c1", "messages": [user("Hi"), assistant(asked, decided(asked, approved=True))]}
        await leave(opened(web, "POST", "/ai-ui/desk", json=said))
        assert await settled(web) == "AgentAbort"
        assert shell.calls == [{"command": "a"}]


@on_bounded_time
async def test_a_bug_in_the_middle_of_a_response_is_its_last_frame_over_http(monkeypatch):
    """It has begun, so it cannot become another status; the session is not affected."""
    monkeypatch.setattr(ai_ui_routes, "WIRE", evolve(WIRE, bridge=Bridge(fails_on_text)))
    async with serving(ScriptedModel([says("a", "b", pause_seconds=0.1)])) as web:
        response = await web.post("/ai-ui/desk", {"id": "c1", "messages": [user("Hi")]})
        assert response.status_code == 200
        assert frames_of(response.text)[-1] == {"type": "ResponseEnd", "kind": "failed", "code": "internal"}
        assert await settled(web) == "AgentEnd"


class ShapedError(msgspec.Struct):
    """An error of the OpenAI API, for the page of the interface."""

    error: dict[str, str | None]


@on_bounded_time
async def test_errors_come_in_the_shape_of_the_protocol(monkeypatch):
    """Those of the handler, of a path with other methods, and of the access guard; the status is that of our table."""

    def encode(answer):
        return encode_plain(openai_error(answer.code, answer.message, answer.status))

    async def handle(call):
        await trio.lowlevel.checkpoint()
        return answer_json({})

    route = CallRoute(
        "GET",
        "/test/{session_id}",
        handle,
        does="tests",
        encode_error=encode,
        error_reply=ShapedError,
        replies={200: ()},
    )
    monkeypatch.setattr(app_module, "PROTOCOLS", {"test": (route,)})
    told = describe_interface((route,), known=(route,))["paths"]["/test/{session_id}"]["get"]["responses"]
    shape = {"schema": {"$ref": "#/components/schemas/ShapedError"}}
    for auth, method, path, status, code in (
        (lambda _: None, "GET", "/test/a", 401, "unauthorized"),
        (None, "GET", "/test/a%20b", 422, "id_invalid"),
        (None, "POST", "/test/a", 405, "method_not_allowed"),
    ):
        app = create_app(profiles=[profile(ScriptedModel([]))], store=None, protocols=["test"], auth=auth)
        transport = httpx.ASGITransport(app)
        async with (
            app.state.host.open(),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):
            refused = await client.request(method, path)
            assert refused.status_code == status
            assert refused.json()["error"] | {"message": ""} == openai_error(code, "", status)["error"]
            assert method == "POST" or told[f"{status}"]["content"]["application/json"] == shape
            own = await client.request("DELETE", "/health")
            assert {*own.json()["error"]} == {"code", "message", "hint"}


@on_virtual_time
async def test_a_stream_of_another_wire_begins_with_its_own_frames(supervisor):
    """And with those of `first`, before everything that it caught up with."""
    session = await supervisor.start_session(model=ScriptedModel([says("a")]))
    receipt = await session.prompt("Hi")
    await trio.sleep(1)
    async with session.subscribe(after=0) as subscription:
        state = Bridged(Response(ref=receipt.ref), None)
        reader = ResponseReader(subscription, WIRE, state, first=({"type": "first"},))
        frames = frames_of(b"".join([piece async for piece in reader]).decode())
    assert [frame["type"] for frame in frames] == [
        "first",
        "Begun",
        "Step",
        "PartText",
        "PartEnded",
        "MessageCompleted",
        *["Happened"] * (len(frames) - 8),
        "Step",
        "ResponseEnd",
    ]
