"""The batch: every call of one response, from the gates to its result. Each function returns the phase that follows.

Results enter the history in the order of the calls, all in one step, when the last one is in; events are published as
things happen. A call that waits for a person holds back no other; when nothing else is open, the session is suspended in
idle, and goes on by a decision.
"""

from typing import Final, assert_never

import msgspec

from agentrail.core.policy.gates import Passed, Refused, hash_arguments, operation_id_of, validate_call
from agentrail.core.policy.retries import decide_tool_retry, tool_retries
from agentrail.core.protocol.actions import BlockTool, RequireApproval
from agentrail.core.protocol.effects import ClearTimer, RunTool, SetTimer, SpawnChild
from agentrail.core.protocol.hooks import AfterTool, AfterToolBatch, BeforeTool, OnToolError
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import AbortTool, ToolAsked, ToolEmitted, ToolFinished, ToolProgressed
from agentrail.core.session import calls, children, interactions
from agentrail.core.session.applying import apply_changes
from agentrail.core.session.budget import lend_to_child, settle_loan
from agentrail.core.session.cycle import MAX_ASKERS, begin_turn, finish, is_last_turn
from agentrail.core.session.hooking import ask_plugins, has_listeners
from agentrail.core.session.loops import look_for_loops, tell
from agentrail.core.session.open_calls import NO_CALLS, CallState, OpenCalls, Stage
from agentrail.core.session.owners import OfCall, OfDrain, OfRetry, OfStoppedCall, owned_by
from agentrail.core.session.state import BreakOff, Next, Phase
from agentrail.core.session.step_context import StepContext
from agentrail.core.stack.outcome import Outcome, Unfit
from agentrail.core.stack.pipeline import Fit
from agentrail.core.stack.plugin_events import plugin_event
from agentrail.errors import CycleAborted, ErrorInfo, MailboxFull, UnknownCall
from agentrail.events import (
    AgentResumed,
    Approval,
    Event,
    PermissionOption,
    ResumeTrigger,
    ToolBlocked,
    ToolCalls,
    ToolCallUnknown,
    ToolKilled,
    ToolProgress,
    ToolRetry,
    ToolSkippedForSteering,
)
from agentrail.frozen import EMPTY, same_json
from agentrail.messages import CallId, JsonObject, StopReason, ToolResult

GOES_ON_BY_ITSELF: Final[frozenset[Stage]] = frozenset({"waiting", "pausing", "running", "stopping"})
"""The stages in which a call needs no person."""

STOPPED: Final = "[Stopped: aborted by the user]"
CHANGED: Final = "Not run: the arguments changed after they were approved."
SKIPPED: Final = "[Skipped: the user steered the conversation]"


def begin_batch(step: StepContext, stop_reason: StopReason, *, withheld: bool) -> Next:
    """Take the open calls through the gates, and run those that passed."""
    open_batch(step)
    step.publish(ToolCalls(count=len(step.data.batch)))
    for state in step.data.batch:
        match validate_call(state.call, step.data.tools, stop_reason, withheld=withheld):
            case Passed(arguments=arguments):
                passed = msgspec.structs.replace(state, arguments=arguments)
                judged, abort = run_before_tool(step, passed)
                calls.put(step, _asked_first(step, judged))
                if abort is not None:
                    return BreakOff(abort)
            case Refused() as refusal:
                calls.put(step, _refused(step, state, refusal))
            case _ as never:
                assert_never(never)
    return continue_batch(step)


def open_batch(step: StepContext) -> None:
    """Make a state for each open call; none of them has been looked at yet."""
    tools = step.data.tools
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


def run_before_tool(
    step: StepContext, state: CallState, *, edited: Approval | None = None
) -> tuple[CallState, str | None]:
    """Ask the plugins about a call whose arguments fit its tool.

    Args:
        step: The step.
        state: The call.
        edited: The approval in which a person changed the arguments. Then only the safety plugins look again; the person
            is not asked twice about what it wrote, and once more about what a safety plugin made of that.

    Returns:
        The call: as it will run, answered with a refusal, or waiting for a person. And why plugins abort the cycle, if they do.
    """
    if not has_listeners(step, BeforeTool):
        return state, None
    call = state.call
    event = BeforeTool(name=call.name, arguments=state.arguments, call_id=call.call_id)
    outcome = ask_plugins(step, event, fit=_fit_of(state), edited_by="user" if edited else None)
    return _as_judged(step, state, outcome, edited), outcome.abort


