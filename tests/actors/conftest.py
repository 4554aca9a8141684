"""A stage for each test of the actors."""

import pytest

from tests.actors.rig import Stage


@pytest.fixture
def stage():
    """Nothing on it yet."""
    return Stage()
