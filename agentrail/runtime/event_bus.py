"""The event bus of one session: one order for all subscribers, the last events kept, and no waiting for subscribers."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from attrs import define, field

from agentrail.core.session.views import LiveText
from agentrail.errors import CursorAhead, SessionDown, SessionRested
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentSuspended,
    Envelope,
    Event,
    EventsLost,
    MessageDelta,
    RequestStart,
    ResponseComplete,
    SessionEnd,
    SessionRestarted,
    StreamError,
    SubagentEvent,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolProgress,
)
from agentrail.messages import CallId, SessionId
from agentrail.otp.guarded_calls import repr_of
from agentrail.runtime.event_subscription import Subscription, TakenSnapshot, Terms, number_of

# Unfinished output: the streaming answer, thinking and the progress of calls.
#
# Ephemeral events are never replayed, so a subscriber that joins later would miss the beginning. The bus passes each event through here in
# order, and a snapshot returns the text so far, as a subscriber from the start has it. Nothing is stored.

_ENDS: Final[frozenset[type[Event]]] = frozenset(
    {AgentEnd, AgentAbort, AgentError, SessionRestarted, SessionEnd}
)


# Shared by all sessions without text, and never written to: while models respond, there is one per session.
_NO_WORDS: Final[list[str]] = []


@define(eq=False)
class LiveTail:
    _attempt: int
    _text: list[str] = field(init=False, default=_NO_WORDS)
    _thinking: list[str] = field(init=False, default=_NO_WORDS)
    _progress: dict[CallId, str] = field(init=False, factory=dict)

    def hear(self, event: Event) -> bool:
        if isinstance(event, MessageDelta):
            self._attempt = event.attempt
            if self._text is _NO_WORDS:
                self._text = []
            self._text.append(event.delta)
        elif isinstance(event, ThinkingDelta):
            self._attempt = event.attempt
            if self._thinking is _NO_WORDS:
                self._thinking = []
            self._thinking.append(event.delta)
        elif isinstance(event, ToolProgress):
            self._progress[event.call_id] = event.text
        elif isinstance(event, RequestStart):
            self._begin(event.attempt)
        elif isinstance(event, ToolExecutionEnd):
            self._progress.pop(event.call_id, None)
        else:
            self._begin(0)
            if type(event) in _ENDS:
                self._progress.clear()
        return bool(self._attempt or self._progress)

    def _begin(self, attempt: int) -> None:
        self._attempt = attempt
        self._text = self._thinking = _NO_WORDS

    def draw(self) -> LiveText:
        return LiveText(
            attempt=self._attempt,
            text="".join(self._text),
            thinking="".join(self._thinking),
            progress=tuple(self._progress.items()),
        )


STARTS: Final[frozenset[type[Event]]] = frozenset({MessageDelta, ThinkingDelta, ToolProgress, RequestStart})
"""Kinds of events that start unfinished output. An idle session has no `LiveTail`."""

CHANGES_TEXT: Final[frozenset[type[Event]]] = frozenset(
    {*STARTS, ToolExecutionEnd, ResponseComplete, StreamError, *_ENDS}
)
"""Kinds of events that change unfinished output. All others can skip it."""

_MAY_WAIT: Final[frozenset[type[Event]]] = frozenset({AgentSuspended, SubagentEvent})


ReadEarlier: TypeAlias = Callable[[int, int], Awaitable[Sequence[Event]]]
"""Returns the committed events between two numbers, both excluded. Empty if they are not available."""

READS: Final = 3
"""Number of attempts to read earlier events while the session publishes more than it keeps. Then they count as lost."""


class Earlier(NamedTuple):
    """Events older than the kept ones, read for a subscriber.

    Attributes:
        events: The events directly after its position, without a gap. Empty if they are not available.
        times_anew: Number of rewinds of the session before the read. After a later rewind, the events no longer count.
    """

    events: tuple[Event, ...]
    times_anew: int


NOTHING_EARLIER: Final = Earlier((), 0)


@define(eq=False, repr=False, init=False, weakref_slot=False)
class EventBus:
    """All subscribers of one session, and its last committed events. Publishing is synchronous and never waits.

    It survives a crash of the actor.
    """

    # Slots, a tuple and a list: ten thousand idle sessions have a bus each, and an empty deque takes 600 bytes.
    _last: Envelope
    _first: int
    _keep: int
    # A ring buffer that grows up to `keep`. Numbers are consecutive, so event n is at (n - first) modulo `keep`.
    _kept: list[Event]
    _subscriptions: tuple[Subscription, ...] = ()
    watchers: tuple[Callable[[Event], None], ...] = ()
    """Called with each event that may begin a wait for users."""
    _closed: str | None = None
    _is_rested: bool = False
    _is_moved: bool = False
    _times_anew: int = 0
    _attempt: int = 0  # of an open request without text so far
    _live: LiveTail | None = None  # None in ten thousand idle sessions
    on_close: "Callable[[EventBus], None] | None" = None
    """Called once, when the session has ended."""
    on_commit: Callable[[Event], None] | None = None
    """Called with each committed event, for readers that are not subscribers, because no user can answer through one."""

    def __init__(self, place: Envelope, *, keep: int, events: Sequence[Event] = ()) -> None:
        kept = _without_gap(events[-keep:], place.seq) if events and keep else ()
        self.__attrs_init__(place, place.seq + 1 - len(kept), keep, list(kept))

    def empty(self) -> None:
        self._kept = []
        self._first = self._last.seq + 1

    def fill(
        self, place: Envelope, events: Sequence[Event], take_snapshot: Callable[[], TakenSnapshot]
    ) -> None:
        """Resume at the position of a session that woke.

        If another process ran it in the meantime, subscribers get the events of that time. They start over if those are not all here.
        """
        slept_at, self._last = self._last.seq, place
        events = _without_gap(events, place.seq)
        missed = place.seq - slept_at
        if len(events) < missed and self._subscriptions:
            self.begin_anew(slept_at, take_snapshot())
            return
        for event in events[len(events) - missed :]:
            for subscription in self._subscriptions:
                subscription.offer(event)
        self._kept = list(events[-self._keep :]) if self._keep else []
        self._first = place.seq + 1 - len(self._kept)

    @property
    def kept(self) -> tuple[Event, ...]:
        return self._since(self.last_seq - len(self._kept))

    def newest_first(self) -> Iterator[Event]:
        for seq in range(self.last_seq, self.last_seq - len(self._kept), -1):
            yield self._kept[(seq - self._first) % self._keep]

    @property
    def last_at_ms(self) -> int:
        return self._last.at_ms

    @property
    def session_id(self) -> SessionId:
        return self._last.session_id

    @property
    def path(self) -> tuple[SessionId, ...]:
        return self._last.path

    @property
    def last_seq(self) -> int:
        return self._last.seq

    def lacks(self, after: int | None) -> bool:
        return after is not None and after < self.last_seq - len(self._kept)

    async def read_earlier(
        self, after: int, read: ReadEarlier, known: Earlier = NOTHING_EARLIER, *, at_most: int | None = None
    ) -> Earlier:
        if known.times_anew != self._times_anew:
            known = Earlier((), self._times_anew)
        reach = number_of(known.events[-1]) if known.events else after
        before = self.last_seq - len(self._kept) + 1
        if not self.lacks(reach) or (at_most is not None and before - reach - 1 > at_most):
            return known
        times_anew = self._times_anew  # taken before the read: events read during a rewind may predate it
        more = await read(reach, before)
        return Earlier((*known.events, *more), times_anew)

    def is_last(self, event: Event) -> bool:
        """Return whether this event object is the last committed one. An event of another session with the same number is not."""
        return event.meta is self._last

    def publish(self, event: Event) -> None:
        meta = event.meta
        assert meta is not None  # noqa: S101 - the core always sets it
        if type(event) in CHANGES_TEXT:
            self._hear(event)
        # Decided by the envelope, not the class: an ephemeral event of a child is ephemeral on its parent too.
        if meta.ephemeral:
            for subscription in self._subscriptions:
                subscription.offer_delta(event)
        else:
            self._last = meta
            if len(self._kept) < self._keep:
                self._kept.append(event)
            elif self._keep:
                self._kept[(meta.seq - self._first) % self._keep] = event
            for subscription in self._subscriptions:
                subscription.offer(event)
            if type(event) in _MAY_WAIT:
                for look in self.watchers:
                    look(event)
            if self.on_commit is not None:
                self.on_commit(event)

    def _hear(self, event: Event) -> None:
        live = self._live
        if live is not None:
            self._live = live if live.hear(event) else None
        elif isinstance(event, RequestStart):
            self._attempt = event.attempt
        elif type(event) in STARTS:
            live = LiveTail(self._attempt)
            self._attempt, self._live = 0, live if live.hear(event) else None
        elif type(event) is not ToolExecutionEnd:
            self._attempt = 0

    @property
    def live(self) -> LiveText | None:
        if self._live is not None:
            return self._live.draw()
        return LiveText(attempt=self._attempt) if self._attempt else None

    @property
    def first_seq(self) -> int:
        """The number of the first kept committed event, or last + 1 if none is kept."""
        return self.last_seq - len(self._kept) + 1

    def subscribe(
        self,
        terms: Terms,
        *,
        after: int | None,
        take_snapshot: Callable[[], TakenSnapshot],
        earlier: ReadEarlier | None = None,
        awake: Callable[[Subscription, int | None], Awaitable[None]] | None = None,
    ) -> Subscription:
        found = NOTHING_EARLIER

        async def prepare(subscription: Subscription) -> None:
            nonlocal found
            for _ in range(READS):
                if awake is not None:  # again each time: the session may have hibernated during the read
                    await awake(subscription, after)
                if earlier is None or after is None or not self.lacks(self.reach_of(after, found)):
                    return
                found, before = await self.read_earlier(after, earlier, found), found
                if len(found.events) <= len(before.events):
                    break  # the journal does not have the events
            if awake is not None:
                await awake(subscription, after)

        def enter(subscription: Subscription) -> None:
            # A subscriber to past events gets them, including the end. One to live events would get nothing.
            if self._closed is not None and after is None:
                raise (SessionRested if self._is_rested else SessionDown)(self.session_id, self._closed)
            faults = self.faults_of(after)
            if faults:
                raise CursorAhead(faults, positions={self.session_id: self.last_seq})
            self.attach(subscription, after=after, take_snapshot=take_snapshot, earlier=found)

        return Subscription(
            terms,
            enter=enter,
            leave=self.detach,
            prepare=None if earlier is None and awake is None else prepare,
        )

    def faults_of(self, after: int | None) -> list[str]:
        if after is None or after <= self.last_seq:
            return []
        fault = f"after is {repr_of(after)}: expected at most {self.last_seq}, the last event of session {self.session_id!r}"
        return [fault]

    def attach(
        self,
        subscription: Subscription,
        *,
        after: int | None,
        take_snapshot: Callable[[], TakenSnapshot],
        earlier: Earlier = NOTHING_EARLIER,
    ) -> None:
        """Register a subscription and hand over the events after a number, in one step: no gap and no duplicate."""
        # First, because it may publish: events that the snapshot counts must not be delivered again.
        snapshot = take_snapshot() if subscription.needs_snapshot or self.lacks(after) else None
        subscription.begin(self.session_id, self._since(after, earlier), snapshot)
        if self._closed is None:
            self._subscriptions = (*self._subscriptions, subscription)
        else:
            subscription.bus_closed(is_rested=self._is_rested, is_moved=self._is_moved)

    @property
    def is_listened_to(self) -> bool:
        return any(not one.is_own for one in self._subscriptions)

    def detach(self, subscription: Subscription) -> None:
        # A new tuple, because a subscriber may leave while `publish` iterates over the old one.
        self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)

    def begin_anew(self, last_valid: int, snapshot: TakenSnapshot) -> None:
        """Notify all subscribers that the events after a number no longer count, and drop all kept events."""
        last = self._last
        meta = Envelope(last.session_id, last.seq, last.at_ms, last.path, ephemeral=True)
        self._kept = []
        self._attempt, self._live = 0, None
        self._first = last.seq + 1
        self._times_anew += 1
        lost = EventsLost(from_seq=last_valid + 1, to_seq=last.seq, meta=meta)
        for subscription in self._subscriptions:
            subscription.begin_anew(lost, snapshot)

    def close(self, reason: str, *, is_rested: bool = False, is_moved: bool = False) -> None:
        if self._closed is not None:
            return
        self._closed, self._is_rested, self._is_moved = reason, is_rested, is_moved
        if self.on_close is not None:
            self.on_close(self)
        for subscription in self._subscriptions:
            subscription.bus_closed(is_rested=is_rested, is_moved=is_moved)

    def reach_of(self, after: int, earlier: Earlier) -> int:
        if not earlier.events or earlier.times_anew != self._times_anew:
            return after
        return number_of(earlier.events[-1])

    def _since(self, after: int | None, earlier: Earlier = NOTHING_EARLIER) -> tuple[Event, ...]:
        if after is None:
            return ()
        last = self._last
        if self.lacks(after):
            reach = self.reach_of(after, earlier)
            if not self.lacks(reach):
                return (*earlier.events, *self._since(reach))
            # The remaining kept events are skipped: they are older than the snapshot, which must follow
            # immediately. The event gets no number of its own: the reader resumes after the lost range.
            meta = Envelope(last.session_id, last.seq, last.at_ms, last.path, ephemeral=True)
            return (EventsLost(from_seq=after + 1, to_seq=last.seq, meta=meta),)
        return tuple(self._kept[(seq - self._first) % self._keep] for seq in range(after + 1, last.seq + 1))


def _without_gap(events: Sequence[Event], last: int) -> Sequence[Event]:
    """Return the events if they are consecutive and end with this number, otherwise none."""
    numbers = [event.meta.seq for event in events if event.meta is not None]
    return events if numbers == list(range(last + 1 - len(events), last + 1)) else ()
