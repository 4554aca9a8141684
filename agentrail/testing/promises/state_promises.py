"""Promises about the state: each line of `core/session/state.py` that states a constraint of its field."""

from collections import Counter
from collections.abc import Iterator

from agentrail.core.protocol.effects import End, RunTool, StartStream, stall_timer_of
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import RevokeRule, StepCrashed
from agentrail.core.session import effect_owners, machine
from agentrail.core.session.batch import GOES_ON_BY_ITSELF, MAX_DETACHED
from agentrail.core.session.interactions import MAX_RESOLVED
from agentrail.core.session.receipts import MAX_REMEMBERED
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.step_context import is_gathering
from agentrail.core.session.transitions import LEGALITY
from agentrail.events import AgentChanged, SessionEnd
from agentrail.messages import CallId, ToolMessage, UserMessage
from agentrail.testing.promises.observed_step import Seen, comparable, open_effects, teardowns_of


def state_is_as_written(seen: Seen) -> None:
    """Each line of `SessionData` that states a constraint of its field."""
    state, data, was = seen.after, seen.after.data, seen.before.data
    assert bool(data.history.open) == (state.phase is Phase.EXECUTING_TOOLS or state.suspended)
    assert not data.queue or state.phase is not Phase.IDLE or data.teardown is not None or state.suspended
    # Steers that arrived at the end of their cycle are added to a queue that may be full, and so is a prompt that was judged.
    most = data.config.max_prompt_queue + data.config.max_steering_queue
    assert len(data.queue) + len(data.steers) <= most + 1
    assert len(data.steers) <= data.config.max_steering_queue
    assert not data.steers or (data.cycle is not None and not state.suspended)
    assert data.cycle is None or state.phase is not Phase.IDLE or data.batch
    is_preparing = data.compaction is not None or data.held is not None
    assert data.cycle is not None or state.phase is Phase.IDLE or is_preparing
    is_asking = state.phase is Phase.STREAMING or (
        state.phase is Phase.RUNNING and not is_preparing and not is_gathering(data)
    )
    assert (data.stream is not None) == is_asking
    assert data.compaction is None or state.phase is Phase.RUNNING
    assert tuple(call.call for call in data.batch) == data.history.open
    assert data.teardown is None or (state.phase is Phase.IDLE and not state.suspended)
    assert len(data.resolved) <= MAX_RESOLVED
    assert len(data.remembered) <= MAX_REMEMBERED
    _hold_rules(seen)
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


def _hold_rules(seen: Seen) -> None:
    """A rule is removed when a user revokes it, and no other is removed with it. No two rules cover the same calls."""
    rules = seen.after.data.rules
    for gone in seen.before.data.rules - rules:
        assert isinstance(seen.signal, RevokeRule)
        revoked = seen.signal
        assert gone.breaks == (revoked.breakpoint == "end")
        family = None if gone.breaks else revoked.command_family
        assert (gone.tool, gone.family, gone.exact) == (
            revoked.tool,
            family,
            revoked.exact and not gone.breaks,
        )
    assert len({(one.tool, one.family, one.exact, one.breaks) for one in rules}) == len(rules)


def hold_is_as_written(seen: Seen) -> None:
    """`SuspendedHook`: a prompt is held before its cycle or next to a suspended one, a batch and an end in their own cycle."""
    state, data, held = seen.after, seen.after.data, seen.after.data.held
    if held is not None:
        assert held.outcome.waiting is not None
        assert isinstance(data.open.get(held.effect_id), effect_owners.OfHeldHook)
        assert sum(one is not None for one in (held.prompt, held.stop_reason, held.notes)) == 1
        assert held.notes is None or not data.batch
        before_one = data.cycle is None and state.phase is Phase.RUNNING
        in_one = data.cycle is not None and state.phase is Phase.RUNNING
        assert in_one if held.prompt is None else before_one or state.suspended
        assert data.compaction is None


