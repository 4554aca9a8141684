"""The batch: every call of one response, from the gates to its result. Each function returns the next phase."""

import hashlib
from typing import Final, assert_never

from msgspec.structs import replace

from agentrail.core.policy.calls import (
    CallSeen,
    Passed,
    Refused,
    file_change_in,
    hash_arguments,
    operation_id_of,
    validate_call,
    watched,
)
from agentrail.core.policy.patience import MAX_TOOL_PAUSE_MS, decide_tool_retry, tool_retries
from agentrail.core.protocol.effects import CancelPluginRequest, ClearTimer, RunTool, SetTimer, SpawnChild
from agentrail.core.protocol.hooks import AfterTool, AfterToolBatch, OnToolError
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortTool,
    AgentEnded,
    AgentIdled,
    HostJudged,
    HostTold,
    ToolAnsweredEarly,
    ToolAsked,
    ToolEmitted,
    ToolFinished,
    ToolProgressed,
)
from agentrail.core.protocol.tool_questions import Resumption, ToolQuestion
from agentrail.core.session import (
    agent_calls,
    agent_pool,
    call_approval,
    call_results,
    child_sessions,
    interactions,
    late_values,
    waiting_hooks,
)
from agentrail.core.session.agent_records import agent_wanted
from agentrail.core.session.cycle import MAX_ASKERS, begin_turn, finish, is_last_turn, stops_after_calls
from agentrail.core.session.effect_owners import OfCall, OfDrain, OfRetry, OfStoppedCall, OfSurvivor, owned_by
from agentrail.core.session.open_calls import NO_CALLS, CallState, OpenCalls, Stage
from agentrail.core.session.plugin_hooks import ask_plugins
from agentrail.core.session.reservations import lend_to_child, settle_loan
from agentrail.core.session.state import BreakOff, Next, Phase
from agentrail.core.session.step_context import StepContext, apply_changes, has_listeners
from agentrail.core.session.views import tools_of
from agentrail.core.stack.plugin_events import plugin_event
from agentrail.errors import CycleAborted, ErrorInfo, MailboxFull, ToolContractError, UnknownCall
from agentrail.events import (
    Event,
    LoopDetected,
    ResumeTrigger,
    ToolCalls,
    ToolCallUnknown,
    ToolKilled,
    ToolProgress,
    ToolRetry,
    ToolSkippedForSteering,
)
from agentrail.frozen import EMPTY
from agentrail.messages import CallId, JsonObject, StopReason, Text, ToolResult, UserMessage

# Loop detection. Each answered batch is checked, and a model that repeats itself is warned or stopped.
# `policy.calls` defines a loop.


def _look_for_loops(step: StepContext, batch: OpenCalls) -> tuple[tuple[str, ...], str | None]:
    """Check a batch whose calls are all answered. Return the notes to the model, and why the cycle is aborted, or None."""
    cycle = step.cycle
    is_at_work = any(state.status == "working" for state in step.data.agents.states)
    watch, loops = watched(cycle.loops, _seen_of(batch, is_at_work=is_at_work))
    step.data.cycle = replace(cycle, loops=watch)
    for loop in loops:
        step.publish(LoopDetected(type=loop.type, name=loop.name, count=loop.count))
    ends = [loop.text for loop in loops if loop.aborts]
    why = ends[0][1:-1] if ends else None  # without the brackets that mark notes to the model
    return tuple(loop.text for loop in loops), why


def _seen_of(batch: OpenCalls, *, is_at_work: bool) -> list[CallSeen]:
    """Return the calls for loop detection.

    Parallel sessions with the same task count as one call. A wait while an agent works is left out, because the
    agent makes progress meanwhile.
    """
    seen: list[CallSeen] = []
    side_by_side: set[tuple[str, str, str]] = set()
    for state in batch:
        one = _seen(state)
        if state.is_of_machine and state.call.name == "wait_agents" and is_at_work:
            continue
        if state.wants_child:
            key = (one.name, one.arguments_hash, one.text)
            if key in side_by_side:
                continue
            side_by_side.add(key)
        seen.append(one)
    return seen


