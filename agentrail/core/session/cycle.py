"""The frame of a cycle: a prompt starts, a turn begins, the cycle ends.

Each function takes the step in progress, writes down what it decides, and returns the phase that follows. What comes
between two turns stands in `response` and `batch`, how a cycle is broken off in `teardown`.
"""

from typing import Final, Literal, assert_never

import msgspec
from msgspec.structs import replace

from agentrail.core.policy.context import Outgoing, outgoing
from agentrail.core.policy.patience import FIRST_REPORT_MS, StallClock, decide_stall
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
from agentrail.core.session import agents, calls, compaction, holding
from agentrail.core.session.agent_state import ActingAgent, AgentSpec
from agentrail.core.session.budget import reserve_request
from agentrail.core.session.hooking import ask_plugins, context_of
from agentrail.core.session.open_calls import NO_CALLS, CallState
from agentrail.core.session.owners import OfStallTimer, OfStream
from agentrail.core.session.projection import (
    LAST_TURN_NOTE,
    cycle_messages_of,
    digest_of,
    model_of,
    request_of,
)
from agentrail.core.session.receipts import ToolsReceipt
from agentrail.core.session.state import (
    BreakOff,
    Cycle,
    Ended,
    Known,
    Next,
    OptsUpdate,
    Phase,
    QueuedPrompt,
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
from agentrail.core.session.tags import visible_text
from agentrail.core.stack.loading import PluginEntry
from agentrail.core.stack.narrowing import narrow_stack, replace_unsafe
from agentrail.core.stack.outcome import Outcome
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
from agentrail.errors import AgentrailError, CycleAborted, CycleFailed, ErrorInfo, MailboxFull, PluginError
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

# Changes of a running session's model, tools and plugins.
#
# Models and tools change at once; a running request or call keeps its own. Plugins change only between two cycles, so no hook
# of an old version, or with old options, runs afterwards.


def switch_model(step: StepContext, signal: ChangeModel) -> None:
    """Ask another model from the next request on. The one that is asked already is none, and is not told to subscribers."""
    data = step.data
    before = model_of(data).model  # where one has failed, that of the fallback
    if signal.model.model == before == data.model.model and not signal.opts_changed:
        step.reply(signal.signal_id, None)
        return
    step.data.model = signal.model
    step.data.tools = data.tools.described(signal.described)
    cycle = data.cycle
    if cycle is not None:  # the fallbacks of the model before are not those of this one
        step.data.cycle = msgspec.structs.replace(
            cycle, attempts=msgspec.structs.replace(cycle.attempts, model=0)
        )
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
    """Attach and detach tools, all in one step; names that are not there are told, and are no error."""
    before = step.data.tools
    step.data.tools = before.changed(signal.attach, signal.detach, signal.generation, replace=signal.replace)
    attached = tuple(spec.name for spec in sorted(signal.attach, key=lambda spec: spec.name))
    missing = tuple(name for name in signal.detach if before.get(name) is None)
    detached = _say_tools_changed(step, before, attached)
    step.reply(signal.signal_id, ToolsReceipt(attached=attached, detached=detached, missing=missing))


def _say_tools_changed(step: StepContext, before: Toolbox, attached: tuple[str, ...]) -> tuple[str, ...]:
    """Publish which tools came and which went."""
    detached = tuple([name for name in before.names if step.data.tools.get(name) is None])
    for name in attached:
        step.publish(ToolAttached(name=name))
    for name in detached:
        step.publish(ToolDetached(name=name))
    if attached or detached:
        step.publish(ToolsUpdated(attached=attached, detached=detached))
    return detached


def tell_of_tool_source(step: StepContext, signal: ToolSourceReported) -> None:
    """Tell subscribers how a source of tools stands. The state keeps nothing of it: what tools there are stands in there already."""
    step.publish(ToolSourceChanged(source=signal.source, state=signal.state, reason=signal.reason))
    step.reply(signal.signal_id, None)


def update_plugin_opts(step: StepContext, phase: Phase, signal: UpdatePluginOpts) -> Phase:
    """Take new options of a plugin; they are applied in idle, where of two for one field the last counts."""
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
    """Let rules of the session above hold from here on, also for calls that wait for an approval."""
    try:
        changed = narrow_stack(step.data.stack, step.data.plugin_states, signal.options)
    except PluginError as error:
        step.refuse(signal.signal_id, error)
        return phase
    step.data.stack = changed.stack
    step.data.plugin_states = changed.states
    for state in step.data.batch:
        if state.judged_by:
            calls.put(step, msgspec.structs.replace(state, judged_by=()))
    step.reply(signal.signal_id, None)
    return phase


def apply_updates(step: StepContext) -> None:
    """Apply the option updates that waited for idle, unless a cycle is only suspended."""
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
    """Attach, detach or reload a plugin."""
    data = step.data
    if data.cycle is not None:
        waits = "a cycle waits for a person: decide, or abort it, before plugins change"
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
    """Find what a change brings; without options of its own a plugin that is loaded anew keeps the old ones."""
    record = signal.entry
    if record is None:
        raise PluginError([f"{signal.change} names no plugin: say which one is to come"])
    plugin = find_code(step.data.stack.ask, signal.signal_id, record)
    return plugin if record.options is None else (plugin, record.options)


# Handoff: the session continues with another agent's prompt, model and tools.
#
# History, queue, guards with their states and background agents stay. Both the old and the new agent must allow a call. The call
# is answered at once, and the handoff happens before the next request, when all other calls of its batch have ended; if
# the cycle is aborted first, it happens with the next cycle.

_MAX_HANDOFF_CHARACTERS: Final = 4_000


def take_handoff(step: StepContext, state: CallState) -> CallState:
    """Answer a call of `handoff_to`, and note where the session goes."""
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
            f"The note has {len(said)} characters, and at most {_MAX_HANDOFF_CHARACTERS} are taken.",
        )
    try:
        _stack_of(step, _spec_of(step, name)[1])
    except PluginError as error:
        return _refused(step, state, f"Nothing is handed over: {error}")
    step.data.acting = replace(data.acting, next=name, note=said)
    return calls.answer(step, state, f"{name} goes on from here.", is_error=False)[0]


