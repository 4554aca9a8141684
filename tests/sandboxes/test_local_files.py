"""`LocalSandbox`, files: what is read and listed, and what is refused, with either way of opening."""

import codecs
import gc
import os
import socket
from pathlib import Path

import pytest
import trio

from agentrail.abc import DirectoryEntry, ExecuteOptions, Refusal
from agentrail.errors import SandboxError
from agentrail.sandboxes import beneath, local
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.refusals import MAX_READ_BYTES
from tests.sandboxes.rig import need_bubblewrap


def _works_in_kernel(root) -> bool:
    descriptor = os.open(root, os.O_RDONLY)
    try:
        return beneath.find_opener(descriptor) is beneath.open_in_kernel
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
        monkeypatch.setattr(local, "find_opener", lambda _root: beneath.open_by_walk)
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


async def _text(sandbox, path):
    result = await sandbox.read(path)
    assert result.error is None
    return result.text


# --- what is read


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"a\r\nb\n", "a\r\nb\n"),
        ("é".encode(), "é"),
        (codecs.BOM_UTF8 + "é".encode(), "é"),
        (codecs.BOM_UTF16_LE + "é€".encode("utf-16-le"), "é€"),
        (codecs.BOM_UTF16_BE + "é€".encode("utf-16-be"), "é€"),
    ],
)
async def test_text_is_read_in_three_encodings(sandbox, root, data, text):
    """UTF-8 with and without a mark, UTF-16 with one; the mark is no part of the text, line ends are kept."""
    (root / "a.txt").write_bytes(data)
    assert await _text(sandbox, "a.txt") == text


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0",
        b"text\0",
        b"caf\xe9",
        b"x" * 100_000 + b"\xff",
        codecs.BOM_UTF16_LE + b"x",
        codecs.BOM_UTF32_LE + "words".encode("utf-32-le"),
    ],
)
async def test_what_is_no_text_is_said_to_be_none(sandbox, root, data):
    """With its kind and its size; the session never sees broken text."""
    (root / "logo.png").write_bytes(data)
    message = f'"logo.png" is not text (image/png, {len(data):,} bytes).'
    assert await _error(sandbox, "logo.png") == Refusal(code="not_text", message=message)
    (root / "logo").write_bytes(data)
    refusal = await _error(sandbox, "logo")
    assert refusal.message == f'"logo" is not text (application/octet-stream, {len(data):,} bytes).'


async def test_absolute_paths_below_the_root_are_taken(sandbox, root):
    """Models like to write them."""
    (root / "a").mkdir()
    (root / "a" / "b").write_text("x")
    assert await _text(sandbox, str(root / "a" / "b")) == "x"
    assert len((await sandbox.list_dir(str(root))).entries) == 1


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


async def test_a_neighbour_of_a_similar_name_is_outside(sandbox, root):
    """`/srv/ws-evil` is not below `/srv/ws`."""
    evil = root.parent / "ws-evil"
    evil.mkdir()
    (evil / "a").write_text("x")
    assert await _code(sandbox.read(str(evil / "a"))) == "invalid_path"


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("out", "../secret", "out"),
        ("up", "..", "up/secret"),
        ("a/b/up", "../../..", "a/b/up/secret"),
        ("etc", "/etc", "etc/passwd"),
        ("loop", "loop", "loop"),
        ("magic", "/proc/self/root", "magic/etc/passwd"),
        ("self", "/proc/self/fd", "self/0"),
    ],
)
async def test_no_link_leads_out(sandbox, root, link, target, path):
    """Not at the end of a path, not in the middle, not by way of /proc, not in circles."""
    (root / "a" / "b").mkdir(parents=True)
    (root / link).symlink_to(target)
    assert await _code(sandbox.read(path)) == "invalid_path"
    assert await _code(sandbox.list_dir(path)) == "invalid_path"


async def test_an_absolute_link_is_refused_even_when_it_points_inside(sandbox, root):
    """Otherwise its meaning would change when the root is moved."""
    (root / "a").write_text("x")
    (root / "link").symlink_to(root / "a")
    assert await _code(sandbox.read("link")) == "invalid_path"


