"""Many sessions as one stream: those that there are, and those that are still to come (docs/how-to/follow-sessions.md)."""

import weakref
from collections import defaultdict, deque
from contextlib import suppress

import pytest
import trio
import trio.testing

from agentrail.errors import CursorAhead, OptionError, SessionDown, SubscriberTooSlow
from agentrail.events import AgentEnd, EventsLost, SessionEnd, SessionStart
from agentrail.runtime import event_subscription
from agentrail.testing.cancelling import check_events
from agentrail.testing.orphans import no_orphans
from tests.garbage import without_collector
from tests.runtime.rig import kinds, open_bare, rest, saying, take
from tests.runtime.test_resuming import committed, last_seq, numbers, read_into


def by_session(events):
    sorted_out = defaultdict(list)
    for event in events:
        sorted_out[event.meta.session_id].append(event)
    return dict(sorted_out)


async def test_sessions_from_before_and_after_are_read():
    """Each session's events come as its own subscriber sees them; the iteration ends when the supervisor closes."""
    async with no_orphans():
        async with open_bare() as supervisor:
            before = await supervisor.start_session(model=saying("a"), session_id="before")
            everything, own_before = supervisor.subscribe_all(), before.subscribe()
            await everything.__aenter__()  # for good: it ends with the supervisor
            await own_before.__aenter__()
            after = await supervisor.start_session(model=saying("b"), session_id="after")
            own_after = after.subscribe()
            await own_after.__aenter__()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(before.ask, "Hi")
                nursery.start_soon(after.ask, "Hi")
        seen = by_session(await rest(everything))
    assert seen == {"before": await rest(own_before), "after": await rest(own_after)}
    for session_id, events in seen.items():
        check_events(events)
        assert {event.meta.path for event in events} == {(session_id,)}
        assert events[-1] == SessionEnd(reason="the supervisor was closed")
    with pytest.raises(SessionDown, match="the supervisor was closed"):
        await supervisor.subscribe_all().__aenter__()


async def test_a_group_is_read_apart_from_all_others(supervisor):
    """It need not have a session yet; sessions of another group, and of none, do not come."""
    async with supervisor.subscribe_group("blue", kinds=[SessionStart, AgentEnd]) as events:
        for group_id in ("blue", "red", None, "blue"):
            session = await supervisor.start_session(
                model=saying("a"), group_id=group_id, session_id=f"{group_id}-{len(supervisor.sessions())}"
            )
            await session.ask("Hi")
        await supervisor.stop_all("enough")
        await supervisor._close_rest()  # noqa: SLF001 - part of the supervisor
        seen = by_session(await rest(events))
    assert {session_id: kinds(own) for session_id, own in seen.items()} == {
        "blue-0": ["SessionStart", "AgentEnd"],
        "blue-3": ["SessionStart", "AgentEnd"],
    }


@pytest.mark.at(77)
@pytest.mark.at(85)
async def test_who_was_cut_off_goes_on_with_each_session(supervisor):
    """One buffer for all, one number for each; sessions that were started since come from their start."""
    one, two = [
        await supervisor.start_session(model=saying("a", "b", "c"), session_id=name)
        for name in ("one", "two")
    ]
    seen = []
    async with supervisor.subscribe_all() as uncut, supervisor.subscribe_all(buffer=9) as slow:
        await one.ask("Hi")
        await two.ask("Hi")
        with pytest.raises(SubscriberTooSlow, match="buffer of 9 events was full") as cut:
            await read_into(seen, slow)
        positions = cut.value.positions
        assert cut.value.resume_after is None
        assert positions["one"] > positions["two"] >= 1
        three = await supervisor.start_session(model=saying("a"), session_id="three")
        await three.ask("Hi")
        async with supervisor.subscribe_all(after=positions) as resumed:
            for session in (one, two):
                await session.ask("Hi")
            await supervisor.stop_all("enough")
            await supervisor._close_rest()  # noqa: SLF001 - part of the supervisor
            seen += await rest(resumed)
        assert by_session(committed(seen)) == by_session(committed(await rest(uncut)))


