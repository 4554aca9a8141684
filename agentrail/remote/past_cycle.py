"""Finds the start and the published events of the running or last cycle of a session on a server. Trio."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from agentrail.core.session.views import Status
from agentrail.errors import CycleAborted, CycleFailed, EventMissed, SessionDown
from agentrail.events import AgentAbort, AgentEnd, AgentError, AgentStart, Event, EventsLost
from agentrail.remote.remote_subscription import Subscribing
from agentrail.runtime.event_waits import decide_beginning, decide_wait

_LOOKED_AT_FIRST: Final = 256
"""Number of last events to read first in search of the cycle's start, then four times as many."""


class Looked(Subscribing, Protocol):
    async def status(self) -> Status: ...


async def find_event(session: Looked, what: type[Event] | Callable[[Event], bool]) -> Event:
    meant = decide_wait(what)
    status = await session.status()
    after = status.last_seq if _is_coming(status) else await _find_beginning(session, status)
    if after is None:
        after = status.last_seq
        if _is_idle(status):
            raise EventMissed(_missed("there has been no cycle yet", meant.name))
    async with session.subscribe(after=after) as events:
        async for event in events:
            if meant.is_meant(event):
                return event
            match event:
                case AgentEnd():
                    raise EventMissed(_missed("the cycle finished", meant.name))
                case AgentAbort(reason=reason):
                    raise CycleAborted(reason)
                case AgentError(error=error):
                    raise CycleFailed(error)
                case EventsLost() if _is_idle(await session.status()):
                    raise EventMissed(_missed("the events of the cycle are no longer kept", meant.name))
                case _:
                    pass
    raise SessionDown(session.session_id, "ended")


async def last_request_id(session: Looked) -> str | None:
    """Return the request of the running, next or last cycle, or None if there was no cycle, or no request started it."""
    status = await session.status()
    if _is_coming(status):
        async with session.subscribe(after=status.last_seq, kinds=[AgentStart], deltas=False) as events:
            async for event in events:
                if isinstance(event, AgentStart):
                    return event.request_id
        return None
    started = [event for event in await _read_back(session, status) if isinstance(event, AgentStart)]
    return started[-1].request_id if started else None


async def _find_beginning(session: Looked, status: Status) -> int | None:
    return decide_beginning(await _read_back(session, status))[0]


async def _read_back(session: Looked, status: Status) -> Sequence[Event]:
    width, last = _LOOKED_AT_FIRST, status.last_seq
    while True:
        events = await _read_between(session, max(0, last - width), last)
        if decide_beginning(events)[1] or width >= last or len(events) < width:
            return events
        width *= 4


async def _read_between(session: Looked, after: int, last: int) -> list[Event]:
    found: list[Event] = []
    if after >= last:
        return found
    async with session.subscribe(after=after, deltas=False) as events:
        async for event in events:
            if isinstance(event, EventsLost) or event.meta is None:
                found.clear()
                if events.snapshot is not None and events.snapshot.last_seq >= last:
                    break
                continue
            found.append(event)
            if event.meta.seq >= last:
                break
    return found


def _is_coming(status: Status) -> bool:
    return status.phase == "idle" and not status.suspended and bool(status.queued)


def _is_idle(status: Status) -> bool:
    return status.phase == "idle" and not status.suspended and not status.queued


def _missed(why: str, name: str) -> str:
    return f"{why}, and no {name} came: prompt first, and wait while the cycle runs; or subscribe, for events outside of a cycle"
