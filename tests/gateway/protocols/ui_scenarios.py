"""Responses of the UI message stream, as a server gives them on a real socket: one scenario for each way that a life of a request takes.

A scenario gives the texts of its streams, byte for byte; the tests hold them against golden files, against a client of our own, and
against the schema that the `ai` SDK publishes.

The golden files are written by `python -m tests.gateway.protocols.ui_scenarios`.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio
import trio.lowlevel

from agentrail import ToolContext, tool
from agentrail.errors import BadRequest, Overloaded
from agentrail.plugins import HumanApproval
from agentrail.testing.cancelling import crash
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, fails, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from agentrail.tools.task import TaskTool
from tests.gateway.web import Web, serving
from tests.host.hosting import answering, profile

Streams: TypeAlias = list[str]
Scenario: TypeAlias = Callable[[], Awaitable[Streams]]

SCENARIOS: Final[dict[str, Scenario]] = {}

GOLDEN: Final = Path(__file__).with_name("golden")

TIMED: Final = frozenset(
    {
        "cancelled",
        "crashed",
        "given_up",
        "left_and_read_again",
        "ended_with_its_session",
        "shut_down",
        "dropped",
    }
)
"""Those in which it is luck how much is said: what is said of a text is left out of their files."""

ENDLESS: Final = says("So", *[" on"] * 400, pause_seconds=0.02)
ODD: Final = 'a\nb\rc\r\nd\u0085e\u2028f\u2029g\x00h"\\i'


def scenario(run: Scenario) -> Scenario:
    """Note a scenario by its name."""
    SCENARIOS[run.__name__] = run
    return run


# --- what a page sends


def user(text: str, name: str = "u1") -> dict[str, Any]:
    """A message of the user."""
    return {"id": name, "role": "user", "parts": [{"type": "text", "text": text}]}


def assistant(stream: str, *tools: dict[str, Any]) -> dict[str, Any]:
    """The message of a response as a page has it, with calls as they stand for the page."""
    return {
        "id": parts_of(stream)[0]["messageId"],
        "role": "assistant",
        "parts": [{"type": "step-start"}, *tools],
    }


def call_of(stream: str, state: str, place: int = 0, **facts: Any) -> dict[str, Any]:
    """A call that a response has shown, as it stands for the page."""
    shown = [part for part in parts_of(stream) if part["type"] == "tool-input-start"][place]
    named = {"type": "dynamic-tool", "toolCallId": shown["toolCallId"], "toolName": shown["toolName"]}
    return {**named, "state": state, "input": {}, **facts}


def decided(stream: str, *, approved: bool, place: int = 0, **facts: Any) -> dict[str, Any]:
    """An approval that a person has decided on the page."""
    asked = [part for part in parts_of(stream) if part["type"] == "tool-approval-request"][place]
    approval = {"id": asked["approvalId"], "approved": approved, **facts}
    shown = {"type": "dynamic-tool", "toolCallId": asked["toolCallId"], "toolName": "shell", "input": {}}
    return {**shown, "state": "approval-responded", "approval": approval}


def parts_of(stream: str) -> list[dict[str, Any]]:
    """Read a stream as a careful reader does: its frames hold one part each, and the last one is no part."""
    spoken = "".join([line for line in stream.splitlines(keepends=True) if not line.startswith(":")])
    frames = [frame for frame in spoken.split("\n\n") if frame]
    assert stream.endswith("\n\n")
    assert frames.pop() == "data: [DONE]"
    assert all(frame.startswith("data: ") and "\n" not in frame and "\r" not in frame for frame in frames)
    return [json.loads(frame[6:]) for frame in frames]


async def post(web: Web, *messages: Any, chat: str = "c1", **said: Any) -> str:
    """Send a chat, and read the response to its end."""
    body = {"id": chat, "messages": messages, "trigger": "submit-message", **said}
    return await read(web, "POST", "/ai-ui/desk", json=body)


async def read(web: Web, method: str, path: str, **given: Any) -> str:
    """Read a response to its end."""
    async with opened(web, method, path, **given) as pieces:
        return "".join([piece async for piece in pieces])


@asynccontextmanager
async def opened(web: Web, method: str, path: str, **given: Any) -> AsyncIterator[AsyncIterator[str]]:
    """Open a response; leaving the block closes its connection."""
    async with web.client.stream(method, path, **given) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert response.headers["content-type"] == "text/event-stream"
        yield response.aiter_text()


def saying_hi(web: Web) -> AbstractAsyncContextManager[AsyncIterator[str]]:
    """Open the response to a first message."""
    return opened(web, "POST", "/ai-ui/desk", json={"id": "c1", "messages": [user("Hi")]})


async def until_said(pieces: AsyncIterator[str], words: str = "text-delta") -> str:
    """Read a response until something stands in it."""
    said = ""
    async for piece in pieces:
        said += piece
        if words in said:
            return said
    raise AssertionError(said)


@asynccontextmanager
async def asking(*turns: Turn, **options: Any) -> AsyncIterator[tuple[Web, RecordingTool]]:
    """A server whose profile asks people before a shell runs."""
    shell = RecordingTool(name="shell")
    profiles = [profile(ScriptedModel(turns), tools=[shell], plugins=[HumanApproval])]
    async with serving(None, profiles=profiles, **options) as web:
        yield web, shell


# --- plain lives


@scenario
async def plain() -> Streams:
    """Two turns of a chat, the second of which sends the first along."""
    async with serving(ScriptedModel([says("Hel", "lo."), says("Again.")])) as web:
        first = await post(web, user("Hi"))
        return [first, await post(web, user("Hi"), assistant(first), user("And?", "u2"))]


@scenario
async def tools() -> Streams:
    """Two calls at once, one of which fails; then thinking, and an answer."""
    turns = [
        calls(("shell", {"command": "ls"}), ("nope", {}), text="Let me see."),
        Turn(thinking="Hm. ", text=("It is ", "empty.")),
    ]
    tools_ = [RecordingTool(name="shell")]
    async with serving(ScriptedModel(turns), session_tools=tools_) as web:
        return [await post(web, user("Hi"))]


@scenario
async def odd_characters() -> Streams:
    """Whatever a careless reader takes for the end of a line (H-073)."""
    turns = [calls(("shell", {"command": ODD})), says(ODD, ODD)]
    async with serving(ScriptedModel(turns), session_tools=[RecordingTool(name="shell")]) as web:
        return [await post(web, user("Hi"))]


@scenario
async def todos_and_progress() -> Streams:
    """A list of things to do, and a tool that says how far it is."""

    @tool
    async def dig(ctx: ToolContext) -> str:
        """Dig."""
        ctx.report_progress("half")
        await trio.lowlevel.checkpoint()
        return "deep"

    todo: dict[str, Any] = {"todos": [{"id": "1", "content": "Dig", "status": "in_progress"}]}
    turns = [calls(("write_todos", todo)), calls(("dig", {})), says("Done.")]
    tools_ = [dig, *builtin("write_todos")]
    async with serving(ScriptedModel(turns), session_tools=tools_) as web:
        return [await post(web, user("Hi"))]


# --- H-061 to H-073


@scenario
async def crashed() -> Streams:
    """H-061: the session crashes in the middle, and takes the next message behind its restart."""
    async with serving(ScriptedModel([ENDLESS, says("Again.")])) as web:
        async with saying_hi(web) as pieces:
            said = await until_said(pieces)
            crash(web.host.supervisor.session("c1", scope="local"))
            said += "".join([piece async for piece in pieces])
        return [said, await post(web, user("Hi"), user("Again?", "u2"))]


@scenario
async def given_up() -> Streams:
    """H-061: it is not brought back."""
    async with (
        serving(ScriptedModel([ENDLESS]), session_restart="temporary") as web,
        saying_hi(web) as pieces,
    ):
        said = await until_said(pieces)
        crash(web.host.supervisor.session("c1", scope="local"))
        return [said + "".join([piece async for piece in pieces])]


@scenario
async def left_and_read_again() -> Streams:
    """H-062: the page is reloaded in the middle; the response is read again from its beginning, to its end."""
    talking = says(*["word "] * 20, pause_seconds=0.01)
    async with serving(ScriptedModel([talking])) as web:
        with trio.CancelScope() as scope:
            async with saying_hi(web) as pieces:
                async for piece in pieces:
                    if "text-delta" in piece:
                        scope.cancel()
        return [await read(web, "GET", "/ai-ui/desk/c1/stream")]


@scenario
async def cancelled() -> Streams:
    """H-062: a stop is a call of its own."""
    async with serving(ScriptedModel([ENDLESS])) as web, saying_hi(web) as pieces:
        said = await until_said(pieces)
        response = await web.post("/ai-ui/desk/c1/cancel", {"reason": "enough"})
        assert response.status_code == 202, response.text
        return [said + "".join([piece async for piece in pieces])]


@scenario
async def sent_again() -> Streams:
    """H-063: the same message is the same response."""
    async with serving(answering("Once.")) as web:
        return [await post(web, user("Hi")), await post(web, user("Hi"))]


@scenario
async def approved() -> Streams:
    """H-064: a call that waits for a person, and what follows when it is let run."""
    async with asking(calls(("shell", {"command": "ls"})), says("Done.")) as (web, shell):
        asked = await post(web, user("Hi"))
        done = await post(web, user("Hi"), assistant(asked, decided(asked, approved=True)))
        assert shell.calls == [{"command": "ls"}]
        return [asked, done]


@scenario
async def refused_by_a_person() -> Streams:
    """H-064: a call that may not run; the model reads why."""
    async with asking(calls(("shell", {"command": "rm"})), says("Then not.")) as (web, shell):
        asked = await post(web, user("Hi"))
        said = assistant(asked, decided(asked, approved=False, reason="too dangerous"))
        done = await post(web, user("Hi"), said)
        assert not shell.calls
        return [asked, done]


@scenario
async def one_of_two_decided() -> Streams:
    """H-064: two calls wait; the one that is let run runs, and the response ends as it did before: with what still waits."""
    both = calls(("shell", {"command": "a"}), ("shell", {"command": "b"}))
    async with asking(both, says("Done.")) as (web, shell):
        asked = await post(web, user("Hi"))
        one = await post(web, user("Hi"), assistant(asked, decided(asked, approved=True)))
        both_said = assistant(
            asked, call_of(asked, "output-available"), decided(asked, approved=False, place=1)
        )
        two = await post(web, user("Hi"), both_said)
        assert shell.calls == [{"command": "a"}]
        return [asked, one, two]


@scenario
async def one_of_two_refused() -> Streams:
    """H-064: two calls wait; one is refused, so that nothing runs, and the response ends with what still waits."""
    both = calls(("shell", {"command": "a"}), ("shell", {"command": "b"}))
    async with asking(both, says("Done.")) as (web, shell):
        asked = await post(web, user("Hi"))
        one = await post(web, user("Hi"), assistant(asked, decided(asked, approved=False)))
        rest = assistant(asked, call_of(asked, "output-denied"), decided(asked, approved=True, place=1))
        two = await post(web, user("Hi"), rest)
        assert shell.calls == [{"command": "b"}]
        return [asked, one, two]


@scenario
async def answered_in_words() -> Streams:
    """H-064: a user who decides in words; the response is a message of its own, behind the words."""
    profiles = [
        profile(
            ScriptedModel([calls(("shell", {"command": "ls"})), says("Done.")]),
            tools=[RecordingTool(name="shell")],
            plugins=[(HumanApproval, {"confirm_prefix": "confirm"})],
        )
    ]
    async with serving(None, profiles=profiles) as web:
        asked = await post(web, user("Hi"))
        (waits,) = [part["approvalId"] for part in parts_of(asked) if part["type"] == "tool-approval-request"]
        return [asked, await post(web, user("Hi"), assistant(asked), user(f"confirm {waits}", "u2"))]


@scenario
async def provider_failed() -> Streams:
    """H-065: the model cannot be asked."""
    async with serving(ScriptedModel([fails(BadRequest("no such thing"))])) as web:
        return [await post(web, user("Hi"))]


@scenario
async def tried_again() -> Streams:
    """An attempt that breaks off is taken back, and the next one is said anew."""
    busy = Overloaded("busy", retry_after_seconds=0.01)
    turns = [Turn(text=("Half an",), error=busy, pause_seconds=0.05), says("All of it.")]
    async with serving(ScriptedModel(turns)) as web:
        return [await post(web, user("Hi"))]


@scenario
async def dropped() -> Streams:
    """H-068: a message that waits is thrown away."""
    async with serving(ScriptedModel([ENDLESS])) as web, trio.open_nursery() as nursery:
        streams: Streams = []

        async def wait() -> None:
            streams.append(await post(web, user("Hi"), user("And?", "u2")))

        async with saying_hi(web) as pieces:
            await until_said(pieces)
            nursery.start_soon(wait)
            session = web.host.supervisor.session("c1", scope="local")
            while not (await session.status()).queued:  # noqa: ASYNC110 - it has no event that a page could wait for
                await trio.sleep(0.01)
            await web.post("/sessions/c1/abort", {"clear_queue": True})
            async for _ in pieces:
                pass
    return streams


@scenario
async def ended_with_its_session() -> Streams:
    """H-068: the chat is deleted in the middle of a response."""
    async with serving(ScriptedModel([ENDLESS])) as web, saying_hi(web) as pieces:
        said = await until_said(pieces)
        assert (await web.client.delete("/sessions/c1")).status_code == 204
        return [said + "".join([piece async for piece in pieces])]


@scenario
async def shut_down() -> Streams:
    """H-068: the server goes down in the middle of a response."""
    async with serving(ScriptedModel([ENDLESS]), drain_timeout=0.05) as web, saying_hi(web) as pieces:
        said = await until_said(pieces)
        web.stop.set()
        return [said + "".join([piece async for piece in pieces])]


# --- what the client gives


@scenario
async def clients_tool() -> Streams:
    """A tool that the page runs: its result is what the page says, and stays that."""

    @tool(answered_by="client")
    async def show_map(place: str) -> str:
        """Show a place on the map."""
        raise AssertionError(place)

    turns = [calls(("show_map", {"place": "Lisbon"})), says("Look.")]
    async with serving(ScriptedModel(turns), session_tools=[show_map]) as web:
        asked = await post(web, user("Where?"))
        shown = {"zoom": 3, "at": [38.7, -9.1]}
        done = await post(
            web, user("Where?"), assistant(asked, call_of(asked, "output-available", output=shown))
        )
        assert parts_of(done)[1]["output"] == shown
        return [asked, done]


@scenario
async def clients_tool_failed() -> Streams:
    """A tool that the page could not run."""

    @tool(answered_by="client")
    async def show_map(place: str) -> str:
        """Show a place on the map."""
        raise AssertionError(place)

    turns = [calls(("show_map", {"place": "Lisbon"})), says("A pity.")]
    async with serving(ScriptedModel(turns), session_tools=[show_map]) as web:
        asked = await post(web, user("Where?"))
        failed = call_of(asked, "output-error", errorText="no map")
        return [asked, await post(web, user("Where?"), assistant(asked, failed))]


@scenario
async def question() -> Streams:
    """A question of the model, which the page answers as the result of its call."""
    asks = calls(("ask_user", {"question": "Which?", "options": ["a", "b"]}))
    async with serving(ScriptedModel([asks, says("b it is.")]), session_tools=builtin("ask_user")) as web:
        asked = await post(web, user("Hi"))
        answer = call_of(asked, "output-available", output="b")
        return [asked, await post(web, user("Hi"), assistant(asked, answer))]


@scenario
async def approval_of_a_child() -> Streams:
    """A session that works for a call has a call that waits for a person: the page of its root is asked."""

    def answer(request: Any) -> Turn:
        if len(request.messages) > 1:
            return says("done")
        if "Count" in str(request.messages):
            return calls(("shell", {"command": "ls"}))
        return calls(("task", {"description": "Count the files."}))

    shell = RecordingTool(name="shell")
    profiles = [profile(FunctionModel(answer), tools=[TaskTool(), shell], plugins=[HumanApproval])]
    async with serving(None, profiles=profiles) as web:
        asked = await post(web, user("Hi"))
        done = await post(web, user("Hi"), assistant(asked, decided(asked, approved=True)))
        assert len(shell.calls) == 1
        return [asked, done]


# --- golden files


def settled(name: str, streams: Streams) -> str:
    """All streams of a scenario as one text, without what is luck."""
    told = "\n".join(streams)
    if name in TIMED:
        told = re.sub(r'(data: \{"type":"text-delta"[^\n]*\n\n)+', "data: (what was said)\n\n", told)
    return re.sub(r'"usage":\{[^}]*\}', '"usage":{…}', told) if name in TIMED else told


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for each, run in SCENARIOS.items():
        (GOLDEN / f"{each}.txt").write_text(settled(each, trio.run(run)), "utf-8", newline="\n")
