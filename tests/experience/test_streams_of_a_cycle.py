"""`stream` ends with its cycle, whatever ends that; what is read is of this cycle, and `reply` says what came of it (X-002)."""

import gc
from contextlib import suppress
from traceback import extract_tb

import pytest
import trio

from agentrail import plugins as p
from agentrail.errors import (
    CallingSelf,
    CycleAborted,
    CycleFailed,
    Overloaded,
    PromptError,
    PromptQueueFull,
    SessionDown,
    SubscriberTooSlow,
    YourMove,
)
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    ApprovalRequired,
    MessageDelta,
    PromptDropped,
    PromptRejected,
    ResponseComplete,
    SessionEnd,
    ToolExecutionStart,
)
from agentrail.plugins import HumanApproval
from agentrail.runtime.cycle_stream import CycleStream
from agentrail.testing.cancelling import crash
from agentrail.testing.models import ScriptedModel, calls, fails, says
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.function import tool
from tests.garbage import without_collector
from tests.runtime.rig import calling, kinds, on_virtual_time, saying, until, wants

pytestmark = pytest.mark.experience("X-002")


@p.plugin(init=lambda: 0, hooks=(p.BeforePrompt,))
def refusing(event, state, ctx):
    """Let no prompt begin."""
    return p.Abort("not today", state)


def gated():
    gate = trio.Event()

    @tool
    async def wait() -> str:
        """Wait for the test."""
        await gate.wait()
        return "waited"

    return gate, wait


async def read(stream):
    """Read to the end, which has to come."""
    with trio.fail_after(60):
        return [event async for event in stream]


async def hang(supervisor, **options):
    """Start a session whose tool hangs, and the stream of its prompt, which has begun."""
    tool = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[tool], **options)
    return session, tool


async def test_a_cycle_that_finishes(supervisor):
    """The reply has the answer, what was said, used and numbered; with `kinds` only these come, and how it ends."""
    model = ScriptedModel(
        [calls(("record", {}), text="Let me look. "), says("One", " two."), wants("record"), says("done")]
    )
    session = await supervisor.start_session(model=model, tools=[RecordingTool()])
    async with session.stream("Hi") as events:
        seen = await read(events)
    assert (kinds(seen)[0], kinds(seen)[-1]) == ("PromptReceived", "AgentEnd")
    assert {event.ref for event in seen if isinstance(event, AgentStart)} == {events.ref}
    reply = events.reply
    assert (reply.text, reply.output, reply.all_text) == ("One two.", "One two.", "Let me look. \n\nOne two.")
    assert (reply.turns, reply.stop_reason, reply.usage.output) == (2, "end", 10)
    assert reply.cost_usd == reply.usage.cost_usd
    assert (reply.events_from, reply.events_to) == (seen[0].meta.seq, seen[-1].meta.seq)
    assert reply.messages == seen[-1].messages
    assert [event async for event in events] == []
    async with session.stream("Hi", kinds=[ToolExecutionStart], deltas=False) as events:
        assert kinds(await read(events)) == ["ToolExecutionStart", "AgentEnd"]
    assert events.reply.text == "done"


async def test_a_cycle_that_does_not_finish(supervisor):
    """The iteration ends with it; `reply` raises, and so does the loop where that was asked for. It may never have been there."""
    session = await supervisor.start_session(
        model=ScriptedModel([fails(Overloaded("busy"))] * 2), max_retries=0
    )
    async with session.stream("Hi") as events:
        assert isinstance((await read(events))[-1], AgentError)
    with pytest.raises(CycleFailed, match="overloaded"):
        _ = events.reply
    async with session.stream("Hi", raise_on_failure=True) as events:
        with pytest.raises(CycleFailed, match="overloaded"):
            await read(events)

    session, tool = await hang(supervisor)
    async with session.stream("Hi") as events:
        await tool.started.wait()
        await session.abort("enough")
        assert isinstance((await read(events))[-1], AgentAbort)
    with pytest.raises(CycleAborted, match="enough"):
        _ = events.reply

    session = await supervisor.start_session(model=saying("never"), plugins=[refusing])
    async with session.stream("Hi") as events:
        seen = await read(events)
    ends = [type(event) for event in seen if isinstance(event, PromptRejected | AgentAbort)]
    assert ends == [PromptRejected, AgentAbort]
    with pytest.raises(CycleAborted, match="not today"):
        _ = events.reply


