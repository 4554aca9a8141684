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


def rests(text):
    """Whether nothing stands below but an empty line of input."""
    return text.split("\n")[-1] == ">"


async def test_a_session_on_a_server_is_talked_with_on_the_same_screen(kept):
    """It answers, a call is approved in the dialogue, leaving says how to come back, and it comes back with what was said."""
    asks = (HumanApproval, {"require_approval_for": ["record"]})
    turns = (says("I am **far** away."), calls(("record", {})), says("Recorded."))
    async with served(*turns, tools=[RecordingTool()], plugins=[asks]) as (url, _):
        async with open_screen("chat", "--connect", url, "--agent", "desk", columns=160, **kept) as seen:
            await seen.wait_for(">")
            await seen.press("where are you?\r", lambda text: "I am far away." in text and rests(text))
            await seen.press("record\r", "yes, this once")
            await seen.read_for(0.5)
            await seen.press("y", lambda text: "Recorded." in text and rests(text))
            await seen.leave()
            session = re.findall(r"--resume (\S+)", seen.text)[-1]
        async with open_screen("chat", "--connect", url, "--resume", session, **kept) as seen:
            await seen.wait_for(lambda text: "> where are you?" in text and "Recorded." in text)
            await seen.leave()


async def test_what_the_server_knows_is_said_here_too(kept):
    """Its tools, its own commands, who is at work, its sessions; turns are offered to go back to, and one goes from session to session."""

    async def greet(call):
        return CommandAnswer(prompt=f"Greet {call.text}.")

    mine = SlashCommand(name="greet", description="Greets.", run=greet, in_history=True)
    commands = CommandRegistry().with_commands(mine)
    turns = (says("One."), says("Two."), says("Hello, Ada."))
    async with (
        served(*turns, tools=[RecordingTool()], store="memory:", commands=commands) as (url, _),
        open_screen("chat", "--connect", url, columns=120, rows=40, **kept) as seen,
    ):
        for text, answer in (("apples", "One."), ("pears", "Two.")):
            await seen.wait_for(rests)
            await seen.press(f"{text}\r", lambda shown, answer=answer: answer in shown and rests(shown))
        await seen.press("/tools\r", "tools: record")
        await seen.press("/tree\r", lambda text: re.search(r"s-\w+: idle · scripted", text) is not None)
        seen.type("\x1b\x1b")
        await seen.wait_for(
            lambda text: re.search(r"2 +> pears · Two\.", text) and re.search(r"1 +> apples · One\.", text)
        )
        await seen.press("1\r", "back at the end of turn 1")
        await seen.press("/greet Ada\r", lambda text: "Hello, Ada." in text and rests(text))
        await seen.press("/clear\r", lambda text: "is on the server" in text and rests(text))
        await seen.press(
            "/sessions\r", lambda text: "this one" in text and "apples" in text.split("> /sessions")[-1]
        )
        await seen.press("/resume s-no\r", "the server has no session 's-no' of yours")
        await seen.press("/resume ", lambda text: re.search(r"s-\w+ +idle · apples", text) is not None)
        await seen.press("\r", lambda text: "> Greet Ada." in text.split("> /resume\n")[-1] and rests(text))
        await seen.leave()


async def test_a_server_that_is_not_there_is_said(kept):
    """Nobody listens, and a url that is none: an error, no traceback, and the terminal as it was."""
    async with open_screen("chat", "--connect", "nonsense", **kept) as seen:
        assert await seen.wait_end() == 2
        assert "agentrail:" in seen.text
        assert "Traceback" not in seen.text


async def test_a_server_that_goes_away_is_said_and_the_chat_can_be_left(kept):
    """The screen stays and says that it connects again; what is typed waits, and Ctrl-D leaves all the same."""
    async with (
        served(says("Hi.")) as (url, stop),
        open_screen("chat", "--connect", url, **kept) as seen,
    ):
        await seen.wait_for(">")
        await seen.press("hi\r", lambda text: "Hi." in text and rests(text))
        stop.set()
        await seen.wait_for("the server does not answer; reconnecting")
        await seen.press("are you there?\r", "> are you there?")
        seen.type("\x03")  # it is waited for no longer
        await seen.wait_for("check whether it received this")
        await seen.press("half a line", "> half a line")
        await seen.leave("\x03\x04")
