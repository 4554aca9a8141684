"""What a run that died has left behind is ended by the next one, and never a process that merely has its number (docs: durability)."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

import msgspec
import pytest
import trio

from agentrail import orphaned_processes, tool
from agentrail.abc import ExecuteOptions, ToolContext
from agentrail.orphaned_processes import (
    MARKER,
    NotedProcess,
    ProcessList,
    end_left_processes,
    keep_list,
    list_beside,
)
from agentrail.sandboxes import command_process
from agentrail.sandboxes.local import LocalSandbox
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import ScriptedModel
from agentrail.testing.supervisors import open_nameless
from tests.sandboxes.rig import need_bubblewrap

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")

# Of this process alone: what has a mark is found wherever it runs, and the tests run in several.
MARK = f"{os.getpid():016x}"
CUT = f"c{MARK[1:]}"


@pytest.fixture
def store(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
def started():
    """Start processes as commands are, each in a group of its own; after the test none is left."""
    ours = []

    def start(*command, mark=MARK):
        environment = {**os.environ, MARKER: mark}
        ours.append(subprocess.Popen(command or ("sleep", "60"), env=environment, start_new_session=True))
        return ours[-1]

    yield start
    for one in ours:
        one.kill()
        one.wait()
    end_marked()


def end_marked():
    """End what they have started in turn, and wait for its end: it has the mark too, and the next test would find it."""
    while left := list(left_marked()):
        for number in left:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.001)


def left_marked():
    """Those that have the mark of these tests and are alive: what is over has no environment."""
    marks = [f"{MARKER}={mark}\0".encode() for mark in (MARK, CUT)]
    for told in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is over, or another user's
            if any(mark in told.read_bytes() for mark in marks):
                yield int(told.parent.name)


def noted(process, **changes):
    status = orphaned_processes.read_process_status(process.pid)
    one = NotedProcess(
        pid=process.pid,
        started=status.started,
        boot=orphaned_processes._boot(),  # noqa: SLF001
        mark=MARK,
    )
    return msgspec.structs.replace(one, **changes)


DEAD_RUN = NotedProcess(pid=os.getpid(), started=1, boot="another")


def leave(store, *lines, name="n-1", tail=b""):
    """Leave the list of a run that is dead."""
    path = store.with_name(f"{store.name}.{name}.processes")
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in (DEAD_RUN, *lines)) + tail)
    path.chmod(0o600)
    return path


def is_alive(process):
    return process.poll() is None


def test_what_is_left_is_killed_and_the_list_is_gone(store, started):
    """With all of its group, and with what left that and carries its mark."""
    process = started("sh", "-c", "sleep 60 & setsid sleep 60 & wait")
    other = started(mark="another")
    # Until one has left the group: in between it would be killed as one of the group, and counted once more as one with the mark.
    while len(marked()) < 3 or len({os.getpgid(one) for one in left_marked()}) < 2:
        time.sleep(0.005)
    path = leave(store, noted(process))
    assert end_left_processes(store) == 3
    assert process.wait(5) == -signal.SIGKILL
    while marked():
        time.sleep(0.005)
    assert is_alive(other)
    assert not path.exists()


def test_what_was_killed_has_ended_afterwards(store, started, monkeypatch):
    """A process ends later than it is killed, if it waits for a disk or for a processor: a node counts as gone from here on."""

    def kill_later(_descriptor, number):
        Timer(0.2, process.send_signal, (number,)).start()  # of an ended process nothing

    process = started()
    leave(store, noted(process))
    monkeypatch.setattr(signal, "pidfd_send_signal", kill_later)
    assert end_left_processes(store) == 1
    assert orphaned_processes.read_process_status(process.pid) is None


def marked():
    return with_marks([MARK])


def test_a_process_that_merely_has_the_number_lives(store, started):
    """Another start, another boot; or one that was seen to end. Nor are 0, 1 and the number of this very process killed."""
    process, own = started(), type("Own", (), {"pid": os.getpid()})
    for lines in (
        [noted(process, started=7, mark="x")],
        [noted(process, boot="another")],
        [noted(process), noted(process, ended=True)],
        [*(noted(own, pid=pid) for pid in (0, 1, -1)), noted(own, mark="")],
    ):
        leave(store, *lines)
        assert end_left_processes(store) == 0, lines
        assert is_alive(process)


def test_a_list_that_is_damaged_is_read_as_far_as_it_can_be(store, started, caplog):
    """A line that is none, and one that was cut in the middle: both are told, and the others count."""
    process, cut = started(), started(mark=CUT)
    tail = b"{]\n\xff\xfe\n" + msgspec.json.encode(noted(cut, mark=CUT))
    leave(store, noted(process), tail=tail)
    assert end_left_processes(store) == 1
    assert is_alive(cut)
    for line in (3, 4, 5):
        assert f"line {line} is ignored" in caplog.text


@pytest.mark.parametrize("what", ["link", "hard link", "mode", "directory", "pipe"])
def test_what_others_may_have_put_there_is_not_read(store, started, what, caplog):
    """A link, a file that others may read, and what is no file: it stays, and nothing is killed for it."""
    process = started()
    path = leave(store, noted(process))
    aside = path.with_name("aside")
    if what == "mode":
        path.chmod(0o644)
    elif what == "hard link":
        aside.hardlink_to(path)
    else:
        path.rename(aside)
        {
            "link": lambda: path.symlink_to(aside),
            "directory": path.mkdir,
            "pipe": lambda: os.mkfifo(path, 0o600),
        }[what]()
    assert end_left_processes(store) == 0
    assert is_alive(process)
    assert os.path.lexists(path)
    assert str(path) in caplog.text


def test_the_list_of_a_run_that_is_alive_is_left_alone(store, started):
    """Two supervisors over one store, in one process or two: none ends what the other has at work."""
    process = started()
    first = list_beside(store, "n-1")
    first.started(process.pid, MARK)
    assert end_left_processes(store) == 0
    assert is_alive(process)
    first.ended(process.pid, MARK)
    first.close()
    assert not list(store.parent.iterdir())


def test_a_long_run_has_a_short_list(store, started, monkeypatch):
    """What has ended is left out now and then; what is alive stays, also when it is closed: the next run looks again."""
    monkeypatch.setattr(orphaned_processes, "MAX_ENDED_NOTED", 5)
    one = list_beside(store, "n-1")
    alive, other = started(), started()
    one.started(alive.pid, MARK)
    for _ in range(50):
        one.started(other.pid, MARK)
        one.ended(other.pid, MARK)
    (path,) = store.parent.iterdir()
    lines = path.read_bytes().splitlines()
    assert len(lines) < 20
    assert any(msgspec.json.decode(line)["pid"] == alive.pid for line in lines)
    one.close()
    one.close()
    assert [*store.parent.iterdir()] == [path]
    assert path.stat().st_mode & 0o777 == 0o600


@contextmanager
def full_disk(most):
    """No file of this process grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_once_a_full_disk_has_room_again_processes_are_recorded(store, started, monkeypatch):
    """Neither half a line nor half a file is left of earlier attempts: it would spoil the next line, or refuse the next file."""
    one = list_beside(store, "n-1")
    first, second = started(), started()
    with full_disk(20):  # half of the first line
        one.started(first.pid, MARK)
    one.started(first.pid, MARK)
    (path,) = store.parent.iterdir()
    with full_disk(path.stat().st_size + 20):
        one.started(second.pid, MARK)
    one.started(second.pid, MARK)
    assert [msgspec.json.decode(line)["pid"] for line in path.read_bytes().splitlines()] == [
        os.getpid(), first.pid, second.pid,
    ]  # fmt: skip
    monkeypatch.setattr(orphaned_processes, "MAX_ENDED_NOTED", 0)
    with full_disk(path.stat().st_size - 20):
        one.ended(first.pid, MARK)
    assert [*store.parent.iterdir()] == [path]
    one.ended(second.pid, MARK)
    assert len(path.read_bytes().splitlines()) == 1
    one.close()


