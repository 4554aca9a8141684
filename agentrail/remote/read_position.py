"""State of one subscription: queued events, the number to resume after, and the next frame to send. Pure."""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from agentrail.core.session.views import Snapshot
from agentrail.errors import AgentrailError
from agentrail.events import KINDS, Event, EventsLost, SessionEnd, UnknownEvent
from agentrail.remote.error_codes import error_of_reply
from agentrail.remote.frame_codec import ServerFrame, command_frame, position_of
from agentrail.wire.form_fields import decode_snapshot

ReadingState: TypeAlias = Literal["asked", "open", "paused", "over"]
"""State of a subscription: waiting for the server, open, paused for a slow reader, or ended."""

DrawnSnapshot: TypeAlias = Callable[[], Snapshot]


class RemoteReading:
    def __init__(
        self,
        session_id: str,
        *,
        after: int | None,
        kinds: Iterable[type[Event]] | None,
        deltas: bool,
        limit: int,
    ) -> None:
        self.session_id = session_id
        self.frame_id = 0
        self.cursor = after
        self.standing: ReadingState = "asked"
        self.begun: bool = False
        self.fault: Callable[[], AgentrailError] | None = None
        self.dropped_deltas: int = 0
        self._kinds = None if kinds is None else sorted(KINDS[kind] for kind in kinds)
        self._deltas = deltas
        self._limit = limit
        self._waiting: deque[Event | UnknownEvent] = deque()
        self._lost: EventsLost | None = None
        self._snapshots: deque[DrawnSnapshot] = deque()
        self._drawn: DrawnSnapshot | None = None
        self._snapshot: Snapshot | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """State of the session at the reader's start, or None if it resumed after a number."""
        if self._drawn is not None:
            drawn, self._drawn = self._drawn, None
            self._snapshot = drawn()
        return self._snapshot

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # --- outgoing frames

    def frame(self) -> bytes:
        """Encode the subscription. After the first connection, it resumes after the last queued event."""
        fields = {"after": self.cursor, "kinds": self._kinds, "deltas": self._deltas}
        return command_frame("subscribe", self.frame_id, self.session_id, fields)

    def connection_lost(self) -> None:
        self._lost = None  # its snapshot did not arrive; the next connection brings both
        if self.standing == "open":
            self.standing = "asked"

    @property
    def may_go_on(self) -> bool:
        return self.standing == "paused" and 2 * len(self._waiting) <= self._limit

    def ask_again(self) -> None:
        self.standing = "asked"

    # --- incoming frames

    def take_subscribed(self, frame: ServerFrame) -> None:
        if self.standing not in ("asked", "open"):
            return
        self.standing = "open"
        snapshot = None if frame.snapshot is UNSET else partial(decode_snapshot, bytes(frame.snapshot))
        if self._lost is not None and snapshot is not None:
            self._take_lost(self._lost, snapshot)
            self._lost = None
            self.cursor = frame.seq
        elif not self.begun:
            self._drawn = snapshot
            self.cursor = frame.seq
        self.begun = True

    def _take_lost(self, lost: EventsLost, snapshot: DrawnSnapshot) -> None:
        """Record a loss and the snapshot to restart from. Consecutive losses are merged, so that they cannot fill the memory."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, EventsLost):
            self._waiting[-1] = replace(lost, from_seq=min(last.from_seq, lost.from_seq))
            self._snapshots[-1] = snapshot
            return
        self._waiting.append(lost)
        self._snapshots.append(snapshot)

    def take_event(self, event: Event | UnknownEvent) -> bool:
        if self.standing != "open" or self.cursor is None:
            return False  # from an earlier subscription on this connection
        if isinstance(event, EventsLost):
            self._lost = event
            return False
        seq, is_ephemeral = position_of(event)
        if is_ephemeral:
            if len(self._waiting) < self._limit:
                self._waiting.append(event)
            else:
                self.dropped_deltas += 1
            return False
        if seq <= self.cursor:
            return False  # a duplicate
        if len(self._waiting) >= self._limit and not self._make_room():
            self.standing = "paused"
            return True
        self.cursor = seq
        self._waiting.append(event)
        if isinstance(event, SessionEnd):
            self.standing = "over"
        return False

    def take_reply(self, frame: ServerFrame) -> None:
        if not frame.ok:
            self.fail(partial(error_of_reply, frame.error, self.session_id))
        elif self.standing in ("asked", "open"):
            self.standing, self.begun = "over", True

    def fail(self, fault: Callable[[], AgentrailError]) -> None:
        """End with an error that is made for each caller: one that is kept would keep the frames of its traceback."""
        if self.standing != "over":
            self.standing, self.fault = "over", fault

    # --- reading

    def next(self) -> Event | UnknownEvent | None:
        if not self._waiting:
            return None
        event = self._waiting.popleft()
        if isinstance(event, EventsLost) and self._snapshots:
            self._drawn = self._snapshots.popleft()
        return event

    def _make_room(self) -> bool:
        kept = deque(
            event for event in self._waiting if isinstance(event, EventsLost) or not position_of(event)[1]
        )
        self.dropped_deltas += len(self._waiting) - len(kept)
        self._waiting = kept
        return len(kept) < self._limit
