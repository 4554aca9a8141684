"""How it is found out whether commands can be confined, and what they may use up."""

import os
import resource
from functools import partial

import pytest
import trio
import trio._core._thread_cache as thread_cache

from agentrail.abc import ExecuteOptions, Refusal
from agentrail.sandboxes import confinement
from agentrail.sandboxes.command_runner import CommandLimits
from agentrail.sandboxes.confinement import Confinement, Trial, probe
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.programs import find_program
from agentrail.sandboxes.protected_mounts import Guard
from agentrail.sandboxes.protected_names import PROTECTED, ProtectedNames
from agentrail.sandboxes.safe_open import find_opener
from tests.sandboxes.rig import count_alive, make_sandbox, need_bubblewrap


async def _output(sandbox: LocalSandbox, command: str, *, timeout_seconds: float = 60) -> str:
    with trio.fail_after(90):
        result = await sandbox.execute(command, ExecuteOptions(timeout_seconds=timeout_seconds))
    assert result.error is None, result
    return result.output


def _pretend(tmp_path, script: str) -> str:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


FORBIDDEN = (
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow it",
    "bwrap: setting up uid map: Permission denied",
    "bwrap: Creating new namespace failed: Operation not permitted",
    "bwrap: Creating new namespace failed, likely because the kernel does not support user namespaces",
)
PASSING = ("bwrap: fork: Resource temporarily unavailable", "bwrap: Cannot allocate memory")


@pytest.mark.parametrize(
    ("script", "why", "is_for_good"),
    [
        *((f"echo '{said}' >&2; exit 1", said, True) for said in FORBIDDEN),
        *((f"echo '{said}' >&2; exit 1", said, False) for said in PASSING),
        ("exit 3", "it exits with 3", False),
        ("kill -9 $$", "it exits with -9", False),
    ],
)
async def test_bubblewrap_is_tried_and_not_believed(tmp_path, script, why, is_for_good):
    """What it says is the reason that is given. A fault that may pass is tried again, and lifts no confinement."""
    program = _pretend(tmp_path, f"echo tried >> {tmp_path}/tried; {script}")
    found = await probe("unconfined", program)
    assert found == Confinement(mode="unconfined" if is_for_good else "failed", why=why)
    tries = 1 if is_for_good else confinement.MAX_TRIALS
    assert (tmp_path / "tried").read_text() == "tried\n" * tries
    if is_for_good:
        assert await probe("refuse", program) == Confinement(mode="refused", why=why)
        assert (tmp_path / "tried").read_text() == "tried\n" * 2


async def test_a_fault_that_passed_is_forgotten(tmp_path):
    """No descriptor was free when bubblewrap was tried; the next who asks tries again, and the command between was an error."""
    need_bubblewrap()
    sandbox = LocalSandbox(tmp_path, shell_fallback="unconfined")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, hard))
    try:
        found = await sandbox.confinement()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (found.mode, found.why) == ("failed", "it cannot be started: Too many open files")
    assert (await sandbox.confinement()).mode == "bubblewrap"


def test_what_cannot_be_looked_at_is_not_left_unprotected(tmp_path):
    """Without a free descriptor, the search for protected names and their mounts fail, and leave none open."""
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".envrc").touch()
    root = os.open(tmp_path, os.O_RDONLY)
    guard = Guard(root, find_opener(root), ProtectedNames(PROTECTED), ())
    found = guard.look()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(free := os.open("/", os.O_RDONLY))
    try:
        for left, work in ((0, guard.look), (1, guard.look), (2, partial(guard.open_mounts, found))):
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + left, hard))
            with pytest.raises(OSError, match="Too many open files"):
                work()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert os.dup(root) == free
            os.close(free)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(root)


async def test_what_cannot_be_confined(monkeypatch, tmp_path):
    """For a moment: nothing is run, and nobody is told to lift the confinement. The whole machine: there is nothing to keep."""

    async def fail(_program: str | None) -> Trial:
        return Trial(why="Cannot allocate memory", is_for_good=False)

    async def works(_program: str | None) -> Trial:
        return Trial(why=None)

    monkeypatch.setattr(confinement, "_try_bubblewrap", fail)
    sandbox = LocalSandbox(tmp_path, shell_fallback="unconfined")
    error = (await sandbox.execute("touch made", ExecuteOptions())).error
    assert error == Refusal(
        code="not_started",
        message="The command was not started: bubblewrap failed (Cannot allocate memory). Try again later.",
    )
    assert not (tmp_path / "made").exists()

    monkeypatch.setattr(confinement, "_try_bubblewrap", works)
    found = await LocalSandbox("/", allow_root=True).confinement()
    assert found == Confinement(mode="refused", why="the root is the whole machine")


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("bwrap: Unknown option --size", "--size"),
        ("bwrap: Unknown option --disable-userns", "--disable-userns"),
        ("bwrap: cannot open /proc/sys/user/max_user_namespaces: Read-only file system", "--disable-userns"),
        ("bwrap: Unknown option --ro-bind-fd", "--ro-bind-fd"),
        ("bwrap: prctl(PR_SET_SECCOMP): Invalid argument", "--seccomp"),
    ],
)
async def test_what_this_machine_lacks_is_left_out_and_told(tmp_path, monkeypatch, said, lacks):
    """An old bubblewrap or a kernel that forbids something still confines: without that one thing, and it says so.

    A command still inherits no open directory.
    """
    need_bubblewrap()
    looks = f"tr '\\0' '\\n' < /proc/self/fd/$2 | grep -qx -e {lacks}"
    program = _pretend(tmp_path, f'if {looks}; then echo "{said}" >&2; exit 1; fi; exec {_real()} "$@"')
    found = await probe("refuse", program)
    assert found == Confinement(mode="bubblewrap", lacks=frozenset({lacks}))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    root = tmp_path / "ws"
    (root / ".vscode").mkdir(parents=True)
    sandbox = LocalSandbox(root)
    assert str(root) not in await _output(sandbox, "ls -l /proc/self/fd")
    assert await sandbox.confinement() == found


