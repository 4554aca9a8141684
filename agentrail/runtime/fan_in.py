"""The sessions of a supervisor as one stream, present and future ones."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import trio
from attrs import frozen

from agentrail.abc.event_reader import ConsumerStatistics, SessionOrigin
from agentrail.errors import CursorAhead, SessionDown
from agentrail.events import Event
from agentrail.messages import JsonObject, SessionId
from agentrail.otp.guarded_calls import repr_of
from agentrail.outside import current_run
from agentrail.runtime.arguments import fault_of, fault_of_whole, refuse
from agentrail.runtime.event_bus import NOTHING_EARLIER, READS, Earlier, EventBus
from agentrail.runtime.event_subscription import Subscription, TakenSnapshot, Terms
from agentrail.runtime.journal_events import MAX_OLD_EVENTS
from agentrail.runtime.session_keys import fault_of_scope, key_of

EVERY: Final = "*"
"""Placeholder for the session id where no particular session is meant. Not a valid id."""


class EventReader(Protocol):
    @property
    def sample(self) -> float: ...
    @property
    def tells_providers(self) -> bool: ...
    def open(self, source: Any, /) -> None: ...
    def hear(self, origin: SessionOrigin, event: Event, /) -> None: ...
    def statistics(self) -> tuple[ConsumerStatistics, ...]: ...
    async def settle(self, scope: str, root: str, /) -> None: ...
    async def run(self) -> None: ...
    async def aclose(self) -> None: ...


class FollowedPlace(Protocol):
    """Identifies the subscribers that read a session."""

    @property
    def group_id(self) -> str | None: ...

    @property
    def scope(self) -> str: ...


class Followed(FollowedPlace, Protocol):
    @property
    def bus(self) -> EventBus: ...

    @property
    def user_data(self) -> JsonObject: ...

    def take_snapshot(self) -> TakenSnapshot: ...

    async def events_between(self, after: int, before: int) -> Sequence[Event]:
        """Return the events between two numbers, rebuilt from the journal. Empty if the journal does not have them."""
        ...


@frozen(kw_only=True)
class SleepingPlace:
    group_id: str | None
    scope: str
    last_seq: int


class FanIn:
    """All sessions in memory, and the subscribers of several sessions."""

    def __init__(self) -> None:
        self._sessions: dict[EventBus, Followed] = {}
        self._asleep: dict[str, SleepingPlace] = {}
        self._subscriptions: tuple[ManySubscription, ...] = ()
        self._down: str | None = None
        self._forget = self._sessions.__delitem__  # bound once instead of once per session
        self.reader: EventReader | None = None
        self.run: trio.lowlevel.TrioToken | None = current_run()

    def join(self, session: Followed) -> None:
        key = _key_of(session)
        self._asleep.pop(key, None)
        self._sessions[session.bus] = session
        session.bus.on_close = self._forget
        if self.reader is not None:
            origin = SessionOrigin(session.scope, session.bus.session_id, session.user_data)
            session.bus.on_commit = partial(self.reader.hear, origin)
        for subscription in self._subscriptions:
            if subscription.reads(session):
                after = subscription.behind.pop(key, None)
                session.bus.attach(subscription, after=after, take_snapshot=session.take_snapshot)

    def suspend(self, session: Followed) -> None:
        bus = session.bus
        del self._sessions[bus]
        bus.on_close = None
        for subscription in self._subscriptions:
            bus.detach(subscription)
        self._asleep[_key_of(session)] = SleepingPlace(
            group_id=session.group_id, scope=session.scope, last_seq=bus.last_seq
        )

    async def settle(self, scope: str, root: str) -> None:
        """Wait until readers have what only the journals of a tree still have, which end next. For five seconds at most."""
        if self.reader is not None:
            await self.reader.settle(scope, root)

    def forget_sleeping(self, key: str) -> None:
        """Forget a hibernated session that will not wake again. No error if it is unknown."""
        self._asleep.pop(key, None)

    def subscribe_all(
        self, terms: Terms, after: Mapping[str, int] | None, scope: str | None = None
    ) -> "ManySubscription":
        _refuse_wrong(after, scope)
        return ManySubscription(self, terms, group_id=None, scope=scope, after=after)

    def subscribe_group(
        self, group_id: str, terms: Terms, after: Mapping[str, int] | None, scope: str | None
    ) -> "ManySubscription":
        # None would mean all sessions, rather than those without a group.
        _refuse_wrong(after, scope, fault_of("group_id", group_id, str))
        return ManySubscription(self, terms, group_id=group_id, scope=scope, after=after)

    def close(self, reason: str) -> None:
        self._down, self.run = reason, None
        for subscription in self._subscriptions:
            subscription.end()

    async def read_earlier(
        self, subscription: "ManySubscription", after: Mapping[str, int]
    ) -> dict[EventBus, Earlier]:
        found: dict[EventBus, Earlier] = {}
        in_vain: set[EventBus] = set()
        room = MAX_OLD_EVENTS
        for _ in range(READS):
            behind = [
                (bus, session, seq)
                for bus, session, seq in self._cursors(subscription, after)
                if bus not in in_vain and bus.lacks(bus.reach_of(seq, found.get(bus, NOTHING_EARLIER)))
            ]
            for bus, session, seq in behind:
                known = found.get(bus, NOTHING_EARLIER)
                now = await bus.read_earlier(seq, session.events_between, known, at_most=room)
                more = len(now.events) - len(known.events)
                found[bus], room = now, room - more
                if more <= 0:
                    in_vain.add(bus)
            if not behind:
                break
        return found

    def _cursors(
        self, subscription: "ManySubscription", after: Mapping[str, int]
    ) -> Iterator[tuple[EventBus, Followed, int]]:
        # A session without a position was started later: none of its events has been seen.
        for bus, session in self._sessions.items():
            if subscription.reads(session):
                yield bus, session, after.get(_key_of(session), 0)

    def enter(
        self,
        subscription: "ManySubscription",
        after: Mapping[str, int] | None,
        earlier: Mapping[EventBus, Earlier],
    ) -> None:
        if self._down is not None:
            raise SessionDown(EVERY, self._down)
        seqs = {bus: seq for bus, _, seq in self._cursors(subscription, after or {})}
        buses = dict.fromkeys(seqs) if after is None else seqs
        sleeping = {key: place for key, place in self._asleep.items() if subscription.reads(place)}
        ahead = {
            _key_of(self._sessions[bus]): bus.last_seq for bus, seq in buses.items() if bus.faults_of(seq)
        }
        faults = [fault for bus, seq in buses.items() for fault in bus.faults_of(seq)]
        if after is not None:
            # Hibernated sessions are not woken. When they wake, the events since their position are
            # delivered, or `EventsLost`.
            wanted = {key: after.get(key, 0) for key in sleeping}
            far = {key: sleeping[key].last_seq for key, seq in wanted.items() if seq > sleeping[key].last_seq}
            ahead |= far
            faults += [
                f"after[{key!r}] is {wanted[key]}: expected at most {last}" for key, last in far.items()
            ]
            subscription.behind = {key: seq for key, seq in wanted.items() if seq < sleeping[key].last_seq}
        if faults:
            raise CursorAhead(faults, positions=ahead)
        for bus, seq in buses.items():
            bus.attach(
                subscription,
                after=seq,
                take_snapshot=self._sessions[bus].take_snapshot,
                earlier=earlier.get(bus, NOTHING_EARLIER),
            )
        self._subscriptions = (*self._subscriptions, subscription)

    def leave(self, subscription: Subscription) -> None:
        self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)
        for bus in self._sessions:
            bus.detach(subscription)

    def positions(self, subscription: "ManySubscription", before: Event) -> dict[str, int]:
        reads, behind = subscription.reads, subscription.behind
        sleeping = {
            key: behind.get(key, place.last_seq) for key, place in self._asleep.items() if reads(place)
        }
        return sleeping | {
            _key_of(session): bus.last_seq - bus.is_last(before)
            for bus, session in self._sessions.items()
            if reads(session)
        }


class ManySubscription(Subscription):
    """A subscription to many sessions. `event.meta` names the session of an event.

    Iteration ends when the supervisor closes. `snapshot` is that of the session whose `EventsLost` came last.
    """

    def __init__(
        self,
        fan_in: FanIn,
        terms: Terms,
        *,
        group_id: str | None,
        scope: str | None,
        after: Mapping[str, int] | None,
    ) -> None:
        """Created by `FanIn.subscribe_all` and `FanIn.subscribe_group`."""
        found: dict[EventBus, Earlier] = {}

        async def prepare(own: ManySubscription) -> None:
            if after is not None:
                found.update(await fan_in.read_earlier(own, after))

        super().__init__(
            terms,
            enter=lambda own: fan_in.enter(own, after, found),
            leave=fan_in.leave,
            prepare=None if after is None else prepare,
        )
        self.run: trio.lowlevel.TrioToken | None = fan_in.run
        self.needs_snapshot: bool = False
        self._fan_in = fan_in
        self._group_id = group_id
        self._scope = scope
        self.behind: dict[str, int] = {}
        """Position to resume after, for each hibernated session that has published more, until it wakes."""

    def reads(self, session: FollowedPlace) -> bool:
        """Whether the subscription reads this session."""
        return (self._group_id is None or self._group_id == session.group_id) and (
            self._scope is None or self._scope == session.scope
        )

    def begin(self, session_id: SessionId, replay: Sequence[Event], snapshot: TakenSnapshot | None) -> None:
        """Add the events of one session to replay before its live events."""
        super().begin(session_id, replay, None)
        self._keep_for_loss(replay, snapshot)
        if replay and self._reader is not None:  # the session woke while the subscription was being read
            self._wake()

    def bus_closed(self, *, is_rested: bool, is_moved: bool = False) -> None:
        """Ignore the end or rest of one session: other sessions continue, and new ones may start."""

    def _positions_before(self, event: Event) -> Mapping[str, int]:
        # Every earlier event is in the buffer or was not wanted. Only this event did not fit.
        return self._fan_in.positions(self, event)


def _key_of(session: Followed) -> str:
    return key_of(session.scope, session.bus.session_id)


def _refuse_wrong(after: object, scope: object, *faults: str | None) -> None:
    refuse(*faults, *_faults_of_cursors(after), None if scope is None else fault_of_scope("scope", scope))


def _faults_of_cursors(after: object) -> list[str | None]:
    if after is None:
        return []
    if not isinstance(after, Mapping):
        return [f"after is {repr_of(after):.200}: expected a mapping from session ids to numbers, or None"]
    return [fault_of_whole(f"after[{repr_of(key):.200}]", number, 0) for key, number in after.items()]
