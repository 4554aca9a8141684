"""Clients of MCP that nobody here wrote, against our server."""

import json
import os
from pathlib import Path

import pytest
import trio
from attrs import evolve

import agentrail
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import HangingTool
from tests.conftest import SERVICES
from tests.gateway.web import serving
from tests.host.hosting import profile

HERE = Path(__file__).parent
NODE = SERVICES["node 22"]


async def run(*command):
    """Run a client to its end, and return what it printed as JSON."""
    path = f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"
    with trio.fail_after(60):
        done = await trio.run_process(
            [str(one) for one in command],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={**os.environ, "PATH": path},
        )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-2_000:]
    return json.loads(done.stdout)


@pytest.mark.check
@pytest.mark.protocol(18)
@pytest.mark.services("mcp-clients", "node 22")
async def test_the_inspector_lists_and_calls_a_profile():
    """P-018: its text equals that of `session.ask`."""
    desk = profile(ScriptedModel([says("Hello, ", "you.")]))
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([says("Hello, ", "you.")]))
        text = await session.ask("Hi")
    async with serving(None, profiles=[desk], protocols=("mcp",)) as web:
        host, port = web.address
        inspector = (SERVICES["mcp-clients"], "--cli", f"http://{host}:{port}/mcp", "--transport", "http")
        listed = await run(*inspector, "--method", "tools/list")
        assert [one["name"] for one in listed["tools"]] == ["desk"]
        call = ("--method", "tools/call", "--tool-name", "desk", "--tool-arg", "prompt=Hi")
        called = await run(*inspector, *call)
        assert called["structuredContent"]["text"] == called["content"][0]["text"] == text


@pytest.mark.check
@pytest.mark.parametrize(
    "client",
    [
        pytest.param((NODE, HERE / "mcp_client.mjs"), marks=pytest.mark.services("mcp-clients", "node 22")),
        pytest.param((SERVICES["mcp-1"], HERE / "mcp_1_client.py"), marks=pytest.mark.services("mcp-1")),
    ],
    ids=["javascript", "python 1"],
)
async def test_another_client_lists_calls_and_cancels(client):
    """11.14: in the current revision and in the older one; a cancelled call stops its tool."""
    hang = HangingTool(name="hang")
    desk = evolve(profile(ScriptedModel([says("Hello.")]), tools=[hang]), expose=("agent", "tools"))
    async with serving(None, profiles=[desk], protocols=("mcp",)) as web:
        host, port = web.address
        seen = await run(*client, f"http://{host}:{port}/mcp")
        assert seen == {"tools": ["desk", "hang"], "said": "Hello.", "cut": "cancelled"}
        with trio.fail_after(10):
            while hang.stopped == 0:  # noqa: ASYNC110 - no client is told
                await trio.sleep(0.01)
