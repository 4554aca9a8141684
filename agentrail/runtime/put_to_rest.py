"""Asking a session to rest: it is told once, looks behind each of its steps, and is waited for. When it may is in `resting`."""

import trio

from agentrail.core.protocol.signals import StatusQuery
from agentrail.errors import OptionError, SessionDown
from agentrail.runtime.clock import now_ms
from agentrail.runtime.resting import Rested, RestRequest
from agentrail.runtime.session import SessionCell


def fault_of_within(within: object) -> str | None:
    """Say what is wrong with a time to wait for a boundary."""
    is_number = isinstance(within, int | float) and not isinstance(within, bool)
    if is_number and 0 <= within < float("inf"):  # type: ignore[operator]  # it is a number; NaN is not below
        return None
    return f"within is {within!r:.200}: expected finite seconds from 0"


async def rest_session(cell: SessionCell, within: float) -> Rested:
    """Let a session leave, and wait until nothing of it acts any more; see `SessionSupervisor.rest`."""
    path = cell.state.data.config.path
    if len(path) > 1:
        message = f"session {path[-1]!r} works for a call of {path[-2]!r}: put {path[0]!r} to rest, which it goes with"
        raise OptionError([message])
    cell.pending_calls.refuse_self("rest")
    await trio.lowlevel.checkpoint_if_cancelled()
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
