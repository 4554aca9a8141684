"""The handle: what each method of `Session` does, and what it refuses. The errors are those of docs/reference/session.md."""

from contextlib import suppress
from pathlib import Path

import pytest
import trio

from agentrail.abc import Ok
from agentrail.errors import (
    AgentrailError,
    CallingSelf,
    OptionError,
    PromptError,
    PromptQueueFull,
    ReplyTimeout,
    SessionDown,
)
from agentrail.events import (
    AgentEnd,
    AgentStart,
    PromptQueued,
    SessionEnd,
)
from agentrail.messages import FileRef, Image, Text
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import HangingTool, RecordingTool, StubbornTool
from tests.runtime.rig import (
    calling,
    on_virtual_time,
    open_bare,
    rest,
    saying,
    until,
    wants,
)

# --- prompt and ask


async def test_a_prompt_in_a_cycle_waits_its_turn(supervisor):
    """It gets its position in the queue, and its cycle starts by itself when the one before is over."""
    hang = HangingTool()
    session = await supervisor.start_session(
        model=ScriptedModel([wants("hang"), says("two"), says("three")]), tools=[hang]
    )
    async with session.subscribe() as events:
        await session.prompt("one")
        await hang.started.wait()
        receipts = [await session.prompt("two"), await session.prompt("three")]
        assert [(receipt.queued, receipt.position) for receipt in receipts] == [(True, 0), (True, 1)]
        assert (await session.status()).queued == tuple(receipt.ref for receipt in receipts)
        await session.abort()
        seen = [*await until(events, AgentEnd), *await until(events, AgentEnd)]
    queued = [(event.ref, event.position) for event in seen if isinstance(event, PromptQueued)]
    assert queued == [(receipts[0].ref, 0), (receipts[1].ref, 1)]
    assert [event.ref for event in seen if isinstance(event, AgentStart)][1:] == [
        receipt.ref for receipt in receipts
    ]


async def test_content_may_be_blocks(supervisor):
    """Text, pictures and files go into the history as they were given."""
    session = await supervisor.start_session(model=saying("Nice."))
    blocks = [Text(text="Look:"), Image(media_type="image/png", data="aGk="), FileRef(path="a.py")]
    await session.ask(blocks)
    assert (await session.messages())[0].content == tuple(blocks)


@pytest.mark.parametrize("nothing", ["", " \n", [], [Text(text="")]], ids=repr)
async def test_an_empty_prompt_is_refused(supervisor, nothing):
    """`PromptError` names what is taken, and nothing is published."""
    session = await supervisor.start_session(model=saying())
    with pytest.raises(PromptError, match="empty: say something, 1 byte to 1 MB"):
        await session.prompt(nothing)
    assert (await session.status()).last_seq == 1


async def test_a_block_of_unknown_type_is_refused(supervisor):
    """The message shows the block and names the known ones."""
    session = await supervisor.start_session(model=saying())
    with pytest.raises(PromptError, match=r"a prompt has 42: expected text, or Text, Image and FileRef"):
        await session.prompt([Text(text="a"), 42])


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Text, {"text": 5}),
        (Text, {"text": None}),
        (Image, {"media_type": None, "data": "eA=="}),
        (Image, {"media_type": "image/png", "data": b"x"}),
        (Image, {"media_type": "image/png", "data": "eA==", "name": 1}),
        (FileRef, {"path": Path("a")}),
    ],
    ids=repr,
)
async def test_a_block_of_something_else_than_text_is_refused(supervisor, kind, fields):
    """Which block is shown; nothing is published, and a good one beside it is not taken either."""
    session = await supervisor.start_session(model=saying())
    with pytest.raises(PromptError, match=f"a prompt has {kind.__name__}.*: expected text in each field"):
        await session.prompt([Text(text="a"), kind(**fields)])
    assert (await session.status()).last_seq == 1


async def test_a_full_queue_refuses(supervisor):
    """`PromptQueueFull` goes to the sender alone; the ones who wait stay."""
    hang = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[hang], max_prompt_queue=1)
    await session.prompt("one")
    await hang.started.wait()
    kept = await session.prompt("two")
    with pytest.raises(PromptQueueFull, match="1 prompts wait already, at most 1 may"):
        await session.ask("three")
    assert (await session.status()).queued == (kept.ref,)


# --- collect_reply


@on_virtual_time
async def test_collect_reply_waits_for_the_running_cycle(supervisor):
    """Asked in the middle, it answers at the end; its own timeout leaves the cycle alone."""
    session = await supervisor.start_session(model=ScriptedModel([says("a", "b", pause_seconds=1)]))
    await session.prompt("Hi")
    with pytest.raises(ReplyTimeout):
        await session.collect_reply(timeout_seconds=0.5)
    assert await session.collect_reply() == "ab"
    assert await session.collect_reply() == "ab"


# --- abort


async def test_two_aborts_at_once_get_the_same_receipt(supervisor):
    """The second finds nothing more to stop, and waits for the teardown of the first."""
    hang = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[hang])
    await session.prompt("one")
    await hang.started.wait()
    receipts = []

    async def abort() -> None:
        receipts.append(await session.abort())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(abort)
        nursery.start_soon(abort)
    assert receipts[0] == receipts[1]
    assert receipts[0].tasks_ended == 1


# --- status, messages


# --- stop, and after it


