"""Passes the committed events of all sessions to consumers, each with its own queue, retries and cursors."""

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import trio
from attrs import define

from agentrail import outside
from agentrail.abc.event_reader import ConsumerStatistics, SessionOrigin
from agentrail.abc.living_nodes import LOOK_AT_NODES_SECONDS, Departures
from agentrail.abc.store import Filters, OwedRow, OwedStore, StoredSession, decoded_rows, owed_rows
from agentrail.errors import StoreUnavailable
from agentrail.events import Event, SessionEnd, SessionStart
from agentrail.frozen import EMPTY
from agentrail.logs import Logger
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import travels

LOGGER: Final = Logger("agentrail.telemetry")

QUEUE_EVENTS: Final = 10_000
"""Maximum events that wait for one consumer in memory. The rest is read from the journals later."""

BATCH_EVENTS: Final = 1_000
GATHER_SECONDS: Final = 0.25
MAX_PLACES: Final = 50_000
"""Sessions without unread events whose places stay in memory. That of another one is found in the store again."""

CURSOR_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0
FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 300.0
LOG_SECONDS: Final = 60.0

_BEGINNINGS: Final = "telemetry_since"

HeardEvent: TypeAlias = tuple[SessionOrigin, Event]
"""A committed event, after its session."""

_Key: TypeAlias = tuple[str, str]
_T = TypeVar("_T")


class EventConsumer(Protocol):
    """A consumer of committed events.

    Attributes:
        name: Its name in logs, metrics and rows of the store.
        has_cursors: Whether it continues after a restart where it was. Otherwise it gets the events of this process.
        rejected: What it made of events, and was refused for good where it is kept.
    """

    name: str
    has_cursors: bool
    rejected: int

    async def take(self, events: Sequence[HeardEvent]) -> None:
        """Take events, in order within each session. Called again with the same events if it raises."""
        ...

    def first_needed(self, scope: str, session_id: str) -> int | None:
        """Return the number of the first taken event that it needs again after a restart. None for none."""
        ...


@define(eq=False)
class _Place:
    origin: SessionOrigin | None
    taken: int
    seen: int
    is_known: bool = True  # otherwise the cursor is looked up before its journal is read
    has_ended: bool = False


async def until_done(
    work: Callable[[], Awaitable[_T]],
    note: Callable[[BaseException], None],
    *,
    only: type[BaseException] = BaseException,
) -> _T:
    """Try again after each error, later and later, and return the result."""
    pause = FIRST_RETRY_SECONDS
    while True:
        try:
            return await work()
        except only as error:  # noqa: ASYNC103 - a cancellation is raised
            if travels(error):
                raise
            note(error)
        await trio.sleep(pause)
        pause = min(2 * pause, LONGEST_RETRY_SECONDS)


class TelemetryReader:
    """Reads the committed events of one supervisor. No session waits for it, or notices that it fails.

    Attributes:
        sample: Share of the traces that are sampled, which tools are told with `ctx.traceparent`.
        tells_providers: Whether requests to models carry their trace.
    """

    def __init__(
        self, consumers: Sequence[EventConsumer], *, sample: float = 0.0, tells_providers: bool = False
    ) -> None:
        self.sample: float = sample
        self.tells_providers: bool = tells_providers
        self._lines = tuple([_Line(consumer, self._share) for consumer in consumers])
        self._heard: list[HeardEvent] = []
        self._ended = trio.Event()
        self._scope = trio.CancelScope()

    def open(self, source: Any) -> None:
        for line in self._lines:
            line.open(source)

    def hear(self, origin: SessionOrigin, event: Event) -> None:
        # Sessions pay for this with each event. All else is done later, for many events together.
        heard = self._heard
        heard.append((origin, event))
        size = len(heard)
        if size == 1:
            for line in self._lines:
                line.wake()
        elif size == BATCH_EVENTS:
            self._share()

    def _share(self) -> None:
        """Hand what was heard to all consumers, each session's events together."""
        sessions = defaultdict[SessionOrigin, list[HeardEvent]](list)
        for heard in self._heard:
            sessions[heard[0]].append(heard)
        self._heard.clear()
        for line in self._lines:
            for origin, events in sessions.items():
                line.hear(origin, events)

    def statistics(self) -> tuple[ConsumerStatistics, ...]:
        self._share()
        return tuple(line.statistics() for line in self._lines)

    async def settle(self, scope: str, root: str) -> None:
        self._share()
        with trio.move_on_after(CLOSE_SECONDS):
            for line in self._lines:
                await line.settle(scope, root)

    async def run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                for line in self._lines:
                    nursery.start_soon(line.run)
        with trio.move_on_after(CLOSE_SECONDS):
            for line in self._lines:
                await line.finish()
        self._ended.set()

    async def aclose(self) -> None:
        for line in self._lines:
            line.close()
        with trio.move_on_after(CLOSE_SECONDS):
            await self._ended.wait()
        self._scope.cancel(reason="the supervisor was closed")
        await self._ended.wait()


