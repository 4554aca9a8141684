"""Promises about the conversation: it stays valid, loses no message, and its cycles and events are complete."""

from typing import Final

from msgspec.structs import replace

from agentrail import events as e
from agentrail.core.policy.budget import Ledger
from agentrail.core.policy.request_context import Outgoing, outgoing
from agentrail.core.policy.response_format import Accepted
from agentrail.core.policy.tags import TagReader
from agentrail.core.protocol.actions import CallModel
from agentrail.core.protocol.effects import RunPluginRequest, SpawnChild, StartStream
from agentrail.core.protocol.hooks import BeforeRequest
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortCycle,
    ResponseCompleted,
    StopSession,
    StreamFailed,
    TeardownFinished,
    ToolFinished,
)
from agentrail.core.session import inline_tags
from agentrail.core.session.cycle import format_of
from agentrail.core.session.effect_owners import OfStoppedCall, OfTeardown
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.step_context import is_ephemeral
from agentrail.core.session.views import status_of
from agentrail.messages import AssistantMessage, CallId, Text, ToolMessage, ToolResult, UserMessage
from agentrail.testing.check_dialects import check_dialects
from agentrail.testing.promises.observed_step import Seen, newly_said, plugin_requests_of, unstarted_calls


def history_is_valid(seen: Seen) -> None:
    """Every call has exactly one result, directly after it and in order. Open calls are at the end, while tools run."""
    data = seen.after.data
    expected: tuple[CallId, ...] = ()
    ids: list[CallId] = []
    for message in data.history.messages:
        if isinstance(message, ToolMessage):
            assert expected
            assert tuple(result.call_id for result in message.results) == expected
            assert all(result.text for result in message.results)
            expected = ()
        else:
            assert not expected
            assert message.content
        if isinstance(message, AssistantMessage):
            expected = tuple(call.call_id for call in message.calls)
            assert not (expected and message.cut)
            ids += expected
    assert expected == tuple(call.call_id for call in data.history.open)
    assert len(ids) == len(set(ids))
    assert all(call_id in data.call_ids for call_id in ids)


def history_only_grows(seen: Seen) -> None:
    """Messages are never removed. Only a summary replaces the beginning, and only a late value a result of the last message."""
    was = seen.before.data.history
    now = seen.after.data.history.messages
    removed = sum(event.removed for event in seen.events if isinstance(event, e.CompactEnd))
    if removed:
        kept = was.messages[removed:]
        assert all(new is old for new, old in zip(now[1 : 1 + len(kept)], kept, strict=True))
        return
    assert len(now) >= len(was)
    late = {event.call_id: event.result for event in seen.events if isinstance(event, e.ToolTookEffect)}
    for new, old in zip(now, was.messages, strict=False):
        if late and old is was.messages[-1] and isinstance(old, ToolMessage) and isinstance(new, ToolMessage):
            pairs = zip(new.results, old.results, strict=True)
            assert all(
                one is other or (other.is_error and one == late.get(one.call_id)) for one, other in pairs
            )
        else:
            assert new is old


def late_values_are_read(seen: Seen) -> None:
    """The late value of a stopped call is published, and is part of the next request."""
    told = {event.call_id for event in seen.events if isinstance(event, e.ToolTookEffect)}
    match seen.signal:
        case TeardownFinished(values=values, effect_id=effect_id):
            is_open = isinstance(seen.before.data.open.get(effect_id), OfTeardown)
            values = values if is_open else ()
        case ToolFinished(value=value, effect_id=effect_id):
            owner = seen.before.data.open.get(effect_id)
            values = (
                (replace(value, call_id=owner.call_id),)
                if value is not None and isinstance(owner, OfStoppedCall)
                else ()
            )
        case _:
            values = ()
    assert told == {value.call_id for value in values}
    if values:
        data = seen.after.data
        last = data.history.messages[max(len(seen.before.data.history) - 1, 0) :]
        results = [one for message in last if isinstance(message, ToolMessage) for one in message.results]
        results += [call.result for call in data.batch if call.result is not None]
        said = [one for message in last if isinstance(message, UserMessage) for one in message.content]
        words = [one.text for one in (*results, *said) if isinstance(one, Text | ToolResult)] + list(
            data.notes
        )
        assert all(any(value.text in text for text in words) for value in values)


