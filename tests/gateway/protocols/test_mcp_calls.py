"""`/mcp` over HTTP, as the official client calls it in both revisions, and as no client should."""

import hashlib
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import httpx
import mcp_types
import pytest
import trio
from attrs import evolve
from mcp import Client
from mcp.server import request_state
from mcp.server.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from agentrail import ToolContext, tool
from agentrail.abc import Error, Ok
from agentrail.commands import CommandRegistry
from agentrail.commands.markdown import CommandFile, commands_of_files
from agentrail.errors import RequestRefused
from agentrail.gateway import token_watcher
from agentrail.gateway.protocols import mcp_service
from agentrail.gateway.tokens import TokenEntry, Tokens
from agentrail.host import HandledResponse
from agentrail.host.hook_payloads import Principal
from agentrail.messages import Image
from agentrail.plugins import HumanApproval
from agentrail.runtime import journal_events
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import Cut, CutStore, FaultyStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.gateway.web import Web, serving
from tests.host.hosting import profile
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time, saying

# The official client leaves the rest of its streams to the collector.
pytestmark = [
    on_bounded_time,
    pytest.mark.filterwarnings(r"ignore:Async generator '(httpx2|httpcore2|mcp)\.:ResourceWarning"),
]

MODES = ("2026-07-28", "legacy")
BEGIN = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


@asynccontextmanager
async def served(*profiles: Any, **options: Any) -> AsyncIterator[Web]:
    """A server of these profiles, which speaks MCP."""
    async with serving(None, profiles=profiles, protocols=("mcp",), **options) as web:
        yield web


@asynccontextmanager
async def connected(web: Web, mode: str, **given: Any) -> AsyncIterator[Client]:
    """The official client."""
    host, port = web.address
    async with Client(f"http://{host}:{port}/mcp", mode=mode, **given) as client:
        yield client


@pytest.mark.parametrize("mode", MODES)
async def test_a_profile_is_a_tool(mode):
    """11.6: listed with its description, and a call is a message to a session."""
    desk = evolve(profile(ScriptedModel([says("Hello."), says("Again.")])), description="Knows it all.")
    async with served(desk) as web, connected(web, mode) as client:
        (tool,) = (await client.list_tools()).tools
        assert (tool.name, tool.description) == ("desk", "Knows it all.")
        result = await client.call_tool("desk", {"prompt": "Hi"})
        assert not result.is_error
        assert [one.text for one in result.content] == ["Hello."]
        told = result.structured_content
        again = await client.call_tool("desk", {"prompt": "Hi", "session_id": told["session_id"]})
        assert again.structured_content["text"] == "Again."
        assert again.structured_content["session_id"] == told["session_id"]


@asynccontextmanager
async def asking(*turns: Any, **options: Any) -> AsyncIterator[tuple[Web, RecordingTool]]:
    """A server whose profile asks people before a shell runs."""
    shell = RecordingTool(name="shell")
    made = profile(ScriptedModel(turns), tools=[shell], plugins=[HumanApproval])
    async with served(made, **options) as web:
        yield web, shell


def answering(*results: Any) -> tuple[Any, list[str]]:
    """A user who answers forms in this order, and the messages of the forms."""
    seen: list[str] = []
    left = [*results]

    async def answer(_context: Any, params: Any) -> Any:
        seen.append(params.message)
        action, *content = left.pop(0)
        return mcp_types.ElicitResult(action=action, content=content[0] if content else None)

    return answer, seen


APPROVE = ("accept", {"decision": "approve"})


@pytest.mark.protocol(19)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        (APPROVE, 1),
        (("accept", {"decision": "reject", "reason": "No."}), 0),
        (("decline",), 0),
    ],
)
async def test_an_approval_is_a_form(mode, answer, ran):
    """P-019: the user sees the arguments, and what runs is just that."""
    turns = [calls(("shell", {"command": "ls"})), says("Done.")]
    user, seen = answering(answer)
    async with asking(*turns) as (web, shell), connected(web, mode, elicitation_callback=user) as client:
        result = await client.call_tool("desk", {"prompt": "Go"})
        assert result.structured_content["text"] == "Done."
        assert result.structured_content["stop_reason"] == "end"
        (message,) = seen
        assert message.startswith('Allow shell with {"command":"ls"}?')
        assert [dict(one) for one in shell.calls] == [{"command": "ls"}] * ran


# --- raw messages