def hand_over(step: StepContext, name: str) -> None:
    """Continue as the agent that the session was handed over to. What that one does not bring stays as it is."""
    acting = step.data.acting
    place, spec = _spec_of(step, name)
    try:
        change = _stack_of(step, spec)
    except PluginError as error:  # a plugin that went since the call was answered
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
    """Say under which change of the session's tools those of an agent are kept, who stands at this place among its agents.

    Below zero, where no change that a caller makes ever comes.
    """
    return -1 - place


def change_of_agent(agent: str, plugin: str) -> SignalId:
    """Say under which name the code of an agent's plugin is kept, which no signal brings."""
    return SignalId(f"agent/{agent}/{plugin}")


def _spec_of(step: StepContext, name: object) -> tuple[int, AgentSpec]:
    return next((place, one) for place, one in enumerate(step.data.config.agents) if one.name == name)


def _stack_of(step: StepContext, spec: AgentSpec) -> ChangedStack | None:
    """Give the plugins with which the session goes on as an agent; None for those that it has."""
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
    """Go on as before: an agent without its guards is none to hand a session over to."""
    step.data.acting = replace(step.data.acting, next=None, note=None)
    failed = ErrorInfo(code="plugin_error", message=f"the session is not handed over to {spec.name}: {error}")
    step.publish(PluginFailed(plugin=spec.name, hook="Handoff", error=failed, policy="closed"))


def _take_model(step: StepContext, spec: AgentSpec) -> None:
    before = model_of(step.data).model  # where one has failed, that of the fallback
    if spec.model is None or spec.model.model == before == step.data.model.model:
        return
    step.data.model = spec.model
    cycle = step.cycle  # the fallbacks of the model before are not those of this one
    step.data.cycle = replace(cycle, attempts=replace(cycle.attempts, model=0))
    step.publish(ModelSwitched(from_model=before, to_model=spec.model.model, by="handoff"))


