"""A client that plays on the MCP server: legal and illegal messages of both revisions in any order, at once, and cut anywhere.

No response is a 500. Each whole call has exactly one answer, of types that the library accepts, and nothing runs that no
form has approved. The journal of every session folds to the state that the session has.

200 rounds by default. By hand: `MCP_ROUNDS=5000 MCP_SEED=7 pytest -o faulthandler_timeout=0` with this file.
"""

import copy
import json
import os
from contextlib import suppress
from random import Random
from typing import Any

import mcp_types
import pytest
import trio
from attrs import evolve

from agentrail.errors import Overloaded, SessionDown
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, fails, says
from agentrail.testing.tools import RecordingTool
from tests.gateway.attacks.wire import FREE
from tests.gateway.protocols.test_mcp_calls import rpc
from tests.gateway.web import serving
from tests.host.hosting import profile

ROUNDS = int(os.environ.get("MCP_ROUNDS", "200"))
PARTS = 4
JUNK: tuple[Any, ...] = (
    None,
    0,
    -1,
    10**30,
    "",
    "x",
    "\x00",
    [],
    {},
    {"a": None},
    True,
    "é" * 3,
    "tools/call",
    "../x",
)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
HEADERS = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


def acting(draw):
    """A model that does anything that a model may do."""

    def answer(request):
        if len(request.messages) > 10:
            return says("Enough.")
        return draw.choice(
            (
                says("Hel", "lo."),
                says(*["on "] * 5, pause_seconds=0.001),
                calls(("shell", {"command": "ls"}), text="I look."),
                calls(("shell", {"command": "a"}), ("look", {})),
                calls(("nope", {})),
                fails(Overloaded("busy"), after="Half"),
            )
        )

    return FunctionModel(answer)


def spoiled(draw, value):
    """A copy of a message in which one place holds something else, or is missing."""
    value = copy.deepcopy(value)
    place = value
    while True:
        keys = [*place] if isinstance(place, dict) else [*range(len(place))]
        if not keys:
            return value
        key = draw.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and draw.random() < 0.7:
            place = place[key]
        elif draw.random() < 0.3:
            del place[key]
            return value
        else:
            place[key] = draw.choice(JUNK)
            return value


