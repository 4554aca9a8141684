"""One response of a session over SSE, on any third-party wire: it catches up, follows the session and ends once.

Each response has its own subscription instead of a hub, because the frames of an event depend on all earlier events.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from types import MappingProxyType
from typing import Final, Generic

import trio
from attrs import define, evolve, field, frozen

from agentrail.errors import AgentrailError, SubscriberTooSlow
from agentrail.events import Approval, Event, EventsLost
from agentrail.gateway.path_endpoint import RouteCall
from agentrail.gateway.request_parser import CallerLeft
from agentrail.gateway.sse_frames import HEARTBEAT, DoneReason, text_frame
from agentrail.gateway.stream_reader import MAX_WRITE_BYTES
from agentrail.gateway.stream_watchdog import FrameStream, WatchedStream
from agentrail.gateway.streams import write_frames
from agentrail.gateway.token_watcher import OpenStream
from agentrail.host.requests import HostRequest, OnDisconnect
from agentrail.messages import SteerRef
from agentrail.protocols.response_changes import Begun, Frame, Frames, ResponseEnd
from agentrail.protocols.response_state import (
    Bridge,
    Bridged,
    Own,
    Response,
    catch_up,
    fail_response,
    follow_event,
    pause_response,
    resume_response,
)
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.event_waits import told_of_outages
from agentrail.runtime.session_handle import Session
from agentrail.wire.plain import encode_plain

RESPONSE_BUFFER: Final = 4_096
"""Buffered events of a response. After an overflow its deltas are dropped, and the text comes with the whole message."""

_BREAKS: Final[Mapping[DoneReason, tuple[str, str]]] = MappingProxyType(
    {
        "shutdown": ("draining", "the server is going down: read the response again in a moment"),
        "moved": ("not_owner", "another node has this session now: read the response again"),
        "session_ended": ("session_ended", "the session has ended"),
        "slow_reader": ("subscriber_too_slow", "the stream was read too slowly: read the response again"),
        "unauthorized": (
            "unauthorized",
            "the token expired or was revoked: read the response again with a valid one",
        ),
        "failed": ("internal", "the stream failed: read the response again"),
        "store_unavailable": (
            "store_unavailable",
            "the server cannot record the response now: read it again in a moment",
        ),
    }
)
"""Error code and explanation of a stream that ends before its response."""

_NO_ONE: Final = "no user can be asked in this request"
_LOST: Final = ("trimmed", "events of this session are kept no longer, and this response may be among them")


def break_of(reason: DoneReason | None) -> tuple[str, str]:
    return _BREAKS.get(reason or "failed", _BREAKS["failed"])


def data_frame(frame: Frame) -> bytes:
    """Encode a frame as an event without a name."""
    return text_frame(encode_plain(frame))


@frozen(kw_only=True)
class SseWire(Generic[Own]):
    """A wire over SSE.

    Attributes:
        name: Name of the protocol, and channel of its messages.
        on_disconnect: Handling of the cycle if a client disconnects: `abort` where that is the only way to stop it.
        encode: Returns the bytes of a frame, with its empty line.
        last: Content of a frame after the terminal one; empty for none.
        headers: Headers of each response.
    """

    name: str
    bridge: Bridge[Own]
    on_disconnect: OnDisconnect
    encode: Callable[[Frame], bytes] = data_frame
    last: str = ""
    headers: Mapping[str, str] = MappingProxyType({})


@define(eq=False, repr=False, weakref_slot=False)
class ResponseReader(FrameStream, Generic[Own]):
    """Async iterator over the bytes to write, which ends after the terminal frame.

    A muted client has everything so far, and `go_on` continues. `reject` rejects approvals that would end the
    response, and returns whether the cycle still waits. Without it, the client decides them.
    """

    _events: Subscription
    _wire: SseWire[Own]
    state: Bridged[Own]
    _first: Sequence[Frame] = field(default=(), kw_only=True)
    _is_muted: bool = field(default=False, kw_only=True)
    _reject: Callable[[Sequence[str]], Awaitable[bool]] | None = field(default=None, kw_only=True)
    _pending: list[bytes] = field(init=False, factory=list)
    _wait_scope: trio.CancelScope | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        """Read the published events without a checkpoint, so that no delta is missed or shown twice."""
        frames = self._catch_up()
        if not self._is_muted:
            self._put((*self._first, *frames))
        self._first = ()  # a stream may be open for hours

    def _catch_up(self) -> Frames:
        bridge = self._wire.bridge
        frames: Frames = ()
        with self._ending():
            try:
                while True:
                    event = self._events.next_nowait()
                    if isinstance(event, EventsLost):
                        self._lose()
                    has_begun = self.state.response.response_id != ""
                    followed = follow_event(self.state.response, event)
                    if has_begun and followed[1] and isinstance(followed[1][0], Begun):
                        frames = ()  # another response of the same cycle: the previous one is complete
                    self.state, shown = bridge.write(self.state.own, followed)
                    frames += shown
            except trio.WouldBlock:
                snapshot = self._events.snapshot
                if snapshot is not None:
                    late = catch_up(self.state.response, snapshot.text)
                    self.state, shown = bridge.write(self.state.own, late)
                    frames += shown
        return frames

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End the response if its subscription has ended."""
        try:
            yield
        except (trio.EndOfChannel, StopAsyncIteration):
            self._fail(*break_of("shutdown" if self._events.is_rested else "session_ended"))
        except SubscriberTooSlow:
            self._fail(*break_of("slow_reader"))

    def _lose(self) -> None:
        ref, snapshot = self.state.response.ref, self._events.snapshot
        status = None if snapshot is None else snapshot.status
        waits = status is not None and (
            ref in status.queued or (ref is not None and SteerRef(ref) in status.steers)
        )
        if ref is not None and not waits:
            self._fail(*_LOST)

    async def go_on(
        self, response_id: str, apply: Callable[[], Awaitable[bool]], *, first: Sequence[Frame] = ()
    ) -> None:
        """Continue a response that the client has, after its answers. `apply` returns whether the cycle still waits."""
        self.state, frames = self._wire.bridge.write(
            self.state.own, resume_response(self.state.response, response_id)
        )
        self._put((*first, *frames))
        await self._apply(apply)

    async def _apply(self, apply: Callable[[], Awaitable[bool]]) -> None:
        waits = await apply()
        self._take_waiting()
        if waits:
            self.state = Bridged(pause_response(self.state.response), self.state.own)

    def _put(self, frames: Sequence[Frame]) -> int:
        encoded = [self._wire.encode(frame) for frame in frames]
        self._pending += encoded
        return sum(map(len, encoded))

    # --- for its task

    def _next_piece(self) -> bytes:
        self._take_waiting()
        if self.is_due_to_end:
            self._put_last("completed")
        elif self._beats and not self._pending:
            self._pending = [HEARTBEAT]
        self._beats = False
        pending, self._pending = self._pending, []
        return b"".join(pending)

    def _put_last(self, reason: DoneReason) -> None:
        self._put(self._wire.bridge.close(self.state))
        if self._wire.last:
            self._pending.append(text_frame(self._wire.last.encode()))
        self._end(reason)

    def _take_waiting(self) -> None:
        size = sum(map(len, self._pending))
        with self._ending(), suppress(trio.WouldBlock):
            while not self.is_due_to_end and size < MAX_WRITE_BYTES:
                size += self._take(self._events.next_nowait())

    def _take(self, event: Event) -> int:
        if isinstance(event, EventsLost):  # the session was rewound
            self._fail(*_LOST)
            return 0
        self.state, frames = self._wire.bridge.fold(self.state, event)
        return self._put(frames)

    def _rejected(self) -> list[str]:
        response = self.state.response
        if self._reject is None or not response.is_paused:
            return []
        return [name for name, (_, asked) in response.asked.items() if isinstance(asked, Approval)]

    async def _wait(self) -> None:
        if self._reject is not None and (approvals := self._rejected()):
            response = self.state.response
            self.state = Bridged(resume_response(response, response.response_id)[0], self.state.own)
            await self._apply(partial(self._reject, approvals))
            return
        # One scope per wait: each response has only one task, so there are never a thousand to wake at once.
        scope = self._wait_scope = trio.CancelScope()
        try:
            with self._ending(), scope:
                self._take(await anext(self._events))
        finally:
            self._wait_scope = None

    def _fail(self, code: str, reason: str) -> None:
        self._reject = None
        self.state = Bridged(fail_response(self.state.response, code, reason), self.state.own)

    # --- for the watcher of all streams

    @property
    def is_waiting(self) -> bool:
        return self._wait_scope is not None

    @property
    def is_due_to_end(self) -> bool:
        return self.state.response.end is not None and not self._rejected()

    def finish(self, reason: DoneReason) -> None:
        self._fail(*break_of(reason))
        self.wake()

    def fail(self) -> bytes:
        self._fail(*break_of("failed"))
        self._pending = []
        self._put_last("failed")
        return b"".join(self._pending)

    def wake(self) -> None:
        if self._wait_scope is not None:
            self._wait_scope.cancel(reason="there is something to write")


