"""What waits to be sent on one socket: bounded, and what goes when there is no room is decided here.

Pure. Frames go out in the order in which they came in. What a session published before a client came is not among them: it waits apart, one
frame of each session at a time, so that catching up takes no room from what is live, and never ends a socket. From half full on, ephemeral events are left out, and the client is told how many;
a frame that may not be left out and has no room ends the socket: the last frame then says where each session is to be gone on with.
"""

from collections import deque
from typing import Final

from agentrail.wire.plain import encode_plain
from agentrail.wire.server_frames import REASONS, CloseCode, Closing, Lag

MAX_QUEUED_FRAMES: Final = 256
MAX_QUEUED_BYTES: Final = 1 << 20
"""Of all that waits. One frame may be larger by itself: below the bound there is room for one more, whatever its size."""


class SendQueue:
    """The frames that wait for one socket.

    Attributes:
        closing: The code that the socket closes with behind what waits; None while it is open.
        cursors: For each session that is read, the number of the last committed event that was put in.
    """

    __slots__ = (
        "_apart",
        "_bytes",
        "_dropped",
        "_frames",
        "_is_turn_of_apart",
        "_max_bytes",
        "_max_frames",
        "closing",
        "cursors",
    )

    def __init__(self, *, max_frames: int = MAX_QUEUED_FRAMES, max_bytes: int = MAX_QUEUED_BYTES) -> None:
        """Begin with none."""
        self._frames: deque[bytes] = deque()
        self._apart: dict[str, tuple[int | None, bytes]] = {}
        self._is_turn_of_apart = False
        self._bytes = 0
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._dropped: dict[str, int] = {}
        self.closing: CloseCode | None = None
        self.cursors: dict[str, int] = {}

    def __len__(self) -> int:
        """How many frames wait."""
        return len(self._frames) + len(self._apart)

    @property
    def size_bytes(self) -> int:
        """How much waits."""
        return self._bytes

    @property
    def has_room(self) -> bool:
        """Whether one more frame is taken."""
        return len(self._frames) < self._max_frames and self._bytes < self._max_bytes

    @property
    def is_half_full(self) -> bool:
        """Whether ephemeral events are left out."""
        return 2 * len(self._frames) >= self._max_frames or 2 * self._bytes >= self._max_bytes

    @property
    def is_low(self) -> bool:
        """Whether so little waits that what can be told later, and otherwise, may be told now."""
        return 4 * len(self._frames) < self._max_frames and 4 * self._bytes < self._max_bytes

    # --- in

    def put(self, frame: bytes) -> bool:
        """Take a frame that may not be left out."""
        if self.closing is not None:
            return False
        if not self.has_room:
            self.close(CloseCode.SLOW)
            return False
        self._append(frame)
        return True

    def put_event(self, session_id: str, seq: int, frame: bytes) -> bool:
        """Take a committed event, as `put` does; the session is to be gone on with behind it."""
        is_taken = self.put(frame)
        if is_taken:
            self.cursors[session_id] = seq
        return is_taken

    def put_apart(self, session_id: str, seq: int | None, frame: bytes) -> bool:
        """Take a frame of the past of a session; `has_apart` says when the next one may come."""
        if self.closing is not None:
            return False
        self._apart[session_id] = (seq, frame)
        return True

    def has_apart(self, session_id: str) -> bool:
        """Whether a frame of the past of a session waits."""
        return session_id in self._apart

    def put_delta(self, session_id: str, frame: bytes) -> bool:
        """Take an ephemeral event, or leave it out and count it."""
        if self.closing is not None:
            return False
        if self.is_half_full:
            self.count_dropped(session_id)
            return False
        self._tell_lag(session_id)
        self._append(frame)
        return True

    def count_dropped(self, session_id: str, count: int = 1) -> None:
        """Note that ephemeral events were left out."""
        self._dropped[session_id] = self._dropped.get(session_id, 0) + count

    def forget(self, session_id: str) -> None:
        """Note that a session is not read any more; what waits of it still goes out."""
        self.cursors.pop(session_id, None)
        self._apart.pop(session_id, None)
        self._dropped.pop(session_id, None)

    def close(self, code: CloseCode) -> None:
        """Take nothing more, and end with a frame that says why, and where to go on. The first code that is said holds."""
        if self.closing is None:
            self.closing = code
            self._apart.clear()  # the cursors do not count them: they come again
            for session_id in tuple(self._dropped):
                self._tell_lag(session_id)
            self._append(encode_plain(Closing(reason=REASONS[code], cursors=self.cursors)))

    # --- out

    def take(self) -> bytes | None:
        """Give the next frame; None where nothing waits.

        Where all has gone out and events were left out meanwhile, the next frame says so.
        """
        if self._apart and (self._is_turn_of_apart or not self._frames):
            return self._take_apart()
        if not self._frames and self._dropped and self.closing is None:
            self._tell_lag(next(iter(self._dropped)))
        if not self._frames:
            return None
        self._is_turn_of_apart = True  # by turns: neither keeps the other waiting
        frame = self._frames.popleft()
        self._bytes -= len(frame)
        return frame

    def _take_apart(self) -> bytes:
        self._is_turn_of_apart = False
        session_id = next(iter(self._apart))
        seq, frame = self._apart.pop(session_id)
        if seq is not None:
            self.cursors[session_id] = seq
        return frame

    def _tell_lag(self, session_id: str) -> None:
        dropped = self._dropped.pop(session_id, 0)
        if dropped:
            self._append(encode_plain(Lag(session_id=session_id, dropped=dropped)))

    def _append(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._bytes += len(frame)
