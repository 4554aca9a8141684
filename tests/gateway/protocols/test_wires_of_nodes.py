"""M-032: each request of each wire through a node that owns nothing, with each id that the wire handed out, says what the owner says."""

import json
import re

import pytest
import trio

from agentrail.testing.models import FunctionModel, says
from tests.gateway.nodes import serving_nodes
from tests.gateway.protocols import test_a2a_calls as a2a, test_mcp_calls as mcp
from tests.gateway.protocols.test_openai_response_calls import respond
from tests.gateway.protocols.wires import PROTOCOLS, WIRES
from tests.gateway.test_forwarding import DIFFERS
from tests.runtime.rig import on_bounded_time

pytestmark = [on_bounded_time, pytest.mark.machine(32)]

SLOW = FunctionModel(lambda _: says(*[f"{number} " for number in range(600)], pause_seconds=0.02))
BY_NAME = {wire.name: wire for wire in WIRES}


def answering():
    return serving_nodes(2, FunctionModel(lambda _: says("One answer.")), protocols=PROTOCOLS)


def plain(text):
    """Return a text without times and addresses of nodes."""
    return re.sub(r"127\.0\.0\.1:\d+", "", DIFFERS.sub("", text.replace(r"\"", '"')))


async def said_by(node, method, path, **given):
    """Send a request; return status, type and body, without times."""
    response = await node.client.request(method, path, **given)
    return response.status_code, response.headers.get("content-type"), plain(response.text)


async def assert_same(a, b, *requests, but=""):
    """Compare the answers of both nodes to requests that change nothing."""
    for method, path, *more in requests:
        given = more[0] if more else {}
        owner, other = [await said_by(node, method, path, **given) for node in (a, b)]
        assert other == owner, path
        assert owner[0] < 300, (path, owner)


def rpc(method, headers, **params):
    return {"json": {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}, "headers": headers}


async def test_requests_of_the_responses_api():
    """The id of a response, its input, its stream from a number on, a branch from it, and its end."""
    async with answering() as (a, b):
        name = (await respond(a, conversation="s1"))["id"]
        path = f"/v1/responses/{name}"
        await assert_same(
            a,
            b,
            ("GET", "/v1/models"),
            ("GET", path),
            ("GET", f"{path}?stream=true"),
            ("GET", f"{path}?stream=true&starting_after=2"),
            ("GET", f"{path}/input_items"),
        )
        whole = [await respond(node, "More", previous_response_id=name) for node in (a, b)]
        assert whole[0]["output"][0]["content"] == whole[1]["output"][0]["content"]
        assert b.seen.messages == []
        alone = [(await respond(a, conversation=session))["id"] for session in ("s2", "s3")]
        ended = [
            await said_by(node, "DELETE", f"/v1/responses/{one}")
            for node, one in zip((a, b), alone, strict=True)
        ]
        assert ended[0] == ended[1]
        assert ended[0][0] == 200
        gone = [await said_by(node, "GET", f"/v1/responses/{one}") for node in (a, b) for one in alone]
        assert {status for status, *_ in gone} == {404}


async def test_requests_of_a2a():
    """The id of a task in both bindings, the list of tasks, and the cards."""
    async with answering() as (a, b):
        tasks = [
            (await a2a.done(a, "SendMessage", a2a.message("Hi", name=f"m-{one}", contextId=one)))["task"][
                "id"
            ]
            for one in ("s1", "s2")
        ]
        rest = {"headers": a2a.VERSION}
        await assert_same(
            a,
            b,
            ("GET", f"{a2a.RPC}/v1/tasks/{tasks[0]}", rest),
            ("GET", f"{a2a.RPC}/v1/tasks/{tasks[0]}?historyLength=1", rest),
            ("GET", f"{a2a.RPC}/v1/tasks", rest),
            ("GET", f"{a2a.RPC}/v1/tasks?contextId=s1", rest),
            ("GET", f"{a2a.RPC}/v1/extendedAgentCard", rest),
            ("POST", a2a.RPC, rpc("GetTask", a2a.VERSION, id=tasks[0])),
            ("POST", a2a.RPC, rpc("ListTasks", a2a.VERSION)),
            ("POST", a2a.RPC, rpc("SubscribeToTask", a2a.VERSION, id=tasks[0])),
            ("POST", a2a.RPC, rpc("CancelTask", a2a.VERSION, id=tasks[0])),
        )
        again = [
            await a2a.done(node, "SendMessage", a2a.message("More", name="m-3", contextId=one))
            for node, one in ((a, "s1"), (b, "s2"))
        ]
        assert [one["task"]["status"]["state"] for one in again] == ["TASK_STATE_COMPLETED"] * 2
        assert b.seen.messages == []


