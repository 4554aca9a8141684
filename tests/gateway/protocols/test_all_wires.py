"""What holds on every wire alike: one history, one gate, one end of each stream, and nothing taken back that stays said."""

import json
import os
import re
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import httpx
import pytest
import trio

from agentrail.errors import Overloaded, RequestRefused
from agentrail.host import HandledResponse, Principal
from agentrail.runtime.event_history import PageAsked
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, fails, says
from agentrail.testing.tools import RecordingTool
from tests.gateway import web as web_module
from tests.gateway.attacks.wire import FREE, by_header
from tests.gateway.protocols.wires import PROTOCOLS, WIRES
from tests.host.hosting import answering
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time
from tests.thinned import IS_NIGHTLY

serving = partial(web_module.serving, protocols=PROTOCOLS)
each_wire = pytest.mark.parametrize("wire", WIRES, ids=[one.name for one in WIRES])

LOCAL = Principal(tenant_id="local", user_id="local")
BUSY = Overloaded("busy", retry_after_seconds=0.01)
ENDLESS = says("So", *[" on"] * 400, pause_seconds=0.02)
OWN = re.compile(r"(ref|request_id|via|\w+_at_ms|at_ms|duration_ms)=('[^']*'|\d+|None)")
"""Fields that no two sessions share."""


# --- one history


async def record_of(web, session_id):
    """Everything that a session has of its past, without what is its own alone."""
    session = web.host.supervisor.session(session_id, scope="local")
    page = await web.host.read_events(session_id, LOCAL, PageAsked(limit=500))
    entries = [(one.number, one.kind, one.does, one.events) for one in await session.journal()]
    said = OWN.sub(r"\1", repr([await session.messages(), page.events]))
    vias = [event.via for event in page.events if getattr(event, "via", None)]
    return said, entries, vias


@pytest.mark.protocol(56)
@on_bounded_time
async def test_one_prompt_over_all_wires_is_one_history():
    """P-056: the same messages, events and journal as over our own `/chat`, but for ids and `via`."""
    records = {}
    for wire in (None, *WIRES):
        turns = [calls(("shell", {"command": "ls"}), text="I look."), says("Two ", "files.")]
        shell = RecordingTool(name="shell")
        async with serving(ScriptedModel(turns), store=MemoryStore(), session_tools=[shell]) as web:
            if wire is None:
                await web.chat("What is here?", session_id="s1")
                records[wire] = await record_of(web, "s1")
            else:
                async with wire.opened(web, "s1", "What is here?") as pieces:
                    told = wire.read("".join([piece async for piece in pieces]))
                    records[wire] = await record_of(web, "s1")
                assert told.text.endswith("Two files.")
            assert len(shell.calls) == 1
    said, entries, _ = records.pop(None)
    for wire, record in records.items():
        assert record == (said, entries, [wire.via]), wire.name


@on_bounded_time
@pytest.mark.parametrize("body", [{"command": "c", "lines": ["One", "two"]}, {"text": "One\ntwo"}])
@each_wire
async def test_an_answer_in_place_of_the_model_is_said_by_the_assistant(wire, body):
    """A command's output, or a plugin's own answer. A client of A2A reads data, which its response has."""
    if wire.name == "a2a":
        pytest.skip("its response is a message with data")

    async def judge(ctx):
        return HandledResponse(body) if ctx.request.message == "/c" else None

    async with serving(answering("Hello."), plugin("own", intercept_chat_request=judge)) as web:
        told = await wire.ask(web, "s1", "/c")
        assert (told.text, told.ends, told.is_last, told.code) == ("One\ntwo", 1, True, None)
        assert (await wire.ask(web, "s1")).text == "Hello."


# --- one gate


@pytest.mark.protocol(57)
@on_bounded_time
@each_wire
async def test_one_host_plugin_refuses_over_every_wire(wire):
    """P-057: in the shape of each, with the plugin's own code; no session exists."""

    async def judge(ctx):
        raise RequestRefused(402, "unpaid", "pay first")

    async with serving(answering("a"), plugin("guard", critical=True, intercept_chat_request=judge)) as web:
        assert await wire.refused(web, "s1") == "unpaid"
        sessions = web.host.supervisor.sessions(scope="local")
        assert [await one.messages() for one in sessions] == [()] * wire.has_sessions


# --- what is taken back


