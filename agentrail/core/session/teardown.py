"""Ends of a cycle from outside: abort, stop, and the recovery after a crash. Each function returns the next phase."""

from typing import Final, TypeAlias

from msgspec.structs import replace

from agentrail.core.protocol.effects import CancelStream, ClearTimer, KillTools, Teardown
from agentrail.core.protocol.hooks import AfterTurn, SessionEnding, SessionStarted
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortCycle,
    KillMode as KillPolicy,
    LateValue,
    Parked,
    Restarted,
    SignalId,
    StopSession,
)
from agentrail.core.session import (
    agent_pool,
    batch,
    call_results,
    compaction_run,
    interactions,
    late_values,
    plugin_hooks,
    waiting_hooks,
)
from agentrail.core.session.batch import STOPPED, continue_batch, into_history, open_batch, stop_call
from agentrail.core.session.cycle import (
    MAX_ASKERS,
    after_turn,
    close_cycle,
    drop_queue,
    fail,
    refuse_askers,
    requeue_steers,
)
from agentrail.core.session.effect_owners import OfDrain, OfPluginRequest, OfSurvivor, OfTeardown, owned_by
from agentrail.core.session.inline_tags import flush
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.plugin_hooks import ask_plugins
from agentrail.core.session.reservations import settle_lost_loans, spend_lost, spend_what_is_out
from agentrail.core.session.state import Ended, Known, Next, Phase, TeardownState
from agentrail.core.session.step_context import StepContext, cancel_gathering, has_listeners, is_gathering
from agentrail.core.session.views import model_of
from agentrail.errors import CycleAborted, ErrorInfo, MailboxFull, SessionDown
from agentrail.events import (
    AbortReceipt,
    AbortSettled,
    AgentAbort,
    PendingClientCall,
    PromptRejected,
    SessionEnd,
    SessionParked,
    SessionRestarted,
    ToolKilled,
)
from agentrail.messages import AssistantMessage, CallId, PromptRef, Text

Stopped: TypeAlias = tuple[tuple[EffectId, ...], tuple[CallId, ...]]
"""Stopped effects, and the calls among them that may have taken effect."""

_CRASHED_WHILE_IT_RAN: Final = "[Outcome unknown: the session crashed while this ran]"
NEVER_RAN: Final = "[Not run: the session crashed before this began]"


def abort(step: StepContext, phase: Phase, signal: AbortCycle) -> Phase:
    """Stop the running cycle in this step, and answer when the stopped work has ended."""
    if signal.ref is not None:
        _part_from_held(step, signal.ref)
        if not _is_at_work(step.data, signal.ref):
            _take_back(step, signal, signal.ref)
            return phase
    committed, unknown = _break_off(step, signal.reason, signal.kill_tools, children=signal.children)
    if step.data.steers:
        requeue_steers(step)
    if signal.clear_queue:
        drop_queue(step, CycleAborted(signal.reason))
    receipt = AbortReceipt(committed=committed, unknown=unknown, survivors=call_results.survivors_of(step))
    if step.data.teardown is None:
        step.publish(AbortSettled(receipt=receipt))
    if not signal.wait:
        step.reply(signal.signal_id, replace(receipt, settled=False))
    elif step.data.teardown is None:
        step.reply(signal.signal_id, receipt)
    elif len(step.data.teardown.waiting) >= MAX_ASKERS:
        step.refuse(signal.signal_id, MailboxFull(f"{MAX_ASKERS} callers already wait for this teardown"))
    else:
        _wait_for_teardown(step, signal.signal_id)
    return Phase.IDLE


def _part_from_held(step: StepContext, ref: PromptRef) -> None:
    """Return a prompt judged during a suspended cycle to the queue, if an abort names only one of the two."""
    cycle, held = step.data.cycle, step.data.held
    if (
        cycle is not None
        and held is not None
        and held.prompt is not None
        and ref in {cycle.ref, held.prompt.ref}
    ):
        waiting_hooks.back_to_queue(step)


