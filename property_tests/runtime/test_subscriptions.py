"""What every subscriber may rely on, whatever is published and whoever else reads (docs/how-to/follow-sessions.md).

A bus is driven directly, so that readers can come, lag and leave between any two events; what sessions really publish is
played through it as well.
"""

from collections.abc import Iterable, Sequence

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.signals import SessionBegan, Signal, SignalId, StopSession
from agentrail.core.session.state import SessionState
from agentrail.errors import SubscriberTooSlow
from agentrail.events import AgentStart, Event, EventsLost, MessageDelta, ToolCalls
from agentrail.runtime.event_subscription import Subscription, decide_terms
from agentrail.testing import strategies
from agentrail.testing.cancelling import check_events
from agentrail.testing.checked_run import LATER_MS, come_to_rest
from property_tests.runtime.bus_driver import PLENTY, Followed, committed, number_of, publish
from tests.core.worlds import new_session, walk

WANTED = st.sampled_from((None, (ToolCalls,), (AgentStart, MessageDelta), ()))
PLANS = st.lists(
    st.one_of(
        st.sampled_from(("calls", "start", "delta")),
        st.tuples(st.just("read"), st.integers(1, 6)),
        st.just("come back"),
    ),
    max_size=60,
)


class Reader:
    """Somebody who reads, lags, is cut off or leaves, and comes back with the last number each time."""

    def __init__(self, session: Followed, *, kinds: Sequence[type[Event]] | None, buffer: int) -> None:
        self.session, self.kinds, self.buffer = session, kinds, buffer
        self.seen: list[Event] = []
        self.position = 0
        self.subscription: Subscription | None = None

    async def come(self) -> None:
        """Subscribe with the last number."""
        terms = decide_terms(kinds=self.kinds, deltas=True, buffer=self.buffer)
        self.subscription = await self.session.bus.subscribe(
            terms, after=self.position, take_snapshot=self.session.take_snapshot
        ).__aenter__()

    async def come_back(self) -> None:
        """Leave whatever waits to be read, and come again."""
        assert self.subscription is not None
        await self.subscription.__aexit__(None, None, None)
        await self.come()

    async def read(self, count: int) -> bool:
        """Read at most so many events, but never wait; say whether the end was reached."""
        for _ in range(count):
            assert self.subscription is not None
            try:
                event = self.subscription.next_nowait()
            except trio.WouldBlock:
                return False
            except trio.EndOfChannel:
                return True
            except SubscriberTooSlow as cut:
                self._go_on_after(cut.resume_after)
                await self.come_back()
            else:
                self.seen.append(event)
                self.position = number_of(event)
        return False

    def _go_on_after(self, number: int | None) -> None:
        assert number is not None
        assert number >= self.position
        self.position = number


def check_complete(reader: Reader, published: Sequence[Event], keep: int) -> None:
    """Each committed event that was wanted was given once, in order, or lies in exactly one loss that was told."""
    missing: set[int] = set()
    for event in reader.seen:
        if isinstance(event, EventsLost):
            lost = set(range(event.from_seq, event.to_seq + 1))
            assert lost
            assert not lost & missing
            assert len(lost) > keep, "a loss was told though everything was kept"
            missing |= lost
    wanted = [
        event
        for event in committed(published)
        if (reader.kinds is None or type(event) in reader.kinds) and number_of(event) not in missing
    ]
    assert committed(reader.seen) == wanted


@pytest.mark.at(77)
@pytest.mark.at(82)  # all of it happens at one time
@pytest.mark.at(89)
@given(plan=PLANS, keep=st.integers(0, 8), buffer=st.integers(1, 5), kinds=WANTED)
async def test_everything_or_exactly_what_is_missing(plan, keep, buffer, kinds):
    """However often a reader lags or leaves and resumes with its number; and nobody else notices (4.6)."""
    session = Followed(keep)
    bus = session.bus
    published: list[Event] = []
    terms = decide_terms(kinds=None, deltas=True, buffer=PLENTY)
    reader = Reader(session, kinds=kinds, buffer=buffer)
    await reader.come()
    async with bus.subscribe(terms, after=None, take_snapshot=session.take_snapshot) as uncut:
        for step in plan:
            match step:
                case ("read", int(count)):
                    await reader.read(count)
                case "come back":
                    await reader.come_back()
                case kind:
                    published.append(publish(bus, kind))
        published.append(publish(bus, "end"))
        bus.close("enough")
        assert await reader.read(PLENTY)
        assert [event async for event in uncut] == published
    check_complete(reader, published, keep)


@given(data=st.data(), start=st.builds(new_session, max_turns=st.sampled_from((3, 2, 1))))
async def test_a_life_that_is_read_in_pieces_is_the_same_life(data, start):
    """What sessions publish, cut at any points and resumed with the last number, equals what was published (4.6)."""
    events = life_of(start, data.draw(strategies.scripts(start)))
    check_events(events)  # dense numbers, one terminal event for each cycle, and pairs that nest
    cuts = data.draw(st.sets(st.integers(0, len(events) - 1)))
    session = Followed(PLENTY)
    bus = session.bus
    reader = Reader(session, kinds=None, buffer=3)
    await reader.come()
    for position, event in enumerate(events):
        bus.publish(event)
        if position in cuts:
            await reader.read(2)
            await reader.come_back()
    bus.close("enough")
    assert await reader.read(PLENTY)
    assert committed(reader.seen) == committed(events)
    assert [number_of(event) for event in committed(reader.seen)] == list(
        range(1, len(committed(events)) + 1)
    )


def life_of(start: SessionState, script: Iterable[Signal]) -> list[Event]:
    """All that a session publishes until it has ended, which it does when it has come to rest."""
    life = list(walk([SessionBegan(at_ms=0), *script], start))
    life += come_to_rest(life[-1].after)
    life += walk([StopSession(at_ms=LATER_MS, signal_id=SignalId("the last"))], life[-1].after)
    life += come_to_rest(life[-1].after)
    return [effect.event for seen in life for effect in seen.effects if isinstance(effect, Publish)]