async def test_links_that_stay_inside_work_where_the_kernel_can_tell(sandbox, root, request):
    """Without openat2 no link is followed: there is no way to follow one and be sure."""
    (root / "a").mkdir()
    (root / "a" / "file").write_text("x")
    (root / "link").symlink_to("a/file")
    (root / "dir").symlink_to("a")
    if request.node.callspec.params["sandbox"] == "walk":
        assert await _code(sandbox.read("link")) == "invalid_path"
        assert await _code(sandbox.read("dir/file")) == "invalid_path"
    else:
        assert await _text(sandbox, "link") == "x"
        assert await _text(sandbox, "dir/file") == "x"


async def test_swapping_a_directory_for_a_link_never_shows_what_is_outside(sandbox, root):
    """Check and use are one: whatever is renamed meanwhile, a read gives what is inside or a refusal."""
    (root / "d").mkdir()
    (root / "d" / "secret").write_text("inside")
    (root / "evil").symlink_to("..")
    swapping = True

    def swap() -> None:
        while swapping:
            (root / "d").rename(root / "kept")
            (root / "evil").rename(root / "d")
            (root / "d").rename(root / "evil")
            (root / "kept").rename(root / "d")

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, swap)
            for _ in range(300):
                found = await sandbox.read("d/secret")
                assert found.error or found.text == "inside"
            swapping = False


async def test_pipes_sockets_and_devices_are_refused_without_blocking(sandbox, root, monkeypatch):
    """A FIFO without a writer would hold an ordinary open for ever."""
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the address of a socket is short, the path of a test is not
    with socket.socket(socket.AF_UNIX) as listener, trio.fail_after(10):
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


async def test_what_is_missing_is_answered_with_what_is_there(sandbox, root):
    """The names of the nearest directory that exists, those most alike first, five at most."""
    (root / "src").mkdir()
    for name in ("app.py", "b.py"):
        (root / "src" / name).write_text("")
    refusal = await _error(sandbox, "src/a.py")
    assert refusal.code == "file_not_found"
    assert refusal.message == 'No such file: src/a.py. list_dir("src") shows: app.py, b.py'
    assert (await _error(sandbox, "scr/a.py")).message == 'No such file: scr/a.py. list_dir(".") shows: src'
    assert (await sandbox.list_dir("src/x/y")).error.message.startswith(
        'No such directory: src/x/y. list_dir("src") shows'
    )
    for n in range(20):
        (root / f"f{n}\n").write_text("")
        (root / f"f{n}").write_text("")
    refusal = await _error(sandbox, "f1x")
    assert refusal.message == 'No such file: f1x. list_dir(".") shows: f1, f10, f11, f12, f13'


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


async def test_the_root_stays_the_same_directory(sandbox, root):
    """It is held open: who gives its name to another directory changes nothing."""
    (root / "a").write_text("x")
    root.rename(root.parent / "moved")
    root.mkdir()
    assert await _text(sandbox, "a") == "x"


async def test_commands_begin_in_the_root_wherever_it_is_by_now(sandbox, root):
    """The same directory as the one that files are read from."""
    need_bubblewrap()
    (root / "a").write_text("x")
    root.rename(root.parent / "moved")
    root.mkdir()
    result = await sandbox.execute("cat a", ExecuteOptions(workdir="."))
    assert result.output == "x"


async def test_the_root_may_be_reached_by_a_link(root):
    """Both names of it are known for absolute paths."""
    (root / "a").write_text("x")
    (root.parent / "alias").symlink_to(root)
    through = LocalSandbox(root.parent / "alias")
    for name in (root, root.parent / "alias"):
        assert await _text(through, str(name / "a")) == "x"


async def test_closing_is_for_good_and_may_be_repeated(sandbox):
    """A closed sandbox says so, and does not read through a descriptor that is somebody else's by now."""
    await sandbox.aclose()
    await sandbox.aclose()
    with pytest.raises(trio.ClosedResourceError, match="LocalSandbox"):
        await sandbox.read("a")


def test_a_sandbox_that_nobody_holds_closes_its_root(tmp_path):
    """A root is a descriptor, and descriptors are few."""
    before = _count_descriptors()
    for _ in range(50):
        LocalSandbox(tmp_path)
    assert _count_descriptors() == before


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
    with trio.fail_after(10):
        while _count_descriptors() > before:  # noqa: ASYNC110 - another thread may have a source file open for a moment
            await trio.sleep(0.01)
