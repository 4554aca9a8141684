"""The reply to a prompt that has its receipt: read from the events of its session, whether its cycle is to come, runs, or has ended."""

from typing import Final

from agentrail.core.session.receipts import PromptReceipt
from agentrail.core.session.state import SessionState
from agentrail.core.session.tags import visible_in
from agentrail.errors import AgentrailError, CycleAborted, CycleFailed, EventMissed, SessionDown
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    Event,
    EventsLost,
    PromptDropped,
    PromptRejected,
    PromptTaken,
)
from agentrail.messages import PromptRef
from agentrail.runtime.answers import CycleReply
from agentrail.runtime.cycle_stream import CYCLE_ENDS
from agentrail.runtime.event_waits import bounded
from agentrail.runtime.session import SessionCell
from agentrail.runtime.session_facts import reader_of
from agentrail.runtime.subscription import Terms

_KINDS: Final = frozenset[type[Event]]((*CYCLE_ENDS, PromptDropped, PromptRejected, PromptTaken))

_BUFFER: Final = 4096
"""Ends alone are read: the task that reads them is never so far behind."""


async def reply_to(cell: SessionCell, receipt: PromptReceipt) -> CycleReply[str]:
    """Wait for the end of the cycle of a prompt, which may be long ago.

    Args:
        cell: The session.
        receipt: Of the prompt.

    Raises:
        CycleAborted: The cycle was aborted, or the prompt was refused or thrown away.
        CycleFailed: The cycle failed.
        EventMissed: It has ended, and how is no longer kept.
        StoreUnavailable: The store takes no records for now.
        SessionDown: The session has ended before it.

    Cancellation: Nothing is lost by it.
    """
    ref, is_taken = receipt.ref, False
    await cell.awake()
    config = cell.state.data.config
    terms = Terms(kinds=_KINDS, deltas=False, buffer=_BUFFER, is_own=True)
    async with cell.subscribe(terms, after=max(receipt.seq - 1, 0)) as events:
        with bounded(cell, events) as call:
            async for event in events:
                _look_for_failure(event, ref, cell.state, is_taken=is_taken)
                if isinstance(event, PromptTaken) and event.ref == ref:
                    is_taken = True  # it decided what another cycle waits for: the end of that one is its own
                if isinstance(event, AgentEnd) and _is_own(event, ref, is_taken=is_taken):
                    text = reader_of(cell)(event.messages)
                    said = [visible_in((message,), config) for message in event.messages]
                    assert event.meta is not None  # noqa: S101 - it was published
                    return CycleReply(
                        text=text,
                        output=text,
                        all_text="\n\n".join(filter(None, said)),
                        messages=event.messages,
                        usage=event.usage,
                        turns=event.turns,
                        stop_reason=event.stop_reason,
                        events_from=receipt.seq,
                        events_to=event.meta.seq,
                    )
                if isinstance(event, EventsLost) and not (is_taken or _is_to_come(cell.state, ref)):
                    raise EventMissed(_MISSED)
    raise call.error or SessionDown(cell.ports.session_id, cell.ending or "ended")


_MISSED: Final = "this prompt was answered, and the events that say how are kept no longer: read the conversation with messages()"


def _look_for_failure(event: Event, ref: PromptRef, now: SessionState, *, is_taken: bool) -> None:
    failure: AgentrailError | None = None
    match event:
        case PromptRejected(ref=one, reason=reason) if one == ref:
            failure = CycleAborted(reason)
        case PromptDropped(ref=one) if one == ref:
            failure = CycleAborted("the prompt was taken out of the queue")
        case AgentAbort(reason=reason) if _is_own(event, ref, is_taken=is_taken):
            failure = CycleAborted(reason)
        case AgentError(error=error) if _is_own(event, ref, is_taken=is_taken):
            last = now.data.last
            failure = CycleFailed(error, text=last.text if last is not None and last.error == error else "")
        case _:
            pass
    if failure is not None:
        raise failure


def _is_own(event: AgentEnd | AgentAbort | AgentError, ref: PromptRef, *, is_taken: bool) -> bool:
    return is_taken or event.ref == ref


def _is_to_come(state: SessionState, ref: PromptRef) -> bool:
    """Whether the cycle of a prompt has not ended."""
    data = state.data
    held = data.held.prompt if data.held is not None else None
    waiting = {prompt.ref for prompt in data.queue}
    return (
        ref in waiting
        or (held is not None and held.ref == ref)
        or (data.cycle is not None and data.cycle.ref == ref)
    )