async def send(web: Web, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    """Send a request of the current revision, whose client can show forms."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    given = {"_meta": meta, **(params or {})}
    sent = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **({"mcp-name": given["name"]} if "name" in given else {}),
        **headers,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
    return await web.post("/mcp", body, headers=sent)


async def call(web: Web, arguments: Any = None, *, name: str = "desk", **more: Any) -> dict[str, Any]:
    """Call a tool, and return the whole answer."""
    given = {"prompt": "Go"} if arguments is None else arguments
    response = await send(web, "tools/call", {"name": name, "arguments": given, **more})
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    answer: dict[str, Any] = json.loads(lines[-1]) if lines else response.json()
    return answer


def decided(asked: dict[str, Any], **content: Any) -> dict[str, Any]:
    """Answers to all forms of a result, with its state."""
    answer = {"action": "accept", "content": content or {"decision": "approve"}}
    return {
        "inputResponses": dict.fromkeys(asked["inputRequests"], answer),
        "requestState": asked["requestState"],
    }


@pytest.mark.protocol(19)
async def test_a_second_answer_decides_nothing():
    """P-019 and 11.13: a used state is refused with -32602, and the call ran once, with the shown arguments."""
    turns = [calls(("shell", {"command": "ls"})), says("Done."), says("Never.")]
    async with asking(*turns) as (web, shell):
        asked = (await call(web))["result"]
        assert asked["resultType"] == "input_required"
        answer = decided(asked)
        assert (await call(web, **answer))["result"]["structuredContent"]["text"] == "Done."
        again = (await call(web, **answer))["error"]
        assert (again["code"], again["data"]) == (-32602, {"code": "already_resolved"})
        assert [dict(one) for one in shell.calls] == [{"command": "ls"}]


def of_users(*names: str) -> Tokens:
    """Tokens that are the names of their users."""
    return Tokens(
        [
            TokenEntry(digest=hashlib.sha256(name.encode()).digest(), tenant_id="acme", user_id=name)
            for name in names
        ]
    )


def _other_end(state: str) -> str:
    return f"{state[:-1]}{'A' if state[-1] != 'A' else 'B'}"


@pytest.mark.parametrize(
    ("token", "arguments", "change", "answer"),
    [
        ("ann", None, _other_end, {}),
        ("ann", None, lambda _: "v1.AAAA", {}),
        ("ann", None, lambda _: '{"session_id":"s","ref":"p","asked":{}}', {}),
        ("bob", None, None, {}),
        ("ann", {"prompt": "Another"}, None, {}),
        ("ann", None, None, {"decision": "maybe"}),
        ("ann", None, None, {"reason": "yes"}),
    ],
    ids=["forged", "made_up", "unsealed", "foreign", "other_arguments", "no_decision", "none"],
)
async def test_a_state_that_is_not_ours_decides_nothing(token, arguments, change, answer):
    """11.13: forged, of another principal, of another call, or with an answer that is none: -32602."""
    turns = [calls(("shell", {"command": "ls"})), says("Done.")]
    async with asking(*turns, auth=of_users("ann", "bob")) as (web, shell):
        web.client.headers["authorization"] = "Bearer ann"
        asked = (await call(web))["result"]
        given = decided(asked, **answer)
        if change is not None:
            given["requestState"] = change(given["requestState"])
        web.client.headers["authorization"] = f"Bearer {token}"
        refused = await call(web, arguments, **given)
        assert refused["error"]["code"] == -32602
        assert shell.calls == []
        web.client.headers["authorization"] = "Bearer ann"
        done = await call(web, **decided(asked))
        assert done["result"]["structuredContent"]["text"] == "Done."


async def test_a_state_expires_after_a_day(monkeypatch):
    """11.13: the next answer is refused, and nothing is decided."""
    turns = [calls(("shell", {"command": "ls"})), says("Done.")]
    async with asking(*turns) as (web, shell):
        asked = (await call(web))["result"]
        now = request_state.time.time()
        monkeypatch.setattr(request_state.time, "time", lambda: now + 86_401)
        assert (await call(web, **decided(asked)))["error"]["code"] == -32602
        assert shell.calls == []


@pytest.mark.protocol(19)
async def test_a_state_survives_a_restart(tmp_path):
    """11.6: the store keeps the key, so that the retry decides in the next process."""
    kept = {"store": f"sqlite:{tmp_path}/sessions.db"}
    async with asking(calls(("shell", {"command": "ls"})), **kept) as (web, _):
        asked = (await call(web))["result"]
    async with asking(says("Done."), **kept) as (web, shell):
        done = await call(web, **decided(asked))
        assert done["result"]["structuredContent"]["text"] == "Done."
        assert [dict(one) for one in shell.calls] == [{"command": "ls"}]


async def test_a_form_that_is_not_answered_is_shown_again():
    """A missing answer is asked for again; one that was cancelled ends the call, and its session waits on."""
    turns = [calls(("shell", {"command": "ls"})), says("Done.")]
    async with asking(*turns) as (web, shell):
        asked = (await call(web))["result"]
        state = asked["requestState"]
        again = (await call(web, requestState=state, inputResponses={}))["result"]
        assert again["inputRequests"] == asked["inputRequests"]
        cancelled = {name: {"action": "cancel"} for name in asked["inputRequests"]}
        waits = (await call(web, requestState=state, inputResponses=cancelled))["result"]
        assert (waits["isError"], waits["structuredContent"]["code"]) == (True, "cycle_waiting")
        assert shell.calls == []
        done = await call(web, **decided(asked))
        assert done["result"]["structuredContent"]["text"] == "Done."


@pytest.mark.protocol(21)
async def test_a_client_without_forms_is_told_where_to_decide():
    """P-021: the error result names the approval; approved over HTTP, a later call goes on with its result."""
    turns = [calls(("shell", {"command": "ls"})), says("Done."), says("It was recorded.")]
    async with asking(*turns) as (web, shell), connected(web, "legacy") as client:
        result = await client.call_tool("desk", {"prompt": "Go"})
        assert result.is_error
        told = result.structured_content
        (approval,) = told["pending"]
        assert approval in result.content[0].text
        session_id = told["session_id"]
        approved = await web.post(f"/sessions/{session_id}/approve", {"approval_id": approval})
        assert approved.status_code < 300, approved.text
        later = await client.call_tool("desk", {"prompt": "What was it?", "session_id": session_id})
        assert later.structured_content["text"] == "It was recorded."
        assert len(shell.calls) == 1


async def ask_name(ctx: ToolContext) -> str:
    """Asks for a name, while the call runs."""
    return f"Hello, {await ctx.ask_user('Your name?')}."


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("expose", ["agent", "tools"])
async def test_a_running_tool_asks_the_user_of_the_client(mode, expose):
    """The cycle is not suspended: in the current revision, the tool waits for the retry."""
    user, seen = answering(("accept", {"answer": "Ann"}))
    asks = tool(ask_name)
    desk = profile(ScriptedModel([calls(("ask_name", {})), says("Asked.")]), tools=[asks])
    async with (
        served(evolve(desk, expose=(expose,))) as web,
        connected(web, mode, elicitation_callback=user) as client,
    ):
        given = ("desk", {"prompt": "Go"}) if expose == "agent" else ("ask_name", {})
        result = await client.call_tool(*given)
        assert seen == ["Your name?"]
        assert result.content[0].text == ("Asked." if expose == "agent" else "Hello, Ann.")


async def until(condition: Any) -> None:
    """Wait for something that no event reports."""
    with trio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - see above
            await trio.sleep(0.01)


@pytest.mark.protocol(22)
async def test_a_closed_response_aborts_its_own_cycle_in_the_current_revision():
    """P-022: and no other. Over the older revision a lost connection is no cancellation, also when the server has surely noticed it: it has noticed a later one."""
    hang, other = HangingTool(name="hang"), HangingTool(name="other")
    wanted = calls(("hang", {}))
    profiles = [
        profile(ScriptedModel([wanted, wanted]), tools=[hang]),
        profile(ScriptedModel([calls(("other", {}))]), "shop", tools=[other]),
    ]
    async with served(*profiles) as web, trio.open_nursery() as elsewhere:
        elsewhere.start_soon(call_in, web, "current", "shop")
        await other.started.wait()
        for number, mode in enumerate(("legacy", "current"), start=1):
            async with trio.open_nursery() as here:
                here.start_soon(call_in, web, mode, "desk")
                await until(lambda number=number: len(hang.calls) == number)
                here.cancel_scope.cancel()
        await until(lambda: hang.stopped > 0)
        assert (hang.stopped, other.stopped) == (1, 0)
        phases = [(await one.status()).phase for one in web.host.supervisor.sessions(scope="local")]
        assert sorted(phases) == ["executing_tools", "executing_tools", "idle"]
        elsewhere.cancel_scope.cancel()


@pytest.mark.protocol(22)
async def test_a_closed_response_takes_only_its_own_prompt_out_of_the_queue():
    """P-022: a prompt that waits leaves the queue, and the cycle of somebody else in its session goes on."""
    hang = HangingTool(name="hang")
    async with served(profile(ScriptedModel([calls(("hang", {}))]), tools=[hang])) as web:
        await web.post("/sessions", {"session_id": "s1"})
        await web.post("/sessions/s1/prompt", {"message": "Hi"})
        await hang.started.wait()
        session = web.host.supervisor.session("s1", scope="local")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_in, web, "2026-07-28", "desk", "s1")
            while not (await session.status()).queued:  # noqa: ASYNC110 - no client is told
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        while (await session.status()).queued:  # noqa: ASYNC110 - no client is told
            await trio.sleep(0.01)
        assert ((await session.status()).phase, hang.stopped) == ("executing_tools", 0)


@pytest.mark.protocol(22)
async def test_a_call_that_was_sent_twice_is_aborted_by_its_last_client():
    """P-022: with one idempotency key both are one call. A client that sent it again has closed the first response."""
    hang = HangingTool(name="hang")
    async with served(profile(ScriptedModel([calls(("hang", {}))]), tools=[hang])) as web:
        web.client.headers["idempotency-key"] = "k1"
        async with trio.open_nursery() as second:
            async with trio.open_nursery() as first:
                first.start_soon(call, web)
                await hang.started.wait()
                second.start_soon(call, web)
                await until(lambda: web.served.gateway.opened()[1].statistics().readers == 2)
                first.cancel_scope.cancel()
            await until(lambda: web.served.gateway.opened()[1].statistics().readers == 1)
            assert hang.stopped == 0
            second.cancel_scope.cancel()
        await until(lambda: hang.stopped == 1)


async def call_in(web: Web, mode: str, name: str, session_id: str | None = None) -> None:
    """Call a tool on a connection that a cancellation cuts, as a client that crashes does."""
    host, port = web.address
    sent = {"accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=60) as client:
        if mode == "legacy":
            said = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            }
            opened = await client.post("/mcp", json=rpc("initialize", said), headers=sent)
            sent["mcp-session-id"] = opened.headers["mcp-session-id"]
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await client.post("/mcp", json=ready, headers=sent)
            body = rpc("tools/call", {"name": name, "arguments": {"prompt": "Go"}})
            await client.post("/mcp", json=body, headers=sent)
        else:
            given = {"prompt": "Go", **({"session_id": session_id} if session_id else {})}
            await call(evolve_client(web, client), given, name=name)


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A request of JSON-RPC."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def evolve_client(web: Web, client: httpx.AsyncClient) -> Web:
    """The same server, called by another client."""
    return Web(client, web.served, web.address, web.stop, web.check)


# --- tools themselves


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def exposing(*tools: Any, expose: tuple[Any, ...] = ("tools",), **options: Any) -> Any:
    """A profile whose tools are offered. Its model would fail."""
    return evolve(profile(ScriptedModel([]), tools=tools, **options), expose=expose)


@pytest.mark.parametrize("mode", MODES)
async def test_tools_themselves_are_called_without_a_model(mode):
    """11.6: text, images and details of the result; its session is gone after the call."""
    answers = {
        "text": Ok(text="plain"),
        "picture": Ok(text="See.", images=(Image(media_type="image/png", data=PIXEL),)),
        "data": Ok(text="{}", details={"total": 3}),
        "fail": Error(text="It failed."),
    }
    tools = [RecordingTool(name=name, answer=answer, description=name) for name, answer in answers.items()]
    async with served(exposing(*tools)) as web, connected(web, mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {*answers}
        results = {name: await client.call_tool(name, {"x": 1}) for name in answers}
        assert [one.text for one in results["text"].content] == ["plain"]
        assert [one.type for one in results["picture"].content] == ["text", "image"]
        assert results["picture"].content[1].data == PIXEL
        assert results["data"].structured_content == {"total": 3}
        assert (results["fail"].is_error, results["fail"].content[0].text) == (True, "It failed.")
        assert [dict(one) for one in tools[0].calls] == [{"x": 1}]
        assert web.host.supervisor.sessions(scope="local") == ()


async def test_a_tool_itself_runs_once_for_one_idempotency_key():
    """Sent again at the same moment, and after its end. The key is refused for other arguments."""
    paid, is_open = [], trio.Event()

    @tool
    async def pay(order: int) -> str:
        """Pay an order."""
        paid.append(order)
        await is_open.wait()
        return f"Order {order} is paid."

    answers: list[Any] = []

    async def send_again(order: int = 1) -> None:
        answers.append((await call(web, {"order": order}, name="pay"))["result"])

    async with served(exposing(pay)) as web:
        web.client.headers["idempotency-key"] = "k1"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_again)
            nursery.start_soon(send_again)
            await until(lambda: web.served.gateway.opened()[1].statistics().readers == 2)
            is_open.set()
        await send_again()
        assert [one["content"][0]["text"] for one in answers] == ["Order 1 is paid."] * 3
        await send_again(2)
        assert answers[-1]["structuredContent"]["code"] == "client_id_reused"
        assert paid == [1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("can_ask", [True, False])
async def test_an_approval_of_a_tool_itself(mode, can_ask):
    """A client that can ask decides it; for another one the call is stopped, and nothing ran."""
    shell = RecordingTool(name="shell")
    user, _ = answering(APPROVE)
    given = {"elicitation_callback": user} if can_ask else {}
    async with (
        served(exposing(shell, plugins=[HumanApproval])) as web,
        connected(web, mode, **given) as client,
    ):
        if can_ask or mode == "legacy":
            result = await client.call_tool("shell", {"command": "ls"})
            assert result.is_error is not can_ask
        else:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("shell", {"command": "ls"})
            assert refused.value.code == -32021
        assert len(shell.calls) == int(can_ask)
        assert web.host.supervisor.sessions(scope="local") == ()


async def test_a_call_with_an_idempotency_key_is_stopped_too_if_its_approval_cannot_be_asked():
    """Otherwise it would wait for ten minutes, although its client was told that it is stopped."""
    shell = RecordingTool(name="shell")
    async with served(exposing(shell, plugins=[HumanApproval])) as web:
        web.client.headers["idempotency-key"] = "k1"
        prefix = "io.modelcontextprotocol/"
        silent = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {}}
        assert (await call(web, {}, name="shell", _meta=silent))["error"]["code"] == -32021
        assert (shell.calls, web.host.supervisor.sessions(scope="local")) == ([], ())


async def test_what_a_profile_exposes_is_listed_once():
    """Nothing, the agent, its tools, or both; of two tools with one name the first counts."""
    first, second = RecordingTool(name="look", description="1"), RecordingTool(name="look", description="2")
    profiles = [
        evolve(profile(ScriptedModel([]), "a:b", tools=[first]), expose=("agent", "tools")),
        evolve(profile(ScriptedModel([]), "c", tools=[second]), expose=("tools",)),
        evolve(profile(ScriptedModel([]), "d"), expose=()),
    ]
    async with served(*profiles) as web, connected(web, "2026-07-28") as client:
        tools = (await client.list_tools()).tools
        assert [(tool.name, tool.description) for tool in tools] == [
            ("a_b", "Asks the agent a:b, and returns its answer."),
            ("look", "1"),
        ]
        with pytest.raises(MCPError) as refused:
            await client.call_tool("d", {"prompt": "Hi"})
        assert refused.value.code == -32602


# --- resources, prompts, progress


@pytest.mark.parametrize("mode", MODES)
async def test_sessions_are_resources(mode):
    """The caller's own: its snapshot and its conversation. Others are unknown."""
    async with served(profile(ScriptedModel([says("Hello.")]))) as web, connected(web, mode) as client:
        told = (await client.call_tool("desk", {"prompt": "Hi"})).structured_content
        uri = f"agentrail://sessions/{told['session_id']}"
        listed = {str(one.uri) for one in (await client.list_resources()).resources}
        assert listed == {uri, f"{uri}/messages"}
        (snapshot,) = (await client.read_resource(uri)).contents
        assert json.loads(snapshot.text)["status"]["session_id"] == told["session_id"]
        (conversation,) = (await client.read_resource(f"{uri}/messages")).contents
        assert [one["role"] for one in json.loads(conversation.text)["messages"]] == ["user", "assistant"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == [
            "agentrail://sessions/{id}",
            "agentrail://sessions/{id}/messages",
        ]
        for strange in ("agentrail://sessions/s-none", "https://other.example/", f"{uri}/x"):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(strange)
            assert refused.value.code == (-32002 if mode == "legacy" else -32602)


@pytest.mark.parametrize("mode", MODES)
async def test_slash_commands_with_a_prompt_are_prompts(mode):
    """Built-in commands act on a session, and are none."""
    text = b"---\nargument-hint: file reason\n---\nReview $1 because $2."
    files = [CommandFile(name="review.md", path="review.md", data=text, source="user")]
    commands = CommandRegistry().with_commands(*commands_of_files(files)[0])
    desk = profile(ScriptedModel([]))
    async with served(desk, commands=commands) as web, connected(web, mode) as client:
        (prompt,) = (await client.list_prompts()).prompts
        assert (prompt.name, prompt.arguments[0].description) == ("review", "file reason")
        for given in ({"arguments": "a.py 'it is long'"}, {"file": "a.py", "reason": "it is long"}):
            (message,) = (await client.get_prompt("review", given)).messages
            assert message.content.text == "Review a.py because it is long."
        for name in ("help", "none"):
            with pytest.raises(MCPError):
                await client.get_prompt(name, {})


@pytest.mark.parametrize("mode", MODES)
async def test_a_command_and_a_host_plugin_answer_a_client(mode):
    """The result fits the output schema of the tool, which the official clients check."""

    async def intercept(ctx):
        return HandledResponse({"text": "closed"}) if ctx.request.message == "Hi" else None

    hours, desk = plugin("hours", intercept_chat_request=intercept), profile(ScriptedModel([]))
    options = {"commands": CommandRegistry(), "profiles": [desk], "protocols": ("mcp",)}
    async with serving(None, hours, **options) as web, connected(web, mode) as client:
        for prompt, text in (("Hi", "closed"), ("/help", "/help: show all commands")):
            result = await client.call_tool("desk", {"prompt": prompt})
            assert result.content[0].text.startswith(text)
            assert result.structured_content == {"session_id": "", "text": result.content[0].text}


@pytest.mark.parametrize("mode", MODES)
async def test_a_prompt_asks_for_a_missing_argument(mode):
    """In the current revision, of a client with forms. An argument in brackets may be missing."""
    text = b"---\nargument-hint: <file> [reason]\n---\nReview $1 because $2."
    files = [CommandFile(name="review.md", path="review.md", data=text, source="user")]
    options = {"commands": CommandRegistry().with_commands(*commands_of_files(files)[0])}
    user, seen = answering(("accept", {"file": "a.py"}), ("accept", {"file": 7}), ("cancel",))
    async with (
        served(profile(ScriptedModel([])), **options) as web,
        connected(web, mode, elicitation_callback=user) as client,
    ):
        (message,) = (await client.get_prompt("review", {"reason": "it is long"})).messages
        if mode == "legacy":
            assert (message.content.text, seen) == ("Review it is long because .", [])
            return
        assert message.content.text == "Review a.py because it is long."
        for fault in ("'file' is 7: expected a text", "this is a form"):
            with pytest.raises(MCPError, match=fault):
                await client.get_prompt("review")
    assert seen == ["/review takes file."] * 3
    async with served(profile(ScriptedModel([])), **options) as web, connected(web, mode) as client:
        assert (await client.get_prompt("review")).messages[0].content.text == "Review  because ."


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_reads_a_resource_through_its_gates(mode):
    """A profile names the tool of each address; what the tool asks and refuses, it asks and refuses here too."""
    read = RecordingTool(name="shell", answer=lambda given: f"{given['page']}!")
    broken = RecordingTool(name="broken", answer=Error(text="no such page"))
    desk = evolve(
        profile(ScriptedModel([]), tools=[read, broken], plugins=[HumanApproval]),
        resources={"docs://pages/{page}": "shell", "docs://all": "broken"},
    )
    user, seen = answering(APPROVE, ("decline",))
    async with served(desk) as web, connected(web, mode, elicitation_callback=user) as client:
        assert [one.uri for one in (await client.list_resources()).resources] == ["docs://all"]
        templates = (await client.list_resource_templates()).resource_templates
        assert (templates[-1].uri_template, templates[-1].name) == ("docs://pages/{page}", "shell")
        (content,) = (await client.read_resource("docs://pages/one")).contents
        assert (content.uri, content.text) == ("docs://pages/one", "one!")
        for uri, fault in (("docs://pages/two", "by"), ("docs://all", "no such page")):
            with pytest.raises(MCPError, match=fault) as refused:
                await client.read_resource(uri)
            assert refused.value.code == -32602
        assert len(seen) == 2
        assert [dict(one) for one in read.calls] == [{"page": "one"}]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_lists_that_never_change_are_announced_as_such(mode):
    """11.6: profiles and commands are fixed while a host runs."""
    async with served(profile(ScriptedModel([]))) as web, connected(web, mode) as client:
        able = client.server_capabilities
        assert not any(one.list_changed for one in (able.tools, able.prompts, able.resources))
        assert bool(able.resources.subscribe) is (mode != "legacy")


@pytest.mark.parametrize("mode", MODES)
async def test_progress_shows_the_text_and_the_calls(mode):
    """11.6: the text so far, four times a second at most, and a line for each call."""
    turns = [calls(("look", {}), text="Wait."), says("So", *[" on"] * 30, pause_seconds=0.02)]
    seen: list[str] = []

    async def show(_progress: float, _total: float | None, message: str | None) -> None:
        seen.append(message or "")

    look = RecordingTool(name="look")
    async with served(profile(ScriptedModel(turns), tools=[look])) as web, connected(web, mode) as client:
        result = await client.call_tool("desk", {"prompt": "Go"}, progress_callback=show)
    assert result.structured_content["text"].endswith("So" + " on" * 30)
    assert "[look]" in seen
    texts = [one for one in seen if one != "[look]"]
    assert 2 <= len(texts) <= 5
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(texts))


async def test_a_client_hears_of_a_change_once_per_burst():
    """11.6: of a session of its own; at the end of the server its stream ends with a result."""
    seen: list[str] = []
    async with (
        served(profile(ScriptedModel([says("Hello."), says("Again.")]))) as web,
        connected(web, "2026-07-28") as client,
    ):
        told = (await client.call_tool("desk", {"prompt": "Hi"})).structured_content
        uri = f"agentrail://sessions/{told['session_id']}"
        async with client.listen(resource_subscriptions=[uri, "agentrail://sessions/s-none"]) as changes:
            await client.call_tool("desk", {"prompt": "Hi", "session_id": told["session_id"]})
            event = await anext(changes)
            seen.append(event.uri)
            web.stop.set()
            seen.extend([event.uri async for event in changes])
    assert set(seen) == {uri}
    assert len(seen) < 12


async def test_a_client_hears_of_changes_although_the_store_was_away_as_it_began_to_listen(monkeypatch):
    """Then it is unknown whether there is such a session, and the server looks again."""
    monkeypatch.setattr(journal_events, "LONGEST_PAUSE_SECONDS", 0.01)
    inner, is_cut, was_cut = MemoryStore(), False, trio.Event()

    def decide(name: str) -> Cut | None:
        if not (is_cut and name == "get"):
            return None
        was_cut.set()
        return "before"

    async with served(profile(saying("Hello.")), store=inner) as web, connected(web, MODES[0]) as client:
        told = (await client.call_tool("desk", {"prompt": "Hi"})).structured_content
    async with (
        served(profile(saying("Again.")), store=CutStore(inner, decide)) as web,
        connected(web, "2026-07-28") as client,
    ):
        uri, is_cut = f"agentrail://sessions/{told['session_id']}", True
        async with client.listen(resource_subscriptions=[uri]) as changes:
            await was_cut.wait()
            is_cut = False
            await client.call_tool("desk", {"prompt": "Hi", "session_id": told["session_id"]})
            assert (await anext(changes)).uri == uri


async def test_a_client_is_answered_only_when_the_server_hears_of_changes():
    """A change right after the answer is not missed, however slow the store is that knows the session."""
    inner, gate, is_read = MemoryStore(), threading.Event(), threading.Event()
    answered, was_told = trio.Event(), trio.Event()
    gate.set()

    def decide(name: str) -> None:
        if name == "get":
            is_read.set()
            gate.wait()

    async def listen(client: Client, uri: str) -> None:
        async with client.listen(resource_subscriptions=[uri]) as changes:
            answered.set()
            assert await anext(changes) == ResourceUpdated(uri)
            was_told.set()

    async with served(profile(saying("Hello.")), store=inner) as web, connected(web, MODES[0]) as client:
        told = (await client.call_tool("desk", {"prompt": "Hi"})).structured_content
    store = FaultyStore(CutStore(inner, decide))
    async with (
        served(profile(saying("Again.")), store=store) as web,
        connected(web, "2026-07-28") as client,
        trio.open_nursery() as nursery,
    ):
        is_read.clear()
        gate.clear()
        nursery.start_soon(listen, client, f"agentrail://sessions/{told['session_id']}")
        await trio.to_thread.run_sync(is_read.wait)
        for _ in range(3):  # answers that the same client gets meanwhile
            await client.list_tools()
        assert not answered.is_set()
        gate.set()
        await answered.wait()
        await client.call_tool("desk", {"prompt": "Hi", "session_id": told["session_id"]})
        await was_told.wait()


# --- bad input


async def test_pages_of_others_and_forms_are_refused():
    """11.13: a web page that posts to `/mcp` on loopback, in the shape of JSON-RPC."""
    async with served(profile(ScriptedModel([]))) as web:
        for headers, status, code in (
            ({"origin": "https://evil.example"}, 403, "origin_refused"),
            ({"host": "evil.example"}, 403, "host_refused"),
            ({"content-type": "text/plain"}, 415, "content_type"),
            ({"content-type": "application/x-www-form-urlencoded"}, 415, "content_type"),
        ):
            response = await send(
                web, "tools/call", {"name": "desk", "arguments": {"prompt": "Hi"}}, **headers
            )
            assert response.status_code == status, response.text
            assert response.json()["error"]["data"]["code"] == code
        assert web.host.supervisor.sessions(scope="local") == ()


async def test_without_a_token_there_is_nothing():
    """401 in the shape of JSON-RPC; a session of the older revision belongs to its principal."""
    async with served(profile(ScriptedModel([says("Hi.")])), auth=of_users("ann", "bob")) as web:
        response = await send(web, "tools/list")
        assert (response.status_code, response.json()["error"]["data"]["code"]) == (401, "unauthorized")
        said = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        sent = {"accept": "application/json, text/event-stream", "authorization": "Bearer ann"}
        opened = await web.post("/mcp", rpc("initialize", said), headers=sent)
        sent["mcp-session-id"] = opened.headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await web.post("/mcp", ready, headers=sent)).status_code == 202
        foreign = {**sent, "authorization": "Bearer bob"}
        unknown = {**foreign, "mcp-session-id": "0" * 32}
        stolen, none = [
            await web.post("/mcp", rpc("tools/list", {}), headers=one) for one in (foreign, unknown)
        ]
        assert (stolen.status_code, stolen.content) == (404, none.content)
        assert (await web.client.delete("/mcp", headers=foreign)).status_code == 404
        assert (await web.post("/mcp", rpc("tools/list", {}), headers=sent)).status_code == 200
        assert (await web.client.delete("/mcp", headers=sent)).status_code == 200
        assert (await web.post("/mcp", rpc("tools/list", {}), headers=sent)).status_code == 404


