"""`LocalSandbox`, files: what is read, listed and written, all or nothing, and what is refused, with either way of opening."""

import ctypes
import errno
import gc
import os
import socket
import struct
from pathlib import Path

import pytest
import structlog
import trio

from agentrail.abc import DirectoryEntry, ExecuteOptions, GrepOptions, Refusal
from agentrail.errors import OptionError, SandboxError
from agentrail.sandboxes import files, local, safe_open, versions
from agentrail.sandboxes.local import LocalSandbox


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
    """As text, before any system call; the whole table stands in test_path_patterns.py."""
    assert await _code(sandbox.read(path)) == "invalid_path"
    assert await _code(sandbox.list_dir(path)) == "invalid_path"
    assert await _code(sandbox.execute("true", ExecuteOptions(workdir=path))) == "invalid_path"


async def test_what_is_no_file_is_refused(sandbox, root, monkeypatch):
    """A directory is said to be one, with what to use instead; a FIFO without a writer would hold an ordinary open for ever."""
    assert (await sandbox.read("a")).error.message == 'No such file: a. list_dir(".") shows: nothing'
    (root / "src").mkdir()
    (root / "a").write_text("x")
    assert (await sandbox.read("src")).error == Refusal(
        code="is_directory", message='src is a directory. Use list_dir("src").'
    )
    assert await _code(sandbox.read("a/b")) == "invalid_path"
    assert await _code(sandbox.list_dir("a")) == "invalid_path"
    assert await _code(sandbox.execute("true", ExecuteOptions(workdir="a"))) == "invalid_path"
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the address of a socket is short, the path of a test is not
    with socket.socket(socket.AF_UNIX) as listener, trio.fail_after(60):
        listener.bind("socket")
        assert await _code(sandbox.read("pipe")) == "permission_denied"
        assert await _code(sandbox.read("socket")) == "permission_denied"


# --- the root


async def test_a_root_that_is_none_is_refused(root):
    """At construction, with the reason and the way out; the whole machine is one for who asks for it."""
    loop = root.parent / "loop"
    loop.symlink_to(loop)
    for place, words in (
        (loop, "cannot be opened (Too many levels of symbolic links): name an existing directory"),
        (root / "a\0b", "cannot be opened (no file can have this name): name an existing directory"),
        (root / "missing", "(No such file or directory): name an existing directory"),
        (root.parent / "secret", "cannot be opened (Not a directory): name an existing directory"),
        ("/", "the root of a sandbox is '/', the whole machine: name a directory, or set allow_root=True"),
    ):
        with pytest.raises(SandboxError) as caught:
            LocalSandbox(place)
        assert words in str(caught.value)
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


# --- what is written


async def test_a_link_inside_does_not_lead_around_a_protected_name(root):
    """What counts is where the path leads, and not what it says."""
    (root / ".git").mkdir()
    (root / "alias").symlink_to(".git")
    sandbox = LocalSandbox(root)
    for path in ("alias/hooks/post-commit", "alias/config", "alias/hooks/new/deep"):
        assert await _code(sandbox.write(path, "x")) in {"permission_denied", "invalid_path"}
    assert list((root / ".git").iterdir()) == []
    (root / ".git" / "config").write_text("old")
    assert await _code(sandbox.edit("alias/config", "old", "new")) == "permission_denied"
    (root / ".agentrail").mkdir()
    (root / ".agentrail" / "state").write_text("words")
    (root / "state").symlink_to(".agentrail/state")
    assert await _code(sandbox.read("state")) in {"permission_denied", "invalid_path"}


async def test_edits_of_one_file_through_several_sandboxes_all_count(root):
    """Sessions with the same directory edit different lines at once, and write the path in two ways: each edit that is reported is in the file."""
    (root / "file").write_text("".join(f"line {number};\n" for number in range(24)))
    async with trio.open_nursery() as nursery:
        for first, path in enumerate(("file", "./file", str(root / "file"))):

            @nursery.start_soon
            async def edit(first=first, path=path):
                sandbox = LocalSandbox(root)
                for number in range(first, 24, 3):
                    done = await sandbox.edit(path, f"line {number};", "edited")
                    assert done.error is None

    assert (root / "file").read_text() == "edited\n" * 24


