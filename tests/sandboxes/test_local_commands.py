"""`LocalSandbox`, commands: what they see, what is shown of them, and that nothing of them is left."""

import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail.abc import ExecuteOptions, ExecuteResult, Refusal
from agentrail.sandboxes import process_tree
from agentrail.sandboxes.local import LocalSandbox
from tests.sandboxes.rig import count_alive, make_sandbox

# The real clock: no virtual one sees processes at work. Each test has its own variable in the environment of all that
# it starts, so that it finds them again whatever they did, and looks at nobody else's.
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc"
)
HANGS = 60
STUBBORN = 'trap "" TERM; sleep 1000 & echo > ready; wait'


@pytest.fixture(params=["confined", "unconfined"])
def sandbox(request, tmp_path, monkeypatch):
    """A sandbox on an empty directory, whose commands carry `TEST_TREE`, with bubblewrap and without."""
    return make_sandbox(request.param, tmp_path, monkeypatch)


@pytest.fixture
def alive(tmp_path):
    """Count the processes that the test started and that run."""
    return partial(count_alive, f"TEST_TREE={tmp_path}")


async def _run(sandbox: LocalSandbox, command: str, *, within_seconds: float = HANGS) -> ExecuteResult:
    with trio.fail_after(HANGS):
        result = await sandbox.execute(command, ExecuteOptions(timeout_seconds=within_seconds))
    assert result.error is None
    return result


@pytest.fixture
def unconfined(tmp_path, monkeypatch):
    """A sandbox on an empty directory, as where there is no bubblewrap."""
    return make_sandbox("unconfined", tmp_path, monkeypatch)


@pytest.fixture
def wait_ready(tmp_path):
    """Wait until a command has written into the pipe `ready`."""
    os.mkfifo(tmp_path / "ready")
    reading = os.open(tmp_path / "ready", os.O_RDONLY | os.O_NONBLOCK)

    async def wait() -> None:
        await trio.lowlevel.wait_readable(reading)

    yield wait
    os.close(reading)


# --- what a command sees and says


async def test_huge_output_is_cut_in_the_middle(sandbox):
    """The beginning, a note, the end; the command goes on to its end."""
    result = await _run(sandbox, "seq 100000")
    lines = result.output.splitlines()
    assert lines[0] == "1"
    assert lines[-1] == "100000"
    assert result.truncated
    assert result.output_path is not None
    assert (
        lines[400]
        == f"[… 98,000 lines left out; full output in {result.output_path}, read it with read_file …]"
    )
    page = await sandbox.read(result.output_path, offset=50_000, limit=1)
    assert (page.text, page.total_lines) == ("50000\n", 100_000)
    assert result.exit_code == 0


async def test_a_command_that_cannot_be_one_is_refused(sandbox):
    """A NUL ends an argument, a lone surrogate has no bytes, and an argument may not be too long, as the system says."""
    for command in ("echo \0", "echo \ud800"):
        result = await sandbox.execute(command, ExecuteOptions())
        assert result.error is not None
        assert result.error.code == "invalid_command"
    result = await sandbox.execute("#" * 10_000_000, ExecuteOptions())
    assert result.error == Refusal(
        code="not_started", message="The command could not be started: Argument list too long."
    )


async def test_without_a_shell_there_are_no_commands(monkeypatch, tmp_path):
    """And the model is told so, in place of a path that it does not know."""
    monkeypatch.setenv("PATH", str(tmp_path))
    result = await LocalSandbox(tmp_path).execute("true", ExecuteOptions())
    assert result.error is not None
    assert result.error.code == "unsupported"


# --- and that nothing is left


async def test_a_command_is_stopped_when_its_time_is_up(sandbox, alive):
    """With what it had printed by then, and with all that it had started."""
    result = await _run(sandbox, "echo before; sleep 1000 & sleep 1000; echo after", within_seconds=1)
    assert result.output == "before\n"
    assert (result.exit_code, result.signal, result.timed_out) == (None, None, True)
    assert result.stopped_processes == 0
    assert alive() == 0


