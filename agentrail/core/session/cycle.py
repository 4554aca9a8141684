"""The frame of a cycle: start a prompt, begin a turn, end the cycle.

Each function writes its decisions to the step in progress and returns the next phase.
"""

from collections.abc import Mapping
from typing import Final, Literal, assert_never

from msgspec.structs import replace

from agentrail.core.policy.patience import FIRST_REPORT_MS, Attempts, StallClock, decide_stall
from agentrail.core.policy.request_context import Outgoing, outgoing
from agentrail.core.policy.response_format import Accepted, Rejected, RepairTurn, ResponseFormat, document_in
from agentrail.core.protocol.actions import ResolveApproval
from agentrail.core.protocol.effects import CancelStream, SetTimer, StartStream, stall_timer_of
from agentrail.core.protocol.hooks import AfterTurn, BeforeFinish, BeforePrompt, BeforeRequest
from agentrail.core.protocol.request import CachePoint, EffectId, ModelRequest
from agentrail.core.protocol.signals import (
    ChangeModel,
    ChangePlugins,
    ChangeTools,
    ContextGathered,
    GoOn,
    SignalId,
    ToolSourceReported,
    UpdatePluginOpts,
)
from agentrail.core.session import agent_pool, call_results, compaction_run, waiting_hooks
from agentrail.core.session.agent_records import ActingAgent, AgentSpec
from agentrail.core.session.effect_owners import OfStallTimer, OfStream
from agentrail.core.session.inline_tags import visible_text
from agentrail.core.session.open_calls import NO_CALLS, CallState
from agentrail.core.session.plugin_hooks import ask_plugins, changed_sections, context_of
from agentrail.core.session.receipts import ToolsReceipt
from agentrail.core.session.reservations import lend_to_cycle, reserve_request
from agentrail.core.session.state import (
    BreakOff,
    Cycle,
    Ended,
    Known,
    Next,
    OptsUpdate,
    Phase,
    QueuedPrompt,
    SessionConfig,
    Stream,
)
from agentrail.core.session.step_context import (
    StepContext,
    begin_gathering,
    context_tokens,
    digest_with,
    has_listeners,
    prompt_of_steer,
    say_queued,
    take_context,
)
from agentrail.core.session.views import (
    LAST_TURN_NOTE,
    cycle_messages_of,
    digest_of,
    model_of,
    request_of,
)
from agentrail.core.stack.hook_outcome import Outcome
from agentrail.core.stack.inherited_stack import narrow_stack, replace_unsafe
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.core.stack.plugin_changes import (
    ChangedStack,
    attach_plugin,
    decide_update,
    detach_plugin,
    find_plugin,
    reload_plugin,
)
from agentrail.core.stack.plugin_code import find_code
from agentrail.core.stack.rehearsal import rehearsal_of
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import CycleAborted, CycleFailed, ErrorInfo, MailboxFull, PluginError, SessionDown
from agentrail.events import (
    AbortReceipt,
    AbortSettled,
    AgentAbort,
    AgentChanged,
    AgentEnd,
    AgentError,
    AgentStart,
    EndReason,
    Intervention,
    MaxTurnsReached,
    ModelSwitched,
    PluginFailed,
    PromptDropped,
    PromptRejected,
    RequestStart,
    SteeringApplied,
    StreamStalled,
    ToolAttached,
    ToolDetached,
    ToolSourceChanged,
    ToolsUpdated,
)
from agentrail.messages import AssistantMessage, JsonObject, Message, PromptRef, Text, TokenUsage, UserMessage

# Changes of a running session's model, tools and plugins.  Models and tools change at once. A running request
# or call keeps its own. Plugins change only between two cycles, so that no hook of an old version, or with
# old options, runs afterwards.


def switch_model(step: StepContext, signal: ChangeModel) -> None:
    """Use another model from the next request on. Switching to the current model changes nothing and publishes no event."""
    data = step.data
    before = model_of(data).model  # after a failure, the model of the fallback
    if signal.model.model == before == data.model.model and not signal.opts_changed:
        step.reply(signal.signal_id, None)
        return
    step.data.model = signal.model
    step.data.tools = data.tools.described(signal.described)
    cycle = data.cycle
    if cycle is not None:  # the fallbacks of the previous model do not apply to this one
        step.data.cycle = replace(cycle, attempts=replace(cycle.attempts, model=0))
    step.publish(
        ModelSwitched(
            from_model=before,
            to_model=signal.model.model,
            provider_opts_changed=signal.opts_changed,
            by="user",
        )
    )
    step.reply(signal.signal_id, None)