@pytest.mark.protocol(58)
@on_bounded_time
@each_wire
async def test_what_a_provider_took_back_is_not_passed_off_as_said(wire):
    """P-058: it breaks off after some text and recovers; a client has the whole answer, and not the half one as well."""
    async with serving(ScriptedModel([fails(BUSY, after="Half"), says("Whole", " answer.")])) as web:
        told = await wire.ask(web, "s1")
    assert (told.text, told.ends, told.is_last, told.code) == ("Whole answer.", 1, True, None)


# --- a server that goes down


@pytest.mark.protocol(59)
@on_bounded_time
async def test_each_stream_ends_with_its_server_and_goes_on_with_the_next_one():
    """P-059: one terminal frame, which says why; after the restart the response is read where the wire has a call for it."""
    store, told, started = MemoryStore(lease_ms=0), {}, []

    async def listen(web, wire):
        async with wire.opened(web, f"s-{wire.name}", "Hi") as pieces:
            stream = await anext(pieces)
            while " on" not in stream:
                stream += await anext(pieces)
            started.append(wire)
            if len(started) == len(WIRES):
                web.stop.set()
            told[wire] = wire.read(stream + "".join([piece async for piece in pieces]))

    async with (
        serving(FunctionModel(lambda _: ENDLESS), store=store, drain_timeout=0.05) as web,
        trio.open_nursery() as nursery,
    ):
        for wire in WIRES:
            nursery.start_soon(listen, web, wire)

    async def go_on(web, wire):
        if wire.again is not None:
            again = await wire.again(web, f"s-{wire.name}", told[wire].response_id)
            assert (again.text, again.ends, again.code) == ("Fine.........", 1, None), wire.name
        assert (await wire.ask(web, f"s-{wire.name}", "And?")).text == "Fine.........", wire.name

    resumed = says("Fine", *["."] * 9, pause_seconds=0.02)  # while it streams, every wire can read it
    async with serving(FunctionModel(lambda _: resumed), store=store) as web, trio.open_nursery() as nursery:
        for wire in WIRES:
            assert (told[wire].ends, told[wire].is_last) == (1, True), wire.name
            assert wire.tells_end(told[wire], "draining"), wire.name
            nursery.start_soon(go_on, web, wire)


# --- bad input: 11.13

over_http = pytest.mark.parametrize(
    "wire", [one for one in WIRES if one.path], ids=[one.name for one in WIRES if one.path]
)


def odd_bodies(wire):
    """Bodies that nobody should send: each is no request of the wire, or nearly one."""
    body = json.dumps(wire.body("s1", "Hi"))
    deep = b"[" * 10_000 + b"]" * 10_000
    return {
        "nothing": b"",
        "one byte": b"{",
        "not UTF-8": b'{"a":"\xff"}',
        "half a surrogate pair": body.replace('"Hi"', r'"\ud83d"').encode(),
        "10,000 levels": body.replace('"Hi"', "@").encode().replace(b"@", deep),
        "no object": b"[]",
    }


@on_bounded_time
@over_http
async def test_odd_bytes_are_refused_in_the_shape_of_their_wire(wire):
    """None is a fault of ours, none makes a session, and the next request is answered."""
    async with serving(answering("Fine.")) as web:
        headers = {**wire.headers, "content-type": "application/json", "x-session-id": "s1"}
        for name, content in odd_bodies(wire).items():
            response = await web.client.post(wire.path, content=content, headers=headers)
            assert response.status_code in (200, 400, 404, 413, 422), (name, response.text)
            assert wire.code_of(response.json()["error"]) not in ("internal", None), (name, response.text)
        head = f"POST {wire.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        async with await trio.open_tcp_stream(*web.address) as stream:  # 100 MB, of which none is sent
            await stream.send_all(f"{head}content-length: 100000000\r\n\r\n{{".encode())
            assert (await stream.receive_some(20)).startswith(b"HTTP/1.1 413")
        assert web.host.supervisor.sessions(scope="local") == ()
        assert (await wire.ask(web, "s1")).text == "Fine."


@on_bounded_time
@over_http
async def test_the_same_request_twice_at_one_moment_is_one_prompt(wire):
    """By the client's own name of it, or by the key that it sends: both have the whole answer."""
    told = []

    async def send(web):
        told.append(await wire.ask(web, "s1"))

    async with serving(answering("Once.", "Twice."), store=MemoryStore()) as web:
        web.client.headers["idempotency-key"] = "k1"
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(send, web)
        assert [(one.text, one.ends) for one in told] == [("Once.", 1)] * 2
        assert len(await web.host.supervisor.session("s1", scope="local").messages()) == 2