def _is_at_work(data: Known, ref: PromptRef) -> bool:
    """Return whether this prompt is active: its cycle runs or is suspended, or plugins are judging it."""
    held = data.held.prompt if data.held is not None else None
    return (data.cycle is not None and data.cycle.ref == ref) or (held is not None and held.ref == ref)


def _take_back(step: StepContext, signal: AbortCycle, ref: PromptRef) -> None:
    """Drop one queued prompt. A prompt that is not queued has ended, and the running work belongs to another."""
    drop_queue(step, CycleAborted(signal.reason), ref)
    step.reply(signal.signal_id, AbortReceipt(survivors=call_results.survivors_of(step)))


def abort_by_plugin(step: StepContext, reason: str) -> Phase:
    """Stop the cycle in the same step, because a plugin requested it."""
    if step.data.cycle is None:
        return Phase.IDLE
    if step.data.history.open and not step.data.batch:
        open_batch(step)
    committed, unknown = _break_off(step, reason, "killable")
    requeue_steers(step)
    if step.data.teardown is None:
        receipt = AbortReceipt(
            committed=committed, unknown=unknown, survivors=call_results.survivors_of(step)
        )
        step.publish(AbortSettled(receipt=receipt))
    return Phase.IDLE


def stop_session(step: StepContext, signal: StopSession) -> Phase:
    data = step.data
    if len(data.stoppers) >= MAX_ASKERS:
        step.refuse(signal.signal_id, MailboxFull(f"{MAX_ASKERS} callers already wait for the end"))
        return Phase.IDLE
    step.data.stopping = data.stopping or signal.reason
    step.data.stoppers = (*data.stoppers, signal.signal_id)
    data = step.data
    if data.cycle is not None or data.compaction is not None or data.held is not None:
        _break_off(step, signal.reason, "all")
    if step.data.steers:
        requeue_steers(step)
    drop_queue(step, SessionDown(data.config.session_id, signal.reason))
    if step.data.teardown is None:
        _stop_rest(step)
    return Phase.IDLE


def teardown_settled(step: StepContext, receipt: AbortReceipt, values: tuple[LateValue, ...] = ()) -> None:
    """Publish the end of the teardown. A stopping session then stops the work that an abort had spared."""
    teardown = step.data.teardown
    assert teardown is not None  # noqa: S101 - its effect was open
    step.data.teardown = None
    for value in values:
        late_values.take_late_value(step, value)
    step.publish(AbortSettled(receipt=receipt))
    for caller in teardown.waiting:
        step.reply(caller, receipt)
    if step.data.stopping is not None:
        _stop_rest(step)


def may_end(step: StepContext) -> bool:
    return step.data.teardown is None and not any(owned_by(step.data.open, OfDrain))


def finish_session(step: StepContext) -> None:
    if has_listeners(step, SessionEnding):
        ask_plugins(step, SessionEnding())
    plugin_hooks.tell_session_ending(step)
    data = step.data
    reason = data.stopping or ""
    spend_what_is_out(step)
    if data.agents.has_any:
        agent_pool.forget_all(step, reason)
    step.give_up_all()
    step.publish(SessionEnd(reason=reason))
    for caller in data.stoppers:
        step.reply(caller, None)
    step.data.stoppers = ()


