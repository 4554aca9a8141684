"""How a session ended can be asked later: it is known of the last ones, and for a while what they published can be read."""

import gc
import weakref

import pytest
import trio

from agentrail import SessionDown
from agentrail.errors import OptionError, SessionRefused
from agentrail.events import SessionEnd
from agentrail.runtime import last_words
from agentrail.testing.cancelling import crash
from agentrail.testing.plugins import PuppetPlugin, read_rule
from tests.runtime.rig import on_virtual_time, open_bare, rest, saying
from tests.runtime.test_scopes import BAD

REFUSES = PuppetPlugin((read_rule("SessionStarted", "abort:no room"),), name="refuses")


async def test_the_words_of_one_that_was_stopped(supervisor):
    """Its reason, as callers hear it, and where its events end; before that there is nothing to say."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
    assert supervisor.last_words("s-1") is None
    await session.ask("Hi")
    last = (await session.snapshot()).last_seq
    await supervisor.stop_session("s-1", "enough")
    words = supervisor.last_words("s-1")
    assert (words.session_id, words.scope, words.how, words.reason) == ("s-1", "", "ended", "enough")
    assert (words.crash, words.incarnation, words.last_seq) == (None, 1, last + 1)
    assert abs(words.ended_at_ms - session._cell.state.data.started_at_ms) < 60_000  # noqa: SLF001 - when it began


async def test_they_are_there_as_soon_as_the_session_is_not(supervisor):
    """Who hears that a session has ended can ask how: no moment lies between in which it is as unknown as any."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
    told = []

    async def look() -> None:
        while True:
            try:
                supervisor.session("s-1")
            except SessionDown:
                told.append(supervisor.last_words("s-1"))
                return
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await session.stop("enough")
    assert told[0].reason == "enough"


async def test_the_words_of_one_that_was_given_up(supervisor):
    """With the last crash: else it would be as unknown as any."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1", restart="temporary")
    crash(session, "a cosmic ray")
    await session.monitor().wait()
    words = supervisor.last_words("s-1")
    assert words.how == "parked"
    assert "a cosmic ray" in words.crash
    assert words.reason == f"parked: {words.crash}"


async def test_the_words_of_one_that_crashed_and_came_back(supervisor):
    """What it crashed with before is no way to end."""
    session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
    await session.ask("Hi")
    crash(session, "a cosmic ray")
    await session.ask("Hi")
    await session.stop()
    words = supervisor.last_words("s-1")
    assert (words.how, words.crash, words.incarnation) == ("ended", None, 2)


async def test_one_that_never_was_has_none(supervisor):
    """Neither has one that no plugin let begin, nor one of another scope."""
    assert supervisor.last_words("nobody") is None
    with pytest.raises(SessionRefused):
        await supervisor.start_session(model=saying(), session_id="s-1", plugins=[REFUSES])
    assert supervisor.last_words("s-1") is None
    await (await supervisor.start_session(model=saying(), session_id="s-1", scope="a")).stop()
    assert supervisor.last_words("s-1") is None
    assert supervisor.last_words("s-1", scope="a").scope == "a"


@pytest.mark.parametrize("session_id", [None, 7, b"s", ["s"]])
async def test_an_id_that_is_no_text_is_refused(supervisor, session_id):
    """Typed; as `session` does."""
    with pytest.raises(OptionError, match=r"session_id is .*: expected a text"):
        supervisor.last_words(session_id)


@pytest.mark.parametrize("scope", BAD, ids=repr)
async def test_a_scope_that_can_be_none_is_refused(supervisor, scope):
    """As at every other door."""
    with pytest.raises(OptionError, match="scope is"):
        supervisor.last_words("s-1", scope=scope)


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


@on_virtual_time
async def test_what_is_kept_is_freed_by_itself():
    """Nothing has to happen for that: the conversation is gone when its time is over."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        kept = weakref.ref(session._cell.pending_calls)  # noqa: SLF001 - a part of what is kept
        await session.stop()
        del session
        await trio.sleep(299)
        gc.collect()
        assert kept() is not None
        await trio.sleep(2)
        gc.collect()
        assert kept() is None


async def test_only_so_many_are_known(supervisor, monkeypatch):
    """The last ones, in the order in which they ended; and of fewer there is a handle."""
    monkeypatch.setattr(last_words, "MAX_LAST_WORDS", 4)
    monkeypatch.setattr(last_words, "MAX_HANDLES", 2)
    for number in (0, 1, 2, 0, 3, 4):
        session = await supervisor.start_session(model=saying("a"), session_id=f"s-{number}")
        await session.stop()
    words = [supervisor.last_words(f"s-{number}") for number in range(5)]
    assert [one is not None for one in words] == [True, False, True, True, True]
    assert [one.session is not None for one in words if one is not None] == [False, False, True, True]


async def test_a_long_reason_is_cut(supervisor):
    """It is the caller's, and ten thousand of them are kept."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
    await session.stop("x" * 100_000)
    assert supervisor.last_words("s-1").reason == "x" * 2_000


async def test_they_are_known_when_the_supervisor_is_closed():
    """Without handles, which no task would forget any more."""
    async with open_bare() as supervisor:
        await supervisor.start_session(model=saying("a"), session_id="s-1")
        done = await supervisor.start_session(model=saying("a"), session_id="s-2")
        await done.stop()
        assert supervisor.last_words("s-2").session is not None
    words = supervisor.last_words("s-1")
    assert (words.reason, words.session) == ("the supervisor was closed", None)
    assert supervisor.last_words("s-2").session is None
