"""It really serves: Hypercorn's own worker for Trio, a port of the loopback, a client over HTTP."""

import json
import subprocess
import sys
from contextlib import asynccontextmanager, closing
from functools import partial
from socket import create_server

import httpx
import on_starlette
import pytest
import trio
from agentrail.errors import Authentication
from agentrail.testing.models import FunctionModel, ScriptedModel, fails, says
from httpx_sse import aconnect_sse
from hypercorn.config import Config
from hypercorn.trio import serve

import web_server

SLOW = 3600.0


@pytest.fixture(params=[web_server, on_starlette], ids=lambda module: module.__name__)
def app(request):
    """The application, on FastAPI and on Starlette alone."""
    return request.param.app


@pytest.fixture
async def client(app, nursery):
    """A client of the server, which runs as `hypercorn -k trio` runs it."""
    config, stop = Config(), trio.Event()
    config.bind, config.graceful_timeout = ["127.0.0.1:0"], 1
    (url,) = await nursery.start(partial(serve, app, config, shutdown_trigger=stop.wait))
    async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
        yield client
    stop.set()


@asynccontextmanager
async def prompted(client, chat, text, **params):
    """The stream of the cycle of a prompt."""
    async with aconnect_sse(client, "POST", f"/chats/{chat}", json=text, params=params) as source:
        assert source.response.status_code == 200
        yield source.aiter_sse()


@asynccontextmanager
async def followed(client, chat, after=0, **params):
    """What a chat published behind a number."""
    headers = {"Last-Event-ID": str(after)}
    async with aconnect_sse(client, "GET", f"/chats/{chat}", headers=headers, params=params) as source:
        yield source.aiter_sse()


async def read(events, *, until=None):
    """Read to the end of the stream, or to an event of a kind."""
    seen = []
    async for event in events:
        seen.append(
            json.loads(event.data) if event.event == "message" else {"kind": event.event, "why": event.data}
        )
        if seen[-1]["kind"] == until:
            break
    return seen


def start(app, model, chat):
    """Start a chat with a model of its own, before the first prompt."""
    return app.state.supervisor.start_session(model=model, session_id=chat, max_retries=0)


async def test_two_at_once(client):
    """Each reads its own cycle to the end; the numbers rise."""
    seen = {}

    async def prompt(chat):
        async with prompted(client, chat, "Hello") as events:
            seen[chat] = await read(events)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prompt, "ann")
        nursery.start_soon(prompt, "bob")
    for chat, events in seen.items():
        assert (events[0]["kind"], events[-1]["kind"]) == ("prompt_received", "agent_end")
        assert {event["session_id"] for event in events} == {chat}
        assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)


async def test_it_comes_back_where_it_left(client):
    """A follower leaves in the middle; the cycle goes on, and it gets the rest with the number that it saw last."""
    async with prompted(client, "eve", "Hello") as events:
        told = [event for event in await read(events) if not event.get("ephemeral")]
    async with followed(client, "eve") as events:
        first = await read(events, until="agent_start")
    async with followed(client, "eve", first[-1]["seq"]) as events:
        rest = await read(events, until="agent_end")
    assert rest == told[-len(rest) :]
    assert rest[0]["seq"] == first[-1]["seq"] + 1


async def test_a_follower_leaves_and_the_cycle_goes_on(app, client):
    """Who only follows stops nothing."""
    await start(app, ScriptedModel([says("Once ", "upon ", "a time.", pause_seconds=0.1)]), "tale")
    async with prompted(client, "tale", "A story") as events:
        async with followed(client, "tale") as others:
            await read(others, until="message_delta")
        assert (await read(events))[-1]["kind"] == "agent_end"


async def test_who_prompted_leaves_and_the_cycle_is_aborted(app, client):
    """The answer would not be read, and is not paid for."""
    await start(app, ScriptedModel([says("Hm.", pause_seconds=SLOW)]), "slow")
    async with prompted(client, "slow", "Think") as events:
        await read(events, until="agent_start")
    async with followed(client, "slow") as events:
        end = (await read(events, until="agent_abort"))[-1]
    assert end["reason"] == "the caller left the block"


async def test_a_model_that_fails(app, client):
    """The last event says why."""
    await start(app, FunctionModel(lambda request: fails(Authentication("no such key"))), "keyless")
    async with prompted(client, "keyless", "Hello") as events:
        end = (await read(events))[-1]
    assert (end["kind"], end["error"]["message"]) == ("agent_error", "no such key")


async def test_a_model_that_says_nothing(app, client):
    """The stream ends with why, and so does the cycle."""
    await start(app, ScriptedModel([says("Hm.", pause_seconds=SLOW)]), "silent")
    async with prompted(client, "silent", "Think", wait=0.2) as events:
        end = (await read(events))[-1]
    assert (end["kind"], end["why"].strip("\"'")) == ("TooSlowError", "nothing came for 0.2 s")
    assert (await app.state.supervisor.session("silent").status()).phase == "idle"


async def test_a_cycle_that_is_aborted(app, client):
    """The last event is that."""
    session = await start(app, ScriptedModel([says("Hm.", pause_seconds=SLOW)]), "stopped")
    async with prompted(client, "stopped", "Think") as events:
        await read(events, until="agent_start")
        await session.abort("enough")
        assert (await read(events))[-1]["reason"] == "enough"


async def test_a_number_that_there_is_not(client):
    """A client that comes from before a restart is told so."""
    async with followed(client, "new", 1_000_000) as events:
        assert [event["kind"] for event in await read(events)] == ["CursorAhead"]


async def test_what_is_no_number_is_the_fault_of_the_client(client):
    """A time limit below zero is over at once."""
    for headers, params in (({"Last-Event-ID": "x"}, {}), ({}, {"wait": "soon"})):
        answer = await client.get("/chats/odd", headers=headers, params=params)
        assert 400 <= answer.status_code < 500
    for wait in ("-1", "nan"):
        async with followed(client, "odd", wait=wait) as events:
            assert [event["kind"] for event in await read(events)] == ["TooSlowError"]


async def test_the_command_of_the_page():
    """`hypercorn -k trio web_server:app`, as a process of its own, ends when it is told to."""
    with closing(create_server(("127.0.0.1", 0))) as free:
        bind = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "hypercorn", "-k", "trio", "-b", bind, "web_server:app"]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(trio.run_process, command, stderr=subprocess.DEVNULL))
        async with httpx.AsyncClient(base_url=f"http://{bind}", timeout=20, trust_env=False) as client:
            with trio.fail_after(20):
                while True:
                    try:
                        await client.get("/openapi.json")
                        break
                    except httpx.ConnectError:
                        await trio.sleep(0.1)
            async with prompted(client, "ann", "Hello") as events:
                assert (await read(events))[-1]["kind"] == "agent_end"
        server.terminate()


async def test_an_invalid_name_is_an_event(client):
    """Nothing fails before the response has begun, so that a page has one place for errors."""
    async with prompted(client, "a b", "Hello") as events:
        (told,) = await read(events)
    assert (told["kind"], "session_id is 'a b'" in told["why"]) == ("OptionError", True)