async def test_a_command_may_clean_up(sandbox, alive, wait_ready, tmp_path):
    """`SIGTERM` comes first, also to what has left the group, and all handlers are waited for, not only the first's."""
    handler = "trap 'sleep {}; touch {}; exit' TERM"
    daemon = f"{handler.format(0.5, 'daemon')}; echo > begun; while :; do sleep 0.01; done"
    command = f'{handler.format(0.1, "cleaned")}; setsid bash -c "{daemon}" & until [ -f begun ]; do :; done; echo > ready; wait'
    with trio.fail_after(HANGS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run, sandbox, command)
            await wait_ready()
            nursery.cancel_scope.cancel()
    assert (tmp_path / "cleaned").exists()
    assert (tmp_path / "daemon").exists()
    assert alive() == 0


async def test_who_ignores_sigterm_is_killed(sandbox, alive, wait_ready):
    """Two seconds later, by a signal that cannot be ignored."""
    with trio.fail_after(HANGS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run, sandbox, STUBBORN)
            await wait_ready()
            nursery.cancel_scope.cancel()
    assert alive() == 0


@pytest.mark.parametrize(
    ("command", "stopped"),
    [
        ("sleep 1000 & setsid sleep 1000 & (sleep 1000 &) ; nohup sleep 1000 >/dev/null 2>&1 & echo done", 4),
        (f"(setsid bash -c '{STUBBORN}' &); until [ -s ready ]; do :; done; echo done", 2),
    ],
)
async def test_what_is_left_in_the_background_is_stopped(sandbox, alive, command, stopped):
    """In the group or out of it by `setsid`, `nohup` or a double fork; and the pipe that it holds is not waited for."""
    result = await _run(sandbox, command)
    assert (result.output, result.exit_code) == ("done\n", 0)
    assert result.stopped_processes == stopped
    assert alive() == 0


async def test_what_cannot_be_found_is_not_waited_for(unconfined, tmp_path):
    """A process that leaves its group and clears its environment escapes; its pipe does not hold the answer up."""
    command = "env -i setsid sh -c 'echo $$ > pid; echo from afar; while :; do sleep 1; done' & until [ -s pid ]; do :; done"
    try:
        result = await _run(unconfined, command)
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert result.exit_code == 0
    assert result.stopped_processes == 0


async def test_without_proc_the_group_is_still_stopped(unconfined, alive, monkeypatch, tmp_path):
    """Elsewhere than on Linux there is the group alone, and it counts as one process."""
    (tmp_path / "a").mkdir()
    monkeypatch.setattr(process_tree, "PROC", tmp_path / "no-proc")
    assert (await _run(unconfined, "sleep 1000 & sleep 1000 & echo done")).stopped_processes == 1
    assert alive() == 0
    assert (await _run(unconfined, "echo done")).stopped_processes == 0
    assert (await _run(unconfined, "sleep 1000", within_seconds=0.1)).timed_out
    result = await unconfined.execute("pwd", ExecuteOptions(workdir="a"))
    assert result.output == f"{tmp_path}/a\n"
    assert alive() == 0


async def test_trees_that_end_together_are_looked_for_together(monkeypatch):
    """One reading of all processes serves all who came before it began, also if the one who asked for it is cancelled."""
    began, ends = threading.Event(), threading.Event()
    found = []

    def listed(place):
        found.append(place)
        began.set()
        ends.wait(HANGS)
        return []

    monkeypatch.setattr(process_tree.os, "listdir", listed)
    tree = process_tree.ProcessTree(group=1 << 30, token="")
    with trio.fail_after(HANGS):
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(tree.stop)
            await trio.to_thread.run_sync(began.wait)
            scopes = [trio.CancelScope() for _ in range(3)]
            for scope in scopes:
                nursery.start_soon(_stop_within, scope, tree)
                await trio.testing.wait_all_tasks_blocked()
            scopes[0].cancel(reason="the two others wait for the reading that it asked for")
            ends.set()
    assert [scope.cancelled_caught for scope in scopes] == [True, False, False]
    assert len(found) == 2  # one for the fifty, and one for those that came while it ran


async def _stop_within(scope, tree):
    with scope:
        await tree.stop()