async def test_edits_by_two_names_of_a_directory_count_or_are_refused(root):
    """A linked directory gives a file a second name, which takes no turns with the first. Neither do other processes."""
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    (root / "real/file").write_text("".join(f"line {number};\n" for number in range(40)))
    sandbox = LocalSandbox(root)
    edited = []
    async with trio.open_nursery() as nursery:
        for first, name in enumerate(("real/file", "link/file")):

            @nursery.start_soon
            async def edit(first=first, name=name):
                for number in range(first, 40, 2):
                    found = await sandbox.edit(name, f"line {number};", "edited")
                    assert found.error is None or found.error.code == "changed"
                    edited.append(found.error is None)

    assert (root / "real/file").read_text().count("edited") == sum(edited) > 0


@pytest.mark.parametrize("has_own", [True, False])
@pytest.mark.parametrize("change", ["edit", "write", "copy"])
async def test_a_replaced_file_keeps_its_access_list(root, tmp_path, change, has_own):
    """Without it, the mode means something else: its group may do what the list allows another user. None is inherited."""
    listed = [
        (0x01, 6),
        (0x02, 6),
        (0x04, 0),
        (0x10, 6),
        (0x20, 0),
    ]  # the owner, one user, the group, a mask, others
    users = {0x02: 12_345}
    rights = [struct.pack("<HHI", tag, allowed, users.get(tag, 0xFFFF_FFFF)) for tag, allowed in listed]
    access_list = struct.pack("<I", 2) + b"".join(rights)
    path = root / "a"
    path.write_text("one")
    path.chmod(0o640)
    try:
        os.setxattr(root, "system.posix_acl_default", access_list)
        os.setxattr(path, "user.note", b"kept")
        if has_own:
            os.setxattr(path, "system.posix_acl_access", access_list)
    except (AttributeError, OSError):
        pytest.skip("files have no access lists here")
    sandbox = LocalSandbox(root)

    def attributes(of):
        return {name: os.getxattr(of, name) for name in os.listxattr(of)}, of.stat().st_mode

    before = attributes(path)
    match change:
        case "edit":
            assert (await sandbox.edit("a", "one", "two")).error is None
        case "write":
            assert (await sandbox.write("a", "two")).error is None
        case "copy":
            await (await sandbox.copy_to(tmp_path / "copy")).aclose()
            path = tmp_path / "copy" / "a"
    assert attributes(path) == before


async def test_what_changed_meanwhile_is_not_overwritten(sandbox, root, monkeypatch):
    """Between reading a file and replacing it somebody may write it; then the edit says so."""
    file = root / "src.py"
    file.write_text("a\n")
    decide = files.decide_edit

    def write_meanwhile(*args, **keywords):
        file.write_text("a\nsomebody else's\n")
        return decide(*args, **keywords)

    monkeypatch.setattr(files, "decide_edit", write_meanwhile)
    found = await sandbox.edit("src.py", "a", "b")
    assert found.error == Refusal(
        code="changed", message="src.py changed while it was being edited. Read it again."
    )
    assert file.read_text() == "a\nsomebody else's\n"


class KeeperOfAFileInUse:
    """Records writes, while somebody else writes the file each time."""

    def __init__(self, file):
        self.file, self.kept, self.taken_back = file, [], []

    async def keep(self, changes, contents):
        self.kept += changes
        self.file.write_text(f"a\nsomebody else's {len(self.kept)}\n")

    def take_back(self, changes):
        self.taken_back += changes


async def test_what_changed_meanwhile_is_not_overwritten_by_a_recorded_write(sandbox, root):
    """An edit is tried once, a write three times, and each says what was being done. What did not happen is taken back."""
    file = root / "src.py"
    file.write_text("a\n")
    keeper = KeeperOfAFileInUse(file)
    for found, done in (
        (await sandbox.kept_by(keeper).edit("src.py", "a", "b"), "edited"),
        (await sandbox.kept_by(keeper).write("src.py", "b\n"), "written"),
    ):
        message = f"src.py changed while it was being {done}. Read it again."
        assert found.error == Refusal(code="changed", message=message)
    assert file.read_text() == "a\nsomebody else's 4\n"
    assert keeper.taken_back == keeper.kept