def restarted(step: StepContext, signal: Restarted) -> Next:
    """Continue after a crash. Running work died with the old actor, so the session stops waiting for it.

    A cycle that waits for the user keeps waiting. A cycle that waited for anything else has failed.
    """
    step.publish(SessionRestarted(reason=signal.reason, incarnation=signal.incarnation))
    step.data.incarnation = max(signal.incarnation, step.data.incarnation)
    for state in step.data.batch:
        interactions.withdraw(step, state.call.call_id)  # the tool that asked no longer exists
    lost = [asked for _, asked in owned_by(step.data.open, OfPluginRequest)]
    step.give_up_all()
    interactions.rearm(step)
    if step.data.agents.has_any:
        agent_pool.restart_all(step)
    error = ErrorInfo(
        code="session_restarted", message=f"the session crashed: {signal.reason}", retryable=True
    )
    waiting_hooks.forget_suspended(step)
    settle_lost_loans(step, step.data.loans, signal.spent)
    _forget_what_ran(step, agents_go_on=True)
    plugin_hooks.plugin_requests_lost(step, lost, error)
    if has_listeners(step, SessionStarted):
        abort = ask_plugins(step, SessionStarted(recovered=True)).abort
        if abort is not None:
            reason = f"refused by a plugin: {abort}"
            return _end(step, reason, ErrorInfo(code="aborted", message=reason))
    if step.data.interactions or step.data.agents.waits:
        _answer_what_ran(step)
        return continue_batch(step)
    _fail_cycle(step, error)
    return Phase.IDLE


def parked(step: StepContext, signal: Parked) -> Phase:
    """End a session that crashed too often. No work is running, so no teardown is needed."""
    step.publish(SessionParked(reason=signal.reason))
    settle_lost_loans(step, step.data.loans, signal.spent)
    reason = f"parked: {signal.reason}"
    return end_at_once(step, reason, ErrorInfo(code="session_parked", message=f"the session is {reason}"))


def end_at_once(step: StepContext, reason: str, error: ErrorInfo) -> Phase:
    """End a session without running work. No teardown is needed."""
    step.give_up_all()
    waiting_hooks.forget_suspended(step)
    _forget_what_ran(step)
    return _end(step, reason, error)


def _end(step: StepContext, reason: str, error: ErrorInfo) -> Phase:
    for interaction in step.data.interactions:
        interactions.close_interaction(step, interaction, "aborted", "abort")
    if step.data.agents.has_any:
        agent_pool.forget_all(step, reason)
    _fail_cycle(step, error)
    drop_queue(step, SessionDown(step.data.config.session_id, reason))
    step.data.stopping = reason
    return Phase.IDLE


def _forget_what_ran(step: StepContext, *, agents_go_on: bool = False) -> None:
    """End the survivors and teardowns of a lost actor, since they will send no more outcomes."""
    kept = step.data.agents.alive if agents_go_on else ()
    spend_what_is_out(step, keep=[state.loan for state in kept if state.loan is not None])
    compaction_run.forget_compaction(step)
    for state in step.data.survivors:
        if state.result is None and state.detached:
            batch.detached_gone(step, state)
        elif state.result is None:
            call_results.publish_end(step, state, call_results.result_of(state, _CRASHED_WHILE_IT_RAN))
    step.data.survivors = ()
    if step.data.teardown is not None:
        teardown_settled(step, AbortReceipt())


def _answer_what_ran(step: StepContext) -> None:
    """Answer the calls that died with the actor. Calls that wait for the user keep waiting."""
    for state in step.data.batch:
        if state.result is not None:
            call_results.put(step, replace(state, stage="done", effect_id=None))
        elif state.stage not in {"asking", "awaiting"}:
            text = NEVER_RAN if state.stage in {"checking", "waiting"} else _CRASHED_WHILE_IT_RAN
            call_results.put(step, call_results.answer(step, state, text)[0])


def _fail_cycle(step: StepContext, error: ErrorInfo) -> None:
    if step.data.cycle is None:
        return
    if step.data.batch:
        for state in step.data.batch:
            if state.stage in {"asking", "awaiting"}:
                call_results.put(step, call_results.answer(step, state, STOPPED)[0])
        _answer_what_ran(step)
        into_history(step)
    interactions.end_wait(step, "stop")
    fail(step, error)


