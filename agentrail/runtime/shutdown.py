"""Shutdown of sessions: stop, rest or end with a parent. And release of the resources that they hold."""

import math
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from agentrail.actors.child_run import cleanup_scope
from agentrail.actors.supervisor_loop import log_report
from agentrail.core.policy.budget import spent_of
from agentrail.core.protocol.signals import StatusQuery, StopSession
from agentrail.errors import CodecError, OptionError, SessionBusy, SessionDown, StoreUnavailable
from agentrail.events import AbortReceipt, AbortSettled
from agentrail.messages import SessionId
from agentrail.otp.exits import Killed
from agentrail.otp.field_rules import Pause
from agentrail.otp.supervision_types import Report
from agentrail.runtime.arguments import fault_of
from agentrail.runtime.crashes import PortCrashed, crash_edge, decide_close_crash
from agentrail.runtime.error_scrubber import scrub_of
from agentrail.runtime.ports import ChildUsage, Ports
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rest import Rested, RestRequest
from agentrail.runtime.session_sandbox import Workspace
from agentrail.runtime.shared_resources import SessionEntry

CHILD_STOP_WITHIN_SECONDS: Final = 4.0
"""Seconds that a call waits for the end of its child session: less than an abort waits for the call."""

CHILD_STOP_STEP_SECONDS: Final = 0.25
"""Seconds subtracted for each level further down."""

LEAVE_WITHIN_SECONDS: Final = 2.0
"""Seconds that a closing supervisor waits until a stored session has no running work."""

CLOSE_WITHIN_SECONDS: Final = 2.0

MOVE_LOOK_SECONDS: Final = 0.05


_TREES_IN_ONE_GO: Final = 16


async def tree_by_tree(entries: Iterable[SessionEntry]) -> AsyncIterator[SessionEntry]:
    """Yield these sessions, newest first. After some trees other tasks run, or the ends of thousands would hold the loop."""
    # A tree stays in one turn of the loop: a parent must not go on without a child that was stopped first.
    trees: dict[tuple[str, SessionId], list[SessionEntry]] = {}
    for entry in reversed(tuple(entries)):
        trees.setdefault((entry.cell.ports.scope, entry.cell.state.data.config.path[0]), []).append(entry)
    for number, tree in enumerate(trees.values(), start=1):
        for entry in tree:
            yield entry
        if number % _TREES_IN_ONE_GO == 0:
            await trio.lowlevel.checkpoint()


async def stop_quietly(cell: SessionCell, reason: str) -> None:
    with suppress(SessionDown):  # it ended first
        # Sent as a notice, which bypasses the mailbox limit. With many callers, the end must not depend on their order.
        stop = StopSession(at_ms=now_ms(), signal_id=cell.pending_calls.mint(), reason=reason)
        with suppress(StoreUnavailable):  # it is stopped regardless
            await cell.pending_calls.ask(stop, cell.mailbox.put_notice)
        await cell.wait_down()


async def end_child(cell: SessionCell, usage: ChildUsage) -> None:
    """Stop a child session, and record its outcome and its usage.

    Cancellation: Shielded and bounded. Work that does not end is named.
    """
    # Deeper levels wait less, so that a parent learns which child did not end.
    seconds = CHILD_STOP_WITHIN_SECONDS - CHILD_STOP_STEP_SECONDS * (len(cell.state.data.config.path) - 2)
    with trio.move_on_after(seconds, shield=True) as grace:
        with suppress(SessionDown):
            async with Session(cell).subscribe(kinds=[AbortSettled]) as settled:
                try:
                    await stop_quietly(cell, "its parent's call has ended")
                finally:
                    with suppress(trio.WouldBlock, trio.EndOfChannel):
                        while True:
                            event = settled.next_nowait()
                            # Not the end of the cycle, which arrives unrequested.
                            if isinstance(event, AbortSettled):
                                usage.add(event.receipt)
    if grace.cancelled_caught and cell.interpreter is not None:
        usage.add(AbortReceipt(stuck=cell.interpreter.left_behind()))
    usage.spent = spent_of(cell.state.data.usage, cell.state.data.ledger)


fault_of_within: Final = partial(fault_of, "within", annotation=Pause)


