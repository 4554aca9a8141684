"""The frames of one session that its readers have not all read, in one ring that they share by position.

Pure. A reader is a number: where it stands. So a thousand readers hold each frame once, and one that does not read costs nothing but
itself: what it has not read is given up when the ring is full, and then it is overtaken.
"""

from typing import Final, NamedTuple

from agentrail.events import Event

MAX_RING_FRAMES: Final = 2_048
MAX_RING_BYTES: Final = 8 << 20
"""Of all frames of a ring together; the last one is kept whatever its size."""


class RingFrame(NamedTuple):
    """A frame of a ring.

    Attributes:
        data: Its bytes.
        seq: What a reader that has it goes on after; None where that stays what it was.
    """

    data: bytes
    seq: int | None


class FrameRing:
    """Frames by position, of which the last ones are kept.

    Attributes:
        first: The position of the oldest that is kept.
        end: That of the next one to come.
    """

    __slots__ = ("_capacity", "_frames", "_max_bytes", "_size", "end", "first")

    def __init__(self, *, max_frames: int = MAX_RING_FRAMES, max_bytes: int = MAX_RING_BYTES) -> None:
        """Begin with none."""
        self._capacity = max_frames
        self._max_bytes = max_bytes
        # Grows up to its capacity; the frame of position p stands at p modulo that.
        self._frames: list[RingFrame | None] = []
        self._size = 0
        self.first: int = 0
        self.end: int = 0

    @property
    def size_bytes(self) -> int:
        """How much it holds."""
        return self._size

    def append(self, frame: RingFrame) -> None:
        """Take a frame; the oldest go where there is no room."""
        if self.end - self.first == self._capacity:
            self.drop_before(self.first + 1)
        if self.end < self._capacity:
            self._frames.append(frame)
        else:
            self._frames[self.end % self._capacity] = frame
        self.end += 1
        self._size += len(frame.data)
        while self._size > self._max_bytes and self.end - self.first > 1:
            self.drop_before(self.first + 1)

    def at(self, position: int) -> RingFrame:
        """Give the frame of a position that is kept."""
        frame = self._frames[position % self._capacity]
        assert frame is not None  # noqa: S101 - it is kept
        return frame

    def drop_before(self, position: int) -> None:
        """Give up what stands before a position: no reader wants it any more."""
        for place in range(self.first, min(position, self.end)):
            self._size -= len(self.at(place).data)
            self._frames[place % self._capacity] = None
        self.first = max(self.first, min(position, self.end))


class FrameMemory:
    """The frames of events that were made lately, found by the very event: so each is made once, however many readers want it.

    By identity, because events are equal when all but their number is. What was not wanted for two passes of `age` is forgotten.
    """

    __slots__ = ("_old", "_size", "_young")

    def __init__(self) -> None:
        """Begin with none."""
        # The event is held with its frame: another one that came in its place in memory would have its identity.
        self._young: dict[int, tuple[Event, bytes]] = {}
        self._old: dict[int, tuple[Event, bytes]] = {}
        self._size = 0

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._young) + len(self._old)

    def find(self, event: Event) -> bytes | None:
        """Give the frame of this very event."""
        found = self._young.get(id(event)) or self._old.get(id(event))
        return None if found is None else found[1]

    def keep(self, event: Event, frame: bytes) -> None:
        """Remember a frame."""
        if len(self._young) >= MAX_RING_FRAMES or self._size >= MAX_RING_BYTES:
            self.age()
        self._young[id(event)] = (event, frame)
        self._size += len(frame)

    def age(self) -> None:
        """Forget what was made before the last call of this."""
        self._old, self._young, self._size = self._young, {}, 0
