"""`agentrail sandbox serve`: what it refuses before anything is opened, and what it serves as a process of its own."""

import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from agentrail.abc import ExecuteOptions
from agentrail.app import make_sandbox, open_supervisor
from agentrail.cli.sandbox_command import SandboxOptions, check_sandbox_options, open_socket, tokens_for
from agentrail.errors import OptionError
from agentrail.runtime.session_options import SessionOptions
from agentrail.sandboxes.remote.operations import SANDBOX_TOKEN_VARIABLE
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin

TOKEN = "agt_0123456789abcdef_of_a_test"  # noqa: S105 - of a test


def test_what_would_let_strangers_read_along_is_refused():
    """TLS, or this machine alone, unless it is said that it is meant."""
    tls = {"certfile": Path("c"), "keyfile": Path("k")}
    for options, said in (
        ({"host": "0.0.0.0"}, "others reach --host 0.0.0.0"),  # noqa: S104 - it is refused
        ({"host": "box.example", "certfile": Path("c")}, "belong together"),
        ({"idle_seconds": 0}, "expected a number above 0"),
        ({"socket": Path("s"), **tls}, "--socket is for this machine alone"),
    ):
        with pytest.raises(OptionError, match=said):
            check_sandbox_options(SandboxOptions(**options))
    check_sandbox_options(SandboxOptions(host="0.0.0.0", insecure=True))  # noqa: S104 - as it says
    check_sandbox_options(SandboxOptions(socket=Path("s"), host="elsewhere"))


async def test_the_reason_for_no_socket_is_reported(tmp_path):
    """Also where the system gives it no number."""
    for path, said in ((tmp_path / ("x" * 200), "AF_UNIX path too long"), (tmp_path, "in use")):
        with pytest.raises(OptionError, match=said):
            await open_socket(path)


def test_there_is_no_server_without_a_token():
    """None, one that can be guessed, or one that no header can have: the message says what to do, and does not repeat it."""
    for token in (None, "", "short", "with blanks in it and long enough", "x" * 5_000):
        environ = {} if token is None else {SANDBOX_TOKEN_VARIABLE: token}
        with pytest.raises(OptionError, match=SANDBOX_TOKEN_VARIABLE) as caught:
            tokens_for(SandboxOptions(), environ)
        assert not token or token not in str(caught.value)
    assert tokens_for(SandboxOptions(), {SANDBOX_TOKEN_VARIABLE: TOKEN})({"authorization": f"Bearer {TOKEN}"})


def test_the_name_of_a_sandbox_is_looked_at_with_the_options(tmp_path):
    """By Python, files and flags alike: what can be none is refused before a session begins, and the token comes from the environment alone."""
    for name in ("http://127.0.0.1:8710", "https://box.example?can=execute", "container:acme/tools:1"):
        assert SessionOptions(model="demo:", sandbox=name).sandbox == name
    for name, said in (
        ("http://box.example", "another machine"),
        ("container:--privileged", "name of an image"),
        ("docker:x", "'container:IMAGE'"),
    ):
        with pytest.raises(OptionError, match="sandbox is") as caught:
            SessionOptions(model="demo:", sandbox=name)
        assert said in str(caught.value)
    made = make_sandbox("http://127.0.0.1:8710", tmp_path, environ={SANDBOX_TOKEN_VARIABLE: TOKEN})
    assert made.secrets == (TOKEN,)
    with pytest.raises(OptionError, match=f"set {SANDBOX_TOKEN_VARIABLE}"):
        make_sandbox("http://127.0.0.1:8710", tmp_path)


@asynccontextmanager
async def a_server(*arguments):
    """The command as a process; gives it, and the address that it prints."""
    environ = {**os.environ, SANDBOX_TOKEN_VARIABLE: TOKEN, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "agentrail", "sandbox", "serve", *arguments]
    process = await trio.lowlevel.open_process(command, stdout=-1, stderr=-1, env=environ)
    try:
        with trio.fail_after(60):
            said = b""
            while b"\n" not in said:
                piece = await process.stdout.receive_some()
                assert piece, (await process.stderr.receive_some()).decode()
                said += piece
        yield process, said.decode().strip()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()
            await process.stderr.aclose()


@pytest.mark.check
async def test_a_session_works_in_a_server_of_its_own(tmp_path, tmp_path_factory, monkeypatch):
    """Its tools write and run there, and nothing of it is here; what is stopped in the middle, by `kill -9`, is a result that says where."""
    script = [
        calls(("write_file", {"path": "a.txt", "content": "far away\n"})),
        calls(("shell", {"command": "cat a.txt; pwd"})),
        says("Done."),
        calls(("read_file", {"path": "a.txt"})),
        says("Gone."),
    ]
    seen = []
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("served")))  # a killed server removes nothing
    async with (
        a_server("--port", "0", "--shell-fallback", "unconfined") as (process, address),
        open_supervisor(environ={SANDBOX_TOKEN_VARIABLE: TOKEN}) as supervisor,
    ):
        session = await supervisor.start_session(
            model=ScriptedModel(script),
            tools=builtin("write_file", "shell", "read_file"),
            sandbox=address,
            working_dir=tmp_path,
        )
        assert await session.ask("Go") == "Done."
        process.send_signal(signal.SIGKILL)
        await process.wait()
        with trio.fail_after(60):
            assert await session.ask("Again") == "Gone."
        seen = [str(one) for one in await session.messages()]
    text = "\n".join(seen)
    assert "far away" in text
    assert f"The sandbox at {address} did not answer" in text
    assert TOKEN not in text
    assert not list(tmp_path.iterdir())


@pytest.mark.check
async def test_a_server_ends_at_a_signal_with_its_workspaces(tmp_path, monkeypatch):
    """What a client has there is removed, and what ran is ended; the port is one that it says."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with a_server("--port", "0") as (process, address):
        sandbox = make_sandbox(address, tmp_path, environ={SANDBOX_TOKEN_VARIABLE: TOKEN})
        await sandbox.write("a", "x")
        await sandbox.execute("sleep 1000 & echo $!", ExecuteOptions())
        assert [one.name[:18] for one in tmp_path.iterdir()] == ["agentrail-sandbox-"]
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            assert await process.wait() == 0
        assert not list(tmp_path.iterdir())
        await sandbox.aclose()