async def rest_session(cell: SessionCell, within: float) -> Rested:
    await cell.awake()
    path = cell.state.data.config.path
    if len(path) > 1:
        message = f"session {path[-1]!r} is a sub-agent of {path[-2]!r}: stop its root, {path[0]!r}"
        raise OptionError([message])
    cell.pending_calls.refuse_self("rest")
    return await _leave(cell, within)


async def leave_quietly(cell: SessionCell, within: float) -> None:
    with suppress(SessionDown):  # it ended first
        try:
            await _leave(cell, within)
        except CodecError:  # a snapshot cannot hold it, but the journal does
            await stop_quietly(cell, "it cannot be recorded")


async def _leave(cell: SessionCell, within: float) -> Rested:
    request = cell.resting = cell.resting or RestRequest()
    due_at = trio.current_time() + within
    request.callers.append(due_at)
    try:
        _nudge(cell)
        with trio.move_on_at(due_at):
            await request.settled.wait()
        if not request.settled.is_set():
            _nudge(cell)
            await request.settled.wait()
    finally:
        _give_up_rest(cell, request, due_at)
    if request.error is not None:
        raise request.error()
    if cell.rested is None:
        raise SessionDown(cell.ports.session_id, cell.ending or "ended")
    await cell.wait_down()
    return cell.rested


def _give_up_rest(cell: SessionCell, request: RestRequest, due_at: float) -> None:
    request.callers.remove(due_at)
    if not request.callers and cell.rested is None and cell.resting is request:
        cell.resting = None  # no caller waits for it any more, so it continues


async def leave_for_move(cell: SessionCell, within: float) -> None:
    """Stop a session for a move: calls that must not be cut end first, and nothing else begins meanwhile.

    Raises:
        SessionBusy: Such a call did not end in time. The session continues unchanged.
        CodecError: Same as `rest_session`.
        SessionDown: It ended first.

    Cancellation: The session continues, unless it had stopped.
    """
    await cell.awake()
    cell.pending_calls.refuse_self("move")
    if cell.resting is not None:
        message = f"session {cell.ports.session_id!r} is already stopping"
        raise SessionBusy(message)
    request = cell.resting = RestRequest(is_move=True)
    request.callers.append(math.inf)
    cell.hold(is_held=True)
    try:
        with trio.move_on_after(within):
            while not request.settled.is_set():
                _nudge(cell)  # again and again: the call of a child may have ended
                with trio.move_on_after(MOVE_LOOK_SECONDS):
                    await request.settled.wait()
    finally:
        request.is_move = False  # others may wait for the same rest
        _give_up_rest(cell, request, math.inf)
        if cell.rested is None:
            cell.hold(is_held=False)
    if request.error is not None:
        raise request.error()
    if cell.rested is None:
        if cell.ending is not None:
            raise SessionDown(cell.ports.session_id, cell.ending)
        names = ", ".join(cell.calls_to_await()) or "its store"
        message = f"session {cell.ports.session_id!r} was not moved, and nothing has changed: {names} did not end within {within:g} s"
        raise SessionBusy(message)
    await cell.wait_down()


def _nudge(cell: SessionCell) -> None:
    """Make the session take an empty step. After each step it checks whether it can stop."""
    # Sent as a notice, which bypasses the mailbox limit. The answer is discarded.
    cell.send_notice(StatusQuery(at_ms=now_ms(), signal_id=cell.pending_calls.mint()))


async def close_workspace(workspace: Workspace, ports: Ports) -> None:
    """Release the files and processes of a session.

    Cancellation: Shielded, for two seconds at most. An incomplete release is reported.
    """
    scrub = scrub_of(ports)
    # Its exceptions are logged: the session has ended, and no other session is affected.
    with (
        cleanup_scope(CLOSE_WITHIN_SECONDS) as grace,
        suppress(PortCrashed),
        crash_edge(decide_close_crash, scrub=scrub),
    ):
        await workspace.aclose()
    if grace.cancelled_caught:
        log_report(
            Report(
                kind="shutdown_error",
                supervisor=ports.key,
                child_id="sandbox",
                reason=Killed(),
                at_seconds=trio.current_time(),
            )
        )
