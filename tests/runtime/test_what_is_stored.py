"""What a supervisor says of a stored session without waking it: its records, what they come to, and whether the store works."""

import pytest
import trio

from agentrail.errors import OptionError, SessionNotFound, StoreUnavailable
from agentrail.stores.memory import MemoryStore
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import on_virtual_time, saying


@on_virtual_time
async def test_what_cannot_be_asked_is_refused():
    """Numbers that are none, ids that are unknown, of another scope, and a supervisor without a store."""
    async with open_nameless(store=MemoryStore()) as supervisor:
        await supervisor.start_session(model=saying("fine"), session_id="s", scope="acme")
        for after, limit in ((-1, 1), (0, 0), (0, 10_001), (True, 1), ("0", 1)):
            with pytest.raises(OptionError, match="expected a whole number"):
                await supervisor.stored_journal("s", after, limit, scope="acme")
        for read in (supervisor.stored_journal, supervisor.stored_state):
            with pytest.raises(SessionNotFound):
                await read("s")
            with pytest.raises(OptionError):
                await read(7)
            with pytest.raises(OptionError):
                await read("s", scope="a/b")
    async with open_nameless(store=None) as supervisor:
        for ask in (
            supervisor.check_store,
            lambda: supervisor.stored_journal("s"),
            lambda: supervisor.stored_state("s"),
            lambda: supervisor.delete_session("s"),
            lambda: supervisor.trim_session("s", before=2),
        ):
            with pytest.raises(OptionError, match="store"):
                await ask()


class Counted(MemoryStore):
    """Counts its beats, and takes none when it is told so."""

    beats = 0
    is_full = False

    def beat(self, node):
        if self.is_full:
            message = "the disk is full"
            raise StoreUnavailable(message)
        self.beats += 1
        super().beat(node)


@on_virtual_time
async def test_a_store_is_asked_by_a_write_once_a_second_at_most():
    """A failure is not remembered as a success."""
    store = Counted()
    async with open_nameless(store=store) as supervisor:
        await trio.sleep(0.1)
        before = store.beats
        for _ in range(10):
            await supervisor.check_store()
        assert store.beats == before + 1
        await trio.sleep(1.1)
        store.is_full = True
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await supervisor.check_store()
        store.is_full = False
        await supervisor.check_store()
        assert store.beats == before + 2


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