class _Line:
    """The queue of one consumer, and its place in each session."""

    def __init__(self, consumer: EventConsumer, share: Callable[[], None]) -> None:
        self._consumer, self._share = consumer, share
        self._kind = f"telemetry_{consumer.name}"
        self._queue: deque[HeardEvent] = deque()
        self._places: dict[_Key, _Place] = {}
        self._behind: dict[_Key, None] = {}
        self._moved: dict[_Key, _Place] = {}
        self._dropped = self._failures = self._taking = self._since_ms = 0
        self._logged_at = float("-inf")
        self._work, self._closing = trio.Event(), trio.Event()
        self._caught_up = trio.lowlevel.ParkingLot()

    def open(self, source: Any) -> None:
        self._source = source
        self._has_journal: bool = source.keeps_owed
        self._is_shared = bool(source.shared_node)
        self._has_cursors = self._has_journal and self._consumer.has_cursors

    def close(self) -> None:
        self._closing.set()
        self._work.set()

    def wake(self) -> None:
        self._work.set()

    def hear(self, origin: SessionOrigin, events: Sequence[HeardEvent]) -> None:
        """Queue the next events of a session."""
        key, first = (origin.scope, origin.session_id), _number_of(events[0])
        place = self._places.pop(key, None)
        # Another node wrote in between.
        is_torn = place is not None and self._is_shared and first > place.seen + 1
        # A fork continues the numbers of its parent. The id of an ended session may be used again.
        is_new = isinstance(events[0][1], SessionStart)
        if place is None or is_new or is_torn:
            is_known = is_new or not self._has_cursors
            place = _Place(origin, first - 1, 0, is_known)
            if not is_known:
                self._behind[key] = None
            elif is_new:
                self._moved[key] = place  # the stored cursor may be that of an earlier session with its id
        self._places[key] = place  # the last used at the end
        place.origin, place.seen = origin, _number_of(events[-1])
        if key not in self._behind:
            room = QUEUE_EVENTS - len(self._queue)
            self._queue += events[:room]
            if len(events) > room and self._has_journal:
                self._behind[key] = None
            else:
                self._dropped += max(len(events) - room, 0)

    async def settle(self, scope: str, root: str) -> None:
        """Wait until no event of a session and its children is in their journals alone, unless the consumer lags."""
        while len(self._queue) < BATCH_EVENTS and any(
            key[0] == scope and f"{key[1]}.".startswith(f"{root}.") for key in self._behind
        ):
            await self._caught_up.park()

    def statistics(self) -> ConsumerStatistics:
        unread = sum(self._places[key].seen - self._places[key].taken for key in self._behind)
        name, rejected = self._consumer.name, self._consumer.rejected
        behind = len(self._queue) + self._taking + unread
        return ConsumerStatistics(name, behind, self._dropped, self._failures, rejected)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._save_on)
            if self._has_cursors and not self._is_shared:
                await until_done(self._find_unfinished, self._note)
            elif self._has_cursors:
                await until_done(self._begin, self._note)
                nursery.start_soon(self._sweep_on)
            await until_done(self._follow, self._note)  # a bug of ours must not end the sessions
            nursery.cancel_scope.cancel(reason="the reader is closed")

    async def finish(self) -> None:
        left = self.statistics().behind
        if left:
            then = "the next process reads them from the store" if self._has_cursors else "they are lost"
            LOGGER.warning("%s: %d events were not taken in time: %s", self._consumer.name, left, then)
        await self.save()

    async def _save_on(self) -> None:
        while True:
            await trio.sleep(CURSOR_SECONDS)
            await self.save()

    async def _follow(self) -> None:
        is_open = True
        while is_open:
            await self._work.wait()
            with trio.move_on_after(GATHER_SECONDS):
                await self._closing.wait()
            is_open = not self._closing.is_set()
            self._work = trio.Event()
            self._share()
            while self._queue or self._behind:
                if self._queue:
                    size = min(len(self._queue), BATCH_EVENTS)
                    await self._give([self._queue.popleft() for _ in range(size)])
                else:
                    await self._catch_up(next(iter(self._behind)))

    async def _give(self, events: Sequence[HeardEvent]) -> None:
        self._taking = len(events)
        await until_done(lambda: self._consumer.take(events), self._note)
        self._taking = 0
        for origin, last in dict(events).items():
            key = (origin.scope, origin.session_id)
            place = self._places[key]
            if place.origin is origin:  # otherwise it has woken, or another session has its id
                self._moved[key], place.taken = place, _number_of((origin, last))
                place.has_ended = isinstance(last, SessionEnd)

    async def _catch_up(self, key: _Key) -> None:
        """Pass on the next page of a session's journal. The session is behind until it has no unread event."""
        place = self._places[key]
        try:
            read = partial(self._next_page, key, place)
            origin, page = await until_done(read, self._note, only=StoreUnavailable)
        except BaseException as error:  # noqa: ASYNC103 - a cancellation is raised
            if travels(error):
                raise
            self._dropped += place.seen - place.taken
            self._complain(f"cannot read the events of session {key[1]} after {place.taken}", error)
            place.taken = place.seen
        else:
            if page.events:
                await self._give([(origin, event) for event in page.events])
            elif page.last <= place.taken:  # it sleeps here, and another node has written since
                place.seen = place.taken
            place.taken = max(page.last, place.taken)
        self._share()  # the page may have these events too
        if place.taken >= place.seen and place is self._places[key]:
            del self._behind[key]
            self._caught_up.unpark_all()

    async def _next_page(self, key: _Key, place: _Place) -> tuple[SessionOrigin, Any]:
        if not place.is_known:
            place.taken = await self._find_cursor(key, place.taken)
            place.is_known = True
        if place.origin is None:
            facts = await self._source.facts_of(key[1], scope=key[0])
            place.origin = SessionOrigin(*key, EMPTY if facts is None else facts.user_data)
        # Undone events too: what a rewind took back did happen, and cost money.
        page = await self._source.events_page(
            key[1], after=place.taken, limit=BATCH_EVENTS, scope=key[0], undone=True
        )
        return place.origin, page

    def _note(self, error: BaseException) -> None:
        self._failures += 1
        self._complain("events are not taken for now", error)

    def _complain(self, what: str, error: BaseException) -> None:
        if trio.current_time() >= self._logged_at + LOG_SECONDS:
            self._logged_at = trio.current_time()
            LOGGER.warning("%s: %s: %s", self._consumer.name, what, describe_bug(error))

    # --- cursors

    async def save(self) -> None:
        """Store the cursors that moved. If that fails, they are stored the next time."""
        moved, self._moved = self._moved, {}
        try:
            rows = [self._row_of(key, place) for key, place in moved.items()] if self._has_cursors else []
            for start in range(0, len(rows), BATCH_EVENTS):
                await self._source.change_owed(rows[start : start + BATCH_EVENTS], own=True)
        except BaseException as error:  # noqa: ASYNC103 - a cancellation is raised
            self._moved = moved | self._moved
            if travels(error):
                raise
            self._complain("cursors are not stored", error)
        else:
            for key, place in moved.items():
                if place.has_ended and self._places.get(key) is place:
                    del self._places[key]
            settled = (key for key, place in self._places.items() if self._is_settled(key, place))
            for key in [*islice(settled, max(len(self._places) - MAX_PLACES, 0))]:
                del self._places[key]

    def _is_settled(self, key: _Key, place: _Place) -> bool:
        """Whether all of a session was taken for good, which its stored cursor says."""
        is_open = key in self._behind or key in self._moved or place.taken < place.seen
        return not is_open and self._consumer.first_needed(*key) is None

    def _row_of(self, key: _Key, place: _Place) -> OwedRow:
        needed = self._consumer.first_needed(*key)
        cursor = place.taken if needed is None else min(place.taken, needed - 1)
        return OwedRow(kind=self._kind, id=_row_id(key), body=b"%d" % cursor)

    async def _find_cursor(self, key: _Key, live: int) -> int:
        """Return the stored cursor of a session that continues here."""
        row_id = _row_id(key)
        just_before = row_id[:-1] + chr(ord(row_id[-1]) - 1)
        found = await self._source.owed(self._kind, after=just_before, limit=1)
        cursors = _numbers_in([row for row in found if row.id == row_id])
        if cursors:
            return cursors[row_id]
        page = await self._source.events_page(key[1], after=0, limit=1, scope=key[0])
        return 0 if any(event.meta.at_ms >= self._since_ms for event in page.events) else live

    async def _begin(self) -> None:
        """Read the time at which the first process with this consumer started. Earlier sessions are delivered from their next event."""
        now_ms = int(outside.wall() * 1000)
        self._since_ms = (await self._rows(_BEGINNINGS)).get(self._consumer.name, now_ms)
        row = OwedRow(kind=_BEGINNINGS, id=self._consumer.name, body=b"%d" % self._since_ms)
        await self._source.change_owed([row])

    async def _sweep_on(self) -> None:
        """Find events that dead nodes left, on a shared store: a live node takes the events of its own sessions."""
        departures, is_alone = Departures(self._source.shared_node), True
        while True:
            with suppress(StoreUnavailable):  # looks again
                dead = await self._source.look_at_nodes(departures)
                is_alone = is_alone and len(departures.living) <= 1
                if dead or is_alone:
                    await self._find_unfinished(frozenset(departures.living) - {self._source.shared_node})
                    departures.settle(dead)
                is_alone = False
            await trio.sleep(LOOK_AT_NODES_SECONDS)

    async def _find_unfinished(self, living: frozenset[str] = frozenset()) -> None:
        """Find stored sessions with events that were not taken, such as those of a process that crashed.

        Args:
            living: Other living nodes, which take the events of their own sessions.
        """
        await self._begin()
        rows = await self._rows(self._kind)
        after: _Key | None = None
        while found := await self._source.find(Filters(), after=after, limit=BATCH_EVENTS):
            self._share()  # of sessions that live here, all is known
            for one in found:
                key = after = (one.scope, one.session)
                cursor = rows.pop(_row_id(key), 0 if one.opened_at_ms >= self._since_ms else one.events)
                place = self._places.get(key)
                is_known = place is not None and not (self._is_shared and place.seen < one.events)
                if cursor < one.events and one.node not in living and not is_known:
                    self._places[key] = _Place(None, cursor, one.events)
                    self._behind[key] = None
                    self._work.set()
        await self._source.change_owed([], [(self._kind, row_id) for row_id in rows])  # of deleted sessions

    async def _rows(self, kind: str) -> dict[str, int]:
        rows, after = dict[str, int](), ""
        while found := await self._source.owed(kind, after=after):
            rows |= _numbers_in(found)
            after = found[-1].id
        return rows


def _numbers_in(rows: Iterable[OwedRow]) -> dict[str, int]:
    def decode(row: OwedRow) -> tuple[str, int]:
        return row.id, max(int(row.body), 0)

    return dict(decoded_rows(rows, decode, LOGGER.warning, "a number of telemetry"))


def _number_of(heard: HeardEvent) -> int:
    assert heard[1].meta is not None  # noqa: S101 - it was published
    return heard[1].meta.seq


def _row_id(key: _Key) -> str:
    return blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def events_behind(store: OwedStore, sessions: Sequence[StoredSession]) -> dict[str, int]:
    """Return how many events of these sessions each consumer has not taken yet, by its stored cursors. Blocks."""
    found: dict[str, int] = {}
    for name, begun_ms in _numbers_in(store.owed(_BEGINNINGS)).items():
        rows = _numbers_in(owed_rows(store, f"telemetry_{name}"))
        usual = [0 if one.opened_at_ms >= begun_ms else one.events for one in sessions]
        taken = [
            rows.get(_row_id((one.scope, one.session)), first)
            for one, first in zip(sessions, usual, strict=True)
        ]
        found[name] = sum(one.events - last for one, last in zip(sessions, taken, strict=True))
    return found
