"""A subscriber that comes back with its number: everything after it, or exactly what is missing (docs/how-to/follow-sessions.md)."""

import attrs
import pytest
import trio

from agentrail.errors import CursorAhead, OptionError, SessionDown, SubscriberTooSlow, YourMove
from agentrail.events import (
    EPHEMERAL,
    AgentAbort,
    AgentEnd,
    AgentStart,
    EventsLost,
    MessageDelta,
    SessionEnd,
    SessionRestarted,
    SessionStart,
)
from agentrail.runtime.handle import Session
from agentrail.testing.cancelling import crash
from agentrail.testing.expectations import check_events
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import kinds, rest, saying, take, until, wants


def committed(events):
    """Those with a number of their own."""
    return [event for event in events if not event.meta.ephemeral]


def numbers(events):
    """The numbers of the committed ones."""
    return [event.meta.seq for event in committed(events)]


async def read_into(seen, subscription) -> None:
    """Read to the end, and keep what came also when that is an error."""
    with trio.fail_after(30):
        async for event in subscription:
            seen.append(event)


async def last_seq(session: Session) -> int:
    """The number of the last committed event."""
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
        await session.stop()
        seen = await rest(events)
    assert isinstance(seen[0], SessionStart)
    check_events(seen)


async def test_ephemeral_events_are_not_replayed(supervisor):
    """What they said is in the committed event that follows."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as live:
        await session.ask("Hi")
        assert MessageDelta in map(type, await until(live, AgentEnd))
    async with session.subscribe(after=0) as events:
        assert not EPHEMERAL.intersection(map(type, await until(events, AgentEnd)))


async def test_kinds_choose_what_is_replayed_too(supervisor):
    """The same events come, whether they are old or new."""
    session = await supervisor.start_session(model=saying("a", "b"))
    await session.ask("Hi")
    async with session.subscribe(after=0, kinds=[AgentStart, AgentEnd]) as events:
        await session.ask("Again")
        await session.stop()
        assert kinds(await rest(events)) == ["AgentStart", "AgentEnd", "AgentStart", "AgentEnd", "SessionEnd"]


async def test_a_small_buffer_bounds_what_is_live_only(supervisor):
    """What is replayed does not count against it, or nobody with a small one could come back."""
    session = await supervisor.start_session(model=saying("a"))
    await session.ask("Hi")
    async with session.subscribe(after=0, buffer=1) as events:
        await session.stop()  # one event more, which the buffer takes
        check_events(await rest(events))


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


async def test_as_many_events_are_kept_as_was_said(supervisor):
    """The last three of them, and not one more."""
    session = await supervisor.start_session(model=saying(*"abcde"), event_buffer_size=3)
    for _ in range(5):
        await session.ask("Hi")
        last = await last_seq(session)
        async with (
            session.subscribe(after=last - 3) as all_of_them,
            session.subscribe(after=last - 4) as too_many,
        ):
            assert numbers(await until(all_of_them, AgentEnd)) == [last - 2, last - 1, last]
            assert await take(too_many) == [EventsLost(from_seq=last - 3, to_seq=last)]


async def test_nothing_needs_to_be_kept(supervisor):
    """With a size of 0 a number is as good as long as nothing came after it."""
    session = await supervisor.start_session(model=saying("a", "b"), event_buffer_size=0)
    await session.ask("Hi")
    last = await last_seq(session)
    async with session.subscribe(after=last) as up_to_date, session.subscribe(after=last - 1) as late:
        assert await take(late) == [EventsLost(from_seq=last, to_seq=last)]
        await session.ask("Again")
        assert numbers(await until(up_to_date, AgentEnd))[0] == last + 1


async def test_a_loss_is_told_whatever_kinds_were_chosen(supervisor):
    """Nobody knows any more whether a lost event was wanted."""
    session = await supervisor.start_session(model=saying("a"), event_buffer_size=1)
    await session.ask("Hi")
    async with session.subscribe(after=0, kinds=[AgentStart]) as events:
        assert kinds(await take(events)) == ["EventsLost"]


@pytest.mark.parametrize("after", [-1, True, "3", 1.0])
async def test_a_number_that_is_none(supervisor, after):
    """It is named, with what is taken; nothing was registered."""
    session = await supervisor.start_session(model=saying())
    with pytest.raises(OptionError) as caught:
        session.subscribe(after=after)
    assert caught.value.faults == (f"after is {after!r}: expected a whole number from 0",)


@pytest.mark.parametrize(
    ("terms", "fault"),
    [
        ({"buffer": 0}, "buffer is 0: expected a whole number from 1"),
        ({"buffer": 1.5}, "buffer is 1.5: expected a whole number from 1"),
        ({"kinds": ["agent_end"]}, "kinds has 'agent_end': expected classes of events, such as AgentEnd"),
        ({"kinds": 3}, "kinds is 3: expected classes of events, such as [AgentEnd], or None"),
        (
            {"kinds": AgentEnd},
            f"kinds is {AgentEnd!r}: expected classes of events, such as [AgentEnd], or None",
        ),
    ],
)
async def test_terms_that_cannot_be(supervisor, terms, fault):
    """They are named, with what is taken, before anything is registered."""
    session = await supervisor.start_session(model=saying())
    with pytest.raises(OptionError) as caught:
        session.subscribe(**terms)
    assert caught.value.faults == (fault,)


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


async def test_a_number_is_good_across_a_crash(supervisor):
    """What was committed before it and after it comes in one row, and the snapshot tells of the restart."""
    session = await supervisor.start_session(model=saying("a", "b"))
    await session.ask("Hi")
    last = await last_seq(session)
    crash(session, "a cosmic ray")
    await session.ask("Again")
    async with session.subscribe(after=last) as events:
        seen = await until(events, AgentEnd)
        assert events.snapshot.status.restarts == 1
    assert isinstance(seen[0], SessionRestarted)
    assert numbers(seen) == list(range(last + 1, last + 1 + len(seen)))


async def test_a_session_that_has_ended_still_gives_the_rest(supervisor):
    """Who was away when it ended gets what it missed, the end last; without a number there is nothing to come."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as uncut:
        await session.ask("Hi")
        await session.stop("enough")
        whole = committed(await rest(uncut))
    for number in range(len(whole) + 1):
        async with session.subscribe(after=number) as events:
            assert await rest(events) == whole[number:]
    assert whole[-1] == SessionEnd(reason="enough")
    with pytest.raises(SessionDown, match="enough"):
        await session.subscribe().__aenter__()
    with pytest.raises(CursorAhead, match=f"expected at most {len(whole)}"):
        await session.subscribe(after=len(whole) + 1).__aenter__()


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


