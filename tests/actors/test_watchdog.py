"""The last resort of a program that owns its process: a stop that takes too long ends the process."""

import subprocess
import sys
import threading

import pytest
import trio

from agentrail.actors import open_supervisor, worker
from agentrail.otp.child_specs import ChildSpec
from tests.actors.rig import on_virtual_time
from tests.thinned import first

BLOCKED = """
import sys
import threading

import trio

from agentrail.actors import worker
from agentrail.actors import open_supervisor
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags


def never_return():
    threading.Event().wait()


async def block():
    try:
        await trio.sleep_forever()
    finally:
        never_return()


async def main():
    children = [ChildSpec("block", worker(block))]
    async with open_supervisor(SupervisorFlags("one_for_one"), children, exit_process_after_seconds=0.05):
        await trio.testing.wait_all_tasks_blocked()
        print("the stop begins", flush=True)


import trio.testing

{before}
trio.run(main)
"""


def _run(before: str = "") -> "subprocess.CompletedProcess[str]":
    script = BLOCKED.replace("{before}", before)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )


def test_blocked_stop_ends_the_process():
    """A child blocks the whole process as it ends: status 70, and the stacks of all threads on stderr."""
    ended = _run()
    assert (ended.returncode, ended.stdout) == (70, "the stop begins\n"), ended.stderr
    assert "never_return" in ended.stderr, "what blocks the process is to be seen"
    assert "_end_process" in ended.stderr, "the other threads are to be seen too"


@pytest.mark.parametrize("before", first(["sys.stderr = None", "import io; sys.stderr = io.StringIO()"]))
def test_process_without_a_stderr_ends_all_the_same(before):
    """The dump may be lost, the end is not."""
    assert _run(before).returncode == 70


@on_virtual_time
async def test_stop_in_time_calls_the_watchdog_off(stage):
    """It is set when the stop begins, once, and called off when all children are gone."""
    others = {*threading.enumerate()}
    seen = []

    def watchdogs():
        return [one for one in {*threading.enumerate()} - others if isinstance(one, threading.Timer)]

    async def serve():
        try:
            await trio.sleep_forever()
        finally:
            seen.extend(watchdogs())

    children = [ChildSpec(name, worker(serve)) for name in "ab"]
    async with open_supervisor(stage.flags(), children, exit_process_after_seconds=3_600):
        assert watchdogs() == []
    first, second = seen
    assert first is second
    assert first.daemon, "it may not keep a process alive that has ended otherwise"
    assert first.finished.is_set(), "it was not called off"