def _seen(state: CallState) -> CallSeen:
    result, spec = state.result, state.spec
    assert result is not None  # noqa: S101 - the batch is answered
    # Two calls with malformed arguments are equal if they are malformed in the same way.
    arguments: JsonObject = state.arguments
    if state.call.arguments is None:
        arguments = {"": state.call.malformed}
    return CallSeen(
        name=state.call.name,
        arguments_hash=state.arguments_hash or hash_arguments(arguments),
        text=_read(result),
        is_error=result.is_error,
        is_pure=spec is not None and spec.effect_class == "pure",
        polling=spec is not None and spec.polling,
        change=file_change_in(result.details),
    )


def _read(result: ToolResult) -> str:
    """Return the text that the model reads. Two pictures of the same size differ by their digests."""
    if not result.images:
        return result.text
    digests = [
        hashlib.sha256(image.data.encode("utf-8", "surrogatepass")).hexdigest() for image in result.images
    ]
    return "\0".join([result.text, *digests])


# Detached calls: answered while their tools continue in the background.  Such a call is a survivor that no
# abort had to spare: its result is in the history, or on its way there, and its effect is open. It takes no
# slot, because it may run for hours. Its end adds a note before the next turn. If `wake_on_background_end` is
# set and the session is free, it starts a prompt of its own, so that the model need not poll. Only
# `kill_tools="all"`, `abort_tool` and the end of the session stop it. It is never run again: it is lost with
# its process.

MAX_DETACHED: Final = 8
"""Maximum number of detached calls of a session."""

NOT_IN_A_BRANCH: Final = "[Gone: what went on in the background at this point does not go on from here]"

_GONE_WITH_ITS_PROCESS: Final = "[Gone: the session was restarted, which nothing in the background outlives]"

_TOO_MANY_DETACHED: Final = f"[Stopped: {MAX_DETACHED} calls go on in the background already, and no more may. Stop one of them first.]"


def _note_detached_end(step: StepContext, state: CallState, result: ToolResult) -> None:
    """Publish the end of a detached call and add a note for the model."""
    agent_pool.add_note(step, _end_of(step, state, result))


def _note_detached_or_wake(step: StepContext, state: CallState, result: ToolResult) -> None:
    """Handle the end of a detached call that was not stopped: wake the session if configured, otherwise add a note."""
    words = _end_of(step, state, result)
    if step.data.config.wake_on_background_end:
        agent_pool.tell_or_wake(step, state.call.call_id, words)
    else:
        agent_pool.add_note(step, words)


def _end_of(step: StepContext, state: CallState, result: ToolResult) -> str:
    """Publish the end of a detached call and return the note for the model."""
    call_results.publish_end(step, state, result)
    words = result.words
    if words.startswith("[") and words.endswith("]"):
        words = words[1:-1]
    if len(words) > agent_pool.MAX_NOTE_CHARACTERS:
        words = f"{words[: agent_pool.MAX_NOTE_CHARACTERS]}…"
    call = state.call
    return f"[{call.name}, call {call.call_id}, is over in the background: {words}]"


def detached_gone(step: StepContext, state: CallState, why: str = _GONE_WITH_ITS_PROCESS) -> None:
    _note_detached_end(step, state, call_results.result_of(state, why))


def detached_gone_in_a_branch(step: StepContext) -> None:
    """Report that detached calls do not continue in a branch."""
    for state in step.data.survivors:
        if state.detached and state.result is None:
            detached_gone(step, state, NOT_IN_A_BRANCH)


def note_detached_stop(step: StepContext, state: CallState, text: str) -> CallState:
    result = call_results.result_of(state, text)
    _note_detached_end(step, state, result)
    return replace(state, stage="stopping", result=result)


GOES_ON_BY_ITSELF: Final[frozenset[Stage]] = frozenset(
    {"checking", "awaiting", "waiting", "pausing", "running", "stopping", "reporting"}
)
"""Stages in which a call makes progress without the user."""

STOPPED: Final = "[Stopped: aborted by the user]"
ARGUMENTS_CHANGED: Final = "Not run: the arguments changed after they were approved."
_SKIPPED: Final = "[Skipped: the user steered the conversation]"


def begin_batch(step: StepContext, stop_reason: StopReason, *, withheld: bool) -> Next:
    open_batch(step)
    step.publish(ToolCalls(count=len(step.data.batch)))
    for state in step.data.batch:
        match _validated(step, state, stop_reason, withheld=withheld):
            case Passed(arguments=arguments):
                passed = replace(state, arguments=arguments)
                judged, abort = call_approval.check_call(step, passed)
                call_results.put(step, put_to_people(step, judged))
                if abort is not None:
                    return BreakOff(abort)
            case Refused() as refusal:
                call_results.put(step, _refused(step, state, refusal))
            case _ as never:
                assert_never(never)
    return continue_batch(step)