def change_tools(step: StepContext, signal: ChangeTools) -> None:
    """Attach and detach tools in one step. Unknown names are reported in the receipt and are not an error."""
    before = step.data.tools
    step.data.tools = before.changed(signal.attach, signal.detach, signal.generation, replace=signal.replace)
    if signal.sections:
        step.data.sections = changed_sections(step.data.sections, dict(signal.sections))
    if signal.agents:
        boxes = {name: None if specs is None else Toolbox(specs) for name, specs in signal.agents}
        step.data.config = with_tools_of_agents(step.data.config, boxes)
    attached = tuple(spec.name for spec in sorted(signal.attach, key=lambda spec: spec.name))
    missing = tuple(name for name in signal.detach if before.get(name) is None)
    detached = _say_tools_changed(step, before, attached)
    step.reply(signal.signal_id, ToolsReceipt(attached=attached, detached=detached, missing=missing))


def with_tools_of_agents(config: SessionConfig, boxes: Mapping[str, Toolbox | None]) -> SessionConfig:
    agents = [replace(one, tools=boxes.get(one.name, one.tools)) for one in config.agents]
    return replace(config, agents=tuple(agents))


def _say_tools_changed(step: StepContext, before: Toolbox, attached: tuple[str, ...]) -> tuple[str, ...]:
    detached = tuple([name for name in before.names if step.data.tools.get(name) is None])
    for name in attached:
        step.publish(ToolAttached(name=name))
    for name in detached:
        step.publish(ToolDetached(name=name))
    if attached or detached:
        step.publish(ToolsUpdated(attached=attached, detached=detached))
    return detached


def tell_of_tool_source(step: StepContext, signal: ToolSourceReported) -> None:
    """Publish the state of a tool source. The session's state does not store it: the available tools are in there already."""
    step.publish(ToolSourceChanged(source=signal.source, state=signal.state, reason=signal.reason))
    step.reply(signal.signal_id, None)


def update_plugin_opts(step: StepContext, phase: Phase, signal: UpdatePluginOpts) -> Phase:
    """Queue new options of a plugin until idle. If two updates set the same field, the later one wins."""
    try:
        find_plugin(step.data.stack, signal.plugin)
    except PluginError as error:
        step.refuse(signal.signal_id, error)
        return phase
    if signal.narrows:
        return _narrow(step, phase, signal)
    waiting = {update.plugin: update.options for update in step.data.updates}
    waiting[signal.plugin] = {**waiting.get(signal.plugin, {}), **signal.options}
    step.data.updates = tuple(OptsUpdate(plugin=name, options=options) for name, options in waiting.items())
    if phase is Phase.IDLE:
        apply_updates(step)
    step.reply(signal.signal_id, None)
    return phase


def _narrow(step: StepContext, phase: Phase, signal: UpdatePluginOpts) -> Phase:
    """Apply rules of the parent session from now on, also to calls that wait for an approval."""
    try:
        changed = narrow_stack(step.data.stack, step.data.plugin_states, signal.options)
    except PluginError as error:
        step.refuse(signal.signal_id, error)
        return phase
    step.data.stack = changed.stack
    step.data.plugin_states = changed.states
    for state in step.data.batch:
        if state.judged_by:
            call_results.put(step, replace(state, judged_by=()))
    step.reply(signal.signal_id, None)
    return phase


def apply_updates(step: StepContext) -> None:
    """Apply the option updates that waited for idle, unless a cycle is suspended."""
    if not step.data.updates or step.data.cycle is not None:
        return
    updates = step.data.updates
    step.data.updates = ()
    for update in updates:
        data = step.data
        changed = decide_update(
            data.stack, update.plugin, update.options, data.plugin_states, context_of(step)
        )
        step.data.stack = changed.stack
        step.data.plugin_states = changed.states
        for event in changed.events:
            step.publish(event)


def change_plugins(step: StepContext, signal: ChangePlugins) -> None:
    data = step.data
    if data.cycle is not None:
        waits = "a cycle waits for a user: decide or abort it before changing plugins"
        step.refuse(signal.signal_id, PluginError([waits]))
        return
    try:
        match signal.change:
            case "attach":
                change = attach_plugin(data.stack, data.plugin_states, _code_of(step, signal))
            case "detach":
                change = detach_plugin(data.stack, data.plugin_states, signal.name)
            case _:
                rehearsal = rehearsal_of(data.history.messages, context_of(step))
                entry = _code_of(step, signal)
                change = reload_plugin(data.stack, data.plugin_states, entry, rehearsal=rehearsal)
    except PluginError as error:
        step.refuse(signal.signal_id, error)
        return
    step.data.stack = change.stack
    step.data.plugin_states = change.states
    step.reply(signal.signal_id, None)


