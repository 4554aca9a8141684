"""Subscriptions: one order for all, a buffer each, and nobody for whom the session waits (docs/reference/events.md)."""

import pytest
import trio
import trio.testing

from agentrail.errors import SubscriberTooSlow, YourMove
from agentrail.events import AgentEnd
from agentrail.testing.cancelling import check_events
from agentrail.testing.models import ScriptedModel, says
from tests.runtime.rig import kinds, on_virtual_time, rest, saying, until


async def test_what_was_left_before_it_was_entered_stays_left(supervisor):
    """A stream would send its prompt, and lose every event of the cycle."""
    session = await supervisor.start_session(model=saying("a"))
    for events in (session.subscribe(), supervisor.subscribe_all(), session.stream("Hi")):
        await events.__aexit__(None, None, None)
        with trio.fail_after(60), pytest.raises(YourMove, match="subscribe again"):
            await events.__aenter__()
    assert (await session.status()).last_seq == 1


async def test_a_subscription_that_was_not_entered_says_so(supervisor):
    """Nothing would ever come: whoever forgot `async with` is told at once, however it is read."""
    session = await supervisor.start_session(model=saying("a"))
    for events in (session.subscribe(), supervisor.subscribe_all()):
        await session.status()
        with trio.fail_after(60), pytest.raises(YourMove, match="inside `async with"):
            await anext(events)
        with pytest.raises(YourMove, match="inside `async with"):
            events.next_nowait()


@pytest.mark.at(85)
@on_virtual_time
async def test_a_slow_subscriber_loses_deltas_first(supervisor):
    """They are counted; committed events all come, and the other subscriber sees everything."""
    chatty = ScriptedModel([says(*"0123456789" * 5, pause_seconds=0.1)])  # each piece is a delta of its own
    session = await supervisor.start_session(model=chatty)
    async with session.subscribe() as quick, session.subscribe(buffer=10) as slow:
        await session.ask("Hi")
        seen, seen_slowly = await until(quick, AgentEnd), await until(slow, AgentEnd)
    deltas = kinds(seen).count("MessageDelta")
    assert deltas == 50
    assert kinds(seen_slowly).count("MessageDelta") == deltas - slow.dropped_deltas < deltas
    assert [event for event in seen_slowly if not event.meta.ephemeral] == [
        event for event in seen if not event.meta.ephemeral
    ]


@pytest.mark.at(85)
async def test_a_subscriber_who_does_not_read_is_cut_off(supervisor):
    """It gets what its buffer held, then `SubscriberTooSlow` with the number to go on from; the session goes on."""
    session = await supervisor.start_session(model=saying("a", "b"))
    async with session.subscribe() as quick, session.subscribe(buffer=4) as slow:
        await session.ask("Hi")
        await session.ask("Again")
        seen = []
        with pytest.raises(SubscriberTooSlow, match="buffer of 4 events was full: read faster") as caught:  # noqa: PT012
            async for event in slow:
                seen.append(event)  # noqa: PERF401 - a comprehension would lose what came before the error
        assert len(seen) == 4
        assert caught.value.resume_after == seen[-1].meta.seq == 4
        await session.stop()
        check_events(await rest(quick))


@pytest.mark.at(84)
async def test_publishing_never_waits(supervisor):
    """A hundred cycles with a subscriber that reads nothing: nobody notices."""
    session = await supervisor.start_session(model=saying(*("ok" for _ in range(100))))
    async with session.subscribe(buffer=1):
        for _ in range(100):
            assert await session.ask("Hi") == "ok"


async def test_two_readers_of_one_subscription_are_refused(supervisor):
    """There is one position: the second who waits gets `BusyResourceError`, and the first hangs no more than before."""
    session = await supervisor.start_session(model=saying())
    async with session.subscribe(kinds=[AgentEnd]) as events, trio.open_nursery() as nursery:
        nursery.start_soon(rest, events)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(
            trio.BusyResourceError, match="subscribe again, each subscription receives all events"
        ):
            await anext(events)
        await session.stop()
