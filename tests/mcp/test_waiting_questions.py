"""Questions of the current revision wait as data: across a kill, for the call and the session that they belong to (11.5)."""

import subprocess
import sys
from pathlib import Path

import pytest
import trio

import agentrail
from agentrail.errors import UnknownApproval
from agentrail.events import AskUser, ToolExecutionEnd
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.input_rounds import MAX_QUESTION_ROUNDS
from tests.mcp.conftest import SERVERS

WITHIN_SECONDS = 60
ROOT = Path(__file__).parents[2]
PAYING = calls(("mcp__c__pay", {"amount": 5}), ("mcp__c__pay", {"amount": 70}))
UNTIL_ASKED = """
import sys
import trio
from agentrail.events import AskUser
from tests.mcp.test_waiting_questions import PAYING, supervising

async def main():
    async with supervising(sys.argv[1], [PAYING], required=True) as supervisor:
        session = await supervisor.start_session(model="scripted:m", session_id="s")
        async with session.subscribe(kinds=[AskUser]) as events:
            await session.prompt("go")
            for _ in range(2):
                asked = await anext(events)
                print(asked.ref, asked.question, flush=True)
            await trio.sleep_forever()

trio.run(main)
"""


def supervising(directory, turns, **options):
    """Open a supervisor over one store, with the server."""
    server = McpServer("c", command=[sys.executable, str(SERVERS / "current.py")], **options)
    return agentrail.open_supervisor(
        store=f"sqlite:{directory}/store.sqlite", scripts={"m": ScriptedModel(turns)}, mcp=[server]
    )


async def killed_while_it_waits(directory):
    """Start a session in another process, kill it while two calls wait, and return the questions by their refs."""
    program = [sys.executable, "-c", UNTIL_ASKED, str(directory)]
    process = await trio.lowlevel.open_process(program, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    said = b""
    while said.count(b"\n") < 2:
        data = await process.stdout.receive_some()
        assert data, "it ended before it asked"
        said += data
    process.kill()
    await process.wait()
    return [line.partition(" ")[::2] for line in said.decode().splitlines()]


@pytest.mark.protocol(11)
async def test_a_killed_process_keeps_the_question_and_the_very_call_ends(tmp_path):
    """P-011: each answer reaches its own call with the server's state, also if it comes before the server is there again."""
    with trio.fail_after(WITHIN_SECONDS):
        (first, asked), (second, other) = await killed_while_it_waits(tmp_path)
        assert {asked, other} == {"c: Pay 5?", "c: Pay 70?"}
        of_five, of_seventy = (first, second) if asked == "c: Pay 5?" else (second, first)
        async with no_orphans(), supervising(tmp_path, [says("done")]) as supervisor:
            session = await supervisor.resume_session("s")
            assert {one.ref for one in (await session.status()).questions} == {first, second}
            async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
                await session.respond(of_seventy, {"sure": False})
                await session.decline(of_five)
                texts = {(await anext(events)).result.text for _ in range(2)}
                assert await session.collect_reply() == "done"
        assert texts == {"to pay 70, paid 70: accept False", "to pay 5, paid 5: decline None"}


@pytest.mark.protocol(11)
async def test_without_an_answer_in_time_the_server_is_told_so(tmp_path):
    """P-011: `cancel`."""
    with trio.fail_after(WITHIN_SECONDS):
        async with supervising(tmp_path, [PAYING, says("done")], required=True) as supervisor:
            session = await supervisor.start_session(model="scripted:m", tool_timeout_seconds=0.2)
            async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
                assert await session.ask("go") == "done"
                texts = {(await anext(events)).result.text for _ in range(2)}
    assert texts == {"to pay 5, paid 5: cancel None", "to pay 70, paid 70: cancel None"}


@pytest.mark.protocol(11)
async def test_a_call_asks_ten_times_and_a_question_is_of_its_session(tmp_path):
    """P-011: the next question ends the call, and another session cannot answer for it."""
    with trio.fail_after(WITHIN_SECONDS):
        turns = [calls(("mcp__c__nag", {})), says("done")]
        async with supervising(tmp_path, turns, required=True) as supervisor:
            session = await supervisor.start_session(model="scripted:m")
            other = await supervisor.start_session(model="demo:")
            async with session.subscribe(kinds=[AskUser, ToolExecutionEnd]) as events:
                await session.prompt("go")
                for _ in range(MAX_QUESTION_ROUNDS):
                    asked = await anext(events)
                    with pytest.raises(UnknownApproval):
                        await other.respond(asked.ref, {})
                    await session.respond(asked.ref, {})
                assert "it asked more than 10 times" in (await anext(events)).result.text