def _validated(
    step: StepContext, state: CallState, stop_reason: StopReason, *, withheld: bool
) -> Passed | Refused:
    """Check a call against the gates. A call that ran when it was recorded has passed them."""
    verdict = validate_call(state.call, tools_of(step.data), stop_reason, withheld=withheld)
    if step.recorded is None or state.spec is None or isinstance(verdict, Passed):
        return verdict
    arguments = state.spec.with_defaults(state.arguments)
    return Passed(arguments=arguments) if step.recorded.ran_unjudged(state.call.name, arguments) else verdict


def open_batch(step: StepContext) -> None:
    tools = tools_of(step.data)
    step.data.batch = OpenCalls(
        CallState(
            call=call,
            spec=tools.get(call.name),
            generation=tools.generation_of(call.name),
            arguments=call.arguments or EMPTY,
            stage="waiting",
        )
        for call in step.data.history.open
    )


def tool_progressed(step: StepContext, signal: ToolProgressed) -> None:
    owner = step.data.open.get(signal.effect_id)
    assert isinstance(owner, OfCall)  # noqa: S101 - `verdict` dropped the signal otherwise
    call = call_results.one_of_batch(step, owner.call_id).call
    step.publish(ToolProgress(name=call.name, call_id=call.call_id, text=signal.text))


def tool_emitted(step: StepContext, signal: ToolEmitted) -> None:
    step.publish(plugin_event(signal.name, signal.payload, step.data.config.user_data))


def tool_asked(step: StepContext, signal: ToolAsked) -> None:
    """Ask the user the question of a running tool. It waits as long as the tool does."""
    owner = step.data.open.get(signal.effect_id)
    if not isinstance(owner, OfCall):
        step.refuse(signal.signal_id, CycleAborted("the call that asks was stopped"))
    elif sum(one.asker is not None for one in step.data.interactions) >= MAX_ASKERS:
        step.refuse(
            signal.signal_id, MailboxFull(f"{MAX_ASKERS} questions of tools are already waiting for the user")
        )
    elif (fault := interactions.fault_of_question(signal.schema, signal.url)) is not None:
        step.refuse(signal.signal_id, ToolContractError(f"ask_user: {fault}"))
    else:
        state = call_results.one_of_batch(step, owner.call_id)
        interactions.ask_for_tool(step, state, signal, signal.timeout_ms)


def call_finished(step: StepContext, phase: Phase, signal: ToolFinished, call_id: CallId) -> Next:
    """Record the result of a call of the batch. The last one starts the next turn."""
    _settle(step, signal)
    state = call_results.one_of_batch(step, call_id)
    if step.data.interactions:
        interactions.withdraw(step, state.call.call_id)
    if signal.asks is not None:
        fault = interactions.fault_of_question(signal.asks.schema, signal.asks.url)
        if fault is None:
            call_results.put(step, _wait_with_question(step, state, signal.asks))
            return continue_batch(step)
        signal = replace(signal, text=f"The question of the tool cannot be shown: {fault}", is_error=True)
    abort = None
    if signal.crashed:
        pauses, abort = _pause(step, state, signal)
        if pauses:
            _fill_slots(step)  # its slot is free during the pause
            return phase
    apply_changes(step, signal.changes)
    result, also = after_tool(step, call_results.finished_result(state, signal))
    abort = also if abort is None else abort  # the first one wins
    call_results.publish_end(step, state, result)
    call_results.publish_metrics(step, state, signal)
    call_results.put(step, call_approval.report_call(step, state, result, signal))
    return continue_batch(step) if abort is None else BreakOff(abort)


def _wait_with_question(step: StepContext, state: CallState, asks: ToolQuestion) -> CallState:
    """Ask the question of a tool whose call then waits as data, without a slot. With the answer, it runs again."""
    seconds = asks.timeout_seconds
    timeout_ms = step.data.config.question_timeout_ms if seconds is None else round(seconds * 1000)
    interactions.ask_for_tool(step, state, asks, timeout_ms)
    return replace(state, stage="asking", effect_id=None, resumption=Resumption(state=asks.state))


