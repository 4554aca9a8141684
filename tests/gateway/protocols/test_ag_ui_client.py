"""The official AG-UI client verifies our runs, and talks to a server of ours (11.14)."""

import json
import os
from pathlib import Path

import pytest
import trio

from agentrail.testing.models import ScriptedModel, calls, says
from tests.gateway.protocols.ag_ui_scenarios import ASK, ENDLESS, MAP, NO, SCENARIOS, YES, asking
from tests.gateway.web import serving
from tests.host.hosting import Ledger
from tests.pages import fences_of
from tests.runtime.rig import on_bounded_time

HERE = Path(__file__).parent
pytestmark = [pytest.mark.check, pytest.mark.services("ag-ui"), on_bounded_time]

FAILED = {
    "failed": ["provider_error: no"],
    "crashed": ["session_restarted: the session crashed: RuntimeError: crashed on purpose"],
    "shut_down": ["draining: the server is going down: read the response again in a moment"],
}
"""Scenarios that end with `RUN_ERROR`, which is no fault of their order."""


async def front_end(ag_ui, **told):
    """Run node with the client, and nothing of this process's environment but where programs are."""
    env = {"PATH": os.environ["PATH"], "AG_UI": f"file://{ag_ui}", "RUNS": json.dumps(told)}
    done = await trio.run_process(["node", str(HERE / "ag_ui.mjs")], env=env, capture_stdout=True)
    return json.loads(done.stdout)


async def drive(ag_ui, web, *steps, path="/ag-ui/desk"):
    """Let a front end take these steps, and return what it shows in the end."""
    host, port = web.address
    return await front_end(ag_ui, url=f"http://{host}:{port}{path}", steps=steps)


@pytest.mark.protocol(23)
async def test_the_verifier_accepts_every_scenario(ag_ui):
    """In order, of its types, with nothing that it has to strip: a plain run, tools, thinking, a sub-agent, a retry, an abort, an error and more."""
    streams = {name: await run() for name, run in SCENARIOS.items()}
    told = await front_end(ag_ui, streams=streams)
    assert told["warned"] == []
    assert {name: run["errors"] for name, run in told["found"].items()} == {
        name: FAILED.get(name, []) for name in SCENARIOS
    }
    assert all(run["events"][-1] in ("RUN_FINISHED", "RUN_ERROR") for run in told["found"].values())


def texts_of(page):
    """What a front end shows of the conversation."""
    return [
        one["content"]
        for one in page["messages"]
        if one["role"] in ("user", "assistant") and one.get("content")
    ]


def calls_in(page):
    """The calls that a front end shows, with the arguments of each, and the results."""
    shown = [call for one in page["messages"] for call in one.get("toolCalls", ())]
    results = [(one["toolCallId"], one["content"]) for one in page["messages"] if one["role"] == "tool"]
    return [(call["id"], json.loads(call["function"]["arguments"])) for call in shown], results


@pytest.mark.protocol(24)
async def test_an_approval_is_an_interrupt_and_is_resumed_with_the_whole_transcript(ag_ui):
    """One call, one result, arguments intact, and no message twice."""
    async with asking(ASK, says("Done."), says("Yes.")) as (page, shell):
        seen = await drive(ag_ui, page.web, ["say", "Hi"], ["resume", [YES]], ["say", "And?"])
        messages = await page.web.host.supervisor.session("t1", scope="local").messages()
    assert (seen["errors"], seen["warned"], seen["interrupts"]) == ([], [], [])
    ((call_id, arguments),), results = calls_in(seen)
    assert (arguments, results) == ({"command": "ls"}, [(call_id, "recorded")])
    assert texts_of(seen) == ["Hi", "Done.", "And?", "Yes."]
    assert (len(messages), shell.calls) == (6, [{"command": "ls"}])


@pytest.mark.protocol(26)
async def test_two_interrupts_are_answered_one_after_the_other(ag_ui):
    """The client wants both at once; cancelled, edited and approved ones each have one result."""
    three = calls(*(("shell", {"command": one}) for one in "abc"))
    async with asking(three, says("Done.")) as (page, shell):
        edits = {**YES, "editedArgs": {"command": "z"}}
        seen = await drive(ag_ui, page.web, ["say", "Hi"], ["resume", [None, edits, YES]])
    assert (seen["errors"], seen["interrupts"]) == ([], [])
    assert sorted(one["command"] for one in shell.calls) == ["c", "z"]
    shown, results = calls_in(seen)
    assert {call_id for call_id, _ in shown} == {call_id for call_id, _ in results}
    assert len(results) == 3


@pytest.mark.protocol(28)
async def test_a_front_ends_tool_runs_there(ag_ui):
    """`pendingToolCallIds` names its call; the result that it adds continues the cycle, and is not shown twice."""
    tools = {"tools": [MAP]}
    async with serving(ScriptedModel([calls(("show_map", {"place": "Lisbon"})), says("Look.")])) as web:
        seen = await drive(ag_ui, web, ["say", "Where?", tools], ["give", "Shown.", tools])
    ((call_id, arguments),), results = calls_in(seen)
    assert (seen["errors"], seen["pending"], arguments) == ([], [], {"place": "Lisbon"})
    assert results == [(call_id, "Shown.")]
    assert texts_of(seen) == ["Where?", "Look."]


@pytest.mark.protocol(29)
async def test_abort_run_stops_the_cycle_and_the_next_run_works(ag_ui):
    """`abortRun` closes the connection in mid-text: the cycle ends as aborted."""
    ledger = Ledger()
    async with serving(ScriptedModel([ENDLESS, says("Fine.")]), ledger) as web:
        seen = await drive(ag_ui, web, ["say_and_abort", "Hi"], ["say", "Better?"])
        await web.served.quiet()
    assert ledger.ends == ["aborted", "completed"]
    assert texts_of(seen)[-2:] == ["Better?", "Fine."]


async def test_a_refusal_is_an_error_of_the_run(ag_ui):
    """With status and code, so that a front end can show it; the interrupt stays."""
    async with asking(ASK, says("Fine.")) as (page, shell):
        wrong = {**NO, "reason": 5}
        seen = await drive(ag_ui, page.web, ["say", "Hi"], ["resume", [wrong]])
        assert "HTTP 422" in seen["errors"][0]
        assert "field_invalid" in seen["errors"][0]
        assert len(seen["interrupts"]) == 1
        assert shell.calls == []


async def test_the_page_of_the_how_to_works(ag_ui, tmp_path):
    """Its fence, with a server of ours and the client that is installed."""
    (fence,) = [one.body for one in fences_of("docs/how-to/use-it-from-copilotkit.md") if one.kind == "ts"]
    async with serving(ScriptedModel([says("It is on its way.")])) as web:
        host, port = web.address
        here = fence.replace("'@ag-ui/client'", f"'file://{ag_ui}'")
        here = here.replace("https://agents.example.org", f"http://{host}:{port}")
        program = (
            f"const [token, threadId] = ['x', 't1'];\n{here}console.log(agent.messages.at(-1).content);\n"
        )
        (tmp_path / "page.mjs").write_text(program, "utf-8")
        env = {"PATH": os.environ["PATH"]}
        done = await trio.run_process(["node", str(tmp_path / "page.mjs")], env=env, capture_stdout=True)
    assert done.stdout == b"It is on its way.\n"
