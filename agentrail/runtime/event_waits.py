"""Waiting for one event of a cycle. Already published events count, and the end of the cycle ends the wait."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import trio
from attrs import frozen

from agentrail.core.session.state import Phase, SessionState
from agentrail.errors import (
    EventMissed,
    OptionError,
    SessionDown,
    StoreUnavailable,
)
from agentrail.events import (
    KINDS,
    TERMINAL,
    AgentEnd,
    AgentStart,
    Event,
    EventsLost,
    PromptReceived,
)
from agentrail.otp.guarded_calls import is_plain_function, repr_of
from agentrail.runtime.cycle_reply import raise_failure
from agentrail.runtime.event_subscription import Terms
from agentrail.runtime.pending_calls import PendingCall
from agentrail.runtime.people_waits import begins_to_wait, waiting_errors
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_queries import AskingHandle

_BUFFER: Final = 1024

_LOOKED_AT_FIRST: Final = 256
"""Number of events read from the journal before the kept ones, to find the start of the cycle. Doubled for each retry."""


@frozen(kw_only=True)
class MeantEvent:
    name: str
    is_meant: Callable[[Event], bool]

    def found(self, event: Event) -> bool:
        """Return whether this is the event. Raise if the cycle ends without it."""
        if self.is_meant(event):
            return True
        if isinstance(event, AgentEnd):
            self.refuse("the cycle finished")
        raise_failure(event)
        return False

    def refuse(self, why: str) -> NoReturn:
        message = f"{why}, and no {self.name} came: prompt first, and wait while the cycle runs; or subscribe, for events outside of a cycle"
        raise EventMissed(message)


def decide_wait(what: object) -> MeantEvent:
    if isinstance(what, type):
        if what in KINDS:
            return MeantEvent(name=what.__name__, is_meant=lambda event: isinstance(event, what))
        raise OptionError([f"what is the class {what.__name__}: expected an event class, such as AgentEnd"])
    if not is_plain_function(what):  # a coroutine counts as true
        fault = f"what is {repr_of(what):.200}: expected an event class, or a function of one event"
        raise OptionError([fault])
    judge: Callable[[Event], Any] = what
    name = getattr(what, "__name__", "event")
    return MeantEvent(
        name="awaited event" if name == "<lambda>" else name, is_meant=lambda event: bool(judge(event))
    )


@contextmanager
def bounded(cell: SessionCell, end: Callable[[PendingCall], None]) -> Iterator[PendingCall]:
    with cell.pending_calls.waiting(lambda: end(call)) as call:
        journal = cell.journal
        if journal is not None and journal.is_held_up:
            call.settle(None, journal.writer.unavailable_error())
        yield call


@contextmanager
def told_of_outages(session: AskingHandle, tell: Callable[[], None]) -> Iterator[PendingCall]:
    """Call a function when the store keeps a session's callers waiting for longer than its patience."""
    cell = session._cell  # noqa: SLF001 - for callers that wait for a session from outside

    def look(call: PendingCall) -> None:
        if isinstance(call.error, StoreUnavailable):
            tell()

    with bounded(cell, look) as call:
        yield call


class EventWait:
    def __init__(self, cell: SessionCell, meant: MeantEvent, *, wait_for_people: bool = False) -> None:
        self._may_raise = not wait_for_people
        self._cell = cell
        self._meant = meant

    async def run(self) -> Event:
        await trio.lowlevel.checkpoint()
        cell = self._cell
        await cell.awake()
        # Between a prompt and its cycle, while it is being checked or is queued, the published events belong to
        # another cycle.
        after = None if _is_coming(cell.state) else await self._find_beginning()
        if after is None and cell.ending is None and _is_idle(cell.state):
            self._meant.refuse("there has been no cycle yet")
        terms = Terms(kinds=None, deltas=True, buffer=_BUFFER, is_own=True)
        async with cell.subscribe(terms, after=after) as events:
            with bounded(cell, lambda _: events.end()) as call:
                async for event in events:
                    if self._meant.found(event):
                        return event
                    waiting = waiting_errors(cell) if self._may_raise and begins_to_wait(event) else []
                    if waiting:
                        raise waiting.pop()
                    if isinstance(event, EventsLost) and _is_idle(cell.state):
                        self._meant.refuse("the events of the cycle are no longer kept")
        raise call.take_error(SessionDown(cell.ports.session_id, cell.ending or "ended"))

    async def _find_beginning(self) -> int | None:
        bus = self._cell.bus
        events: Sequence[Event] = bus.kept
        before = bus.last_seq - len(events) + 1
        width = _LOOKED_AT_FIRST
        while True:
            found, is_sure = decide_beginning(events)
            if is_sure or before <= 1:
                return found
            more = await self._cell.events_between(max(0, before - width - 1), before)
            if not more:
                return found
            events = (*more, *events)
            before -= len(more)
            width *= 2


def decide_beginning(events: Sequence[Event]) -> tuple[int | None, bool]:
    """Find the start of the last cycle: before its prompt, if the prompt was not queued."""
    found: int | None = None
    began: AgentStart | None = None
    for event in reversed(events):
        assert event.meta is not None  # noqa: S101 - it was published
        if began is None:
            if type(event) is AgentStart:
                found, began = event.meta.seq - 1, event
        elif type(event) is PromptReceived:
            return (event.meta.seq - 1 if event.ref == began.ref else found), True
        elif type(event) in TERMINAL:
            return found, True
    return found, False


def _is_coming(state: SessionState) -> bool:
    """Return whether the next cycle is about to start: its prompt was accepted, and nothing has been published for it."""
    data = state.data
    return data.cycle is None and (data.held is not None or bool(data.queue))


def _is_idle(state: SessionState) -> bool:
    return state.phase is Phase.IDLE and state.data.cycle is None and not _is_coming(state)
