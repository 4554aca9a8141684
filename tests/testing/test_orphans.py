"""`no_orphans`: it notices each kind of thing that may be left, names it, and waits for what is just ending."""

# ruff: noqa: ASYNC220, ASYNC222, ASYNC240, PT012 - leaving things behind, the wrong way, is what is tested

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from agentrail.testing import orphans
from agentrail.testing.orphans import Census, decide_left, no_orphans, take_census

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="only /proc lists processes and descriptors"
)


@pytest.fixture(params=["lists", "scan"])
def kernel(request, monkeypatch):
    """A kernel that keeps lists of children, where this one does; and one that keeps none, where all processes are looked at."""
    if request.param == "scan":
        monkeypatch.setattr(orphans, "_has_lists", lambda: False)


async def test_nothing_left_is_fine():
    """Tasks, threads, processes and files that came and went leave nothing to say."""
    async with no_orphans():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.checkpoint)
        await trio.to_thread.run_sync(os.getpid)
        await trio.run_process([sys.executable, "-c", ""])
        with Path(__file__).open() as file:  # noqa: ASYNC230 - one line of our own source
            file.readline()


async def test_a_task_is_noticed():
    """By name, also when it lives in a nursery outside of the block."""
    async with trio.open_nursery() as nursery:
        with pytest.raises(AssertionError, match=r"left behind after 0 s: task 'left-over'"):
            async with no_orphans(within_seconds=0):
                nursery.start_soon(trio.sleep_forever, name="left-over")
                await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_a_thread_is_noticed():
    """By name; the idle ones that Trio keeps for later are not meant."""
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="left-over")
    with pytest.raises(AssertionError, match="thread 'left-over'"):
        async with no_orphans(within_seconds=0):
            thread.start()
    go.set()
    thread.join()


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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only init can adopt")
async def test_a_grandchild_that_ran_away_is_noticed(kernel):
    """A double fork and a session of its own would give it to init; it is found all the same."""
    pid = 0
    with pytest.raises(AssertionError, match=r"process \d+ \(sleep, alive\)"):
        async with no_orphans(within_seconds=0):
            ran = await trio.run_process([sys.executable, "-c", RUNAWAY, "1000"], capture_stdout=True)
            pid = int(ran.stdout)
            while Path(f"/proc/{pid}/comm").read_text().strip() != "sleep":
                await trio.lowlevel.checkpoint()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only init can adopt")
async def test_a_grandchild_that_ended_is_buried(kernel):
    """Who runs away and ends leaves nothing: what init would have done is done in its place."""
    async with no_orphans():
        ran = await trio.run_process([sys.executable, "-c", RUNAWAY, "0"], capture_stdout=True)
    assert not Path(f"/proc/{int(ran.stdout)}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only init can adopt")
async def test_only_the_block_adopts():
    """Behind it children of the dead go where they went before."""
    async with no_orphans():
        pass
    ran = await trio.run_process([sys.executable, "-c", RUNAWAY, "1000"], capture_stdout=True)
    assert int(ran.stdout) not in take_census().processes
    os.kill(int(ran.stdout), signal.SIGKILL)


@needs_proc
async def test_a_file_and_a_socket_are_noticed(tmp_path):
    """With number and target."""
    path = tmp_path / "left-over"
    path.touch()
    descriptor = None
    left = None
    with pytest.raises(AssertionError) as caught:
        async with no_orphans(within_seconds=0):
            descriptor = os.open(path, os.O_RDONLY)
            left = socket.socket()
    assert f"file descriptor {descriptor} to {path}" in str(caught.value)
    assert f"file descriptor {left.fileno()} to socket:[" in str(caught.value)
    os.close(descriptor)
    left.close()


async def test_it_waits_for_what_is_just_ending():
    """A task that needs a few steps more, and a thread that needs a moment."""
    go = threading.Event()
    async with trio.open_nursery() as nursery, no_orphans():

        async def end_soon() -> None:
            for _ in range(100):
                await trio.lowlevel.checkpoint()
            go.set()

        nursery.start_soon(end_soon)
        threading.Thread(target=go.wait).start()


async def test_it_waits_in_real_time_on_a_virtual_clock(autojump_clock):
    """A virtual clock jumps over threads and processes; the wait does not."""
    begun_at = autojump_clock.current_time()
    timer = threading.Timer(0.02, lambda: None)
    async with no_orphans():
        timer.start()
    assert not timer.is_alive()
    assert autojump_clock.current_time() == begun_at


async def test_an_exception_of_the_block_leaves_as_it_is():
    """What went wrong first is what is told."""
    async with trio.open_nursery() as nursery:
        with pytest.raises(KeyError):
            async with no_orphans():
                nursery.start_soon(trio.sleep_forever)
                raise KeyError
        nursery.cancel_scope.cancel()


def test_what_is_left_is_the_difference():
    """Whatever was there before is not ours; what has gone does not matter."""
    before = Census(tasks={}, threads={1: "thread 'a'", 2: "thread 'b'"}, processes={}, files={})
    after = Census(
        tasks={}, threads={2: "thread 'b'"}, processes={7: "process 7"}, files={(3, "x"): "file 3"}
    )
    assert decide_left(before, after) == ("process 7", "file 3")


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

    gc.disable()
    try:
        async with no_orphans(within_seconds=patience):
            Holder()
    finally:
        gc.enable()
