"""How many sessions a caller may have open, over a real host."""

import pytest

from agentrail.errors import QuotaReached
from agentrail.host.limits import Limits
from tests.host.hosting import ANN, BOB, answering, asked, hosting
from tests.runtime.rig import on_virtual_time


@on_virtual_time
async def test_a_caller_opens_no_more_sessions_than_it_may():
    """By a message or without one; what is open can be used, others are not concerned, and one that ends makes room."""
    model = answering(*["Hello."] * 8)
    async with hosting(model, limits=Limits(max_sessions_per_principal=2)) as host:
        first = await asked(host)
        await first.outcome()
        second = await host.create(ANN)
        for opening in (lambda: asked(host), lambda: host.create(ANN)):
            with pytest.raises(QuotaReached, match="2 sessions are open, more are not"):
                await opening()
        again = await asked(host, session_id=first.session.session_id)
        assert await again.outcome() == "completed"
        await host.create(BOB)
        await second.stop()
        await host.create(ANN)
        with pytest.raises(QuotaReached):
            await host.create(ANN)


@on_virtual_time
async def test_a_message_that_is_refused_for_that_leaves_nothing():
    """Neither a session nor a request that is open."""
    async with hosting(answering("Hello."), limits=Limits(max_sessions_per_principal=1)) as host:
        await host.create(ANN)
        for _ in range(3):
            with pytest.raises(QuotaReached):
                await asked(host)
        assert len(host.sessions_of(ANN)) == 1
        await host.quiet()
