"""`FilesAbove`: files for agents on a disk, from the root of a repository down to a working directory."""

import os

import pytest

from agentrail.sandboxes import instruction_lookup
from agentrail.sandboxes.instruction_lookup import MAX_INSTRUCTION_LEVELS, FilesAbove, find_root
from agentrail.sandboxes.safe_open import open_by_walk

NAMES = ("AGENTS.override.md", "AGENTS.md")


@pytest.fixture
def tree(tmp_path):
    """A home with a file of the user, and a repository with a package in it."""
    home, root = tmp_path / "home", tmp_path / "outside" / "root"
    here = root / "packages" / "one"
    here.mkdir(parents=True)
    (home / ".agentrail").mkdir(parents=True)
    (root / ".git").mkdir()
    (home / ".agentrail" / "AGENTS.md").write_text("user")
    (tmp_path / "outside" / "AGENTS.md").write_text("outside")
    (root / "AGENTS.md").write_text("root")
    (root / "packages" / "AGENTS.md").write_text("packages")
    (here / "AGENTS.md").write_text("here")
    return home, root, here


def found(tree, names=NAMES):
    """What is found: paths and texts, and what could not be read."""
    home, _, here = tree
    read = FilesAbove(here, home).read(names)
    return {one.path: one.text for one in read.files}, {one.path: one.reason for one in read.unread}


def test_one_file_of_each_directory(tree):
    """An override comes first, unless it says nothing; other names where they are asked for, and only those."""
    _, root, here = tree
    (root / "AGENTS.override.md").write_text("instead")
    (here / "AGENTS.override.md").write_text(" \n")
    (root / "packages" / "AGENTS.md").rename(root / "packages" / "CLAUDE.md")
    files, _ = found(tree)
    assert list(files)[1:] == ["../../AGENTS.override.md", "AGENTS.md"]
    assert "../CLAUDE.md" in found(tree, (*NAMES, "CLAUDE.md"))[0]


def test_without_a_repository_the_working_directory_alone(tree):
    """A `.git` that is a file is a repository too: that of a work tree. The user's own directory is not read twice."""
    home, root, here = tree
    (root / ".git").rmdir()
    assert list(found(tree)[0]) == ["~/.agentrail/AGENTS.md", "AGENTS.md"]
    (root / ".git").write_text("gitdir: elsewhere")
    assert len(found(tree)[0]) == 4
    assert find_root(here) == root
    assert not FilesAbove(here / "gone" / "x", None).read(NAMES).files[3:]

    folder = home / ".agentrail"
    read = FilesAbove(folder, home).read(NAMES)
    assert [one.path for one in read.files] == ["AGENTS.md"]
    assert FilesAbove(folder, None).read(NAMES) == read
    assert "AGENTS" not in repr(FilesAbove(folder, None))


@pytest.mark.parametrize("opener", ["kernel", "walk"])
def test_a_link_out_of_the_repository_is_not_followed(tree, opener, monkeypatch):
    """Relative or absolute, of a file or of a directory on the way: it is told, and the others are read."""
    if opener == "walk":
        monkeypatch.setattr(instruction_lookup, "find_opener", lambda _: open_by_walk)
    _, root, here = tree
    secret = root.parent / "secret"
    secret.write_text("secret")
    for file, target in ((root / "AGENTS.md", secret), (here / "AGENTS.md", "../../../secret")):
        file.unlink()
        file.symlink_to(target)
    files, unread = found(tree)
    assert list(files.values()) == ["user", "packages"]
    assert set(unread) == {"../../AGENTS.md", "AGENTS.md"}
    assert set(unread.values()) == {"it is a symbolic link that leads out of the repository"}


def test_what_is_no_text_is_told_and_holds_nothing_up(tree):
    """A pipe, a directory, bytes; nothing blocks, and the others are read."""
    home, root, here = tree
    for file in (root / "AGENTS.md", here / "AGENTS.md", root / "packages" / "AGENTS.md"):
        file.unlink()
    os.mkfifo(root / "AGENTS.md")
    (root / "packages" / "AGENTS.md").mkdir()
    (here / "AGENTS.md").write_bytes(b"\xff\xfe\xfd")
    (here / "AGENTS.override.md").write_bytes(b"a\0b")
    files, unread = found(tree)
    assert list(files) == ["~/.agentrail/AGENTS.md"]
    assert list(unread.values()) == ["it is not a regular file"] * 2 + ["it is not text"] * 2
    assert home.is_dir()


def test_what_may_not_be_read_is_told(tree, monkeypatch):
    """A file, and the root itself."""

    def refuse(path, *_, **__):
        raise PermissionError(13, "no")

    monkeypatch.setattr(instruction_lookup, "find_opener", lambda _: refuse)
    assert set(found(tree)[1].values()) == {"the operating system reports: Permission denied"}
    monkeypatch.setattr(instruction_lookup.os, "open", refuse)
    assert found(tree) == (
        {},
        {
            "~/.agentrail/AGENTS.override.md": "the operating system reports: Permission denied",
            "~/.agentrail/AGENTS.md": "the operating system reports: Permission denied",
            "../../": "the operating system reports: Permission denied",
        },
    )


def test_of_many_levels_the_nearest_are_looked_at(tree):
    """And it is said that there are more."""
    home, root, _ = tree
    deep = root.joinpath(*["d"] * MAX_INSTRUCTION_LEVELS)
    deep.mkdir(parents=True)
    files, unread = found((home, root, deep))
    assert list(files) == ["~/.agentrail/AGENTS.md"]
    assert list(unread.values()) == [f"only the nearest {MAX_INSTRUCTION_LEVELS} directories are searched"]
