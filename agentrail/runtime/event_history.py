"""Pages of a session's published events, in both directions: from memory if possible, otherwise folded from its journal."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from agentrail.abc.store import Store, StoredSession
from agentrail.core.journal.fold import drift_of, first_state, walk
from agentrail.core.journal.record import Record, Tail, tail_of
from agentrail.core.journal.rewound_events import NumberRange, UndoneEvents, counts, range_after, range_before
from agentrail.core.session.state import SessionState
from agentrail.core.stack.loaded_stack import Ask
from agentrail.core.wire.codec import encode_event
from agentrail.errors import JournalCorrupt
from agentrail.events import Event
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of_whole
from agentrail.runtime.event_subscription import number_of
from agentrail.runtime.session_loader import PluginFinder, committed_events_of, fold_sources, newest_snapshot

MAX_EVENTS_AT_ONCE: Final = 5_000
"""Maximum number of events of one page."""

MAX_LOOKED_AT: Final = 20_000
"""Maximum number of events read for a page with certain kinds. After that the page ends, and shows where."""

MAX_RUN_BYTES: Final = 16 << 20
"""Maximum bytes kept of one folded session, for the previous page."""

MAX_RUNS_BYTES: Final = 48 << 20
"""Maximum bytes kept of all sessions together. The oldest fold is dropped first."""

_CHUNK: Final = 2_000
_RECORDS: Final = 1_000
_REMEMBERED: Final = 64
_STATES: Final = 4


@frozen(kw_only=True)
class PageOfEvents:
    """A page of a session's published events.

    Attributes:
        events: In order, without those that are never replayed, and without undone ones unless requested.
        first: The lowest number read: `before` of the previous page. `last + 1` if no number was read.
        last: The highest number read: `after` of the next page.
        kept_from: Number of the first event that can still be read.
    """

    events: tuple[Event, ...] = field(repr=False)
    first: int
    last: int
    more: bool
    kept_from: int = 1


@frozen(kw_only=True)
class PageAsked:
    """A page request. Without `before` and `after` it is the last page.

    Attributes:
        limit: Maximum number of events.
        kinds: Only these classes. None for all.
        undone: Whether to include events that a rewind has undone.
    """

    before: int | None = None
    after: int | None = None
    limit: int = 200
    kinds: frozenset[type[Event]] | None = None
    undone: bool = False


ReadRange: TypeAlias = Callable[[int, int], tuple[Sequence[Event], int]]
"""Returns the readable events of a range, and the number of the first readable one."""


def page_of_events(
    asked: PageAsked, last: int, undone: Sequence[NumberRange], read: ReadRange
) -> PageOfEvents:
    is_forth = asked.after is not None
    found: list[Event] = []
    edge = asked.after if asked.after is not None else min(last + 1, asked.before or last + 1)
    start, kept_from = edge, 1
    size = asked.limit if asked.kinds is None else max(asked.limit, _CHUNK)
    looked_at = 0
    while True:
        low, high = range_after(edge, last, size, undone) if is_forth else range_before(edge, size, undone)
        if low > high:
            break
        events, begins = read(low, high)
        kept_from = max(kept_from, begins)
        of_kind = [one for one in events if asked.kinds is None or type(one) in asked.kinds]
        wanted = [one for one in of_kind if counts(number_of(one), undone)]
        found = [*found, *wanted] if is_forth else [*wanted, *found]
        looked_at += high - low + 1
        edge = max(high, min(kept_from - 1, last)) if is_forth else max(low, min(kept_from, edge))
        if len(found) >= asked.limit or looked_at >= MAX_LOOKED_AT or (not is_forth and kept_from >= low):
            break
    if len(found) > asked.limit:
        found = found[: asked.limit] if is_forth else found[-asked.limit :]
        edge = number_of(found[-1]) if is_forth else number_of(found[0])
    low, high = (start + 1, edge) if is_forth else (edge, start - 1)
    more = high < last if is_forth else low > kept_from
    return PageOfEvents(events=tuple(found), first=low, last=high, more=more, kept_from=kept_from)


def read_kept(kept: Sequence[Event], last: int, low: int, high: int) -> tuple[Sequence[Event], int]:
    """Return a range of the events in memory, which end with the last number. A `ReadRange` for a session without a store."""
    return [one for one in kept if low <= number_of(one) <= high], last - len(kept) + 1


def fault_of_page(asked: PageAsked) -> str | None:
    if asked.before is not None and asked.after is not None:
        return "before and after exclude each other: give one of them, or none for the last page"
    fault = fault_of_whole("limit", asked.limit, 1, MAX_EVENTS_AT_ONCE)
    numbers = [one for one in (asked.before, asked.after) if one is not None]
    return fault or (fault_of_whole("before or after", numbers[0], 0) if numbers else None)


def _put(cache: OrderedDict[Any, Any], stored: StoredSession, value: object, most: int) -> None:
    with suppress(KeyError):  # another thread was faster and has made room
        cache[stored.scope, stored.session] = value
        cache.move_to_end((stored.scope, stored.session))
        while len(cache) > most:
            cache.popitem(last=False)


@frozen(kw_only=True)
class FoldedRun:
    """A recently folded range of events, and the end of its records. The page before it is usually requested next."""

    first: int
    last: int
    events: tuple[Event, ...] = field(repr=False)
    size_bytes: int
    end: Tail


class PastEvents:
    """Events of stored sessions. One per store. All methods block, and may run in several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: OrderedDict[tuple[str, SessionId], FoldedRun] = OrderedDict()
        # Before the last record of a fold, for the next page: in its middle, a page may have ended.
        self._states: OrderedDict[tuple[str, SessionId], tuple[SessionState, Tail]] = OrderedDict()
        # Undone events are found by reading all records once, and after that only new ones.
        self._undone: OrderedDict[tuple[str, SessionId], UndoneEvents] = OrderedDict()

    def page(  # noqa: PLR0913, PLR0917 - the session, and what is known of it
        self,
        stored: StoredSession,
        asked: PageAsked,
        kept: Sequence[Event],
        last: int | None,
        finder: PluginFinder,
        ask: Ask,
    ) -> PageOfEvents:
        if last is None:
            last = stored.events
        first_kept = last - len(kept) + 1

        def read(low: int, high: int) -> tuple[Sequence[Event], int]:
            live = [one for one in kept if low <= number_of(one) <= high]
            if low >= first_kept:
                return live, 1
            old, kept_from = self.read(stored, finder, ask, low, min(high, first_kept - 1))
            return [*old, *live], kept_from

        skipped = () if asked.undone else self.undone(stored)
        if stored.forked_from is not None and stored.first_seq == 1:
            begin = self._store.read(stored.scope, stored.session, 0, 1)  # empty only if it is damaged
            skipped = (*((1, opened.events) for opened in begin), *skipped)  # the numbers of its parent
        return page_of_events(asked, last, skipped, read)

    def undone(self, stored: StoredSession) -> tuple[NumberRange, ...]:
        # Taken out, as another thread would go back in it to the records that this one reads.
        known = self._undone.pop((stored.scope, stored.session), None)
        if known is None or known.seen > stored.tail.seq or known.seen < stored.first_seq - 1:
            known = UndoneEvents()
            known.seen = stored.first_seq - 1
        for records in self._records(stored, known.seen):
            known.follow(records)
        ranges = known.ranges
        _put(self._undone, stored, known, _REMEMBERED)
        return ranges

    def read(
        self, stored: StoredSession, finder: PluginFinder, ask: Ask, low: int, high: int
    ) -> tuple[tuple[Event, ...], int]:
        """Fold a range of events. If the code here folds the journal differently, it is empty up to its end."""
        run = self._known_run(stored, low, high)
        if run is not None:
            return run.events[low - run.first : high - run.first + 1], 1
        start, tail, kept_from = self._start_of(stored, finder, ask, low)
        if kept_from > high:
            return (), kept_from
        records = [one for page in self._records(stored, tail.seq, until_event=high) for one in page]
        sources = fold_sources(self._store, stored, finder, ask)
        state = first_state(records, sources) if start is None else start
        found: list[Event] = []
        for walked in walk(state, records, tail=tail, sources=sources):
            if drift_of(walked) is not None:
                return (), high + 1
            found += committed_events_of(walked)
            state = walked.before
        if records:
            self._remember(stored, found, tail_of(records))
            _put(self._states, stored, (state, tail_of(records[:-1], tail)), _STATES)
        return tuple([one for one in found if low <= number_of(one) <= high]), kept_from

    def _start_of(
        self, stored: StoredSession, finder: PluginFinder, ask: Ask, low: int
    ) -> tuple[SessionState | None, Tail, int]:
        """Return the state to fold from, and the first readable event number after it. Beyond all numbers if there is none."""
        start, tail, _ = newest_snapshot(self._store, stored, finder, ask, last_event=low - 1)
        state, end = self._states.get((stored.scope, stored.session), (None, tail))
        if state is not None and end.seq > tail.seq and state.data.seq < low and self._has(stored, end):
            return state, end, 1
        if start is not None or stored.first_seq == 1:
            return start, tail, 1
        oldest = self._store.snapshots(stored.scope, stored.session)
        if oldest:
            start, tail, _ = newest_snapshot(self._store, stored, finder, ask, at_most=oldest[-1].seq)
        return start, tail, stored.events + 1 if start is None else start.data.seq + 1

    def _known_run(self, stored: StoredSession, low: int, high: int) -> FoldedRun | None:
        run = self._runs.get((stored.scope, stored.session))
        if run is None or not run.first <= low <= high <= run.last:
            return None
        return run if self._has(stored, run.end) else None

    def _has(self, stored: StoredSession, end: Tail) -> bool:
        found = self._store.read(stored.scope, stored.session, end.seq - 1, 1)
        return [record.hash for record in found] == [end.hash]

    def _remember(self, stored: StoredSession, events: list[Event], end: Tail) -> None:
        numbers = [number_of(one) for one in events]
        if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            return  # a rewind lies in between, and the index of an event is not its number
        size = sum(len(encode_event(one)) for one in events)
        if size > MAX_RUN_BYTES:
            return
        run = FoldedRun(first=numbers[0], last=numbers[-1], events=tuple(events), size_bytes=size, end=end)
        _put(self._runs, stored, run, _REMEMBERED)
        with suppress(KeyError):  # as in `_put`
            while sum(one.size_bytes for one in tuple(self._runs.values())) > MAX_RUNS_BYTES:
                self._runs.popitem(last=False)

    def _records(
        self, stored: StoredSession, after: int, *, until_event: int | None = None
    ) -> "list[tuple[Record, ...]]":
        pages: list[tuple[Record, ...]] = []
        while after < stored.tail.seq:
            page = self._store.read(stored.scope, stored.session, after, _RECORDS)
            if not page:
                raise JournalCorrupt(stored.session, after + 1, why="it is missing")
            pages.append(page)
            after = page[-1].seq
            if until_event is not None and page[-1].events >= until_event:
                needed = next(place for place, one in enumerate(page, 1) if one.events >= until_event)
                pages[-1] = page[:needed]
                break
        return pages
