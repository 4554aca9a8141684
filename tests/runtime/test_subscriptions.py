"""Subscriptions: one order for all, a buffer each, and nobody for whom the session waits (docs/reference/events.md)."""

import pytest
import trio
import trio.testing

from agentrail.errors import SubscriberTooSlow, YourMove
from agentrail.events import EPHEMERAL, AgentEnd, AgentStart, MessageDelta, SessionEnd
from agentrail.testing.expectations import check_events
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import kinds, on_virtual_time, rest, saying, until, wants


def chatty(pieces: int) -> ScriptedModel:
    """Make a model whose pieces come one by one, each as a delta of its own."""
    return ScriptedModel([says(*(str(number % 10) for number in range(pieces)), pause_seconds=0.1)])


async def test_all_subscribers_see_the_same(supervisor):
    """The same events in the same order, dense in number, each cycle and call complete."""
    script = ScriptedModel([wants("record"), says("a", "b"), says("c")])
    session = await supervisor.start_session(model=script, tools=[RecordingTool()])
    async with session.subscribe() as one, session.subscribe() as two:
        await session.ask("Hi")
        await session.ask("Again")
        await session.stop()
        seen = [await rest(one), await rest(two)]
    check_events(seen[0])
    assert seen[0] == seen[1]
    assert [event.meta for event in seen[0]] == [event.meta for event in seen[1]]


async def test_a_subscription_that_was_not_entered_says_so(supervisor):
    """Nothing would ever come: whoever forgot `async with` is told at once, however it is read."""
    session = await supervisor.start_session(model=saying("a"))
    for events in (session.subscribe(), supervisor.subscribe_all()):
        await session.status()
        with trio.fail_after(5), pytest.raises(YourMove, match="inside of `async with"):
            await anext(events)
        with pytest.raises(YourMove, match="inside of `async with"):
            events.next_nowait()


async def test_a_subscriber_may_choose_kinds(supervisor):
    """Only these come, and how all ends; the numbers tell what was left out."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe(kinds=[AgentStart, AgentEnd]) as events:
        await session.ask("Hi")
        await session.stop()
        assert kinds(await rest(events)) == ["AgentStart", "AgentEnd", "SessionEnd"]


async def test_a_subscriber_may_do_without_deltas(supervisor):
    """What they said is in the committed event that follows."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe(deltas=False) as events:
        await session.ask("Hi")
        seen = await until(events, AgentEnd)
    assert not EPHEMERAL.intersection(map(type, seen))
    assert seen[-1].messages[-1].text == "a"


@pytest.mark.at(85)
@on_virtual_time
async def test_a_slow_subscriber_loses_deltas_first(supervisor):
    """They are counted; committed events all come, and the other subscriber sees everything."""
    session = await supervisor.start_session(model=chatty(50))
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


async def test_iteration_ends_with_the_session(supervisor):
    """After what is still in the buffer, `SessionEnd` last, and then for good."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as events:
        await session.ask("Hi")
        await session.stop()
        assert isinstance((await rest(events))[-1], SessionEnd)
        assert await rest(events) == []


async def test_what_waits_can_be_taken_without_waiting(supervisor):
    """All of it, one after the other; then there is nothing now, and after the end nothing ever."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as events:
        with pytest.raises(trio.WouldBlock):
            events.next_nowait()
        status = await session.status()
        assert events.next_nowait().meta.seq == status.last_seq == 1
        with pytest.raises(trio.WouldBlock):
            events.next_nowait()
        await session.stop()
        assert isinstance(events.next_nowait(), SessionEnd)
        with pytest.raises(trio.EndOfChannel):
            events.next_nowait()


async def test_a_waiting_subscriber_is_woken_by_the_end(supervisor):
    """Parked in the iteration, it sees the end and leaves it."""
    session = await supervisor.start_session(model=saying())
    seen = []
    async with session.subscribe() as events, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _read() -> None:
            seen.extend(await rest(events))

        await trio.testing.wait_all_tasks_blocked()
        await session.stop("enough")
    assert seen[-1] == SessionEnd(reason="enough")


async def test_leaving_while_events_are_published(supervisor):
    """A subscriber may leave in the middle of a step; the others miss nothing."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as leaving, session.subscribe() as staying:
        offer = leaving.offer

        def offer_and_leave(event) -> None:
            offer(event)
            leaving._leave(leaving)  # noqa: SLF001 - what `__aexit__` does, at the worst moment

        leaving.offer = offer_and_leave
        await session.ask("Hi")
        await session.stop()
        check_events(await rest(staying))


async def test_a_cancelled_reader_loses_nothing(supervisor):
    """Cancelled while it waits, it goes on later where it was."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as events:
        with trio.move_on_after(0):
            await rest(events)
        await session.ask("Hi")
        await session.stop()
        check_events(await rest(events))


async def test_two_readers_of_one_subscription_are_refused(supervisor):
    """There is one position: the second who waits gets `BusyResourceError`, and the first hangs no more than before."""
    session = await supervisor.start_session(model=saying())
    async with session.subscribe(kinds=[AgentEnd]) as events, trio.open_nursery() as nursery:
        nursery.start_soon(rest, events)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError, match="subscribe once more"):
            await anext(events)
        await session.stop()


async def test_deltas_carry_the_number_before_them(supervisor):
    """They take none of their own, so that what is committed stays dense."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as events:
        await session.prompt("Hi")
        seen = await until(events, MessageDelta)
    assert seen[-1].meta.ephemeral
    assert seen[-1].meta.seq == seen[-2].meta.seq == len(seen) - 1
    assert seen[-1].meta.path == (session.session_id,)
