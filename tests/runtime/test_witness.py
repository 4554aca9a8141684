"""The witness: a node is reported as gone if its process has ended, and only then."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from agentrail import file_systems
from agentrail.errors import StoreUnavailable
from agentrail.runtime import witness
from agentrail.runtime.witness import Witness
from tests.runtime.nodes import Connection, node_over, shared_store
from tests.runtime.rig import on_bounded_time

needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and flock")

NODE = """
import subprocess, sys, time
from pathlib import Path
from agentrail.runtime.witness import Witness

witness = Witness(Path(sys.argv[1]), sys.argv[2])
witness.find_ended()
witness.open()
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
witness.processes.started(child.pid, "mark-of-" + sys.argv[2])
print(child.pid, flush=True)
time.sleep(600)
"""


@contextmanager
def node_process(directory, node="n-1"):
    """A process that holds the lock of a node, with a process of a tool that outlives it."""
    process = subprocess.Popen([sys.executable, "-c", NODE, str(directory), node], stdout=subprocess.PIPE)
    tool = int(process.stdout.readline())
    try:
        yield process, tool
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        process.stdout.close()
        if is_there(tool):
            os.kill(tool, signal.SIGKILL)


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid):
    end = time.monotonic() + 10
    while is_there(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_there(pid)


@contextmanager
def looking(directory, node="n-2"):
    found = Witness(directory, node)
    try:
        yield found.find_ended()
    finally:
        found.close(was_reported=True)


@needs_proc
@pytest.mark.machine(27)
def test_a_killed_node_is_found_and_the_processes_of_its_tools_have_ended(tmp_path):
    """A killed node is found and the processes of its tools have ended."""
    with node_process(tmp_path) as (process, tool):
        process.kill()
        process.wait()
        assert is_there(tool)
        with looking(tmp_path) as ended:
            assert ended == ("n-1",)
            assert gone(tool)


@needs_proc
@pytest.mark.machine(27)
@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_node_that_runs_or_is_stopped_is_not_found(tmp_path, state):
    """A node that runs or is stopped is not found."""
    with node_process(tmp_path) as (process, tool):
        if state == "stopped":
            process.send_signal(signal.SIGSTOP)
        with looking(tmp_path) as ended:
            assert ended == ()
        assert is_there(tool)


@needs_proc
@pytest.mark.machine(27)
def test_a_copied_directory_says_nothing(tmp_path):
    """A copied directory says nothing."""
    with node_process(tmp_path / "a"):
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        with looking(tmp_path / "b") as ended:
            assert ended == ()


@needs_proc
@pytest.mark.machine(27)
@pytest.mark.parametrize("change", [{"boot": "another"}, {"inode": 1}, {"id": "n-7"}, {"boot": ""}])
def test_a_file_of_another_machine_or_boot_says_nothing(tmp_path, change):
    """A file of another machine or boot says nothing."""
    with node_process(tmp_path) as (process, _):
        process.kill()
        process.wait()
        path = tmp_path / "n-1.node"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        with looking(tmp_path) as ended:
            assert ended == ()


@pytest.mark.machine(27)
def test_a_network_file_system_is_refused_by_name(tmp_path, monkeypatch):
    """A network file system is refused by name."""
    line = f"36 35 98:0 / {tmp_path} rw,noatime - nfs4 server:/export rw\n"
    monkeypatch.setattr(file_systems, "_read_mounts", lambda: line)
    with pytest.raises(StoreUnavailable, match=r"network file system \(nfs4\).*data_dir"):
        Witness(tmp_path, "n-2").find_ended()


def test_a_damaged_file_and_an_unusable_directory(tmp_path):
    """A damaged file and an unusable directory."""
    (tmp_path / "n-1.node").write_bytes(b"\xff{")
    with looking(tmp_path) as ended:
        assert ended == ()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="give a local directory with data_dir"):
        Witness(tmp_path / "file", "n-2").find_ended()


def test_a_clean_end_leaves_no_file(tmp_path):
    """A clean end leaves no file."""
    one = Witness(tmp_path, "n-1")
    one.open()
    assert [path.name for path in tmp_path.iterdir()] == ["n-1.node"]
    with looking(tmp_path) as ended:
        assert ended == ()
    one.close(was_reported=True)
    one.close(was_reported=True)
    assert list(tmp_path.iterdir()) == []


@needs_proc
@pytest.mark.machine(27)
@on_bounded_time
async def test_the_successor_reports_the_node_once_its_processes_have_ended_and_before_it_serves(
    tmp_path, monkeypatch
):
    """The successor reports the node once its processes have ended and before it serves."""
    store, _ = shared_store()
    order = []

    class Watched(Connection):
        def _call(self, name, *args, **options):
            if name in {"gone", "beat"}:
                order.append((name, is_there(tool)))
            return super()._call(name, *args, **options)

    monkeypatch.setattr("tests.runtime.nodes.Connection", Watched)
    with node_process(tmp_path) as (process, tool):
        process.kill()
        process.wait()
        async with node_over(store, state_directory=tmp_path):
            assert [name for name, _ in order[:2]] == ["gone", "beat"]
            assert not order[0][1]
            assert not (tmp_path / "n-1.node").exists()
            await trio.lowlevel.checkpoint()


@needs_proc
@pytest.mark.machine(27)
@on_bounded_time
@pytest.mark.parametrize("refused", ["gone", "*"])
async def test_a_node_that_ends_while_the_store_is_away_is_reported_by_its_successor(tmp_path, refused):
    """Its file stays, because others would otherwise wait for the end of its lease."""
    store, _ = shared_store()
    async with node_over(store, state_directory=tmp_path) as (_, first):
        first.cut(refused)
    (left,) = store.nodes()
    assert left.gone_at_ms == 0
    async with node_over(store, state_directory=tmp_path):
        assert left.id not in [one.id for one in store.nodes()]
    assert list(tmp_path.glob("*.node")) == []


def test_without_a_boot_id_nothing_is_reported(tmp_path, monkeypatch):
    """Without a boot id nothing is reported."""
    monkeypatch.setattr(witness, "_BOOT", tmp_path / "missing")
    one = Witness(tmp_path, "n-1")
    one.open()
    os.close(one._file)  # noqa: SLF001 - as the kernel does when the process ends
    one._file = -1  # noqa: SLF001 - same
    with looking(tmp_path) as ended:
        assert ended == ()
