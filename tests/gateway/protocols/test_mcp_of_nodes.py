"""`/mcp` through any node: sealed states, connections of the older revision and changes of sessions (docs: run on many machines)."""

import json

import pytest
import trio

from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.gateway.nodes import serving_nodes
from tests.gateway.protocols.test_mcp_calls import MODES, call, connected, decided, rpc
from tests.runtime.rig import on_bounded_time

pytestmark = [
    on_bounded_time,
    pytest.mark.machine(32),
    pytest.mark.filterwarnings(r"ignore:Async generator .(httpx2|httpcore2|mcp)\.:ResourceWarning"),
]

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "t", "version": "1"},
}


def shell_first(request):
    return says("Done.") if "shell" in str(request.messages[-1]) else calls(("shell", {"command": "ls"}))


def serving_mcp(model=None, **options):
    """Two nodes whose profile speaks MCP."""
    model = model or FunctionModel(lambda _: says("Hello."))
    return serving_nodes(2, model, protocols=("mcp",), **options)


async def connect(node):
    """Open a connection of the older revision, and return its headers."""
    sent = {"accept": "application/json, text/event-stream"}
    opened = await node.post("/mcp", rpc("initialize", INITIALIZE), headers=sent)
    sent["mcp-session-id"] = opened.headers["mcp-session-id"]
    sent["mcp-protocol-version"] = "2025-11-25"
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await node.post("/mcp", ready, headers=sent)).status_code == 202
    return sent


def frames_of(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def ask(node, sent, **arguments):
    """Call the tool of the profile over the older revision, and return the last frame."""
    body = rpc("tools/call", {"name": "desk", "arguments": {"prompt": "Go", **arguments}})
    return frames_of((await node.post("/mcp", body, headers=sent)).text)[-1]


async def test_a_state_that_one_node_sealed_is_opened_by_the_others():
    """M-032: the call continues at the node of its session, though it names none."""
    shell = RecordingTool(name="shell")
    gate = {"session_tools": [shell], "session_plugins": [HumanApproval]}
    async with serving_mcp(FunctionModel(shell_first), **gate) as (a, b):
        asked = (await call(a))["result"]
        answer = await call(b, **decided(asked))
        assert answer["result"]["structuredContent"]["text"] == "Done."
        assert len(shell.calls) == 1
        assert b.seen.messages == []
        session = answer["result"]["structuredContent"]["session_id"]
        assert b.owner(session)[0] == a.id
        again = await call(b, **decided(asked))
        assert again["error"]["data"] == {"code": "already_resolved"}


async def test_nodes_that_start_at_once_have_one_key():
    """It follows from the secret of their store: no row of the store is written."""
    store = MemoryStore(is_shared=True)
    async with serving_mcp(store=store):
        assert store.owed("mcp_key") == ()


async def test_a_connection_of_the_older_revision_is_used_at_any_node():
    """Its id names its node: requests, an answer to a form, and its end."""
    shell = RecordingTool(name="shell")
    gate = {"session_tools": [shell], "session_plugins": [HumanApproval]}
    async with serving_mcp(FunctionModel(shell_first), **gate) as (a, b):
        sent = await connect(a)
        assert sent["mcp-session-id"].startswith(f"{a.id}.")
        lists = [(await one.post("/mcp", rpc("tools/list", {}), headers=sent)).text for one in (a, b)]
        assert lists[0] == lists[1]
        body = rpc("tools/call", {"name": "desk", "arguments": {"prompt": "Go"}})
        frames = []
        async with b.client.stream("POST", "/mcp", json=body, headers=sent) as stream:
            async for line in stream.aiter_lines():
                frames += frames_of(line)
                if line.startswith("data: ") and frames[-1].get("method") == "elicitation/create":
                    result = {"action": "accept", "content": {"decision": "approve"}}
                    form = {"jsonrpc": "2.0", "id": frames[-1]["id"], "result": result}
                    assert (await b.post("/mcp", form, headers=sent)).status_code == 202
        assert frames[-1]["result"]["structuredContent"]["text"] == "Done."
        assert len(shell.calls) == 1
        assert (await b.client.delete("/mcp", headers=sent)).status_code == 200
        for one in (a, b):
            assert (await one.post("/mcp", rpc("tools/list", {}), headers=sent)).status_code == 404


async def test_a_connection_reaches_sessions_of_other_nodes():
    """Without forms: a question ends the call with a message."""
    async with serving_mcp() as (a, b):
        session = (await call(a))["result"]["structuredContent"]["session_id"]
        sent = await connect(b)
        for node in (b, a):
            answer = await ask(node, sent, session_id=session)
            assert answer["result"]["structuredContent"]["text"] == "Hello."
        assert b.seen.messages == []
        assert (await b.post("/mcp", rpc("tools/list", {}), headers=sent)).status_code == 200


async def test_a_connection_of_a_node_that_left_is_unknown():
    """404 is what makes a client connect again."""
    async with serving_mcp() as (a, b):
        sent = await connect(a)
        assert a.store.gone(a.id)
        a.wire.cut()
        with trio.fail_after(10):
            while (await b.post("/mcp", rpc("tools/list", {}), headers=sent)).status_code != 404:  # noqa: ASYNC110 - the look at the nodes
                await trio.sleep(0.2)


async def test_a_subscription_reports_changes_of_a_session_of_another_node():
    """It is passed on to the node of the first session that it names."""
    async with serving_mcp(auth=None) as (a, b):
        session = (await call(a))["result"]["structuredContent"]["session_id"]
        uri = f"agentrail://sessions/{session}"
        async with connected(b, MODES[0]) as client, client.listen(resource_subscriptions=[uri]) as changes:
            await call(a, {"prompt": "Again", "session_id": session})
            async for change in changes:
                assert change.uri == uri
                break
