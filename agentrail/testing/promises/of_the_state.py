"""The state is as `core/session/state.py` says: each line that names what binds its field."""

from collections import Counter
from collections.abc import Iterator

from agentrail.core.protocol.effects import RunTool, stall_timer_of
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import StepCrashed
from agentrail.core.session.batch import GOES_ON_BY_ITSELF
from agentrail.core.session.interactions import MAX_RESOLVED
from agentrail.core.session.owners import (
    OfCall,
    OfChild,
    OfDrain,
    OfHeldHook,
    OfHoldTimer,
    OfInteraction,
    OfLoan,
    OfPause,
    OfPluginRequest,
    OfRetry,
    OfStallTimer,
    OfStoppedCall,
    OfStream,
    OfSummary,
    OfSummaryTimer,
    OfSurvivor,
    OfTeardown,
    OfTranscript,
    Owner,
    owned_by,
)
from agentrail.core.session.receipts import MAX_REMEMBERED
from agentrail.core.session.state import Phase, SessionState
from agentrail.messages import CallId, ToolMessage, UserMessage
from agentrail.testing.promises.seen import Seen, teardowns_of


def state_is_as_written(seen: Seen) -> None:
    """Each line of `SessionData` that names what binds its field."""
    state, data, was = seen.after, seen.after.data, seen.before.data
    assert bool(data.history.open) == (state.phase is Phase.EXECUTING_TOOLS or state.suspended)
    assert not data.queue or state.phase is not Phase.IDLE or data.teardown is not None or state.suspended
    # Steers that met the end of their cycle come on top of a queue that may be full, and so does a prompt that was judged.
    most = data.config.max_prompt_queue + data.config.max_steering_queue
    assert len(data.queue) + len(data.steers) <= most + 1
    assert len(data.steers) <= data.config.max_steering_queue
    assert not data.steers or (data.cycle is not None and not state.suspended)
    assert data.cycle is None or state.phase is not Phase.IDLE or data.batch
    is_preparing = data.compaction is not None or data.held is not None
    assert data.cycle is not None or state.phase is Phase.IDLE or is_preparing
    is_asking = state.phase is Phase.STREAMING or (state.phase is Phase.RUNNING and not is_preparing)
    assert (data.stream is not None) == is_asking
    assert data.compaction is None or state.phase is Phase.RUNNING
    assert tuple(call.call for call in data.batch) == data.history.open
    assert data.teardown is None or (state.phase is Phase.IDLE and not state.suspended)
    assert len(data.resolved) <= MAX_RESOLVED
    assert len(data.remembered) <= MAX_REMEMBERED
    assert data.rules >= was.rules
    assert data.stopping is None or teardowns_of(state) or state.ended
    assert not data.stoppers or data.stopping is not None
    assert data.last is not None or was.last is None
    assert data.usage.input >= was.usage.input
    assert data.usage.output >= was.usage.output
    assert data.minted >= was.minted
    assert data.dropped >= was.dropped
    assert data.quarantined - was.quarantined == isinstance(seen.signal, StepCrashed) * (
        not seen.before.ended
    )
    assert data.incarnation >= was.incarnation


def hold_is_as_written(seen: Seen) -> None:
    """Each line of `SuspendedHook`: a prompt is held before its cycle, or beside one that is suspended; an end in its own cycle."""
    state, data, held = seen.after, seen.after.data, seen.after.data.held
    if held is not None:
        assert held.outcome.waiting is not None
        assert isinstance(data.open.get(held.effect_id), OfHeldHook)
        assert (held.prompt is None) == (held.stop_reason is not None)
        before_one = data.cycle is None and state.phase is Phase.RUNNING
        in_one = data.cycle is not None and state.phase is Phase.RUNNING
        assert in_one if held.prompt is None else before_one or state.suspended
        assert data.compaction is None


