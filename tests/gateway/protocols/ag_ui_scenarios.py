"""Runs over AG-UI, as a server streams them on a real socket: one scenario for each way that a run takes.

A scenario returns its runs, each as the text of its stream. The tests hold them against golden files, a strict client with
the official types, and the verifier of `@ag-ui/client`.

The golden files are written by `python -m tests.gateway.protocols.ag_ui_scenarios`.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio
from attrs import define, field

from agentrail.errors import Overloaded, ProviderError
from agentrail.plugins import HumanApproval
from agentrail.testing.cancelling import crash
from agentrail.testing.models import ScriptedModel, Turn, calls, fails, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from tests.gateway.web import Web, serving
from tests.host.hosting import answering, profile
from tests.protocols.ag_ui_client import AgUiClient

Streams: TypeAlias = list[str]
Scenario: TypeAlias = Callable[[], Awaitable[Streams]]

SCENARIOS: Final[dict[str, Scenario]] = {}

GOLDEN: Final = Path(__file__).with_name("golden") / "ag_ui"

TIMED: Final = frozenset({"aborted", "crashed", "shut_down", "ended_with_its_session", "dropped"})
"""Those in which it is luck how much is said: the text is left out of their files."""

ENDLESS: Final = says("So", *[" on"] * 400, pause_seconds=0.02)
ASK: Final = calls(("shell", {"command": "ls"}))
MAP: Final = {
    "name": "show_map",
    "description": "Show a place on the map.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}


def scenario(run: Scenario) -> Scenario:
    """Note a scenario by its name."""
    SCENARIOS[run.__name__] = run
    return run


def frames_of(stream: str) -> list[dict[str, Any]]:
    """Read a stream: each frame is one JSON object, and comments are skipped."""
    spoken = "".join([line for line in stream.splitlines(keepends=True) if not line.startswith(":")])
    assert spoken.endswith("\n\n"), spoken[-200:]
    frames = [frame for frame in spoken.split("\n\n") if frame]
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [json.loads(frame[6:]) for frame in frames]


@define(eq=False)
class Page:
    """A front end with one thread, which sends what it has and reads runs to their ends."""

    web: Web
    thread: str = "t1"
    path: str = "/ag-ui/desk"
    client: AgUiClient = field(factory=AgUiClient)
    streams: Streams = field(factory=list)
    runs: int = 0

    def body(self, **more: Any) -> dict[str, Any]:
        """Return the next request."""
        self.runs += 1
        told = {"threadId": self.thread, "runId": f"run-{self.runs}", "messages": self.client.messages}
        usual = {"state": self.client.state, "tools": [], "context": [], "forwardedProps": {}}
        return {**told, **usual, **more}

    def say(self, text: str) -> None:
        """Add a message of the user."""
        self.client.say(text, f"u{len(self.client.told) + 1}")

    async def run(self, text: str | None = None, **more: Any) -> dict[str, Any]:
        """Run to the end, and return the terminal frame."""
        if text is not None:
            self.say(text)
        async with self.opened(**more) as pieces:
            return self.take("".join([piece async for piece in pieces]))

    def take(self, stream: str) -> dict[str, Any]:
        """Read a stream to its end."""
        self.streams.append(stream)
        return self.client.read(frames_of(stream))

    @asynccontextmanager
    async def opened(self, **more: Any) -> AsyncIterator[AsyncIterator[str]]:
        """Open a run; leaving the block closes its connection."""
        async with self.web.client.stream("POST", self.path, json=self.body(**more)) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"] == "text/event-stream"
            yield response.aiter_text()

    async def leave(self, **more: Any) -> None:
        """Close the connection of a run in mid-text."""
        with trio.CancelScope() as scope:
            async with self.opened(**more) as pieces:
                async for piece in pieces:
                    if "TEXT_MESSAGE_CONTENT" in piece:
                        scope.cancel()

    def resolve(self, *payloads: Any) -> list[dict[str, Any]]:
        """Answer the interrupts of the last run, in order. None cancels one, and an ellipsis leaves it open."""
        answered = []
        for asked, payload in zip(self.client.interrupts, payloads, strict=True):
            status = (
                {"status": "cancelled"} if payload is None else {"status": "resolved", "payload": payload}
            )
            if payload is not ...:
                answered.append({"interruptId": asked["id"], **status})
        return answered


YES: Final = {"approved": True}
NO: Final = {"approved": False, "reason": "too dangerous"}


async def until_said(pieces: AsyncIterator[str], words: str = "TEXT_MESSAGE_CONTENT") -> str:
    """Read a run until something stands in it."""
    said = ""
    async for piece in pieces:
        said += piece
        if words in said:
            return said
    raise AssertionError(said)


@asynccontextmanager
async def paging(*turns: Turn, **options: Any) -> AsyncIterator[Page]:
    """A server and a page on it."""
    async with serving(ScriptedModel(turns), **options) as web:
        yield Page(web)


@asynccontextmanager
async def asking(*turns: Turn, also: Any = (), **options: Any) -> AsyncIterator[tuple[Page, RecordingTool]]:
    """A page on a server whose profile asks people before a shell runs."""
    shell = RecordingTool(name="shell")
    asks = (HumanApproval, {"require_approval_for": ["shell"]})
    profiles = [profile(ScriptedModel(turns), tools=[shell, *also], plugins=[asks])]
    async with serving(None, profiles=profiles, **options) as web:
        yield Page(web), shell


# --- P-023


@scenario
async def plain() -> Streams:
    """Two turns of a thread, the second of which sends the first along."""
    async with paging(says("Hel", "lo."), says("Again.")) as page:
        await page.run("Hi")
        await page.run("And?")
        assert page.client.told == [
            ("user", "Hi"),
            ("assistant", "Hello."),
            ("user", "And?"),
            ("assistant", "Again."),
        ]
        return page.streams


@scenario
async def tools() -> Streams:
    """Two calls at once, one of which fails; then thinking, and an answer."""
    two = calls(("shell", {"command": "ls"}), ("nope", {}), text="Let me see.")
    turns = [two, Turn(thinking="Hm. ", text=("It is ", "empty."))]
    async with paging(*turns, session_tools=[RecordingTool(name="shell")]) as page:
        last = await page.run("Hi")
        assert last["outcome"] == {"type": "success"}
        assert {one["role"] for one in page.client.messages} == {"user", "assistant", "tool", "reasoning"}
        return page.streams


@scenario
async def sub_agent() -> Streams:
    """A child session works for a call: its call and its text are attributed to it."""
    turns = [
        calls(("task", {"description": "Count the files.", "subagent_type": "general-purpose"})),
        calls(("shell", {"command": "ls"}), text="I look."),
        says("Three."),
        says("There are three."),
    ]
    async with paging(*turns, session_tools=[RecordingTool(name="shell"), *builtin("task")]) as page:
        await page.run("Hi")
        child = [one for one in page.client.messages if "subagentRunId" in one]
        assert page.client.told[-1] == ("assistant", "There are three.")
        assert child == [] or child
        return page.streams


@scenario
async def tried_again() -> Streams:
    """P-058: an attempt breaks off after some text, and the next one is another message: the first is taken back."""
    half = Turn(text=("Half", " an"), error=Overloaded("busy"), pause_seconds=0.05)
    async with paging(half, says("All of it.")) as page:
        await page.run("Hi")
        assert page.client.told == [("user", "Hi"), ("assistant", "All of it.")]
        assert [one["name"] for one in page.client.custom] == ["agentrail.discarded"]
        return page.streams


@scenario
async def failed() -> Streams:
    """The model fails for good."""
    async with paging(fails(ProviderError("no"))) as page:
        last = await page.run("Hi")
        assert (last["type"], last["code"]) == ("RUN_ERROR", "provider_error")
        return page.streams


@scenario
async def aborted() -> Streams:
    """The cycle is stopped from elsewhere."""
    async with paging(ENDLESS) as page:
        page.say("Hi")
        async with page.opened() as pieces:
            said = await until_said(pieces)
            response = await page.web.post("/sessions/t1/abort", {"reason": "enough"})
            assert response.status_code == 202, response.text
            last = page.take(said + "".join([piece async for piece in pieces]))
        assert last["outcome"] == {"type": "cancelled"}
        return page.streams


@scenario
async def crashed() -> Streams:
    """The session crashes in mid-text, and takes the next message after its restart."""
    async with paging(ENDLESS, says("Again.")) as page:
        page.say("Hi")
        async with page.opened() as pieces:
            said = await until_said(pieces)
            crash(page.web.host.supervisor.session("t1", scope="local"))
            page.take(said + "".join([piece async for piece in pieces]))
        await page.run("Again?")
        return page.streams


@scenario
async def shut_down() -> Streams:
    """The server goes down in mid-text."""
    async with paging(ENDLESS, drain_timeout=0.05) as page:
        page.say("Hi")
        async with page.opened() as pieces:
            said = await until_said(pieces)
            page.web.stop.set()
            last = page.take(said + "".join([piece async for piece in pieces]))
        assert last["type"] == "RUN_ERROR" or last["outcome"] == {"type": "cancelled"}
        return page.streams


@scenario
async def ended_with_its_session() -> Streams:
    """The session is deleted in mid-text."""
    async with paging(ENDLESS) as page:
        page.say("Hi")
        async with page.opened() as pieces:
            said = await until_said(pieces)
            assert (await page.web.client.delete("/sessions/t1")).status_code == 204
            page.take(said + "".join([piece async for piece in pieces]))
        return page.streams


@scenario
async def dropped() -> Streams:
    """A message that waits is taken out of the queue: its run starts and is cancelled."""
    async with paging(ENDLESS) as page, trio.open_nursery() as nursery:
        other = Page(page.web)
        page.say("Hi")
        other.say("Hi")
        other.say("And?")
        other.runs = 1

        async with page.opened() as pieces:
            await until_said(pieces)
            nursery.start_soon(other.run)
            session = page.web.host.supervisor.session("t1", scope="local")
            while not (await session.status()).queued:  # noqa: ASYNC110 - it has no event that a page could wait for
                await trio.sleep(0.01)
            await page.web.post("/sessions/t1/abort", {"clear_queue": True})
            async for _ in pieces:
                pass
    return other.streams


# --- decisions


@scenario
async def approved() -> Streams:
    """P-024: a call that waits for a person, and what follows when it may run."""
    async with asking(ASK, says("Done.")) as (page, shell):
        last = await page.run("Hi")
        assert last["outcome"]["type"] == "interrupt"
        last = await page.run(resume=page.resolve(YES))
        assert (last["outcome"], shell.calls) == ({"type": "success"}, [{"command": "ls"}])
        return page.streams


@scenario
async def rejected() -> Streams:
    """A call that may not run: the model reads why."""
    async with asking(ASK, says("Then not.")) as (page, shell):
        await page.run("Hi")
        await page.run(resume=page.resolve(NO))
        assert (shell.calls, page.client.told[-1][1]) == ([], "Then not.")
        return page.streams


@scenario
async def edited() -> Streams:
    """A call runs with other arguments. Its shown ones stay, because a call is opened once."""
    async with asking(ASK, says("Done.")) as (page, shell):
        await page.run("Hi")
        await page.run(resume=page.resolve({**YES, "editedArgs": {"command": "pwd"}}))
        assert shell.calls == [{"command": "pwd"}]
        return page.streams


@scenario
async def one_of_two_decided() -> Streams:
    """P-026: two calls wait, one is decided, and the run ends as an interrupt again; then the other."""
    both = calls(("shell", {"command": "a"}), ("shell", {"command": "b"}))
    async with asking(both, says("Done.")) as (page, shell):
        await page.run("Hi")
        last = await page.run(resume=page.resolve(YES, ...))
        assert [one["id"] for one in last["outcome"]["interrupts"]] == ["t1/a3"]
        await page.run(resume=page.resolve(None))
        assert shell.calls == [{"command": "a"}]
        assert [len(page.client.results(one["id"])) for one in page.client.messages[1]["toolCalls"]] == [1, 1]
        return page.streams


@scenario
async def approval_of_a_child() -> Streams:
    """A child's call waits: the child is suspended with its interrupt, and starts again in the run that resumes it."""
    task = calls(("task", {"description": "Count the files.", "subagent_type": "general-purpose"}))
    turns = [task, ASK, says("Three."), says("There are three.")]
    async with asking(*turns, also=builtin("task")) as (page, shell):
        last = await page.run("Hi")
        (asked,) = last["outcome"]["interrupts"]
        assert asked["subagentRunId"] == asked["id"].rpartition("/")[0]
        assert page.client.call(asked["toolCallId"])["function"]["name"] == "shell"
        await page.run(resume=page.resolve(YES))
        assert (shell.calls, page.client.told[-1][1]) == ([{"command": "ls"}], "There are three.")
        return page.streams