def _take_tools(step: StepContext, tools: Toolbox, generation: int) -> None:
    before = step.data.tools
    step.data.tools = before.handed_over(tools, generation)
    _say_tools_changed(step, before, tools.names)


def _refused(step: StepContext, state: CallState, text: str) -> CallState:
    return calls.answer(step, state, text)[0]


_NOT_ANSWERS: Final = frozenset({"max_turns", "not_resumed", "superseded"})
"""The ends of a cycle without an answer of the model that a plugin could look at."""

MAX_ASKERS: Final = 1024
"""How many callers may wait for the end of one cycle; it is a queue like all others, so one more hears that it is full."""


def start_next(step: StepContext) -> Next:
    """Take the oldest prompt that waits, in the very step that puts it into the history."""
    prompt, *rest = step.data.queue
    step.data.queue = tuple(rest)
    return start_cycle(step, prompt)


def before_prompt(step: StepContext, prompt: QueuedPrompt) -> Outcome:
    """Ask the plugins about a prompt that is about to start. It may be held then."""
    text = "\n".join(block.text for block in prompt.content if isinstance(block, Text))
    return holding.ask_about_prompt(step, BeforePrompt(text=text, content=prompt.content), prompt)


def start_cycle(step: StepContext, prompt: QueuedPrompt) -> Next:
    """Begin the cycle of a prompt, unless a plugin refuses it, or wants to know something first."""
    outcome = before_prompt(step, prompt) if has_listeners(step, BeforePrompt) else None
    return Phase.RUNNING if step.data.held is not None else start_checked(step, prompt, outcome)


def start_checked(step: StepContext, prompt: QueuedPrompt, outcome: Outcome | None) -> Next:
    """Begin the cycle of a prompt, with what plugins said about it."""
    abort, decision = (outcome.abort, outcome.decision) if outcome is not None else (None, None)
    if decision is not None and isinstance(decision.action, ResolveApproval):
        abort = f"no call waits for a decision, so there is none to {decision.action.decision}"
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
    )
    if step.data.notes or step.data.agents.notes:
        _say_notes(step)
    prompted = UserMessage(content=prompt.content, ref=prompt.ref)
    step.data.history = step.data.history.with_user(prompted)
    if outcome is not None and outcome.interventions:
        step.data.interventions = outcome.interventions
    return begin_turn(step)


def start_without_words(step: StepContext, signal: GoOn) -> Next:
    """Begin a cycle that answers what the conversation ends with. Plugins judge its requests; there is no prompt to judge."""
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
    """Let the model hear what survivors of an abort said since, and agents in the background."""
    notes = tuple(Text(text=note) for note in (*step.data.notes, *agents.take_notes(step)))
    step.data.history = step.data.history.with_user(UserMessage(content=notes, origin="note"))
    step.data.notes = ()


def reject_prompt(step: StepContext, prompt: QueuedPrompt, reason: str) -> Phase:
    """Refuse a prompt: its text never enters the history, and there was nothing to stop.

    A cycle that waits for a person meanwhile goes on waiting. It has not ended, so nothing says that one has.
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


def refuse_askers(step: StepContext, prompt: QueuedPrompt, why: AgentrailError) -> None:
    """Tell the callers that wait for the text of a prompt that there will be none."""
    for asker in prompt.askers:
        step.refuse(asker, why)


def drop_queue(step: StepContext, why: AgentrailError) -> None:
    """Throw away all prompts that wait, and tell everybody."""
    for prompt in step.data.queue:
        step.publish(PromptDropped(ref=prompt.ref, content=prompt.content))
        refuse_askers(step, prompt, why)
    step.data.queue = ()


def begin_turn(step: StepContext) -> Next:
    """Prepare the next request, with all that was said meanwhile.

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
        content = tuple(Text(text=note) for note in agents.take_notes(step))
        step.data.history = step.data.history.with_user(UserMessage(content=content, origin="note"))
    if step.data.steers:
        _apply_steers(step)
    if step.data.interventions:
        _apply_interventions(step)
    if turn == config.max_turns:
        step.publish(MaxTurnsReached(turns=config.max_turns))
    step.data.cycle = msgspec.structs.replace(
        before, turn=turn, attempts=before.attempts.next_turn(), handed=None, context=None
    )
    return ask_and_send(step)