@pytest.mark.parametrize("how", ["cleared", "taken back"])
async def test_a_prompt_that_is_thrown_away(supervisor, how):
    """Out of the queue, with all others or alone: the stream says so, and ends. No other cycle is touched by the second."""
    session, tool = await hang(supervisor)
    await session.prompt("first")
    await tool.started.wait()
    async with session.stream("second") as events:
        with trio.fail_after(60):
            assert kinds([await anext(events)]) == ["PromptQueued"]
        if how == "cleared":
            await session.abort("all of it", clear_queue=True)
        else:
            await session.abort("that one", ref=events.ref)
        assert isinstance((await read(events))[-1], PromptDropped)
    with pytest.raises(CycleAborted):
        _ = events.reply
    assert (await session.status()).phase == ("idle" if how == "cleared" else "executing_tools")
    await session.abort()


@pytest.mark.parametrize("how", ["stopped", "supervisor"])
async def test_a_session_that_ends_in_the_middle(supervisor, how):
    """It was aborted, and the stream ends."""
    session, tool = await hang(supervisor)
    async with session.stream("Hi") as events, trio.open_nursery() as nursery:
        await tool.started.wait()
        nursery.start_soon(session.stop if how == "stopped" else supervisor.stop_all, "over")
        seen = await read(events)
    assert isinstance(seen[-1], AgentAbort)
    with pytest.raises(CycleAborted):
        _ = events.reply


@on_virtual_time
async def test_a_session_that_crashes_and_one_that_is_parked(supervisor):
    """The cycle of the first failed; so did that of the second, which comes back no more: the stream ends with the session."""
    session, tool = await hang(supervisor)
    async with session.stream("Hi") as events:
        await tool.started.wait()
        crash(session, "a cosmic ray")
        seen = await read(events)
    assert isinstance(seen[-1], AgentError)
    assert seen[-1].error.code == "session_restarted"
    for _ in range(2):
        tool = HangingTool()
        await session.replace_tools(tool)
        crash(session, "once more")
        await trio.sleep(0.2)
    with pytest.raises(SessionDown):
        async with session.stream("Hi"):
            pass

    session = await supervisor.start_session(model=saying(*["x"] * 9))
    for _ in range(2):
        crash(session, "a cosmic ray")
        await trio.sleep(0.3)
    await session.attach_tools(held := HangingTool())
    await session.switch_model(calling("hang"))
    async with session.stream("Hi") as events:
        await held.started.wait()
        crash(session, "the third")
        seen = await read(events)
    assert isinstance(seen[-1], AgentError | SessionEnd)
    with pytest.raises((CycleFailed, SessionDown)):
        _ = events.reply


async def test_a_prompt_that_decides_an_approval_or_supersedes_its_cycle(supervisor):
    """The first ends with the cycle that it resumes. The second ends with its own cycle."""
    asks = (HumanApproval, {"require_approval_for": ["record"]})
    model = ScriptedModel([wants("record"), says("done"), wants("record"), says("second")])
    session = await supervisor.start_session(model=model, tools=[RecordingTool()], plugins=[asks])
    seen = {}
    for said in ("approve", "Never mind."):
        await session.prompt("go")
        await session.wait_for(ApprovalRequired, timeout_seconds=5)
        async with session.stream(said) as events:
            seen[said] = await read(events)
        assert events.reply.text == ("done" if said == "approve" else "second")
    assert isinstance(seen["approve"][-1], AgentEnd)
    assert [event.ref for event in seen["Never mind."] if isinstance(event, AgentEnd)] == [events.ref]


