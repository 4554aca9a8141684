"""Sessions of other people, on every route and by every command there is: what is told of them is what is told of an id that never was.

Routes and commands are taken from the tables of the application, so a new one is attacked before a line is written about it here.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import trio
from attrs import frozen
from starlette.applications import Starlette

from agentrail.gateway.app import ROUTES, routes
from agentrail.gateway.path_endpoint import CallRoute
from agentrail.gateway.socket_calls import socket_commands
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.gateway.attacks.memory import Caller
from tests.gateway.attacks.wire import FREE, by_header
from tests.gateway.socket_client import socket_of
from tests.gateway.web import Web, serving
from tests.host.rig import plugin, saying
from tests.runtime.rig import on_bounded_time

WORDS = "planted-words"
VICTIMS = ("awake-1", "sleep-1", "ended-1", "waits-1")
UNKNOWN = "never-1"
COMMANDS = socket_commands(ROUTES)
ON_A_SESSION = [route for route in ROUTES if "{session_id}" in route.path]

OF_A_SESSION = (
    *(name for name, known in COMMANDS.items() if "session_id" in known.params),
    *("subscribe", "commands", "run_command"),
)
"""The commands that name a session."""


VALUES: Mapping[str, Any] = {
    "client_id": "name-1", "number": 1, "text": "Hi", "result": {}, "reason": "no",
    "message": "Hi", "model": "demo:", "to": 1, "approval_id": "waits-1/1", "ref": "waits-1/1", "response": "x", "call_id": "c-1",
    "request_id": "r-1", "path": "notes.txt", "wait": 0, "limit": 5, "after": 0, "cursor": None, "phase": "idle", "purge": True,
    "approval": "waits-1/1", "rule_id": "rule-1", "name": "status", "at": 1, "before": 1,
    "source": "mcp files", "tool": "nothing",
}  # fmt: skip
"""What a field is called with. A route with a new field that it needs fails here by its name."""


@frozen
class World:
    """A server where Ann has a session of each kind."""

    web: Web
    heard: list[Any]
    sessions: tuple[str, ...]
    requests: Mapping[str, str]


def answer(request: Any) -> Any:
    """Answer by what is said: with words, with a call that waits for an approval, or with a session that works for this one."""
    said = request.messages[0].content[0].text
    if said == "boss-1":
        return calls(("task", {"description": "waits-2"}))
    return calls(("shell", {"command": WORDS})) if said.startswith("waits") else says(WORDS)


@pytest.fixture
async def world():
    """One that is awake, one in the store alone, one that ended, one that waits for an approval, and one that works for another."""
    heard, requests = [], {}
    tools = [TaskTool(), RecordingTool(name="shell")]
    hooks = dict.fromkeys(("intercept_chat_request", "on_request_start", "on_request_end"), saying(None))
    options = {"session_tools": tools, "session_plugins": [HumanApproval], "drain_timeout": 0.05}
    async with serving(
        FunctionModel(answer),
        plugin("hears", heard=heard, **hooks),
        auth=by_header,
        limits=FREE,
        store=MemoryStore(),
        **options,
    ) as web:
        web.client.headers["authorization"] = "Bearer acme/ann"
        for name in VICTIMS:
            response = await web.chat(name, session_id=name, client_id="once")
            assert response.status_code in (200, 202), response.text
            requests[name] = response.json()["request_id"]
        await web.client.delete("/sessions/ended-1")
        await web.host.supervisor.rest("sleep-1", scope="acme")
        assert not (await web.host.supervisor.facts_of("sleep-1", scope="acme")).is_here
        await web.post("/sessions", {"session_id": "boss-1"})
        await web.post("/sessions/boss-1/prompt", {"message": "boss-1"})
        child = (await until(web, "boss-1", "children"))["session_id"]
        await until(web, child, "approvals")
        heard.clear()
        yield World(web, heard, (*VICTIMS, "boss-1", child), requests)
        await web.client.delete("/sessions/boss-1")  # its end would wait for the cycle


async def until(web: Web, session_id: str, has: str) -> Any:
    """Wait until the status of a session has something, and give the first of it."""
    with trio.fail_after(60):
        while True:
            found = (await web.client.get(f"/sessions/{session_id}")).json()["status"][has]
            if found:
                return found[0]
            await trio.sleep(0.01)


async def call(app: Any, route: CallRoute, session_id: str, who: str) -> tuple[int | None, str, Any]:
    """Make a call as it is meant, about a session, with all fields that there are; gives all that can be told of its answer but what is left of a limit."""
    path = route.path.replace("{session_id}", session_id)
    for name, value in VALUES.items():
        path = path.replace(f"{{{name}}}", f"{value}").replace(f"{{{name}:path}}", f"{value}")
    assert "{" not in path, f"say in VALUES what {route.path} is called with"
    # What a route cannot do without; anything else of its query may be left out.
    path += "?at=1" if "at" in route.query else ""
    said = body_of(route, with_all=True)
    caller = Caller(app, route.method, path, said, headers={"authorization": f"Bearer {who}"})
    await caller.run()
    body = b"".join(one.get("body", b"") for one in caller.sent)
    told = [pair for pair in caller.sent[0]["headers"] if pair[0] not in (b"ratelimit", b"content-length")]
    return caller.status, body.decode().replace(session_id, "<id>"), told


def body_of(route: CallRoute, *, with_all: bool = False) -> dict[str, Any]:
    """The fields that a body has to have, or all of which it is known what could stand there."""
    if route.body is None:
        return {}
    found = msgspec.structs.fields(route.body)
    return {
        one.name: VALUES[one.name]
        for one in found
        if one.required or one.name == "message" or (with_all and one.name in VALUES)
    }


@pytest.mark.host("H-028")
@on_bounded_time
async def test_on_every_route_a_session_of_another_is_one_that_never_was(world):
    """In each state, by a colleague and by another tenant, and by its other users who inspect: same bytes, no hook, and nothing has happened."""
    before = await seen_by_owner(world.web)
    app = Starlette(routes=routes(world.web.served))
    asked = 0
    for route in ON_A_SESSION:
        for who in ("acme/bob", "else/ann", "else/eve+"):
            unknown = await call(app, route, UNKNOWN, who)
            if route.scope == "inspect" and not who.endswith("+"):
                assert unknown[0] == 403
            else:
                assert unknown[0] == 404, (route.path, who, unknown)
            for name in world.sessions:
                foreign = await call(app, route, name, who)
                assert foreign == unknown, (route.method, route.path, name, who)
                asked += 1
    assert asked == len(ON_A_SESSION) * 3 * len(world.sessions) > 200
    assert world.heard == []
    assert await seen_by_owner(world.web) == before
    assert not (await world.web.host.supervisor.facts_of("sleep-1", scope="acme")).is_here


async def seen_by_owner(web: Web) -> list[Any]:
    """What Ann finds of her sessions: where each stands, and what was said in it."""
    listed = (await web.client.get("/sessions")).json()["sessions"]
    trace = await web.client.get(
        "/inspect/sessions/awake-1/messages", headers={"authorization": "Bearer acme/ann+"}
    )
    awake = [(await web.client.get(f"/sessions/{name}")).json()["seq"] for name in ("awake-1", "waits-1")]
    return [listed, trace.json(), awake]


def fields_of(name: str) -> dict[str, Any]:
    if name == "subscribe":
        return {"after": 0}
    known = COMMANDS[name]
    path = {one: VALUES[one] for one in known.params if one != "session_id"}
    more = {"abort_tool": {"call_id": "c-1"}, "break_on": {"tool": VALUES["tool"]}}.get(name, {})
    return {**body_of(known.route), **path, **more}


@pytest.mark.host("H-028")
@on_bounded_time
async def test_by_every_command_a_session_of_another_is_one_that_never_was(world):
    """Over one socket: the replies are those of an unknown id, to the byte."""
    assert len(OF_A_SESSION) >= 29
    for who in ("acme/bob", "else/ann"):
        async with socket_of(world.web, by=who) as client:
            for name in OF_A_SESSION:
                replies = set()
                for session_id in (UNKNOWN, *world.sessions):
                    reply = await client.ask(name, session_id=session_id, **fields_of(name))
                    replies.add(json.dumps({**reply, "id": 0}).replace(session_id, "<id>"))
                assert len(replies) == 1, (name, who, replies)
                may_not = name != "subscribe" and COMMANDS[name].route.scope == "inspect"
                told = replies.pop()
                assert ('"forbidden"' if may_not else '"session_unknown"') in told, told
            assert (await client.done("sessions"))["sessions"] == []
            assert await client.done("unsubscribe", session_id="awake-1") is None
    assert world.heard == []


@pytest.mark.host("H-028", "H-099")
@on_bounded_time
async def test_a_message_to_a_session_of_another_is_refused_in_one_way_whatever_its_state(world):
    """On the routes that would create it; to another tenant its id is free, and that session has nothing of the first one."""
    for path in ("/chat", "/stream", "/sessions"):
        said = {} if path == "/sessions" else {"message": "Hi", "client_id": "once"}
        answers = set()
        for name in world.sessions:
            response = await world.web.post(
                path, {**said, "session_id": name}, headers={"authorization": "Bearer acme/bob"}
            )
            answers.add((response.status_code, response.text.replace(name, "<id>")))
        assert len(answers) == 1, (path, answers)
        status, text = answers.pop()
        assert status == 404
        assert path == "/sessions" or "session_id" in json.loads(text)["error"]["hint"]
    assert world.heard == []
    eve = {"authorization": "Bearer else/eve"}
    assert (await world.web.post("/sessions", {"session_id": "awake-1"}, headers=eve)).status_code == 201
    assert WORDS not in (await world.web.client.get("/sessions/awake-1", headers=eve)).text