def call_detached(step: StepContext, signal: ToolAnsweredEarly) -> Next:
    """Record the early answer of a call that continues in the background. Its end becomes a note."""
    owner = step.data.open.get(signal.effect_id)
    assert isinstance(owner, OfCall)  # noqa: S101 - `verdict` dropped the signal otherwise
    state = call_results.one_of_batch(step, owner.call_id)
    if sum(one.detached for one in step.data.survivors) >= MAX_DETACHED:
        killed = ToolKilled(name=state.call.name, call_id=state.call.call_id, reason=_TOO_MANY_DETACHED[1:-1])
        call_results.drain(step, stop_call(step, state, _TOO_MANY_DETACHED, killed))
        return continue_batch(step)
    interactions.withdraw(step, state.call.call_id)
    step.hand_over(signal.effect_id, OfSurvivor(state.call.call_id))
    step.data.survivors = (*step.data.survivors, replace(state, detached=True))
    result, abort = after_tool(step, call_results.detached_result(state, signal))
    call_results.publish_answer(step, result)
    call_results.publish_metrics(step, state, signal)
    call_results.put(step, call_approval.report_call(step, state, result, signal))
    return continue_batch(step) if abort is None else BreakOff(abort)


def host_judged(step: StepContext, signal: HostJudged, call_id: CallId) -> Next:
    judged, abort = call_approval.take_verdict(step, call_results.one_of_batch(step, call_id), signal)
    call_results.put(step, put_to_people(step, judged))
    return continue_batch(step) if abort is None else BreakOff(abort)


def host_told(step: StepContext, phase: Phase, signal: HostTold, call_id: CallId) -> Next:
    """Continue the batch that waited until the host was notified of a call. A batch that was aborted did not wait."""
    state = call_results.find_call(step, call_id)
    if state is None or state.effect_id != signal.effect_id:
        return phase
    call_results.put(step, replace(state, stage="done", effect_id=None))
    return continue_batch(step)


def stopped_call_ended(step: StepContext, phase: Phase, signal: ToolFinished, call_id: CallId) -> Next:
    """Remove a call that was answered when it was stopped. If it still took effect, the model is informed."""
    _settle(step, signal)
    state = call_results.find_call(step, call_id)
    # The owner of the open effect tells whose value this is.
    value = None if signal.value is None else replace(signal.value, call_id=call_id)
    # A detached call may still belong to the batch, where it is answered.
    if state is None or signal.effect_id != state.effect_id:
        if value is not None:
            late_values.take_late_value(step, value)
        survivor_left(step, call_id)
        return _fill_freed_slots(step, phase)
    done = replace(state, stage="done", effect_id=None)
    if value is not None:
        done = replace(done, result=late_values.publish_effect(step, value))
    call_results.put(step, done)
    return continue_batch(step)


def survivor_finished(step: StepContext, phase: Phase, signal: ToolFinished, call_id: CallId) -> Next:
    """Record the result of a call spared by an abort. It becomes a note before the next prompt."""
    _settle(step, signal)
    state = next(call for call in step.data.survivors if call.call.call_id == call_id)
    apply_changes(step, signal.changes)
    result = call_results.finished_result(state, signal)
    if state.detached:
        _note_detached_or_wake(step, state, result)
        survivor_left(step, call_id)
        return _fill_freed_slots(step, phase)
    call_results.publish_end(step, state, result)
    call_results.publish_metrics(step, state, signal)
    call_approval.report_call(step, state, result, signal)
    _take_note(
        step, f"[The call of {state.call.name} that was still running at the abort has ended: {result.words}]"
    )
    survivor_left(step, call_id)
    return _fill_freed_slots(step, phase)


def loan_ended(step: StepContext, phase: Phase, signal: ToolFinished) -> Next:
    """Count the usage of a child whose call was abandoned or answered by an abort. The rest is ignored."""
    _settle(step, signal)
    step.data.dropped += not signal.late
    return phase


def child_ended(step: StepContext, phase: Phase, signal: ToolFinished) -> Phase:
    """Count the usage of a child session of a tool. The shell reports its end to the tool."""
    _settle(step, signal)
    return phase


def agent_idled(step: StepContext, phase: Phase, signal: AgentIdled, name: str) -> Next:
    """Handle the end of an agent's cycle. A call of the batch may have waited for it."""
    agent_pool.idled(step, name, signal)
    return _fill_freed_slots(step, phase)


def agent_ended(step: StepContext, phase: Phase, signal: AgentEnded, name: str) -> Next:
    """Handle the end of an agent. A call of the batch may have waited for it."""
    agent_pool.ended(step, name, signal)
    return _fill_freed_slots(step, phase)


