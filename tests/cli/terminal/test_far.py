"""`agentrail chat --connect`: the same screen over a network, and a server that goes away."""

import re
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.commands import CommandAnswer, CommandRegistry, SlashCommand
from agentrail.gateway.app import create_app
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.host import AgentProfile
from agentrail.plugins import HumanApproval
from agentrail.runtime.session_options import SessionOptions
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.cli.terminal.screens import open_screen

pytestmark = pytest.mark.check


@asynccontextmanager
async def served(*turns, port=0, tools=(), plugins=(), store=None, commands=None):
    """A server on this machine whose model says this; gives its address, and what stops it."""
    options = SessionOptions(model=ScriptedModel(list(turns)), tools=tools, plugins=plugins, sandbox="memory")
    desk = AgentProfile(id="desk", name="Desk", options=options)
    app = create_app(profiles=[desk], store=store, commands=commands)
    listeners = await open_listeners("127.0.0.1", port)
    ((host, found),) = addresses_of(listeners)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:

        async def serve(*, task_status):
            await serve_app(app, listeners, stop.wait, task_status=task_status)

        await nursery.start(serve)
        try:
            yield f"http://{host}:{found}", stop
        finally:
            stop.set()


def kept(tmp_path):
    """Where a test keeps what was typed."""
    return {"AGENTRAIL_DATA_DIR": str(tmp_path)}


def rests(text):
    """Whether nothing stands below but an empty line of input."""
    return text.split("\n")[-1] == ">"


async def test_a_session_on_a_server_is_talked_with_on_the_same_screen(tmp_path):
    """It answers, a call is approved in the dialogue, leaving says how to come back, and it comes back with what was said."""
    asks = (HumanApproval, {"require_approval_for": ["record"]})
    turns = (says("I am **far** away."), calls(("record", {})), says("Recorded."))
    async with served(*turns, tools=[RecordingTool()], plugins=[asks]) as (url, _):
        async with open_screen(
            "chat", "--connect", url, "--agent", "desk", columns=160, **kept(tmp_path)
        ) as seen:
            await seen.wait_for(">")
            seen.type("where are you?\r")
            await seen.wait_for(lambda text: "I am far away." in text and rests(text))
            seen.type("record\r")
            await seen.wait_for("yes, this once")
            await seen.read_for(0.5)
            seen.type("y")
            await seen.wait_for(lambda text: "Recorded." in text and rests(text))
            seen.type("\x04")
            assert await seen.wait_end() == 0
            session = re.findall(r"--resume (\S+)", seen.text)[-1]
        async with open_screen("chat", "--connect", url, "--resume", session, **kept(tmp_path)) as seen:
            await seen.wait_for(lambda text: "> where are you?" in text and "Recorded." in text)
            seen.type("\x04")
            assert await seen.wait_end() == 0


async def test_what_the_server_knows_is_said_here_too(tmp_path):
    """Its tools, its own commands, who is at work, its sessions; turns are offered to go back to, and one goes from session to session."""

    async def greet(call):
        return CommandAnswer(prompt=f"Greet {call.text}.")

    mine = SlashCommand(name="greet", description="Greets.", run=greet, in_history=True)
    commands = CommandRegistry().with_commands(mine)
    turns = (says("One."), says("Two."), says("Hello, Ada."))
    async with (
        served(*turns, tools=[RecordingTool()], store="memory:", commands=commands) as (url, _),
        open_screen("chat", "--connect", url, columns=120, rows=40, **kept(tmp_path)) as seen,
    ):
        for text, answer in (("apples", "One."), ("pears", "Two.")):
            await seen.wait_for(rests)
            seen.type(f"{text}\r")
            await seen.wait_for(lambda shown, answer=answer: answer in shown and rests(shown))
        seen.type("/tools\r")
        await seen.wait_for("tools: record")
        seen.type("/tree\r")
        await seen.wait_for(lambda text: re.search(r"s-\w+: idle · scripted", text) is not None)
        seen.type("\x1b\x1b")
        await seen.wait_for(
            lambda text: re.search(r"2 +> pears · Two\.", text) and re.search(r"1 +> apples · One\.", text)
        )
        seen.type("1\r")
        await seen.wait_for("back at the end of turn 1")
        seen.type("/greet Ada\r")
        await seen.wait_for(lambda text: "Hello, Ada." in text and rests(text))
        seen.type("/clear\r")
        await seen.wait_for(lambda text: "is on the server" in text and rests(text))
        seen.type("/sessions\r")
        await seen.wait_for(lambda text: "this one" in text and "apples" in text.split("> /sessions")[-1])
        seen.type("/resume s-no\r")
        await seen.wait_for("the server has no session 's-no' of yours")
        seen.type("/resume ")
        await seen.wait_for(lambda text: re.search(r"s-\w+ +idle · apples", text) is not None)
        seen.type("\r")
        await seen.wait_for(lambda text: "> Greet Ada." in text.split("> /resume\n")[-1] and rests(text))
        seen.type("\x04")
        assert await seen.wait_end() == 0


async def test_a_server_that_is_not_there_is_said(tmp_path):
    """Nobody listens, and a url that is none: an error, no traceback, and the terminal as it was."""
    async with open_screen("chat", "--connect", "nonsense", **kept(tmp_path)) as seen:
        assert await seen.wait_end() == 2
        assert "agentrail:" in seen.text
        assert "Traceback" not in seen.text


async def test_a_server_that_goes_away_is_said_and_the_chat_can_be_left(tmp_path):
    """The screen stays and says that it connects again; what is typed waits, and Ctrl-D leaves all the same."""
    async with (
        served(says("Hi.")) as (url, stop),
        open_screen("chat", "--connect", url, **kept(tmp_path)) as seen,
    ):
        await seen.wait_for(">")
        seen.type("hi\r")
        await seen.wait_for(lambda text: "Hi." in text and rests(text))
        stop.set()
        await seen.wait_for("the server does not answer; connecting again")
        seen.type("are you there?\r")
        await seen.wait_for("> are you there?")
        seen.type("\x03")  # it is waited for no longer
        await seen.wait_for("look whether it took this")
        seen.type("half a line")
        await seen.wait_for("> half a line")
        seen.type("\x03\x04")
        assert await seen.wait_end() == 0
