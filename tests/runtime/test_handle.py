"""The handle: what each method of `Session` does, and what it refuses. The errors are those of docs/reference/session.md."""

import math
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from agentrail.abc import Ok
from agentrail.errors import (
    AgentrailError,
    CallingSelf,
    CycleAborted,
    CycleFailed,
    OptionError,
    Overloaded,
    PromptError,
    PromptQueueFull,
    ReplyTimeout,
    SessionDown,
)
from agentrail.events import (
    AbortReceipt,
    AbortSettled,
    AgentAbort,
    AgentEnd,
    AgentStart,
    MessageDelta,
    MessageStart,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    SessionEnd,
    ToolExecutionStart,
)
from agentrail.messages import FileRef, Image, Text
from agentrail.plugins.human_approval import HumanApproval
from agentrail.testing.expectations import check_history
from agentrail.testing.models import FunctionModel, ScriptedModel, fails, says
from agentrail.testing.tools import HangingTool, RecordingTool, StubbornTool
from tests.runtime.rig import (
    calling,
    kinds,
    on_virtual_time,
    open_bare,
    rest,
    saying,
    until,
    until_status,
    wants,
)

# --- prompt and ask


async def test_a_prompt_in_idle_starts_at_once(supervisor):
    """The receipt says so, and carries the name under which the cycle starts."""
    session = await supervisor.start_session(model=saying("Hello."))
    async with session.subscribe() as events:
        receipt = await session.prompt("Hi")
        assert (receipt.queued, receipt.position) == (False, 0)
        seen = await until(events, AgentEnd)
    refs = [event.ref for event in seen if isinstance(event, PromptReceived | AgentStart)]
    assert refs == [receipt.ref, receipt.ref]


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


async def test_ask_returns_what_the_model_said_in_the_cycle(supervisor):
    """All texts of the cycle, joined, those before a tool call too."""
    script = ScriptedModel([says("Let me see. "), says("unused")])
    session = await supervisor.start_session(model=script)
    assert await session.ask("Hi") == "Let me see. "


async def test_ask_waits_for_its_own_cycle(supervisor):
    """Asked while another cycle runs, it is queued and gets the reply to its own prompt, not to that one."""
    hang = HangingTool()
    script = ScriptedModel([wants("hang"), says("to the second"), says("to the third")])
    session = await supervisor.start_session(model=script, tools=[hang])
    await session.prompt("first")
    await hang.started.wait()
    answers = {}

    async def ask(text: str) -> None:
        answers[text] = await session.ask(text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "second")
        await until_status(session, lambda status: len(status.queued) == 1)
        nursery.start_soon(ask, "third")
        await until_status(session, lambda status: len(status.queued) == 2)
        await session.abort()
    assert answers == {"second": "to the second", "third": "to the third"}


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


async def test_a_prompt_of_more_than_a_megabyte_is_refused(supervisor):
    """The message names the size and the limit; bytes count, not characters."""
    session = await supervisor.start_session(model=saying("ok"))
    with pytest.raises(PromptError, match="has 1000002 bytes, at most 1000000"):
        await session.prompt("ä" * 500_001)
    assert await session.ask("ä" * 500_000) == "ok"


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


@on_virtual_time
async def test_an_ask_that_times_out_leaves_the_session_alone(supervisor):
    """`ReplyTimeout`; the cycle goes on and `collect_reply` gets its text."""
    session = await supervisor.start_session(
        model=ScriptedModel([says("slow", " but sure", pause_seconds=10)])
    )
    with pytest.raises(ReplyTimeout, match="no answer within 5 s"):
        await session.ask("Hi", timeout_seconds=5)
    assert await session.collect_reply() == "slow but sure"


async def test_an_aborted_cycle_raises_where_its_reply_is_awaited(supervisor):
    """`ask` raises `CycleAborted` with the reason, and so does `collect_reply` later."""
    hang = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[hang])
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _abort() -> None:
            await hang.started.wait()
            await session.abort("enough")

        with pytest.raises(CycleAborted, match="enough"):
            await session.ask("Hi")
    with pytest.raises(CycleAborted, match="enough"):
        await session.collect_reply()


async def test_a_failed_cycle_raises_where_its_reply_is_awaited(supervisor):
    """`CycleFailed` has the provider's error as data; the next prompt is taken at once."""
    session = await supervisor.start_session(
        model=ScriptedModel([fails(Overloaded("try later")), says("back")]), max_retries=0
    )
    with pytest.raises(CycleFailed, match="try later") as caught:
        await session.ask("Hi")
    assert (caught.value.error.code, caught.value.error.retryable) == ("overloaded", True)
    assert await session.ask("Hi again") == "back"


# --- collect_reply


async def test_collect_reply_before_the_first_cycle_is_empty(supervisor):
    """There is nothing to wait for."""
    session = await supervisor.start_session(model=saying())
    assert await session.collect_reply() == ""


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