def test_namespaces_that_are_used_up_may_come_free(monkeypatch, tmp_path):
    """Unless none may be made at all."""
    said = "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"
    monkeypatch.setattr(confinement, "_MAX_NAMESPACES", tmp_path / "max")
    for number, is_for_good in (("1000", False), ("0", True), ("?", False)):
        (tmp_path / "max").write_text(number)
        assert confinement.decide_trial(1, said) == Trial(why=said, is_for_good=is_for_good)


async def test_a_trial_that_hangs_or_cannot_be_started(monkeypatch, tmp_path):
    """The process of the first is ended; the second was there a moment ago, and it is said why."""
    program = _pretend(tmp_path, "exec sleep 1000")
    monkeypatch.setattr(confinement, "PROBE_SECONDS", 0.2)
    assert await probe("refuse", program) == Confinement(mode="failed", why="it did not start within 0.2 s")
    assert await probe("refuse", str(tmp_path / "gone")) == Confinement(
        mode="refused", why="it cannot be started: No such file or directory"
    )


def _real() -> str:
    found = find_program("bwrap")
    assert found is not None
    return found


async def test_a_cancelled_trial_leaves_no_process(tmp_path):
    """Whenever it comes: bubblewrap's child waits for its parent for ever when that is killed a moment too early."""
    need_bubblewrap()
    # In the environment of all that it starts, so that they are found again.
    program = _pretend(tmp_path, f'export TRIAL="{tmp_path}"; exec {_real()} "$@"')
    for step in range(60):
        with trio.move_on_after(step / 10_000):
            await probe("refuse", program)
    with trio.fail_after(60):
        while count_alive(f"TRIAL={tmp_path}"):  # noqa: ASYNC110 - processes set no event
            await trio.sleep(0.01)
    assert await probe("refuse", program) == Confinement(mode="bubblewrap")


async def test_a_command_outlives_the_threads_of_trio(monkeypatch, tmp_path):
    """Bubblewrap ends with the thread that started it, so no idle one does; and only confined a limit of processes holds."""
    monkeypatch.setattr(thread_cache, "IDLE_TIMEOUT", 0.05)
    sandbox = make_sandbox("confined", tmp_path, monkeypatch, limits=CommandLimits(max_processes=100))
    assert await _output(sandbox, "sleep 0.5; ulimit -u") == "100\n"


async def test_a_large_number_never_becomes_a_small_limit(monkeypatch, tmp_path):
    """A shell reads a number modulo 2**64: the largest limits are those of the kernel, and so is the longest time."""
    most = CommandLimits(max_memory_bytes=2**63 - 1, max_file_bytes=2**63 - 1, max_temporary_bytes=2**63 - 1)
    sandbox = make_sandbox("confined", tmp_path, monkeypatch, limits=most)
    limits = (
        "for f in -t -v -f; do [ $(ulimit $f) = unlimited ] || [ $(ulimit $f) -gt 1000 ] || echo $f; done"
    )
    ran = await sandbox.execute(limits, ExecuteOptions(timeout_seconds=2.0**64))
    assert (ran.error, ran.output) == (None, "")


async def test_hidden_places_are_shown_on_request(tmp_path):
    """Read-only, by path; and the network of the host."""
    need_bubblewrap()
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "a").write_text("words")
    (tmp_path / "ws").mkdir()
    shown = str(tmp_path / "shown")
    sandbox = LocalSandbox(tmp_path / "ws", readable=(shown, "~/no-such-directory"), network="host")
    assert await _output(sandbox, f"cat {shown}/a; touch {shown}/b 2>/dev/null || echo kept") == "wordskept\n"
    hidden = LocalSandbox(tmp_path / "ws")
    assert await _output(hidden, f"ls {shown} 2>/dev/null || echo hidden") == "hidden\n"
