"""`agentrail mcp serve`: an agent over standard input and output, until the input ends."""

import signal
import subprocess
import sys
from contextlib import suppress
from time import monotonic

import mcp_types
import pytest
import trio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

QUIET_START_SECONDS = 1.6
"""What a start takes where nobody else works."""

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"test","version":"1"}}}\n'
)


@pytest.fixture
def environ(tmp_path):
    return {"AGENTRAIL_MODEL": "demo:", "AGENTRAIL_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)}


@pytest.mark.protocol(17)
@pytest.mark.check
@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP", "closed"])
def test_it_ends_at_once_and_leaves_stdout_to_the_protocol(how, environ, tmp_path):
    """P-017: within 2 s, of a machine at rest; a line that is no message has an answer."""
    pipe = subprocess.PIPE
    began_at = monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "agentrail", "mcp", "serve"],
        env=environ,
        cwd=tmp_path,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        twice = (
            b'{"jsonrpc": "2.0", "id": 2, "method": "ping", "id": 3}\n'  # no reader knows which id is meant
        )
        process.stdin.write(INITIALIZE + b"no message\n" + twice)
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(3)]
        started_at = monotonic()
        if how == "closed":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how])
        assert process.stdout.read() == b""
        assert process.wait(60) == 0
        ended_at = monotonic()
        with suppress(BrokenPipeError):
            process.stdin.close()
    answers = sorted(
        mcp_types.jsonrpc_message_adapter.validate_json(line).model_dump_json() for line in lines
    )
    assert "".join(answers).count("-32700") == 2
    assert "agentrail" in "".join(answers)
    slower = max(1.0, (started_at - began_at) / QUIET_START_SECONDS)
    assert ended_at - started_at < 2 * slower


@pytest.mark.check
def test_a_line_that_is_too_long_has_an_answer_before_the_end(environ, tmp_path):
    """The next line cannot be found, so the client is told why this is the end."""
    line = [sys.executable, "-m", "agentrail", "mcp", "serve"]
    given = INITIALIZE + b"x" * ((16 << 20) + 1)
    ran = subprocess.run(line, env=environ, cwd=tmp_path, input=given, capture_output=True, check=False)
    answers = [mcp_types.jsonrpc_message_adapter.validate_json(one) for one in ran.stdout.splitlines()]
    faults = [one.error for one in answers if isinstance(one, mcp_types.JSONRPCError)]
    assert [one.message for one in faults] == ["a line has over 16,777,216 bytes"]


@pytest.mark.check
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_the_official_client_calls_an_agent(mode, environ, tmp_path):
    """11.14: both revisions over stdio."""
    (tmp_path / "agentrail.toml").write_text('[agents.a]\nmodel = "demo:"\n[agents.b]\nmodel = "demo:"\n')
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "agentrail", "mcp", "serve", "--agent", "b", "--trust-project"],
        env=environ,
        cwd=tmp_path,
    )
    with trio.fail_after(60):
        async with Client(parameters, mode=mode) as client:
            assert [one.name for one in (await client.list_tools()).tools] == ["b"]
            result = await client.call_tool("b", {"prompt": "Hi"})
            assert result.structured_content["text"] == result.content[0].text != ""


def test_an_unknown_agent_is_named(environ, tmp_path):
    """2, and stdout stays empty."""
    command = [sys.executable, "-m", "agentrail", "mcp", "serve", "--agent", "none"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"none" in done.stderr