def _code_of(step: StepContext, signal: ChangePlugins) -> PluginEntry:
    """Return the plugin of a change. A reloaded plugin without options of its own keeps its previous ones."""
    record = signal.entry
    if record is None:
        raise PluginError([f"{signal.change} names no plugin: name the plugin to attach"])
    plugin = find_code(step.data.stack.ask, signal.signal_id, record)
    return plugin if record.options is None else (plugin, record.options)


# Handoff: the session continues with another agent's prompt, model and tools.  History, queue, guards with
# their states and background agents stay. Both the old and the new agent must allow a call. The call is
# answered at once, and the handoff happens before the next request, when all other calls of its batch have
# ended. If the cycle is aborted first, it happens with the next cycle.

_MAX_HANDOFF_CHARACTERS: Final = 4_000


def take_handoff(step: StepContext, state: CallState) -> CallState:
    data = step.data
    name, note = state.arguments.get("agent"), state.arguments.get("note")
    offered = [spec.name for spec in data.config.agents if spec.handoff and spec.name != data.acting.name]
    if data.acting.next is not None:
        return _refused(
            step, state, f"The session is handed over to {data.acting.next} already: once in a response."
        )
    if name not in offered:
        is_own = name is not None and name == data.acting.name
        who = f"This session works as {name} already" if is_own else f"There is no agent {name!r:.80}"
        return _refused(
            step, state, f"{who}, so nothing is handed over. Agents: {', '.join(offered) or 'none'}."
        )
    said = note if isinstance(note, str) and note.strip() else None
    if said is not None and len(said) > _MAX_HANDOFF_CHARACTERS:
        return _refused(
            step,
            state,
            f"The note has {len(said)} characters, and at most {_MAX_HANDOFF_CHARACTERS} are allowed.",
        )
    try:
        _stack_of(step, _spec_of(step, name)[1])
    except PluginError as error:
        return _refused(step, state, f"Nothing is handed over: {error}")
    step.data.acting = replace(data.acting, next=name, note=said)
    return call_results.answer(step, state, f"{name} goes on from here.", is_error=False)[0]


def hand_over(step: StepContext, name: str) -> None:
    """Continue as the agent that the session was handed over to. Settings that the agent does not define stay as they are."""
    acting = step.data.acting
    place, spec = _spec_of(step, name)
    try:
        change = _stack_of(step, spec)
    except PluginError as error:  # a plugin was removed since the call was answered
        _stay(step, spec, error)
        return
    if change is not None:
        step.data.stack, step.data.plugin_states = change.stack, change.states
    prompt = acting.prompt if spec.system_prompt is None else spec.system_prompt
    step.data.acting = ActingAgent(name=spec.name, prompt=prompt)
    step.publish(AgentChanged(from_agent=acting.name, to_agent=spec.name, note=acting.note))
    _take_model(step, spec)
    if spec.tools is not None:
        _take_tools(step, spec.tools, generation_of_agent(place))


def generation_of_agent(place: int) -> int:
    """Return the generation number of an agent's tools, from its index among the session's agents.

    Negative, because no change by a caller ever has a negative number.
    """
    return -1 - place


def change_of_agent(agent: str, plugin: str) -> SignalId:
    """Return the id under which an agent's plugin code is kept, since no signal supplies it."""
    return SignalId(f"agent/{agent}/{plugin}")


def _spec_of(step: StepContext, name: object) -> tuple[int, AgentSpec]:
    return next((place, one) for place, one in enumerate(step.data.config.agents) if one.name == name)


def _stack_of(step: StepContext, spec: AgentSpec) -> ChangedStack | None:
    stack, states = step.data.stack, step.data.plugin_states
    change = None
    if spec.plugins is not None:
        entries = [
            (find_code(stack.ask, change_of_agent(spec.name, one.name), one), one.options or {})
            for one in spec.plugins
        ]
        change = replace_unsafe(stack, states, entries)
        stack, states = change.stack, change.states
    return change if spec.permissions is None else narrow_stack(stack, states, spec.permissions)


def _stay(step: StepContext, spec: AgentSpec, error: PluginError) -> None:
    """Cancel the handoff: no session is handed over to an agent without its guards."""
    step.data.acting = replace(step.data.acting, next=None, note=None)
    failed = ErrorInfo(code="plugin_error", message=f"the session is not handed over to {spec.name}: {error}")
    step.publish(PluginFailed(plugin=spec.name, hook="Handoff", error=failed, policy="closed"))


