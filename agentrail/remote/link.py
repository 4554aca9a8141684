"""A self-repairing connection to a server: commands and replies, subscriptions and events. Trio."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import trio
from attrs import define, field, frozen
from msgspec import UNSET

from agentrail import outside, websockets
from agentrail.actors.deferred_error import Kept
from agentrail.errors import AgentrailError, RemoteRefused, YourMove
from agentrail.remote.dialer import Dial, keep_connected, keep_time
from agentrail.remote.error_codes import error_of_reply
from agentrail.remote.frame_codec import (
    USUAL_FRAME_BYTES,
    USUAL_FRAMES_A_SECOND,
    LinkTerms,
    ServerFrame,
    command_frame,
    decode_server_frame,
    event_in,
    named_fields,
    session_in,
)
from agentrail.remote.read_position import RemoteReading

HEARTBEAT_SECONDS: Final = 15.0
"""Interval of this client's heartbeats, in seconds. A server that is silent for twice as long counts as lost."""

_SHARE_OF_RATE: Final = 0.5
"""Share of the server's rate limit to use: a burst of half a second's worth, and half the rate after that."""


@define(eq=False, kw_only=True)
class _Owed:
    frame: bytes
    repeats: bool = True
    sends: int = 0
    is_left: bool = False
    reply: ServerFrame | None = None
    done: trio.Event = field(factory=trio.Event)
    on_done: Callable[[], None] | None = None


@frozen(kw_only=True)
class CommandResult:
    result: bytes
    error: AgentrailError | None
    was_repeated: bool