def owners_are_as_written(seen: Seen) -> None:
    """Each id in `open` is named by the field that its owner describes, and each id named by a field is in `open`."""
    data = seen.after.data
    named: dict[EffectId | None, effect_owners.Owner] = {}
    if data.stream is not None and data.stream.pausing:
        named[data.stream.effect_id] = effect_owners.OfPause()
    elif data.stream is not None:
        named |= {
            data.stream.effect_id: effect_owners.OfStream(),
            stall_timer_of(data.stream.effect_id): effect_owners.OfStallTimer(),
        }
    if data.compaction is not None and data.compaction.summary is None:
        named[data.compaction.effect_id] = effect_owners.OfSummary()
        named[stall_timer_of(data.compaction.effect_id)] = effect_owners.OfSummaryTimer()
    elif data.compaction is not None:
        named[data.compaction.effect_id] = effect_owners.OfTranscript()
    if data.cycle is not None and data.cycle.context is not None and data.cycle.context.is_open:
        named[data.cycle.context.effect_id] = effect_owners.OfContext()
    named |= {effect_id: effect_owners.OfLoan() for effect_id in data.loans}
    for effect_id, owner in effect_owners.owned_by(data.open, effect_owners.OfChild):
        assert effect_id in data.loans
        assert isinstance(data.open.get(owner.attempt), effect_owners.OfCall | effect_owners.OfSurvivor)
        named[effect_id] = owner
    for call in data.batch:
        call_id = call.call.call_id
        match call.stage:
            case "stopping":
                named[call.effect_id] = effect_owners.OfStoppedCall(call_id)
            case "pausing":
                named[call.effect_id] = effect_owners.OfRetry(call_id)
            case "checking":
                named[call.effect_id] = effect_owners.OfHostCheck(call_id)
            case "reporting":
                named[call.effect_id] = effect_owners.OfHostReport(call_id)
            case _:
                named[call.effect_id] = effect_owners.OfCall(call_id)
    for call in data.survivors:
        call_id = call.call.call_id
        is_stopped = call.stage == "stopping"
        named[call.effect_id] = (
            effect_owners.OfStoppedCall(call_id) if is_stopped else effect_owners.OfSurvivor(call_id)
        )
    named |= {one.timer: effect_owners.OfInteraction(one.id) for one in data.interactions}
    named |= {one.timer: effect_owners.OfAgentWait(one.call_id) for one in data.agents.waits}
    named |= {agent.effect_id: effect_owners.OfAgent(agent.name) for agent in data.agents.alive}
    if data.held is not None:
        named |= {
            data.held.effect_id: effect_owners.OfHeldHook(),
            data.held.timer: effect_owners.OfHoldTimer(),
        }
    if data.teardown is not None:
        named[data.teardown.effect_id] = effect_owners.OfTeardown()
    known = {effect_id: owner for effect_id, owner in named.items() if effect_id is not None}
    # A report of a call in a batch is named by that call. A report of a stopped or surviving call is named by none.
    of_nobody = {
        effect_id
        for effect_id, owner in data.open.items()
        if isinstance(
            owner, effect_owners.OfPluginRequest | effect_owners.OfDrain | effect_owners.OfHostReport
        )
        and effect_id not in known
    }
    assert known == {effect_id: owner for effect_id, owner in data.open.items() if effect_id not in of_nobody}


def calls_are_as_written(seen: Seen) -> None:
    """Each line of `CallState`, of `batch` and of `survivors`, and the limit of running calls."""
    data = seen.after.data
    for call in (*data.batch, *data.survivors):
        assert (call.result is not None) == (call.stage in {"stopping", "reporting", "done"})
        assert call.result is None or call.result.call_id == call.call.call_id
        assert (call.effect_id is not None) == (call.stage not in {"asking", "awaiting", "waiting", "done"})
        assert call.started or call.stage in {"checking", "asking", "waiting"}
        assert call.check is not None or call.stage != "checking"
        assert call.stage != "checking" or "before_tool" in data.config.host_hooks
        assert call.stage != "reporting" or "after_tool" in data.config.host_hooks
    assert not data.batch or any(call.stage != "done" for call in data.batch)
    asking = [call.call.call_id for call in data.batch if call.stage == "asking"]
    of_calls = [one.asked.call_id for one in data.interactions if one.asker is None]
    assert Counter(of_calls) == Counter(asking)
    of_tools = {one.asked.call_id for one in data.interactions if one.asker is not None}
    assert of_tools <= {call.call.call_id for call in data.batch if call.stage == "running"}
    awaiting = [call.call.call_id for call in data.batch if call.stage == "awaiting"]
    assert Counter(wait.call_id for wait in data.agents.waits) == Counter(awaiting)
    if seen.after.suspended:
        assert {call.stage for call in data.batch} <= {"asking", "done"}
    elif data.batch:
        assert any(call.stage in GOES_ON_BY_ITSELF for call in data.batch)
    assert all(call.stage in {"running", "stopping"} for call in data.survivors)
    answered = {call.call.call_id for call in data.batch if call.stage in {"reporting", "done"}}
    answered |= set(_answered_calls(seen.after))
    # Of earlier survivors, a compaction may have removed the call and its answer from the history.
    answered |= {call.call.call_id for call in seen.before.data.survivors}
    assert {call.call.call_id for call in data.survivors} <= answered
    assert not any(call.detached for call in data.batch)
    assert sum(call.detached and call.stage == "running" for call in data.survivors) <= MAX_DETACHED
    running = sum(call.stage in {"running", "stopping"} for call in data.batch)
    taken = running + sum(not call.detached for call in data.survivors)
    limit = data.config.max_parallel_tools
    assert taken <= limit or running <= 1 or not seen.of(RunTool)
    if any(call.stage == "waiting" for call in data.batch):
        assert running >= 1
        assert taken >= limit


