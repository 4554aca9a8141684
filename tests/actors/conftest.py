"""A stage for each test of the actors."""

import pytest

from tests.actors.rig import Stage


@pytest.fixture
def stage():
    return Stage()