@pytest.mark.parametrize(
    ("mode", "waits_for"), [(MODES[0], "hang"), ("legacy", "hang"), ("legacy", "ask_name")]
)
async def test_a_call_ends_with_the_token_of_its_client(mode, waits_for, monkeypatch):
    """With an error result that says so, also while it waits for an answer of its client. Its cycle goes on, as on all wires."""
    monkeypatch.setattr(token_watcher, "EXPIRY_SECONDS", 0.01)
    monkeypatch.setattr(token_watcher, "JUDGED_EVERY_SECONDS", 0.01)
    known = {"ann": Principal(tenant_id="acme", user_id="ann")}
    hang = HangingTool(name="hang")
    desk = profile(ScriptedModel([calls((waits_for, {}))]), tools=[hang, tool(ask_name)])
    auth = revocable(known)
    async with served(desk, auth=auth) as web:
        web.client.headers["authorization"] = "Bearer ann"
        sent = {"accept": "application/json, text/event-stream"}
        given = {"name": "desk", "arguments": {"prompt": "Go"}}
        if mode == "legacy":
            said = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {"form": {}}},
                "clientInfo": {"name": "t", "version": "1"},
            }
            opened = await web.post("/mcp", rpc("initialize", said), headers=sent)
            sent["mcp-session-id"] = opened.headers["mcp-session-id"]
            await web.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=sent)
        ended: list[dict[str, Any]] = []

        async def ask() -> None:
            if mode == "legacy":
                response = await web.post("/mcp", rpc("tools/call", given), headers=sent)
                lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
                ended.append(json.loads(lines[-1]))
            else:
                ended.append(await call(web))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            sessions = web.host.supervisor.sessions
            await until(lambda: sessions(scope="acme"))
            (session,) = sessions(scope="acme")
            while waits_for == "ask_name" and not (await session.status()).all_questions:  # noqa: ASYNC110 - no client is told
                await trio.sleep(0.01)
            if waits_for == "hang":
                await hang.started.wait()
            known.clear()
        result = ended[0]["result"]
        assert (result["isError"], result["structuredContent"]["code"]) == (True, "unauthorized")
        assert ((await session.status()).phase, hang.stopped) == ("executing_tools", 0)


