"""Whose processes they are, and what is done when nothing else helps."""

import subprocess
import sys

import psutil  # type: ignore[import-untyped]
from hypothesis import given, strategies as st

from agentrail.cli.ctrl_c import Process, decide_descendants
from tests.cli.rig import alive
from tests.forked import PATIENCE_SECONDS, ROOT, environment

LISTED = st.lists(
    st.builds(Process, pid=st.integers(1, 12), parent=st.integers(0, 12), session=st.integers(1, 12)),
    unique_by=lambda process: process.pid,
).map(tuple)


@given(processes=LISTED, root=st.integers(1, 12))
def test_whatever_is_listed_we_never_count_as_our_own_descendant(processes, root):
    """Loops and strange parents do not make it hang, and never make it kill itself."""
    assert root not in decide_descendants(processes, root)


def test_what_ignores_sigterm_is_killed_with_all_that_it_started():
    """A stubborn command, its child and an orphan in its session are gone after `kill_descendants`."""
    program = """
import subprocess, sys
from agentrail.cli.ctrl_c import kill_descendants
stubborn = "trap '' TERM; (sleep 1000 & echo $!); sleep 1000 & echo $!; wait"
child = subprocess.Popen(["sh", "-c", stubborn], stdout=subprocess.PIPE, text=True, start_new_session=True)
print(child.pid, child.stdout.readline().strip(), child.stdout.readline().strip(), flush=True)
sys.stdin.readline()
kill_descendants()
child.wait()
"""
    given = {"env": environment(), "cwd": ROOT, "text": True}
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **piped, **given) as process:
        assert process.stdout is not None
        below = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        try:
            assert len(alive(below)) == 3
            process.communicate("go\n", timeout=PATIENCE_SECONDS)
            assert process.returncode == 0
            psutil.wait_procs(below, timeout=PATIENCE_SECONDS)
            assert alive(below) == []
        finally:
            for one in (*alive(below), process):
                one.kill()


def test_a_thread_that_nothing_can_stop_does_not_keep_the_process():
    """When an orderly end takes longer than five seconds after the second Ctrl-C, the process ends all the same."""
    program = """
import threading, trio
from trio.testing import MockClock
from agentrail.cli.ctrl_c import leave_at_once

async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave_at_once, trio.CancelScope())
        await trio.to_thread.run_sync(threading.Event().wait)

trio.run(main, clock=MockClock(rate=1000))
"""
    given = {"env": environment(), "cwd": ROOT, "text": True, "timeout": PATIENCE_SECONDS}
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, **given)
    assert (done.returncode, done.stderr) == (130, "")