def _take_model(step: StepContext, spec: AgentSpec) -> None:
    before = model_of(step.data).model  # after a failure, the model of the fallback
    if spec.model is None or spec.model.model == before == step.data.model.model:
        return
    step.data.model = spec.model
    cycle = step.cycle  # the fallbacks of the previous model do not apply to this one
    step.data.cycle = replace(cycle, attempts=replace(cycle.attempts, model=0))
    step.publish(ModelSwitched(from_model=before, to_model=spec.model.model, by="handoff"))


def _take_tools(step: StepContext, tools: Toolbox, generation: int) -> None:
    before = step.data.tools
    step.data.tools = before.handed_over(tools, generation)
    _say_tools_changed(step, before, tools.names)


def _refused(step: StepContext, state: CallState, text: str) -> CallState:
    return call_results.answer(step, state, text)[0]


_NOT_ANSWERS: Final = frozenset({"max_turns", "not_resumed", "superseded"})
"""Ends of a cycle without an answer of the model for plugins to inspect."""

MAX_ASKERS: Final = 1024
"""Maximum number of callers that wait for the end of one cycle. Another caller is refused with `MailboxFull`."""


def start_next(step: StepContext) -> Next:
    """Start the oldest queued prompt, in the step that puts it into the history."""
    prompt, *rest = step.data.queue
    step.data.queue = tuple(rest)
    return start_cycle(step, prompt)


def before_prompt(step: StepContext, prompt: QueuedPrompt) -> Outcome:
    """Ask the plugins about a prompt that is about to start. A plugin's request may hold it."""
    text = "\n".join(block.text for block in prompt.content if isinstance(block, Text))
    return waiting_hooks.ask_about_prompt(step, BeforePrompt(text=text, content=prompt.content), prompt)


def start_cycle(step: StepContext, prompt: QueuedPrompt) -> Next:
    """Start the cycle of a prompt, unless a plugin refuses it or holds it with a request."""
    if prompt.settings is not None:
        lend_to_cycle(step, prompt.settings)
    outcome = before_prompt(step, prompt) if has_listeners(step, BeforePrompt) else None
    return Phase.RUNNING if step.data.held is not None else start_checked(step, prompt, outcome)


def start_checked(step: StepContext, prompt: QueuedPrompt, outcome: Outcome | None) -> Next:
    abort, decision = (outcome.abort, outcome.decision) if outcome is not None else (None, None)
    if decision is not None and isinstance(decision.action, ResolveApproval):
        abort = f"no call waits for a decision, so there is nothing to {decision.action.decision}"
    if abort is not None:
        return reject_prompt(step, prompt, abort)
    step.publish(AgentStart(ref=prompt.ref, request_id=prompt.request_id))
    if step.data.doubtful is not None and prompt.ref not in step.data.doubtful.prompts:
        step.data.doubtful = None
    step.data.cycle = Cycle(
        ref=prompt.ref,
        first_message=len(step.data.history),
        started_at_ms=step.at_ms,
        askers=prompt.askers,
        request_id=prompt.request_id,
        settings=prompt.settings,
        trace=prompt.trace,
    )
    if step.data.notes or step.data.agents.notes:
        _say_notes(step)
    prompted = UserMessage(content=prompt.content, ref=prompt.ref)
    step.data.history = step.data.history.with_user(prompted)
    if outcome is not None and outcome.interventions:
        step.data.interventions = outcome.interventions
    return begin_turn(step)


def start_without_words(step: StepContext, signal: GoOn) -> Next:
    """Start a cycle that answers the end of the conversation. Plugins judge its requests, as it has no prompt."""
    if signal.settings is not None:
        lend_to_cycle(step, signal.settings)
    step.data.cycle = Cycle(
        ref=signal.ref,
        first_message=len(step.data.history),
        started_at_ms=step.at_ms,
        request_id=signal.request_id,
        goes_on=True,
        settings=signal.settings,
    )
    if step.data.notes or step.data.agents.notes:
        _say_notes(step)
    return begin_turn(step)


def _say_notes(step: StepContext) -> None:
    notes = tuple(Text(text=note) for note in (*step.data.notes, *agent_pool.take_notes(step)))
    step.data.history = step.data.history.with_user(UserMessage(content=notes, origin="note"))
    step.data.notes = ()


def reject_prompt(step: StepContext, prompt: QueuedPrompt, reason: str) -> Phase:
    """Refuse a prompt. Its text never enters the history, and there is nothing to stop.

    A suspended cycle keeps waiting. It has not ended, so no event reports an end.
    """
    step.publish(PromptRejected(ref=prompt.ref, reason=reason))
    if step.data.cycle is None:
        if has_listeners(step, AfterTurn):
            after_turn(step, "aborted", reason=reason)
        step.publish(AgentAbort(reason=reason))
        step.publish(AbortSettled(receipt=AbortReceipt()))
        step.data.last = Ended(outcome="aborted", text="", reason=reason)
    refuse_askers(step, prompt, CycleAborted(reason))
    return Phase.IDLE