@on_bounded_time
@over_http
async def test_the_session_of_somebody_else_is_unknown(wire):
    """The right request with another token: refused, and nothing of the session is told or changed."""
    async with serving(answering("Mine.", "More."), store=MemoryStore(), auth=by_header) as web:
        web.client.headers["authorization"] = "Bearer acme/ann"
        assert (await wire.ask(web, "s1")).text == "Mine."
        web.client.headers["authorization"] = "Bearer acme/bob"
        assert await wire.refused(web, "s1", "And?") == "session_unknown"
        web.client.headers["authorization"] = "Bearer acme/ann"
        assert len(await web.host.supervisor.session("s1", scope="acme").messages()) == 2


# --- all at once

SESSIONS = 50
SECONDS = float(os.environ.get("WIRES_SECONDS", "60" if IS_NIGHTLY else "1"))


def talking(draw):
    """A model that speaks, thinks, calls, breaks off and fails."""
    turns = (
        says("Hel", "lo."),
        says(*"abcdef", pause_seconds=0.01),
        Turn(thinking="Hm.", text=("So.",)),
        calls(("shell", {"command": "ls"}), text="I look."),
    )
    broken = fails(BUSY, after="Half")  # not often: a session waits before it tries again
    return FunctionModel(lambda _: broken if draw.random() < 0.03 else draw.choice(turns))


@pytest.mark.protocol(64)
@pytest.mark.filterwarnings(r"ignore:Async generator '(httpx|httpcore)\.:ResourceWarning")
async def test_all_wires_at_once_with_random_cuts_leave_nothing_behind():
    """P-064: each whole stream has one terminal frame, journals fold, descriptors and tasks are as before."""
    draw, seen = Random(int(os.environ.get("WIRES_SEED", "1"))), Counter()  # noqa: S311 - no secrets

    async def talk(web, number, until):
        for count in range(1_000_000):
            if count >= 4 and trio.current_time() > until:
                return
            wire, cut_after = draw.choice(WIRES), draw.choice((999, 999, draw.randrange(1, 6)))
            stream, is_cut = "", False
            try:
                async with wire.opened(web, f"s{number}", f"w{count}") as pieces:
                    async for piece in pieces:
                        stream += piece
                        is_cut = stream.replace("\r", "").count("\n\n") >= cut_after
                        if is_cut:  # not by a cancellation, in which httpx leaves sockets open
                            break
            except httpx.RemoteProtocolError:  # on a busy machine: its head took longer than the server waits
                assert stream == "", stream
                seen["late"] += 1
                continue
            seen[wire.name, is_cut] += 1
            if not is_cut:
                told = wire.read(stream)
                assert (told.ends, told.is_last) == (1, True), (wire.name, stream)

    store = MemoryStore()
    options = {"store": store, "limits": FREE, "session_tools": [RecordingTool(name="shell")]}
    async with serving(talking(draw), **options) as web:
        for wire in WIRES:  # what is loaded late is loaded now
            await wire.ask(web, "warm", wire.name)
        await web.client.delete("/sessions/warm")
        own, before = web.client, left_open()
        async with httpx.AsyncClient(
            base_url=own.base_url, timeout=10, limits=httpx.Limits(max_keepalive_connections=0)
        ) as web.client:
            with trio.fail_after(SECONDS + 60):
                async with trio.open_nursery() as nursery:
                    for number in range(SESSIONS):
                        nursery.start_soon(talk, web, number, trio.current_time() + SECONDS)
        web.client = own
        await web.served.quiet()
        for session in web.host.supervisor.sessions(scope="local"):
            await session.abort("the end")
            stored = await web.host.supervisor.stored_state(session.session_id, scope="local")
            assert stored.messages == await session.messages()
            await web.client.delete(f"/sessions/{session.session_id}")
        # A connection that is cut as its response ends is closed when it has been idle for five seconds.
        with trio.fail_after(20):
            while any(now > then for now, then in zip(left_open(), before, strict=True)):  # noqa: ASYNC110 - of a closed connection no one is told
                await trio.sleep(0.01)
    assert min(seen[wire.name, is_cut] for wire in WIRES for is_cut in (False, True)) > 0, seen
    assert seen["late"] <= seen.total() // 20, seen


def left_open():
    """Open descriptors and living tasks of this process."""
    return len([*Path("/proc/self/fd").iterdir()]), trio.lowlevel.current_statistics().tasks_living