async def test_behind_another_cycle(supervisor):
    """Of the other nothing is read, however much it says."""
    gate, wait = gated()
    model = ScriptedModel([wants("wait"), says("first"), says("second")])
    session = await supervisor.start_session(model=model, tools=[wait])
    await session.prompt("one")
    async with session.stream("two") as events:
        gate.set()
        seen = await read(events)
    assert kinds(seen)[:2] == ["PromptQueued", "AgentStart"]
    assert [event.delta for event in seen if isinstance(event, MessageDelta)] == ["second"]
    assert sum(isinstance(event, AgentEnd) for event in seen) == 1
    assert (events.reply.text, events.reply.events_from) == ("second", seen[0].meta.seq)


@pytest.mark.parametrize("deltas", [True, False])
@on_virtual_time
async def test_text(supervisor, deltas):
    """Text arrives as it is said, with an empty line between responses. A cycle that fails raises after it."""
    model = ScriptedModel(
        [says("One", " two.", pause_seconds=0.001), says("Half", " of it"), fails(Overloaded("busy"))]
    )
    session = await supervisor.start_session(model=model, max_retries=0)
    async with session.stream("Hi", deltas=deltas) as events:
        said = [text async for text in events.text()]
    assert said == (["One", " two."] if deltas else ["One two."])
    await session.ask("Again")
    async with session.stream("Hi", deltas=deltas) as events:
        with pytest.raises(CycleFailed, match="overloaded"):
            _ = [text async for text in events.text()]

    model = ScriptedModel(
        [
            calls(("note", {}), text="I look."),
            calls(("note", {})),
            calls(("note", {}), text="Again."),
            says("It is ", "so."),
            says("Bye."),
        ]
    )
    session = await supervisor.start_session(model=model, tools=[RecordingTool(name="note")])
    async with session.stream("Hi", deltas=deltas) as events:
        said = "".join([text async for text in events.text()])
    assert said == events.reply.all_text == "I look.\n\nAgain.\n\nIt is so."
    async with session.stream("Hi", deltas=deltas) as events:
        assert [text async for text in events.text()] == ["Bye."]


async def test_left_in_the_middle_it_goes_on(supervisor):
    """Nobody reads it, and it ends well. What came before it was left can be read afterwards, and no end that came later."""
    gate, wait = gated()
    session = await supervisor.start_session(model=calling("wait"), tools=[wait])
    async with session.stream("Hi") as events:
        assert kinds([await anext(events)]) == ["PromptReceived"]
        await session.wait_for(ToolExecutionStart)
    gate.set()
    assert await session.collect_reply() == "done"
    assert kinds([event async for event in events])[-1] == "ToolExecutionStart"
    with pytest.raises(YourMove, match="has not been read to its end: iterate in the block"):
        _ = events.reply


async def test_the_error_of_its_reply_has_the_traceback_of_its_own_call(supervisor):
    """It is one error for all reads, and once grew with each."""
    session = await supervisor.start_session(
        model=ScriptedModel([fails(Overloaded("full", retryable=False))])
    )
    async with session.stream("Hi") as events:
        await read(events)
    depths = set()
    for _ in range(3):
        with pytest.raises(CycleFailed) as raised:
            _ = events.reply
        depths.add(len(extract_tb(raised.value.__traceback__)))
    assert len(depths) == 1


async def test_a_run_that_fails_is_freed_without_the_collector(supervisor):
    """The traceback of its error once held the stream, which held the error."""
    session = await supervisor.start_session(
        model=ScriptedModel([fails(Overloaded("full", retryable=False))] * 3)
    )
    gc.collect()
    before = {id(one) for one in gc.get_objects()}
    with without_collector():
        for _ in range(3):
            with suppress(CycleFailed):
                await session.run("Hi")
        assert {id(one) for one in gc.get_objects() if isinstance(one, CycleStream)} <= before


