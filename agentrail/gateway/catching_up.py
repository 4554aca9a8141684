"""What a session published before a client came, sent in frames of many events, as fast as the client reads them and no faster.

Trio. One frame of a session waits at a time, outside of what bounds the queue of its socket, and the next is made when that one has gone
out. So a client that has much to catch up with closes no socket, and what is live in other sessions goes out in between. What is live
here is for `open_socket`.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from attrs import frozen

from agentrail.errors import SubscriberTooSlow
from agentrail.events import Event, EventsLost
from agentrail.gateway.socket_frames import Subscribe, replay_frame, subscribed_frame
from agentrail.runtime.subscription import Subscription

MAX_REPLAY_BYTES: Final = 256 << 10
"""Of one frame; an event that is larger has one for itself."""


@frozen(kw_only=True)
class ReplaySocket:
    """What is needed of a socket to catch up on it.

    Attributes:
        frame_of: Makes the frame of an event, once for all sockets.
        send: Takes a frame of a session, with the number to go on after, and returns when it has gone out; False where the
            socket is closing.
    """

    frame_of: Callable[[Event], bytes]
    send: Callable[[str, int | None, bytes], Awaitable[bool]]


async def send_past(
    socket: ReplaySocket, asked: Subscribe, events: Subscription, *, agent_id: str | None
) -> int | None:
    """Send what waits in a subscription, until nothing does, or the socket closes.

    Cancellation: What was not sent is not counted by the cursors of the socket.
    """
    batch: list[bytes] = []
    size, last = 0, None
    while True:
        event, is_over, resume_after = _next_of(events)
        is_lost = isinstance(event, EventsLost)
        frame = b"" if event is None else socket.frame_of(event)
        if batch and (is_over or is_lost or size + len(frame) > MAX_REPLAY_BYTES):
            if not await socket.send(asked.session_id, last, replay_frame(asked.session_id, batch)):
                return None
            batch, size, last = [], 0, None
            if is_over and resume_after is None:
                continue  # while it went out more may have come
        if is_over:
            return resume_after
        assert event is not None  # noqa: S101 - else it is over
        if is_lost:
            if not await _send_loss(socket, asked, events, frame, agent_id):
                return None
            continue
        batch.append(frame)
        size += len(frame)
        if event.meta is not None and not event.meta.ephemeral:
            last = event.meta.seq


def _next_of(events: Subscription) -> tuple[Event | None, bool, int | None]:
    """Give the next event that waits; or that there is none, and where to go on if others were given up."""
    try:
        return events.next_nowait(), False, None
    except (trio.WouldBlock, trio.EndOfChannel):
        return None, True, None
    except SubscriberTooSlow as cut:
        return None, True, cut.resume_after


async def _send_loss(
    socket: ReplaySocket, asked: Subscribe, events: Subscription, frame: bytes, agent_id: str | None
) -> bool:
    """Say that events are lost, and from what to begin anew."""
    snapshot = events.snapshot
    assert snapshot is not None  # noqa: S101 - it comes with the loss
    begin = subscribed_frame(asked, snapshot.last_seq, snapshot, agent_id=agent_id)
    session_id = asked.session_id
    return await socket.send(session_id, None, frame) and await socket.send(
        session_id, snapshot.last_seq, begin
    )
