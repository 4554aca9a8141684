"""A server that is attacked."""

import pytest

from agentrail.gateway.serving import ConnectionLimits
from tests.gateway import web as web_module
from tests.gateway.attacks.wire import FREE, by_header
from tests.gateway.web import serving
from tests.host.hosting import answering


@pytest.fixture
async def attacked(monkeypatch):
    """A server that knows who calls by what they say; a silent connection is closed soon, but not before a busy machine has read it."""
    hurry = ConnectionLimits(grace_seconds=0.2, cut_seconds=0.2, idle_seconds=1)
    monkeypatch.setattr(web_module, "HURRY", hurry)
    async with serving(answering(*"abcdefgh"), auth=by_header, limits=FREE) as opened:
        yield opened