def agents_are_as_written(seen: Seen) -> None:
    """Each line of `AgentState` and `Agents`. No name is ever reused, and no ended agent returns."""
    state, team, was = seen.after, seen.after.data.agents, seen.before.data.agents
    names = [agent.name for agent in team.states]
    assert len(set(names)) == len(names)
    assert set(names) <= set(team.names)
    assert set(was.names) <= set(team.names)
    acting, acted = state.data.acting, seen.before.data.acting
    changes = [event for event in seen.events if isinstance(event, AgentChanged)]
    assert [(acted.name, acting.name)] * len(changes) == [(one.from_agent, one.to_agent) for one in changes]
    assert changes or (acting.name, acting.prompt) == (acted.name, acted.prompt)
    assert acting.next != acting.name or acting.next is None
    # Before a request, and after all calls of its batch have ended.
    assert not changes or not state.data.batch
    assert acting.next is None or all(start.is_quiet for start in seen.of(StartStream))
    limits = state.data.config.agent_limits
    assert len(team.alive) <= limits.max_agents
    assert team.started <= limits.max_agents_total
    for agent in team.states:
        assert not agent.inputs or agent.status == "working"
        assert (agent.reason is not None) == (agent.status == "ended")
        assert agent.outcome is not None or agent.status != "idle"
        assert agent.loan is None or agent.status in {"working", "closing", "stopping"}
        before = was.find(agent.name)
        assert before is None or before.status != "ended" or agent == before
    waited_for = {name for wait in team.waits for name in wait.names}
    assert waited_for <= set(team.names)
    assert not state.ended or not team.waits
    # A fulfilled wait is answered in the step that fulfils it.
    for wait in team.waits:
        assert (wait.until == "time") == (not wait.names)
        if wait.until == "time":
            assert wait.timer is not None
            continue
        states = [team.find(name) for name in wait.names]
        done = {"ended"} if wait.until == "closed" else {"ended", "idle"}
        met = [agent is None or agent.status in done for agent in states]
        assert not (any(met) if wait.match == "any" else all(met))


def cycle_is_as_written(seen: Seen) -> None:
    """Each line of `Cycle` and `Stream`."""
    data = seen.after.data
    if data.cycle is not None:
        assert 1 <= data.cycle.turn <= data.config.max_turns
        # A summary may replace the beginning of a long cycle.
        mine = (*data.cycle.earlier, *data.history.since(data.cycle.first_message))
        assert [said.ref for said in mine if isinstance(said, UserMessage) and said.origin == "prompt"] == [
            *(() if data.cycle.goes_on else (data.cycle.ref,))
        ]
        assert data.cycle.usage.total <= data.usage.total
        assert data.cycle.resume or data.batch
        if data.stream is not None:
            is_last = data.cycle.turn == data.config.max_turns
            assert data.stream.last_turn == (is_last and data.config.on_max_turns == "answer")
            assert seen.after.phase is Phase.STREAMING or not data.stream.text
            assert seen.after.phase is Phase.RUNNING or not data.stream.pausing


def _answered_calls(state: SessionState) -> Iterator[CallId]:
    for message in state.data.history.messages:
        if isinstance(message, ToolMessage):
            yield from (result.call_id for result in message.results)


# Steps.


def the_same_again_gives_the_same(seen: Seen) -> None:
    """Repeating a step from the old state gives the same result, although newer states now share its conversation."""
    after, effects = machine.step(seen.before, seen.signal)
    assert after == seen.after
    assert list(map(comparable, effects)) == list(map(comparable, seen.effects))


def steps_follow_the_table(seen: Seen) -> None:
    """A step ends in one of the phases that the table lists for its signal and its starting phase."""
    if not seen.before.ended:
        cell = LEGALITY[type(seen.signal)][seen.before.phase]
        assert seen.after.phase in cell.followed_by


def the_end_is_the_end(seen: Seen) -> None:
    """End is the last effect, after SessionEnd. Then no effect is open, and no further step has an effect."""
    if seen.before.ended:
        assert seen.after is seen.before
        assert seen.effects == ()
        return
    ends = [position for position, effect in enumerate(seen.effects) if isinstance(effect, End)]
    assert ends == ([len(seen.effects) - 1] if seen.after.ended else [])
    assert [type(event) for event in seen.events].count(SessionEnd) == seen.after.ended
    if seen.after.ended:
        assert isinstance(seen.events[-1], SessionEnd)
        assert not open_effects(seen.after)
        assert not seen.after.postponed