def _as_judged(step: StepContext, state: CallState, outcome: Outcome, edited: Approval | None) -> CallState:
    call = state.call
    as_seen = state.arguments
    if outcome.arguments is not None:
        state = msgspec.structs.replace(state, arguments=outcome.arguments)
    decision = outcome.decision
    match decision and decision.action:
        case BlockTool(reason=reason):
            assert decision is not None  # noqa: S101 - it has an action
            blocked = ToolBlocked(name=call.name, call_id=call.call_id, reason=reason, by=decision.by)
            return calls.answer(step, state, reason, blocked)[0]
        case Unfit(text=text):
            return calls.answer(step, state, f'Invalid arguments for "{call.name}": {text}')[0]
        case RequireApproval() as asked if edited is None:
            seconds, options = asked.expires_seconds, asked.permission_options
            timeout_ms = (
                step.data.config.approval_timeout_ms if seconds is None else round(seconds * 1000) or None
            )
            return _wait_for_approval(step, state, asked.hint, timeout_ms, options)
        case _ if edited is not None and outcome.abort is None and not same_json(as_seen, state.arguments):
            hint = f"{outcome.rewritten_by[-1]} changed what you wrote"
            expires_at_ms = edited.expires_at_ms
            waits_ms = None if expires_at_ms is None else expires_at_ms - edited.requested_at_ms
            return _wait_for_approval(step, state, hint, waits_ms, edited.permission_options)
        case _:
            return state


def _wait_for_approval(
    step: StepContext,
    state: CallState,
    hint: str | None,
    timeout_ms: int | None,
    options: tuple[PermissionOption, ...],
) -> CallState:
    """Let a call wait for a person, unless one has always allowed what it is."""
    # A rule is an answer too, and only stands where it would be taken.
    if "always" in options and interactions.is_allowed(step.data.rules, state.call.name, state.arguments):
        return state
    interactions.require_approval(step, state, hint, timeout_ms, options)
    return msgspec.structs.replace(state, stage="asking")


def _fit_of(state: CallState) -> Fit:
    spec = state.spec
    assert spec is not None  # noqa: S101 - a call without a tool is refused before anybody is asked

    def fit(arguments: JsonObject) -> JsonObject | str:
        completed = spec.with_defaults(arguments)
        return "; ".join(spec.faults(completed)) or completed

    return fit


def tool_progressed(step: StepContext, signal: ToolProgressed) -> None:
    """Pass on what a running tool says."""
    owner = step.data.open.get(signal.effect_id)
    assert isinstance(owner, OfCall)  # noqa: S101 - `verdict` dropped the signal otherwise
    call = calls.one_of_batch(step, owner.call_id).call
    step.publish(ToolProgress(name=call.name, call_id=call.call_id, text=signal.text))


def tool_emitted(step: StepContext, signal: ToolEmitted) -> None:
    """Publish what a running tool lets the world know."""
    step.publish(plugin_event(signal.name, signal.payload, step.data.config.user_data))


def tool_asked(step: StepContext, signal: ToolAsked) -> None:
    """Put the question of a running tool before the user, who may take as long as the tool waits."""
    owner = step.data.open.get(signal.effect_id)
    if not isinstance(owner, OfCall):
        step.refuse(signal.signal_id, CycleAborted("the call that asks was stopped"))
    elif sum(one.asker is not None for one in step.data.interactions) >= MAX_ASKERS:
        step.refuse(
            signal.signal_id, MailboxFull(f"{MAX_ASKERS} questions of tools wait for the user already")
        )
    else:
        interactions.ask_for_tool(step, calls.one_of_batch(step, owner.call_id), signal)


def call_finished(step: StepContext, phase: Phase, signal: ToolFinished, call_id: CallId) -> Next:
    """Take the result of a call of the batch. The last one brings the next turn."""
    _settle(step, signal)
    state = calls.one_of_batch(step, call_id)
    interactions.withdraw(step, state.call.call_id)
    abort = None
    if signal.crashed:
        pauses, abort = _pause(step, state, signal)
        if pauses:
            _fill_slots(step)  # its slot is free meanwhile
            return phase
    apply_changes(step, signal.changes)
    result, also = _after_tool(step, calls.finished_result(state, signal))
    abort = also if abort is None else abort  # the first counts
    calls.publish_end(step, state, result)
    calls.publish_metrics(step, state, signal)
    calls.put(step, msgspec.structs.replace(state, stage="done", effect_id=None, result=result))
    return continue_batch(step) if abort is None else BreakOff(abort)


