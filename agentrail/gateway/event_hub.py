"""Hubs of event streams, one per session with readers.

Publishing never waits for a reader: a slow one is overtaken or cut.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final

import trio
from attrs import frozen

from agentrail.core.session.views import Snapshot
from agentrail.errors import AgentrailError, SessionDown, SessionRested, SubscriberTooSlow
from agentrail.events import Event, EventsLost, SessionParked
from agentrail.gateway.frame_ring import MAX_RING_BYTES, MAX_RING_FRAMES, FrameMemory, FrameRing, RingFrame
from agentrail.gateway.sse_frames import DoneReason, event_frame, retry_line, snapshot_frame
from agentrail.gateway.stream_reader import StreamReader
from agentrail.gateway.stream_watchdog import TURN_EVERY, WatchedStream, in_turns
from agentrail.host.host_sessions import profile_of_root
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded
from agentrail.outside import jitter
from agentrail.runtime.crashes import what_travels
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_keys import key_of

LOGGER: Final = Logger("agentrail.gateway")

HUB_BUFFER: Final = 1_024
"""Buffer of a hub's subscription, in events. After an overflow it resumes like any subscriber."""

WRITE_GRACE_SECONDS: Final = 5.0
"""Time limit for the current write of a reader that was overtaken or whose stream ends."""

CHECK_SECONDS: Final = 5.0
"""Interval between checks of readers that do not read."""

TICK_SECONDS: Final = 0.5
"""Minimum interval between checks of all readers."""


@frozen(kw_only=True)
class HubStatistics:
    """Current load of the hubs of a process.

    Attributes:
        frame_bytes: Size of these frames in bytes.
    """

    hubs: int
    readers: int
    frames: int
    frame_bytes: int