async def test_an_abort_in_idle_finds_nothing_and_says_so(supervisor):
    """`AgentAbort` and `AbortSettled` are published all the same, and the receipt is empty."""
    session = await supervisor.start_session(model=saying())
    async with session.subscribe() as events:
        receipt = await session.abort("just so")
        assert receipt == AbortReceipt()
        seen = await until(events, AbortSettled)
    assert kinds(seen)[-2:] == ["AgentAbort", "AbortSettled"]


@on_virtual_time
async def test_an_abort_while_streaming_keeps_what_was_said(supervisor):
    """The text so far stays in the history, marked as cut, and the session takes the next prompt."""
    script = ScriptedModel([says("one ", "two ", "three", pause_seconds=1), says("next")])
    session = await supervisor.start_session(model=script)
    async with session.subscribe() as events:
        await session.prompt("Hi")
        await until(events, MessageDelta)
        await until(events, MessageDelta)
    receipt = await session.abort()
    assert (receipt.tasks_ended, receipt.stuck) == (1, ())
    said = (await session.messages())[-1]
    assert (said.text, said.cut) == ("one two ", True)
    assert await session.ask("Go on") == "next"


@on_virtual_time
async def test_an_abort_does_not_wait_unless_asked(supervisor):
    """`wait=False` returns at once with an unsettled receipt; `AbortSettled` comes when it is true."""
    session = await supervisor.start_session(model=ScriptedModel([says("a", pause_seconds=1)]))
    async with session.subscribe() as events:
        await session.prompt("Hi")
        receipt = await session.abort(wait=False)
        assert receipt.settled is False
        settled = (await until(events, AbortSettled))[-1]
    assert settled.receipt.settled is True
    assert settled.receipt.tasks_ended == 1


async def test_an_abort_may_clear_the_queue(supervisor):
    """One `PromptDropped` for each that waited; who asked gets `CycleAborted`."""
    hang = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[hang])
    async with session.subscribe() as events:
        await session.prompt("one")
        await hang.started.wait()
        dropped = await session.prompt("two")
        await session.abort(clear_queue=True)
        seen = await until(events, AbortSettled)
    assert [event.ref for event in seen if isinstance(event, PromptDropped)] == [dropped.ref]
    assert (await session.status()).queued == ()


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


async def test_an_unknown_kill_policy_is_refused(supervisor):
    """`OptionError` names the three values, and nothing is stopped."""
    session = await supervisor.start_session(model=saying())
    with pytest.raises(OptionError, match="kill_tools is 'foo': expected 'killable', 'all' or 'none'"):
        await session.abort(kill_tools="foo")
    assert (await session.status()).last_seq == 1


# --- status, messages


async def test_status_tells_what_runs(supervisor):
    """Phase, turn, model, the calls that run, and what was used so far."""
    hang = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[hang], session_id="s-1")
    async with session.subscribe() as events:
        await session.prompt("Hi")
        started = (await until(events, ToolExecutionStart))[-1]
    status = await session.status()
    assert (status.session_id, status.phase, status.turn, status.model) == (
        "s-1",
        "executing_tools",
        1,
        "scripted:object",
    )
    assert [(tool.call_id, tool.name, tool.survivor) for tool in status.running_tools] == [
        (started.call_id, "hang", False)
    ]
    assert (status.usage.input, status.usage.output) == (10, 5)
    assert (status.restarts, status.quarantined_signals, status.tearing_down) == (0, 0, False)


async def test_messages_gives_the_conversation(supervisor):
    """Prompt, call, result, answer: in this order, and fit for a provider."""
    record = RecordingTool(answer="42")
    session = await supervisor.start_session(model=calling("record", then="It is 42."), tools=[record])
    await session.ask("What is it?")
    messages = await session.messages()
    check_history(messages)
    assert [type(message).__name__ for message in messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "AssistantMessage",
    ]
    assert messages[2].results[0].text == "42"


async def test_a_handle_shows_itself(supervisor):
    """Id and phase are in its `repr`, also when the session has ended."""
    session = await supervisor.start_session(model=saying(), session_id="s-1")
    assert repr(session) == "<Session s-1 idle>"
    await session.stop()
    assert repr(session) == "<Session s-1 ended>"


# --- stop, and after it


