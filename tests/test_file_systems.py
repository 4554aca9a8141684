"""Files that are read whatever is in their place, and removal of trees, as commands of a client can leave them."""

import errno
import os
import tempfile

import pytest

from agentrail.file_systems import NotRegular, read_regular, remove_tree
from agentrail.gateway.sandboxes.lease_directories import open_local_workspace
from tests.pipes import pipe_at


def deepen(directory):
    """Make a tree that is deeper than a path, and than Python's recursion."""
    here = os.open(directory, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("dd", dir_fd=here)
        below = os.open("dd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


async def test_a_workspace_is_removed_whatever_is_in_it(tmp_path, monkeypatch):
    """A deep tree, names that are numbers, directories that cannot be opened, and links, whose targets stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = tmp_path / "kept"
    kept.mkdir()
    async with open_local_workspace():
        (root,) = (one for one in tmp_path.iterdir() if one != kept)
        deepen(root)
        (root / "0").mkdir()
        (root / "0/file").write_text("x")
        (root / "1").write_text("x")
        (root / "locked/within").mkdir(parents=True)
        (root / "link").symlink_to(kept)
        (root / "locked/within").chmod(0)
        (root / "locked").chmod(0)
    assert list(tmp_path.iterdir()) == [kept]
    remove_tree(root)  # which no longer exists


def test_a_file_is_read_up_to_a_limit_and_nothing_else_is_waited_for(tmp_path):
    """A pipe without a writer and a device without an end are refused, also behind a link."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert [read_regular(tmp_path / "link", most) for most in (0, 4, 5, 9)] == [
        b"",
        b"1234",
        b"12345",
        b"12345",
    ]
    with pytest.raises(OSError, match="link") as caught:
        read_regular(tmp_path / "link", 9, follow=False)
    assert caught.value.errno == errno.ELOOP
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pipe_at(tmp_path / "pipe", b"1"):
        for name in ("pipe", "zero"):
            with pytest.raises(NotRegular, match="it is not a file"):
                read_regular(tmp_path / name, 9)
