"""What the tests of the command share: the peer that is not ours, and a project."""

import pytest

from tests.peers import aimock

__all__ = ["aimock"]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path


@pytest.fixture
def kept(tmp_path):
    """The variable that names where the sessions of a test are kept."""
    return {"AGENTRAIL_DATA_DIR": str(tmp_path / "data")}