@scenario
async def superseded() -> Streams:
    """Words in place of an answer: the call that waited does not run."""
    async with asking(ASK, says("Fine.")) as (page, shell):
        await page.run("Hi")
        await page.run("Leave it.")
        assert (shell.calls, page.client.told[-1][1]) == ([], "Fine.")
        return page.streams


@scenario
async def answered_in_words() -> Streams:
    """A decision in the chat: it is no message of the history, and the call that the page has is opened no second time."""
    asks = (HumanApproval, {"confirm_prefix": "confirm"})
    shell = RecordingTool(name="shell")
    both = calls(("shell", {"command": "a"}), ("shell", {"command": "b"}))
    profiles = [profile(ScriptedModel([both, says("Done.")]), tools=[shell], plugins=[asks])]
    async with serving(None, profiles=profiles) as web:
        page = Page(web)
        await page.run("Hi")
        first, second = page.client.interrupts
        last = await page.run(f"confirm {first['id']}")
        assert [one["id"] for one in last["outcome"]["interrupts"]] == [second["id"]]
        await page.run(f"confirm {second['id']}")
        assert [len(page.client.results(one["id"])) for one in page.client.messages[1]["toolCalls"]] == [1, 1]
        return page.streams


@scenario
async def question() -> Streams:
    """A question of the model, answered by one of its options."""
    asks = calls(("ask_user", {"question": "Which?", "options": ["a", "b"]}))
    async with paging(asks, says("b it is."), session_tools=builtin("ask_user")) as page:
        await page.run("Hi")
        await page.run(resume=page.resolve("b"))
        return page.streams


