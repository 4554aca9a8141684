"""The official conformance suite of the protocol, at its pinned version, against our client."""

import sys
from pathlib import Path

import pytest
import trio

from tests.conftest import SERVICES

CLIENT = Path(__file__).parent / "conformance_client.py"
LOGIN = CLIENT.with_name("conformance_login.py")
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


@pytest.mark.check
@pytest.mark.services("mcp-conformance")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_scenario_of_the_conformance_suite_passes(scenario, tmp_path):
    """11.14: both revisions, over HTTP."""
    command = [NODE, SERVICES["mcp-conformance"], "client", "--scenario", scenario]
    client = ["--command", f"{sys.executable} {CLIENT}"]
    with trio.fail_after(120):
        done = await trio.run_process(
            [*command, *client], capture_stdout=True, capture_stderr=True, check=False, cwd=tmp_path
        )
    assert "OVERALL: PASSED" in (done.stdout + done.stderr).decode(), done.stdout.decode()[-3_000:]
    assert done.returncode == 0


@pytest.mark.check
@pytest.mark.protocol(14)
@pytest.mark.services("mcp-conformance")
@pytest.mark.parametrize("scenario", LOGINS)
async def test_a_login_of_the_conformance_suite_passes(scenario, tmp_path):
    """11.14: through `agentrail mcp login`. Keys and other extensions are not there."""
    command = [NODE, SERVICES["mcp-conformance"], "client", "--scenario", f"auth/{scenario}"]
    # Seven processes of ours take 10 s of a quiet core, and the suite gives a client 30 s.
    client = ["--timeout", "100000", "--command", f"{sys.executable} {LOGIN}"]
    with trio.fail_after(120):
        done = await trio.run_process(
            [*command, *client], capture_stdout=True, capture_stderr=True, check=False, cwd=tmp_path
        )
    assert "OVERALL: PASSED" in (done.stdout + done.stderr).decode(), done.stdout.decode()[-3_000:]
