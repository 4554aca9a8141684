"""One reader of a stream: its position in the frames of its session, its next piece, and its end."""

from collections import deque
from collections.abc import Iterator, MutableMapping
from typing import Any, Final, Protocol

import trio
from attrs import define, field
from msgspec.structs import replace

from agentrail.events import Event
from agentrail.gateway.frame_ring import FrameRing, RingFrame
from agentrail.gateway.sse_frames import HEARTBEAT, DoneReason, StreamEnd, done_frame
from agentrail.gateway.stream_watchdog import FrameStream
from agentrail.messages import SessionId

MAX_WRITE_BYTES: Final = 256 << 10
"""Limit on the bytes that a reader joins into one write. A single frame may be larger."""


class FrameSource(Protocol):
    """Source of a reader's frames: a hub."""

    @property
    def session_id(self) -> SessionId: ...

    @property
    def ring(self) -> FrameRing: ...

    @property
    def ended(self) -> DoneReason | None:
        """How the session's streams end, or None while it lives."""

    @property
    def waiting(self) -> "MutableMapping[StreamReader, None]": ...

    def frame_of(self, event: Event) -> RingFrame: ...


@define(eq=False, repr=False, weakref_slot=False)
class StreamReader(FrameStream):
    """One stream: an async iterator over the bytes to write, read by one task, which ends after the `done` frame.

    Attributes:
        is_followed: Whether a request ends the stream. The session's end, which may come first, has less information.
        seq: Number of the last committed event that it returned, from which the reader can resume.
    """

    hub: FrameSource
    seq: int = field(alias="after", kw_only=True)
    _pending: "deque[Event | RingFrame]" = field(kw_only=True)
    position: int = field(init=False)
    _done: StreamEnd | None = field(init=False, default=None)
    _done_behind: int = field(init=False, default=0)
    _task: trio.lowlevel.Task | None = field(init=False, default=None)
    is_followed: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self.position = self.hub.ring.end

    @property
    def has_nothing_more(self) -> bool:
        is_read = self.position == self.hub.ring.end and not any(
            not isinstance(one, RingFrame) or one.seq is not None for one in self._pending
        )
        return is_read and self.hub.ended == "session_ended"

    def finish(self, reason: DoneReason, *, behind: int = 0, **told: Any) -> None:
        if self._done is None:
            session_id = self.hub.session_id
            self._done = StreamEnd(reason=reason, session_id=session_id, seq=self.seq, **told)
            self._done_behind = behind
            self.wake()

    def fail(self) -> bytes:
        self._end("failed")
        return done_frame(StreamEnd(reason="failed", session_id=self.hub.session_id, seq=self.seq))

    # --- pieces

    def _next_piece(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        for frame in self._frames():
            parts.append(frame.data)
            size += len(frame.data)
            if frame.seq is not None:
                self.seq = frame.seq
            if size >= MAX_WRITE_BYTES:
                return b"".join(parts)
        done = self._decide_done()
        if done is not None:
            self._end(done.reason)
            parts.append(done_frame(done))
        elif self._beats and not parts:
            parts.append(HEARTBEAT)
        self._beats = False
        return b"".join(parts)

    def _frames(self) -> Iterator[RingFrame]:
        while self._pending and not self._is_at_end:
            first = self._pending.popleft()
            yield first if isinstance(first, RingFrame) else self.hub.frame_of(first)
        ring = self.hub.ring
        while not self._is_at_end and ring.first <= self.position < ring.end:
            self.position += 1
            yield ring.at(self.position - 1)

    @property
    def _is_at_end(self) -> bool:
        return self._done is not None and self.seq >= self._done_behind

    def _decide_done(self) -> StreamEnd | None:
        if self._is_at_end:
            assert self._done is not None  # noqa: S101 - `finish` was called
            return replace(self._done, seq=self.seq)
        hub = self.hub
        reason: DoneReason | None = None
        if self.position < hub.ring.first:
            reason = "slow_reader"
        elif self.position == hub.ring.end and hub.ended is not None:
            if self._done is not None:  # the number to end after will not come any more
                return replace(self._done, seq=self.seq)
            reason = None if self.is_followed and hub.ended == "session_ended" else hub.ended
        if reason is None:
            return None
        return StreamEnd(reason=reason, session_id=hub.session_id, seq=self.seq)

    # --- waiting

    @property
    def is_waiting(self) -> bool:
        return self._task is not None

    @property
    def is_due_to_end(self) -> bool:
        hub = self.hub
        return self._done is not None or self.position < hub.ring.first or hub.ended is not None

    def wake(self) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)

    async def _wait(self) -> None:
        if self._task is not None:
            message = "another task reads this stream: open a reader for each task"
            raise trio.BusyResourceError(message)
        self._task = trio.lowlevel.current_task()
        self.hub.waiting[self] = None

        def stop_waiting(_: object) -> trio.lowlevel.Abort:
            self._task = None
            self.hub.waiting.pop(self, None)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(stop_waiting)
