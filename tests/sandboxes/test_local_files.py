"""`LocalSandbox`, files: what is read and listed, and what is refused, with either way of opening."""

import gc
import os
import socket
from pathlib import Path

import pytest
import trio

from agentrail.abc import DirectoryEntry, ExecuteOptions, Refusal
from agentrail.errors import SandboxError
from agentrail.sandboxes import local, safe_open
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.refusals import MAX_READ_BYTES


def _works_in_kernel(root) -> bool:
    descriptor = os.open(root, os.O_RDONLY)
    try:
        return safe_open.find_opener(descriptor) is safe_open.open_in_kernel
    finally:
        os.close(descriptor)


@pytest.fixture
def root(tmp_path):
    """An empty directory; beside it lies `secret`, which no test may read."""
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "secret").write_text("hidden words")
    return root


@pytest.fixture(params=["kernel", "walk"])
def sandbox(request, root, monkeypatch):
    """A sandbox on `root`, with either way of opening."""
    if request.param == "walk":
        monkeypatch.setattr(local, "find_opener", lambda _root: safe_open.open_by_walk)
    elif not _works_in_kernel(root):
        pytest.skip("openat2 does not work here")
    return LocalSandbox(root)


def _count_descriptors() -> int:
    gc.collect()  # sandboxes of other tests close their roots when they are collected
    return len(list(Path("/dev/fd").iterdir()))


async def _code(awaitable):
    refusal = (await awaitable).error
    assert refusal is not None
    assert "hidden words" not in refusal.message
    return refusal.code


async def _error(sandbox, path):
    refusal = (await sandbox.read(path)).error
    assert refusal is not None
    return refusal


# --- what is read


async def test_a_directory_is_listed_as_it_is(sandbox, root):
    """Directories first, then by name; links are shown and not followed, and neither are pipes opened."""
    for name in ("src", "Docs"):
        (root / name).mkdir()
    (root / "b.txt").write_text("12345")
    (root / "a.txt").write_text("")
    (root / "link").symlink_to("../secret")
    os.mkfifo(root / "pipe")
    assert (await sandbox.list_dir(".")).entries == (
        DirectoryEntry(name="Docs", kind="dir"),
        DirectoryEntry(name="src", kind="dir"),
        DirectoryEntry(name="a.txt", kind="file"),
        DirectoryEntry(name="b.txt", kind="file", size_bytes=5),
        DirectoryEntry(name="link", kind="link", target="../secret"),
        DirectoryEntry(name="pipe", kind="other"),
    )
    assert (await sandbox.list_dir("src/")).entries == ()


# --- what is refused


@pytest.mark.parametrize(
    "path", ["", "../secret", "a/../../secret", "~/x", "/etc/passwd", "a\0b", "a\nb", "x" * 300]
)
async def test_bad_paths_are_refused_by_every_operation(sandbox, path):
    """As text, before any system call; the whole table stands in test_paths.py."""
    assert await _code(sandbox.read(path)) == "invalid_path"
    assert await _code(sandbox.list_dir(path)) == "invalid_path"
    assert await _code(sandbox.execute("true", ExecuteOptions(workdir=path))) == "invalid_path"


async def test_pipes_sockets_and_devices_are_refused_without_blocking(sandbox, root, monkeypatch):
    """A FIFO without a writer would hold an ordinary open for ever."""
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the address of a socket is short, the path of a test is not
    with socket.socket(socket.AF_UNIX) as listener, trio.fail_after(60):
        listener.bind("socket")
        assert await _code(sandbox.read("pipe")) == "permission_denied"
        assert await _code(sandbox.read("socket")) == "permission_denied"


async def test_a_directory_is_no_file_and_a_file_no_directory(sandbox, root):
    """Each is said to be what it is, with what to use instead."""
    (root / "src").mkdir()
    (root / "a").write_text("x")
    assert await _error(sandbox, "src") == Refusal(
        code="is_directory", message='src is a directory. Use list_dir("src").'
    )
    assert await _code(sandbox.read("a/b")) == "invalid_path"
    assert await _code(sandbox.list_dir("a")) == "invalid_path"
    assert await _code(sandbox.execute("true", ExecuteOptions(workdir="a"))) == "invalid_path"


async def test_an_empty_directory_shows_nothing(sandbox):
    """There is no nearest name in an empty directory."""
    assert (await _error(sandbox, "a")).message == 'No such file: a. list_dir(".") shows: nothing'


async def test_a_huge_file_is_not_read(sandbox, root):
    """50 MB is the limit, whatever the tool would have shown of it."""
    with (root / "big").open("wb") as file:
        file.truncate(MAX_READ_BYTES + 1)
    refusal = await _error(sandbox, "big")
    assert refusal.code == "too_large"
    assert refusal.message.startswith("big has 50,000,001 bytes, at most 50,000,000 are read.")


# --- the root


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda root: root / "missing",
            "cannot be opened (No such file or directory): name an existing directory",
        ),
        (lambda root: root / "secret", "cannot be opened (Not a directory): name an existing directory"),
        (
            lambda _root: "/",
            "the root of a sandbox is '/', the whole machine: name a directory, or set allow_root=True",
        ),
    ],
)
def test_a_root_that_is_none_is_refused(root, make, words):
    """At construction, with the reason and the way out."""
    with pytest.raises(SandboxError) as caught:
        LocalSandbox(make(root.parent))
    assert words in str(caught.value)


async def test_the_whole_machine_is_a_root_for_who_asks_for_it():
    """Explicitly, and then absolute paths are all below it."""
    assert (await LocalSandbox("/", allow_root=True).list_dir("/")).error is None


async def test_closing_is_for_good_and_may_be_repeated(sandbox):
    """A closed sandbox says so, and does not read through a descriptor that is somebody else's by now."""
    await sandbox.aclose()
    await sandbox.aclose()
    with pytest.raises(trio.ClosedResourceError, match="LocalSandbox"):
        await sandbox.read("a")


async def test_no_operation_leaves_a_descriptor_open(sandbox, root):
    """Whether it succeeds or is refused."""
    (root / "a").write_text("x")
    (root / "d").mkdir()
    (root / "binary").write_bytes(b"\0")
    os.mkfifo(root / "pipe")
    await sandbox.execute("true", ExecuteOptions())  # what is opened once stays
    before = _count_descriptors()
    for path in ("a", "d", "binary", "pipe", "missing", "a/b", "d/missing"):
        await sandbox.read(path)
        await sandbox.list_dir(path)
        await sandbox.execute("true", ExecuteOptions(workdir=path))
    with trio.fail_after(60):
        while _count_descriptors() > before:  # noqa: ASYNC110 - another thread may have a source file open for a moment
            await trio.sleep(0.01)