def revocable(known: dict[str, Principal]) -> Any:
    """An `auth` that knows these tokens now."""

    def find(headers: Any) -> Principal | None:
        return known.get(headers.get("authorization", "").removeprefix("Bearer "))

    return find


async def test_one_caller_has_so_many_connections_of_the_older_revision(monkeypatch):
    """One more ends the one that was unused for the longest time. Others and their connections are left alone."""
    monkeypatch.setattr(mcp_service, "MAX_CONNECTIONS_OF_EACH", 2)
    async with served(profile(ScriptedModel([])), auth=of_users("ann", "bob")) as web:

        async def connect(user: str) -> dict[str, str]:
            said = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            }
            sent = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {user}"}
            opened = await web.post("/mcp", rpc("initialize", said), headers=sent)
            return {**sent, "mcp-session-id": opened.headers["mcp-session-id"]}

        async def status(sent: dict[str, str]) -> int:
            code: int = (await web.post("/mcp", rpc("ping", {}), headers=sent)).status_code
            return code

        bobs, first, second = await connect("bob"), await connect("ann"), await connect("ann")
        assert await status(first) == 200
        third = await connect("ann")
        assert [await status(one) for one in (bobs, first, second, third)] == [200, 200, 404, 200]
        assert (await web.client.delete("/mcp", headers=first)).status_code == 200
        fourth = await connect("ann")
        assert [await status(one) for one in (bobs, third, fourth)] == [200, 200, 200]