def stopped_call_ended(step: StepContext, phase: Phase, signal: ToolFinished, call_id: CallId) -> Next:
    """Note that a call is gone that was answered when it was stopped; what it gives after that is of no use to anybody."""
    _settle(step, signal)
    state = calls.find_call(step, call_id)
    if state is None:
        _survivor_left(step, call_id)
        return _fill_freed_slots(step, phase)
    calls.put(step, msgspec.structs.replace(state, stage="done", effect_id=None))
    return continue_batch(step)


def survivor_finished(step: StepContext, phase: Phase, signal: ToolFinished, call_id: CallId) -> Next:
    """Take the result of a call that an abort had spared: it becomes a note in front of the next prompt."""
    _settle(step, signal)
    state = next(call for call in step.data.survivors if call.call.call_id == call_id)
    apply_changes(step, signal.changes)
    result = calls.finished_result(state, signal)
    calls.publish_end(step, state, result)
    calls.publish_metrics(step, state, signal)
    _take_note(
        step, f"[The call of {state.call.name} that was still running at the abort has ended: {result.text}]"
    )
    _survivor_left(step, call_id)
    return _fill_freed_slots(step, phase)


def loan_ended(step: StepContext, phase: Phase, signal: ToolFinished) -> Next:
    """Count what the child of a call has used that was given up, or that an abort answered; nothing else is of use."""
    _settle(step, signal)
    step.data.dropped += not signal.late
    return phase


def child_ended(step: StepContext, phase: Phase, signal: ToolFinished) -> Phase:
    """Count what a session has used that worked for a tool, which hears of its end from the shell."""
    _settle(step, signal)
    return phase


def _settle(step: StepContext, signal: ToolFinished) -> None:
    if signal.late:
        step.data.dropped += 1
    settle_loan(step, signal.effect_id, signal.spent)


def _after_tool(step: StepContext, result: ToolResult) -> tuple[ToolResult, str | None]:
    """Let plugins look at a result, and perhaps give the model another; gives that, and why they abort the cycle."""
    if not has_listeners(step, AfterTool):
        return result, None
    outcome = ask_plugins(step, AfterTool(name=result.name, call_id=result.call_id, result=result))
    return outcome.result or result, outcome.abort


def pause_is_over(step: StepContext, call_id: CallId) -> Next:
    """Let a call that raised wait for a slot again."""
    state = calls.one_of_batch(step, call_id)
    again = msgspec.structs.replace(state, stage="waiting", effect_id=None, attempt=state.attempt + 1)
    calls.put(step, again)
    return continue_batch(step)


def drained(step: StepContext, phase: Phase) -> Next:
    """Go on without the stopped calls whose tasks are not gone by now: their time is over."""
    if any(owned_by(step.data.open, OfDrain)):
        return phase  # a later drain covers what is left, and it will come
    for effect_id, _ in owned_by(step.data.open, OfStoppedCall):
        step.give_up(effect_id)
    step.data.survivors = tuple(state for state in step.data.survivors if state.stage != "stopping")
    for state in step.data.batch:
        if state.stage == "stopping":
            calls.put(step, msgspec.structs.replace(state, stage="done", effect_id=None))
    return _fill_freed_slots(step, phase)


def abort_tool(step: StepContext, phase: Phase, signal: AbortTool) -> Next:
    """Stop one call, wherever it stands; the others of its batch go on."""
    state = calls.find_call(step, signal.call_id)
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
        message = f"no call {signal.call_id!r} is open; open calls: {running}"
        step.refuse(signal.signal_id, UnknownCall(message))
        return phase
    if state.stage == "asking":
        interactions.close_interaction(
            step, interactions.of_call(step, state.call.call_id), "aborted", "abort"
        )
    killed = ToolKilled(name=state.call.name, call_id=state.call.call_id, reason=reason)
    calls.drain(step, stop_call(step, state, text, killed))
    step.reply(signal.signal_id, None)
    return decided(step, phase, "tool_rejected", resume=step.cycle.resume)