async def test_what_is_lost_is_told_for_each_session(supervisor):
    """With the snapshot of the very session, at the moment when its loss is read."""
    sessions = [
        await supervisor.start_session(model=saying("a"), session_id=name, event_buffer_size=size)
        for name, size in (("one", 2), ("two", 1000), ("three", 0))
    ]
    for session in sessions:
        await session.ask("Hi")
    last = await last_seq(sessions[0])
    async with supervisor.subscribe_all(after={"one": 1}) as events:
        assert events.snapshot is None
        assert await take(events) == [EventsLost(from_seq=2, to_seq=last)]
        assert (events.snapshot.status.session_id, events.snapshot.last_seq) == ("one", last)
        whole = await take(events, last)
        assert {event.meta.session_id for event in whole} == {"two"}
        assert numbers(whole) == list(range(1, last + 1))
        assert await take(events) == [EventsLost(from_seq=1, to_seq=last)]
        assert events.snapshot.status.session_id == "three"


@pytest.mark.parametrize("size", [0, 1000])
async def test_what_each_session_adds_is_added_without_copies(supervisor, monkeypatch, size):
    """With copies of what the others had added, ten thousand sessions held the event loop for ten seconds."""
    copied = []

    class Counted(deque):
        def __iter__(self):
            copied.append(len(self))
            return super().__iter__()

    for name in ("one", "two", "three"):
        session = await supervisor.start_session(model=saying("a"), session_id=name, event_buffer_size=size)
        await session.ask("Hi")
    monkeypatch.setattr(event_subscription, "deque", Counted)
    async with supervisor.subscribe_all(after={}) as events:
        assert {event.meta.session_id for event in await take(events, 3)} <= {"one", "two", "three"}
    assert sum(copied) == 0


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ({"after": 3}, ["after is 3: expected a mapping from session ids to numbers, or None"]),
        (
            {"after": {"a": -1, "b": "x", "c": 0}},
            [
                "after['a'] is -1: expected a whole number >= 0",
                "after['b'] is 'x': expected a whole number >= 0",
            ],
        ),
        ({"buffer": 0}, ["buffer is 0: expected a whole number >= 1"]),
    ],
)
async def test_arguments_that_cannot_be(supervisor, arguments, faults):
    """All of them are named, for all sessions as for a group."""
    with pytest.raises(OptionError) as caught:
        supervisor.subscribe_all(**arguments)
    assert caught.value.faults == tuple(faults)
    with pytest.raises(OptionError) as caught:
        supervisor.subscribe_group("blue", **arguments)
    assert caught.value.faults == tuple(faults)
    with pytest.raises(OptionError, match="group_id is None: expected a text"):
        supervisor.subscribe_group(None)  # it would read the sessions of everybody


async def test_numbers_beyond_the_last_are_refused_together(supervisor):
    """All of them are named, and nothing was registered, not even where the number was right."""
    sessions = [await supervisor.start_session(model=saying("a"), session_id=name) for name in "abc"]
    last = [await last_seq(session) for session in sessions]
    subscription = supervisor.subscribe_all(after={"a": 9, "b": last[1], "c": 8})
    with pytest.raises(CursorAhead) as caught:
        await subscription.__aenter__()
    assert caught.value.positions == {"a": last[0], "c": last[2]}
    assert caught.value.faults == (
        f"after is 9: expected at most {last[0]}, the last event of session 'a'",
        f"after is 8: expected at most {last[2]}, the last event of session 'c'",
    )
    for session in sessions:
        await session.ask("Hi")
    subscription.end()
    assert await rest(subscription) == []


@pytest.mark.parametrize("after", [{}, {"a": 99}], ids=["read", "refused"])
async def test_a_subscription_after_numbers_is_freed_without_the_collector(supervisor, after):
    """A server that looks at old objects rarely would keep each one, with the events that were read for it."""
    await supervisor.start_session(model=saying("a"), session_id="a")
    with without_collector():
        subscription = supervisor.subscribe_all(after=after)
        known = weakref.ref(subscription)
        with suppress(CursorAhead):
            async with subscription:
                pass
        del subscription
        assert known() is None
