"""`LocalSandbox`, what it writes and what it does not: all or nothing, and never through a link."""

import os
import stat
import time

import pytest
import structlog
import trio

from agentrail.abc import FileBytes, GrepOptions
from agentrail.errors import OptionError
from agentrail.sandboxes import beneath, files, local
from agentrail.sandboxes.local import LocalSandbox


@pytest.fixture(params=["kernel", "walk"])
def sandbox(request, tmp_path, monkeypatch):
    """A sandbox on an empty directory, with either way of opening."""
    if request.param == "walk":
        monkeypatch.setattr(local, "find_opener", lambda _root: beneath.open_by_walk)
    return LocalSandbox(tmp_path)


async def _code(awaitable):
    error = (await awaitable).error
    assert error is not None
    return error.code


async def test_the_mode_stays_without_its_set_id_bits(sandbox, tmp_path):
    """A script stays one that can be run, and nothing becomes one that runs as somebody else."""
    script = tmp_path / "run.sh"
    script.write_text("old\n")
    script.chmod(0o4751)
    assert (await sandbox.write("run.sh", "new\n")).error is None
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert (await sandbox.edit("run.sh", "new", "newer")).error is None
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert script.read_text() == "newer\n"


@pytest.mark.parametrize("step", ["fsync", "rename"])
async def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(sandbox, tmp_path, monkeypatch, step):
    """No half a file, no temporary one; the disk that is full is told."""

    def fail(*_args: object, **_keywords: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(files.os, step, fail)
    assert await _code(sandbox.write("a", "new")) == "no_space"
    assert await _code(sandbox.write("b", "new")) == "no_space"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


async def test_nobody_sees_half_a_file(sandbox, tmp_path):
    """Who reads while it is written finds the one content or the other."""
    contents = {"a" * 3_000_000, "b" * 3_000_000}
    (tmp_path / "f").write_text("a" * 3_000_000)
    seen = set()

    async def write() -> None:
        for number in range(20):
            await sandbox.write("f", "ab"[number % 2] * 3_000_000)
        nursery.cancel_scope.cancel()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            while True:
                seen.add(await trio.to_thread.run_sync((tmp_path / "f").read_text))
    assert seen <= contents


@pytest.mark.parametrize("where", ["last", "middle"])
async def test_links_are_not_written_through(sandbox, tmp_path, where):
    """As the last name of a path; in the middle a link that leads out is refused like everywhere."""
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real" if where == "last" else "..")
    path = "link" if where == "last" else "link/made"
    assert await _code(sandbox.write(path, "new")) == "invalid_path"
    assert await _code(sandbox.edit(path, "old", "new")) == "invalid_path"
    (transfer,) = await sandbox.upload([FileBytes(path=path, content=b"new")])
    assert transfer.error is not None
    assert (tmp_path / "real").read_text() == "old"


async def test_a_link_inside_does_not_lead_around_a_protected_name(tmp_path):
    """What counts is where the path leads, and not what it says."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "alias").symlink_to(".git")
    sandbox = LocalSandbox(tmp_path)
    for path in ("alias/hooks/post-commit", "alias/config", "alias/hooks/new/deep"):
        assert await _code(sandbox.write(path, "x")) in {"permission_denied", "invalid_path"}
    assert list((tmp_path / ".git").iterdir()) == []
    (tmp_path / ".git" / "config").write_text("old")
    assert await _code(sandbox.edit("alias/config", "old", "new")) == "permission_denied"
    (tmp_path / ".agentrail").mkdir()
    (tmp_path / ".agentrail" / "state").write_text("words")
    (tmp_path / "state").symlink_to(".agentrail/state")
    assert await _code(sandbox.read("state")) in {"permission_denied", "invalid_path"}


async def test_what_changed_meanwhile_is_not_overwritten(sandbox, tmp_path, monkeypatch):
    """Between reading a file and replacing it somebody may write it; then the edit says so."""
    file = tmp_path / "src.py"
    file.write_text("a\n")
    decide = files.decide_edit

    def write_meanwhile(*args, **keywords):
        file.write_text("a\nsomebody else's\n")
        return decide(*args, **keywords)

    monkeypatch.setattr(files, "decide_edit", write_meanwhile)
    found = await sandbox.edit("src.py", "a", "b")
    assert found.error is not None
    assert found.error.code == "changed"
    assert found.error.message == "src.py changed while it was being edited. Read it again."
    assert file.read_text() == "a\nsomebody else's\n"


@pytest.mark.parametrize(
    ("hard_links", "readable", "writable"),
    [("read", True, False), ("refuse", False, False), ("allow", True, True)],
)
async def test_files_with_several_names(tmp_path, hard_links, readable, writable):
    """One of the names may lie outside; what is done with them is an option."""
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    sandbox = LocalSandbox(tmp_path, hard_links=hard_links)
    assert ((await sandbox.read("a")).error is None) is readable
    assert ((await sandbox.edit("a", "x", "y")).error is None) is writable
    assert (
        tmp_path / "b"
    ).read_text() == "x"  # replaced, not written through: the other name keeps the old content


@pytest.mark.parametrize("name", ["hard_links", "shell_fallback", "network"])
def test_an_option_that_is_none_of_its_words_is_refused(tmp_path, name):
    """With all that it may be."""
    words = {"hard_links": "'read' or 'refuse' or 'allow'", "shell_fallback": "'refuse' or 'unconfined'"}
    with pytest.raises(OptionError) as caught:
        LocalSandbox(tmp_path, **{name: "yes"})
    assert (
        f"{name} is 'yes': expected {words.get(name, chr(39) + 'none' + chr(39) + ' or ' + repr('host'))}"
        in str(caught.value)
    )


async def test_other_names_can_be_protected(tmp_path):
    """In place of ours; the file that says where a repository is stays protected always."""
    sandbox = LocalSandbox(tmp_path, protected=("secrets/",))
    assert await _code(sandbox.write("a/Secrets/key", "x")) == "permission_denied"
    assert await _code(sandbox.write(".git", "gitdir: /elsewhere")) == "permission_denied"
    assert (await sandbox.write(".envrc", "x")).error is None


async def test_without_virtual_mode_paths_lead_anywhere(tmp_path):
    """For who wants it: `..`, `~`, absolute paths and links; protected names hold all the same, and the log says so."""
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "beside").write_text("needle")
    (root / "link").symlink_to("../beside")
    with structlog.testing.capture_logs() as logs:
        sandbox = LocalSandbox(root, virtual_mode=False)
    assert [entry["event"] for entry in logs] == ["sandbox_not_virtual"]
    for path in ("../beside", str(tmp_path / "beside"), "link"):
        assert (await sandbox.read(path)).text == "needle"
    assert (await sandbox.write("../made", "x")).error is None
    assert (tmp_path / "made").read_text() == "x"
    assert await _code(sandbox.write("../.git/config", "x")) == "permission_denied"
    assert (await sandbox.glob("*", "..")).paths == tuple(
        f"{root}/../{name}" for name in ("beside", "made", "ws/")
    )
    found = await sandbox.grep("needle", str(tmp_path), GrepOptions())
    assert [line.path for line in found.lines] == [str(tmp_path / "beside")]
    assert await _code(sandbox.read("~/no-such-file-here")) == "file_not_found"
    assert await _code(sandbox.read("a\0b")) == "invalid_path"


async def test_a_cancelled_write_has_happened_or_has_not(sandbox, tmp_path, monkeypatch):
    """The thread is waited for: nobody writes after the cancellation has travelled on."""
    begun, put = trio.Event(), files.put_file  # held up in the middle
    token = trio.lowlevel.current_trio_token()

    def put_slowly(*args: object) -> None:
        token.run_sync_soon(begun.set)
        time.sleep(0.2)
        put(*args)

    monkeypatch.setattr(files, "put_file", put_slowly)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sandbox.write, "a", "x")
            await begun.wait()
            nursery.cancel_scope.cancel()
    assert (tmp_path / "a").read_text() == "x"