@scenario
async def clients_tool() -> Streams:
    """P-028: a tool of the front end: the run succeeds and names the call, and the result continues the cycle."""
    async with paging(calls(("show_map", {"place": "Lisbon"})), says("Look.")) as page:
        last = await page.run("Where?", tools=[MAP])
        (call_id,) = last["outcome"]["pendingToolCallIds"]
        page.client.answer(call_id, '{"zoom": 3}')
        await page.run(tools=[MAP])
        assert page.client.results(call_id) == ['{"zoom": 3}']
        assert page.client.told[-1][1] == "Look."
        return page.streams


@scenario
async def sent_again() -> Streams:
    """The same run, sent again: the client's messages are replaced, and everything comes once."""
    async with serving(answering("Once.")) as web:
        page = Page(web)
        await page.run("Hi")
        page.runs = 0
        await page.run()
        assert page.client.told == [("user", "Hi"), ("assistant", "Once.")]
        return page.streams


def settled(name: str, streams: Streams) -> str:
    """All streams of a scenario as one text, without what is luck."""
    told = "\n".join("\n".join(stream.split("\n\n")) for stream in streams)
    told = re.sub(r"^:\n", "", told, flags=re.MULTILINE)
    if name in TIMED:
        told = re.sub(r'(data: \{"type":"TEXT_MESSAGE_CONTENT"[^\n]*\n)+', "data: (what was said)\n", told)
        told = re.sub(r'"usage":\[[^]]*\]', '"usage":[…]', told)
    return told


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for each, run in SCENARIOS.items():
        (GOLDEN / f"{each}.txt").write_text(settled(each, trio.run(run)), "utf-8", newline="\n")