async def test_what_was_not_wanted_is_not_asked_for_again(supervisor):
    """The number to go on after is right before the event for which there was no room, also when nothing was given."""
    session = await supervisor.start_session(model=saying(*"abc"))
    await session.ask("Hi")
    async with session.subscribe(kinds=[AgentEnd], buffer=1) as slow:
        await session.ask("Hi")
        given = await last_seq(session)
        await session.ask("Hi")
        seen = []
        with pytest.raises(SubscriberTooSlow) as cut:
            await read_into(seen, slow)
    last = await last_seq(session)
    assert [event.meta.seq for event in seen] == [given]
    assert cut.value.resume_after == last - 1 > given


@pytest.mark.at(79)
async def test_every_subscriber_has_a_snapshot(supervisor):
    """It was taken with the registration: the first event has the number behind it, and the prompts that wait are in it."""
    hang = HangingTool()
    session = await supervisor.start_session(model=ScriptedModel([wants("hang"), says("b")]), tools=[hang])
    subscription = session.subscribe()
    assert subscription.snapshot is None
    await session.prompt("first")
    await hang.started.wait()
    second = await session.prompt("second")
    async with subscription as events:
        snapshot = events.snapshot
        assert snapshot.status.phase == "executing_tools"
        assert [waiting.ref for waiting in snapshot.queued] == [second.ref]
        assert [tool.name for tool in snapshot.status.running_tools] == ["hang"]
        await session.abort()
        assert numbers(await until(events, AgentAbort))[0] == snapshot.last_seq + 1


async def test_a_snapshot_is_of_the_registration_whenever_it_is_looked_at(supervisor):
    """Who looks late sees what who looked at once saw, however far the session went on in between."""
    session = await supervisor.start_session(model=ScriptedModel([says("a"), says("b")]))
    await session.ask("first")
    async with session.subscribe() as early, session.subscribe() as late:
        seen_at_once = early.snapshot
        await session.ask("second")
        # The two registered one behind the other, and a millisecond may have passed between.
        status = attrs.evolve(late.snapshot.status, uptime_ms=seen_at_once.status.uptime_ms)
        assert attrs.evolve(late.snapshot, status=status) == seen_at_once
        assert late.snapshot is late.snapshot
        assert late.snapshot.status.messages == 2
        assert late.snapshot.last_seq < await last_seq(session)


class Lingering(HangingTool):
    """A tool that is not gone before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled, self.let_go = trio.Event(), trio.Event()

    async def execute(self, arguments, ctx):
        """Hang, and linger."""
        try:
            return await super().execute(arguments, ctx)
        finally:
            self.cancelled.set()
            with trio.CancelScope(shield=True):
                await self.let_go.wait()


async def test_a_snapshot_counts_nothing_that_is_still_to_come(supervisor):
    """Between a crash in the middle of a step and the restart, the state is ahead of what was published; not here."""
    tool = Lingering()
    session = await supervisor.start_session(
        model=ScriptedModel([wants("hang")]), tools=[tool], event_buffer_size=1
    )
    async with session.subscribe(after=0) as uncut, session.subscribe() as bad:
        await session.prompt("Hi")
        await tool.started.wait()
        offer = bad.offer

        def explode_once(event) -> None:
            bad.offer = offer
            message = f"on {type(event).__name__}"
            raise RuntimeError(message)

        bad.offer = explode_once
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.abort)
                await tool.cancelled.wait()
                async with session.subscribe(after=1) as events:
                    seen = await take(events)
                    tool.let_go.set()
                    seen += await until(events, SessionRestarted)
                    snapshot = events.snapshot
        assert seen[0] == EventsLost(from_seq=2, to_seq=snapshot.last_seq)
        assert numbers(seen)[0] == snapshot.last_seq + 1
        await session.stop()
        check_events(await rest(uncut))


async def test_a_subscription_is_entered_once(supervisor):
    """The second time would register it twice, and everything would come twice."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as events:
        with pytest.raises(YourMove, match="entered before: subscribe once more"):
            await events.__aenter__()
        await session.ask("Hi")
        await session.stop()
        check_events(await rest(events))