def ask_and_send(step: StepContext) -> Next:
    """Ask the plugins about the next request, and send it, or shorten the conversation first."""
    if has_listeners(step, BeforeRequest):
        abort = _ask_about_request(step)
        if abort is not None:
            return BreakOff(abort)
    return Phase.RUNNING if compaction.begin_compaction(step) else send_request(step)


def _ask_about_request(step: StepContext) -> str | None:
    """Let plugins look at the next request, speak before it, and hand on other messages for it; gives why they abort."""
    outcome = ask_plugins(step, BeforeRequest(messages=step.data.history.messages[:]))
    if outcome.abort is not None:
        return outcome.abort
    seen = len(step.data.history)
    if step.data.interventions:
        _apply_interventions(step)
    handed = outcome.messages
    # What they want said comes behind what they handed on, as it does behind the conversation.
    if handed is not None:
        handed = (*handed, *step.data.history.since(seen))
    points = outcome.hints.cache_points or ()
    step.data.cycle = msgspec.structs.replace(step.cycle, cache_points=points, handed=handed)
    return None


def go_on_after_compaction(step: StepContext, error: ErrorInfo | None) -> Next:
    """Do what a compaction held up: the request, its end, or nothing at all."""
    cycle = step.data.cycle
    if cycle is None:
        return Phase.IDLE
    if error is not None:
        return fail(step, error)
    if cycle.handed == ():
        # What they handed on was made of the conversation before. Sent all the same it would be as long as ever, and
        # without it what they keep from the model would be said.
        abort = _ask_about_request(step)
        if abort is not None:
            return BreakOff(abort)
    return send_request(step)


def go_on_with_context(step: StepContext, signal: ContextGathered) -> Next:
    """Send the request that waited for its context, with the steers that came meanwhile.

    Plugins are asked again where there are any: what goes out is not what they have seen. With its context the request may be too
    long, and then a summary comes first.
    """
    context = take_context(step, signal)
    if step.data.steers:
        _apply_steers(step)
        abort = _ask_about_request(step) if has_listeners(step, BeforeRequest) else None
        if abort is not None:
            return BreakOff(abort)
    if context.tokens or step.data.compact_asked is not None:
        return Phase.RUNNING if compaction.begin_compaction(step) else send_request(step)
    return send_request(step)


def send_request(step: StepContext) -> Phase:
    """Ask the model: the first attempt of a turn, or one more. Before the first one it is asked what is added to all of them."""
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
    else:  # another conversation, of which nothing is kept for the next one
        kept, messages = outgoing(Outgoing(), cycle.handed, data.refused)
    request = request_of(step.data, attempt, last_turn=last_turn, messages=messages)
    if kept.refused:  # plugins have seen the whole conversation: the places they named are those in there
        request = msgspec.structs.replace(request, cache_points=_moved(request.cache_points, kept))
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
    """Say whether tools are withheld on this turn, because the cycle may have no other."""
    turn = data.cycle.turn if data.cycle is not None else 0
    return turn >= data.config.max_turns and data.config.on_max_turns == "answer"


def stops_after_calls(data: Known) -> bool:
    """Say whether the calls of this turn are the last thing that the cycle does, because no model is to react to them."""
    turn = data.cycle.turn if data.cycle is not None else 0
    return turn >= data.config.max_turns and data.config.on_max_turns == "stop"


