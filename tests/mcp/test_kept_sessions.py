"""Stored sessions with tools of MCP servers: resumed, replayed, forked and exported, with the servers there or gone."""

import json
import sys

import pytest
import trio

import agentrail
from agentrail.events import AskUser, ToolExecutionEnd, ToolsUpdated
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools.mcp import McpServer
from tests.mcp.conftest import SERVERS

WITHIN_SECONDS = 60
WATCHED = {
    "subprocess.Popen",
    "os.posix_spawn",
    "os.fork",
    "os.exec",
    "socket.connect",
    "socket.bind",
    "socket.sendto",
}
HEARD: list[list[object]] = []
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


PAID = (
    *(calls(("mcp__p__echo", {"a": 1})), calls(("mcp__c__pay", {"amount": 5}))),
    *(calls(("mcp__p__die", {})), says("two")),
)


async def lines_of(supervisor, count=None):
    """Return the records of an export, without its head, which counts them."""
    return (await supervisor.export_session("s")).splitlines()[1:][:count]


async def moments_of(session, count=0):
    """Return what the session was after each record, and what a fork of it begins with."""
    found = []
    for number in range(1, (count or (await session.journal())[-1].number) + 1):
        past = await session.state_at(number)
        fork = await session.fork(at=number, mcp=[])
        found.append((past, await fork.messages()))
        await fork.stop()
    return found


@pytest.fixture
def outgoing():
    """The processes and connections that are begun while the list is there."""
    begun = []
    sys.addaudithook(lambda event, args: event in WATCHED and HEARD and HEARD[-1].append((event, args)))
    HEARD.append(begun)
    yield begun
    HEARD.clear()


@pytest.mark.protocol(63)
async def test_each_moment_is_what_it_was_with_all_servers_gone(tmp_path, plain, outgoing):
    """P-063: with a call, a question and a lost connection, at each number, and in the export; no process, no socket."""
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    servers = [
        McpServer("p", command=plain(), required=True),
        McpServer("c", command=[sys.executable, str(SERVERS / "current.py")], required=True),
    ]
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(
            store=store, scripts={"m": ScriptedModel(PAID)}, mcp=servers
        ) as supervisor:
            session = await supervisor.start_session(model="scripted:m", session_id="s")
            async with session.subscribe(kinds=[AskUser]) as events:
                await session.prompt("go")
                await session.respond((await anext(events)).ref, {"sure": True})
            assert await session.collect_reply() == "two"
            before, exported = await moments_of(session), await lines_of(supervisor)
        assert {event for event, _ in outgoing} >= {"subprocess.Popen"}
        outgoing.clear()
        gone = agentrail.open_supervisor(store=store, scripts={"m": ScriptedModel([])})
        async with no_orphans(), gone as supervisor:
            session = await supervisor.resume_session("s")
            assert await moments_of(session, len(before)) == before
            assert await lines_of(supervisor, len(exported)) == exported
        assert outgoing == []
        words = [sys.executable, "-m", "agentrail", "sessions", "replay", "s", "--store", store]
        replayed = await trio.run_process(words, capture_stdout=True)
    assert replayed.stdout.endswith(b" records, identical\n")


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
