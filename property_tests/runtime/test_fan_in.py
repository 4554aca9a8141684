"""What a subscriber to many sessions may rely on, however they interleave (docs/how-to/follow-sessions.md)."""

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.errors import SubscriberTooSlow
from agentrail.events import Event
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.event_subscription import decide_terms
from agentrail.runtime.fan_in import FanIn, ManySubscription
from property_tests.runtime.bus_driver import PLENTY, Followed, committed, publish

STEPS = st.one_of(
    st.tuples(st.sampled_from(("calls", "start", "delta")), st.integers(0, 3)),
    st.tuples(st.just("read"), st.integers(1, 6)),
)


class Reader:
    """Somebody who reads all sessions with a small buffer, and comes back with the numbers that the error names."""

    def __init__(self, fan_in: FanIn, buffer: int) -> None:
        self.fan_in, self.terms = fan_in, decide_terms(kinds=None, deltas=True, buffer=buffer)
        self.seen: list[Event] = []
        self.subscription: ManySubscription | None = None

    async def come(self, positions: dict[str, int]) -> None:
        """Subscribe after these numbers."""
        self.subscription = self.fan_in.subscribe_all(self.terms, positions)
        await self.subscription.__aenter__()

    async def read(self, count: int) -> bool:
        """Read at most so many events, but never wait; say whether the end was reached."""
        for _ in range(count):
            assert self.subscription is not None
            try:
                self.seen.append(self.subscription.next_nowait())
            except trio.WouldBlock:
                return False
            except trio.EndOfChannel:
                return True
            except SubscriberTooSlow as cut:
                await self.subscription.__aexit__(None, None, None)
                await self.come(dict(cut.positions))
        return False


@pytest.mark.at(77)
@pytest.mark.at(85)
@given(plan=st.lists(STEPS, max_size=80), buffer=st.integers(1, 6))
async def test_each_session_is_complete_and_in_order(plan, buffer):
    """A session is started by its first event; whoever is cut off goes on with each, without gap or duplicate.

    All have one id, each in a scope of its own: only that tells them apart.
    """
    fan_in = FanIn()
    buses: dict[int, EventBus] = {}
    published: dict[int, list[Event]] = {}
    reader = Reader(fan_in, buffer)
    await reader.come({})
    for kind, number in plan:
        if kind == "read":
            await reader.read(number)
            continue
        if number not in buses:
            session = Followed(PLENTY, scope=f"tenant-{number}" if number else "")
            buses[number] = session.bus
            fan_in.join(session)
        published.setdefault(number, []).append(publish(buses[number], kind))
    while not await reader.read(PLENTY):  # before the end: what has ended is not replayed
        fan_in.close("enough")
    for said in published.values():
        assert committed(event for event in reader.seen if is_among(event, said)) == committed(said)


def is_among(event: Event, said: list[Event]) -> bool:
    """Whether this is one of these very events: those of two sessions may be equal."""
    return any(event is one for one in said)
