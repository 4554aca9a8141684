"""The `ai` SDK itself reads what we send, and talks to a server of ours: its published schema, its client, its chat (8.17, 11.14)."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import trio

from agentrail import tool
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin
from tests.gateway.protocols.ui_scenarios import SCENARIOS, asking, parts_of
from tests.gateway.web import serving
from tests.protocols.ui_client import UiClient
from tests.runtime.rig import on_bounded_time

HERE = Path(__file__).parent
pytestmark = [pytest.mark.check, pytest.mark.services("ai"), pytest.mark.protocol(66)]


def node(ai_sdk, **given):
    """How node is started: with the SDK, and nothing of this process's environment but where programs are."""
    return {"env": {"PATH": os.environ["PATH"], "AI_SDK": f"file://{ai_sdk}", **given}}


async def talk(ai_sdk, web, *steps, chat="c1"):
    """Let a chat of the SDK do this with a server, and give what its page shows in the end."""
    host, port = web.address
    told = json.dumps({"api": f"http://{host}:{port}/ai-ui/desk", "id": chat, "steps": steps})
    command = ["node", str(HERE / "chat.mjs")]
    done = await trio.run_process(command, capture_stdout=True, **node(ai_sdk, CHAT=told))
    return json.loads(done.stdout)


def shown(message):
    """What a page shows of a message: words, and calls with how they stand."""
    told = []
    for part in message["parts"]:
        if part["type"] == "text":
            told.append(part["text"])
        elif part["type"] == "dynamic-tool":
            told.append((part["toolName"], part["state"], part.get("output")))
    return told


@pytest.mark.host("H-115")
def test_each_part_of_each_life_passes_the_published_schema(ai_sdk):
    """Every scenario of H-061 to H-073 and beyond, and the client reads every stream to the same message as ours does."""
    streams = {name: trio.run(run) for name, run in SCENARIOS.items()}
    command = ["node", str(HERE / "read_streams.mjs")]
    done = subprocess.run(
        command, input=json.dumps(streams), capture_output=True, encoding="utf-8", check=True, **node(ai_sdk)
    )
    found = json.loads(done.stdout)
    assert {*found} == {*SCENARIOS}
    for name, responses in found.items():
        client = UiClient()
        for stream, response in zip(streams[name], responses, strict=True):
            parts = parts_of(stream)
            assert response["parts"] == len(parts) > 0
            assert response["faults"] == [], name
            last = client.read(parts, is_replay=name == "sent_again")
            assert response["error"] == last.get("errorText"), name
            if name != "sent_again" and client.messages:
                assert words_of(response["message"]["parts"]) == words_of([*client.messages.values()][-1])


def words_of(parts):
    """The words and the calls of a message, however its reader calls its parts."""
    words = [part["text"] for part in parts if part["type"] in ("text", "reasoning")]
    keys = ("toolCallId", "state", "input", "output", "errorText")
    tools = [
        {key: part[key] for key in keys if key in part} for part in parts if part["type"] == "dynamic-tool"
    ]
    return words, tools


DONE, DENIED = ("shell", "output-available", "recorded"), ("shell", "output-denied", None)


@on_bounded_time
@pytest.mark.host("H-115")
@pytest.mark.parametrize(
    ("commands", "decisions", "run", "told"),
    [
        (["ls"], [[True]], ["ls"], [DONE, "Done."]),
        (["rm"], [[False, "too dangerous"]], [], [DENIED, "Done."]),
        (["a", "b"], [[True], [False]], ["a"], [DONE, DENIED, "Done."]),
    ],
)
async def test_what_is_decided_in_the_client_runs_or_is_denied(ai_sdk, commands, decisions, run, told):
    """`addToolApprovalResponse` sends the chat by itself, once all are decided; what is let run runs once, and its result comes into the same message."""
    asked = calls(*(("shell", {"command": one}) for one in commands))
    async with asking(asked, says("Done.")) as (web, shell):
        page = await talk(ai_sdk, web, ["say", "Hi"], *(["decide", *one] for one in decisions))
        assert shell.calls == [{"command": one} for one in run]
    assert (page["status"], page["errors"], page["called"]) == ("ready", [], [])
    assert [message["role"] for message in page["messages"]] == ["user", "assistant"]
    assert shown(page["messages"][1]) == told


@on_bounded_time
@pytest.mark.host("H-115")
async def test_the_client_runs_its_own_tool_and_answers_a_question(ai_sdk):
    """`onToolCall` hears of the calls that are the client's, and of no other; `addToolOutput` sends their results."""

    @tool(answered_by="client")
    async def show_map(place: str) -> str:
        """Show a place on the map."""
        raise AssertionError(place)

    turns = [
        calls(("show_map", {"place": "Lisbon"}), ("list_dir", {"path": "."})),
        calls(("ask_user", {"question": "Which?", "options": ["a", "b"]})),
        says("b it is."),
    ]
    tools = [show_map, *builtin("ask_user", "list_dir")]
    async with serving(ScriptedModel(turns), session_tools=tools) as web:
        page = await talk(ai_sdk, web, ["say", "Hi"], ["give", {"zoom": 3}], ["give", "b"])
    assert (page["status"], page["errors"]) == ("ready", [])
    assert page["called"] == ["show_map", "ask_user"]
    assert page["data"] == ["data-question"]
    told = shown(page["messages"][1])
    assert ("show_map", "output-available", {"zoom": 3}) in told
    assert ("ask_user", "output-available", "b") in told
    assert told[-1] == "b it is."


@on_bounded_time
@pytest.mark.host("H-115", "H-062")
async def test_a_response_goes_on_without_its_page_and_is_read_again(ai_sdk):
    """`stop()` closes the connection alone; `resumeStream()` gives the whole message, once, under its id. Then there is nothing to resume."""
    talking = says(*[f"{number} " for number in range(60)], pause_seconds=0.01)
    async with serving(ScriptedModel([talking, says("Again.")])) as web:
        steps = [["say_and_stop", "Hi"], ["resume"], ["resume"], ["say", "And?"]]
        page = await talk(ai_sdk, web, *steps)
    assert (page["status"], page["errors"]) == ("ready", [])
    assert [message["role"] for message in page["messages"]] == ["user", "assistant", "user", "assistant"]
    assert "".join(shown(page["messages"][1])) == "".join(f"{number} " for number in range(60))
    assert shown(page["messages"][3]) == ["Again."]


@on_bounded_time
@pytest.mark.host("H-115")
async def test_what_cannot_be_done_is_an_error_of_the_chat(ai_sdk):
    """A response that is to be made anew: refused in the shape of all errors, and the chat shows it."""
    async with serving(ScriptedModel([says("Hello.")])) as web:
        page = await talk(ai_sdk, web, ["say", "Hi"], ["regenerate"])
    assert page["status"] == "error"
    (error,) = page["errors"]
    assert json.loads(error)["error"]["code"] == "field_invalid"
