"""Asking a session to rest: it is told once, looks behind each of its steps, and is waited for. When it may is in `resting`."""

from contextlib import suppress
from typing import Final

import trio

from agentrail.core.protocol.signals import StatusQuery
from agentrail.errors import CodecError, OptionError, SessionDown
from agentrail.runtime.clock import now_ms
from agentrail.runtime.ending import stop_quietly
from agentrail.runtime.resting import Rested, RestRequest
from agentrail.runtime.session import SessionCell

LEAVE_WITHIN_SECONDS: Final = 2.0
"""How long a supervisor that closes waits for a place where nothing of a stored session is at work."""


def fault_of_within(within: object) -> str | None:
    """Say what is wrong with a time to wait for a boundary."""
    is_number = isinstance(within, int | float) and not isinstance(within, bool)
    if is_number and 0 <= within < float("inf"):  # type: ignore[operator]  # it is a number; NaN is not below
        return None
    return f"within is {within!r:.200}: expected finite seconds from 0"


async def rest_session(cell: SessionCell, within: float) -> Rested:
    """Let a session leave, and wait until nothing of it acts any more; see `SessionSupervisor.rest`."""
    await cell.awake()
    path = cell.state.data.config.path
    if len(path) > 1:
        message = f"session {path[-1]!r} works for a call of {path[-2]!r}: put {path[0]!r} to rest, which it goes with"
        raise OptionError([message])
    cell.pending_calls.refuse_self("rest")
    await trio.lowlevel.checkpoint_if_cancelled()
    return await _leave(cell, within)


async def leave_quietly(cell: SessionCell, within: float) -> None:
    """Let a session that comes back from its journal leave without an end, and wait until nothing of it acts any more.

    Args:
        cell: The session; one that works for another too.
        within: How many seconds to wait for a place where nothing is at work; then it is cut where it is.

    Cancellation: It goes on, where it has not left yet.
    """
    with suppress(SessionDown):  # it was faster
        try:
            await _leave(cell, within)
        except CodecError:  # what no snapshot holds, its journal holds
            await stop_quietly(cell, "it cannot be written down")


async def _leave(cell: SessionCell, within: float) -> Rested:
    request = cell.resting
    if request is None:
        request = cell.resting = RestRequest()
    request.callers += 1
    try:
        _nudge(cell)
        with trio.move_on_after(within):
            await request.settled.wait()
        if not request.settled.is_set():
            request.is_due = True
            _nudge(cell)
            await request.settled.wait()
    finally:
        request.callers -= 1
        if not request.callers and cell.rested is None and cell.resting is request:
            cell.resting = None  # no caller waits for it any more: it goes on
    if request.error is not None:
        raise request.error
    if cell.rested is None:
        raise SessionDown(cell.ports.session_id, cell.ending or "ended")
    await cell.wait_down()
    return cell.rested


def _nudge(cell: SessionCell) -> None:
    """Let it take a step, which changes nothing: behind each it looks whether it may leave."""
    # As a notice, which no bound keeps out; the answer goes nowhere.
    cell.mailbox.put_notice(StatusQuery(at_ms=now_ms(), signal_id=cell.pending_calls.mint()))
    cell.stir()