def wait_is_over(step: StepContext, call_id: CallId) -> Next:
    agent_pool.expire_wait(step, call_id)
    return continue_batch(step)


def _settle(step: StepContext, signal: ToolFinished) -> None:
    if signal.late:
        step.data.dropped += 1
    settle_loan(step, signal.effect_id, signal.spent)


def after_tool(step: StepContext, result: ToolResult) -> tuple[ToolResult, str | None]:
    """Show plugins a result. Return the result for the model and why they abort the cycle, or None."""
    if not has_listeners(step, AfterTool):
        return result, None
    outcome = ask_plugins(step, AfterTool(name=result.name, call_id=result.call_id, result=result))
    return outcome.result or result, outcome.abort


def pause_is_over(step: StepContext, call_id: CallId) -> Next:
    """Queue a failed call for a slot again after its pause."""
    state = call_results.one_of_batch(step, call_id)
    again = replace(state, stage="waiting", effect_id=None, attempt=state.attempt + 1, due_at_ms=0)
    call_results.put(step, again)
    return continue_batch(step)


def pause_call_anew(step: StepContext, state: CallState) -> None:
    """Set the timer of a pause again after its shell was lost. A timer that is already due fires at once.

    Unless a plugin decides how long pauses are, none is longer than the longest one, although the store's clock may have been set
    back meanwhile.
    """
    assert state.effect_id is not None  # noqa: S101 - it pauses
    step.ended(state.effect_id)
    latest_ms = state.due_at_ms if has_listeners(step, OnToolError) else step.at_ms + MAX_TOOL_PAUSE_MS
    _wait_to_retry(step, state, min(state.due_at_ms, latest_ms))


def run_anew(step: StepContext, state: CallState, *, has_begun: bool) -> CallState:
    """Run a call again whose tool ran when the process stopped: the same operation, and a new attempt if one had begun."""
    attempt = state.attempt + 1 if has_begun else state.attempt
    return _run(step, replace(state, attempt=attempt))


def drained(step: StepContext, phase: Phase) -> Next:
    """Continue without stopped calls that have not ended in time."""
    if any(owned_by(step.data.open, OfDrain)):
        return phase  # a later drain covers the rest, and its end will arrive
    for effect_id, _ in owned_by(step.data.open, OfStoppedCall):
        step.give_up(effect_id)
    step.data.survivors = tuple(state for state in step.data.survivors if state.stage != "stopping")
    for state in step.data.batch:
        if state.stage == "stopping":
            call_results.put(step, replace(state, stage="done", effect_id=None))
    return _fill_freed_slots(step, phase)


def abort_tool(step: StepContext, phase: Phase, signal: AbortTool) -> Next:
    state = call_results.find_call(step, signal.call_id)
    survivor = next(
        (one for one in step.data.survivors if one.call.call_id == signal.call_id and one.stage == "running"),
        None,
    )
    reason = signal.reason or "aborted"
    text = f"[Stopped: {signal.reason}]" if signal.reason else STOPPED
    if survivor is not None:
        _stop_survivor(step, survivor, text, reason)
        step.reply(signal.signal_id, None)
        return phase
    if state is None or state.result is not None:
        running = ", ".join(one.call.call_id for one in step.data.batch if one.result is None) or "none"
        message = f"no call {signal.call_id!r:.200} is open; open calls: {running}"
        step.refuse(signal.signal_id, UnknownCall(message))
        return phase
    if state.stage == "asking":
        interactions.close_interaction(
            step, interactions.of_call(step, state.call.call_id), "aborted", "abort"
        )
    killed = ToolKilled(name=state.call.name, call_id=state.call.call_id, reason=reason)
    call_results.drain(step, stop_call(step, state, text, killed))
    step.reply(signal.signal_id, None)
    return decided(step, "tool_rejected", resume=step.cycle.resume)


def decided(step: StepContext, trigger: ResumeTrigger, *, resume: bool) -> Next:
    """Continue after a decision about one call, and publish that a suspended cycle resumes."""
    step.data.cycle = replace(step.cycle, resume=resume)
    # A call approved just now may be a question or a client call. It needs no slot, and the next wait starts
    # with it.
    released = [state for state in step.data.batch if state.stage == "waiting" and state.is_put_to_people]
    if released:
        interactions.end_wait(step, trigger)
    for state in released:
        call_results.put(step, put_to_people(step, state))
    batch = step.data.batch
    if step.suspended and (batch.has_any(GOES_ON_BY_ITSELF) or batch.count("done") == len(batch)):
        interactions.end_wait(step, trigger)
    return continue_batch(step)


