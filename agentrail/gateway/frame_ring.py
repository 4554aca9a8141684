"""Frames of one session, shared by its readers. A reader is only a position, and is overtaken when the ring is full."""

from collections.abc import Callable
from typing import Final, NamedTuple

from attrs import define, field

from agentrail.events import Event

MAX_RING_FRAMES: Final = 2_048
MAX_RING_BYTES: Final = 8 << 20
"""Limit on all frames of a ring. The last frame is kept whatever its size."""


class RingFrame(NamedTuple):
    """A frame of a ring.

    Attributes:
        seq: Number to resume after for a reader that has it. None leaves the number unchanged.
    """

    data: bytes
    seq: int | None


@define(eq=False, kw_only=True)
class FrameRing:
    """Frames by position, of which the last ones are kept."""

    first: int = field(init=False, default=0)
    end: int = field(init=False, default=0)
    _max_frames: int = MAX_RING_FRAMES
    _max_bytes: int = MAX_RING_BYTES
    _frames: dict[int, RingFrame] = field(init=False, factory=dict)
    _size: int = field(init=False, default=0)

    @property
    def size_bytes(self) -> int:
        return self._size

    def append(self, frame: RingFrame) -> None:
        """Append a frame. The oldest ones are dropped if there is no room."""
        if self.end - self.first == self._max_frames:
            self.drop_before(self.first + 1)
        self._frames[self.end] = frame
        self.end += 1
        self._size += len(frame.data)
        while self._size > self._max_bytes and self.end - self.first > 1:
            self.drop_before(self.first + 1)

    def at(self, position: int) -> RingFrame:
        return self._frames[position]

    def drop_before(self, position: int) -> None:
        for place in range(self.first, min(position, self.end)):
            self._size -= len(self._frames.pop(place).data)
        self.first = max(self.first, min(position, self.end))


@define(eq=False, repr=False)
class FrameMemory:
    """Encodes each event once, by its identity. Unused frames are dropped after two calls of `age`."""

    _encode: Callable[[Event], bytes]
    # The event is kept with its frame: otherwise a new event at the same address would have its identity.
    _young: dict[int, tuple[Event, bytes]] = field(init=False, factory=dict)
    _old: dict[int, tuple[Event, bytes]] = field(init=False, factory=dict)
    _size: int = field(init=False, default=0)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def frame_of(self, event: Event) -> bytes:
        found = self._young.get(id(event)) or self._old.get(id(event))
        if found is not None:
            return found[1]
        frame = self._encode(event)
        if len(self._young) >= MAX_RING_FRAMES or self._size >= MAX_RING_BYTES:
            self.age()
        self._young[id(event)] = (event, frame)
        self._size += len(frame)
        return frame

    def age(self) -> None:
        """Drop frames that were cached before the previous call."""
        self._old, self._young, self._size = self._young, {}, 0