async def test_requests_of_mcp():
    """Lists, a session as a resource, and a call that continues one."""
    async with answering() as (a, b):
        session = (await mcp.call(a))["result"]["structuredContent"]["session_id"]
        uri = f"agentrail://sessions/{session}"
        for method, params in (
            ("server/discover", {}),
            ("tools/list", {}),
            ("resources/list", {}),
            ("resources/templates/list", {}),
            ("resources/read", {"uri": uri}),
            ("resources/read", {"uri": f"{uri}/messages"}),
            ("prompts/list", {}),
        ):
            answers = [
                await mcp.send(node, method, params, **({"mcp-name": params["uri"]} if params else {}))
                for node in (a, b)
            ]
            assert answers[0].status_code == 200, answers[0].text
            assert (method, plain(answers[0].text)) == (method, plain(answers[1].text))
        told = (await mcp.call(b, {"prompt": "More", "session_id": session}))["result"]
        assert told["structuredContent"]["text"] == "One answer."
        assert b.seen.messages == []


@pytest.mark.parametrize("name", ["ai-ui", "ag-ui", "responses", "a2a"])
async def test_a_running_response_is_joined_and_stopped_through_another_node(name):
    """By the id of the response, or of its session; the client that began it reads the end."""
    wire = BY_NAME[name]
    async with serving_nodes(2, SLOW, protocols=PROTOCOLS) as (a, b):
        await a.post("/sessions", {"session_id": "s1"})
        begun, texts = trio.Event(), {}

        async def begin():
            async with wire.opened(a, "s1", "Hi") as pieces:
                texts["begun"] = ""
                async for piece in pieces:
                    texts["begun"] += piece
                    if "3 " in texts["begun"]:
                        begun.set()

        async def join(method, path, **given):
            async with b.client.stream(method, path, **given) as response:
                texts["joined"] = "".join([piece async for piece in response.aiter_text()])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(begin)
            await begun.wait()
            response = response_of(name, texts["begun"])
            joining, stopping = requests_of(name, response)
            nursery.start_soon(lambda: join(*joining[:2], **joining[2]))
            await trio.sleep(0.3)
            stopped = await b.client.request(*stopping[:2], **stopping[2])
            assert stopped.status_code < 300, stopped.text
        assert b.seen.messages == []
        if joining is not stopping:
            assert wire.read(texts["joined"]).ends == 1


def response_of(name, text):
    frames = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    match name:
        case "responses":
            return frames[0]["response"]["id"]
        case "a2a":
            return frames[0]["result"]["task"]["id"]
    return ""


def requests_of(name, response):
    """Return the requests that join and that stop the running response."""
    if name == "ai-ui":
        return ("GET", "/ai-ui/desk/s1/stream", {}), ("POST", "/ai-ui/desk/s1/cancel", {"json": {}})
    if name == "responses":
        path = f"/v1/responses/{response}"
        return ("GET", f"{path}?stream=true", {}), ("POST", f"{path}/cancel", {"json": {}})
    if name == "a2a":
        rest = {"headers": a2a.VERSION}
        path = f"{a2a.RPC}/v1/tasks/{response}"
        return ("GET", f"{path}:subscribe", rest), ("POST", f"{path}:cancel", {**rest, "json": {}})
    again = {"json": BY_NAME["ag-ui"].body("s1", "Hi")}
    return ("POST", "/ag-ui/desk", again), ("POST", "/sessions/s1/abort", {"json": {"reason": "stop"}})