# --- writing


@contextmanager
def watched_stream(call: RouteCall, stream: WatchedStream, *, is_whole: bool = False) -> Iterator[None]:
    """End a stream with the server and, unless its client gets a whole answer, with the token of its caller."""
    judged = call.gateway.open_calls.watched(OpenStream(call.head, call.principal, stream))
    with call.gateway.opened()[1].watch_stream(stream), nullcontext() if is_whole else judged:
        yield


@frozen(kw_only=True)
class ResponseStream(Generic[Own]):
    """A response to write.

    Attributes:
        after: Event number before the response's start.
        request: The request that it answers, or None if it continues or shows the session's current work.
        resumed_id: The response that continues after answers; empty for a new one.
        apply: Applies these answers, and returns whether the cycle still waits. May refuse the call.
        is_unattended: Whether approvals are rejected, because no one can decide them after the response.
    """

    session: Session
    after: int
    wire: SseWire[Own]
    state: Bridged[Own]
    first: Frames = ()
    request: HostRequest | None = None
    resumed_id: str = ""
    apply: Callable[[], Awaitable[bool]] | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    is_unattended: bool = False

    async def write(self, call: RouteCall) -> None:
        """Write the response to its end. Cancellation cuts a blocked connection."""
        async with self._open(call, self.wire) as reader:
            reader.on_cut = call.cut
            headers = {**self.wire.headers, **call.more_headers, **self.headers}
            name = f"a response of session {self.session.session_id}"
            await call.while_there(partial(write_frames, call, reader, headers, name))
        if reader.reason is None:  # it was cut
            raise CallerLeft

    async def collect(
        self, call: RouteCall, stops: Callable[[Sequence[Frame], Response], Awaitable[bool]] | None = None
    ) -> tuple[Frames, ResponseEnd]:
        """Return all frames of the response, for a client that wants no stream, and its end.

        `stops` gets the frames so far, and returns whether the response pauses there. Its caller streams to the client in another
        format, so the response ends with the client's token, as a stream does.
        """
        frames: list[Frame] = []

        def keep_frame(frame: Frame) -> bytes:
            frames.append(frame)
            return self.wire.encode(frame)

        wire, is_whole = evolve(self.wire, encode=keep_frame), stops is None
        async with self._open(call, wire, is_whole=is_whole) as reader:
            is_over = False
            while not is_over:
                if stops is not None and await stops(frames, reader.state.response):
                    return tuple(frames), ResponseEnd(kind="paused")
                is_over = await anext(reader, None) is None
        end = reader.state.response.end
        if end is None:  # it was cut
            raise CallerLeft
        return tuple(frames), end

    @asynccontextmanager
    async def _open(
        self, call: RouteCall, wire: SseWire[Own], *, is_whole: bool = False
    ) -> AsyncIterator[ResponseReader[Own]]:
        async with self.session.subscribe(after=self.after, buffer=RESPONSE_BUFFER) as subscription:
            reader = ResponseReader(
                subscription,
                wire,
                self.state,
                first=self.first,
                is_muted=self.apply is not None,
                reject=self._reject if self.is_unattended else None,
            )
            if self.apply is not None:
                await reader.go_on(self.resumed_id, self.apply, first=self.first)
            if self.wire.on_disconnect == "abort":
                call.on_left, call.request = partial(self._stop, reader), self.request
            is_away = partial(reader.finish, "store_unavailable")
            outages, ends = (
                told_of_outages(self.session, is_away),
                watched_stream(call, reader, is_whole=is_whole),
            )
            with outages, ends, reader.scope:
                yield reader

    async def _reject(self, approvals: Sequence[str]) -> bool:
        for one in approvals:
            with suppress(AgentrailError):  # it was decided meanwhile, or its session has ended
                await self.session.reject(one, _NO_ONE, auto_resume=True)
        with suppress(AgentrailError):
            return (await self.session.status()).suspended
        return False

    async def _stop(self, reader: ResponseReader[Own]) -> None:
        """Abort the cycle of a client that left, unless it has ended or waits for users."""
        if reader.is_due_to_end:
            return
        if self.request is not None:
            await self.request.caller_left()
        else:
            await self.session.abort("the caller left", wait=False)
