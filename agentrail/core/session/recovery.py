"""Recovery in another process: the fate of each open effect is decided once and published.

`_decision` is the table of decisions, one arm for each owner: the type checker makes the author of a new owner
decide.
"""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from msgspec.structs import replace

from agentrail.core.policy.budget import NOTHING_SPENT, Spent
from agentrail.core.protocol.effects import ResumeChild
from agentrail.core.protocol.hooks import SessionStarted
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signals import Recovered
from agentrail.core.session import (
    agent_pool,
    batch,
    call_approval,
    call_results,
    compaction_run,
    cycle,
    effect_owners,
    interactions,
    response,
    waiting_hooks,
)
from agentrail.core.session.call_results import OUTCOME_UNKNOWN
from agentrail.core.session.decisions import time_is_up
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.plugin_hooks import ask_plugins, request_again
from agentrail.core.session.reservations import settle_loan, settle_lost_loans
from agentrail.core.session.state import BreakOff, Interaction, Known, Next, Phase, SessionConfig
from agentrail.core.session.step_context import StepContext, forget_context, has_listeners
from agentrail.core.session.teardown import end_at_once, teardown_settled
from agentrail.core.session.views import model_of
from agentrail.errors import ErrorInfo
from agentrail.events import AbortReceipt, RecoveryDecision, SessionParked, SessionRecovered
from agentrail.messages import CallId

MAX_RECOVERIES: Final = 3
"""Recoveries without a new record between them after which a session is left alone: it may be what stops the process."""

NEVER_BEGAN: Final = "[Not run: the process stopped before this began]"


def is_left_alone(data: Known, signal: Recovered) -> bool:
    """Return whether a session is left as it is: after so many failed recoveries, it may be what stops the process."""
    return bool(data.open) and signal.attempt >= MAX_RECOVERIES


def recovered(step: StepContext, phase: Phase, signal: Recovered) -> Next:
    data = step.data
    if is_left_alone(data, signal):
        reason = f"{signal.attempt} recoveries in a row, the last one after {signal.cause!r}, and no new record in between"
        step.publish(SessionParked(reason=reason))
        return phase
    data.semantics = max(data.semantics, signal.semantics)
    if signal.gathers_context is not None:
        data.config = replace(data.config, gathers_context=signal.gathers_context)
    if signal.models:
        step.data.model, step.data.config = with_models(step.data, signal.models)
    begun = frozenset(signal.open)
    requests = tuple(effect_owners.owned_by(data.open, effect_owners.OfPluginRequest))
    step.publish(SessionRecovered(decisions=tuple(decisions_of(data, begun, step.at_ms))))
    if has_listeners(step, SessionStarted):
        abort = ask_plugins(step, SessionStarted(recovered=True)).abort
        if abort is not None:
            reason = f"refused by a plugin: {abort}"
            return end_at_once(step, reason, ErrorInfo(code="aborted", message=reason))
    expired = tuple(one for one in data.interactions if _is_expired(one, step.at_ms))
    _forget_what_stopped(step, signal.spent)
    for state in data.survivors:
        _recover_survivor(step, state, begun)
    for state in data.batch:
        _recover_call(step, state, begun)
    for effect_id, owner in tuple(data.open.items()):
        if isinstance(owner, effect_owners.OfAgent | effect_owners.OfAgentWait):
            step.ended(effect_id)
    agent_pool.restart_all(step)  # each agent was restored before this session
    if data.teardown is not None:
        step.ended(data.teardown.effect_id)
        teardown_settled(step, AbortReceipt())
    if data.stopping is None:  # a stopping session ends with this step, so nothing starts in it
        call_approval.take_host_hooks(step, signal.host_hooks)
        for effect_id, asked in (one for one in requests if one[0] in step.data.open):
            request_again(step, effect_id, asked)
    interactions.rearm(step, expired)
    return _go_on(step, phase, expired)


