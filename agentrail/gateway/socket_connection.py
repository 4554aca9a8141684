"""One open socket and its tasks. Publishing never waits for it, and a current client that does not read is closed."""

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
import trio
from attrs import frozen
from msgspec.structs import replace

from agentrail import outside
from agentrail.core.session.views import Snapshot
from agentrail.errors import SubscriberTooSlow
from agentrail.events import Event, EventsLost
from agentrail.gateway.authorization import UNAUTHORIZED, CallHead, checked, require_scope, require_user
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer, answer_to, error_answer
from agentrail.gateway.frame_ring import FrameMemory
from agentrail.gateway.idempotency import CommandMemory, CommandOutcome
from agentrail.gateway.path_endpoint import Gateway, NotAccepted, check_draw
from agentrail.gateway.request_parser import AsgiReceive, AsgiSend, linger
from agentrail.gateway.socket_calls import SocketCommand, call_of_command, carry_out
from agentrail.gateway.socket_frames import (
    USUAL_HEARTBEAT_SECONDS,
    CommandFrame,
    FrameMalformed,
    FrameRefused,
    Hello,
    Ping,
    Subscribe,
    Unsubscribe,
    UnwatchRows,
    WatchRows,
    agreed_heartbeat,
    changed_frame,
    decode_frame,
    refusal_frame,
    replay_frame,
    reply_frame,
    subscribed_frame,
    watching_frame,
    welcome_frame,
)
from agentrail.gateway.socket_queue import SendQueue
from agentrail.gateway.socket_relay import FollowedSession, SocketRelay
from agentrail.gateway.stream_watchdog import TURN_EVERY
from agentrail.gateway.watch_window import WatchPart
from agentrail.host.hook_payloads import Principal
from agentrail.host.host_sessions import profile_of_root
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import OpenPlace, Pace, decide_draw
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, raise_what_travels
from agentrail.runtime.event_subscription import Subscription
from agentrail.wire.plain import encode_plain
from agentrail.wire.server_frames import CloseCode, FrameId, Pong

# Events published before the client connected, in frames of many events.

MAX_REPLAY_BYTES: Final = 256 << 10
"""Limit on one frame. A larger event has its own frame."""


@frozen
class ClientSubscription:
    """A subscription of a client, and the frames of its events.

    Attributes:
        agent_id: Profile of the session, for its snapshots.
    """

    asked: Subscribe
    events: Subscription
    agent_id: str | None
    frame_of: Callable[[Event], bytes]

    def begin(self, seq: int, snapshot: Snapshot | None) -> bytes:
        """Return the `subscribed` frame."""
        return subscribed_frame(self.asked, seq, snapshot, agent_id=self.agent_id)

    def begin_after_loss(self) -> tuple[int, bytes]:
        """Return the number and the `subscribed` frame of the snapshot that comes with a loss."""
        snapshot = self.events.snapshot
        assert snapshot is not None  # noqa: S101 - it comes with the loss
        return snapshot.last_seq, self.begin(snapshot.last_seq, snapshot)


SendApart: TypeAlias = Callable[[str, int | None, bytes], Awaitable[bool]]
"""Sends a frame of past events of a session. Returns False if the socket is closing."""


async def send_past(feed: ClientSubscription, send: SendApart) -> int | None:
    """Send the waiting events of a subscription, until none is left or the socket closes."""
    session_id = feed.asked.session_id
    batch: list[bytes] = []
    size, last = 0, None
    while True:
        event, is_over, resume_after = _next_of(feed.events)
        is_lost = isinstance(event, EventsLost)
        frame = b"" if event is None else feed.frame_of(event)
        if batch and (is_over or is_lost or size + len(frame) > MAX_REPLAY_BYTES):
            if not await send(session_id, last, replay_frame(session_id, batch)):
                return None
            batch, size, last = [], 0, None
            if is_over and resume_after is None:
                continue  # more events may have arrived while it was being sent
        if is_over:
            return resume_after
        assert event is not None  # noqa: S101 - otherwise it is over
        if is_lost:
            seq, begin = feed.begin_after_loss()
            if not (await send(session_id, None, frame) and await send(session_id, seq, begin)):
                return None
            continue
        batch.append(frame)
        size += len(frame)
        if event.meta is not None and not event.meta.ephemeral:
            last = event.meta.seq