def refuse_askers(step: StepContext, prompt: QueuedPrompt, why: CycleAborted | SessionDown) -> None:
    for asker in prompt.askers:
        step.refuse(asker, why)


def drop_queue(step: StepContext, why: CycleAborted | SessionDown, only: PromptRef | None = None) -> None:
    dropped = [prompt for prompt in step.data.queue if only in {None, prompt.ref}]
    for prompt in dropped:
        at_end = isinstance(why, SessionDown)
        step.publish(PromptDropped(ref=prompt.ref, content=prompt.content, reason=why.reason, at_end=at_end))
        refuse_askers(step, prompt, why)
    step.data.queue = tuple(prompt for prompt in step.data.queue if prompt not in dropped)


def begin_turn(step: StepContext) -> Next:
    """Prepare the next request, including steers and notes received since the last one.

    On the last turn that a cycle may have, tools are withheld.
    """
    before = step.cycle
    config, turn = step.data.config, before.turn + 1
    if turn > config.max_turns:
        return BreakOff(f"{config.max_turns} turns were not enough")
    if step.data.acting.next is not None:
        hand_over(step, step.data.acting.next)
        before = step.cycle
    if step.data.agents.notes:
        content = tuple(Text(text=note) for note in agent_pool.take_notes(step))
        step.data.history = step.data.history.with_user(UserMessage(content=content, origin="note"))
    if step.data.steers:
        _apply_steers(step)
    if step.data.interventions:
        _apply_interventions(step)
    if turn == config.max_turns:
        step.publish(MaxTurnsReached(turns=config.max_turns))
    step.data.cycle = replace(
        before, turn=turn, attempts=Attempts(model=before.attempts.model), handed=None, context=None
    )
    return ask_and_send(step)


def ask_and_send(step: StepContext) -> Next:
    """Ask the plugins about the next request. Then send it, or compact the conversation first."""
    if has_listeners(step, BeforeRequest):
        abort = _ask_about_request(step)
        if abort is not None:
            return BreakOff(abort)
    return Phase.RUNNING if compaction_run.begin_compaction(step) else send_request(step)


def _ask_about_request(step: StepContext) -> str | None:
    """Show plugins the next request, and apply their additions and replacement messages. Return why they abort, or None."""
    outcome = ask_plugins(step, BeforeRequest(messages=step.data.history.messages[:]))
    if outcome.abort is not None:
        return outcome.abort
    seen = len(step.data.history)
    if step.data.interventions:
        _apply_interventions(step)
    handed = outcome.messages
    # Added text follows the replacement messages, as it would follow the conversation.
    if handed is not None:
        handed = (*handed, *step.data.history.since(seen))
    points = outcome.hints.cache_points or ()
    step.data.cycle = replace(step.cycle, cache_points=points, handed=handed)
    return None


def go_on_after_compaction(step: StepContext, error: ErrorInfo | None) -> Next:
    """Continue after a compaction: send the request, fail the cycle, or return to idle."""
    cycle = step.data.cycle
    if cycle is None:
        return Phase.IDLE
    if error is not None:
        return fail(step, error)
    if cycle.handed == ():
        # The replacement messages were made of the old conversation. Sent unchanged, they would be as long as
        # before. Without them, the model would read what plugins withhold from it.
        abort = _ask_about_request(step)
        if abort is not None:
            return BreakOff(abort)
    return send_request(step)


def go_on_with_context(step: StepContext, signal: ContextGathered) -> Next:
    """Send the request that waited for its context, with the steers received since.

    Plugins, if there are any, are asked again, because the request differs from the one they saw. With its context
    the request may be too long, and then a compaction comes first.
    """
    context = take_context(step, signal)
    if step.data.steers:
        _apply_steers(step)
        abort = _ask_about_request(step) if has_listeners(step, BeforeRequest) else None
        if abort is not None:
            return BreakOff(abort)
    if context.tokens or step.data.compact_asked is not None:
        return Phase.RUNNING if compaction_run.begin_compaction(step) else send_request(step)
    return send_request(step)