def decisions_of(data: Known, begun: frozenset[EffectId], at_ms: int) -> Iterator[RecoveryDecision]:
    for effect_id, owner in sorted(data.open.items(), key=lambda entry: int(entry[0][1:])):
        decision = _decision(data, effect_id, owner, has_begun=effect_id in begun, at_ms=at_ms)
        if decision is not None:
            yield decision
    for interaction in data.interactions:
        if interaction.timer is None:
            yield _of_interaction(interaction, at_ms)
    held = data.held.prompt if data.held is not None else None
    for prompt in (*(() if held is None else (held,)), *data.queue):
        yield RecoveryDecision(open="prompt", id=prompt.ref, decision="kept")
    for steer in data.steers:
        yield RecoveryDecision(open="steer", id=steer.ref, decision="kept")


def _decision(
    data: Known, effect_id: EffectId, owner: effect_owners.Owner, *, has_begun: bool, at_ms: int
) -> RecoveryDecision | None:
    match owner:
        case effect_owners.OfStream():
            model = data.stream.model if data.stream is not None else ""
            return RecoveryDecision(open="request", id=effect_id, name=model, decision="sent_again")
        case effect_owners.OfSummary():
            name = model_of(data).model
            return RecoveryDecision(open="request", id=effect_id, name=name, decision="sent_again")
        case effect_owners.OfStallTimer() | effect_owners.OfSummaryTimer() | effect_owners.OfHoldTimer():
            return None
        case effect_owners.OfPause():
            return RecoveryDecision(open="timer", id=effect_id, decision="kept")
        case effect_owners.OfRetry(call_id):
            name = _name_of(data, call_id)
            return RecoveryDecision(open="timer", id=effect_id, name=name, decision="kept")
        case effect_owners.OfTranscript():
            return RecoveryDecision(open="plugin_request", id=effect_id, decision="run_again")
        case effect_owners.OfPluginRequest(by=by, wanted=wanted):
            return RecoveryDecision(
                open="plugin_request",
                id=effect_id,
                name=by,
                decision="given_up" if wanted is None or data.stopping is not None else "run_again",
            )
        case effect_owners.OfContext():
            return RecoveryDecision(open="context", id=effect_id, decision="sent_again")
        case effect_owners.OfHeldHook():
            waiting = data.held.outcome.waiting if data.held is not None else None
            by = waiting.plugin_request.by if waiting is not None else ""
            return RecoveryDecision(open="plugin_request", id=effect_id, name=by, decision="run_again")
        case effect_owners.OfCall(call_id):
            state = data.batch.find(call_id)
            assert state is not None  # noqa: S101 - the owner of an open effect has its call
            return _of_call(data, state, has_begun=has_begun)
        case effect_owners.OfSurvivor(call_id):
            survivor = next(one for one in data.survivors if one.call.call_id == call_id)
            return _of_survivor(data, survivor, has_begun=has_begun)
        case effect_owners.OfStoppedCall(call_id):
            name = _name_of(data, call_id)
            return RecoveryDecision(open="tool", id=call_id, name=name, decision="given_up")
        case effect_owners.OfHostCheck(call_id):
            name = _name_of(data, call_id)
            return RecoveryDecision(open="host", id=call_id, name=name, decision="sent_again")
        case effect_owners.OfHostReport(call_id):
            name = _name_of(data, call_id)
            return RecoveryDecision(open="host", id=call_id, name=name, decision="given_up")
        case effect_owners.OfChild() | effect_owners.OfLoan():
            return RecoveryDecision(open="child", id=effect_id, decision="given_up")
        case effect_owners.OfAgent(name):
            return RecoveryDecision(open="child", id=effect_id, name=name, decision="resumed")
        case effect_owners.OfAgentWait(call_id):
            name = _name_of(data, call_id)
            return RecoveryDecision(open="timer", id=effect_id, name=name, decision="kept")
        case effect_owners.OfInteraction(interaction_id):
            asked = next(one for one in data.interactions if one.id == interaction_id)
            return _of_interaction(asked, at_ms)
        case effect_owners.OfDrain() | effect_owners.OfTeardown():
            return RecoveryDecision(open="teardown", id=effect_id, decision="given_up")
        case _ as never:
            assert_never(never)