def _next_of(events: Subscription) -> tuple[Event | None, bool, int | None]:
    try:
        return events.next_nowait(), False, None
    except (trio.WouldBlock, trio.EndOfChannel):
        return None, True, None
    except SubscriberTooSlow as cut:
        return None, True, cut.resume_after


HELLO_SECONDS: Final = 5.0
"""Time limit for a socket without an authenticated caller."""

STUCK_SECONDS: Final = 30.0
"""Time limit for writing one frame."""

MAX_MALFORMED: Final = 3
"""Malformed frames tolerated before the socket is closed."""

MAX_BYTES_OF_STRANGERS: Final = 16 << 10
"""Frame limit before authentication: room for a `hello` with the longest token."""

MAX_AT_WORK: Final = 100
"""Limit on running commands of one socket."""

MAX_WATCHES: Final = 16
"""Limit on watches of one socket."""

SUBSCRIPTION_BUFFER: Final = 1_024
"""Buffered events of a session while a client catches up."""


@attrs.define(eq=False, kw_only=True)
class OpenSocket:
    """One accepted socket.

    Attributes:
        principal: The caller, or None until `hello`.
        cut: Closes the connection, even during a blocked write. None if another server serves the application.
        target: Path of its upgrade.
        is_of_node: Whether another node has opened it. That node judges the caller and counts its calls.
    """

    gateway: Gateway
    commands: Mapping[str, SocketCommand]
    frames: FrameMemory
    memory: CommandMemory
    lasting: trio.Nursery
    head: CallHead
    principal: Principal | None
    place: "OpenPlace[SessionOwner] | OpenPlace[str]"
    receive: AsgiReceive
    send: AsgiSend
    cut: Callable[[], None] | None
    target: bytes
    is_of_node: bool
    queue: SendQueue = attrs.field(factory=SendQueue)
    subscriptions: dict[str, trio.CancelScope] = attrs.field(factory=dict)
    watches: dict[FrameId, trio.CancelScope] = attrs.field(factory=dict)
    heartbeat: float = USUAL_HEARTBEAT_SECONDS
    replay_frames: bool = False
    _relay: SocketRelay | None = None
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _began_at: float = attrs.field(factory=trio.current_time)
    _heard_at: float = attrs.field(factory=trio.current_time)
    _closing_at: float | None = None
    _writing_since: float | None = None
    _full_at: float = -math.inf
    _malformed: int = 0
    _at_work: int = 0
    _unsubscribed: dict[trio.CancelScope, FrameId] = attrs.field(factory=dict)
    _lanes: dict[str, trio.Event] = attrs.field(factory=dict)
    _has_frames: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    _has_room: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    _has_sent: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    _is_low: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    async def run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                if self.gateway.open_node_socket is not None:
                    self._relay = SocketRelay(self.gateway, self, self.target, self.is_of_node, nursery)
                nursery.start_soon(self._receive_all, nursery)
                try:
                    await self._send_all()
                finally:
                    if self._relay is not None:
                        self._relay.close()
                nursery.cancel_scope.cancel(reason="the socket is closed")

    def close(self, code: CloseCode) -> None:
        """Close the socket after the queued frames. The first code is used."""
        self.queue.close(code)
        self._note_closing()
        self.wake()

    def end_unauthorized(self) -> None:
        """Close the socket, because its token expired or was revoked."""
        self.close(CloseCode.UNAUTHORIZED)

    def cut_off(self) -> None:
        """End the socket at once and drop unsent frames."""
        self._scope.cancel(reason="the socket is disconnected")

    def look(self, now: float, grace_seconds: float) -> None:
        self._note_closing()
        if self._closing_at is not None:
            if now - self._closing_at >= grace_seconds:
                self.cut_off()
        elif self.principal is None and now - self._began_at >= HELLO_SECONDS:
            self.close(CloseCode.UNAUTHORIZED)
        elif now - self._heard_at >= 2 * self.heartbeat:
            self.close(CloseCode.SILENT)
        elif self._writing_since is not None and now - self._writing_since >= STUCK_SECONDS:
            self.close(CloseCode.SLOW)

    def _note_closing(self) -> None:
        if self.queue.closing is not None and self._closing_at is None:
            self._closing_at = trio.current_time()

    # --- out

    async def _send_all(self) -> None:
        sent = 0
        while True:
            frame = self.queue.take()
            if not self.queue.is_half_full:
                self._has_room.unpark_all()
            if self.queue.is_low:
                self._is_low.unpark_all()
            if frame is not None:
                await self._write({"type": "websocket.send", "text": frame.decode()})
                self._has_sent.unpark_all()
                sent += 1
                if sent % TURN_EVERY == 0:
                    await trio.lowlevel.checkpoint()  # a write after the client has left does not block
            elif self.queue.closing is not None:
                await linger(lambda: self._heard_at)
                await self._write({"type": "websocket.close", "code": int(self.queue.closing)})
                return
            else:
                await self._has_frames.park()

    async def _write(self, message: dict[str, Any]) -> None:
        self._writing_since = trio.current_time()
        await self.send(message)
        self._writing_since = None

    def wake(self) -> None:
        """Let the queued frames be sent."""
        self._has_frames.unpark_all()
        if self.queue.closing is not None:
            self._has_room.unpark_all()
            self._has_sent.unpark_all()
            self._is_low.unpark_all()

    def _put(self, frame: bytes) -> None:
        self.queue.put(frame)
        self.wake()

    async def wait_room(self) -> None:
        """Wait until the queue has room, or the socket is closing."""
        while self.queue.is_half_full and self.queue.closing is None:
            await self._has_room.park()

    async def _send_apart(self, session_id: str, seq: int | None, frame: bytes) -> bool:
        """Send a frame of past events. Return False if the socket is closing."""
        if not self.queue.put_apart(session_id, seq, frame):
            return False
        self.wake()
        while self.queue.has_apart(session_id) and self.queue.closing is None:
            await self._has_sent.park()
        return self.queue.closing is None

    async def _wait_low(self) -> None:
        while not self.queue.is_low and self.queue.closing is None:
            await self._is_low.park()

    # --- in

    async def _receive_all(self, nursery: trio.Nursery) -> None:
        try:
            while True:
                message = await self.receive()
                if message["type"] == "websocket.disconnect":
                    self._scope.cancel(reason="the client disconnected")
                    return
                self._heard_at = trio.current_time()
                if self.queue.closing is None:
                    await self._take(message.get("text"), nursery)
        finally:
            # A blocked write ignores the cancellation that brought us here.
            if self._writing_since is not None and self.cut is not None:
                self.cut()

    async def _take(self, text: str | None, nursery: trio.Nursery) -> None:
        limits = self.gateway.limits
        if not (self.is_of_node or self._is_in_time()):
            self.close(CloseCode.FLOOD)
            return
        try:
            data = b"" if text is None else text.encode()
        except UnicodeEncodeError:  # a lone surrogate, which servers normally refuse
            data = b""
        most = limits.max_frame_bytes if self.principal is not None else MAX_BYTES_OF_STRANGERS
        if len(data) > most and not self.is_of_node:
            self.close(CloseCode.TOO_LARGE)
            return
        try:
            read = partial(decode_frame, data, limits, frozenset(self.commands))
            frame = await self.gateway.read_aside(read, len(data))
            if isinstance(frame, Hello):
                await self._greet(frame)
            elif self.principal is None:
                self._put(refusal_frame(None if isinstance(frame, Ping) else frame.id, UNAUTHORIZED))
            elif isinstance(frame, Ping):
                self._put(encode_plain(Pong(n=frame.n)))
            else:
                self._begin(frame, self.principal, nursery)
        except FrameRefused as refused:
            self._malformed += isinstance(refused, FrameMalformed)
            self._put(refusal_frame(refused.frame_id, refused.answer))
            if self._malformed >= MAX_MALFORMED:
                self.close(CloseCode.MALFORMED)

    def _is_in_time(self) -> bool:
        limit = self.gateway.limits.commands_per_second
        self._full_at, draw = decide_draw(self._full_at, Pace(limit, 1.0, limit), trio.current_time())
        return draw.is_allowed

    # --- authentication

    async def _greet(self, hello: Hello) -> None:
        if self.principal is None:
            admitted = await self._admit(hello)
            if isinstance(admitted, ErrorAnswer):
                self._put(refusal_frame(None, admitted))
                self.close(_code_of(admitted))
                return
            self.principal = admitted
            self.head = self._head_with(hello.token)
        elif hello.token is not None:
            answer = error_answer("field_invalid", "this socket is already authenticated: open another one")
            raise FrameRefused(answer, None)
        self.heartbeat = agreed_heartbeat(hello.heartbeat)
        self.replay_frames = hello.replay_frames
        told = welcome_frame(
            self.heartbeat,
            self.gateway.limits,
            version=self.gateway.version,
            instance=self.gateway.instance,
        )
        self._put(told)

    async def _admit(self, hello: Hello) -> Principal | ErrorAnswer:
        if hello.token is None:
            return UNAUTHORIZED
        self._began_at = math.inf  # it has sent `hello`; the authentication has its own time limit
        admitted = await self.gateway.callers.admit(self._head_with(hello.token))
        if isinstance(admitted, ErrorAnswer):
            return admitted
        refused = require_scope(admitted, "use", also="decide") or require_user(admitted)
        if refused is not None:
            return refused
        try:
            place = self.gateway.take_place(SessionOwner.of(admitted))
        except CallRefused as full:
            return full.answer
        self.place.close()
        self.place = place
        return admitted

    def _head_with(self, token: str | None) -> CallHead:
        return attrs.evolve(
            self.head, headers={**self.head.headers, "authorization": f"Bearer {token or ''}"}
        )

    async def _judge_again(self, principal: Principal) -> Principal:
        if self.is_of_node:
            return principal
        return checked(await self.gateway.callers.check_again(self.head, principal))

    # --- commands

    def _begin(
        self,
        frame: Subscribe | Unsubscribe | WatchRows | UnwatchRows | CommandFrame,
        principal: Principal,
        nursery: trio.Nursery,
    ) -> None:
        match frame:
            case Unsubscribe():
                reading = self.subscriptions.pop(frame.session_id, None)
                if reading is None:
                    self._put(reply_frame(frame.id, b"null"))
                else:  # its task replies, after its last event
                    self._unsubscribed[reading] = frame.id
                    reading.cancel(reason="the client no longer reads this session")
                    self.queue.forget(frame.session_id)
            case Subscribe():
                self._check_may_read(frame)
                reading = self.subscriptions[frame.session_id] = trio.CancelScope()
                nursery.start_soon(self._read_session, frame, principal, reading)
            case UnwatchRows():
                watching = self.watches.pop(frame.id, None)
                if watching is not None:
                    watching.cancel(reason="the client no longer watches this")
                self._put(reply_frame(frame.id, b"null"))
            case WatchRows():
                self._check_may_watch(frame)
                watching = self.watches[frame.id] = trio.CancelScope()
                nursery.start_soon(self._watch_rows, frame, principal, watching)
            case CommandFrame():
                if self._at_work >= MAX_AT_WORK:
                    message = f"{MAX_AT_WORK} commands of this socket are running, which is the limit; wait for replies"
                    raise FrameRefused(error_answer("too_many_requests", message), frame.id)
                self._at_work += 1
                known = self.commands[frame.name]
                lane = frame.session_id if known.offer.is_ordered else None
                before, own = None, trio.Event()
                if lane is not None:
                    before, self._lanes[lane] = self._lanes.get(lane), own
                nursery.start_soon(self._carry_out, frame, principal, before, own)

    def _check_may_read(self, frame: Subscribe) -> None:
        if frame.session_id in self.subscriptions:
            message = "this socket already reads this session: unsubscribe first"
            raise FrameRefused(error_answer("already_started", message), frame.id)
        most = self.gateway.limits.max_subscriptions
        if len(self.subscriptions) >= most:
            message = f"this socket reads {most} sessions, which is the limit: unsubscribe from one, or open another"
            raise FrameRefused(error_answer("too_many_streams", message), frame.id)

    def _check_may_watch(self, frame: WatchRows) -> None:
        if frame.id in self.watches:
            message = "this socket already has a watch with this id: unwatch it first"
            raise FrameRefused(error_answer("already_started", message), frame.id)
        if len(self.watches) >= MAX_WATCHES:
            message = f"this socket watches {MAX_WATCHES} feeds, which is the limit: unwatch one"
            raise FrameRefused(error_answer("too_many_streams", message), frame.id)

    async def _carry_out(
        self, command: CommandFrame, principal: Principal, before: trio.Event | None, own: trio.Event
    ) -> None:
        try:
            if before is not None:
                await before.wait()
            principal = await self._judge_again(principal)
            known = self.commands[command.name]
            client_id = command.fields.get("client_id")
            if known.is_named and isinstance(client_id, str):
                work = partial(self._outcome_of, command, principal)
                owner = SessionOwner.of(principal)
                outcome = await self.memory.do_once(owner, command, client_id, self.lasting, work)
            else:
                outcome = await self._run(command, known, principal)
            if isinstance(outcome, ErrorAnswer):
                self._put(refusal_frame(command.id, outcome))
            else:
                self._put(reply_frame(command.id, outcome))
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - cancellation is raised again
            raise_what_travels(raised)
            self._reply_failure(command.id, raised)
        finally:
            self._at_work -= 1
            own.set()
            if command.session_id is not None and self._lanes.get(command.session_id) is own:
                del self._lanes[command.session_id]

    async def _outcome_of(self, command: CommandFrame, principal: Principal) -> CommandOutcome:
        try:
            return await self._run(command, self.commands[command.name], principal)
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - cancellation is raised again
            raise_what_travels(raised)
            return answer_to_raised(raised)  # noqa: ASYNC104 - cancellation was raised above

    async def _run(self, command: CommandFrame, known: SocketCommand, principal: Principal) -> bytes:
        call = call_of_command(command, known, self.gateway, self.head, principal)
        await self._charge(call.principal, known.route.operation)
        run_here = partial(carry_out, call, known)
        if self._relay is None:
            return await run_here()
        aim = known.route.aim(call)
        try:
            return await self._relay.run(command, aim, call.principal, run_here, is_read=known.offer.is_read)
        except NotAccepted:
            if await self.gateway.return_message(SessionOwner.of(call.principal), known.route.operation):
                await self._charge(call.principal, "call")
            raise

    async def _charge(self, principal: Principal, operation: str) -> None:
        if not self.is_of_node:
            check_draw("calls", await self.gateway.draw(SessionOwner.of(principal), operation))

    def _reply_failure(self, frame_id: FrameId, raised: BaseException) -> None:
        told = answer_to_raised(raised)
        self._put(refusal_frame(frame_id, told))
        if told.code == UNAUTHORIZED.code:
            self.end_unauthorized()

    # --- subscribed sessions

    async def _read_session(self, asked: Subscribe, principal: Principal, reading: trio.CancelScope) -> None:
        try:
            with reading:
                principal = await self._judge_again(principal)
                await self._charge(principal, "subscribe")
                if self._relay is None:
                    await self._read_here(FollowedSession(asked, principal, asked.after))
                else:
                    await self._relay.follow(asked, principal, self._read_here)
        except SubscriberTooSlow:
            self.close(CloseCode.SLOW)
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - cancellation is raised again
            raise_what_travels(raised)
            self._reply_failure(asked.id, raised)
        finally:
            if self.subscriptions.get(asked.session_id, reading) is reading:
                self.subscriptions.pop(asked.session_id, None)
                self.queue.cursors.pop(asked.session_id, None)
            if reading in self._unsubscribed:
                self._put(reply_frame(self._unsubscribed.pop(reading), b"null"))

    async def _read_here(self, reading: FollowedSession) -> bool:
        """Send the events of a session of this node. See `ReadHere`."""
        asked = replace(reading.asked, after=reading.after)
        host = self.gateway.opened()[0]
        session = await host.session_to_read(asked.session_id, reading.principal)
        agent_id = profile_of_root(session.facts)
        snapshot = await host.stored_snapshot(session) if asked.after is None else None
        after = asked.after if snapshot is None else snapshot.last_seq
        while True:
            events = session.subscribe(
                after=after,
                kinds=asked.event_classes,
                deltas=asked.deltas,
                buffer=SUBSCRIPTION_BUFFER,
            )
            events.needs_snapshot, events.known_snapshot = after is None, snapshot
            async with events:
                feed = ClientSubscription(asked, events, agent_id, self.frames.frame_of)
                after = await self._pump(feed, goes_on=reading.has_begun)
            reading.has_begun = True
            reading.after = self.queue.cursors.get(asked.session_id, reading.after)
            if after is None:
                return self._is_continued(events)

    def _is_continued(self, events: Subscription) -> bool:
        """Whether another node sends the remaining events. A node that subscribed here also returns after the session was suspended."""
        return self._relay is not None and (events.is_moved or (events.is_rested and self.is_of_node))

    # --- watched rows

    async def _watch_rows(self, asked: WatchRows, principal: Principal, watching: trio.CancelScope) -> None:
        def is_on() -> bool:
            return self.watches.get(asked.id) is watching

        async def begin(part: WatchPart) -> None:  # noqa: RUF029 - the room was awaited before
            if is_on():
                self._put(watching_frame(asked, part))

        async def tell(part: WatchPart) -> None:  # noqa: RUF029 - as above
            if is_on():
                self._put(changed_frame(asked.id, part))

        try:
            with watching:
                principal = await self._judge_again(principal)
                await self._charge(principal, "subscribe")
                self.gateway.opened()
                watches = self.gateway.watches
                assert watches is not None  # noqa: S101 - it is open while the host is
                kind = watches.kind_of(asked.what, principal)
                await watches.watch(
                    kind, asked.filter, principal, wait_room=self._wait_low, begin=begin, tell=tell
                )
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - cancellation is raised again
            raise_what_travels(raised)
            if is_on():
                self._reply_failure(asked.id, raised)
        finally:
            if is_on():
                del self.watches[asked.id]

    async def _pump(self, feed: ClientSubscription, *, goes_on: bool) -> int | None:
        """Queue the events of a session until it or the socket ends. Return where to resume, if it was cut."""
        asked = feed.asked
        snapshot = feed.events.snapshot if asked.after is None and not goes_on else None
        seq = snapshot.last_seq if snapshot is not None else asked.after or 0
        frame = feed.begin(seq, snapshot)
        is_level = self.replay_frames
        if is_level:
            if not goes_on and not await self._send_apart(asked.session_id, seq, frame):
                return None
            resume_after = await send_past(feed, self._send_apart)
            if resume_after is not None:
                return resume_after
            is_open = self.queue.closing is None
        else:
            await self.wait_room()
            is_open = self.queue.closing is None
            if not goes_on:
                is_open = self.queue.put_event(asked.session_id, seq, frame)
        await self._pump_live(feed, is_open=is_open, is_level=is_level)
        return None

    async def _pump_live(self, feed: ClientSubscription, *, is_open: bool, is_level: bool) -> None:
        asked, events = feed.asked, feed.events
        taken, dropped = 0, 0
        while is_open:
            self.wake()
            try:
                event = events.next_nowait()
            except trio.EndOfChannel:
                break
            except trio.WouldBlock:
                is_level = True
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    break
            if not is_level:
                # The missed events may exceed the queue, which is not the fault of a client that has just
                # reconnected.
                await self.wait_room()
            if events.dropped_deltas > dropped:
                self.queue.count_dropped(asked.session_id, events.dropped_deltas - dropped)
                dropped = events.dropped_deltas
            is_open = self._offer(feed, event)
            taken += 1
            if taken % TURN_EVERY == 0:
                await trio.lowlevel.checkpoint()
        # The session continues elsewhere, or here after it wakes. A returning client gets the later events.
        if self._is_continued(events):
            pass
        elif events.is_rested:
            self.close(CloseCode.GOING_DOWN)
        elif is_open:
            # Not every end has its own event, and some come before the requested position.
            self.queue.put(reply_frame(asked.id, b"null"))
        self.wake()

    def _offer(self, feed: ClientSubscription, event: Event) -> bool:
        """Queue an event. Return False if the socket is closing."""
        meta, session_id, frame = event.meta, feed.asked.session_id, feed.frame_of(event)
        if isinstance(event, EventsLost):
            return self.queue.put(frame) and self.queue.put_event(session_id, *feed.begin_after_loss())
        if meta is None or meta.ephemeral:
            self.queue.put_delta(session_id, frame)
            return self.queue.closing is None
        return self.queue.put_event(session_id, meta.seq, frame)


def answer_to_raised(raised: BaseException) -> ErrorAnswer:
    request_id = f"e-{outside.ids(9)}"
    answer = answer_to(raised, request_id=request_id)
    if answer.is_ours:
        log_crash(f"call {request_id} failed (WebSocket)", raised, keep)
    return answer


def _code_of(refused: ErrorAnswer) -> CloseCode:
    match refused.code:
        case "too_many_requests" | "too_many_streams":
            return CloseCode.FLOOD
        case "plugin_failed" | "server_full":
            return CloseCode.SERVER_FAULT
        case _:
            return CloseCode.UNAUTHORIZED
