"""`MemorySandbox`: what a call costs among many files."""

import sys

import pytest

from agentrail.abc import FileBytes
from agentrail.sandboxes.memory import MemorySandbox


async def _calls_of(files, work):
    """Count the Python calls of a piece of work among so many files, in directories of ten."""
    sandbox = MemorySandbox({f"d{number // 10}/f{number}": "x" for number in range(files)})
    calls = []
    sys.setprofile(lambda frame, kind, _: calls.append(kind) if kind == "call" else None)
    try:
        await work(sandbox)
    finally:
        sys.setprofile(None)
    return len(calls)


@pytest.mark.parametrize(
    "work",
    [
        lambda sandbox: sandbox.write("new", "x"),
        lambda sandbox: sandbox.upload([FileBytes(path="new", content=b"y")]),
        lambda sandbox: sandbox.exists("nowhere"),
    ],
)
async def test_a_call_costs_the_same_among_many_files(work):
    """Each looked at all files, so that filling a sandbox or searching it took the square of their number."""
    assert await _calls_of(1_000, work) < 2 * await _calls_of(100, work)


async def test_directories_follow_the_files():
    """Those of a snapshot come back with it, and no others."""
    sandbox = MemorySandbox({"a/b/c": "x"})
    kept = await sandbox.snapshot()
    await sandbox.write("a/d", "y")
    await sandbox.write("e/f", "z")
    assert [entry.name for entry in (await sandbox.list_dir("a")).entries] == ["b", "d"]
    assert await sandbox.restore(kept) is None
    assert [entry.name for entry in (await sandbox.list_dir("a")).entries] == ["b"]
    assert [entry.kind for entry in (await sandbox.list_dir(".")).entries] == ["dir"]
    assert not await sandbox.exists("e")
