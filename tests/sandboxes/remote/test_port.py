"""A sandbox elsewhere keeps to the port, unchanged."""

from functools import partial

import pytest

from agentrail.gateway.sandboxes.lease_directories import open_local_workspace
from agentrail.testing.check_sandbox import check_sandbox
from tests.sandboxes.remote.rig import serving


@pytest.mark.check
async def test_a_directory_elsewhere_keeps_to_the_port():
    """`check_sandbox` passes as it stands, over a connection, commands included."""
    async with serving(partial(open_local_workspace, shell_fallback="unconfined")) as served:
        await check_sandbox(served.make)
        assert not served.leases


async def test_memory_elsewhere_keeps_to_the_port():
    """With snapshots, and without commands, as its address says."""
    async with serving() as served:
        await check_sandbox(lambda: served.make("?can=snapshot"))