def send_request(step: StepContext) -> Phase:
    """Send a request: the first attempt of a turn, or another one. Extra context is gathered before the first."""
    if begin_gathering(step):
        return Phase.RUNNING
    data, cycle = step.data, step.cycle
    last_turn = is_last_turn(data)
    attempt = step.mint("r")
    model = model_of(data).model
    step.data.stream = Stream(effect_id=attempt, model=model, last_turn=last_turn)
    if cycle.handed is None:
        kept, messages = outgoing(data.outgoing, data.history.messages, data.refused)
        step.data.outgoing = kept
    else:  # another conversation, of which nothing is kept for the next request
        kept, messages = outgoing(Outgoing(), cycle.handed, data.refused)
    request = request_of(step.data, attempt, last_turn=last_turn, messages=messages)
    if kept.refused:  # plugins saw the whole conversation, and their indices refer to it
        request = replace(request, cache_points=_moved(request.cache_points, kept))
    notes = (LAST_TURN_NOTE,) if last_turn else ()
    context = cycle.context
    added = 0 if context is None else context.count
    refusal = reserve_request(
        step, request, notes=len(notes), is_handed=cycle.handed is not None, added_tokens=context_tokens(data)
    )
    if refusal is not None:
        step.unmint()
        return fail(step, refusal)
    step.publish(
        RequestStart(
            model=request.model,
            messages=len(request.messages) + added,
            context_messages=len(notes) + added,
            context_digest=digest_with(digest_of(notes), context),
            attempt=cycle.attempts.number,
        )
    )
    start_stream(step, request, None if context is None or not added else context.effect_id)
    return Phase.RUNNING


def _moved(points: tuple[CachePoint, ...], kept: Outgoing) -> tuple[CachePoint, ...]:
    moved = (kept.place_of(point) if isinstance(point, int) else point for point in points)
    return tuple(point for point in moved if point is not None)


def is_last_turn(data: Known) -> bool:
    """Return whether tools are withheld on this turn, because it is the last one of the cycle."""
    turn = data.cycle.turn if data.cycle is not None else 0
    return turn >= data.config.max_turns and data.config.on_max_turns == "answer"


def stops_after_calls(data: Known) -> bool:
    """Return whether the cycle ends after the calls of this turn, without another response."""
    turn = data.cycle.turn if data.cycle is not None else 0
    return turn >= data.config.max_turns and data.config.on_max_turns == "stop"


def finish(step: StepContext, stop_reason: EndReason) -> Next:
    """Finish the cycle, unless the user has steered it and a turn is left. Then the model gets another turn.

    A vendor that pauses in the middle of its own work needs the same conversation again, which is also a turn.
    """
    turns_left = has_turns_left(step)
    if turns_left and stop_reason == "pause":
        return begin_turn(step)
    if turns_left and stop_reason != "superseded" and (step.data.steers or step.data.interventions):
        return begin_turn(step)
    if stop_reason not in _NOT_ANSWERS and has_listeners(step, BeforeFinish):
        outcome = waiting_hooks.ask_about_end(step, stop_reason)
        return Phase.RUNNING if step.data.held is not None else finish_checked(step, stop_reason, outcome)
    return _finish_answered(step, stop_reason)


def finish_checked(step: StepContext, stop_reason: EndReason, outcome: Outcome) -> Next:
    """Finish the cycle, unless plugins abort or extend it, or the user steered it while they were asked."""
    if outcome.abort is not None:
        return BreakOff(outcome.abort)
    if has_turns_left(step) and (step.data.steers or step.data.interventions):
        return begin_turn(step)
    return _finish_answered(step, stop_reason)


def has_turns_left(step: StepContext) -> bool:
    return step.cycle.turn < step.data.config.max_turns


def _finish_answered(step: StepContext, stop_reason: EndReason) -> Next:
    match _check_answer(step, stop_reason):
        case None:
            return _finish_well(step, stop_reason)
        case RepairTurn() as repair:
            _ask_for_repair(step, repair)
            return begin_turn(step)
        case Rejected(error):
            return fail(step, error)
        case _ as never:
            assert_never(never)


def _finish_well(step: StepContext, stop_reason: EndReason) -> Phase:
    cycle = step.cycle
    messages = cycle_messages_of(step.data)
    ended = close_cycle(step, "finished")
    step.publish(
        AgentEnd(
            messages=messages,
            usage=cycle.usage,
            stop_reason=stop_reason,
            ref=cycle.ref,
            turns=cycle.turn,
        )
    )
    for asker in cycle.askers:
        step.reply(asker, ended.text)
    if step.data.steers:
        requeue_steers(step)
    if step.data.agents.is_waking and agent_pool.may_be_woken(step):
        agent_pool.wake_after_cycle(step)
    return Phase.IDLE


