"""`no_orphans()`: what a block started is gone when it ends. Tasks, threads, child processes, files and sockets.

What there is can be asked at any time (`decide_left` compares two answers); the context manager only waits, because a
thread or a process that was told to end takes a moment.
"""

import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

_PROC: Final = Path("/proc")
_PAUSE_SECONDS: Final = 0.005
_LOOKS_BEFORE_COLLECTING: Final = 3

_ENDED: Final = "ended, never waited for"

# Of linux/prctl.h.
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37

# Trio keeps a thread that has done its work for the next ten seconds; while it works it has another name.
_IDLE_THREAD: Final = re.compile(r"Trio thread \d+")


@frozen(kw_only=True)
class Census:
    """What lives at one moment. Each mapping is from what the thing is to how people recognise it.

    Attributes:
        tasks: The tasks of this Trio run, except the one that asks.
        threads: Threads that do something, by number.
        processes: Children and their children, by number; those that were never waited for too. Empty without `/proc`.
        files: Open descriptors, by number and target. Empty without `/proc`.
    """

    tasks: Mapping[trio.lowlevel.Task, str]
    threads: Mapping[int | None, str]
    processes: Mapping[int, str]
    files: Mapping[tuple[int, str], str]


@asynccontextmanager
async def no_orphans(*, within_seconds: float = 5.0) -> AsyncIterator[None]:
    """Check that the same tasks, threads, child processes, files and sockets are there after the block as before.

    An exception of the block leaves as it is, and nothing is checked.

    Args:
        within_seconds: How long to wait for what is just ending. Real seconds, because threads and processes know
            nothing of a virtual clock. One that jumps by itself may do so meanwhile: put no deadline around this block.

    Raises:
        AssertionError: Something is left; every thing is named.

    Cancellation: While it waits; then nothing was checked.

    Grandchildren whose parent is gone are found too, however they left its group: on Linux this process adopts them in the
    place of init while the block runs, and those that ended are waited for in the end, as init would have done. Elsewhere
    they belong to init and are not found. Where there is no `/proc` (macOS, Windows) only tasks and threads are compared,
    since the standard library has no other list of children and descriptors.
    """
    with _adopting():
        before = take_census()
        yield
        await _wait_until_gone(before, within_seconds)


async def _wait_until_gone(before: Census, within_seconds: float) -> None:
    give_up_at = time.monotonic() + within_seconds
    await trio.lowlevel.checkpoint()
    left = _left_since(before)
    looks, collect_at = 0, _LOOKS_BEFORE_COLLECTING
    while left and time.monotonic() < give_up_at:
        # Pauses in a thread, since `trio.sleep` would jump under a virtual clock, and the others need real time.
        await trio.to_thread.run_sync(time.sleep, _PAUSE_SECONDS)
        looks += 1
        if looks == collect_at:
            # What lies in a reference cycle is garbage already and only waits to be carried out. Not at each
            # look: going through a large heap takes longer than all that is just ending needs.
            gc.collect()
            collect_at *= 2
        left = _left_since(before)
    if left and looks < _LOOKS_BEFORE_COLLECTING:
        gc.collect()
        left = _left_since(before)
    assert not left, f"left behind after {within_seconds:g} s: {'; '.join(left)}"


def _left_since(before: Census) -> tuple[str, ...]:
    after = take_census()
    if after.processes.keys() - before.processes.keys():
        _bury_adopted(before)
        after = take_census()
    return decide_left(before, after)


@contextmanager
def _adopting() -> Iterator[None]:
    """Let this process get the children of those that die below it, where that can be had."""
    if sys.platform != "linux":
        yield
        return
    # By name of no library: the C library that this interpreter runs on already.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    was = ctypes.c_int(0)
    prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)


def _bury_adopted(before: Census) -> None:
    """Wait for those that ended and that no code here will wait for: init would have, had it got them.

    What a `Popen` of this process stands for is its owner's to wait for, and it is told if that does not happen.
    """
    waited_for = {one.pid for one in gc.get_objects() if isinstance(one, subprocess.Popen)}
    for pid, name in _children(os.getpid()).items():
        if pid not in before.processes and pid not in waited_for and _ENDED in name:
            with suppress(ChildProcessError):  # a child of a child, or waited for meanwhile
                os.waitpid(pid, os.WNOHANG)


