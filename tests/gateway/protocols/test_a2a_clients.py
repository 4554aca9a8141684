"""The official clients of A2A, for Python and JavaScript, over both bindings (11.14)."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from google.protobuf.json_format import MessageToDict, ParseDict

from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.gateway.protocols.test_a2a_calls import A2A, SLOW, built, message, state_of, text_of, tokens
from tests.gateway.protocols.test_openai_chat_calls import ENDLESS
from tests.gateway.web import Web, serving
from tests.protocols.test_a2a import PB2
from tests.providers.vendors import library
from tests.runtime.rig import on_bounded_time

HERE = Path(__file__).parent
BINDINGS = ["JSONRPC", "HTTP+JSON"]
# Its streams are generators that nobody closes; Trio tells of each.
pytestmark = [
    pytest.mark.check,
    on_bounded_time,
    pytest.mark.filterwarnings(r"ignore:Async generator '(a2a|httpx|httpcore)\.:ResourceWarning"),
]


@asynccontextmanager
async def official(web: Web, binding: str, *, is_stream: bool = True, **head: str) -> AsyncIterator[Any]:
    """The client of the Python library, made from the card."""
    client = library("a2a.client")
    async with httpx.AsyncClient(headers=head, timeout=10) as http:
        card = await client.A2ACardResolver(http, str(web.client.base_url)).get_agent_card()
        config = client.ClientConfig(
            httpx_client=http, streaming=is_stream, supported_protocol_bindings=[binding]
        )
        yield client.ClientFactory(config).create(card)


def request(*parts: Any, **more: Any) -> Any:
    return ParseDict(message(*parts, **more), PB2.SendMessageRequest())


async def read(stream: Any) -> list[dict[str, Any]]:
    return [MessageToDict(frame) async for frame in stream]


@pytest.mark.protocol(31)
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_for_python_does_all_that_the_card_offers(binding):
    """P-031: send, stream, get, list, cancel, subscribe; and each refusal is the library's own class."""
    errors = library("a2a.utils.errors")
    async with (
        serving(ScriptedModel([says("One."), SLOW, ENDLESS]), protocols=A2A) as web,
        official(web, binding) as client,
        official(web, binding, is_stream=False) as plain,
    ):
        (one,) = await read(plain.send_message(request()))
        task, context = one["task"], one["task"]["contextId"]
        assert (text_of(task), state_of(task)) == ("One.", "COMPLETED")
        frames = await read(client.send_message(request("And?", name="m-2", contextId=context)))
        assert built(with_append(frames)) == "".join(SLOW.text)
        assert MessageToDict(await client.get_task(PB2.GetTaskRequest(id=task["id"]))) == task
        soon = request("Long", name="m-3", contextId=context, configuration={"returnImmediately": True})
        (begun,) = await read(plain.send_message(soon))
        canceled, followed = None, []
        async for frame in client.subscribe(PB2.SubscribeToTaskRequest(id=begun["task"]["id"])):
            followed.append(MessageToDict(frame))
            if canceled is None and "artifactUpdate" in followed[-1]:
                canceled = await client.cancel_task(PB2.CancelTaskRequest(id=begun["task"]["id"]))
        assert state_of(MessageToDict(canceled)) == "CANCELED"
        assert followed[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
        listed = await client.list_tasks(PB2.ListTasksRequest(context_id=context, page_size=2))
        assert (listed.tasks[0].id, listed.total_size) == (begun["task"]["id"], 3)
        await client.get_extended_agent_card(PB2.GetExtendedAgentCardRequest())
        other = request("Other", contextId=context)
        push = PB2.TaskPushNotificationConfig(task_id=task["id"], url="http://x.example")
        for wrong, kind in (
            (client.get_task(PB2.GetTaskRequest(id="none")), "TaskNotFoundError"),
            (client.cancel_task(PB2.CancelTaskRequest(id=task["id"])), "TaskNotCancelableError"),
            (read(client.subscribe(PB2.SubscribeToTaskRequest(id=task["id"]))), "UnsupportedOperationError"),
            (client.create_task_push_notification_config(push), "PushNotificationNotSupportedError"),
            (
                read(plain.send_message(request({"url": "http://x"}, name="m-5"))),
                "ContentTypeNotSupportedError",
            ),
            (read(client.send_message(other)), "InvalidRequestError"),
        ):
            with pytest.raises(getattr(errors, kind)):
                await wrong


def with_append(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Frames as they were before a parser left out what is false."""
    return [
        {"artifactUpdate": {"append": False, **frame["artifactUpdate"]}}
        if "artifactUpdate" in frame
        else frame
        for frame in frames
    ]


@pytest.mark.protocol(32)
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_for_python_approves(binding):
    """P-032, by its types: their numbers are floats, and what runs are whole ones. With a token, as the card says."""
    shell = RecordingTool(name="shell")
    turns = [calls(("shell", {"n": 1})), says("Done.")]
    options: dict[str, Any] = {"session_tools": [shell], "session_plugins": [HumanApproval]}
    async with serving(ScriptedModel(turns), protocols=A2A, auth=tokens("ann"), **options) as web:
        web.client.headers["authorization"] = "Bearer ann"
        async with official(web, binding, authorization="Bearer ann") as client:
            *_, asked = await read(client.send_message(request()))
            update = asked.get("statusUpdate") or asked["task"]
            (facts,) = [part["data"] for part in update["status"]["message"]["parts"] if "data" in part]
            answer = {"approval_id": facts["approval_id"], "approved": True, "arguments": {"n": 2}}
            task_id = update.get("taskId") or update["id"]
            frames = await read(client.send_message(request({"data": answer}, name="m-2", taskId=task_id)))
            assert frames[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert (shell.calls, type(shell.calls[0]["n"])) == ([{"n": 2}], int)


@pytest.mark.protocol(31)
@pytest.mark.services("a2a")
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_for_javascript_does_all_that_the_card_offers(a2a_js, binding):
    """P-031: the same, with the same answers."""
    async with serving(ScriptedModel([says("One."), SLOW, ENDLESS]), protocols=A2A) as web:
        talk = {"base": str(web.client.base_url), "binding": binding}
        env = {"PATH": os.environ["PATH"], "A2A": f"file://{a2a_js}", "TALK": json.dumps(talk)}
        done = await trio.run_process(
            ["node", str(HERE / "a2a_client.mjs")], capture_stdout=True, capture_stderr=True, env=env
        )
    told = json.loads(done.stdout)
    assert (told["binding"], text_of(told["sent"]), told["got"]) == (binding, "One.", told["sent"])
    assert built(with_append(told["streamed"])) == "".join(SLOW.text)
    assert state_of(told["canceled"]) == "CANCELED"
    assert told["followed"][-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert (told["listed"][0][0], told["listed"][1]) == (told["canceled"]["id"], 3)
    wanted = ["TaskNotFound", "TaskNotCancelable", "UnsupportedOperation", "PushNotificationNotSupported", ""]
    assert all(name in found for name, found in zip(wanted, told["refused"], strict=True)), told["refused"]
