"""What is known of a session without asking it: whose it is, and how its answers read."""

import pytest

from agentrail.errors import OptionError
from tests.runtime.rig import saying

DATA = {"user_id": "ann"}


async def test_facts_of_a_session_that_is_alive_and_of_none(supervisor):
    """In its own scope alone."""
    session = await supervisor.start_session(
        model=saying("a"), session_id="s-1", scope="acme", user_data=DATA
    )
    facts = await supervisor.facts_of("s-1", scope="acme")
    assert facts == session.facts
    assert (facts.root_id, facts.user_data, facts.is_here, facts.has_ended) == ("s-1", DATA, True, False)
    assert await supervisor.facts_of("s-1") is None
    assert await supervisor.facts_of("s-2", scope="acme") is None
    with pytest.raises(OptionError):
        await supervisor.facts_of(7)
    await session.stop()
    assert await supervisor.facts_of("s-1", scope="acme") is None
    assert session.facts == facts