def test_a_link_where_the_list_should_be_is_not_written_through(store, started, caplog):
    """The file that it points to stays as it is, and commands run all the same."""
    target = store.with_name("target")
    target.write_bytes(b"precious")
    path = store.with_name("sessions.db.n-1.processes")
    path.symlink_to(target)
    one = ProcessList(path)
    one.started(started().pid, MARK)
    one.close()
    assert target.read_bytes() == b"precious"
    assert "processes cannot be recorded in " in caplog.text


def test_where_there_is_no_proc_nothing_is_killed(store, started, monkeypatch, tmp_path, caplog):
    """It is said in the log."""
    process = started()
    path = leave(store, noted(process))
    monkeypatch.setattr(orphaned_processes, "_PROC", tmp_path / "nothing")
    assert end_left_processes(store) == 0
    one = list_beside(store, "n-2")
    one.started(process.pid, MARK)
    one.close()
    monkeypatch.undo()
    assert is_alive(process)
    assert path.exists()
    assert "/proc" in caplog.text


async def test_what_tools_start_is_noted_beside_the_store(tmp_path):
    """While it runs, and not when the supervisor has closed; and a new supervisor ends what a dead one left."""
    kept = SqliteStore(os.fspath(tmp_path / "sessions.db"))
    seen = []

    @tool
    async def open_one(ctx: ToolContext) -> str:
        """Open a process, and look at the list."""
        process = await ctx.open_process(["sleep", "60"])
        (path,) = tmp_path.glob("*.processes")
        seen.append((process.pid, [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]))
        return "done"

    def make_sandbox(_name, root):
        return LocalSandbox(root, shell_fallback="unconfined")

    try:
        async with open_nameless(make_sandbox, store=kept) as supervisor:
            outcome = await supervisor.call_tool(
                "open_one", {}, model=ScriptedModel([]), tools=[open_one], working_dir=str(tmp_path)
            )
    finally:
        kept.close()
    assert outcome.text == "done"
    ((pid, (run, *_, one)),) = seen
    assert (run["pid"], one["pid"]) == (os.getpid(), pid)
    assert not list(tmp_path.glob("*.processes"))


