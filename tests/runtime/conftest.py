"""A supervisor for the tests of the shell."""

import pytest

from agentrail.testing.orphans import no_orphans
from tests.runtime.rig import open_bare


@pytest.fixture
async def supervisor():
    """A supervisor; after the test nothing of its sessions is left, or the test fails."""
    async with no_orphans(), open_bare() as opened:
        yield opened