async def test_a_write_that_is_not_recorded_replaces_whatever_is_there(sandbox, root, monkeypatch):
    """Nobody could undo it, so nothing depends on what it replaced."""
    file = root / "src.py"
    file.write_text("a\n")
    state_of = versions._state_of  # noqa: SLF001 - the last look before the file is put in place

    def write_meanwhile(*args):
        file.write_text("somebody else's\n")
        return state_of(*args)

    monkeypatch.setattr(versions, "_state_of", write_meanwhile)
    found = await sandbox.write("src.py", "b\n")
    assert found.error is None
    assert file.read_text() == "b\n"


# --- options


@pytest.mark.parametrize(
    ("hard_links", "readable", "writable"),
    [("read", True, False), ("refuse", False, False), ("allow", True, True)],
)
async def test_files_with_several_names(root, hard_links, readable, writable):
    """One of the names may lie outside; what is done with them is an option, and no write goes through to the others."""
    (root / "a").write_text("x")
    os.link(root / "a", root / "b")
    sandbox = LocalSandbox(root, hard_links=hard_links)
    assert ((await sandbox.read("a")).error is None) is readable
    assert ((await sandbox.edit("a", "x", "y")).error is None) is writable
    assert (root / "b").read_text() == "x"


def test_an_option_that_is_none_of_its_words_is_refused(root):
    """With all that it may be."""
    for name, words in (
        ("hard_links", "'read', 'refuse' or 'allow'"),
        ("shell_fallback", "'refuse' or 'unconfined'"),
        ("network", "'none' or 'host'"),
    ):
        with pytest.raises(OptionError) as caught:
            LocalSandbox(root, **{name: "yes"})
        assert f"{name} is 'yes': expected {words}" in str(caught.value)


async def test_other_names_can_be_protected(root):
    """In place of ours; the file that says where a repository is stays protected always."""
    sandbox = LocalSandbox(root, protected=("secrets/",))
    assert await _code(sandbox.write("a/Secrets/key", "x")) == "permission_denied"
    assert await _code(sandbox.write(".git", "gitdir: /elsewhere")) == "permission_denied"
    assert (await sandbox.write(".envrc", "x")).error is None


async def test_without_virtual_mode_paths_lead_anywhere(root):
    """For who wants it: `..`, `~`, absolute paths and links; protected names hold all the same, and the log says so."""
    beside = root.parent
    (root / "link").symlink_to("../secret")
    with structlog.testing.capture_logs() as logs:
        sandbox = LocalSandbox(root, virtual_mode=False)
    assert [entry["event"] for entry in logs] == ["sandbox_not_virtual"]
    for path in ("../secret", str(beside / "secret"), "link"):
        assert (await sandbox.read(path)).text == "hidden words"
    assert (await sandbox.write("../made", "x")).error is None
    assert (beside / "made").read_text() == "x"
    assert await _code(sandbox.write("../.git/config", "x")) == "permission_denied"
    names = ("made", "secret", "ws/")
    assert (await sandbox.glob("*", "..")).paths == tuple(f"{root}/../{name}" for name in names)
    found = await sandbox.grep("hidden", str(beside), GrepOptions())
    assert [line.path for line in found.lines] == [str(beside / "secret")]
    assert await _code(sandbox.read("~/no-such-file-here")) == "file_not_found"
    assert await _code(sandbox.read("a\0b")) == "invalid_path"


class OtherKernel:
    """A C library whose system call fails, as an old kernel's does or one that a container has closed."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.calls = 0

    def syscall(self, *_args: object) -> int:
        self.calls += 1
        ctypes.set_errno(self.code)
        return -1


@pytest.fixture
def directory(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize(("code", "calls"), [(errno.EAGAIN, 4), (errno.EINTR, 4), (errno.ENOENT, 1)])
def test_only_what_may_pass_is_tried_again(directory, monkeypatch, code, calls):
    """EAGAIN says that something was renamed meanwhile; four times, because an attacker may rename for ever."""
    kernel = OtherKernel(code)
    monkeypatch.setattr(safe_open, "_libc", lambda: kernel)
    with pytest.raises(OSError, match=os.strerror(code)) as caught:
        safe_open.open_in_kernel(directory, ("a", "b"), os.O_RDONLY)
    assert caught.value.errno == code
    assert caught.value.filename == "a/b"
    assert kernel.calls == calls
