"""Calls that are answered by a session of their own: its start and all that it publishes appear on the session above it."""

from typing import Final

import msgspec

from agentrail.core import calls
from agentrail.core.open_calls import CallState
from agentrail.core.owners import OfCall
from agentrail.core.signals import ChildPublished, ChildStarted
from agentrail.core.spending import note_child
from agentrail.core.work import Work
from agentrail.events import SubagentEvent, SubagentStart

KINDS_OF_CHILD: Final = ("general-purpose",)
"""What `subagent_type` may be."""


def started(work: Work, signal: ChildStarted) -> None:
    """Note which session works for a call."""
    state = _of(work, signal)
    note_child(work, signal.effect_id)
    called = msgspec.structs.replace(state, child_ids=(*state.child_ids, signal.child_id))
    if work.data.batch.find(state.call.call_id) is state:
        calls.put(work, called)
    work.data.survivors = tuple(called if one is state else one for one in work.data.survivors)
    description = signal.description
    if description is None:
        description = str(state.arguments.get("description", ""))
    work.publish(SubagentStart(child_id=signal.child_id, call_id=state.call.call_id, description=description))


def published(work: Work, signal: ChildPublished) -> None:
    """Pass on what a child published, and what it passed on itself."""
    state = _of(work, signal)
    child_id = signal.child_id or state.child_ids[0]  # it says that it started before it says anything else
    inner = signal.event
    depth = inner.depth + 1 if isinstance(inner, SubagentEvent) else 1
    work.publish(SubagentEvent(call_id=state.call.call_id, child_id=child_id, depth=depth, event=inner))


def _of(work: Work, signal: ChildStarted | ChildPublished) -> CallState:
    match work.data.open.get(signal.effect_id):
        case OfCall(call_id):
            return calls.one_of_batch(work, call_id)
        case _:
            return next(one for one in work.data.survivors if one.effect_id == signal.effect_id)
