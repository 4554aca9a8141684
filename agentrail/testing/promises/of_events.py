"""What is published: deltas that add up, events in pairs, one terminal event for each cycle, dense numbers."""

from agentrail.core.policy.tags import TagReader
from agentrail.core.protocol.signals import AbortCycle, ResponseCompleted, StopSession
from agentrail.core.session import tags
from agentrail.core.session.projection import status_of
from agentrail.core.session.state import SessionState
from agentrail.core.session.step_context import is_ephemeral
from agentrail.events import (
    TERMINAL,
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    MessageDelta,
    PromptRejected,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
)
from agentrail.messages import AssistantMessage, CallId
from agentrail.testing.promises.seen import Seen, newly_said, unstarted_calls


def people_see_what_is_said_without_tags(seen: Seen) -> None:
    """Deltas add up to the text without its tags, whatever is held back; an end that is no failure gives that back too."""
    was, now = seen.before.data.stream, seen.after.data.stream
    deltas = "".join(event.delta for event in seen.events if isinstance(event, MessageDelta))
    if was is now:  # nothing came of it, or there is none
        assert not deltas
        return
    shown = tags.visible_so_far(was, seen.before.data.config) if was is not None else ""
    if was is not None and now is not None and was.effect_id == now.effect_id:
        assert shown + deltas == tags.visible_so_far(now, seen.after.data.config)
        assert now.reader == TagReader().fed("".join(now.text))[0]
    elif was is not None and isinstance(seen.signal, AbortCycle | StopSession):
        assert shown + deltas == tags.visible_text("".join(was.text), seen.before.data.config)
    elif was is not None and isinstance(seen.signal, ResponseCompleted):
        whole = tags.visible_text("".join(was.text), seen.before.data.config)
        assert shown + deltas in (whole, shown)  # an empty response is withdrawn
    else:
        assert not deltas


def cycles_have_one_terminal_event(seen: Seen) -> None:
    """Exactly one of AgentEnd, AgentAbort, AgentError follows an AgentStart, and names the same prompt.

    An AgentAbort of nothing comes in idle, or for a prompt that was refused, perhaps right behind the cycle before it.
    """
    rejected = 0
    running = seen.before.data.cycle.ref if seen.before.data.cycle else None
    idle = seen.before.data.cycle is None
    for event in seen.events:
        if isinstance(event, AgentStart):
            assert running is None
            running = event.ref
        elif isinstance(event, PromptRejected):
            rejected += 1
        elif type(event) in TERMINAL:
            assert running is not None or (isinstance(event, AgentAbort) and (idle or rejected))
            assert isinstance(event, AgentEnd | AgentAbort | AgentError)
            assert event.ref == running
            running = None
    assert running == (seen.after.data.cycle.ref if seen.after.data.cycle else None)
    # More than one in a step, when the prompt behind a cycle that ends is refused, or its cycle ends at once.
    starts = sum(isinstance(event, AgentStart) for event in seen.events)
    assert sum(type(event) in TERMINAL for event in seen.events) <= 1 + starts + rejected


def suspensions_are_said(seen: Seen) -> None:
    """`AgentSuspended` and `AgentResumed` alternate, between the two ends of a cycle, and agree with the status after each step.

    The first says what is waited for, which is all that waits; and no cycle ends before the second is out.
    """
    suspended = seen.before.suspended
    for event in seen.events:
        if isinstance(event, AgentSuspended):
            assert not suspended
            suspended = True
        elif isinstance(event, AgentResumed):
            assert suspended
            suspended = False
        elif type(event) in TERMINAL or isinstance(event, AgentStart):
            assert not suspended
    assert suspended == seen.after.suspended
    said = [event for event in seen.events if isinstance(event, AgentSuspended)]
    if said or seen.before.suspended:  # a status costs more than all the rest of this
        assert suspended == status_of(seen.after.phase, seen.after.data, seen.signal.at_ms).suspended
    assert all(event.waiting for event in said)
    if said and suspended:
        waiting = [(one.id, one.asked.call_id) for one in seen.after.data.interactions]
        assert [(one.id, one.call_id) for one in said[-1].waiting] == waiting


def tool_events_come_in_pairs(seen: Seen) -> None:
    """Each call gives one ToolExecutionStart and later one ToolExecutionEnd; what is killed is killed in between."""
    waiting = unstarted_calls(seen.before)
    if isinstance(seen.signal, ResponseCompleted):
        grown = newly_said(seen)
        waiting |= {
            call.call_id for said in grown if isinstance(said, AssistantMessage) for call in said.calls
        }
    open_pairs = _running_calls(seen.before)
    for event in seen.events:
        match event:
            case ToolExecutionStart(call_id=call_id):
                assert call_id in waiting
                waiting.remove(call_id)
                open_pairs.add(call_id)
            case ToolExecutionEnd(call_id=call_id):
                assert call_id in open_pairs
                open_pairs.remove(call_id)
            case ToolKilled(call_id=call_id):
                assert call_id in open_pairs
            case _:  # no event about a call that runs
                pass
    assert waiting == unstarted_calls(seen.after)
    assert open_pairs == _running_calls(seen.after)


def event_numbers_are_dense(seen: Seen) -> None:
    """Committed events count on by one; an ephemeral event has the number of the committed one before it."""
    number = seen.before.data.seq
    for event in seen.events:
        number += not is_ephemeral(event)
        assert event.meta is not None
        assert event.meta.seq == number
        assert event.meta.ephemeral == is_ephemeral(event)
        assert event.meta.at_ms == seen.signal.at_ms
    assert number == seen.after.data.seq


def _running_calls(state: SessionState) -> set[CallId]:
    """The calls whose start is out and whose end is not; one that is detached has its end behind it."""
    calls = (*state.data.batch, *state.data.survivors)
    return {call.call.call_id for call in calls if call.started and call.result is None and not call.detached}
