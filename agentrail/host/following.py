"""Following a request by the events of its session, to its end and to its answer. Decides nothing: the rules stand in `request_end`."""

import itertools
from contextlib import suppress
from typing import Final

import trio

from agentrail.errors import AgentrailError, SubscriberTooSlow
from agentrail.events import Event, EventsLost, PromptQueued, PromptReceived
from agentrail.host.request_end import (
    KINDS_OF_REQUESTS,
    RequestStanding,
    behind_loss,
    ended_by_host,
    stand_behind,
    without_session,
)
from agentrail.host.requests import RequestTrack
from agentrail.messages import AssistantMessage, Message, PromptRef, UserMessage
from agentrail.runtime.glancing import window_of
from agentrail.runtime.handle import Session
from agentrail.runtime.subscription import Subscription

_BUFFER: Final = 4096
"""Events of beginnings and ends alone: the task that reads them is never so far behind."""


_READ_IN_ONE_GO: Final = 64


def subscribe_to_requests(session: Session, *, after: int | None = None) -> Subscription:
    """Subscribe to what has to be read of a session to know how its requests stand."""
    return session.subscribe(kinds=KINDS_OF_REQUESTS, deltas=False, buffer=_BUFFER, after=after)


def follow_nowait(track: RequestTrack, events: Subscription) -> None:
    """Take what waits to be read: what a session said at once, when it took the message."""
    with suppress(trio.WouldBlock, trio.EndOfChannel, SubscriberTooSlow):
        while not track.standing.has_ended:
            _take(track, events, events.next_nowait())


async def follow(session: Session, track: RequestTrack, events: Subscription) -> Event | None:
    """Read the events of a session until a request has ended.

    Args:
        session: Whose events.
        track: The request.
        events: Entered before the message was sent.

    Returns:
        The last event that was read, which ended it; None where none did.

    Cancellation: It is followed no longer.
    """
    after = await _follow_to_end(track, events)
    while isinstance(after, int):  # others kept the loop for so long that the buffer was full
        async with subscribe_to_requests(session, after=after) as again:
            after = await _follow_to_end(track, again)
    return after


async def _follow_to_end(track: RequestTrack, events: Subscription) -> Event | int | None:
    event: Event | None = None
    try:
        while not track.standing.has_ended:
            event = await anext(events)
            _take(track, events, event)
    except StopAsyncIteration:
        if events.is_rested:
            track.stand(ended_by_host(track.standing, "shutdown", "the session was put to rest"))
        else:
            track.stand(without_session(track.standing, "it said no more"))
        return None
    except SubscriberTooSlow as slow:
        return slow.resume_after or 0
    return event


def _take(track: RequestTrack, events: Subscription, event: Event) -> None:
    if isinstance(event, EventsLost):
        snapshot = events.snapshot
        assert snapshot is not None  # noqa: S101 - it comes with the loss
        track.stand(behind_loss(track.standing, event, snapshot.status))
    else:
        track.stand(stand_behind(track.standing, event))


async def find_standing(session: Session, request_id: str) -> tuple[RequestStanding, int] | None:
    """Look for a request among the events of a session, from its first one on; None where none of them names it.

    For one that an earlier process began.

    Returns:
        How it stands, with the number of the last event that changed it; and the number of the event that its receipt named.

    Cancellation: Nothing has changed.
    """
    standing: RequestStanding | None = None
    seq = 0
    async with subscribe_to_requests(session, after=0) as events:
        with suppress(trio.WouldBlock, trio.EndOfChannel, SubscriberTooSlow):
            for number in itertools.count(1):
                event = events.next_nowait()
                named = isinstance(event, PromptReceived | PromptQueued) and event.request_id == request_id
                if standing is None and named and isinstance(event, PromptReceived | PromptQueued):
                    standing = RequestStanding(ref=event.ref)
                    seq = 0 if event.meta is None else event.meta.seq
                if standing is not None:
                    standing = stand_behind(standing, event)
                if number % _READ_IN_ONE_GO == 0:
                    await trio.lowlevel.checkpoint()
    return None if standing is None else (standing, seq)


async def end_track(session: Session | None, track: RequestTrack) -> None:
    """Say that a request has ended, with what there is of an answer."""
    standing, text = track.standing, ""
    try:
        if session is not None and track.record.context_window is None:
            track.learn_window(window_of(session))
        if session is not None and standing.is_kept:
            text = await _answer_of(session, standing)
    finally:  # whatever the session says: others wait for it
        track.end(text)


async def _answer_of(session: Session, standing: RequestStanding) -> str:
    read = session.reads_answers()
    if standing.messages:
        return read(standing.messages)
    # Of one that was aborted or has failed the end says nothing of what was said.
    with suppress(AgentrailError), trio.move_on_after(1.0):
        return read(said_to(standing.ref, await session.messages()))
    return ""


def said_to(ref: PromptRef, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Give what stands in the history behind a prompt, up to the next one; nothing where it does not stand there."""
    begins = [
        place
        for place, one in enumerate(messages)
        if isinstance(one, UserMessage) and one.origin == "prompt" and one.ref is not None
    ]
    for number, place in enumerate(begins):
        one = messages[place]
        if isinstance(one, UserMessage) and one.ref == ref:
            end = begins[number + 1] if number + 1 < len(begins) else len(messages)
            return tuple(found for found in messages[place:end] if isinstance(found, AssistantMessage))
    return ()