def requests_are_of_a_closed_history(seen: Seen) -> None:
    """A request contains the whole history as models see it, with all calls answered and no teardown running.

    Cycles that ended in a refusal are omitted, and old arguments shortened. Or it contains a replacement from plugins: only those that
    subscribe to `BeforeRequest` can provide one.
    """
    data = seen.after.data
    for start in seen.of(StartStream):
        if start.is_quiet:  # only the beginning, for a summary
            continue
        messages = start.request.messages
        whole = tuple(outgoing(Outgoing(), data.history.messages, data.refused)[1])
        if data.cycle is not None and data.cycle.handed is not None:
            assert data.stack.listeners(BeforeRequest)
            whole = data.cycle.handed
        assert not data.history.open
        assert tuple(messages[: len(whole)]) == whole
        assert len(messages) - len(whole) == (start.request.tool_choice == "none")
        assert data.teardown is None


def requests_speak_every_dialect(seen: Seen) -> None:
    """Any vendor would accept a request: the conversation so far fits every model that may come next."""
    for start in seen.of(StartStream):
        # A format may not support a caller's settings for one cycle: that ends the cycle with its own error.
        check_dialects(replace(start.request, settings=None))


# Cycles.

_LAST_TIME: Final = {"repeat_pattern": 6, "file_loop_abort": 4, "file_loop_warn": 0}


def loops_are_told_or_ended(seen: Seen) -> None:
    """A detected loop aborts the cycle in this step, or the model is notified, unless the cycle is over anyway."""
    loops = [event for event in seen.events if isinstance(event, e.LoopDetected)]
    grown = newly_said(seen)
    notes = [said for said in grown if isinstance(said, UserMessage) and said.origin == "note"]
    # Messages that agents sent meanwhile follow it.
    notes = notes[:1] if seen.before.data.agents.notes else notes
    ends = any(loop.count == _LAST_TIME[loop.type] for loop in loops)
    if ends:
        assert any(isinstance(event, e.AgentAbort) for event in seen.events)
    elif loops and not any(type(event) in e.TERMINAL for event in seen.events):
        (note,) = notes
        assert len(note.content) == len(loops)


def answers_have_the_shape_that_was_asked_for(seen: Seen) -> None:
    """No cycle finishes with an answer of another shape. The model has at most one turn to correct one."""
    data, was = seen.after.data, seen.before.data.cycle
    wanted = format_of(data)
    if data.cycle is not None and data.cycle.repaired:
        assert wanted is not None
    if was is not None and was.repaired and data.cycle is not None and data.cycle.ref == was.ref:
        assert data.cycle.repaired
    wanted = format_of(seen.before.data)
    for end in (event for event in seen.events if isinstance(event, e.AgentEnd)):
        if wanted is not None and end.stop_reason not in {"not_resumed", "superseded"}:
            assert data.last is not None
            assert isinstance(wanted.check(data.last.text, repaired=True), Accepted)


def what_was_cut_off_is_booked_whole(seen: Seen) -> None:
    """A request without its final usage counts as reserved: its server may charge for all of it."""
    ledger, was, stream = seen.after.data.ledger, seen.before.data.ledger, seen.before.data.stream
    compaction = seen.before.data.compaction
    if ledger is None or was is None:
        return
    if stream is not None and not stream.pausing:
        _expect_booked(seen, was, ledger, stream.effect_id)
    elif compaction is not None and compaction.summary is None:
        _expect_booked(seen, was, ledger, compaction.effect_id)


