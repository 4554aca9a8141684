"""Bounded send queue of one socket. Ephemeral events are dropped when it is half full, and a full one closes the socket."""

from collections import deque
from typing import Final

from attrs import define, field

from agentrail.wire.plain import encode_plain
from agentrail.wire.server_frames import REASONS, CloseCode, Closing, Lag

MAX_QUEUED_FRAMES: Final = 256
MAX_QUEUED_BYTES: Final = 1 << 20
"""Limit on all queued frames, in bytes.

A single frame may be larger: below the limit there is room for one more of any size.
"""


@define(eq=False, kw_only=True)
class SendQueue:
    """Queued frames of one socket.

    Attributes:
        closing: Close code to send after the queued frames, or None while the socket is open.
    """

    closing: CloseCode | None = field(init=False, default=None)
    cursors: dict[str, int] = field(init=False, factory=dict)
    _max_frames: int = MAX_QUEUED_FRAMES
    _max_bytes: int = MAX_QUEUED_BYTES
    _frames: deque[bytes] = field(init=False, factory=deque)
    _apart: dict[str, tuple[int | None, bytes]] = field(init=False, factory=dict)
    _is_turn_of_apart: bool = field(init=False, default=False)
    _bytes: int = field(init=False, default=0)
    _dropped: dict[str, int] = field(init=False, factory=dict)

    def __len__(self) -> int:
        return len(self._frames) + len(self._apart)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def has_room(self) -> bool:
        return len(self._frames) < self._max_frames and self._bytes < self._max_bytes

    @property
    def is_half_full(self) -> bool:
        return 2 * len(self._frames) >= self._max_frames or 2 * self._bytes >= self._max_bytes

    @property
    def is_low(self) -> bool:
        return 4 * len(self._frames) < self._max_frames and 4 * self._bytes < self._max_bytes

    # --- in

    def put(self, frame: bytes) -> bool:
        """Queue a frame that must not be dropped. Return False if the socket is closing."""
        if self.closing is not None:
            return False
        if not self.has_room:
            self.close(CloseCode.SLOW)
            return False
        self._append(frame)
        return True

    def put_event(self, session_id: str, seq: int, frame: bytes) -> bool:
        is_taken = self.put(frame)
        if is_taken:
            self.cursors[session_id] = seq
        return is_taken

    def put_apart(self, session_id: str, seq: int | None, frame: bytes) -> bool:
        """Hold one frame of past events of a session, which takes no room from live events."""
        if self.closing is not None:
            return False
        self._apart[session_id] = (seq, frame)
        return True

    def has_apart(self, session_id: str) -> bool:
        return session_id in self._apart

    def put_delta(self, session_id: str, frame: bytes) -> bool:
        if self.closing is not None:
            return False
        if self.is_half_full:
            self.count_dropped(session_id)
            return False
        self._tell_lag(session_id)
        self._append(frame)
        return True

    def count_dropped(self, session_id: str, count: int = 1) -> None:
        self._dropped[session_id] = self._dropped.get(session_id, 0) + count

    def forget(self, session_id: str) -> None:
        """Stop tracking a session. Its queued frames are still sent."""
        self.cursors.pop(session_id, None)
        self._apart.pop(session_id, None)
        self._dropped.pop(session_id, None)

    def close(self, code: CloseCode) -> None:
        """Accept no more frames, and end with the reason and the cursors. The first code is used."""
        if self.closing is None:
            self.closing = code
            self._apart.clear()  # the cursors exclude them, so they are sent again
            for session_id in tuple(self._dropped):
                self._tell_lag(session_id)
            self._append(encode_plain(Closing(reason=REASONS[code], cursors=self.cursors)))

    # --- out

    def take(self) -> bytes | None:
        """Return the next frame, or None. After the last one, a frame reports dropped events."""
        if self._apart and (self._is_turn_of_apart or not self._frames):
            self._is_turn_of_apart = False
            session_id = next(iter(self._apart))
            seq, frame = self._apart.pop(session_id)
            if seq is not None:
                self.cursors[session_id] = seq
            return frame
        if not self._frames and self._dropped and self.closing is None:
            self._tell_lag(next(iter(self._dropped)))
        if not self._frames:
            return None
        self._is_turn_of_apart = True  # alternately, so that neither delays the other
        frame = self._frames.popleft()
        self._bytes -= len(frame)
        return frame

    def _tell_lag(self, session_id: str) -> None:
        dropped = self._dropped.pop(session_id, 0)
        if dropped:
            self._append(encode_plain(Lag(session_id=session_id, dropped=dropped)))

    def _append(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._bytes += len(frame)
