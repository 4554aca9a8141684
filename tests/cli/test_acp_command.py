"""`agentrail acp` as editors start it, without a model, with a wrong configuration, and in a terminal."""

import json
import os
import subprocess
import sys

import pytest

KEYS = ("ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE", "AGENTRAIL")


def start(cwd, *arguments, **more):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(KEYS)}
    environ |= {"HOME": str(cwd), "AGENTRAIL_DATA_DIR": str(cwd), **more}
    command = [sys.executable, "-m", "agentrail", "acp", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=cwd, env=environ)


def answers_to(calls, cwd, *arguments, **environ):
    answers = []
    with start(cwd, *arguments, **environ) as editor:
        for number, (method, params) in enumerate(calls):
            said = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            editor.stdin.write(json.dumps(said) + "\n")
            editor.stdin.flush()
            answers.append(json.loads(editor.stdout.readline()))
        editor.communicate(timeout=20)
    assert editor.returncode == 0
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
def test_what_prevents_a_session_is_said_to_the_editor(tmp_path, arguments, environ, code, words):
    """`initialize` is answered in any case, and offers a login where the editor has a terminal."""
    initialized, answer = answers_to(
        (("initialize", INITIALIZE), ("authenticate", {})), tmp_path, *arguments, **environ
    )
    assert initialized["result"]["authMethods"][0]["args"] == ["--setup"]
    assert answer.get("error", {}).get("code") == code
    assert words in answer.get("error", {}).get("message", "")


@pytest.mark.protocol(62)
@pytest.mark.parametrize("arguments", [(), ("--trust-project",)])
def test_a_server_of_an_untrusted_directory_is_not_started(tmp_path, arguments):
    """P-062: a cloned directory names a program. It runs in a session only if the directory is trusted."""
    (tmp_path / ".git").mkdir()
    program = [sys.executable, "-c", "open('was_started', 'w').close()"]
    (tmp_path / "agentrail.toml").write_text(
        f"[mcp.evil]\ncommand = {json.dumps(program)}\nrequired = true\n"
    )
    place = {"cwd": str(tmp_path), "mcpServers": []}
    calls = (("initialize", INITIALIZE), ("session/new", place))
    answers_to(calls, tmp_path, *arguments, AGENTRAIL_MODEL="demo:")
    assert (tmp_path / "was_started").exists() == bool(arguments)


def test_the_login_reports_what_is_missing(tmp_path):
    """Editors append `--setup` to the command, in a terminal."""
    with start(tmp_path, "--setup") as terminal:
        assert "no key is set" in terminal.communicate(timeout=20)[0]
    assert terminal.returncode == 0


def test_wrong_usage(tmp_path):
    """Exit code 2, and nothing on stdout."""
    with start(tmp_path, "--nonsense") as editor:
        assert editor.communicate(timeout=20)[0] == ""
    assert editor.returncode == 2