def _break_off(
    step: StepContext, reason: str | None, kill: KillPolicy, *, children: bool = True
) -> tuple[tuple[CallId, ...], tuple[CallId, ...]]:
    """Abort the cycle in any phase, and start the teardown of the stopped work."""
    committed = _ids_of(tuple(state for state in step.data.batch if state.stage in {"reporting", "done"}))
    # A detached call is answered, but has not ended.
    going_on = {state.call.call_id for state in step.data.survivors}
    committed = tuple(call_id for call_id in committed if call_id not in going_on)
    stopped: tuple[EffectId, ...] = ()
    unknown: tuple[CallId, ...] = ()
    if step.data.compaction is not None:
        stopped = compaction_run.cancel_compaction(step)
    elif step.data.stream is not None:
        stopped = _stop_stream(step)
    elif is_gathering(step.data):
        stopped = cancel_gathering(step)
    elif step.data.batch:
        stopped, unknown = _stop_batch(step, reason, kill)
    if step.data.held is not None:
        stopped += _stop_holding(step, reason)
    cycle = step.data.cycle
    askers, ref = (cycle.askers, cycle.ref) if cycle is not None else ((), None)
    if cycle is not None:
        interactions.end_wait(step, "abort" if step.data.stopping is None else "stop")
        close_cycle(step, "aborted", reason=reason)
    elif has_listeners(step, AfterTurn):
        # Without a cycle there is nothing to review, but plugins are notified of every abort.
        after_turn(step, "aborted", reason=reason)
    step.publish(AgentAbort(reason=reason, ref=ref))
    for asker in askers:
        step.refuse(asker, CycleAborted(reason))
    if children:
        stopped += agent_pool.stop_all(step)
    if kill == "all":
        of_detached, doubtful = _stop_detached(step, reason)
        stopped, unknown = stopped + of_detached, unknown + doubtful
    if stopped:
        _begin_teardown(step, stopped, committed, unknown)
    return committed, unknown


def _ids_of(states: tuple[CallState, ...]) -> tuple[CallId, ...]:
    return tuple(state.call.call_id for state in states)


def _stop_holding(step: StepContext, reason: str | None) -> tuple[EffectId, ...]:
    prompt = waiting_hooks.now_held(step).prompt
    stopped = waiting_hooks.cancel_suspended(step)
    if prompt is not None:
        step.publish(PromptRejected(ref=prompt.ref, reason=reason or "aborted by the user"))
        refuse_askers(step, prompt, CycleAborted(reason))
        if step.data.cycle is None:
            step.data.last = Ended(outcome="aborted", text="", reason=reason)
    return stopped


def _stop_stream(step: StepContext) -> tuple[EffectId, ...]:
    stream = step.stream
    if stream.pausing:
        step.cancel(ClearTimer(effect_id=stream.effect_id))
        return ()
    step.cancel(CancelStream(effect_id=stream.effect_id))
    spend_lost(step)
    flush(step)
    # Text that the user has read stays. Half of a call or of a thought is useless, so it is dropped.
    text = "".join(stream.text)
    if text:
        message = AssistantMessage(content=(Text(text=text),), model=model_of(step.data).model, cut=True)
        step.data.history = step.data.history.with_response(message)
    return (stream.effect_id,)