async def test_a_session_of_somebody_else_is_unknown():
    """Byte for byte as one that there is not, but for the id."""
    async with served(profile(ScriptedModel([says("Hi.")])), auth=of_users("ann", "bob")) as web:
        web.client.headers["authorization"] = "Bearer ann"
        told = (await call(web))["result"]["structuredContent"]
        web.client.headers["authorization"] = "Bearer bob"
        answers = [
            json.dumps(await call(web, {"prompt": "Go", "session_id": name})).replace(name, "ID")
            for name in (told["session_id"], "s-none")
        ]
        assert answers[0] == answers[1]
        assert '"isError": true' in answers[0]
        assert '"code": "session_unknown"' in answers[0]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"prompt": ""}, {"prompt": 1}, {"prompt": "a", "more": 1}, {"prompt": "a", "session_id": "../x"}],
)
async def test_arguments_that_do_not_fit_are_an_error_result(arguments):
    """The model that called reads why."""
    async with served(profile(ScriptedModel([]))) as web:
        result = (await call(web, arguments))["result"]
        assert result["isError"]
        assert web.host.supervisor.sessions(scope="local") == ()


@pytest.mark.protocol(57)
@pytest.mark.parametrize("name", ["desk", "look"])
async def test_one_guard_refuses_here_too(name):
    """P-057: an error result with its code, of the agent and of its tools; no session exists."""

    async def judge(ctx):
        raise RequestRefused(402, "unpaid", "pay first")

    look = RecordingTool(name="look")
    desk = evolve(profile(ScriptedModel([]), tools=[look]), expose=("agent", "tools"))
    guard = plugin("guard", critical=True, intercept_chat_request=judge)
    async with serving(None, guard, profiles=[desk], protocols=("mcp",)) as web:
        result = (await call(web, name=name))["result"]
        assert result["structuredContent"]["code"] == "unpaid"
        assert (result["isError"], result["content"][0]["text"]) == (True, "pay first")
        assert look.calls == []
        assert web.host.supervisor.sessions(scope="local") == ()