def _of_survivor(data: Known, state: CallState, *, has_begun: bool) -> RecoveryDecision:
    """Decide about a call that an abort had spared: same as any other, unless the session ends. No child is started for one.

    A detached call is lost, whatever its tool declares.
    """
    if data.stopping is not None or state.detached or (state.wants_child and not has_begun):
        call = state.call
        return RecoveryDecision(open="tool", id=call.call_id, name=call.name, decision="given_up")
    return _of_call(data, state, has_begun=has_begun)


def _of_call(data: Known, state: CallState, *, has_begun: bool) -> RecoveryDecision:
    """Decide about a running call by its tool's effect class, if it has begun."""
    call = state.call
    if call_results.began_before_drift(data, state) and not (state.wants_child and has_begun):
        return RecoveryDecision(open="tool", id=call.call_id, name=call.name, decision="unknown")
    if not has_begun:
        return RecoveryDecision(open="tool", id=call.call_id, name=call.name, decision="begun")
    if state.wants_child:
        return RecoveryDecision(open="child", id=call.call_id, name=call.name, decision="resumed")
    match state.spec.effect_class if state.spec is not None else "once":
        case "pure" | "idempotent":
            return RecoveryDecision(open="tool", id=call.call_id, name=call.name, decision="run_again")
        case "reconcilable":
            return RecoveryDecision(open="tool", id=call.call_id, name=call.name, decision="asked")
        case "once":
            return RecoveryDecision(open="tool", id=call.call_id, name=call.name, decision="unknown")
        case _ as never:
            assert_never(never)


def _of_interaction(asked: Interaction, at_ms: int) -> RecoveryDecision:
    """Decide about a pending interaction. The question of a running tool ends with the tool."""
    if asked.asker is not None:
        return RecoveryDecision(open="question", id=asked.id, decision="given_up")
    return RecoveryDecision(
        open=interactions.kind_of_interaction(asked),
        id=asked.id,
        decision="expired" if _is_expired(asked, at_ms) else "kept",
    )


# --- applying the decisions


def with_models(data: Known, models: Sequence[ModelFacts]) -> tuple[ModelFacts, SessionConfig]:
    """Return the model and the configuration of a session, with these facts wherever one of these models is named."""
    config, now = data.config, {one.model: one for one in models}

    def described(one: ModelFacts) -> ModelFacts:
        return now.get(one.model, one)

    agents = [replace(one, model=one.model and described(one.model)) for one in config.agents]
    fallbacks = tuple(map(described, config.fallbacks))
    config = replace(config, model=described(config.model), fallbacks=fallbacks, agents=tuple(agents))
    return described(data.model), config


def _forget_what_stopped(step: StepContext, spent: Sequence[Spent]) -> None:
    """Stop waiting for stopped work, and for children of tools or of abandoned calls: all of it is lost."""
    data = step.data
    for effect_id, _ in effect_owners.owned_by(data.open, effect_owners.OfDrain):
        step.ended(effect_id)
    gone = (
        effect_owners.OfStoppedCall,
        effect_owners.OfHostReport,
        effect_owners.OfChild,
        effect_owners.OfLoan,
    )
    lost = {effect_id: owner for effect_id, owner in data.open.items() if isinstance(owner, gone)}
    for effect_id in lost:
        step.ended(effect_id)
    settle_lost_loans(step, [one for one in data.loans if one in lost], spent)
    data.survivors = tuple(state for state in data.survivors if state.stage != "stopping")
    for state in data.batch:
        if state.stage in {"stopping", "reporting"}:
            call_results.put(step, replace(state, stage="done", effect_id=None))