def stop_call(step: StepContext, state: CallState, text: str, *between: Event) -> tuple[EffectId, ...]:
    """Answer an open call in any stage. Return the effects that still have to end: its attempt, or the host's hook.

    A running call becomes `stopping`, and its attempt has to be stopped. All other calls are done.
    """
    if state.stage == "pausing" and state.effect_id is not None:
        step.cancel(ClearTimer(effect_id=state.effect_id))
    interactions.withdraw(step, state.call.call_id)
    if state.stage == "awaiting":
        agent_pool.withdraw_wait(step, state.call.call_id)
    done, _ = call_results.answer(step, state, text, *between)
    if state.stage == "checking" and state.effect_id is not None:
        step.cancel(CancelPluginRequest(effect_id=state.effect_id))
        call_results.put(step, done)
        return (state.effect_id,)
    if state.stage != "running" or state.effect_id is None:
        call_results.put(step, done)
        return ()
    call_results.put(step, replace(done, stage="stopping", effect_id=state.effect_id))
    step.hand_over(state.effect_id, OfStoppedCall(state.call.call_id))
    return (state.effect_id,)


def continue_batch(step: StepContext) -> Next:
    """Fill the free slots. Close the batch when all calls are done, and wait in idle if only the user can continue it."""
    _fill_slots(step)
    batch = step.data.batch
    if batch.has_any(GOES_ON_BY_ITSELF):  # first, because it is true after nearly every call
        return Phase.EXECUTING_TOOLS
    if batch.count("done") == len(batch):
        return _close(step)
    if step.data.steers:  # the user has already intervened, so no plugin is asked
        skip_for_steering(step)
        return _close(step)
    return Phase.IDLE


def skip_for_steering(step: StepContext) -> None:
    """Skip calls because of a steer. Immune calls that need no user finish, and calls that wait for agents are answered."""
    attempts: list[EffectId] = []
    if step.data.agents.waits:
        agent_pool.wake_waits(step)
    for state in step.data.batch:
        if state.stage == "asking":
            interaction = interactions.of_call(step, state.call.call_id)
            interactions.close_interaction(step, interaction, "superseded", "superseded")
        elif state.stage == "awaiting" or state.result is not None or call_results.is_immune(step, state):
            continue
        name, call_id = state.call.name, state.call.call_id
        skipped = ToolSkippedForSteering(name=name, call_id=call_id, reason=_SKIPPED)
        attempts += stop_call(step, state, _SKIPPED, skipped)
    call_results.drain(step, tuple(attempts))


def into_history(step: StepContext) -> None:
    """Add the results to the history, in the order of the calls. Each call has one."""
    results = [state.result for state in step.data.batch if state.result is not None]
    step.data.history = step.data.history.answered(results)
    step.data.batch = NO_CALLS


def _close(step: StepContext) -> Next:
    batch = step.data.batch
    into_history(step)
    notes, abort = _look_for_loops(step, batch)
    if abort is None and has_listeners(step, AfterToolBatch):
        results = tuple(state.result for state in batch if state.result is not None)
        outcome = waiting_hooks.ask_behind_batch(step, AfterToolBatch(results=results), notes)
        if step.data.held is not None:
            return Phase.RUNNING
        abort = outcome.abort
    return close_checked(step, notes, abort)


def close_checked(step: StepContext, notes: tuple[str, ...], abort: str | None) -> Next:
    """Continue after a batch and its hooks: with the next turn, or with the end of the cycle."""
    if abort is not None:
        return BreakOff(abort)
    cycle = step.cycle
    # The calls were refused because tools are withheld on the last turn, or they were the purpose of the
    # cycle.
    if is_last_turn(step.data) or stops_after_calls(step.data):
        return finish(step, "max_turns")
    if not cycle.resume and not step.data.steers and not step.data.interventions:
        return finish(step, "not_resumed")
    if notes:
        # For the model, after the results that show the loops.
        content = tuple([Text(text=note) for note in notes])
        step.data.history = step.data.history.with_user(UserMessage(content=content, origin="note"))
    step.data.cycle = replace(cycle, resume=True)
    return begin_turn(step)