@pytest.mark.protocol(59)
@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_goes_down_ends_each_call_once(mode):
    """P-059: with an error result, and the session goes on after the restart."""
    hang, results = HangingTool(name="hang"), []
    desk = profile(ScriptedModel([calls(("hang", {}))]), tools=[hang])
    async with (
        served(desk, drain_timeout=0.05) as web,
        connected(web, mode) as client,
        trio.open_nursery() as nursery,
    ):

        async def ask() -> None:
            results.append(await client.call_tool("desk", {"prompt": "Go"}))

        nursery.start_soon(ask)
        await hang.started.wait()
        web.stop.set()
    assert results[0].structured_content["code"] in ("draining", "aborted")


async def test_a_server_that_goes_down_ends_a_call_whose_client_is_asked():
    """With an error result too: in the older revision the call waits for the answer to a form."""
    asked, results = trio.Event(), []

    async def think(_context: Any, _params: Any) -> Any:
        asked.set()
        await trio.sleep_forever()

    desk = profile(ScriptedModel([calls(("ask_name", {}))]), tools=[tool(ask_name)])
    async with (
        served(desk, drain_timeout=0.05) as web,
        connected(web, "legacy", elicitation_callback=think) as client,
        trio.open_nursery() as nursery,
    ):

        async def ask() -> None:
            results.append(await client.call_tool("desk", {"prompt": "Go"}))

        nursery.start_soon(ask)
        await asked.wait()
        web.stop.set()
    assert results[0].structured_content["code"] == "draining"