def owners_are_as_written(seen: Seen) -> None:
    """Each id in `open` is one that a field names, and its owner says what that field is; and each that one names is in it."""
    data = seen.after.data
    named: dict[EffectId | None, Owner] = {}
    if data.stream is not None and data.stream.pausing:
        named[data.stream.effect_id] = OfPause()
    elif data.stream is not None:
        named |= {data.stream.effect_id: OfStream(), stall_timer_of(data.stream.effect_id): OfStallTimer()}
    if data.compaction is not None and data.compaction.summary is None:
        named[data.compaction.effect_id] = OfSummary()
        named[stall_timer_of(data.compaction.effect_id)] = OfSummaryTimer()
    elif data.compaction is not None:
        named[data.compaction.effect_id] = OfTranscript()
    named |= {effect_id: OfLoan() for effect_id in data.loans}
    for effect_id, owner in owned_by(data.open, OfChild):
        assert effect_id in data.loans
        assert isinstance(data.open.get(owner.attempt), OfCall | OfSurvivor)
        named[effect_id] = owner
    for call in data.batch:
        call_id = call.call.call_id
        match call.stage:
            case "stopping":
                named[call.effect_id] = OfStoppedCall(call_id)
            case "pausing":
                named[call.effect_id] = OfRetry(call_id)
            case _:
                named[call.effect_id] = OfCall(call_id)
    for call in data.survivors:
        call_id = call.call.call_id
        is_stopped = call.stage == "stopping"
        named[call.effect_id] = OfStoppedCall(call_id) if is_stopped else OfSurvivor(call_id)
    named |= {one.timer: OfInteraction(one.id) for one in data.interactions}
    if data.held is not None:
        named |= {data.held.effect_id: OfHeldHook(), data.held.timer: OfHoldTimer()}
    if data.teardown is not None:
        named[data.teardown.effect_id] = OfTeardown()
    of_nobody = {
        effect_id for effect_id, owner in data.open.items() if isinstance(owner, OfPluginRequest | OfDrain)
    }
    known = {effect_id: owner for effect_id, owner in named.items() if effect_id is not None}
    assert known == {effect_id: owner for effect_id, owner in data.open.items() if effect_id not in of_nobody}


def calls_are_as_written(seen: Seen) -> None:
    """Each line of `CallState`, of `batch` and of `survivors`, and how many may run."""
    data = seen.after.data
    for call in (*data.batch, *data.survivors):
        assert (call.result is not None) == (call.stage in {"stopping", "done"})
        assert call.result is None or call.result.call_id == call.call.call_id
        assert (call.effect_id is not None) == (call.stage in {"pausing", "running", "stopping"})
        assert call.started or call.stage in {"asking", "waiting"}
    assert not data.batch or any(call.stage != "done" for call in data.batch)
    asking = [call.call.call_id for call in data.batch if call.stage == "asking"]
    of_calls = [one.asked.call_id for one in data.interactions if one.asker is None]
    assert Counter(of_calls) == Counter(asking)
    of_tools = {one.asked.call_id for one in data.interactions if one.asker is not None}
    assert of_tools <= {call.call.call_id for call in data.batch if call.stage == "running"}
    if seen.after.suspended:
        assert {call.stage for call in data.batch} <= {"asking", "done"}
    elif data.batch:
        assert any(call.stage in GOES_ON_BY_ITSELF for call in data.batch)
    assert all(call.stage in {"running", "stopping"} for call in data.survivors)
    assert {call.call.call_id for call in data.survivors} <= set(_answered_calls(seen.after))
    running = sum(call.stage in {"running", "stopping"} for call in data.batch)
    taken = running + len(data.survivors)
    limit = data.config.max_parallel_tools
    assert taken <= limit or running <= 1 or not seen.of(RunTool)
    if any(call.stage == "waiting" for call in data.batch):
        assert running >= 1
        assert taken >= limit


def cycle_is_as_written(seen: Seen) -> None:
    """Each line of `Cycle` and `Stream`."""
    data = seen.after.data
    if data.cycle is not None:
        assert 1 <= data.cycle.turn <= data.config.max_turns
        # A summary may stand for the beginning of a long cycle.
        mine = (*data.cycle.earlier, *data.history.since(data.cycle.first_message))
        assert [said.ref for said in mine if isinstance(said, UserMessage) and said.origin == "prompt"] == [
            data.cycle.ref
        ]
        assert data.cycle.usage.total <= data.usage.total
        assert data.cycle.resume or data.batch
        if data.stream is not None:
            assert data.stream.last_turn == (data.cycle.turn == data.config.max_turns)
            assert seen.after.phase is Phase.STREAMING or not data.stream.text
            assert seen.after.phase is Phase.RUNNING or not data.stream.pausing


def _answered_calls(state: SessionState) -> Iterator[CallId]:
    for message in state.data.history.messages:
        if isinstance(message, ToolMessage):
            yield from (result.call_id for result in message.results)
