"""`no_orphans`: it notices each kind of thing that may be left, names it, and waits for what is just ending."""

# ruff: noqa: ASYNC220, ASYNC222, ASYNC240, PT012 - leaving things behind, the wrong way, is what is tested

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from agentrail.testing import orphans
from agentrail.testing.orphans import no_orphans, take_census
from tests.garbage import without_collector

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="only /proc lists processes and descriptors"
)


@pytest.fixture(params=["lists", "scan"])
def kernel(request, monkeypatch):
    """A kernel that keeps lists of children, where this one does; and one that keeps none, where all processes are looked at."""
    if request.param == "scan":
        monkeypatch.setattr(orphans, "_has_lists", lambda: False)


@needs_proc
async def test_a_child_process_is_noticed(kernel):
    """With its number and name, and also when it has ended and nobody has waited for it."""
    process = None
    with pytest.raises(AssertionError, match=r"process \d+ \(sleep, alive\)"):
        async with no_orphans(within_seconds=0):
            process = subprocess.Popen(["sleep", "1000"])
            while Path(f"/proc/{process.pid}/comm").read_text().strip() != "sleep":
                await trio.lowlevel.checkpoint()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert take_census().processes[process.pid] == f"process {process.pid} (sleep, ended, never waited for)"
    process.wait()
    assert process.pid not in take_census().processes


RUNAWAY = """
import os, sys
if os.fork():
    sys.exit()  # its parent is gone
os.setsid()  # and its group is left
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.close(1)
os.execvp("sleep", ["sleep", sys.argv[1]])
"""


async def run_away(seconds):
    ran = await trio.run_process([sys.executable, "-c", RUNAWAY, seconds], capture_stdout=True)
    return int(ran.stdout)


only_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only init can adopt")


@only_linux
async def test_a_grandchild_that_ran_away_is_noticed(kernel):
    """A double fork and a session of its own would give it to init; it is found all the same, and buried if it has ended."""
    pid = 0
    with pytest.raises(AssertionError, match=r"process \d+ \(sleep, alive\)"):
        async with no_orphans(within_seconds=0):
            pid = await run_away("1000")
            while Path(f"/proc/{pid}/comm").read_text().strip() != "sleep":
                await trio.lowlevel.checkpoint()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    async with no_orphans():
        pid = await run_away("0")
    assert not Path(f"/proc/{pid}").exists()


@only_linux
async def test_nothing_is_buried_while_a_process_is_being_started():
    """By another thread, whose `Popen` has no number yet: what has ended may be its child, for which it waits."""
    starting = subprocess.Popen.__new__(subprocess.Popen)
    with pytest.raises(AssertionError, match=r"\(sleep, ended, never waited for\)"):
        async with no_orphans(within_seconds=0):
            pid = await run_away("0")
            while ") Z " not in Path(f"/proc/{pid}/stat").read_text():
                await trio.lowlevel.checkpoint()
    del starting
    async with no_orphans():
        assert os.waitpid(pid, 0)[0] == pid


@needs_proc
@pytest.mark.parametrize("patience", [0, 5])
async def test_what_lies_in_a_reference_cycle_is_carried_out(patience):
    """It is garbage already: a descriptor that goes with it is not left behind."""

    class Holder:
        def __init__(self) -> None:
            self.me = self
            self.descriptor = os.open(os.devnull, os.O_RDONLY)

        def __del__(self) -> None:
            os.close(self.descriptor)

    with without_collector():
        async with no_orphans(within_seconds=patience):
            Holder()


async def test_a_slow_machine_gets_time_for_what_is_ending(monkeypatch):
    """One look can take all the time, in which no task of this thread can end. Under load, tests with grandchildren failed so."""
    looks = []

    def slow_look():
        looks.append(take_census())
        return looks[-1]

    slow_clock = SimpleNamespace(monotonic=lambda: 1e9 * len(looks), sleep=time.sleep)
    monkeypatch.setattr(orphans, "take_census", slow_look)
    monkeypatch.setattr(orphans, "time", slow_clock)
    async with no_orphans():
        trio.lowlevel.spawn_system_task(trio.sleep, 0.001)
    assert len(looks) > 2


@needs_proc
async def test_living_processes_are_seen_without_a_walk_through_the_heap(monkeypatch):
    """In a large process, such a walk takes a second, and there was one at each look."""
    monkeypatch.setattr(orphans, "_bury_adopted", lambda _: pytest.fail("went through the heap"))
    monkeypatch.setattr(orphans, "_LOOKS_BEFORE_COLLECTING", 1)
    process = None
    with pytest.raises(AssertionError, match=r"process \d+ \(\w+, alive\)"):
        async with no_orphans(within_seconds=0):
            process = subprocess.Popen(["sleep", "1000"])
    process.kill()
    process.wait()