async def test_a_notification_right_before_the_end_of_its_connection_is_no_bug_of_ours(caplog):
    """A client that closes sends both at once. The library handles the notification after its answer, and fails if the connection has ended."""
    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**BEGIN}}
    told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    accept = {"accept": "application/json, text/event-stream"}
    async with served(profile(ScriptedModel([]))) as web:
        for _ in range(12):
            begun = await web.client.post("/mcp", json=first, headers=accept)
            own = {**accept, "mcp-session-id": begun.headers["mcp-session-id"]}
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(partial(web.client.post, "/mcp", json=told, headers=own))
                nursery.start_soon(partial(web.client.delete, "/mcp", headers=own))
    assert "please report" not in caplog.text


async def test_an_id_of_a_request_without_an_answer_is_refused():
    """The library gives the answer of the first request to the second one, and none to the first, whose client waits indefinitely."""
    hang = HangingTool(name="hang")
    desk = profile(ScriptedModel([calls(("hang", {})), says("Done.")]), tools=[hang])
    sent = {"accept": "application/json, text/event-stream"}
    results: list[httpx.Response] = []
    async with served(desk) as web:
        begun = await web.client.post("/mcp", json=rpc("initialize", BEGIN), headers=sent)
        sent["mcp-session-id"] = begun.headers["mcp-session-id"]

        async def post(body: dict[str, Any]) -> None:
            results.append(await web.client.post("/mcp", json=body, headers=sent))

        await post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        asked = rpc("tools/call", {"name": "desk", "arguments": {"prompt": "Go"}})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(post, asked)
            await hang.started.wait()
            await post({**asked, "id": "1"})
            await post({"jsonrpc": "2.0", "id": 1, "result": {}})  # answers a question of ours
            told = {"requestId": 1, "reason": "enough"}
            await post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told})
        await post(rpc("tools/list", {}))
    assert [one.status_code for one in results] == [202, 422, 202, 202, 200, 200]
    assert results[1].json()["error"]["data"]["code"] == "id_invalid"


async def test_a_notification_cancels_a_call_of_the_older_revision():
    """11.6: the cycle is aborted."""
    hang = HangingTool(name="hang")
    desk = profile(ScriptedModel([calls(("hang", {}))]), tools=[hang])
    async with served(desk) as web, connected(web, "legacy") as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "desk", {"prompt": "Go"})
            await hang.started.wait()
            nursery.cancel_scope.cancel()
        await until(lambda: hang.stopped == 1)


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH"])
async def test_other_methods_are_refused(method):
    """The server has nothing to tell beside its answers, so there is no standing stream."""
    async with served(profile(ScriptedModel([]))) as web:
        response = await web.client.request(method, "/mcp")
        assert (response.status_code, response.headers["allow"]) == (405, "POST, DELETE")
