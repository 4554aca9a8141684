"""Cycles end: by an answer of the shape that was asked for, within their budget, and not in a loop."""

from typing import Final

from agentrail.core.policy.budget import Ledger
from agentrail.core.policy.response_format import Accepted
from agentrail.core.protocol.actions import CallModel
from agentrail.core.protocol.effects import RunPluginRequest, SpawnChild, StartStream
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ResponseCompleted, StreamFailed
from agentrail.core.session.cycle import format_of
from agentrail.core.session.state import Phase
from agentrail.events import TERMINAL, AgentAbort, AgentEnd, LoopDetected
from agentrail.messages import UserMessage
from agentrail.testing.promises.seen import Seen, newly_said, plugin_requests_of

_LAST_TIME: Final = {"repeat_pattern": 6, "file_loop_abort": 4, "file_loop_warn": 0}


def loops_are_told_or_ended(seen: Seen) -> None:
    """A loop that is noticed aborts the cycle in this step, or the model is told, unless the cycle is over anyway."""
    loops = [event for event in seen.events if isinstance(event, LoopDetected)]
    grown = newly_said(seen)
    notes = [said for said in grown if isinstance(said, UserMessage) and said.origin == "note"]
    # What agents said meanwhile comes behind it.
    notes = notes[:1] if seen.before.data.agents.notes else notes
    ends = any(loop.count == _LAST_TIME[loop.type] for loop in loops)
    if ends:
        assert any(isinstance(event, AgentAbort) for event in seen.events)
    elif loops and not any(type(event) in TERMINAL for event in seen.events):
        (note,) = notes
        assert len(note.content) == len(loops)


def answers_have_the_shape_that_was_asked_for(seen: Seen) -> None:
    """No cycle finishes with an answer of another shape; the model has one turn at most to put one right."""
    data, was = seen.after.data, seen.before.data.cycle
    wanted = format_of(data)
    if data.cycle is not None and data.cycle.repaired:
        assert wanted is not None
    if was is not None and was.repaired and data.cycle is not None and data.cycle.ref == was.ref:
        assert data.cycle.repaired
    wanted = format_of(seen.before.data)
    for end in (event for event in seen.events if isinstance(event, AgentEnd)):
        if wanted is not None and end.stop_reason not in {"not_resumed", "superseded"}:
            assert data.last is not None
            assert isinstance(wanted.check(data.last.text, repaired=True), Accepted)


def what_was_cut_off_is_booked_whole(seen: Seen) -> None:
    """A request whose final usage does not come counts as it was reserved: its server may charge for all of that."""
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
    """What is out has one reservation, and no request goes out that could pass a limit; what is booked stays booked."""
    ledger, was, data = seen.after.data.ledger, seen.before.data.ledger, seen.after.data
    assert (ledger is None) == (data.config.budget is None)
    if ledger is None or was is None:
        return
    held = {reservation.rpartition("/")[2] for reservation, _ in ledger.open}
    out = {data.stream.effect_id} if data.stream is not None and not data.stream.pausing else set()
    out |= (
        {data.compaction.effect_id} if data.compaction is not None and not data.compaction.summary else set()
    )
    assert out | set(data.loans) <= held
    of_agents = {agent.loan for agent in data.agents.states if agent.loan is not None}
    assert of_agents <= held
    assert held <= out | set(data.loans) | set(plugin_requests_of(seen.after)) | of_agents
    assert ledger.spent_tokens >= was.spent_tokens
    assert ledger.spent_nano_usd >= was.spent_nano_usd
    assert all(spawned.budget is not None for spawned in seen.of(SpawnChild))
    assert not data.wishes or ledger.open, "a tool waits for a share, and nothing is out that could come back"
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