@on_virtual_time
async def test_stop_that_times_out_goes_on(supervisor):
    """`ReplyTimeout`; the session ends all the same."""
    hang = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[hang])
    await session.prompt("one")
    await hang.started.wait()
    async with session.subscribe() as events:
        with pytest.raises(ReplyTimeout):
            await session.stop(timeout_seconds=0)
        assert isinstance((await rest(events))[-1], SessionEnd)


@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.prompt("Hi"),
        lambda session: session.ask("Hi"),
        lambda session: session.collect_reply(),
        lambda session: session.abort(),
        lambda session: session.status(),
        lambda session: session.messages(),
        lambda session: session.stop(),
        lambda session: session.subscribe().__aenter__(),
    ],
    ids=["prompt", "ask", "collect_reply", "abort", "status", "messages", "stop", "subscribe"],
)
async def test_on_a_session_that_has_ended_every_call_raises(supervisor, call):
    """`SessionDown` with id and reason; nobody hangs."""
    session = await supervisor.start_session(model=saying(), session_id="s-1")
    await session.stop("enough")
    with trio.fail_after(60), pytest.raises(SessionDown, match="session 's-1' is down: enough"):
        await call(session)


@pytest.mark.at(37)
async def test_calls_on_their_way_when_the_session_ends_are_answered(supervisor):
    """Whoever waits at the end gets `SessionDown` or an answer, whatever the order was."""
    session = await supervisor.start_session(model=saying())
    outcomes = []

    async def ask_status() -> None:
        try:
            outcomes.append(await session.status())
        except SessionDown as error:
            outcomes.append(error)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ask_status)
            nursery.start_soon(session.stop)
            for _ in range(10):
                nursery.start_soon(ask_status)
    assert len(outcomes) == 20


CALLS = {
    "prompt": lambda session: session.prompt("Hi"),
    "ask": lambda session: session.ask("Hi"),
    "collect_reply": lambda session: session.collect_reply(),
    "steer": lambda session: session.steer("Hi"),
    "abort": lambda session: session.abort(),
    "abort_tool": lambda session: session.abort_tool("c1"),
    "approve": lambda session: session.approve("a1"),
    "reject": lambda session: session.reject("a1"),
    "respond": lambda session: session.respond("a1", "yes"),
    "switch_model": lambda session: session.switch_model(saying("x")),
    "attach_tools": lambda session: session.attach_tools(RecordingTool()),
    "detach_tools": lambda session: session.detach_tools("record"),
    "compact": lambda session: session.compact(),
    "report_tool_source": lambda session: session.report_tool_source("mcp:files", "ready"),
    "status": lambda session: session.status(),
    "messages": lambda session: session.messages(),
    "snapshot": lambda session: session.snapshot(),
    "stop": lambda session: session.stop(),
}


@pytest.mark.at(37)
@pytest.mark.parametrize("way", ["close", "cancel", "error"])
@on_virtual_time
async def test_every_call_is_answered_while_its_supervisor_closes(way):
    """A cycle runs whose tool takes two seconds to stop; each call, before and meanwhile, gets a reply or a typed error."""
    results: list[tuple[str, object]] = []
    sent = 0

    async def call(name, session) -> None:
        try:
            results.append((name, await CALLS[name](session)))
        except AgentrailError as error:
            results.append((name, error))

    async def keep_calling(nursery, session) -> None:
        nonlocal sent
        for _ in range(40):
            for name in CALLS:
                # Whoever ends or breaks off the cycle comes too late to be the reason of the end.
                if name not in {"stop", "abort"} or closing.is_set():
                    sent += 1
                    nursery.start_soon(call, name, session)
            await trio.sleep(0.1)

    closing = trio.Event()
    stubborn = StubbornTool(deaf_seconds=2.0)
    with trio.fail_after(60):
        async with trio.open_nursery() as callers:
            with suppress(KeyError), trio.CancelScope() as scope:
                async with open_bare() as supervisor:
                    session = await supervisor.start_session(model=calling("stubborn"), tools=[stubborn])
                    await session.prompt("Go")
                    await stubborn.started.wait()
                    callers.start_soon(keep_calling, callers, session)
                    await trio.sleep(0.25)
                    closing.set()
                    if way == "cancel":
                        scope.cancel()
                        await trio.sleep_forever()
                    if way == "error":
                        message = "body"
                        raise KeyError(message)
    assert len(results) == sent
    assert {name for name, result in results if isinstance(result, SessionDown)} == set(CALLS)


# --- a session's own tools


async def _call_from_a_tool(supervisor, call):
    """Let a tool of a session call its own session; return what it got or raised."""
    outcomes = []
    sessions = []

    class Caller(RecordingTool):
        async def execute(self, arguments, ctx):
            try:
                outcomes.append(await call(sessions[0]))
            except AgentrailError as error:
                outcomes.append(error)
            return Ok(text="called")

    sessions.append(
        await supervisor.start_session(model=calling("record"), tools=[Caller()], session_id="s-1")
    )
    with trio.fail_after(60):
        await sessions[0].ask("Hi")
    return outcomes[0]


async def test_a_tool_may_not_stop_its_own_session_by_its_supervisor(supervisor):
    """`stop_session` waits just as `stop` does, so it is refused too."""
    error = await _call_from_a_tool(supervisor, lambda _session: supervisor.stop_session("s-1"))
    assert isinstance(error, CallingSelf)


# --- callers who go away


async def test_a_subscription_without_room_is_refused(supervisor):
    """`OptionError` says what is expected."""
    session = await supervisor.start_session(model=saying())
    with pytest.raises(OptionError, match="buffer is 0: expected a whole number from 1"):
        session.subscribe(buffer=0)
