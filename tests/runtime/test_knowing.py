"""What is known of a session without asking it: whose it is, and how its answers read."""

import pytest

from agentrail.app import open_supervisor
from agentrail.errors import OptionError, SessionDown
from agentrail.messages import AssistantMessage, Text, UserMessage
from agentrail.stores.memory import MemoryStore
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


async def test_facts_of_one_that_is_in_the_store_alone():
    """It is neither taken nor woken; of one that has ended there it is said."""
    store = MemoryStore()
    async with open_supervisor(store=store) as first:
        await first.start_session(model=saying("a"), session_id="s-1", user_data=DATA)
        await (await first.start_session(model=saying("a"), session_id="s-2", user_data=DATA)).stop()
    async with open_supervisor(store=store) as second:
        facts = await second.facts_of("s-1")
        assert (facts.user_data, facts.is_here, facts.has_ended) == (DATA, False, False)
        assert (await second.facts_of("s-2")).has_ended
        assert await second.facts_of("s-3") is None
        with pytest.raises(SessionDown):
            second.session("s-1")


async def test_an_answer_reads_as_ask_gives_it(supervisor):
    """Without tags, the last response alone; also when the session has ended."""
    session = await supervisor.start_session(model=saying("<status>busy</status>Fine."))
    assert await session.ask("How are you?") == "Fine."
    read, messages = session.reads_answers(), await session.messages()
    await session.stop()
    said = (AssistantMessage(content=(Text(text="I look."),), model="m"), *messages)
    assert read(said) == "Fine."
    assert read((UserMessage(content=(Text(text="Hi"),)),)) == ""
    assert read(()) == ""
