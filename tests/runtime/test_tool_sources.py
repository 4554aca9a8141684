"""How what gives a session tools stands: an adapter says it by the handle, and every subscriber hears it (11.2, K7)."""

from typing import get_args

import pytest
import trio

from agentrail.errors import SessionDown
from agentrail.events import ToolSourceChanged, ToolSourceState
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import HangingTool
from tests.runtime.rig import saying

STATES = get_args(ToolSourceState)


async def heard(session, last):
    """Give these events from the beginning, up to the last one of a source."""
    found = []
    async with session.subscribe(after=0, kinds=[ToolSourceChanged]) as events:
        with trio.fail_after(5):
            while not found or found[-1].source != last:
                found.append(await anext(events))
    return found


async def test_each_state_is_published_as_it_was_said(supervisor):
    """In order, with the reason, and as often as it is said."""
    session = await supervisor.start_session(model=saying("fine"))
    for state in (*STATES, "closed"):
        await session.report_tool_source("mcp:files", state, reason=f"because {state}")
    await session.report_tool_source("mcp:last", "ready")
    found = await heard(session, "mcp:last")
    assert [(one.source, one.state, one.reason) for one in found[:-1]] == [
        ("mcp:files", state, f"because {state}") for state in (*STATES, "closed")
    ]


async def test_it_is_heard_while_a_tool_runs_and_nothing_else_changes(supervisor):
    """A server that goes away in the middle of its own call: people hear it, the call goes on."""
    tool = HangingTool()
    session = await supervisor.start_session(
        model=ScriptedModel([calls((tool.name, {})), says("done")]), tools=[tool]
    )
    await session.prompt("Go")
    await tool.started.wait()
    before = await session.status()
    await session.report_tool_source("mcp:files", "restarting")
    after = await session.status()
    assert (after.phase, after.running_tools, after.last_seq) == (
        before.phase,
        before.running_tools,
        before.last_seq + 1,
    )
    assert (await heard(session, "mcp:files"))[0].state == "restarting"
    await session.abort(kill_tools="all")


async def test_a_caller_that_is_cancelled_has_said_it_once_or_not_at_all(supervisor):
    """Cancelled before, nothing is sent; cancelled while it waits for the answer, it is published; never twice."""
    session = await supervisor.start_session(model=saying("fine"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.report_tool_source("mcp:files", "ready")
    assert scope.cancelled_caught
    for steps in range(6):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.report_tool_source, f"mcp:{steps}", "closed")
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    await session.report_tool_source("mcp:last", "ready")
    said = [one.source for one in await heard(session, "mcp:last")]
    assert said == sorted(set(said))
    assert {"mcp:5", "mcp:last"} <= {*said}
    assert "mcp:files" not in said


async def test_a_session_that_has_ended_hears_nothing(supervisor):
    """The adapter is told, so that it forgets the session."""
    session = await supervisor.start_session(model=saying("fine"))
    await session.stop()
    with pytest.raises(SessionDown):
        await session.report_tool_source("mcp:files", "ready")
