"""A server of the current revision: questions are results of calls, changes come on a stream, cancelling is a message."""

import sys
from functools import partial

import pytest
import trio

import agentrail
from agentrail.abc import Error, Ok
from agentrail.events import AskUser, ToolExecutionEnd, ToolsUpdated
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.mcp import McpServer
from tests.mcp.conftest import SERVERS

WITHIN_SECONDS = 60


def current(tmp_path):
    """Options of the server."""
    command = [sys.executable, str(SERVERS / "current.py")]
    return McpServer("c", command=command, env={"CANCELLED": str(tmp_path / "cancelled")}, required=True)


async def until_there(path):
    """Wait for a file of another process."""
    while not path.exists():  # noqa: ASYNC110 - it sets no event
        await trio.sleep(0.01)


async def test_structured_results_errors_and_a_cancelled_call(tmp_path):
    """11.4: what the schema says is `details`; a stopped call is cancelled at the server."""
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[current(tmp_path)]) as supervisor:
            await supervisor.start_session(model="demo:")
            source = supervisor.sources.running["c"].source
            assert source.connection.is_current
            added = await supervisor.call_tool("mcp__c__add", {"a": 1, "b": 2}, tools=source.tools)
            assert isinstance(added, Ok)
            assert added.details == {"total": 3}
            failed = await supervisor.call_tool("mcp__c__fail", {}, tools=source.tools)
            assert isinstance(failed, Error)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(supervisor.call_tool, "mcp__c__forever", {}, tools=source.tools))
                await until_there(tmp_path / "called")
                nursery.cancel_scope.cancel()
            await until_there(tmp_path / "cancelled")


@pytest.mark.protocol(11)
@pytest.mark.parametrize(
    ("decide", "text"),
    [("accept", "accept:left accept"), ("decline", "decline:None accept")],
)
async def test_two_questions_of_one_call_are_put_to_its_user(tmp_path, decide, text):
    """P-011: a form, then an address, which is shown and not opened; the server's state comes back to it."""
    model = ScriptedModel([calls(("mcp__c__ask", {})), says("done")])
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[current(tmp_path)]) as supervisor:
            session = await supervisor.start_session(model=model)
            async with session.subscribe(kinds=[AskUser, ToolExecutionEnd]) as events:
                await session.prompt("go")
                asked = await anext(events)
                assert asked.question == "c: Which?"
                if decide == "accept":
                    await session.respond(asked.ref, {"which": "left"})
                else:
                    await session.decline(asked.ref)
                asked = await anext(events)
                assert (asked.question, asked.url) == ("c: Go there.", "https://login.example/x")
                await session.respond(asked.ref, "Done")
                assert (await anext(events)).result.text == text


@pytest.mark.protocol(12)
async def test_two_calls_at_once_ask_their_own_users(tmp_path):
    """P-012: in this revision a question belongs to its call, so both are put."""
    model = ScriptedModel([calls(("mcp__c__ask", {})), says("done")])
    other = ScriptedModel([calls(("mcp__c__ask", {})), says("done")])
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[current(tmp_path)]) as supervisor:
            found = {}
            sessions = [await supervisor.start_session(model=one) for one in (model, other)]

            async def answer(session, which):
                async with session.subscribe(kinds=[AskUser, ToolExecutionEnd]) as events:
                    await session.prompt("go")
                    await session.respond((await anext(events)).ref, {"which": which})
                    await session.respond((await anext(events)).ref, "Done")
                    found[which] = (await anext(events)).result.text

            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer, sessions[0], "left")
                nursery.start_soon(answer, sessions[1], "right")
    assert found == {"left": "accept:left accept", "right": "accept:right accept"}


@pytest.mark.protocol(7)
async def test_four_changes_on_the_stream_are_one_listing(tmp_path):
    """P-007."""
    model = ScriptedModel([calls(("mcp__c__grow", {})), says("done")])
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[current(tmp_path)]) as supervisor:
            session = await supervisor.start_session(model=model)
            async with session.subscribe(kinds=[ToolsUpdated]) as events:
                await session.ask("go")
                changes = []
                with trio.move_on_after(1.5):
                    while True:
                        changes.append(await anext(events))
    (change,) = [one for one in changes if isinstance(one, ToolsUpdated)]
    assert change.attached == tuple(f"mcp__c__new{number}" for number in range(4))