class Hub:
    """Subscription and frames shared by the readers of one session."""

    def __init__(self, session: Session, ring: FrameRing) -> None:
        self.session = session
        self.ring = ring
        self.waiting: dict[StreamReader, None] = {}
        self.readers: dict[StreamReader, None] = {}
        self.users = 0
        self.ended: DoneReason | None = None
        self.scope: trio.CancelScope = trio.CancelScope()
        self._memory = FrameMemory(event_frame)
        self._subscription: Subscription | None = None
        self._is_level = trio.Event()
        self._resume_after: int | None = None
        self._shown = 0
        self._woken = 0
        self._is_parked = False
        self._snapshot: tuple[int, RingFrame] | None = None

    @property
    def session_id(self) -> SessionId:
        return self.session.session_id

    async def run(self) -> None:
        """Follow the session until it ends, or until the last reader leaves. Must be cancelled after its readers."""
        with self.scope:
            while self.ended is None:
                subscription = self.session.subscribe(after=self._resume_after, buffer=HUB_BUFFER)
                subscription.needs_snapshot = False
                try:
                    async with subscription:
                        self._subscription = subscription
                        self._is_level.set()
                        await self._follow(subscription)
                except SessionDown as error:
                    # It ended before. A reader that wants the rest of it reports how.
                    self._end("shutdown" if isinstance(error, SessionRested) else "session_ended")
                except AgentrailError as error:  # for example an unreadable journal
                    self._break(error)
                except BaseException as error:  # noqa: ASYNC103 - cancellation is raised again
                    if what_travels(error) is not None:
                        raise
                    self._break(error)  # a bug of ours or of a store: streams of other sessions continue
            await self._wake_readers()

    async def _follow(self, subscription: Subscription) -> None:
        while self.take_waiting():
            if self.ring.end != self._shown:
                self._shown = self.ring.end
                await self._wake_readers()
            elif self.ended is not None:
                return
            else:
                await self._take_next(subscription)

    async def _take_next(self, subscription: Subscription) -> None:
        self._woken = 0
        try:
            event = await anext(subscription)
        except (StopAsyncIteration, SubscriberTooSlow):
            # It has ended or was cut, or a joining reader took the event first. `take_waiting` finds out.
            return
        self._put(event, subscription)

    def take_waiting(self) -> bool:
        """Take all waiting events without a checkpoint. Return False if the subscription was cut."""
        subscription = self._subscription
        if subscription is None:
            return self.ended is not None
        try:
            while self.ended is None:
                self._put(subscription.next_nowait(), subscription)
        except trio.WouldBlock:
            pass
        except trio.EndOfChannel:
            self._end(self._reason_of(subscription))
        except SubscriberTooSlow as cut:
            self._subscription, self._resume_after = None, cut.resume_after
            self._is_level = trio.Event()
            return False
        return True

    def _reason_of(self, subscription: Subscription) -> DoneReason:
        if self._is_parked or not subscription.is_rested:
            return "failed" if self._is_parked else "session_ended"
        return "moved" if subscription.is_moved else "shutdown"

    def _end(self, reason: DoneReason) -> None:
        self.ended = self.ended or reason
        self._subscription = None
        self._is_level.set()

    def _put(self, event: Event, subscription: Subscription) -> None:
        self._is_parked = self._is_parked or isinstance(event, SessionParked)

        def put() -> None:
            self.ring.append(self.frame_of(event))
            if isinstance(event, EventsLost):
                self.ring.append(self._frame_of_snapshot(subscription.snapshot))

        # Readers would miss an event that cannot be encoded without noticing, so the streams of this session
        # end.
        call_guarded(self._break, put)

    def _break(self, error: BaseException) -> None:
        LOGGER.error(
            "streams of session %s end, because its events cannot be read: %s",
            self.session_id,
            describe_bug(error),
        )
        self._end("failed")

    def frame_of(self, event: Event) -> RingFrame:
        data, meta = self._memory.frame_of(event), event.meta
        return RingFrame(data, None if meta is None or meta.ephemeral else meta.seq)

    async def _wake_readers(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for reader in waiting:
            reader.wake()
            self._woken += 1
            if self._woken == TURN_EVERY:  # continues the count of the previous event in the same turn
                self._woken = 0
                await trio.lowlevel.checkpoint()

    async def wait_level(self) -> None:
        await self._is_level.wait()

    def begin_reader(self, own: Subscription, after: int | None) -> StreamReader | None:
        """Add a reader in the step in which its subscription was entered, without a checkpoint."""
        if not self.take_waiting():
            return None
        pending: deque[Event | RingFrame] = deque([RingFrame(retry_line(jitter()), None)])
        if after is None:
            pending.append(self._snapshot_now(own))
        try:
            while True:
                event = own.next_nowait()
                pending.append(event)
                self._is_parked = self._is_parked or isinstance(event, SessionParked)
                if isinstance(event, EventsLost):
                    pending.append(self._frame_of_snapshot(own.snapshot))
        except trio.WouldBlock:
            if self.ended is not None:  # another session of the same id is running by now
                return None
        except trio.EndOfChannel:
            self._end(self._reason_of(own))
            if self._is_parked:
                self.ended = "failed"
        reader = StreamReader(self, after=after or 0, pending=pending)
        self.readers[reader] = None
        return reader

    def _snapshot_now(self, own: Subscription) -> RingFrame:
        # Reused until the next event: a thousand readers that arrive at once share one snapshot.
        known = self._snapshot
        if known is None or known[0] != self.ring.end:
            known = self._snapshot = (self.ring.end, self._frame_of_snapshot(own.snapshot))
        return known[1]

    def _frame_of_snapshot(self, snapshot: Snapshot | None) -> RingFrame:
        assert snapshot is not None  # noqa: S101 - its subscription was entered
        agent_id = profile_of_root(self.session.facts)
        return RingFrame(snapshot_frame(snapshot, agent_id=agent_id), snapshot.last_seq)

    def age(self) -> None:
        self.ring.drop_before(min((reader.position for reader in self.readers), default=self.ring.end))
        self._memory.age()


class Hubs:
    """All open streams of a process. Created by `open_hubs`."""

    def __init__(
        self, nursery: trio.Nursery, *, heartbeat_seconds: float, make_ring: Callable[[], FrameRing]
    ) -> None:
        self._nursery = nursery
        self._heartbeat = heartbeat_seconds
        self._make_ring = make_ring
        self._hubs: dict[str, Hub] = {}
        self._all: dict[WatchedStream, None] = {}
        self._has_readers = trio.lowlevel.ParkingLot()
        self._is_empty = trio.lowlevel.ParkingLot()
        self._closing: DoneReason | None = None
        self._aged_at = 0.0

    def statistics(self) -> HubStatistics:
        rings = [hub.ring for hub in self._hubs.values()]
        return HubStatistics(
            hubs=len(rings),
            readers=len(self._all),
            frames=sum(ring.end - ring.first for ring in rings),
            frame_bytes=sum(ring.size_bytes for ring in rings),
        )

    @asynccontextmanager
    async def open_reader(
        self, session: Session, *, after: int | None = None, on_cut: Callable[[], object] | None = None
    ) -> AsyncIterator[StreamReader]:
        hub, reader = await self._join(session, after)
        reader.on_cut = on_cut
        try:
            with self.watch_stream(reader), reader.scope:
                yield reader
        finally:
            self._leave(hub, reader)

    @contextmanager
    def watch_stream(self, stream: WatchedStream) -> Iterator[None]:
        self._all[stream] = None
        self._has_readers.unpark_all()
        if self._closing is not None:
            stream.finish(self._closing)
        try:
            yield
        finally:
            del self._all[stream]
            if not self._all:
                self._is_empty.unpark_all()

    async def _join(self, session: Session, after: int | None) -> tuple[Hub, StreamReader]:
        while True:
            hub = self._hub_of(session)
            hub.users += 1
            reader = None
            try:
                await hub.wait_level()
                own = session.subscribe(after=after)
                own.needs_snapshot = after is None
                async with own:
                    reader = hub.begin_reader(own, after)
                if reader is not None:
                    return hub, reader
            finally:
                if reader is None:
                    self._let_go(hub)
            # The hub had fallen behind and restarts, or belonged to an ended session.

    def _hub_of(self, session: Session) -> Hub:
        key = key_of(session.scope, session.session_id)
        hub = self._hubs.get(key)
        if hub is None or hub.ended is not None:  # an ended hub stays for the readers of its rest
            hub = self._hubs[key] = Hub(session, self._make_ring())
            self._nursery.start_soon(hub.run, name=f"stream of {session.session_id}")
        return hub

    def _leave(self, hub: Hub, reader: StreamReader) -> None:
        del hub.readers[reader]
        hub.waiting.pop(reader, None)
        self._let_go(hub)

    def _let_go(self, hub: Hub) -> None:
        hub.users -= 1
        if hub.users:
            return
        hub.scope.cancel()
        key = key_of(hub.session.scope, hub.session.session_id)
        if self._hubs.get(key) is hub:
            del self._hubs[key]

    async def close(self, reason: DoneReason, *, within_seconds: float = WRITE_GRACE_SECONDS) -> None:
        """End all streams, including ones opened later, each with a `done` frame, even if cancelled."""
        self._closing = reason
        async for reader in in_turns(self._all):
            reader.finish(reason)
        with trio.move_on_after(within_seconds):
            while self._all:
                await self._is_empty.park()
        for reader in tuple(self._all):
            reader.cut()

    # --- the watcher

    async def watch(self) -> None:
        """Write heartbeats, and cut blocked writes of streams that have to end. One task for all."""
        while True:
            if not self._all:
                await self._has_readers.park()
            now = trio.current_time()
            silent = [reader.last_at + self._heartbeat for reader in self._all if reader.is_waiting]
            next_look = min([*silent, now + min(CHECK_SECONDS, self._heartbeat)])
            await trio.sleep_until(max(next_look, now + TICK_SECONDS))
            await self._look()

    async def _look(self) -> None:
        now = trio.current_time()
        if now - self._aged_at >= CHECK_SECONDS:
            self._aged_at = now
            for hub in self._hubs.values():
                hub.age()
        beats = 0
        for reader in tuple(self._all):
            beats += self._look_at(reader, now)
            if beats == TURN_EVERY:
                beats = 0
                await trio.lowlevel.checkpoint()

    def _look_at(self, reader: WatchedStream, now: float) -> bool:
        if reader.is_waiting:
            is_silent = now - reader.last_at >= self._heartbeat
            if is_silent:
                reader.beat()
            return is_silent
        if not reader.is_due_to_end:
            reader.overdue_since = None
        elif reader.overdue_since is None:
            reader.overdue_since = now
        elif now - reader.overdue_since >= WRITE_GRACE_SECONDS:
            reader.cut()
        return False


@asynccontextmanager
async def open_hubs(
    *,
    heartbeat_seconds: float = 15.0,
    max_frames: int = MAX_RING_FRAMES,
    max_frame_bytes: int = MAX_RING_BYTES,
) -> AsyncIterator[Hubs]:
    async with trio.open_nursery() as nursery:
        make_ring = partial(FrameRing, max_frames=max_frames, max_bytes=max_frame_bytes)
        hubs = Hubs(nursery, heartbeat_seconds=heartbeat_seconds, make_ring=make_ring)
        nursery.start_soon(hubs.watch, name="watch streams")
        yield hubs
        nursery.cancel_scope.cancel()