def put_to_people(step: StepContext, state: CallState) -> CallState:
    """Start the wait of a question or a client call that passed the gates. Other calls wait for a slot."""
    spec = state.spec
    if spec is None or not state.is_put_to_people or state.stage != "waiting":
        return state
    is_as_shown = state.bound_to in (None, hash_arguments(state.arguments))
    if not is_as_shown:
        return call_results.answer(step, state, ARGUMENTS_CHANGED)[0]
    for_client = spec.answered_by == "client"
    misfit = None
    if not for_client:
        arguments = state.arguments
        misfit = interactions.fault_of_question(arguments.get("schema"), arguments.get("url"))
    if misfit is not None:
        return call_results.answer(step, state, f'Invalid arguments for "{state.call.name}": {misfit}')[0]
    started = call_results.publish_start(step, state)
    seconds = spec.timeout_seconds
    timeout_ms = step.data.config.question_timeout_ms if seconds is None else round(seconds * 1000)
    if for_client:
        interactions.wait_for_client(step, started, timeout_ms)
    else:
        interactions.wait_for_answer(step, started, timeout_ms)
    return replace(started, stage="asking")


def _refused(step: StepContext, state: CallState, refusal: Refused) -> CallState:
    call = state.call
    unknown = [ToolCallUnknown(name=call.name, call_id=call.call_id)] if refusal.unknown else []
    return call_results.answer(step, state, refusal.text, *unknown)[0]


def _fill_freed_slots(step: StepContext, phase: Phase) -> Next:
    """Use slots freed outside this batch. A batch may be waiting for nothing else."""
    return continue_batch(step) if phase is Phase.EXECUTING_TOOLS else phase


def _fill_slots(step: StepContext) -> None:
    running = step.data.batch.count("running", "stopping")
    survivors = step.data.survivors  # usually none, and this runs for each call that ends
    taken = sum([not state.detached for state in survivors]) if survivors else 0
    free = step.data.config.max_parallel_tools - running - taken
    if running == 0:
        # Survivors take slots, but must not starve a batch: an immune tool can run for hours.
        free = max(free, 1)
    while (state := step.data.batch.next_waiting()) is not None:
        if free <= 0 and not state.is_of_machine:
            return
        begun = _begin(step, state)
        call_results.put(step, begun)
        free -= begun.stage == "running"


def _begin(step: StepContext, state: CallState) -> CallState:
    if state.bound_to not in (None, hash_arguments(state.arguments)):
        return call_results.answer(step, state, ARGUMENTS_CHANGED)[0]
    if state.is_of_machine:  # answered from the session's own data, or when agents have ended
        return agent_calls.take_call(step, state)
    put = put_to_people(step, state)  # a rule may have released it while it waited for the user
    if put.stage != "waiting":
        return put
    return _spawn(step, state) if state.wants_child else _run(step, state)


def _run(step: StepContext, state: CallState) -> CallState:
    call = state.call
    config = step.data.config
    # Arguments that the user approved are hashed again on each run.
    is_known = state.bound_to is None and state.arguments_hash
    arguments_hash = state.arguments_hash if is_known else hash_arguments(state.arguments)
    if state.bound_to not in (None, arguments_hash):
        return call_results.answer(step, state, ARGUMENTS_CHANGED)[0]
    if call_results.began_before_drift(step.data, state):
        return call_results.answer(step, state, call_results.OUTCOME_UNKNOWN)[0]
    effect_id = step.mint("t")
    operation_id = state.operation_id or operation_id_of(
        config.session_id, step.data.minted, call.name, arguments_hash
    )
    call_results.publish_start(step, state)
    step.start(
        RunTool(
            effect_id=effect_id,
            call_id=call.call_id,
            name=call.name,
            generation=state.generation,
            arguments=state.arguments,
            arguments_hash=arguments_hash,
            operation_id=operation_id,
            attempt=state.attempt,
            turn=step.data.cycle.turn if step.data.cycle is not None else 0,
            model=step.data.model.model,
            path=config.path,
            total_tokens=step.data.usage.total,
            cost_usd=step.data.usage.cost_usd,
            todos=step.data.todos,
            memory=step.data.memory,
            resumption=state.resumption,
        ),
        OfCall(call.call_id),
    )
    return replace(
        state,
        started=True,
        stage="running",
        effect_id=effect_id,
        operation_id=operation_id,
        arguments_hash=arguments_hash,
        began_at_ms=step.at_ms,
    )


