"""How far one subscription is: what waits for its reader, behind which number it goes on, and what is to be sent for it. Pure.

A reader who does not keep up never holds up the connection, which others read too: when as much waits as may, the server is told to
stop, and when half of that was read, to go on behind the last event that was kept. So nothing that is committed is lost, and ephemeral
events are. The same happens when a connection is lost.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET

from agentrail.core.session.projection import Snapshot
from agentrail.errors import AgentrailError
from agentrail.events import KINDS, Event, EventsLost, SessionEnd, UnknownEvent
from agentrail.remote.faults import error_of_reply
from agentrail.remote.frames import ServerFrame, command_frame, position_of
from agentrail.wire.forms import decode_snapshot

ReadingState: TypeAlias = Literal["asked", "open", "paused", "over"]
"""Whether a subscription waits for its server, is read, was stopped because its reader is behind, or has ended."""

DrawnSnapshot: TypeAlias = Callable[[], Snapshot]


class RemoteReading:
    """One subscription to one session.

    Attributes:
        frame_id: How the subscription is called on the wire, on each connection that it has.
        cursor: The number of the last committed event that was kept; None before the server has said where it begins.
        fault: Why it ended; None where the session did.
    """

    def __init__(
        self,
        session_id: str,
        *,
        after: int | None,
        kinds: Iterable[type[Event]] | None,
        deltas: bool,
        limit: int,
    ) -> None:
        """Begin with nothing; arguments as of `Session.subscribe`."""
        self.session_id = session_id
        self.frame_id = 0
        self.cursor = after
        self.standing: ReadingState = "asked"
        self.begun: bool = False
        self.fault: AgentrailError | None = None
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
        """How the session stood where the reader has to begin; None where it went on after a number."""
        if self._drawn is not None:
            drawn, self._drawn = self._drawn, None
            self._snapshot = drawn()
        return self._snapshot

    @property
    def waiting(self) -> int:
        """How many events wait for the reader."""
        return len(self._waiting)

    # --- what is to be sent

    def frame(self) -> bytes:
        """Write what subscribes: behind what was kept, on a connection that is not the first one."""
        fields = {"after": self.cursor, "kinds": self._kinds, "deltas": self._deltas}
        return command_frame("subscribe", self.frame_id, self.session_id, fields)

    def connection_lost(self) -> bool:
        """Note that the connection is gone."""
        self._lost = None  # its snapshot did not come; on the next connection both do
        if self.standing == "open":
            self.standing = "asked"
        return self.standing == "asked"

    @property
    def may_go_on(self) -> bool:
        """Whether a subscription that was stopped is to go on: its reader has read half of what waited."""
        return self.standing == "paused" and 2 * len(self._waiting) <= self._limit

    def ask_again(self) -> None:
        """Note that it is asked for once more."""
        self.standing = "asked"

    # --- what came

    def take_subscribed(self, frame: ServerFrame) -> None:
        """Take that the server lets it begin, go on, or begin anew."""
        if self.standing not in ("asked", "open"):
            return
        self.standing = "open"
        snapshot = None if frame.snapshot is UNSET else _drawn_from(bytes(frame.snapshot))
        if self._lost is not None and snapshot is not None:
            self._take_lost(self._lost, snapshot)
            self._lost = None
            self.cursor = frame.seq
        elif not self.begun:
            self._drawn = snapshot
            self.cursor = frame.seq
        self.begun = True

    def _take_lost(self, lost: EventsLost, snapshot: DrawnSnapshot) -> None:
        """Take a loss, and where to begin anew. Of two on end one is kept: a server that says nothing else fills no memory."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, EventsLost):
            self._waiting[-1] = msgspec.structs.replace(lost, from_seq=min(last.from_seq, lost.from_seq))
            self._snapshots[-1] = snapshot
            return
        self._waiting.append(lost)
        self._snapshots.append(snapshot)

    def take_event(self, event: Event | UnknownEvent) -> bool:
        """Take an event."""
        if self.standing != "open" or self.cursor is None:
            return False  # left over from what this connection read before
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
            return False  # it came before
        if len(self._waiting) >= self._limit and not self._make_room():
            self.standing = "paused"
            return True
        self.cursor = seq
        self._waiting.append(event)
        if isinstance(event, SessionEnd):
            self.standing = "over"
        return False

    def take_reply(self, frame: ServerFrame) -> None:
        """Take that it is refused, or has come to its end."""
        if not frame.ok:
            self.fail(error_of_reply(frame.error, self.session_id))
        elif self.standing in ("asked", "open"):
            self.standing, self.begun = "over", True

    def fail(self, fault: AgentrailError) -> None:
        """Note that nothing comes any more, and why. What waits is still read."""
        if self.standing != "over":
            self.standing, self.fault = "over", fault

    # --- what is read

    def next(self) -> Event | UnknownEvent | None:
        """Give the next event; None where none waits."""
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


def _drawn_from(text: bytes) -> DrawnSnapshot:
    return lambda: decode_snapshot(text)