def take_census() -> Census:
    """Say what lives now. Only inside a Trio run."""
    root = trio.lowlevel.current_root_task()
    me = trio.lowlevel.current_task()
    tasks = () if root is None else _descendants(root)
    return Census(
        tasks={task: f"task {task.name!r}" for task in tasks if task is not me},
        threads={
            thread.ident: f"thread {thread.name!r}"
            for thread in threading.enumerate()
            if not _IDLE_THREAD.fullmatch(thread.name)
        },
        processes=_children(os.getpid()),
        files={(number, target): f"file descriptor {number} to {target}" for number, target in _open_files()},
    )


def decide_left(before: Census, after: Census) -> tuple[str, ...]:
    """Name everything that is in the second census and not in the first."""
    return (
        *(name for task, name in after.tasks.items() if task not in before.tasks),
        *(name for thread, name in after.threads.items() if thread not in before.threads),
        *(name for process, name in after.processes.items() if process not in before.processes),
        *(name for file, name in after.files.items() if file not in before.files),
    )


def _descendants(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _descendants(child)


def _children(root: int) -> Mapping[int, str]:
    return _below_by_lists(root) if _has_lists() else _below_by_scan(root)


def _has_lists() -> bool:
    return Path(f"{_PROC}/self/task/{threading.get_native_id()}/children").exists()


def _below_by_lists(root: int) -> Mapping[int, str]:
    """Find those below it by the lists that Linux keeps of the children of each thread."""
    found: dict[int, str] = {}
    wanted = [root]
    while wanted:
        for child in _children_of(wanted.pop()):
            with suppress(OSError):  # it has gone, and then its own children have another parent
                found[child] = _read_process(str(child))[2]
                wanted.append(child)
    return found


def _children_of(parent: int) -> list[int]:
    threads = f"{_PROC}/{parent}/task"
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(threads):  # noqa: PTH208 - see below
            with suppress(OSError), open(f"{threads}/{thread}/children") as file:  # noqa: PTH123 - it may have gone
                found += map(int, file.read().split())
    return found


def _below_by_scan(root: int) -> Mapping[int, str]:
    """Find those below it by what all processes say of their parents; for a kernel that keeps no lists."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    # By name and not as paths: a scenario that is played at each of its steps counts some thousand times.
    for entry in filter(str.isdecimal, os.listdir(_PROC) if _PROC.is_dir() else ()):  # noqa: PTH208 - see above
        with suppress(OSError):
            number, parent, name = _read_process(entry)
            parents[number], names[number] = parent, name
    found: dict[int, str] = {}
    wanted = [root]
    while wanted:
        above = wanted.pop()
        below = {number: names[number] for number, parent in parents.items() if parent == above}
        found |= below
        wanted += below
    return found


def _read_process(entry: str) -> tuple[int, int, str]:
    """Read the number of a process, its parent's, and how people recognise it."""
    with open(f"{_PROC}/{entry}/stat", errors="replace") as file:  # noqa: PTH123 - see above
        # The name stands in brackets and may hold anything, brackets too; the parent is the second word behind it.
        number_and_name, _, rest = file.read().rpartition(")")
    number, _, name = number_and_name.partition(" (")
    state, parent = rest.split()[:2]
    return int(number), int(parent), f"process {number} ({name}, {_ENDED if state == 'Z' else 'alive'})"


def _open_files() -> Iterator[tuple[int, str]]:
    directory = _PROC / "self" / "fd"
    if not directory.is_dir():
        return
    for name in os.listdir(directory):  # noqa: PTH208 - iterdir makes paths of numbers
        with suppress(OSError):  # the descriptor of this very listing is closed by now
            yield int(name), os.readlink(directory / name)  # noqa: PTH115 - what it reads is no path: "pipe:[4711]"
