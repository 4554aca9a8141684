"""Callers that must not wait silently for users: their wait ends with `CycleWaiting` when no user can answer."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Self, TypeAlias, TypeVar

import trio
from attrs import define

from agentrail.abc import NO_HOST
from agentrail.core.protocol.signals import SignalId
from agentrail.core.session.open_calls import CallState
from agentrail.errors import CycleWaiting
from agentrail.events import AgentSuspended, Approval, Event, PendingClientCall, Question, SubagentEvent
from agentrail.runtime.session_actor import SessionCell

T = TypeVar("T")

Pending: TypeAlias = Approval | Question | PendingClientCall


async def unless_waiting(cell: SessionCell, work: Callable[[], Awaitable[T]], *, is_begun: bool = False) -> T:
    errors: list[CycleWaiting] = []
    scope = trio.CancelScope()

    def end(error: CycleWaiting) -> None:
        errors.append(error)
        scope.cancel(reason="the cycle waits for users, and no user can answer")

    with scope, _PeopleWait(cell, end) as wait:
        if is_begun:
            wait.look_now()
        return await work()
    raise errors.pop(0)  # the traceback of an error refers to this frame


def refused_while_waiting(cell: SessionCell, signal_id: SignalId) -> AbstractContextManager[object]:
    """Same as `unless_waiting`, for one pending call: refusing it costs less than a cancel scope."""
    return _PeopleWait(cell, partial(cell.pending_calls.refuse, signal_id))


def waiting_errors(cell: SessionCell) -> list[CycleWaiting]:
    """Return the error for the callers of a cycle that waits for users who cannot be reached, or nothing."""
    pending = pending_of(cell)
    is_asked = cell.bus.is_listened_to or cell.ports.host is not NO_HOST
    if is_asked or all(one.expires_at_ms is not None for one in pending):
        return []
    return [CycleWaiting(pending, [_line_of(one) for one in pending])]


def pending_of(cell: SessionCell) -> tuple[Pending, ...]:
    """Return the pending items of a session's cycle if it waits only for users, including its children; otherwise nothing."""
    data = cell.state.data
    asked: tuple[Pending, ...] = tuple([one.asked for one in data.interactions])
    if cell.state.suspended:
        return asked
    running = [call for call in data.batch if call.stage not in ("done", "asking", "awaiting")]
    if not running:
        return ()
    below: list[Pending] = []
    for call in running:
        found = _pending_below(cell, call)
        if not found:
            return ()
        below += found
    return (*asked, *below)


def _pending_below(cell: SessionCell, call: CallState) -> tuple[Pending, ...]:
    found: list[Pending] = []
    for child_id, child in cell.children():
        if child_id not in call.child_ids or child.ending is not None:
            continue
        pending = pending_of(child)
        if not pending:
            return ()
        found += pending
    return tuple(found)


def begins_to_wait(event: Event) -> bool:
    while type(event) is SubagentEvent:
        event = event.event
    return type(event) is AgentSuspended


@define(eq=False)
class _PeopleWait:
    _cell: SessionCell
    _end: Callable[[CycleWaiting], None]

    def __enter__(self) -> Self:
        bus = self._cell.bus
        bus.watchers = (*bus.watchers, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        bus = self._cell.bus
        bus.watchers = tuple([look for look in bus.watchers if look != self._look])

    def _look(self, event: Event) -> None:
        if begins_to_wait(event):
            self.look_now()

    def look_now(self) -> None:
        for error in waiting_errors(self._cell):
            self._end(error)


def _line_of(pending: Pending) -> str:
    match pending:
        case Approval():
            return f"approve({pending.id!r}) or reject({pending.id!r}): {pending.tool} needs an approval"
        case Question():
            return f"respond({pending.ref!r}, …): {pending.question!r:.200}"
        case PendingClientCall():
            return f"answer({pending.ref!r}, Ok(…)): the client runs {pending.name}"