async def test_a_crash_while_bubblewrap_prepares_leaves_no_command(tmp_path, monkeypatch):
    """Bubblewrap's first process outlives the other one, and starts the command: the next run finds it by its mark."""
    need_bubblewrap()
    store, crashed = tmp_path / "sessions.db", tmp_path / "crashed.db"
    sandbox = LocalSandbox(tmp_path)
    assert (await sandbox.execute("true", ExecuteOptions())).exit_code == 0
    left = []

    async def crash(_reading):
        """End the other one, as the kernel does if this process is killed now, and let the next run look."""
        (path,) = tmp_path.glob("sessions.db.*.processes")
        lines = [msgspec.json.decode(line, type=NotedProcess) for line in path.read_bytes().splitlines()]
        leave(crashed, *lines[1:])
        marks = [one.mark for one in lines[1:] if not one.ended]
        assert marks
        with trio.fail_after(10):
            while len(pair := with_marks(marks)) < 2:  # noqa: ASYNC110 - processes set no event
                await trio.sleep(0.001)
            os.kill(min(pair), signal.SIGKILL)
            while min(pair) in with_marks(marks):  # noqa: ASYNC110 - as above
                await trio.sleep(0.001)
        end_left_processes(crashed)
        left.extend(with_marks(marks))

    monkeypatch.setattr(command_process, "_read_first_pid", crash)
    keep_list(noted := list_beside(store, "n-1"))
    result = await sandbox.execute("sleep 60", ExecuteOptions())
    assert result.error is not None
    assert not left
    noted.close()
    assert not list(tmp_path.glob("*.processes"))


def with_marks(marks):
    wanted = frozenset(f"{MARKER}={mark}".encode() for mark in marks)
    pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal()]
    return [pid for pid in pids if orphaned_processes._is_of(pid, frozenset(), wanted)]  # noqa: SLF001