def _expect_booked(seen: Seen, was: Ledger, ledger: Ledger, out: EffectId) -> None:
    held = [bound for name, bound in was.open if name.rpartition("/")[2] == out]
    if not held or any(name.rpartition("/")[2] == out for name, _ in ledger.open):
        return
    match seen.signal:
        case ResponseCompleted(effect_id=told) if told == out:
            return
        case StreamFailed(effect_id=told, usage=usage) if told == out and (
            usage.total or (seen.before.phase is Phase.RUNNING and usage.cost_usd is not None)
        ):
            return
        case _:
            assert ledger.spent_tokens >= was.spent_tokens + held[0].tokens
            assert ledger.spent_nano_usd >= was.spent_nano_usd + held[0].nano_usd


def a_budget_is_never_passed_by_a_promise(seen: Seen) -> None:
    """Each open request has one reservation, and no request can exceed a limit. Booked amounts stay booked."""
    ledger, was, data = seen.after.data.ledger, seen.before.data.ledger, seen.after.data
    assert ledger is not None or data.config.budget is None
    if ledger is None or was is None:
        return
    held = {reservation.rpartition("/")[2] for reservation, _ in ledger.open}
    out = {data.stream.effect_id} if data.stream is not None and not data.stream.pausing else set()
    if data.compaction is not None and data.compaction.summary is None:  # a summary may be empty
        out |= {data.compaction.effect_id}
    assert out | set(data.loans) <= held
    of_agents = {agent.loan for agent in data.agents.states if agent.loan is not None}
    assert of_agents <= held
    assert held <= out | set(data.loans) | set(plugin_requests_of(seen.after)) | of_agents
    assert ledger.spent_tokens >= was.spent_tokens
    assert ledger.spent_nano_usd >= was.spent_nano_usd
    assert all(spawned.budget is not None for spawned in seen.of(SpawnChild))
    assert not data.wishes or ledger.open, "a tool waits for a share, but no share is lent out"
    limit = ledger.budget.max_total_tokens
    asked = [
        plugin_request
        for plugin_request in seen.of(RunPluginRequest)
        if isinstance(plugin_request.wanted, CallModel)
    ]
    assert all(plugin_request.refused or plugin_request.effect_id in held for plugin_request in asked)
    reserved = any(start.request.attempt in held for start in seen.of(StartStream)) or seen.of(SpawnChild)
    if limit is not None and (reserved or any(not plugin_request.refused for plugin_request in asked)):
        assert ledger.spent_tokens + sum(bound.tokens for _, bound in ledger.open) <= limit


# Events.


def people_see_what_is_said_without_tags(seen: Seen) -> None:
    """Deltas add up to the text without its tags, despite buffering. An end without a failure also releases the buffered part."""
    was, now = seen.before.data.stream, seen.after.data.stream
    deltas = "".join(event.delta for event in seen.events if isinstance(event, e.MessageDelta))
    if was is now:  # no text, or no stream
        assert not deltas
        return
    shown = inline_tags.visible_so_far(was, seen.before.data.config) if was is not None else ""
    if was is not None and now is not None and was.effect_id == now.effect_id:
        assert shown + deltas == inline_tags.visible_so_far(now, seen.after.data.config)
        assert now.reader == TagReader().fed("".join(now.text))[0]
    elif was is not None and isinstance(seen.signal, AbortCycle | StopSession):
        assert shown + deltas == inline_tags.visible_text("".join(was.text), seen.before.data.config)
    elif was is not None and isinstance(seen.signal, ResponseCompleted):
        whole = inline_tags.visible_text("".join(was.text), seen.before.data.config)
        assert shown + deltas in (whole, shown)  # an empty response is withdrawn
    else:
        assert not deltas