class RemoteLink:
    """A connection that is reopened until its task is cancelled or a retry would be useless."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._owed: dict[int, _Owed] = {}
        self._readings: dict[int, RemoteReading] = {}
        self._of_session: dict[str, RemoteReading] = {}
        self._leaving: dict[str, trio.Event] = {}
        self._stirs: dict[int, trio.lowlevel.ParkingLot] = {}
        self._outbox: deque[int] = deque()
        self._has_out = trio.lowlevel.ParkingLot()
        self._last_id = 0
        self._heard_at = 0.0
        self._max_frame_bytes = USUAL_FRAME_BYTES
        self._rate = float(USUAL_FRAMES_A_SECOND)
        self._connected_at: float | None = None
        self.welcomed: trio.Event = trio.Event()
        self.fault: AgentrailError | None = None
        self.last_end: BaseException | None = None
        self.connections: int = 0
        self.scope: Final = trio.CancelScope()  # of its task

    # --- interface for callers

    async def call(self, name: str, session_id: str | None, fields: Mapping[str, Any]) -> bytes:
        answered = await self.ask(name, session_id, fields)
        try:
            if answered.error is not None:
                raise answered.error
            return answered.result
        finally:
            del answered  # the traceback of its error refers to this frame: a cycle

    async def ask(self, name: str, session_id: str | None, fields: Mapping[str, Any]) -> CommandResult:
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check()
        frame_id = self._next_id()
        frame = command_frame(name, frame_id, session_id, named_fields(name, fields, f"c-{outside.ids(12)}"))
        if len(frame) > self._max_frame_bytes:
            message = f"the command has {len(frame)} bytes, the server accepts {self._max_frame_bytes}: send less at a time"
            raise RemoteRefused(message, code="too_large", more={})
        owed = self._owed[frame_id] = _Owed(frame=frame)
        self._send(frame_id)
        try:
            await owed.done.wait()
        finally:
            if owed.sends or self._connected_at is None:
                self._owed.pop(frame_id, None)
            else:  # already sent: it is not taken back, and its reply is ignored
                owed.is_left = True
        if owed.reply is None:
            self._check()
        assert owed.reply is not None  # noqa: S101 - it is done, and the link has no fault
        error = None if owed.reply.ok else error_of_reply(owed.reply.error, session_id)
        result = b"" if owed.reply.result is UNSET else bytes(owed.reply.result)
        return CommandResult(result=result, error=error, was_repeated=owed.sends > 1)

    def has_reader(self, session_id: str) -> bool:
        """Whether a subscription to the session is open, or being ended."""
        return session_id in self._of_session

    def end_of_reader(self, session_id: str) -> trio.Event | None:
        """Return the event of an unsubscribe in progress, after which the session is free, or None."""
        return self._leaving.get(session_id)

    @property
    def is_unused(self) -> bool:
        """Whether it has no subscriptions. An unsubscribe in progress does not count."""
        return not self._readings

    def begin_reading(self, reading: RemoteReading) -> None:
        self._check()
        reading.frame_id = self._next_id()
        self._readings[reading.frame_id] = reading
        self._of_session[reading.session_id] = reading
        self._stirs[reading.frame_id] = trio.lowlevel.ParkingLot()
        self._send(reading.frame_id)

    def end_reading(self, reading: RemoteReading) -> None:
        """Unsubscribe. Idempotent. The session can be subscribed to again after the server's confirmation."""
        if self._readings.pop(reading.frame_id, None) is None:
            return
        self._stirs.pop(reading.frame_id).unpark_all()
        if reading.session_id in self._leaving:
            return  # the server knows already, and its reply frees the session
        if reading.standing == "paused" or reading.fault is not None:
            self._of_session.pop(reading.session_id, None)
        else:
            self._unsubscribe(reading)

    async def wait_stirred(self, reading: RemoteReading) -> None:
        if reading.frame_id in self._stirs:
            await self._stirs[reading.frame_id].park()

    def go_on(self, reading: RemoteReading) -> None:
        if reading.may_go_on and reading.session_id not in self._leaving and self.fault is None:
            reading.ask_again()
            self._send(reading.frame_id)

    def fail(self, fault: AgentrailError) -> None:
        if self.fault is None:
            self.fault = fault
        for reading in tuple(self._readings.values()):
            reading.fail(partial(self.fault.with_traceback, None))
            self._stir(reading)
        for frame_id in tuple(self._owed):
            self._answer(frame_id, None)
        self.welcomed.set()

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault.with_traceback(None)  # that of an earlier call would grow

    # --- outgoing frames

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _send(self, frame_id: int) -> None:
        if self._connected_at is not None:  # otherwise everything is sent on the next connection
            self._outbox.append(frame_id)
            self._has_out.unpark_all()

    def _unsubscribe(self, reading: RemoteReading) -> None:
        """Unsubscribe at the server. Its confirmation resumes a slow reader, or frees the session of one that left."""
        left = self._leaving[reading.session_id] = trio.Event()

        def stopped() -> None:
            self._leaving.pop(reading.session_id, None)
            if reading.frame_id in self._readings:
                self._stir(reading)
            else:
                self._of_session.pop(reading.session_id, None)
            left.set()

        if self._connected_at is None:  # it was lost with the connection
            stopped()
            return
        frame_id = self._next_id()
        frame = command_frame("unsubscribe", frame_id, reading.session_id, {})
        self._owed[frame_id] = _Owed(frame=frame, repeats=False, on_done=stopped)
        self._send(frame_id)

    def _frame_of(self, frame_id: int) -> bytes | None:
        owed = self._owed.get(frame_id)
        if owed is not None:
            owed.sends += 1
            if owed.is_left:
                del self._owed[frame_id]
            return owed.frame
        reading = self._readings.get(frame_id)
        return reading.frame() if reading is not None and reading.standing == "asked" else None

    # --- a connection

    async def run(self) -> None:
        try:
            with self.scope:
                await keep_connected(
                    self._dial, HEARTBEAT_SECONDS, self._serve, lambda: self._connected_at, self._take_end
                )
        finally:
            self.fail(YourMove("the `async with agentrail.connect(…)` block has ended: connect again"))

    async def _serve(
        self, connection: "websockets.WebSocketConnection", terms: LinkTerms, nursery: trio.Nursery
    ) -> None:
        self._heard_at = trio.current_time()
        self._take_welcome(terms)
        nursery.start_soon(keep_time, connection, terms.heartbeat, lambda: self._heard_at)
        nursery.start_soon(self._send_all, connection)
        while True:
            text = await connection.get_message()
            self._heard_at = trio.current_time()
            self._take(decode_server_frame(text))

    def _take_welcome(self, terms: LinkTerms) -> None:
        self._max_frame_bytes, self._rate = terms.frame_bytes, terms.frames_a_second
        self._connected_at = trio.current_time()
        self.connections += 1
        # Subscriptions first, so that they receive the events that the commands cause.
        asked = [frame_id for frame_id, one in self._readings.items() if one.standing == "asked"]
        self._outbox = deque([*asked, *self._owed])
        self._has_out.unpark_all()
        self.welcomed.set()

    async def _send_all(self, connection: "websockets.WebSocketConnection") -> None:
        burst = self._rate * _SHARE_OF_RATE
        left, since = burst, trio.current_time()
        while True:
            while self._outbox:
                frame = self._frame_of(self._outbox.popleft())
                if frame is None:
                    continue
                now = trio.current_time()
                left, since = min(burst, left + (now - since) * burst), now
                if left < 1:
                    await trio.sleep((1 - left) / burst)
                left -= 1
                await connection.send_message(frame.decode())
            await self._has_out.park()

    def _take_end(self, ended: BaseException | None, fault: AgentrailError | None) -> None:
        self.last_end, self._connected_at = ended, None
        for reading in self._readings.values():
            reading.connection_lost()
        gone = [frame_id for frame_id, owed in self._owed.items() if owed.is_left or not owed.repeats]
        for frame_id in gone:
            self._answer(frame_id, None)
        for reading in tuple(self._readings.values()):
            self._stir(reading)  # a paused one may resume now
        self._outbox.clear()
        if fault is not None:
            self.fail(fault)

    # --- incoming frames

    def _take(self, frame: ServerFrame) -> None:
        match frame.type:
            case "event":
                event = event_in(frame)
                reading = self._of_session.get(session_in(event))
                if reading is None or reading.frame_id not in self._readings:
                    return
                if reading.take_event(event):
                    self._unsubscribe(reading)
                self._stir(reading)
            case "subscribed":
                if isinstance(frame.id, int) and frame.id in self._readings:
                    self._readings[frame.id].take_subscribed(frame)
                    self._stir(self._readings[frame.id])
            case "reply" if isinstance(frame.id, int):
                if frame.id in self._readings:
                    self._readings[frame.id].take_reply(frame)
                    self._stir(self._readings[frame.id])
                else:
                    self._answer(frame.id, frame)
            case "lag":
                reading = self._of_session.get(frame.session_id)
                if reading is not None:
                    reading.dropped_deltas += frame.dropped
            case _:
                pass  # `pong`, `closing`, frames of newer servers: their arrival is enough

    def _answer(self, frame_id: int, reply: ServerFrame | None) -> None:
        owed = self._owed.pop(frame_id, None)
        if owed is not None:
            owed.reply = reply
            owed.done.set()
            if owed.on_done is not None:
                owed.on_done()

    def _stir(self, reading: RemoteReading) -> None:
        if reading.frame_id in self._stirs:
            self._stirs[reading.frame_id].unpark_all()


