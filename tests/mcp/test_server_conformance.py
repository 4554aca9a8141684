"""The official conformance suite of the protocol, at its pinned version, against our server. `make peers-all` runs all of it."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.conftest import SERVICES

HERE = Path(__file__).parent
NODE = SERVICES["server-everything"].with_name("node")
QUICK = {
    "2025-11-25": ("server-initialize", "tools-call-elicitation", "elicitation-sep1034-defaults"),
    "2026-07-28": (
        "server-stateless",
        "input-required-result-multi-round",
        "input-required-result-tampered-state",
        "dns-rebinding-protection",
        "caching",
    ),
}
"""Per revision, those that differ most from each other and from what the other tests hold."""


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """Run the server with the profile whose tools the suite calls, and give its address."""
    command = [sys.executable, str(HERE / "conformance_server.py")]
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process, command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
        process = await nursery.start(run)
        line = b""
        while not line.endswith(b"\n"):
            line += await process.stdout.receive_some()
        yield line.decode().strip()
        nursery.cancel_scope.cancel()


async def judge(tmp_path: Path, *given: str) -> subprocess.CompletedProcess[bytes]:
    """Run the suite against the server."""
    async with serving() as address:
        command = [str(NODE), str(SERVICES["mcp-conformance"]), "server", "--url", address, *given]
        return await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, cwd=tmp_path
        )


@pytest.mark.check
@pytest.mark.services("mcp-conformance")
@pytest.mark.parametrize("revision", [*QUICK])
async def test_quick_scenarios_pass(revision, tmp_path):
    """11.14: one server for all of them, as each start of one costs more than a scenario."""
    failures = ["--expected-failures", str(HERE / f"server-failures-{revision}.yaml")]
    with trio.fail_after(120):
        async with serving() as address:
            for scenario in QUICK[revision]:
                command = [str(NODE), str(SERVICES["mcp-conformance"]), "server", "--url", address]
                given = ["--scenario", scenario, "--spec-version", revision, *failures]
                done = await trio.run_process(
                    [*command, *given], capture_stdout=True, capture_stderr=True, check=False, cwd=tmp_path
                )
                assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3_000:]


@pytest.mark.services("mcp-conformance")
@pytest.mark.skipif(
    not os.environ.get("AGENTRAIL_ALL_PEERS"), reason="make peers-all runs it, in two minutes"
)
@pytest.mark.parametrize("revision", [*QUICK])
async def test_each_scenario_passes_but_for_those_with_a_reason(revision, tmp_path):
    """11.14: a line of the file that passes fails the run."""
    failures = str(HERE / f"server-failures-{revision}.yaml")
    with trio.fail_after(300):
        done = await judge(tmp_path, "--requirements", revision, "--expected-failures", failures)
    assert done.returncode == 0, done.stdout.decode()[-4_000:]