@pytest.mark.parametrize("leaving", ["the block", "a cancellation", "an exception"])
async def test_left_in_the_middle_it_is_aborted(supervisor, leaving):
    """With `on_leave="abort"`, however the block is left; what waits behind it is not."""
    session, tool = await hang(supervisor)

    async def leave(scope):
        async with session.stream("Hi", on_leave="abort"):
            await tool.started.wait()
            await session.prompt("next")
            if leaving == "a cancellation":
                scope.cancel()
                await trio.lowlevel.checkpoint()
            assert leaving != "an exception"

    with trio.CancelScope() as scope:
        if leaving == "an exception":
            with pytest.raises(AssertionError):
                await leave(scope)
        else:
            await leave(scope)
    with trio.fail_after(60):
        await session.wait_for(lambda event: isinstance(event, AgentEnd))
        assert await session.collect_reply() == "done"
    assert tool.stopped == 1


async def test_left_while_it_waits_it_leaves_the_queue(supervisor):
    """The cycle in front of it is another's, and goes on; left behind its end, nothing is aborted."""
    session, tool = await hang(supervisor)
    first = await session.prompt("first")
    await tool.started.wait()
    async with session.stream("second", on_leave="abort") as events:
        assert kinds([await anext(events)]) == ["PromptQueued"]
    status = await session.status()
    assert (status.phase, status.queued, tool.stopped) == ("executing_tools", (), 0)
    assert (await session.wait_for(AgentStart)).ref == first.ref
    await session.abort()

    gate, wait = gated()
    model = ScriptedModel([says("one"), wants("wait"), says("two")])
    session = await supervisor.start_session(model=model, tools=[wait])
    async with session.stream("Hi", on_leave="abort") as events:
        await read(events)
        await session.prompt("next")
    gate.set()
    assert await session.collect_reply() == "two"


async def test_what_is_refused_is_raised_when_it_is_entered_and_it_is_entered_once(supervisor):
    """Like `prompt`: nothing was sent for an argument that cannot be; it is read inside of its block."""
    session, tool = await hang(supervisor, max_prompt_queue=0)
    with pytest.raises(PromptError):
        session.stream("")
    await session.prompt("first")
    await tool.started.wait()
    with pytest.raises(PromptQueueFull):
        async with session.stream("second"):
            pass
    await session.stop()
    with pytest.raises(SessionDown):
        async with session.stream("third"):
            pass

    session = await supervisor.start_session(model=saying("a", "b"))
    stream = session.stream("Hi")
    with pytest.raises(YourMove, match="not entered"):
        await anext(stream)
    async with stream:
        await read(stream)
    with pytest.raises(YourMove, match="already entered"):
        async with stream:
            pass
    assert await session.ask("x") == "b"


async def test_from_inside_of_a_tool(supervisor):
    """It would wait for itself."""
    found = []

    @tool
    async def inner() -> str:
        """Prompt its own session."""
        for call in (lambda: session.stream("x"), lambda: session.run("x")):
            try:
                made = call()
                if hasattr(made, "__await__"):
                    await made
            except CallingSelf as error:
                found.append(error)
        return "ok"

    session = await supervisor.start_session(model=calling("inner"), tools=[inner])
    await session.ask("go")
    assert len(found) == 2


async def test_both_a_stream_and_a_subscriber(supervisor):
    """One does not disturb the other; a reader that is too slow hears so, and the cycle goes on."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as all_of_it, session.stream("Hi") as events:
        mine = await read(events)
        theirs = await until(all_of_it, AgentEnd)
    for kind in (AgentEnd, ResponseComplete):
        assert [e for e in theirs if isinstance(e, kind)] == [e for e in mine if isinstance(e, kind)]

    session = await supervisor.start_session(model=saying("done"))
    async with session.stream("Hi", buffer=2) as events:
        assert await session.collect_reply() == "done"
        with pytest.raises(SubscriberTooSlow):
            await read(events)
