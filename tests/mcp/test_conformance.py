"""The official conformance suite of the protocol, at its pinned version, against our client."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.conftest import SERVICES
from tests.forked import Warm, run_forked
from tests.mcp.conformance_login import WARM as LOGIN, log_in

CALLER = Path(__file__).parent / "conformance_caller.py"
CLIENT = Warm(module="tests.mcp.conformance_client", imports=LOGIN.imports, patience_seconds=100)
NODE = SERVICES["server-everything"].with_name("node")
SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
)
LOGINS = (
    "scope-step-up",
    "pre-registration",
    "authorization-server-migration",
    "client-credentials-basic",
    "basic-cimd",
)
"""Of the 28 scenarios of the suite, which all pass, those that differ most: each starts up to seven processes."""


async def run_suite(scenario, client, folder):
    """Run a scenario of the suite, which starts a process that asks us to run the client. Return what the suite printed."""

    async def answer(stream):
        async with stream:
            asked = b""
            while not asked.endswith(b"\n"):
                asked += await stream.receive_some()
            ran = await client(*json.loads(asked))
            await stream.send_all(json.dumps([ran.code, ran.out, ran.err]).encode())

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
            port = listener.socket.getsockname()[1]
            done = await trio.run_process(
                [
                    *(NODE, SERVICES["mcp-conformance"], "client", "--scenario", scenario),
                    # The suite gives a client 30 s.
                    *("--timeout", "100000", "--command", f"{sys.executable} -I {CALLER} {port}"),
                ],
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=folder,
            )
            nursery.cancel_scope.cancel()
    assert "OVERALL: PASSED" in (done.stdout + done.stderr).decode(), done.stdout.decode()[-3_000:]
    return done


@pytest.mark.check
@pytest.mark.services("mcp-conformance")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_scenario_of_the_conformance_suite_passes(scenario, tmp_path):
    """11.14: both revisions, over HTTP."""

    async def client(url, given):
        return await run_forked(CLIENT, url, variables=given)

    done = await run_suite(scenario, client, tmp_path)
    assert done.returncode == 0


@pytest.mark.check
@pytest.mark.protocol(14)
@pytest.mark.services("mcp-conformance")
@pytest.mark.parametrize("scenario", LOGINS)
async def test_a_login_of_the_conformance_suite_passes(scenario, tmp_path):
    """11.14: through `agentrail mcp login`. Keys and other extensions are not there."""

    async def client(url, given):
        return await log_in(url, given, tmp_path)

    await run_suite(f"auth/{scenario}", client, tmp_path)
