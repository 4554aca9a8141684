"""`LocalSandbox`, what it writes and what it does not: all or nothing, and never through a link."""

import os

import pytest
import structlog

from agentrail.abc import GrepOptions
from agentrail.errors import OptionError
from agentrail.sandboxes import files, local, safe_open
from agentrail.sandboxes.local import LocalSandbox


@pytest.fixture(params=["kernel", "walk"])
def sandbox(request, tmp_path, monkeypatch):
    """A sandbox on an empty directory, with either way of opening."""
    if request.param == "walk":
        monkeypatch.setattr(local, "find_opener", lambda _root: safe_open.open_by_walk)
    return LocalSandbox(tmp_path)


async def _code(awaitable):
    error = (await awaitable).error
    assert error is not None
    return error.code


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