# All connections of one client: one for commands and most subscriptions, and more for sessions with several
# subscriptions.


class Links:
    """The connections of a client. The first stays open. Others close when they have no subscriptions."""

    def __init__(self, dial: Dial, nursery: trio.Nursery) -> None:
        self._dial = dial
        self._nursery = nursery
        self._more: list[RemoteLink] = []
        self.first: RemoteLink = RemoteLink(dial)
        nursery.start_soon(self.first.run, name="remote link")

    async def link_for(self, session_id: str) -> RemoteLink:
        while True:
            links = [self.first, *self._more]
            free = next((link for link in links if link.fault or not link.has_reader(session_id)), None)
            if free is not None:
                return free
            ends = [end for link in links if (end := link.end_of_reader(session_id)) is not None]
            if not ends:
                link = RemoteLink(self._dial)
                self._more.append(link)
                self._nursery.start_soon(link.run, name="remote link")
                return link
            await ends[0].wait()

    def close_unused(self) -> None:
        for link in tuple(self._more):
            if link.is_unused or link.fault is not None:
                link.scope.cancel(reason="nothing is read over this connection any more")
                self._more.remove(link)


@asynccontextmanager
async def open_links(dial: Dial) -> AsyncIterator[Links]:
    failure = Kept()  # a nursery would wrap what the caller's block raises, and keep it in a cycle
    async with trio.open_nursery() as nursery:
        with failure:
            yield Links(dial, nursery)
        nursery.cancel_scope.shield = True  # a cancellation from outside would hide the error of the block
        nursery.cancel_scope.cancel(reason="the `async with agentrail.connect(…)` block has ended")
    failure.release()
