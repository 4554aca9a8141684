"""How a session ended can be asked later: it is known of the last ones, and for a while what they published can be read."""

import weakref

import pytest
import trio

from agentrail import SessionDown, tool
from agentrail.errors import SessionRefused
from agentrail.events import SessionEnd
from agentrail.runtime import ended_sessions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.plugins import PuppetPlugin, read_rule
from tests.garbage import without_collector
from tests.runtime.rig import calling, on_virtual_time, open_bare, open_over, rest, saying


@tool
def hint() -> str:
    """Give one."""
    return "none"


REFUSES = PuppetPlugin((read_rule("SessionStarted", "abort:no room"),), name="refuses")


async def test_one_that_never_was_has_none(supervisor):
    """Neither has one that no plugin let begin, nor one of another scope."""
    assert supervisor.last_words("nobody") is None
    with pytest.raises(SessionRefused):
        await supervisor.start_session(model=saying(), session_id="s-1", plugins=[REFUSES])
    assert supervisor.last_words("s-1") is None
    await (await supervisor.start_session(model=saying(), session_id="s-1", scope="a")).stop()
    assert supervisor.last_words("s-1") is None
    assert supervisor.last_words("s-1", scope="a").scope == "a"


@pytest.mark.host("H-105")
@on_virtual_time
async def test_a_reader_who_comes_back_within_five_minutes_gets_the_rest():
    """After that the events are gone, and how it ended is still known."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.ask("Hi")
        await session.stop("enough")
        del session
        await trio.sleep(180)
        words = supervisor.last_words("s-1")
        async with words.session.subscribe(after=1) as events:
            seen = await rest(events)
        assert seen[-1] == SessionEnd(reason="enough")
        assert seen[-1].meta.seq == words.last_seq
        with pytest.raises(SessionDown, match="enough"):
            await words.session.status()
        await trio.sleep(180)
        words = supervisor.last_words("s-1")
        assert (words.reason, words.session) == ("enough", None)


@on_virtual_time
async def test_an_id_that_is_taken_anew_has_its_own_five_minutes():
    """The handle is that of the last one that ended, and the time of an earlier one does not end it."""
    async with open_bare() as supervisor:
        for number in range(2):
            session = await supervisor.start_session(model=saying("a"), session_id="s-1")
            await session.stop(f"end {number}")
            await trio.sleep(200)
        words = supervisor.last_words("s-1")
        assert words.reason == "end 1"
        assert words.session is not None
        again = await supervisor.start_session(model=saying("a"), session_id="s-1")
        assert supervisor.last_words("s-1").reason == "end 1"
        await trio.sleep(150)
        assert supervisor.last_words("s-1").session is None
        assert await again.status()


async def test_only_so_many_are_known(supervisor, monkeypatch):
    """The last ones, in the order in which they ended; and of fewer there is a handle."""
    monkeypatch.setattr(ended_sessions, "MAX_LAST_WORDS", 4)
    monkeypatch.setattr(ended_sessions, "MAX_HANDLES", 2)
    for number in (0, 1, 2, 0, 3, 4):
        session = await supervisor.start_session(model=saying("a"), session_id=f"s-{number}")
        await session.stop()
    words = [supervisor.last_words(f"s-{number}") for number in range(5)]
    assert [one is not None for one in words] == [True, False, True, True, True]
    assert [one.session is not None for one in words if one is not None] == [False, False, True, True]


@pytest.mark.parametrize("store", [None, MemoryStore])
@on_virtual_time
async def test_one_that_ended_is_freed_without_the_collector(store):
    """With its handle after five minutes: a server of many sessions looks at old objects so rarely that each would stay for an hour."""
    opened = open_bare() if store is None else open_over(store())
    async with opened as supervisor:
        session = await supervisor.start_session(model=calling("hint", then="ok"), tools=[hint])
        assert await session.ask("Hi") == "ok"
        async with session.subscribe(after=0):
            await session.stop()
        cell = weakref.ref(session._cell)  # noqa: SLF001 - what is to be freed
        del session
        with without_collector():
            await trio.sleep(301)
            assert cell() is None


@on_virtual_time
async def test_nothing_is_kept_of_one_that_was_deleted_in_the_store():
    """Nor of what worked for it: its events cannot be read, and they are freed at once. Others keep their five minutes."""
    async with open_over(MemoryStore()) as supervisor:
        for name in ("s-1", "s-2"):
            session = await supervisor.start_session(model=saying("a"), session_id=name)
            await session.ask("Hi")
            await session.stop()
        cell = weakref.ref(supervisor.last_words("s-1").session._cell)  # noqa: SLF001 - what is to be freed
        del session
        with without_collector():
            await supervisor.delete_session("s-1", purge=True)
            assert supervisor.last_words("s-1") is None
            assert cell() is None
        assert supervisor.last_words("s-2").session is not None
        await trio.sleep(301)
        assert supervisor.last_words("s-2").session is None