def _recover_survivor(step: StepContext, state: CallState, begun: frozenset[EffectId]) -> None:
    if state.stage == "stopping" or state.effect_id is None:
        return
    call_id, has_begun = state.call.call_id, state.effect_id in begun
    decision = _of_survivor(step.data, state, has_begun=has_begun).decision
    if decision == "resumed":
        _resume(step, state, state.effect_id)
        return
    step.ended(state.effect_id)
    settle_loan(step, state.effect_id, None if has_begun else NOTHING_SPENT)
    if state.detached:
        batch.detached_gone(step, state)
        batch.survivor_left(step, call_id)
        return
    if decision in {"unknown", "given_up"}:
        text = OUTCOME_UNKNOWN if has_begun or decision == "unknown" else NEVER_BEGAN
        batch.survivor_ended(step, state, call_results.result_of(state, text))
        return
    anew = batch.run_anew(step, state, has_begun=has_begun)
    if anew.effect_id is None:  # answered: the arguments to run are not those that the user approved
        batch.survivor_left(step, call_id)
        return
    step.hand_over(anew.effect_id, effect_owners.OfSurvivor(call_id))
    step.data.survivors = tuple(anew if one is state else one for one in step.data.survivors)


def _recover_call(step: StepContext, state: CallState, begun: frozenset[EffectId]) -> None:
    if state.stage == "pausing":
        batch.pause_call_anew(step, state)
    if state.stage == "checking":
        call_results.put(step, call_approval.ask_host_anew(step, state))
    if state.stage != "running" or state.effect_id is None:
        return
    has_begun = state.effect_id in begun
    decision = _of_call(step.data, state, has_begun=has_begun).decision
    if decision == "resumed":
        _resume(step, state, state.effect_id)
        return
    interactions.withdraw(step, state.call.call_id)
    step.ended(state.effect_id)
    settle_loan(step, state.effect_id, None if has_begun else NOTHING_SPENT)
    if decision == "unknown":
        call_results.put(step, call_results.answer(step, state, OUTCOME_UNKNOWN)[0])
    elif state.wants_child:  # it gets its share of the budget with its slot
        call_results.put(step, replace(state, stage="waiting", effect_id=None))
    else:
        call_results.put(step, batch.run_anew(step, state, has_begun=has_begun))


def _resume(step: StepContext, state: CallState, effect_id: EffectId) -> None:
    call = state.call
    step.ask(
        ResumeChild(effect_id=effect_id, call_id=call.call_id, name=call.name, child_ids=state.child_ids)
    )


def _go_on(step: StepContext, phase: Phase, expired: tuple[Interaction, ...]) -> Next:
    """Continue the session's work. Expired interactions are decided first, before any new signal."""
    data = step.data
    if forget_context(step):
        return cycle.send_request(step)
    if data.held is not None:
        waiting_hooks.ask_anew(step)
    if data.compaction is not None:
        return _compact(step)
    if data.stream is not None and data.stream.pausing:
        response.pause_request_anew(step)
        return phase
    if data.stream is not None:
        return response.send_anew(step, phase)
    after: Next = phase
    for interaction in expired:
        if isinstance(after, BreakOff):
            return after
        if interaction.id in {one.id for one in step.data.interactions}:
            after = time_is_up(step, after, interaction.id)
    if expired or phase is not Phase.EXECUTING_TOOLS:
        return after
    return batch.continue_batch(step)


def _compact(step: StepContext) -> Next:
    running = step.data.compaction
    assert running is not None  # noqa: S101 - the caller checked it
    if running.summary is not None:
        compaction_run.save_anew(step)
        return Phase.RUNNING
    if compaction_run.summarise_anew(step):
        return Phase.RUNNING
    return cycle.go_on_after_compaction(step, compaction_run.give_up(step))


def _is_expired(interaction: Interaction, at_ms: int) -> bool:
    until = interaction.asked.expires_at_ms
    return until is not None and until <= at_ms and interaction.asker is None


def _name_of(data: Known, call_id: CallId) -> str:
    """Return the tool of a call. Empty for a call whose cycle was aborted while the host was notified."""
    for state in (*data.batch, *data.survivors):
        if state.call.call_id == call_id:
            name: str = state.call.name
            return name
    return ""
