"""How a session is ended that others have started: those that work for another one, and all when a supervisor closes."""

from contextlib import suppress
from typing import Final

import trio

from agentrail.core.policy.budget import spent_of
from agentrail.core.protocol.signals import StopSession
from agentrail.errors import SessionDown, StoreUnavailable
from agentrail.events import AbortReceipt, AbortSettled
from agentrail.runtime.clock import now_ms
from agentrail.runtime.handle import Session
from agentrail.runtime.ports import ChildUsage
from agentrail.runtime.session import SessionCell

CHILD_STOP_WITHIN_SECONDS: Final = 4.0
"""How long a call waits for the end of the session that worked for it: less than an abort waits for the call."""

CHILD_STOP_STEP_SECONDS: Final = 0.25
"""How much less for each level further down."""


async def stop_quietly(cell: SessionCell, reason: str) -> None:
    """Stop a session, and wait until nothing of it acts any more; one that has ended by itself is as good.

    Cancellation: It ends all the same.
    """
    with suppress(SessionDown):  # it was faster
        # As a notice, which no bound keeps out: its callers are many, and the end may not depend on who comes first.
        stop = StopSession(at_ms=now_ms(), signal_id=cell.pending_calls.mint(), reason=reason)
        with suppress(StoreUnavailable):  # it is told to stop all the same, and does
            await cell.pending_calls.ask(stop, cell.mailbox.put_notice)
        await cell.wait_down()


def _child_stop_seconds(cell: SessionCell) -> float:
    """Say how long to wait for the end of a child: the deeper the shorter, so that who waits above hears what would not end."""
    depth = len(cell.state.data.config.path) - 1
    return CHILD_STOP_WITHIN_SECONDS - CHILD_STOP_STEP_SECONDS * (depth - 1)


async def end_child(cell: SessionCell, usage: ChildUsage) -> None:
    """Stop a session that works for another, and note what became of it and what it has used.

    Cancellation: Shielded and bounded; what would not end is named.
    """
    with trio.move_on_after(_child_stop_seconds(cell), shield=True) as grace:
        await _stop_child(Session(cell), usage)
    if grace.cancelled_caught and cell.interpreter is not None:
        usage.add(AbortReceipt(stuck=cell.interpreter.left_behind()))
    usage.spent = spent_of(cell.state.data.usage, cell.state.data.ledger)


async def _stop_child(child: Session, usage: ChildUsage) -> None:
    """Stop the session that works for a call with all that it has at work, and count that."""
    with suppress(SessionDown, StoreUnavailable):
        async with child.subscribe(kinds=[AbortSettled]) as settled:
            try:
                with suppress(StoreUnavailable):  # what it has at work was stopped; it is to end as well
                    await child.abort(
                        "its parent's call is over", kill_tools="all", clear_queue=True, wait=False
                    )
                await child.stop("its parent's call is over")
            finally:
                with suppress(trio.WouldBlock, trio.EndOfChannel):
                    while True:
                        event = settled.next_nowait()
                        # And not how the cycle ended, which comes unasked.
                        if isinstance(event, AbortSettled):
                            usage.add(event.receipt)