def _stop_batch(step: StepContext, reason: str | None, kill: KillPolicy) -> Stopped:
    """Answer every open call, and stop all calls not spared by the policy. Return the calls whose tasks have not ended."""
    text = f"[Stopped: {reason}]" if reason else STOPPED
    ended: tuple[EffectId, ...] = ()
    spared: list[CallState] = []
    of_client = {
        one.asked.call_id for one in step.data.interactions if isinstance(one.asked, PendingClientCall)
    }
    at_client = (
        tuple(
            state
            for state in step.data.batch
            if state.call.call_id in of_client and call_results.is_doubtful(state)
        )
        if of_client
        else ()
    )
    for interaction in step.data.interactions:
        interactions.close_interaction(step, interaction, "aborted", "abort")
    for state in step.data.batch:
        if state.result is not None:
            continue
        is_spared = kill == "none" or (kill == "killable" and call_results.is_immune(step, state))
        if state.stage == "running" and is_spared:
            spared.append(state)
            assert state.effect_id is not None  # noqa: S101 - a running call has an effect
            step.hand_over(state.effect_id, OfSurvivor(state.call.call_id))
            answered = call_results.result_of(state, late_values.STILL_RUNNING)
            call_results.put(step, replace(state, result=answered))
            continue
        call = state.call
        happened = [ToolKilled(name=call.name, call_id=call.call_id, reason=reason or "aborted")]
        ended += stop_call(step, state, text, *(happened if state.stage == "running" else ()))
    stopping = tuple(state for state in step.data.batch if state.stage == "stopping")
    call_results.kill(step, ended)
    step.data.survivors = (*step.data.survivors, *spared)
    into_history(step)
    ids, unknown = _left_to_teardown(step, stopping)
    # A call that waits for the host has not run. Its hook is awaited like a tool.
    return (*ids, *(one for one in ended if one not in ids)), (*unknown, *_ids_of(at_client))


def _stop_detached(step: StepContext, reason: str | None) -> Stopped:
    """Stop detached calls. A call that was stopped before has a teardown that waits for it."""
    states = tuple(state for state in step.data.survivors if state.detached and state.result is None)
    if not states:
        return (), ()
    text = f"[Stopped: {reason}]" if reason else STOPPED
    for state in states:
        batch.note_detached_stop(step, state, text)
    step.data.survivors = tuple(state for state in step.data.survivors if state not in states)
    ids, unknown = _left_to_teardown(step, states)
    step.ask(KillTools(effect_ids=ids))
    return ids, unknown


def _left_to_teardown(step: StepContext, states: tuple[CallState, ...]) -> Stopped:
    ids = tuple(state.effect_id for state in states if state.effect_id is not None)
    for effect_id in ids:
        step.give_up(effect_id)
    return ids, _ids_of(tuple(state for state in states if call_results.is_doubtful(state)))


def _stop_rest(step: StepContext) -> None:
    survivors = step.data.survivors
    of_agents = agent_pool.stop_all(step)
    if not survivors and not of_agents:
        return
    ids, unknown = _left_to_teardown(step, survivors)
    for state in survivors:
        # Stopping, but still running: the teardown waits for it, too.
        if state.result is not None:
            continue
        call = state.call
        if not state.detached:
            reason = step.data.stopping or "stopped"
            step.publish(ToolKilled(name=call.name, call_id=call.call_id, reason=reason))
        call_results.publish_end(step, state, call_results.result_of(state, "[Stopped: the session ended]"))
    step.data.survivors = ()
    if ids:
        step.ask(KillTools(effect_ids=ids))
    _begin_teardown(step, ids + of_agents, (), unknown)


def _begin_teardown(
    step: StepContext,
    stopped: tuple[EffectId, ...],
    committed: tuple[CallId, ...],
    unknown: tuple[CallId, ...],
) -> None:
    effect_id = step.mint("d")
    if step.data.teardown is not None:  # from an abort that spared the agents, which end after it
        step.start(Teardown(effect_id=effect_id, stopped=stopped), OfDrain())
        return
    step.data.teardown = TeardownState(effect_id=effect_id, waiting=())
    step.start(
        Teardown(
            effect_id=effect_id,
            stopped=stopped,
            survivors=call_results.survivors_of(step),
            committed=committed,
            unknown=unknown,
        ),
        OfTeardown(),
    )


def _wait_for_teardown(step: StepContext, caller: SignalId) -> None:
    teardown = step.data.teardown
    assert teardown is not None  # noqa: S101 - the caller checked it
    step.data.teardown = TeardownState(effect_id=teardown.effect_id, waiting=(*teardown.waiting, caller))
