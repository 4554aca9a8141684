"""Removal of trees, as commands of a client can leave them."""

import os
import tempfile

from agentrail.file_systems import remove_tree
from agentrail.gateway.sandboxes.lease_directories import open_local_workspace


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
