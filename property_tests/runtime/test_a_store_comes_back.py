"""What may be relied on while a store hangs, refuses, and is back (9.6): nothing that was given is lost or doubled, and soon all goes on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import trio
import trio.testing
from attrs import frozen
from hypothesis import example, given, strategies as st

from agentrail.abc.store import Append, Standing
from agentrail.core.journal.record import Record
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.messages import SessionId
from agentrail.outside import RealMachine
from agentrail.runtime.store_writer import LONGEST_PAUSE_SECONDS, Writer

PATIENCE_SECONDS = 5.0
COMMIT_SECONDS = 0.01


@frozen
class Outage:
    """When a store does not take anything, and what it does instead.

    Attributes:
        begins: In seconds.
        lasts: In seconds.
        hangs: Whether it answers only at the end; else it refuses at once.
        refuses_then: Whether what hung is refused at the end; else it is done.
    """

    begins: float
    lasts: float
    hangs: bool = False
    refuses_then: bool = True

    @property
    def ends(self) -> float:
        """When the store is back."""
        return self.begins + self.lasts


@frozen
class Request:
    """What a caller asks of the writer.

    Attributes:
        at: When, in seconds.
        kind: `put` gives a record; the others let the store do something: `call` waits for it, `give up` not for long, `post` not at all.
        gives_up_after: For how many seconds `give up` waits.
    """

    at: float
    kind: str
    gives_up_after: float = 1.0


TIMES = st.integers(0, 60).map(lambda fifths: fifths / 5)
OUTAGES = st.lists(
    st.builds(
        Outage,
        begins=TIMES,
        lasts=st.sampled_from((0.3, 3.0, 5.5, 9.0)),  # shorter and longer than patience
        hangs=st.booleans(),
        refuses_then=st.booleans(),
    ),
    max_size=3,
)
REQUESTS = st.lists(
    st.builds(
        Request,
        at=TIMES,
        kind=st.sampled_from(("call", "post", "give up", "put")),
        gives_up_after=st.sampled_from((0.0, 0.1, 1.0, 6.0)),
    ),
    max_size=12,
)


class Away(RealMachine):
    """Worker threads of a virtual clock, and a store behind them that is away now and then."""

    is_immediate = False

    def __init__(self, outages: list[Outage]) -> None:
        self.outages = outages
        self.taken: list[int] = []
        self.done: list[int] = []
        self.refuses = False

    async def offload(self, function: Callable[..., Any], /, *args: Any, **_: Any) -> Any:
        """Take as long as the store takes, then call."""
        found = self._outage()
        if found is not None and found.hangs:
            await trio.sleep(found.ends - trio.current_time())
            if not found.refuses_then:
                found = None
        else:
            await trio.sleep(COMMIT_SECONDS)
        self.refuses = found is not None
        return function(*args)

    def _outage(self) -> Outage | None:
        now = trio.current_time()
        return next((one for one in self.outages if one.begins <= now < one.ends), None)

    def append(self, batch: tuple[Append, ...]) -> tuple[None, ...]:
        """Take records, unless it is away."""
        self._refuse()
        self.taken += [record.seq for one in batch for record in one.records]
        return (None,) * len(batch)

    def do(self, number: int) -> None:
        """Do something else that writes, unless it is away."""
        self._refuse()
        self.done.append(number)

    def _refuse(self) -> None:
        if self.refuses:
            message = "away"
            raise StoreUnavailable(message)


class Heard:
    """A session that remembers what it is told."""

    def __init__(self) -> None:
        self.durable: list[int] = []
        self.refusals: list[AgentrailError] = []
        self.writer: Writer | None = None

    def written(self, up_to: int) -> None:
        """Remember."""
        self.durable.append(up_to)

    def refused(self, error: AgentrailError) -> None:
        """Remember."""
        self.refusals.append(error)

    def kept_waiting(self) -> None:
        """Look at what callers are told now."""
        assert self.writer is not None
        assert "has not taken a record for 5 s" in str(self.writer.unavailable_error())

    def standing(self) -> Standing:
        """Stand."""
        return Standing()


def record(number: int) -> Record:
    """The record of a number."""
    return Record(scope="", session=SessionId("s-1"), seq=number, epoch=1, at_ms=0, kind="x", body=b"{}")


@given(outages=OUTAGES, requests=REQUESTS)
@example(outages=[Outage(0, 5.5, hangs=True)], requests=[Request(0, "post")])
@example(outages=[Outage(0, 5.5, hangs=True)], requests=[Request(0, "call"), Request(1, "put")])
@example(
    outages=[Outage(0, 20), Outage(21, 9, hangs=True)], requests=[Request(1, "put"), Request(22, "give up")]
)
def test_nothing_is_lost_and_soon_all_goes_on(outages: list[Outage], requests: list[Request]) -> None:
    """Records are taken once each, in order; what was said to be done is; and half a second behind the last outage the store takes all again."""
    in_order = sorted(requests, key=lambda one: one.at)
    trio.run(play, outages, in_order, clock=trio.testing.MockClock(autojump_threshold=0))


async def play(outages: list[Outage], requests: list[Request]) -> None:
    """Do all of it, and look at the end."""
    store, session = Away(outages), Heard()
    writer = Writer(store, patience_seconds=PATIENCE_SECONDS, outside=store)  # type: ignore[arg-type]  # it is as much of a store as is asked for
    session.writer = writer
    was_done: list[int] = []

    async def call(number: int, request: Request) -> None:
        with trio.move_on_after(
            request.gives_up_after if request.kind == "give up" else PATIENCE_SECONDS + 0.1
        ) as scope:
            try:
                await writer.call(partial(store.do, number))
            except StoreUnavailable:
                pass
            else:
                was_done.append(number)
        assert request.kind == "give up" or not scope.cancelled_caught, (
            "it waits for its patience and no longer"
        )

    given = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for number, request in enumerate(requests):
            await trio.sleep_until(request.at)
            if request.kind == "put":
                given += 1
                writer.put(session, [record(given)])
            elif request.kind == "post":
                writer.post(partial(store.do, number))
            else:
                nursery.start_soon(call, number, request)
        over = max([one.ends for one in outages] + [request.at for request in requests], default=0.0)
        await trio.sleep_until(over + LONGEST_PAUSE_SECONDS + COMMIT_SECONDS * (2 + 2 * len(requests)))
        assert writer.is_available
        with trio.fail_after(2 * COMMIT_SECONDS):
            await writer.wait_empty()
            await writer.call(partial(store.do, len(requests)))
        nursery.cancel_scope.cancel()
    assert store.taken == [*range(1, given + 1)]
    assert session.durable == sorted(session.durable)
    assert session.durable[-1:] == store.taken[-1:]
    assert session.refusals == []
    assert len(set(store.done)) == len(store.done)
    assert {*was_done, len(requests)} <= {*store.done}
