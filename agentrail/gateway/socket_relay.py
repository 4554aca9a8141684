"""Sessions of other nodes on a client's socket: one socket to each owner, and a new subscription where a session moves to.

A frame of another node is passed on when the client's queue has room. A slow client therefore slows only its own sockets.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs
import msgspec
import trio
from msgspec import UNSET, Raw

from agentrail import websockets
from agentrail.abc.store import Node
from agentrail.errors import HeldBy, ProfileUnknown, StoreUnavailable, Unrevivable
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer, refuse_call
from agentrail.gateway.forwarder import (
    FindOwner,
    OwnerReply,
    PassedOn,
    next_place,
    run_at_owner,
    run_for_node,
)
from agentrail.gateway.path_endpoint import CallAim, Gateway
from agentrail.gateway.socket_frames import CommandFrame, Subscribe, refusal_frame, reply_frame
from agentrail.gateway.socket_queue import SendQueue
from agentrail.host.hook_payloads import Principal
from agentrail.host.identity import SessionOwner, fault_of_session_id
from agentrail.runtime.session_nodes import SessionNodes, SessionPlace
from agentrail.structs import decoder_of
from agentrail.wire.plain import encode_plain
from agentrail.wire.server_frames import REASONS, CloseCode, FrameHead, Subscribed

NODE_PING_SECONDS: Final = 15.0
"""Interval of pings to another node. One that is silent for twice as long counts as lost."""

UNUSED_SECONDS: Final = 60.0
"""Time for which a socket to another node is kept without a session."""

RETURN_SECONDS: Final = 65.0
"""Time for which a subscription waits for its session after its node was lost: more than the longest lease."""

_LOOK_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.25
_SLOW: Final = REASONS[CloseCode.SLOW]
_MOVED: Final = "not_owner"


class RelayClient(Protocol):
    @property
    def queue(self) -> SendQueue: ...

    @property
    def replay_frames(self) -> bool: ...

    async def wait_room(self) -> None:
        """Wait until its queue has room, or it is closing."""

    def wake(self) -> None:
        """Let the queued frames be sent."""

    def close(self, code: CloseCode) -> None: ...


@attrs.define(eq=False)
class FollowedSession:
    """One subscription of a client, wherever its session is.

    Attributes:
        after: Number of the last event in the client's queue, or as `Subscribe.after` before that.
        has_begun: Whether the client has its `subscribed` frame.
    """

    asked: Subscribe
    principal: Principal
    after: int | None
    has_begun: bool = False


ReadHere: TypeAlias = Callable[[FollowedSession], Awaitable[bool]]
"""Sends the events of a session of this node. Returns whether it has another owner now."""


class _Event(msgspec.Struct, frozen=True):
    kind: str = ""
    session_id: str = ""
    seq: int = 0
    ephemeral: bool = False


class _Frame(FrameHead, frozen=True):
    result: Raw = Raw(b"null")
    event: _Event = _Event()
    events: tuple[_Event, ...] = ()


_FRAMES: Final = decoder_of(_Frame)


def answer_of_error(told: Mapping[str, Any]) -> ErrorAnswer:
    """Return the answer from which `refusal_frame` makes this error."""
    more = dict(told)
    status = more.get("status")
    if type(status) is int:
        del more["status"]
    wait = more.pop("retry_after", None)
    return ErrorAnswer(
        status=status if type(status) is int else 409,
        code=more.pop("code", "internal"),
        message=more.pop("message", ""),
        hint=more.pop("hint", None),
        headers={} if wait is None else {"retry-after": f"{wait}"},
        more=more,
    )


_End: TypeAlias = Literal["over", "moved", "lost"]


@attrs.define(eq=False)
class _Subscription:
    reading: FollowedSession
    frame_id: int
    has_begun: bool = False
    end: _End | None = None
    done: trio.Event = attrs.field(factory=trio.Event)

    def finish(self, end: _End) -> None:
        self.end = end
        self.done.set()


@attrs.define(eq=False)
class _Asked:
    was_sent: bool = False
    reply: _Frame | None = None
    done: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False, repr=False)
class Upstream:
    """One socket to another node, for one client's socket.

    Attributes:
        has_ended: Whether it is closed, so that nothing more is sent over it.
        was_lost: Whether it was open, and its connection was lost. The node may be well.
    """

    _client: RelayClient
    _dial: Callable[[], "AbstractAsyncContextManager[websockets.WebSocketConnection]"]
    _is_alive: Callable[[], Awaitable[bool]]
    _subscriptions: dict[str, _Subscription] = attrs.field(init=False, factory=dict)
    _asked: dict[int, _Asked] = attrs.field(init=False, factory=dict)
    _outbox: deque[tuple[int, bytes]] = attrs.field(init=False, factory=deque)
    _has_out: trio.lowlevel.ParkingLot = attrs.field(init=False, factory=trio.lowlevel.ParkingLot)
    _last_id: int = attrs.field(init=False, default=0)
    _heard_at: float = attrs.field(init=False, default=math.inf)  # also while a frame waits for the client
    has_ended: bool = attrs.field(init=False, default=False)
    was_lost: bool = attrs.field(init=False, default=False)

    # --- interface of the relay

    async def ask(self, command: CommandFrame) -> PassedOn[bytes]:
        """Run a command at the node, and return its result.

        Raises:
            CallRefused: The refusal of the node.
        """
        frame_id, asked = self._next_id(), _Asked()
        named = {} if command.session_id is None else {"session_id": command.session_id}
        frame = encode_plain({**command.fields, **named, "type": command.name, "id": frame_id})
        self._asked[frame_id] = asked
        self._send(frame_id, frame)
        try:
            await asked.done.wait()
        finally:
            self._asked.pop(frame_id, None)
        reply = asked.reply
        if reply is None:
            return "unknown" if asked.was_sent else "refused"
        if reply.ok:
            return OwnerReply(bytes(reply.result))
        if reply.error.get("code") == _MOVED:
            return "refused"
        raise CallRefused(answer_of_error(reply.error))

    async def read(self, reading: FollowedSession) -> tuple[_End, bool]:
        """Read a session until the node has no more events of it. Return also whether the subscription had begun."""
        asked, one = reading.asked, _Subscription(reading, self._next_id())
        self._subscriptions[asked.session_id] = one
        fields = {"session_id": asked.session_id, "after": reading.after, "kinds": asked.kinds}
        self._send(
            one.frame_id,
            encode_plain({"type": "subscribe", "id": one.frame_id, **fields, "deltas": asked.deltas}),
        )
        try:
            if not self.has_ended:
                await one.done.wait()
        finally:
            del self._subscriptions[asked.session_id]
            if one.end is None:
                frame_id = self._next_id()
                told = {"type": "unsubscribe", "id": frame_id, "session_id": asked.session_id}
                self._send(frame_id, encode_plain(told))
        return one.end or "lost", one.has_begun

    # --- the connection

    async def run(self) -> None:
        """Pass frames on until the node or the socket is lost, or nothing is read any more."""
        is_open = False
        try:
            async with self._dial() as connection, trio.open_nursery() as nursery:
                is_open = True
                self._heard_at = trio.current_time()
                hello = {"heartbeat": NODE_PING_SECONDS, "replay_frames": self._client.replay_frames}
                await connection.send_message(encode_plain({"type": "hello", **hello}).decode())
                nursery.start_soon(self._send_all, connection)
                nursery.start_soon(self._watch, nursery.cancel_scope)
                while True:
                    await self._take(await connection.get_message())
        except* (OSError, trio.BrokenResourceError, websockets.ConnectionClosed):
            self.was_lost = is_open
        except* (
            trio.TooSlowError,
            msgspec.MsgspecError,
            websockets.HandshakeError,
            websockets.LocalProtocolError,
        ):
            pass
        finally:
            self.has_ended = True
            for asked in self._asked.values():
                asked.done.set()
            for one in self._subscriptions.values():
                one.finish(one.end or "lost")

    async def _send_all(self, connection: "websockets.WebSocketConnection") -> None:
        while True:
            while self._outbox:
                frame_id, frame = self._outbox.popleft()
                if frame_id in self._asked:
                    self._asked[frame_id].was_sent = True
                await connection.send_message(frame.decode())
            await self._has_out.park()

    async def _watch(self, scope: trio.CancelScope) -> None:
        used_at = pinged_at = trio.current_time()
        while True:
            await trio.sleep(_LOOK_SECONDS)
            now = trio.current_time()
            if self._subscriptions or self._asked:
                used_at = now
            is_over = now - self._heard_at >= 2 * NODE_PING_SECONDS or now - used_at >= UNUSED_SECONDS
            with suppress(StoreUnavailable):  # so the other node may be alive
                is_over = is_over or not await self._is_alive()
            if is_over:
                scope.cancel(reason="the other node is lost, or no session of it is read")
                return
            if now - pinged_at >= NODE_PING_SECONDS:
                pinged_at = now
                self._send(0, b'{"type":"ping"}')

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _send(self, frame_id: int, frame: bytes) -> None:
        self._outbox.append((frame_id, frame))
        self._has_out.unpark_all()

    # --- frames of the node

    async def _take(self, message: str | bytes) -> None:
        text = message.encode() if isinstance(message, str) else message
        self._heard_at = math.inf
        frame = _FRAMES.decode(text)
        match frame.type:
            case "event":
                await self._take_events(frame.event.session_id, (frame.event,), text)
            case "events":
                await self._take_events(frame.session_id, frame.events, text)
            case "subscribed":
                await self._take_subscribed(frame)
            case "reply":
                await self._take_reply(frame)
            case "lag":
                self._client.queue.count_dropped(frame.session_id, frame.dropped)
                self._client.wake()
            case "closing" if frame.reason == _SLOW:
                self._client.close(CloseCode.SLOW)
            case _:
                pass
        self._heard_at = trio.current_time()

    async def _take_events(self, session_id: str, events: tuple[_Event, ...], text: bytes) -> None:
        await self._client.wait_room()
        found, queue = self._subscriptions.get(session_id), self._client.queue
        if found is None or not found.has_begun:  # of an earlier subscription
            return
        reading = found.reading
        # The number of a loss comes with the snapshot after it.
        seq = max((one.seq for one in events if not one.ephemeral and one.kind != "events_lost"), default=0)
        if seq > (reading.after or 0):
            if queue.put_event(session_id, seq, text):
                reading.after = seq
        elif all(one.ephemeral for one in events):
            queue.put_delta(session_id, text)
        elif seq == 0:
            queue.put(text)
        self._client.wake()

    async def _take_subscribed(self, frame: _Frame) -> None:
        await self._client.wait_room()
        one = self._subscription(frame)
        if one is None:
            return
        one.has_begun = True
        asked, reading = one.reading.asked, one.reading
        if reading.has_begun and frame.snapshot is UNSET:  # continues after a move
            return
        told = Subscribed(id=asked.id, session_id=asked.session_id, seq=frame.seq, snapshot=frame.snapshot)
        if self._client.queue.put_event(asked.session_id, frame.seq, encode_plain(told)):
            reading.has_begun, reading.after = True, frame.seq
        self._client.wake()

    async def _take_reply(self, frame: _Frame) -> None:
        await self._client.wait_room()
        one = self._subscription(frame)
        if one is None:
            asked = self._asked.get(frame.id) if isinstance(frame.id, int) else None
            if asked is not None:
                asked.reply = frame
                asked.done.set()
        elif not frame.ok and frame.error.get("code") == _MOVED:
            one.finish("moved")
        else:
            own_id = one.reading.asked.id
            told = reply_frame(own_id, bytes(frame.result))
            if not frame.ok:
                told = refusal_frame(own_id, answer_of_error(frame.error))
            self._client.queue.put(told)
            self._client.wake()
            one.finish("over")

    def _subscription(self, frame: _Frame) -> _Subscription | None:
        return next((one for one in self._subscriptions.values() if one.frame_id == frame.id), None)


@attrs.define(eq=False)
class SocketRelay:
    """The sockets to other nodes of one client's socket.

    Attributes:
        target: Path of the client's socket, which is the same at the other nodes.
        is_for_node: Whether the client is another node, so nothing is passed on.
    """

    gateway: Gateway
    client: RelayClient
    target: bytes
    is_for_node: bool
    nursery: trio.Nursery
    is_closed: bool = False
    _upstreams: dict[tuple[str, Principal, bool], Upstream] = attrs.field(factory=dict)

    async def run(
        self,
        command: CommandFrame,
        aim: CallAim,
        principal: Principal,
        run_here: Callable[[], Awaitable[bytes]],
        *,
        is_read: bool,
    ) -> bytes:
        """Run a command on the node of its session, or here if it has none, and return the result.

        Raises:
            Exception: Its refusal, or the owner does not answer.
        """
        session_id = aim.session_of(SessionOwner.of(principal))
        if session_id is None or fault_of_session_id("session_id", session_id) is not None:
            return await run_here()
        find = self._find(session_id, principal, is_read=is_read)
        if self.is_for_node:
            return await run_for_node(find, run_here)

        is_safe = is_read or aim.client_id is not None or "client_id" in command.fields

        async def send(node: Node) -> PassedOn[bytes]:
            if not node.address:
                return "refused"
            upstream = self._upstream(node, principal)
            sent = await upstream.ask(command)
            if not upstream.was_lost or sent not in (("refused", "unknown") if is_safe else ("refused",)):
                return sent
            # The socket may have been lost long ago. The node is asked over a new one, as for a request over HTTP.
            again = await self._upstream(node, principal).ask(command)
            return sent if again == "refused" else again

        return await run_at_owner(find, run_here, send, self._nodes, is_safe=is_safe)

    async def follow(self, asked: Subscribe, principal: Principal, read_here: ReadHere) -> None:
        """Read a session at each of its owners in turn, until it ends.

        Raises:
            CallRefused: Its owner does not answer.
            Exception: See `ReadHere`.
        """
        reading = FollowedSession(asked, principal, asked.after)
        find = self._find(asked.session_id, principal)
        if self.is_for_node:
            if await run_for_node(find, partial(read_here, reading)):
                refuse_call("not_owner", "another node has this session now")
            return
        place = await find()
        until = trio.current_time() + _AGAIN_SECONDS
        while True:
            end, has_begun = await self._read_at(place, reading, read_here)
            if end == "over":
                return
            if has_begun:
                until = trio.current_time() + RETURN_SECONDS
            if end == "moved" and has_begun:
                place = await next_place(find, place)
                continue
            if trio.current_time() >= until:
                refuse_call("owner_silent", "the node of this session does not answer")
            await trio.sleep(_AGAIN_SECONDS)
            place = await find(is_fresh=True)

    def close(self) -> None:
        """Open no more sockets."""
        self.is_closed = True

    async def _read_at(
        self, place: SessionPlace, reading: FollowedSession, read_here: ReadHere
    ) -> tuple[_End, bool]:
        if isinstance(place, Node):
            if not place.address:
                return "lost", False
            return await self._upstream(place, reading.principal).read(reading)
        try:
            return ("moved" if await read_here(reading) else "over"), True
        except HeldBy:  # another node was faster
            return "lost", False
        except (ProfileUnknown, Unrevivable) as error:
            return await self._read_at(await self._nodes.other_for(error), reading, read_here)

    @property
    def _nodes(self) -> SessionNodes:
        return self.gateway.opened()[0].supervisor.nodes

    def _find(self, session_id: str, principal: Principal, *, is_read: bool = False) -> FindOwner:
        return partial(self.gateway.opened()[0].owner_of, session_id, principal.tenant_id, is_read=is_read)

    def _upstream(self, node: Node, principal: Principal) -> Upstream:
        open_socket = self.gateway.open_node_socket
        if self.is_closed or open_socket is None:
            refuse_call("owner_silent", "the socket of this command is closed")
        key = node.id, principal, self.client.replay_frames
        found = self._upstreams.get(key)
        if found is None or found.has_ended:
            dial = partial(open_socket, node, principal, self.target)
            found = Upstream(self.client, dial, partial(self._nodes.is_alive, node.id))
            self._upstreams[key] = found
            self.nursery.start_soon(found.run, name=f"socket to node {node.id}")
        return found