def decided(step: StepContext, phase: Phase, trigger: ResumeTrigger, *, resume: bool) -> Next:
    """Go on as far as a decision about one call allows; say so when the cycle was suspended.

    Args:
        step: The step.
        phase: In which the decision met the session.
        trigger: What it was.
        resume: Whether the model gets another turn when all calls are answered.
    """
    step.data.cycle = msgspec.structs.replace(step.cycle, resume=resume)
    batch = step.data.batch
    said = step.data.steers or step.data.interventions
    goes_on = batch.count(*GOES_ON_BY_ITSELF) or (batch.count("done") == len(batch) and (resume or said))
    if phase is Phase.IDLE and goes_on:
        step.publish(AgentResumed(trigger=trigger))
    return continue_batch(step)


def stop_call(step: StepContext, state: CallState, text: str, *between: Event) -> tuple[EffectId, ...]:
    """Answer a call that is open, wherever it stands; returns the attempt that has to be stopped, if one runs.

    One that runs is `stopping` from now on, all others are done.
    """
    if state.stage == "pausing" and state.effect_id is not None:
        step.cancel(ClearTimer(effect_id=state.effect_id))
    interactions.withdraw(step, state.call.call_id)
    done, _ = calls.answer(step, state, text, *between)
    if state.stage != "running" or state.effect_id is None:
        calls.put(step, done)
        return ()
    calls.put(step, msgspec.structs.replace(done, stage="stopping", effect_id=state.effect_id))
    step.hand_over(state.effect_id, OfStoppedCall(state.call.call_id))
    return (state.effect_id,)


def continue_batch(step: StepContext) -> Next:
    """Fill the slots that are free; close the batch when all is done; wait in idle when only people can go on."""
    _fill_slots(step)
    batch = step.data.batch
    if batch.count("done") == len(batch):
        return _close(step)
    if batch.count(*GOES_ON_BY_ITSELF):
        return Phase.EXECUTING_TOOLS
    if step.data.steers:  # the user has spoken already, so no plugin is asked any more
        skip_for_steering(step)
        return _close(step)
    return Phase.IDLE


def skip_for_steering(step: StepContext) -> None:
    """Stop the calls that a steer stops; immune ones that can go on by themselves finish."""
    attempts: list[EffectId] = []
    for state in step.data.batch:
        if state.stage == "asking":
            interaction = interactions.of_call(step, state.call.call_id)
            interactions.close_interaction(step, interaction, "superseded", "superseded")
        elif state.result is not None or calls.is_immune(step, state):
            continue
        name, call_id = state.call.name, state.call.call_id
        skipped = ToolSkippedForSteering(name=name, call_id=call_id, reason=SKIPPED)
        attempts += stop_call(step, state, SKIPPED, skipped)
    calls.drain(step, tuple(attempts))


def into_history(step: StepContext) -> None:
    """Put the results into the history, in the order of the calls; each of them has one."""
    results = [state.result for state in step.data.batch if state.result is not None]
    step.data.history = step.data.history.answered(results)
    step.data.batch = NO_CALLS


def _close(step: StepContext) -> Next:
    batch = step.data.batch
    into_history(step)
    notes, abort = look_for_loops(step, batch)
    if abort is None and has_listeners(step, AfterToolBatch):
        results = tuple(state.result for state in batch if state.result is not None)
        abort = ask_plugins(step, AfterToolBatch(results=results)).abort
    if abort is not None:
        return BreakOff(abort)
    cycle = step.cycle
    if is_last_turn(step.data):  # the calls were refused, because tools are withheld on the last turn
        return finish(step, "max_turns")
    if not cycle.resume and not step.data.steers and not step.data.interventions:
        return finish(step, "not_resumed")
    tell(step, notes)
    step.data.cycle = msgspec.structs.replace(cycle, resume=True)
    return begin_turn(step)


def _asked_first(step: StepContext, state: CallState) -> CallState:
    """Let a call that is a question wait for its answer; any other waits for a slot."""
    spec = state.spec
    if spec is None or spec.answered_by != "user" or state.stage != "waiting":
        return state
    started = calls.publish_start(step, state)
    seconds = spec.timeout_seconds
    default_ms = step.data.config.question_timeout_ms
    interactions.wait_for_answer(step, started, round(seconds * 1000) if seconds is not None else default_ms)
    return msgspec.structs.replace(started, stage="asking")


def _refused(step: StepContext, state: CallState, refusal: Refused) -> CallState:
    call = state.call
    unknown = [ToolCallUnknown(name=call.name, call_id=call.call_id)] if refusal.unknown else []
    return calls.answer(step, state, refusal.text, *unknown)[0]