def fail(step: StepContext, error: ErrorInfo) -> Phase:
    """End the cycle with an error. An error is never an empty answer."""
    cycle = step.cycle
    if error.code == "content_refused":
        step.data.refused = (*step.data.refused, _asked_by(step, cycle))
    ended = close_cycle(step, "failed", error=error)
    step.publish(AgentError(error=error, ref=cycle.ref))
    for asker in cycle.askers:
        step.refuse(asker, CycleFailed(error, text=ended.text))
    if step.data.steers:
        requeue_steers(step)
    return Phase.IDLE


def _asked_by(step: StepContext, cycle: Cycle) -> PromptRef:
    """Return the prompt of a cycle. For a cycle without one, return the latest prompt of the history."""
    if cycle.goes_on:
        for message in reversed(step.data.history.messages):
            if isinstance(message, UserMessage) and message.origin == "prompt" and message.ref is not None:
                return message.ref
    return cycle.ref


def close_cycle(
    step: StepContext,
    outcome: Literal["finished", "aborted", "failed"],
    *,
    reason: str | None = None,
    error: ErrorInfo | None = None,
) -> Ended:
    """Clear the cycle and record how it ended. The caller publishes the end and answers the waiting callers."""
    if has_listeners(step, AfterTurn):
        after_turn(step, outcome, reason=reason if error is None else error.message)
    ended = Ended(outcome=outcome, text=answer_of(step), reason=reason, error=error)
    step.data.cycle = None
    step.data.stream = None
    step.data.batch = NO_CALLS
    step.data.interventions = ()
    step.data.last = ended
    return ended


def after_turn(
    step: StepContext, outcome: Literal["finished", "aborted", "failed"], *, reason: str | None
) -> None:
    """Notify plugins of the end of a cycle on every path, and of every abort. They can neither veto nor delay it."""
    cycle = step.data.cycle
    began = cycle.started_at_ms if cycle is not None else step.at_ms
    ask_plugins(
        step,
        AfterTurn(
            outcome="finished" if outcome == "finished" else "aborted",
            abort_reason=reason,
            messages_diff=cycle_messages_of(step.data),
            usage_diff=cycle.usage if cycle is not None else TokenUsage(),
            started_at_ms=began,
            ended_at_ms=step.at_ms,
            duration_ms=step.at_ms - began,
        ),
    )


def requeue_steers(step: StepContext) -> None:
    """Queue steers left at the end of their cycle as the next prompts, before all others."""
    steers = step.data.steers
    first = []
    for position, steer in enumerate(steers):
        prompt = prompt_of_steer(steer)
        first.append(prompt)
        say_queued(step, prompt, position)
    step.data.steers = ()
    step.data.queue = (*first, *step.data.queue)


def wait_for_reply(step: StepContext, to: SignalId) -> None:
    """Answer a caller with the outcome of the cycle: when it ends, or at once with the last one, its text or its error."""
    cycle, last, held = step.data.cycle, step.data.last, step.data.held
    prompt = held.prompt if held is not None else None
    askers = cycle.askers if cycle is not None else prompt.askers if prompt is not None else ()
    if len(askers) >= MAX_ASKERS:
        message = (
            f"{MAX_ASKERS} callers already wait for the end of this cycle: subscribe, or try again later"
        )
        step.refuse(to, MailboxFull(message))
    elif cycle is not None:
        step.data.cycle = replace(cycle, askers=(*askers, to))
    # Its cycle has not begun yet, but the caller means that one.
    elif held is not None and prompt is not None:
        prompt = replace(prompt, askers=(*askers, to))
        step.data.held = replace(held, prompt=prompt)
    elif last is None:
        step.reply(to, "")
    elif last.outcome == "finished":
        step.reply(to, last.text)
    elif last.error is not None:
        step.refuse(to, CycleFailed(last.error, text=last.text))
    else:
        step.refuse(to, CycleAborted(last.reason))


def _apply_interventions(step: StepContext) -> None:
    injected = step.data.interventions
    prompt = "\n\n".join(one.prompt for one in injected)
    message = UserMessage(content=(Text(text=prompt),), origin="intervention")
    step.data.interventions = ()
    step.data.history = step.data.history.with_user(message)
    step.publish(Intervention(prompt=prompt, by=tuple(one.by for one in injected)))


def _apply_steers(step: StepContext) -> None:
    steers = step.data.steers
    content = (Text(text="\n\n".join(steer.text for steer in steers)),)
    step.data.steers = ()
    step.data.history = step.data.history.with_user(UserMessage(content=content, origin="steer"))
    step.publish(SteeringApplied(refs=tuple(steer.ref for steer in steers), count=len(steers)))


# Silence of the current request. Chunks record their time, and a timer decides when to check the clock.
# `policy.patience` defines the limits. The timer starts and ends with the stream, so a request that answers
# in time costs no effect of its own.