def _spawn(step: StepContext, state: CallState) -> CallState:
    """Start the child session of a call with its share of the budget. Without budget left, answer the call at once."""
    if call_results.began_before_drift(step.data, state):
        return call_results.answer(step, state, call_results.OUTCOME_UNKNOWN)[0]
    kind = agent_wanted(state.arguments)
    fault = child_sessions.kind_fault(step, kind) or child_sessions.depth_fault(step)
    if fault is not None:
        return call_results.answer(step, state, fault)[0]
    effect_id = step.mint("t")
    budget = lend_to_child(step, effect_id, child_sessions.shares(step))
    if isinstance(budget, ErrorInfo):
        step.unmint()
        return call_results.answer(step, state, budget.message)[0]
    started = call_results.publish_start(step, state)
    call = state.call
    step.start(
        SpawnChild(
            effect_id=effect_id,
            call_id=call.call_id,
            name=call.name,
            agent=kind,
            arguments=state.arguments,
            budget=budget,
        ),
        OfCall(call.call_id),
    )
    return replace(started, stage="running", effect_id=effect_id, began_at_ms=step.at_ms)


def _pause(step: StepContext, state: CallState, signal: ToolFinished) -> tuple[bool, str | None]:
    """Schedule a retry of a call that raised, if its tool allows it. Return whether it pauses, and the plugins' abort."""
    spec = state.spec
    assert spec is not None  # noqa: S101 - a call without a tool never runs
    allowed = tool_retries(spec.effect_class, spec.max_retries, step.data.config.tool_max_retries)
    remedy = decide_tool_retry(state.attempt, allowed, signal.jitter)
    if remedy is None:
        return False, None
    call = state.call
    error = ErrorInfo(code="tool_crashed", message=signal.text, retryable=True)
    pause_ms = remedy.delay_ms
    if has_listeners(step, OnToolError):
        asked = OnToolError(name=call.name, call_id=call.call_id, error=error, attempt=state.attempt)
        outcome = ask_plugins(step, asked)
        if outcome.decision is not None:  # an abort ends the cycle, a skip only the retries of this call
            return False, outcome.abort
        if outcome.hints.pause_ms is not None:
            pause_ms = outcome.hints.pause_ms
    step.publish(ToolRetry(name=call.name, call_id=call.call_id, attempt=state.attempt, error=error))
    due_at_ms = step.at_ms + pause_ms
    _wait_to_retry(step, replace(state, stage="pausing", due_at_ms=due_at_ms), due_at_ms)
    return True, None


def _wait_to_retry(step: StepContext, state: CallState, until_ms: int) -> None:
    timer = step.mint("w")
    step.start(SetTimer(effect_id=timer, at_ms=until_ms), OfRetry(state.call.call_id))
    call_results.put(step, replace(state, effect_id=timer))


def _stop_survivor(step: StepContext, state: CallState, text: str, reason: str) -> None:
    """Answer and stop a survivor. Its slot is free when it has really ended."""
    if state.detached:
        _stop_at_work(step, state, note_detached_stop(step, state, text))
        return
    step.publish(ToolKilled(name=state.call.name, call_id=state.call.call_id, reason=reason))
    result = call_results.result_of(state, text)
    call_results.publish_end(step, state, result)
    _take_note(step, f"[The call of {state.call.name} that was still running at the abort: {text[1:-1]}]")
    _stop_at_work(step, state, replace(state, stage="stopping", result=result))


def _stop_at_work(step: StepContext, state: CallState, stopping: CallState) -> None:
    step.data.survivors = tuple(stopping if one is state else one for one in step.data.survivors)
    assert state.effect_id is not None  # noqa: S101 - a survivor runs
    step.hand_over(state.effect_id, OfStoppedCall(state.call.call_id))
    call_results.drain(step, (state.effect_id,))


def _take_note(step: StepContext, note: str) -> None:
    step.data.notes = (*step.data.notes, note)


def survivor_ended(step: StepContext, state: CallState, result: ToolResult) -> None:
    """Publish the end of a call spared by an abort, and add a note before the next prompt."""
    call_results.publish_end(step, state, result)
    _take_note(
        step, f"[The call of {state.call.name} that was still running at the abort has ended: {result.text}]"
    )
    survivor_left(step, state.call.call_id)


def survivor_left(step: StepContext, call_id: CallId) -> None:
    step.data.survivors = tuple(call for call in step.data.survivors if call.call.call_id != call_id)