class Round:
    """One client: what it has been asked, and the sessions that it knows."""

    def __init__(self, web, draw):
        """Begin with nothing."""
        self.web, self.draw = web, draw
        self.waiting, self.sessions, self.whole, self.decided = [], ["s-none"], 0, 0
        self.legacy, self.count = None, 0

    def message(self):
        """A message that a client may send."""
        draw = self.draw
        name = draw.choice(("desk", "desk", "look", "shell", "none"))
        arguments = {"prompt": draw.choice(("Hi", "Go on."))} if name == "desk" else {"command": "x"}
        if name == "desk" and draw.random() < 0.4:
            arguments["session_id"] = draw.choice(self.sessions)
        params = {"name": name, "arguments": arguments}
        if self.waiting and draw.random() < 0.6:
            params, asked = draw.choice(self.waiting)
            content = draw.choice(({"decision": "approve"}, {"decision": "reject"}, {}, {"decision": 1}))
            action = draw.choice(("accept", "accept", "decline", "cancel", "x"))
            answers = {one: {"action": action, "content": content} for one in asked["inputRequests"]}
            params = {**params, "inputResponses": answers, "requestState": asked["requestState"]}
        if draw.random() < 0.3:
            params = {**params, "_meta": {"progressToken": 1}}
        listed = draw.choice(
            ("tools/list", "resources/list", "prompts/list", "server/discover", "ping", "x/y")
        )
        uri = f"agentrail://sessions/{draw.choice(self.sessions)}{draw.choice(('', '/messages', '/x'))}"
        return draw.choice(
            [rpc("tools/call", params)] * 4
            + [rpc(listed, {}), rpc("resources/read", {"uri": uri}), rpc("prompts/get", {"name": "help"})]
        )

    async def play(self):
        """Send a few messages, some at once."""
        for _ in range(self.draw.randint(2, 5)):
            message = self.message()
            async with trio.open_nursery() as waiting:
                waiting.start_soon(self.end_what_waits)
                async with trio.open_nursery() as nursery:
                    for _ in range(1 + (self.draw.random() < 0.15)):
                        nursery.start_soon(self.send, message)
                waiting.cancel_scope.cancel()

    async def end_what_waits(self):
        """Stop what would wait for ever: a message that is queued behind an approval that nobody decides."""
        while True:
            await trio.sleep(0.3)
            for session in self.web.host.supervisor.sessions(scope="local"):
                with suppress(SessionDown):  # that of a single tool is deleted when its call has ended
                    if (await session.status()).queued:
                        await session.abort("the test goes on", clear_queue=True, wait=False)

    async def send(self, message):
        """Send one message in one of the revisions; a cut one is left after some bytes."""
        draw, headers, params = self.draw, dict(HEADERS), message["params"]
        if draw.random() < 0.3:
            await self.open_legacy()
            headers["mcp-session-id"] = self.legacy if draw.random() < 0.9 else "0" * 32
        else:
            params = {**params, "_meta": {**META, **params.get("_meta", {})}}
            headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": message["method"]}
            headers |= (
                {"mcp-name": str(params.get("name", params.get("uri")))}
                if params.keys() & {"name", "uri"}
                else {}
            )
        self.count += 1  # an id that is used twice at once in an older session has one answer
        sent = {**message, "id": self.count, "params": params}
        is_whole = draw.random() < 0.7
        sent = sent if is_whole else spoiled(draw, sent)
        cut_after = draw.choice((10**9, 10**9, 10**9, 1, 200))
        text = ""
        with trio.move_on_after(20) as scope:
            async with self.web.client.stream("POST", "/mcp", json=sent, headers=headers) as response:
                assert response.status_code < 500, await response.aread()
                async for piece in response.aiter_text():
                    text += piece
                    if len(text) > cut_after:
                        return
        assert not scope.cancelled_caught, (sent, headers, text)
        self.read(message, text, is_request=is_whole)

    def read(self, message, text, *, is_request):
        """Hold a whole response to the types of the library."""
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")] or [text]
        frames = [json.loads(line) for line in lines if line]
        ends = [one for one in frames if "result" in one or "error" in one]
        assert len(ends) == (1 if is_request else len(ends[:1])), text
        for one in frames:
            if one.get("id", 0) is not None:
                mcp_types.jsonrpc_message_adapter.validate_python(one, by_name=False)
            assert one.get("error", {}).get("code") != mcp_types.INTERNAL_ERROR, text
        self.whole += len(ends)
        result = ends[-1].get("result", {}) if ends else {}
        if "inputRequests" in result:
            self.waiting.append((message["params"], result))
        told = result.get("structuredContent") or {}
        if isinstance(told, dict) and "session_id" in told:
            self.sessions.append(told["session_id"])

    async def open_legacy(self):
        """Shake hands as a client of the older revision."""
        if self.legacy is None:
            opened = await self.web.post("/mcp", rpc("initialize", INITIALIZE), headers=HEADERS)
            self.legacy = opened.headers["mcp-session-id"]
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self.web.post("/mcp", ready, headers={**HEADERS, "mcp-session-id": self.legacy})


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings(r"ignore:Async generator '(httpx|httpcore)\.:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning")  # of the library
async def test_whatever_a_client_sends_has_one_answer(part):
    """Each whole request has one, and a shell runs no more often than forms were approved."""
    draw = Random(int(os.environ.get("MCP_SEED", "1")) * PARTS + part)  # noqa: S311 - no secrets
    shell, look = RecordingTool(name="shell"), RecordingTool(name="look")
    # One retry: the pauses of three failures in a row are longer than the client waits for a byte.
    desk = profile(acting(draw), tools=[shell, look], plugins=[HumanApproval], max_retries=1)
    options = {"store": MemoryStore(), "limits": FREE, "protocols": ("mcp",)}
    rounds = []
    async with serving(None, profiles=[evolve(desk, expose=("agent", "tools"))], **options) as web:
        for _ in range(ROUNDS // PARTS):
            rounds.append(Round(web, draw))
            await rounds[-1].play()
        for session in web.host.supervisor.sessions(scope="local"):
            await session.abort("the end", clear_queue=True)
        await web.served.quiet()
        for session in web.host.supervisor.sessions(scope="local"):
            stored = await web.host.supervisor.stored_state(session.session_id, scope="local")
            assert stored.messages == await session.messages()
    assert sum(one.whole for one in rounds) > ROUNDS // PARTS
    assert any(one.waiting for one in rounds)
