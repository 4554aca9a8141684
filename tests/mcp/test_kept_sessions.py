"""Stored sessions with tools of MCP servers: resumed, replayed, forked and exported, with the servers there or gone."""

import json

import pytest
import trio

import agentrail
from agentrail.events import ToolExecutionEnd, ToolsUpdated
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools.mcp import McpServer

WITHIN_SECONDS = 60
SCRIPT = (calls(("mcp__p__echo", {"a": 1})), says("one"), calls(("mcp__p__die", {})), says("two"))


def supervising(tmp_path, plain, *, servers=True, answers=SCRIPT):
    """Open a supervisor over one store, with the server or without."""
    server = McpServer("p", command=plain(), required=True)
    return agentrail.open_supervisor(
        store=f"sqlite:{tmp_path / 'store.sqlite'}",
        scripts={"m": ScriptedModel(answers)},
        mcp=[server] if servers else [],
    )


@pytest.mark.protocol(63)
async def test_a_session_is_resumed_replayed_forked_and_exported_with_all_servers_gone(tmp_path, plain):
    """P-063: what its calls came to stands in the journal. No process is started, and its tools are gone until a server is there."""
    with trio.fail_after(WITHIN_SECONDS):
        async with supervising(tmp_path, plain) as supervisor:
            session = await supervisor.start_session(model="scripted:m", session_id="s")
            assert await session.ask("go") == "one"
            assert await session.ask("go") == "two"
            before = await session.messages()
        async with (
            no_orphans(),
            supervising(tmp_path, plain, servers=False, answers=[says("three")]) as supervisor,
        ):
            assert "mcp__p__echo" in str(await supervisor.export_session("s"))
            session = await supervisor.resume_session("s")
            assert await session.messages() == before
            fork = await session.fork()
            assert await fork.messages() == before
            assert await session.ask("go") == "three"


async def test_a_resumed_session_gets_the_tools_when_the_server_is_there(tmp_path, plain):
    """11.4: they are attached again, and one change is reported."""
    with trio.fail_after(WITHIN_SECONDS):
        async with supervising(tmp_path, plain) as supervisor:
            session = await supervisor.start_session(model="scripted:m", session_id="s")
            assert await session.ask("go") == "one"
        again = [calls(("mcp__p__echo", {"a": 2})), says("again"), calls(("mcp__p__echo", {})), says("fork")]
        async with supervising(tmp_path, plain, answers=again) as supervisor:
            session = await supervisor.resume_session("s")
            await supervisor.wait_for_tools(session.session_id)
            async with session.subscribe(kinds=[ToolExecutionEnd, ToolsUpdated]) as events:
                assert await session.ask("go") == "again"
                result = (await anext(events)).result
            assert json.loads(result.text)["arguments"] == {"a": 2}
            fork = await session.fork()
            await supervisor.wait_for_tools(fork.session_id)
            async with fork.subscribe(kinds=[ToolExecutionEnd]) as events:
                assert await fork.ask("go") == "fork"
                assert not (await anext(events)).result.is_error
