"""`no_orphans()`: checks that everything started in a block has ended: tasks, threads, child processes, files and sockets."""

import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

_PROC: Final = Path("/proc")
_PAUSE_SECONDS: Final = 0.005
_LOOKS_BEFORE_COLLECTING: Final = 3

_ENDED: Final = "ended, never waited for"

# From linux/prctl.h.
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37

# Trio keeps an idle thread for ten seconds. While it works, it has another name.
_IDLE_THREAD: Final = re.compile(r"Trio thread \d+")


@frozen(kw_only=True)
class ObjectCensus:
    """The living objects at one moment. Each mapping is from an object's identity to its description.

    Attributes:
        tasks: The tasks of this Trio run, except the calling one.
        threads: Working threads, by number.
        processes: Descendant processes, by number, including unreaped ones. Empty without `/proc`.
        files: Open descriptors, by number and target. Empty without `/proc`.
    """

    tasks: Mapping[trio.lowlevel.Task, str]
    threads: Mapping[int | None, str]
    processes: Mapping[int, str]
    files: Mapping[tuple[int, str], str]


@asynccontextmanager
async def no_orphans(*, within_seconds: float = 5.0) -> AsyncIterator[None]:
    """Check that the same tasks, threads, child processes, files and sockets exist after the block as before.

    An exception of the block propagates unchanged, without a check.

    Args:
        within_seconds: Time limit for objects that are ending. Real seconds, because threads and processes do not
            follow a virtual clock. An autojump clock may jump meanwhile: put no deadline around this block.

    Raises:
        AssertionError: Some objects are left. The message names each.

    Cancellation: While it waits. Then nothing was checked.

    Grandchildren whose parent has ended are found too, however they left its group. On Linux, this process adopts them in place
    of init while the block runs, and reaps the ended ones at the end, as init would have done. Elsewhere they belong to init and
    are not found. Without `/proc` (macOS, Windows), only tasks and threads are compared, because the standard library has no
    other list of children and descriptors.
    """
    with _adopting():
        before = take_census()
        yield
        await _wait_until_gone(before, within_seconds)


async def _wait_until_gone(before: ObjectCensus, within_seconds: float) -> None:
    give_up_at = time.monotonic() + within_seconds
    await trio.lowlevel.checkpoint()
    left = _left_since(before)
    looks, collect_at = 0, _LOOKS_BEFORE_COLLECTING
    # At least until the first collection: on a slow machine, one look may take all the time, and nothing in this thread can end meanwhile.
    while left and (looks < _LOOKS_BEFORE_COLLECTING or time.monotonic() < give_up_at):
        # Pauses in a thread, because `trio.sleep` would jump under a virtual clock, and the others need real time.
        await trio.to_thread.run_sync(time.sleep, _PAUSE_SECONDS)
        looks += 1
        if looks == collect_at:
            # Objects in a reference cycle are already garbage that waits for collection. Not at each check: going through a large
            # heap takes longer than the ending objects need.
            gc.collect()
            collect_at *= 2
        left = _left_since(before)
    assert not left, f"left behind after {within_seconds:g} s: {'; '.join(left)}"


def _left_since(before: ObjectCensus) -> tuple[str, ...]:
    after = take_census()
    if ended := [
        pid for pid, name in after.processes.items() if pid not in before.processes and _ENDED in name
    ]:
        _bury_adopted(ended)
        after = take_census()
    return decide_left(before, after)


@contextmanager
def _adopting() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    # Without a library name: the C library that this interpreter already uses.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    was = ctypes.c_int(0)
    prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)


def _bury_adopted(ended: Iterable[int]) -> None:
    """Reap ended processes that no code here will wait for: init would have done so. Goes through the heap, which may take long."""
    waited_for = {getattr(one, "pid", None) for one in gc.get_objects() if isinstance(one, subprocess.Popen)}
    # Not while a thread starts a process: its number may be any of these.
    for pid in ended if None not in waited_for else ():
        if pid not in waited_for:
            with suppress(ChildProcessError):  # a grandchild, or reaped meanwhile
                os.waitpid(pid, os.WNOHANG)


def take_census() -> ObjectCensus:
    """Take a census now. Only inside a Trio run."""
    root = trio.lowlevel.current_root_task()
    me = trio.lowlevel.current_task()
    tasks = () if root is None else _descendants(root)
    return ObjectCensus(
        tasks={task: f"task {task.name!r}" for task in tasks if task is not me},
        threads={
            thread.ident: f"thread {thread.name!r}"
            for thread in threading.enumerate()
            if not _IDLE_THREAD.fullmatch(thread.name)
        },
        processes=_children(os.getpid()),
        files={(number, target): f"file descriptor {number} to {target}" for number, target in _open_files()},
    )


def decide_left(before: ObjectCensus, after: ObjectCensus) -> tuple[str, ...]:
    """Name every object in the second census that is not in the first."""
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
    """Return the descendants, from the lists of children that Linux keeps for each thread."""
    found: dict[int, str] = {}
    wanted = [root]
    while wanted:
        for child in _children_of(wanted.pop()):
            with suppress(OSError):  # it has ended, and its own children have another parent
                found[child] = _read_process(str(child))[2]
                wanted.append(child)
    return found


def _children_of(parent: int) -> list[int]:
    threads = f"{_PROC}/{parent}/task"
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(threads):  # noqa: PTH208 - see below
            with suppress(OSError), open(f"{threads}/{thread}/children") as file:  # noqa: PTH123 - it may have ended
                found += map(int, file.read().split())
    return found


def _below_by_scan(root: int) -> Mapping[int, str]:
    """Return the descendants, from the parents of all processes, for a kernel without lists of children."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    # By name rather than as paths: `cancel_everywhere` counts some thousand times.
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
    with open(f"{_PROC}/{entry}/stat", errors="replace") as file:  # noqa: PTH123 - see above
        # The name is in parentheses and may contain anything, parentheses too. The parent is the second word after it.
        number_and_name, _, rest = file.read().rpartition(")")
    number, _, name = number_and_name.partition(" (")
    state, parent = rest.split()[:2]
    return int(number), int(parent), f"process {number} ({name}, {_ENDED if state == 'Z' else 'alive'})"


def _open_files() -> Iterator[tuple[int, str]]:
    directory = _PROC / "self" / "fd"
    if not directory.is_dir():
        return
    for name in os.listdir(directory):  # noqa: PTH208 - iterdir makes paths of numbers
        with suppress(OSError):  # the descriptor of this listing is already closed
            yield int(name), os.readlink(directory / name)  # noqa: PTH115 - the target is not a path: "pipe:[4711]"
