"""Programs that nobody here wrote drive our agent: acpx in a terminal, and the official SDK as an editor (11.14)."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT
from tests.conftest import SERVICES

HERE = Path(__file__).parent
AGENT = (sys.executable, str(HERE / "acp_program.py"))
ENVIRON = {**os.environ, "PYTHONPATH": str(CHECKOUT)}


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "notes.md").write_text("one\n")
    return tmp_path


@pytest.mark.check
@pytest.mark.services("acpx", "node 22")
@pytest.mark.protocol(39)
def test_acpx_runs_a_prompt(workspace, tmp_path):
    """P-039: a plan, tools, a permission and a diff: exit code 0."""
    agent = " ".join((*AGENT, "edit"))
    options = ["--approve-all", "--format", "json", "--cwd", str(workspace), "--agent", agent]
    command = [SERVICES["node 22"], SERVICES["acpx"], *options, "exec", "Change the notes"]
    environ = {**ENVIRON, "HOME": str(tmp_path)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environ)
    assert done.returncode == 0, done.stderr
    assert (workspace / "notes.md").read_text() == "two\n"
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    updates = [one["params"]["update"] for one in shown if one.get("method") == "session/update"]
    assert {one["sessionUpdate"] for one in updates} >= {
        "plan",
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
    }
    assert any(one.get("method") == "session/request_permission" for one in shown)
    ended = [one for one in updates if one["sessionUpdate"] == "tool_call_update"]
    assert "diff" in {content["type"] for one in ended for content in one["content"]}


@pytest.mark.check
@pytest.mark.services("acp", "node")
def test_the_sdk_drives_it_as_an_editor(workspace):
    """The official client accepts each message. The edit is made in its buffer, and the session can be loaded."""
    sdk = SERVICES["acp"].parent / "dist" / "v1" / "stable" / "acp.js"
    environ = {"ACP": f"file://{sdk}", "AGENT": json.dumps([*AGENT, "edit"]), "WORKSPACE": str(workspace)}
    command = ["node", str(HERE / "acp_editor.mjs")]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env={**ENVIRON, **environ}
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["answered"]["stopReason"] == "end_turn"
    assert told["asked"] == [["allow_once", "allow_always", "reject_once"]]
    assert told["buffers"] == {f"{workspace}/notes.md": "two, unsaved\n"}
    assert (workspace / "notes.md").read_text() == "one\n"
    assert told["loaded"][0] == "user_message_chunk"
    assert told["code"] == 0


@pytest.mark.protocol(43)
@pytest.mark.parametrize("how", ["closed stdin", "SIGINT"])
def test_an_editor_that_leaves_in_the_middle_of_a_command(workspace, how):
    """P-043: the process is gone within ten seconds, no child is left, and the session can be resumed."""
    store = f"sqlite:{workspace}/store.db"
    with Started("shell", store) as editor:
        editor.call("initialize", protocolVersion=1)
        session = editor.call("session/new", cwd=str(workspace), mcpServers=[])["sessionId"]
        editor.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "sleep"}])
        while "sleep 60" not in children_of(editor.process.pid):
            time.sleep(0.02)
        began = time.monotonic()
        group = children_of(editor.process.pid, pids=True)
        if how == "closed stdin":
            editor.process.stdin.close()
        else:
            editor.process.send_signal(getattr(signal, how))
        assert editor.process.wait(timeout=10) == 0
        assert time.monotonic() - began < 10
    left = subprocess.run(
        ["ps", "-eo", "pid=,stat=,args="], check=True, capture_output=True, text=True
    ).stdout
    rows = [row.split(None, 2) for row in left.splitlines()]
    assert not [row for row in rows if int(row[0]) in group and not row[1].startswith("Z")]
    with Started("edit", store) as editor:
        editor.call("initialize", protocolVersion=1)
        editor.call("session/resume", sessionId=session, cwd=str(workspace))
        again = editor.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Hi"}])
        assert again["stopReason"] == "end_turn"


class Started:
    """The agent as a process, with an editor that allows everything."""

    def __init__(self, *arguments):
        command = [*AGENT, *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=ENVIRON, text=True)
        self.last = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def write(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def send(self, method, **params):
        self.last += 1
        self.write(id=self.last, method=method, params=params)

    def call(self, method, **params):
        self.send(method, **params)
        for line in self.process.stdout:
            said = json.loads(line)
            if said.get("method") == "session/request_permission":
                chosen = {"outcome": "selected", "optionId": "allow_once"}
                self.write(id=said["id"], result={"outcome": chosen})
            elif said.get("id") == self.last:
                assert "error" not in said, said
                return said["result"]
        raise EOFError


def children_of(pid, *, pids=False):
    """The commands of all processes below one, or their ids."""
    rows = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], check=True, capture_output=True, text=True
    ).stdout
    below, found = {pid}, []
    for _ in range(6):
        for row in rows.splitlines():
            one, parent, args = row.split(None, 2)
            if int(parent) in below and int(one) not in below:
                below.add(int(one))
                found.append((int(one), args))
    return [one for one, _ in found] if pids else "\n".join(args for _, args in found)
