"""`agentrail acp` as editors start it, without a model, with a wrong configuration, and in a terminal."""

import json
import os
import sys

import pytest
import trio

from tests.cli.rig import open_process, run_agentrail


def variables(cwd, **more):
    return {"HOME": str(cwd), "AGENTRAIL_DATA_DIR": str(cwd), **more}


async def answers_to(calls, cwd, *arguments, **environ):
    answers = []
    theirs, ours = os.pipe()
    async with (
        trio.lowlevel.FdStream(ours) as stdin,
        open_process("acp", *arguments, stdin=theirs, cwd=cwd, **variables(cwd, **environ)) as agent,
    ):
        line = b""
        for number, (method, params) in enumerate(calls):
            said = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            await stdin.send_all(json.dumps(said).encode() + b"\n")
            while b"\n" not in line:
                line += await agent.stdout.receive_some()
            told, _, line = line.partition(b"\n")
            answers.append(json.loads(told))
        await stdin.aclose()
        assert await agent.wait() == 0
    return answers


INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": True}}}


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "words"),
    [
        ((), {}, -32000, "Set a key such as ANTHROPIC_API_KEY"),
        (("--agent", "nope"), {"AGENTRAIL_MODEL": "demo:"}, -32603, "there is no agent 'nope'"),
        (("--config", "none.toml"), {"AGENTRAIL_MODEL": "demo:"}, -32603, "none.toml"),
        ((), {"AGENTRAIL_MODEL": "demo:"}, None, ""),
    ],
)
async def test_what_prevents_a_session_is_said_to_the_editor(tmp_path, arguments, environ, code, words):
    """`initialize` is answered in any case, and offers a login where the editor has a terminal."""
    initialized, answer = await answers_to(
        (("initialize", INITIALIZE), ("authenticate", {})), tmp_path, *arguments, **environ
    )
    assert initialized["result"]["authMethods"][0]["args"] == ["--setup"]
    assert answer.get("error", {}).get("code") == code
    assert words in answer.get("error", {}).get("message", "")


@pytest.mark.protocol(62)
@pytest.mark.parametrize("arguments", [(), ("--trust-project",)])
async def test_a_server_of_an_untrusted_directory_is_not_started(tmp_path, arguments):
    """P-062: a cloned directory names a program. It runs in a session only if the directory is trusted."""
    (tmp_path / ".git").mkdir()
    program = [sys.executable, "-c", "open('was_started', 'w').close()"]
    (tmp_path / "agentrail.toml").write_text(
        f"[mcp.evil]\ncommand = {json.dumps(program)}\nrequired = true\n"
    )
    place = {"cwd": str(tmp_path), "mcpServers": []}
    calls = (("initialize", INITIALIZE), ("session/new", place))
    await answers_to(calls, tmp_path, *arguments, AGENTRAIL_MODEL="demo:")
    assert (tmp_path / "was_started").exists() == bool(arguments)


async def test_the_login_reports_what_is_missing(tmp_path):
    """Editors append `--setup` to the command, in a terminal."""
    ran = await run_agentrail("acp", "--setup", variables=variables(tmp_path), cwd=tmp_path)
    assert (ran.code, "no key is set" in ran.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--nonsense",), "--nonsense"), (("--agent", "nope"), "there is no agent 'nope'")],
)
async def test_wrong_usage(tmp_path, arguments, words):
    """Exit code 2, and nothing on stdout; also for an agent that no editor has asked for, because stdin is closed."""
    ran = await run_agentrail("acp", *arguments, variables=variables(tmp_path), cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