async def test_stop_ends_the_session_in_the_middle_of_a_cycle(supervisor):
    """The cycle is aborted, `SessionEnd` is last, prompts that waited are dropped aloud."""
    hang = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[hang])
    async with session.subscribe() as events:
        await session.prompt("one")
        await hang.started.wait()
        await session.prompt("two")
        await session.stop("enough")
        seen = await rest(events)
    assert hang.stopped == 1
    assert [type(event) for event in seen if isinstance(event, AgentAbort | PromptDropped | SessionEnd)] == [
        AgentAbort,
        PromptDropped,
        SessionEnd,
    ]
    assert seen[-1].reason == "enough"


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
    with trio.fail_after(5), pytest.raises(SessionDown, match="session 's-1' is down: enough"):
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

    with trio.fail_after(5):
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
    with trio.fail_after(5):
        await sessions[0].ask("Hi")
    return outcomes[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.ask("Hi"),
        lambda session: session.collect_reply(),
        lambda session: session.stop(),
        lambda session: session.attach_plugin(HumanApproval),
        lambda session: session.detach_plugin("HumanApproval"),
        lambda session: session.reload_plugin(HumanApproval),
    ],
    ids=["ask", "collect_reply", "stop", "attach_plugin", "detach_plugin", "reload_plugin"],
)
async def test_a_tool_may_not_wait_for_its_own_session(supervisor, call):
    """`CallingSelf`, at once, where waiting would never end."""
    error = await _call_from_a_tool(supervisor, call)
    assert isinstance(error, CallingSelf)
    assert "from inside a tool of session 's-1' would wait for itself" in str(error)


async def test_a_tool_may_not_stop_its_own_session_by_its_supervisor(supervisor):
    """`stop_session` waits just as `stop` does, so it is refused too."""
    error = await _call_from_a_tool(supervisor, lambda _session: supervisor.stop_session("s-1"))
    assert isinstance(error, CallingSelf)


async def test_a_tool_may_look_at_its_own_session(supervisor):
    """`status` and `messages` are answered while the tool runs."""
    status = await _call_from_a_tool(supervisor, lambda session: session.status())
    assert status.phase == "executing_tools"


async def test_a_tool_may_prompt_its_own_session(supervisor):
    """The prompt is queued behind the cycle that the tool belongs to."""
    receipt = await _call_from_a_tool(supervisor, lambda session: session.prompt("And then?"))
    assert receipt.queued


async def test_a_tool_may_ask_another_session(supervisor):
    """Only its own session would wait for itself."""
    other = await supervisor.start_session(model=saying("from the other"))
    assert await _call_from_a_tool(supervisor, lambda _session: other.ask("Hi")) == "from the other"


async def test_what_a_tool_started_may_ask_when_the_call_is_over(supervisor):
    """A task that outlives the call belongs to it no longer, so there is nothing to wait for."""
    answers = []
    sessions = []
    called = trio.Event()
    async with trio.open_nursery() as nursery:

        class Starter(RecordingTool):
            async def execute(self, arguments, ctx):
                nursery.start_soon(ask_later)
                return Ok(text="started")

        async def ask_later() -> None:
            await called.wait()
            answers.append(await sessions[0].ask("Again"))

        script = ScriptedModel([wants("record"), says("first"), says("second")])
        sessions.append(await supervisor.start_session(model=script, tools=[Starter()]))
        await sessions[0].ask("Hi")
        called.set()
    assert answers == ["second"]


# --- callers who go away


@on_virtual_time
async def test_a_cancelled_caller_never_harms_the_session(supervisor):
    """Only its reply is lost: the cycle ends as it would have."""
    session = await supervisor.start_session(model=ScriptedModel([says("whole", pause_seconds=1)]))
    with trio.move_on_after(0.5) as scope:
        await session.ask("Hi")
    assert scope.cancelled_caught
    assert await session.collect_reply() == "whole"


async def test_a_cancelled_prompt_that_was_not_sent_changes_nothing(supervisor):
    """Cancelled before it began, a call sends nothing."""
    session = await supervisor.start_session(model=saying())
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.prompt("Hi")
    assert scope.cancelled_caught
    assert (await session.status()).last_seq == 1


@on_virtual_time
async def test_replies_never_reach_another_call(supervisor):
    """Callers who give up leave no answer behind for those who come after."""

    async def answer(request):
        await trio.sleep(1)
        return says(f"answer to {request.messages[-1].content[0].text}")

    session = await supervisor.start_session(model=FunctionModel(answer))
    got = {}

    async def ask(number: int) -> None:
        with trio.move_on_after(0.5 if number % 2 else math.inf):
            got[number] = await session.ask(str(number))

    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, number)
    assert got == {number: f"answer to {number}" for number in range(0, 20, 2)}


async def test_a_subscription_without_room_is_refused(supervisor):
    """`OptionError` says what is expected."""
    session = await supervisor.start_session(model=saying())
    with pytest.raises(OptionError, match="buffer is 0: expected a whole number from 1"):
        session.subscribe(buffer=0)


async def test_message_start_comes_with_the_first_chunk(supervisor):
    """A subscriber sees the tree of a plain prompt: start, request, first chunk, deltas, response, end."""
    session = await supervisor.start_session(model=saying("Hello."))
    async with session.subscribe() as events:
        await session.prompt("Hi")
        seen = await until(events, AgentEnd)
    assert kinds(seen) == [
        "SessionStart",
        "PromptReceived",
        "AgentStart",
        "RequestStart",
        MessageStart.__name__,
        "MessageDelta",
        "ResponseComplete",
        "AgentEnd",
    ]