def finish(step: StepContext, stop_reason: EndReason) -> Next:
    """End the cycle well, unless the user has steered it: then the model gets another turn, if there is one left.

    A vendor that pauses in the middle of its own work wants the same conversation once more, which is a turn too.
    """
    turns_left = has_turns_left(step)
    if turns_left and stop_reason == "pause":
        return begin_turn(step)
    if turns_left and stop_reason != "superseded" and (step.data.steers or step.data.interventions):
        return begin_turn(step)
    if stop_reason not in _NOT_ANSWERS and has_listeners(step, BeforeFinish):
        outcome = holding.ask_about_end(step, stop_reason)
        return Phase.RUNNING if step.data.held is not None else finish_checked(step, stop_reason, outcome)
    return _finish_answered(step, stop_reason)


def finish_checked(step: StepContext, stop_reason: EndReason, outcome: Outcome) -> Next:
    """End the cycle, unless plugins want more, or the user has steered it while they were asked."""
    if outcome.abort is not None:
        return BreakOff(outcome.abort)
    if has_turns_left(step) and (step.data.steers or step.data.interventions):
        return begin_turn(step)
    return _finish_answered(step, stop_reason)


def has_turns_left(step: StepContext) -> bool:
    """Say whether the cycle may have another turn."""
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
    if step.data.agents.is_waking:
        agents.wake_after_cycle(step)
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
    """Give the prompt that a cycle works on; of one without a prompt the last that was said."""
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
    """Forget the cycle, and keep how it ended; the caller publishes that, and tells those who wait for it."""
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
    """Let plugins see that a cycle is over, on every path, and every abort. They can neither veto nor delay it."""
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
    """Let steers that met the end of their cycle be the next prompts, in front of those that wait already."""
    steers = step.data.steers
    first = []
    for position, steer in enumerate(steers):
        prompt = prompt_of_steer(steer)
        first.append(prompt)
        say_queued(step, prompt, position)
    step.data.steers = ()
    step.data.queue = (*first, *step.data.queue)


def wait_for_reply(step: StepContext, to: SignalId) -> None:
    """Tell a caller how the cycle ended: when it has, or at once the last one, its text or the error that stands for it."""
    cycle, last, held = step.data.cycle, step.data.last, step.data.held
    prompt = held.prompt if held is not None else None
    askers = cycle.askers if cycle is not None else prompt.askers if prompt is not None else ()
    if len(askers) >= MAX_ASKERS:
        message = (
            f"{MAX_ASKERS} callers wait for the end of this cycle already: subscribe, or ask again later"
        )
        step.refuse(to, MailboxFull(message))
    elif cycle is not None:
        step.data.cycle = msgspec.structs.replace(cycle, askers=(*askers, to))
    # Its cycle has not begun yet, but that is the one that is meant.
    elif held is not None and prompt is not None:
        prompt = msgspec.structs.replace(prompt, askers=(*askers, to))
        step.data.held = msgspec.structs.replace(held, prompt=prompt)
    elif last is None:
        step.reply(to, "")
    elif last.outcome == "finished":
        step.reply(to, last.text)
    elif last.error is not None:
        step.refuse(to, CycleFailed(last.error, text=last.text))
    else:
        step.refuse(to, CycleAborted(last.reason))


def _apply_interventions(step: StepContext) -> None:
    """Let plugins speak: all that they want said, as one message."""
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


# Silence of the current request. Chunks note their time, and a timer says when to look at the clock.
#
# `policy.patience` says what a silence means. The timer starts and ends with the stream, so a request that answers in time
# costs no effect of its own.


def start_stream(step: StepContext, request: ModelRequest, context: EffectId | None = None) -> None:
    """Send a request, with what was gathered for it, and say when to look at it first."""
    clock = StallClock(heard_at_ms=step.at_ms)
    _, silence = decide_stall(clock, step.at_ms, model_of(step.data).stalls)
    step.data.stream = msgspec.structs.replace(step.stream, clock=clock)
    look_at_ms = silence.look_again_at_ms or step.at_ms
    effect = StartStream(request=request, look_at_ms=look_at_ms, context=context)
    step.start_stream(effect, OfStream(), OfStallTimer())


