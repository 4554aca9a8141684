"""Servers of our own, and sessions with their tools."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SERVERS = Path(__file__).parent / "servers"


def pytest_collection_modifyitems(items):
    """Skip what needs the library where it is not installed."""
    if find_spec("mcp") is None:
        reason = "the extra `mcp` is not installed: make install"
        for item in items:
            if SERVERS.parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def plain():
    def command(mode="obedient", argument=""):
        return [sys.executable, str(SERVERS / "plain.py"), mode, str(argument)]

    return command
