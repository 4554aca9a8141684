"""A subscriber that comes back with its number: everything after it, or exactly what is missing (docs/how-to/follow-sessions.md)."""

import pytest
import trio

from agentrail.errors import CursorAhead, OptionError, SubscriberTooSlow, YourMove
from agentrail.events import AgentEnd, EventsLost, SessionStart
from agentrail.runtime.session_handle import Session
from agentrail.testing.cancelling import check_events
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import rest, saying, until, wants


def committed(events):
    return [event for event in events if not event.meta.ephemeral]


def numbers(events):
    return [event.meta.seq for event in committed(events)]


async def read_into(seen, subscription) -> None:
    """Read to the end, and keep what came also when that is an error."""
    with trio.fail_after(60):
        async for event in subscription:
            seen.append(event)


async def last_seq(session: Session) -> int:
    return (await session.status()).last_seq


@pytest.mark.at(77)
@pytest.mark.at(89)
async def test_after_a_number_comes_all_that_follows_it(supervisor):
    """From every number on: first what was committed since, then what is live; no gap, no duplicate, in order."""
    script = ScriptedModel([wants("record"), says("a", "b"), says("c")])
    session = await supervisor.start_session(model=script, tools=[RecordingTool()])
    async with session.subscribe(after=0) as uncut:
        await session.ask("Hi")
        resumed = [session.subscribe(after=number) for number in range(await last_seq(session) + 1)]
        for subscription in resumed:
            await subscription.__aenter__()  # for good: it ends with the session
        await session.ask("Again")
        await session.stop()
        whole = committed(await rest(uncut))
    check_events(whole)
    for number, subscription in enumerate(resumed):
        assert committed(await rest(subscription)) == whole[number:]


@pytest.mark.at(81)
async def test_the_first_events_cannot_be_missed(supervisor):
    """Whoever asks for all after 0 has the session's whole life, however late it comes."""
    session = await supervisor.start_session(model=saying("a"))
    await session.ask("Hi")
    async with session.subscribe(after=0) as events:
        with pytest.raises(YourMove, match="already entered: subscribe again"):
            await events.__aenter__()  # it would be registered twice, and everything would come twice
        await session.stop()
        seen = await rest(events)
    assert isinstance(seen[0], SessionStart)
    check_events(seen)


@pytest.mark.at(77)
async def test_what_is_kept_no_longer_is_named(supervisor):
    """`EventsLost` says exactly what is missing, the snapshot holds what it said, and the next number comes next."""
    session = await supervisor.start_session(model=saying("a", "b"), event_buffer_size=3)
    await session.ask("Hi")
    last = await last_seq(session)
    async with session.subscribe(after=1) as events, session.subscribe() as other:
        assert events.snapshot.last_seq == last
        assert events.snapshot.status.messages == 2
        await session.ask("Again")
        await session.stop()
        lost, *live = await rest(events)
        assert EventsLost not in map(type, await rest(other))
    assert lost == EventsLost(from_seq=2, to_seq=last)
    assert (lost.meta.session_id, lost.meta.seq, lost.meta.ephemeral) == (session.session_id, last, True)
    assert lost.meta.path == (session.session_id,)
    assert numbers(live) == list(range(last + 1, last + 1 + len(numbers(live))))


@pytest.mark.at(83)
async def test_a_number_beyond_the_last_is_refused(supervisor):
    """When the block is entered, because it may still be true when the subscription is made."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
    last = await last_seq(session)
    subscription = session.subscribe(after=last + 1)
    with pytest.raises(
        CursorAhead, match=rf"^after is 2: expected at most {last}, the last event of session 's-1'$"
    ) as caught:
        await subscription.__aenter__()
    assert isinstance(caught.value, OptionError)
    assert (caught.value.code, caught.value.positions) == ("cursor_ahead", {"s-1": last})
    await session.ask("Hi")
    async with subscription as events:
        assert numbers(await until(events, AgentEnd))[0] == last + 2


@pytest.mark.at(85)
async def test_who_was_cut_off_goes_on_where_it_was(supervisor):
    """With `resume_after` the rest comes, to the last event, however often that happens; nothing twice."""
    session = await supervisor.start_session(model=saying(*"abcde"))
    seen, after = [], 0
    async with session.subscribe(after=0) as uncut:
        for _ in range(5):
            async with session.subscribe(after=after, buffer=4) as slow:
                await session.ask("Hi")
                with pytest.raises(SubscriberTooSlow) as cut:
                    await read_into(seen, slow)
            after = cut.value.resume_after
            assert cut.value.positions == {session.session_id: after}
        async with session.subscribe(after=after) as quick:
            await session.stop()
            await read_into(seen, quick)
        assert committed(seen) == committed(await rest(uncut))
