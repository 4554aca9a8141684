"""A supervisor and hubs for the tests of streams."""

import pytest

from agentrail.gateway.event_hub import open_hubs
from agentrail.testing.orphans import no_orphans
from tests.runtime.rig import open_bare


@pytest.fixture
async def supervisor():
    """A supervisor; after the test nothing of its sessions is left, or the test fails."""
    async with no_orphans(), open_bare() as opened:
        yield opened


@pytest.fixture
async def hubs():
    async with open_hubs() as opened:
        yield opened