def start_stream(step: StepContext, request: ModelRequest, context: EffectId | None = None) -> None:
    """Send a request with its gathered context, and set the time of the first stall check."""
    clock = StallClock(heard_at_ms=step.at_ms)
    _, silence = decide_stall(clock, step.at_ms, model_of(step.data).stalls)
    step.data.stream = replace(step.stream, clock=clock)
    look_at_ms = silence.look_again_at_ms or step.at_ms
    effect = StartStream(request=request, look_at_ms=look_at_ms, context=context)
    step.start_stream(effect, OfStream(), OfStallTimer())


def note_chunk(step: StepContext) -> None:
    """Record the arrival of a chunk. After the first one, another time limit applies, which may end before the next check."""
    stream = step.stream
    step.data.stream = replace(stream, clock=stream.clock.heard(step.at_ms))
    if stream.clock.begun:
        return
    stalls = model_of(step.data).stalls
    if stalls.stall_policy != "report" and stalls.stall_ms < FIRST_REPORT_MS:
        _look_at(step, stream.effect_id, step.at_ms + stalls.stall_ms)


def look(step: StepContext, pinged_at_ms: int) -> ErrorInfo | None:
    """Check for a stall: report the silence and schedule the next check, or cancel a stream that was silent for too long."""
    stream = step.stream
    heard = stream.clock.pinged(pinged_at_ms) if pinged_at_ms else stream.clock
    clock, silence = decide_stall(heard, step.at_ms, model_of(step.data).stalls)
    step.data.stream = replace(stream, clock=clock)
    if silence.reported_seconds is not None:
        step.publish(StreamStalled(elapsed_seconds=silence.reported_seconds))
    if silence.look_again_at_ms is not None:
        _look_at(step, stream.effect_id, silence.look_again_at_ms)
    else:
        step.cancel(CancelStream(effect_id=stream.effect_id))
    return silence.error


def _look_at(step: StepContext, attempt: EffectId, at_ms: int) -> None:
    step.start(SetTimer(effect_id=stall_timer_of(attempt), at_ms=at_ms), OfStallTimer())


# The answer of a cycle: the text for its caller, and whether it matches the response format
# (`policy.response_format`).


_WITHOUT_AN_ANSWER: Final = frozenset({"not_resumed", "superseded"})
"""Ends of a cycle that the user chose, without an answer of the model."""


def answer_of(step: StepContext) -> str:
    """Return the answer of the cycle: the visible text of its last response, or its document if it has a format.

    Earlier text is left out, such as "I will look that up" between two calls, and the answer before a repair.
    """
    data = step.data
    last = _last_response(cycle_messages_of(data))
    said = "" if last is None else visible_text(last.text, data.config)
    schema = _schema_of(data)
    return said if schema is None else document_in(said, schema)


def _last_response(messages: tuple[Message, ...]) -> AssistantMessage | None:
    # Backwards: a cycle of a hundred turns has two hundred messages, and its answer is usually the last.
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            return message
    return None


def _schema_of(data: Known) -> JsonObject | None:
    settings = data.cycle.settings if data.cycle is not None else None
    if settings is not None and settings.response_format is not None:
        return settings.response_format
    return None if data.config.response_format is None else data.config.response_format.schema


def format_of(data: Known) -> ResponseFormat | None:
    """Return the response format of the running cycle: that of its caller, otherwise that of the session."""
    settings = data.cycle.settings if data.cycle is not None else None
    if settings is not None and settings.response_format is not None:
        # Compiled on demand: once or twice in a cycle.
        return ResponseFormat(settings.response_format)
    return data.config.response_format


def _check_answer(step: StepContext, stop_reason: EndReason) -> RepairTurn | Rejected | None:
    """Check the answer of a cycle that is about to finish. None means that it may."""
    if _schema_of(step.data) is None or stop_reason in _WITHOUT_AN_ANSWER:
        return None
    wanted = format_of(step.data)
    assert wanted is not None  # noqa: S101 - `_schema_of` found one
    no_turn_left = step.cycle.repaired or step.cycle.turn >= step.data.config.max_turns
    verdict = wanted.check(answer_of(step), repaired=no_turn_left, misfit=step.cycle.misfit)
    return None if isinstance(verdict, Accepted) else verdict


def _ask_for_repair(step: StepContext, repair: RepairTurn) -> None:
    """Add a note for the model that explains the faults of its answer. Once in a cycle."""
    note = UserMessage(content=(Text(text=repair.note),), origin="note")
    step.data.history = step.data.history.with_user(note)
    step.data.cycle = replace(step.cycle, repaired=True)
