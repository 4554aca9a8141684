"""Slash commands over HTTP: listed as at a terminal, run by their names, and read in messages where a host has them (12.10)."""

import pytest

from agentrail.commands import CommandAnswer, CommandRegistry, SlashCommand
from agentrail.testing.models import ScriptedModel, says
from tests.commands.folders import commands_at, write_commands
from tests.gateway.web import error_of, serving
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time


@pytest.fixture
def place(tmp_path):
    """A project and a home with a command each."""
    return write_commands(tmp_path)


@on_bounded_time
async def test_a_message_is_a_command_where_the_host_has_them(place):
    """One of a file becomes its prompt, one that is built in is answered in place of the session; paths and unknown names do not."""
    model = ScriptedModel([says("done"), says("seen"), says("ok")])
    async with serving(model, commands=commands_at(place)) as web:
        made = await web.chat("/git:commit all of it", session_id="main")
        assert made.json()["text"] == "done"
        assert model.requests[0].messages[-1].content[0].text == "Commit all of it."
        status = await web.chat("/STATUS", session_id="main")
        assert (status.status_code, status.json()["command"]) == (200, "status")
        assert status.json()["lines"][0].startswith("idle · ")
        assert (await web.chat("/etc/hosts is wrong", session_id="main")).json()["text"] == "seen"
        refused = error_of(await web.chat("/halp", session_id="main"), 404, "command_unknown")
        assert "did you mean /help?" in refused["message"]
        error_of(await web.chat("/thank you", session_id="main"), 422, "command_error")
        error_of(await web.chat("/quit", session_id="main"), 422, "command_error")
        error_of(await web.chat("/status"), 422, "command_error")  # it has no session to say it of
        error_of(await web.chat("/rewind x", session_id="main"), 422, "command_error")
        assert len(model.requests) == 2


@on_bounded_time
async def test_a_command_is_run_by_its_name(place):
    """What it tells is the answer; what it says becomes a request, once for one `client_id`."""
    model = ScriptedModel([says("hi"), says("done")])
    async with serving(model, commands=commands_at(place)) as web:
        await web.chat(session_id="main")
        said, named = {"text": "it", "session_id": "main"}, {"Idempotency-Key": "c1"}
        done = await web.post("/commands/Git:Commit", {**said, "client_id": "c1"})
        assert (done.status_code, done.json()["session_id"], done.json()["lines"]) == (202, "main", [])
        again = await web.post("/commands/git:commit", {**said, "client_id": "c1"})
        assert again.json()["request_id"] == done.json()["request_id"]
        by_header = await web.post("/commands/git:commit", said, headers=named)
        assert by_header.json()["request_id"] == done.json()["request_id"]
        strange = await web.client.post("/commands/help", json={}, headers={"Idempotency-Key": ")p"})
        error_of(strange, 422, "id_invalid")
        asked = await web.client.get(f"/sessions/main/requests/{done.json()['request_id']}?wait=5")
        assert asked.json()["text"] == "done"
        assert model.requests[1].messages[-1].content[0].text == "Commit it."
        error_of(await web.post("/commands/git:commit", {"text": "it"}), 422, "command_error")
        error_of(await web.post("/commands/zzz", {}), 404, "command_unknown")
        error_of(await web.post("/commands/status", {"session_id": "gone"}), 404, "session_unknown")
        error_of(await web.client.get("/commands", params={"session_id": "a b"}), 422, "id_invalid")


@on_bounded_time
async def test_plugins_of_the_host_hear_a_command_as_it_was_typed(place):
    """They come first, whatever it becomes; a model that a command names is asked."""

    async def other(call):
        return CommandAnswer(prompt="Say it.", model="demo:fast")

    heard = []

    async def hear(ctx):
        heard.append(ctx.request.message)

    judge = plugin("judge", intercept_chat_request=hear)
    command = SlashCommand(name="other", description="Asks another model.", run=other, in_history=True)
    registry = CommandRegistry().with_commands(command)
    async with serving(ScriptedModel([says("hi")]), judge, commands=registry) as web:
        await web.chat(session_id="main")
        await web.chat("/other", session_id="main")
        await web.post("/commands/other", {"session_id": "main"})
        assert heard == ["Hi", "/other", "/other "]
        assert "demo:fast" in (await web.chat("/model", session_id="main")).json()["lines"][0]
