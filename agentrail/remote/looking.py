"""Looking back at the cycle that runs, or ran last, in a session on a server: where it began, and what was published of it. Trio."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from agentrail.core.session.projection import Status
from agentrail.errors import CycleAborted, CycleFailed, EventMissed, SessionDown
from agentrail.events import AgentAbort, AgentEnd, AgentError, AgentStart, Event, EventsLost
from agentrail.remote.subscription import Subscribing
from agentrail.runtime.event_waits import decide_beginning, decide_wait

_LOOKED_AT_FIRST: Final = 256
"""How many of the last events are read to find where the cycle began; then four times as many."""


class Looked(Subscribing, Protocol):
    """The handle of the session that is looked at."""

    async def status(self) -> Status:
        """As `RemoteSession.status`."""
        ...


async def find_event(session: Looked, what: type[Event] | Callable[[Event], bool]) -> Event:
    """Give the first event of the running cycle that is meant; as `Session.wait_for`."""
    meant = decide_wait(what)
    status = await session.status()
    after = status.last_seq if _is_coming(status) else await _find_beginning(session, status)
    if after is None:
        after = status.last_seq
        if _is_idle(status):
            raise EventMissed(_missed("there was no cycle yet", meant.name))
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
                    raise EventMissed(_missed("what the cycle published is kept no more", meant.name))
                case _:
                    pass
    raise SessionDown(session.session_id, "ended")


async def last_request_id(session: Looked) -> str | None:
    """Give the request of the cycle that runs, or is about to, or ran last; None where there was none, or no request began it."""
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
    """Read the committed events from before the last cycle on, as far as they are kept."""
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
    return (
        f"{why}, and no {name} came: prompt first, and wait while the cycle runs; "
        "or subscribe, for what belongs to no cycle"
    )
