"""The official conformance suite of the protocol, at its pinned version, against our client: what is not about logins."""

import sys
from pathlib import Path

import pytest
import trio

from tests.conftest import SERVICES

CLIENT = Path(__file__).parent / "conformance_client.py"
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