def cycles_have_one_terminal_event(seen: Seen) -> None:
    """Exactly one of AgentEnd, AgentAbort, AgentError follows an AgentStart, and names the same prompt.

    An AgentAbort without a cycle is published in idle, or for a refused prompt, possibly directly after the previous cycle.
    """
    rejected = 0
    running = seen.before.data.cycle.ref if seen.before.data.cycle else None
    idle = seen.before.data.cycle is None
    for event in seen.events:
        if isinstance(event, e.AgentStart):
            assert running is None
            running = event.ref
        elif isinstance(event, e.PromptRejected):
            rejected += 1
        elif type(event) in e.TERMINAL:
            assert running is not None or (isinstance(event, e.AgentAbort) and (idle or rejected))
            assert isinstance(event, e.AgentEnd | e.AgentAbort | e.AgentError)
            assert event.ref == running
            running = None
    assert running == (seen.after.data.cycle.ref if seen.after.data.cycle else None)
    # More than one in a step, if the prompt after an ending cycle is refused, or its cycle ends at once.
    starts = sum(isinstance(event, e.AgentStart) for event in seen.events)
    assert sum(type(event) in e.TERMINAL for event in seen.events) <= 1 + starts + rejected


def suspensions_are_said(seen: Seen) -> None:
    """`AgentSuspended` and `AgentResumed` alternate within a cycle, and agree with the status after each step.

    The first lists every pending wait. No cycle ends before the second is published.
    """
    suspended = seen.before.suspended
    for event in seen.events:
        if isinstance(event, e.AgentSuspended):
            assert not suspended
            suspended = True
        elif isinstance(event, e.AgentResumed):
            assert suspended
            suspended = False
        elif type(event) in e.TERMINAL or isinstance(event, e.AgentStart):
            assert not suspended
    assert suspended == seen.after.suspended
    said = [event for event in seen.events if isinstance(event, e.AgentSuspended)]
    if said or seen.before.suspended:  # a status costs more than the rest of this function
        assert suspended == status_of(seen.after.phase, seen.after.data, seen.signal.at_ms).suspended
    assert all(event.waiting for event in said)
    if said and suspended:
        waiting = [(one.id, one.asked.call_id) for one in seen.after.data.interactions]
        assert [(one.id, one.call_id) for one in said[-1].waiting] == waiting


def tool_events_come_in_pairs(seen: Seen) -> None:
    """Each call has one ToolExecutionStart and later one ToolExecutionEnd. A kill is reported between them."""
    waiting = unstarted_calls(seen.before)
    if isinstance(seen.signal, ResponseCompleted):
        grown = newly_said(seen)
        waiting |= {
            call.call_id for said in grown if isinstance(said, AssistantMessage) for call in said.calls
        }
    open_pairs = _running_calls(seen.before)
    for event in seen.events:
        match event:
            case e.ToolExecutionStart(call_id=call_id):
                assert call_id in waiting
                waiting.remove(call_id)
                open_pairs.add(call_id)
            case e.ToolExecutionEnd(call_id=call_id):
                assert call_id in open_pairs
                open_pairs.remove(call_id)
            case e.ToolKilled(call_id=call_id):
                assert call_id in open_pairs
            case _:  # not about a running call
                pass
    assert waiting == unstarted_calls(seen.after)
    assert open_pairs == _running_calls(seen.after)


def event_numbers_are_dense(seen: Seen) -> None:
    """Committed events are numbered consecutively. An ephemeral event has the number of the committed one before it."""
    number = seen.before.data.seq
    for event in seen.events:
        number += not is_ephemeral(event)
        assert event.meta is not None
        assert event.meta.seq == number
        assert event.meta.ephemeral == is_ephemeral(event)
        assert event.meta.at_ms == seen.signal.at_ms
    assert number == seen.after.data.seq


def _running_calls(state: SessionState) -> set[CallId]:
    """The calls whose start was published and whose end was not. A detached call has already ended in this sense."""
    calls = (*state.data.batch, *state.data.survivors)
    return {call.call.call_id for call in calls if call.started and call.result is None and not call.detached}
