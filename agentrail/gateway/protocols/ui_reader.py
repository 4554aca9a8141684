"""One response of the UI message stream over HTTP: reads its session, gives the frames that go out, and ends with exactly one last part.

What a part says is decided in `agentrail.protocols.ai_ui`. Here is who waits, how much goes into one write, and that a stream which cannot
go on says so. Each response has a subscription of its own, and no hub: what it shows of an event depends on all that came before.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from agentrail.errors import SubscriberTooSlow
from agentrail.events import Event, EventsLost
from agentrail.gateway.frames import HEARTBEAT, DoneReason, text_frame
from agentrail.gateway.stream_reader import MAX_WRITE_BYTES
from agentrail.gateway.watched_stream import WatchedStream
from agentrail.messages import SteerRef
from agentrail.protocols.ai_ui import (
    LAST_FRAME,
    UiPart,
    UiResponse,
    catch_up,
    fail_response,
    last_parts,
    pause,
    resume_response,
    show_event,
)
from agentrail.runtime.subscription import Subscription
from agentrail.wire.plain import encode_plain

UI_BUFFER: Final = 4_096
"""How many events may wait for a response; behind that its deltas are left out, and come with the whole message."""

_BROKEN_OFF: Final[dict[DoneReason, str]] = {
    "shutdown": "the server is going down: read the response again in a moment",
    "moved": "another node has this session now: read the response again",
    "session_ended": "the session has ended",
    "slow_reader": "the stream was read too slowly: read the response again",
    "unauthorized": "the token expired or was revoked: read the response again with a valid one",
    "failed": "the stream failed: read the response again",
    "store_unavailable": "the server cannot write the response down now: read it again in a moment",
}
_LOST: Final = "events of this session are kept no longer, and this response may be among them"


class UiReader(WatchedStream):
    """An async iterator over what is to be written, which ends behind the last frame."""

    def __init__(
        self,
        events: Subscription,
        response: UiResponse,
        *,
        first: Sequence[UiPart] = (),
        is_muted: bool = False,
    ) -> None:
        """Take what was published by now, without a checkpoint: so no delta is missed, and none is shown twice."""
        super().__init__()
        self._events = events
        self._response = response
        self._first = tuple(first)
        self._pending: list[bytes] = []
        self._wait_scope: trio.CancelScope | None = None
        parts = self._catch_up()
        if not is_muted:
            self._pending = [_frame_of(part) for part in (*self._first, *parts)]

    def _catch_up(self) -> list[UiPart]:
        parts: list[UiPart] = []
        try:
            while True:
                event = self._events.next_nowait()
                if isinstance(event, EventsLost):
                    self._lose()
                self._response, shown = show_event(self._response, event)
                if shown and shown[0]["type"] == "start":
                    parts.clear()  # another message of the same cycle: the one before is complete
                parts.extend(shown)
        except trio.WouldBlock:
            snapshot = self._events.snapshot
            if snapshot is not None:
                self._response, shown = catch_up(self._response, snapshot.text)
                parts.extend(shown)
        except trio.EndOfChannel:
            self._break_off("shutdown" if self._events.is_rested else "session_ended")
        except SubscriberTooSlow:
            self._break_off("slow_reader")
        return parts

    def _lose(self) -> None:
        """Go on behind events that are gone, where the response cannot have ended with them."""
        ref, snapshot = self._response.ref, self._events.snapshot
        status = None if snapshot is None else snapshot.status
        waits = status is not None and (
            ref in status.queued or (ref is not None and SteerRef(ref) in status.steers)
        )
        if ref is not None and not waits:
            self._response = fail_response(self._response, _LOST)

    async def go_on(self, message_id: str, apply: Callable[[], Awaitable[bool]]) -> None:
        """Go on with a message that the client has, behind what it answers."""
        self._response, parts = resume_response(self._response, message_id)
        self._pending = [_frame_of(part) for part in (*self._first, *parts)]
        waits = await apply()
        self._take_waiting()
        if waits:
            self._response = pause(self._response)

    # --- for its task

    def _next_piece(self) -> bytes:
        self._take_waiting()
        pending, self._pending = self._pending, []
        if self._response.end is not None:
            pending += [_frame_of(part) for part in last_parts(self._response)]
            pending.append(text_frame(LAST_FRAME.encode()))
            self._end("completed")
        elif self._beats and not pending:
            pending = [HEARTBEAT]
        self._beats = False
        return b"".join(pending)

    def _take_waiting(self) -> None:
        """Take what was published, up to the end of the response or what fits into one write."""
        size = sum(map(len, self._pending))
        try:
            while self._response.end is None and size < MAX_WRITE_BYTES:
                size += self._take(self._events.next_nowait())
        except trio.WouldBlock:
            pass
        except trio.EndOfChannel:
            self._break_off("shutdown" if self._events.is_rested else "session_ended")
        except SubscriberTooSlow:
            self._break_off("slow_reader")

    def _take(self, event: Event) -> int:
        if isinstance(event, EventsLost):  # the session went back
            self._response = fail_response(self._response, _LOST)
            return 0
        self._response, parts = show_event(self._response, event)
        frames = [_frame_of(part) for part in parts]
        self._pending += frames
        return sum(map(len, frames))

    async def _wait(self) -> None:
        # A scope for each wait: one task reads each response, so that it is not a thousand of them that are woken at once.
        scope = self._wait_scope = trio.CancelScope()
        try:
            with scope:
                self._take(await anext(self._events))
        except StopAsyncIteration:
            self._break_off("shutdown" if self._events.is_rested else "session_ended")
        except SubscriberTooSlow:
            self._break_off("slow_reader")
        finally:
            self._wait_scope = None

    def _break_off(self, reason: DoneReason) -> None:
        self._response = fail_response(self._response, _BROKEN_OFF.get(reason, _BROKEN_OFF["failed"]))

    # --- for who watches all streams

    @property
    def is_waiting(self) -> bool:
        """Whether it has given all that there was, and its task waits for more."""
        return self._wait_scope is not None

    @property
    def is_due_to_end(self) -> bool:
        """Whether its stream has ended, so that a write which takes long is cut."""
        return self._response.end is not None

    def finish(self, reason: DoneReason) -> None:
        """End the stream, if it has not ended: its cycle goes on, or ends with its host."""
        self._break_off(reason)
        self.wake()

    def fail(self) -> bytes:
        """Give the last frames of a stream in which something of ours failed."""
        self._break_off("failed")
        self._pending = []
        self._end("failed")
        parts = [_frame_of(part) for part in last_parts(self._response)]
        return b"".join([*parts, text_frame(LAST_FRAME.encode())])

    def wake(self) -> None:
        """Let its task look again; fine if it does not wait."""
        if self._wait_scope is not None:
            self._wait_scope.cancel(reason="there is something to write")


def _frame_of(part: UiPart) -> bytes:
    return text_frame(encode_plain(part))