def note_chunk(step: StepContext) -> None:
    """Note that something came. The first time the silence that counts becomes another, and may end before the next look."""
    stream = step.stream
    clock = stream.clock.heard(step.at_ms)
    step.data.stream = msgspec.structs.replace(stream, clock=clock)
    stalls = model_of(step.data).stalls
    if not stream.clock.begun and stalls.stall_policy != "report" and stalls.stall_ms < FIRST_REPORT_MS:
        _look_at(step, stream.effect_id, step.at_ms + stalls.stall_ms)


def look(step: StepContext, pinged_at_ms: int) -> ErrorInfo | None:
    """Look at the clock: report a silence, and set the next look; or stop a stream that has been silent for too long."""
    stream = step.stream
    heard = stream.clock.pinged(pinged_at_ms) if pinged_at_ms else stream.clock
    clock, silence = decide_stall(heard, step.at_ms, model_of(step.data).stalls)
    step.data.stream = msgspec.structs.replace(stream, clock=clock)
    if silence.reported_seconds is not None:
        step.publish(StreamStalled(elapsed_seconds=silence.reported_seconds))
    if silence.look_again_at_ms is not None:
        _look_at(step, stream.effect_id, silence.look_again_at_ms)
    else:
        step.cancel(CancelStream(effect_id=stream.effect_id))
    return silence.error


def _look_at(step: StepContext, attempt: EffectId, at_ms: int) -> None:
    step.start(SetTimer(effect_id=stall_timer_of(attempt), at_ms=at_ms), OfStallTimer())


# The answer of a cycle: the text for its caller, and whether it has the promised format (`policy.response_format`).


_WITHOUT_AN_ANSWER: Final = frozenset({"not_resumed", "superseded"})
"""The ends of a cycle that people chose: what the model would have answered is unknown."""


def answer_of(step: StepContext) -> str:
    """Give the answer of the cycle: what was said aloud in its last response; its document, where it is to have a shape.

    Not all that was said: "I will look that up" between two calls, and the answer before the repair, are no part of it.
    """
    data = step.data
    last = _last_response(cycle_messages_of(data))
    said = "" if last is None else visible_text(last.text, data.config)
    schema = _schema_of(data)
    return said if schema is None else document_in(said, schema)


def _last_response(messages: tuple[Message, ...]) -> AssistantMessage | None:
    # From the end: a cycle of a hundred turns has two hundred messages, and its answer is mostly the last of them.
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
    """Give what the answer of the running cycle is judged by: what its caller wants, else what the session was set up with."""
    settings = data.cycle.settings if data.cycle is not None else None
    if settings is not None and settings.response_format is not None:
        # Compiled when it is needed: once or twice in a cycle.
        return ResponseFormat(settings.response_format)
    return data.config.response_format


def _check_answer(step: StepContext, stop_reason: EndReason) -> RepairTurn | Rejected | None:
    """Judge the answer of a cycle that is about to finish; None when it may."""
    if _schema_of(step.data) is None or stop_reason in _WITHOUT_AN_ANSWER:
        return None
    wanted = format_of(step.data)
    assert wanted is not None  # noqa: S101 - it was looked for
    no_turn_left = step.cycle.repaired or step.cycle.turn >= step.data.config.max_turns
    verdict = wanted.check(answer_of(step), repaired=no_turn_left, misfit=step.cycle.misfit)
    return None if isinstance(verdict, Accepted) else verdict


def _ask_for_repair(step: StepContext, repair: RepairTurn) -> None:
    """Tell the model what is wrong with its answer; once in a cycle."""
    note = UserMessage(content=(Text(text=repair.note),), origin="note")
    step.data.history = step.data.history.with_user(note)
    step.data.cycle = msgspec.structs.replace(step.cycle, repaired=True)