def _fill_freed_slots(step: StepContext, phase: Phase) -> Next:
    """Use the slots of calls that were not of this batch, or that were given up; a batch may wait for nothing else."""
    return continue_batch(step) if phase is Phase.EXECUTING_TOOLS else phase


def _fill_slots(step: StepContext) -> None:
    running = step.data.batch.count("running", "stopping")
    free = step.data.config.max_parallel_tools - running - len(step.data.survivors)
    if running == 0:
        # Survivors take slots, but may not starve a batch: an immune tool can run for hours.
        free = max(free, 1)
    while free > 0 and (state := step.data.batch.next_waiting()) is not None:
        begun = _spawn(step, state) if state.wants_child else _run(step, state)
        calls.put(step, begun)
        free -= begun.stage == "running"


def _run(step: StepContext, state: CallState) -> CallState:
    call = state.call
    config = step.data.config
    # What a person has let run is looked at again each time it runs.
    is_known = state.bound_to is None and state.arguments_hash
    arguments_hash = state.arguments_hash if is_known else hash_arguments(state.arguments)
    if state.bound_to not in (None, arguments_hash):
        return calls.answer(step, state, CHANGED)[0]
    effect_id = step.mint("t")
    operation_id = state.operation_id or operation_id_of(
        config.session_id, step.data.minted, call.name, arguments_hash
    )
    started = calls.publish_start(step, state)
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
            turn=step.cycle.turn,
            model=step.data.model.model,
            path=config.path,
            total_tokens=step.data.usage.total,
            cost_usd=step.data.usage.cost_usd,
            todos=step.data.todos,
            memory=step.data.memory,
        ),
        OfCall(call.call_id),
    )
    return msgspec.structs.replace(
        started,
        stage="running",
        effect_id=effect_id,
        operation_id=operation_id,
        arguments_hash=arguments_hash,
        began_at_ms=step.at_ms,
    )


def _spawn(step: StepContext, state: CallState) -> CallState:
    """Start the session that works for a call, with its share of the budget; where nothing is left it is answered at once."""
    if state.bound_to not in (None, hash_arguments(state.arguments)):
        return calls.answer(step, state, CHANGED)[0]
    too_deep = children.depth_fault(step)
    if too_deep is not None:
        return calls.answer(step, state, too_deep)[0]
    effect_id = step.mint("t")
    budget = lend_to_child(step, effect_id, children.shares(step))
    if isinstance(budget, ErrorInfo):
        step.unmint()
        return calls.answer(step, state, budget.message)[0]
    started = calls.publish_start(step, state)
    call = state.call
    step.start(
        SpawnChild(
            effect_id=effect_id,
            call_id=call.call_id,
            name=call.name,
            arguments=state.arguments,
            budget=budget,
        ),
        OfCall(call.call_id),
    )
    return msgspec.structs.replace(started, stage="running", effect_id=effect_id, began_at_ms=step.at_ms)


def _pause(step: StepContext, state: CallState, signal: ToolFinished) -> tuple[bool, str | None]:
    """Let a call that raised be made once more after a pause, if its tool allows that.

    Returns:
        Whether it does, and why plugins abort the cycle, if they do.
    """
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
    timer = step.mint("w")
    step.start(SetTimer(effect_id=timer, at_ms=step.at_ms + pause_ms), OfRetry(call.call_id))
    calls.put(step, msgspec.structs.replace(state, stage="pausing", effect_id=timer))
    return True, None


def _stop_survivor(step: StepContext, state: CallState, text: str, reason: str) -> None:
    """Answer a survivor, and stop it; its slot is free when it has really ended."""
    step.publish(ToolKilled(name=state.call.name, call_id=state.call.call_id, reason=reason))
    result = calls.result_of(state, text)
    calls.publish_end(step, state, result)
    _take_note(step, f"[The call of {state.call.name} that was still running at the abort: {text[1:-1]}]")
    stopping = msgspec.structs.replace(state, stage="stopping", result=result)
    step.data.survivors = tuple(stopping if one is state else one for one in step.data.survivors)
    assert state.effect_id is not None  # noqa: S101 - a survivor runs
    step.hand_over(state.effect_id, OfStoppedCall(state.call.call_id))
    calls.drain(step, (state.effect_id,))


def _take_note(step: StepContext, note: str) -> None:
    step.data.notes = (*step.data.notes, note)


def _survivor_left(step: StepContext, call_id: CallId) -> None:
    step.data.survivors = tuple(call for call in step.data.survivors if call.call.call_id != call_id)
