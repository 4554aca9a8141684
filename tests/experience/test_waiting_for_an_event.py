"""`wait_for`: the first event of the cycle that is meant, or an error that says why there is none. It never waits in vain."""

import pytest
import trio

from agentrail.errors import CycleAborted, CycleFailed, EventMissed, Overloaded, ReplyTimeout, SessionDown
from agentrail.events import (
    AgentEnd,
    AgentStart,
    ApprovalRequired,
    MessageDelta,
    PromptReceived,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, fails, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import calling, saying, wants


async def test_what_was_published_counts(supervisor):
    """A caller that comes behind it gets it all the same: of this cycle, and not of one before."""
    tool = HangingTool()
    model = ScriptedModel([wants("record"), says("one"), wants("hang"), says("two")])
    session = await supervisor.start_session(model=model, tools=[tool, RecordingTool()])
    await session.ask("first")
    await session.prompt("second")
    await tool.started.wait()
    with trio.fail_after(60):
        assert (await session.wait_for(ToolExecutionStart)).name == "hang"
        named = await session.wait_for(
            lambda event: isinstance(event, ToolExecutionStart) and event.name == "hang"
        )
    assert isinstance(named, ToolExecutionStart)
    with pytest.raises(ReplyTimeout, match=r"no ToolExecutionEnd within 0\.01 s"):
        await session.wait_for(ToolExecutionEnd, timeout_seconds=0.01)
    await session.abort()


async def test_the_cycle_begins_with_its_prompt(supervisor):
    """What was published between the prompt and its cycle belongs to it; where it waited, the cycle alone does."""
    tool = HangingTool()
    session = await supervisor.start_session(model=ScriptedModel([wants("hang"), says("two")]), tools=[tool])
    first = await session.prompt("first")
    await tool.started.wait()
    assert (await session.wait_for(PromptReceived)).ref == first.ref
    second = await session.prompt("second")
    await session.abort(ref=first.ref)
    assert await session.collect_reply() == "two"
    assert (await session.wait_for(AgentStart)).ref == second.ref
    with pytest.raises(EventMissed):
        await session.wait_for(PromptReceived)


async def test_what_comes_is_waited_for(supervisor):
    """Also what no one keeps, such as deltas."""
    session = await supervisor.start_session(
        model=calling("record"),
        tools=[RecordingTool()],
        plugins=[(HumanApproval, {"require_approval_for": ["record"]})],
    )
    await session.prompt("go")
    with trio.fail_after(60):
        approval = (await session.wait_for(ApprovalRequired)).approval
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.approve, approval.id)
            said = await session.wait_for(MessageDelta, wait_for_people=True)
            assert said.delta == "done"


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (saying("done"), EventMissed),
        (ScriptedModel([fails(Overloaded("busy"))]), CycleFailed),
        (calling("hang"), CycleAborted),
    ],
    ids=["finishes", "fails", "is aborted"],
)
async def test_a_cycle_that_ends_before_it(supervisor, model, error):
    """Says how it ended; afterwards, in idle, at once."""
    tool = HangingTool()
    session = await supervisor.start_session(model=model, tools=[tool], max_retries=0)
    await session.prompt("go")
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def stop() -> None:
                if error is CycleAborted:
                    await tool.started.wait()
                    await session.abort("enough")

            with pytest.raises(error):
                await session.wait_for(ApprovalRequired)
        with pytest.raises(error):
            await session.wait_for(ApprovalRequired)


async def test_in_idle(supervisor):
    """Without any cycle there is nothing to wait for; behind one its end is there. What the function raises is the caller's."""
    session = await supervisor.start_session(model=saying("one", "two"))
    with pytest.raises(EventMissed, match="prompt first"):
        await session.wait_for(AgentEnd)
    await session.ask("go")
    first = await session.wait_for(AgentEnd)
    await session.ask("go")
    assert (await session.wait_for(AgentEnd)).meta.seq > first.meta.seq
    assert (await session.wait_for(AgentStart)).meta.seq > first.meta.seq

    with pytest.raises(ZeroDivisionError):
        await session.wait_for(lambda _: 1 / 0)


async def test_a_session_that_ends(supervisor):
    """`SessionDown`, also where it had ended before; what its last cycle said is still there."""
    tool = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[tool])
    await session.prompt("go")
    await tool.started.wait()
    await session.stop()
    assert isinstance(await session.wait_for(ToolExecutionStart), ToolExecutionStart)
    with pytest.raises(CycleAborted):
        await session.wait_for(ApprovalRequired)
    fresh = await supervisor.start_session(model=saying("x"))
    await fresh.stop()
    with pytest.raises(SessionDown):
        await fresh.wait_for(AgentEnd)
