"""`step(state, signal) -> (state, effects)`: the only way to advance a session.

`transitions.py` holds the transition table and `TAKERS` maps each signal to its handler. Nothing else decides.

| | in a step | repeated if |
|---|---|---|
| 1 | the signal is taken, dropped or postponed, according to the table | |
| 2 | an abort requested by a plugin ends the cycle, and changes that wait for idle are applied | 1, 3 or 4 took a signal or prompt |
| 3 | postponed signals are judged again, oldest first, before any other pending signal | the phase has changed |
| 4 | in idle, the session ends if it is stopping, otherwise the oldest queued prompt starts | no signal is left to judge |

Callers are therefore answered in order: the next prompt, or the end, comes after all postponed signals and before
any new message from the mailbox. A step uses the time of its signal throughout, and works on one draft that is
frozen at its end.

No clock, no id, no randomness and no I/O: they arrive inside signals.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar, assert_never

from msgspec.structs import replace

from agentrail.core.policy.budget import Ledger
from agentrail.core.policy.calls import call_ids_of
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol import signals
from agentrail.core.protocol.actions import ResolveApproval
from agentrail.core.protocol.effects import Effect, End, KillTools
from agentrail.core.protocol.hooks import (
    BeforePrompt,
    BeforeSteering,
    RequestFailed,
    RequestResult,
    SessionStarted,
)
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import GoOn, Prompt, Steer
from agentrail.core.session import (
    agent_calls,
    approval_rules,
    batch,
    child_sessions,
    client_calls,
    compaction_run,
    cycle,
    cycle as settings,
    decisions,
    effect_owners,
    interactions,
    receipts,
    recovery,
    response,
    teardown,
    waiting_hooks,
)
from agentrail.core.session.decisions import (
    find_approval_in_chat,
    hear_steer,
    hold_offered,
    resolve,
    supersede,
)
from agentrail.core.session.plugin_hooks import ask_plugins, plugin_request_finished
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt, recall, remember
from agentrail.core.session.recorded_calls import RecordedCalls
from agentrail.core.session.reservations import lend_to_cycle, raise_budget
from agentrail.core.session.state import (
    SEMANTICS,
    BreakOff,
    Known,
    Next,
    Phase,
    QueuedPrompt,
    QueuedSteer,
    SessionConfig,
    SessionData,
    SessionState,
)
from agentrail.core.session.step_context import (
    StepContext,
    has_listeners,
    prompt_of_steer,
    say_queued,
    say_received,
    waiting_prompt,
)
from agentrail.core.session.transitions import LEGALITY, Verdict, is_ephemeral_signal, verdict
from agentrail.core.session.views import snapshot_of, status_of
from agentrail.core.stack.hook_outcome import Injected, Outcome
from agentrail.core.stack.loaded_stack import EMPTY_STACK, NO_STATES, PluginStates, Stack
from agentrail.core.values.import_history import import_messages
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import (
    CannotGoOn,
    ClientIdReused,
    InteractionError,
    InternalError,
    MailboxFull,
    OptionError,
    PromptError,
    PromptQueueFull,
    SessionDown,
    SteeringQueueFull,
)
from agentrail.events import (
    AbortReceipt,
    AgentStart,
    PluginSlow,
    PromptTaken,
    SessionStart,
    SignalQuarantined,
    SteeringReceived,
    SteerStatus,
)
from agentrail.messages import ApprovalId, AssistantMessage, Message
from agentrail.otp.exits import Crashed, Shutdown, describe
from agentrail.otp.guarded_calls import travels

MAX_POSTPONED: Final = 1_000
"""Maximum number of postponed signals. Another caller is refused with `MailboxFull`."""

_FAR_FUTURE_MS: Final = 2**53  # nearly all times are below this, larger ones are checked in full
_TAKE: Final = Verdict.TAKE
_IDLE: Final = Phase.IDLE  # a global name costs one dict lookup, an enum member ten times that

S = TypeVar("S", bound=signals.Signal)
A = TypeVar("A", bound=signals.Asked)
Take: TypeAlias = Callable[[StepContext, Phase, Any], Next]
"""Handles a signal that the table accepts in this phase, and returns the next phase."""

_Ending: TypeAlias = (
    signals.ResponseCompleted
    | signals.StreamFailed
    | signals.ToolFinished
    | signals.HostJudged
    | signals.HostTold
    | signals.AgentEnded
    | signals.TimerFired
    | signals.PluginRequestFinished
    | signals.ContextGathered
    | signals.TeardownFinished
)
"""Outcomes that end an effect."""


def new_session(
    config: SessionConfig,
    tools: Toolbox,
    stack: Stack = EMPTY_STACK,
    plugin_states: PluginStates = NO_STATES,
    messages: Sequence[Message] = (),
) -> SessionState:
    """Return the state of a session that has not started. Its first signal is `SessionBegan`.

    Args:
        config: Its configuration.
        tools: Tools that its model can call.
        stack: Its plugins.
        plugin_states: Initial states of the plugins.
        messages: Conversation to continue, from any source. Defects in it are repaired.
    """
    data = SessionData(
        config=config,
        model=config.model,
        tools=tools,
        stack=stack,
        plugin_states=plugin_states,
        ledger=Ledger(budget=config.budget) if config.budget is not None else None,
        rules=config.rules,
        semantics=SEMANTICS,
    )
    if messages:
        history, repairs = import_messages(messages)
        call_ids = call_ids_of(history.messages)
        data = replace(data, history=history, repairs=repairs, call_ids=call_ids)
    return SessionState(Phase.IDLE, data)


def step(
    state: SessionState, signal: signals.Signal, recorded: RecordedCalls | None = None
) -> tuple[SessionState, tuple[Effect, ...]]:
    """Return the complete next state and the effects to carry out, in order.

    Total: every pair of phase and signal has a verdict. A session that has ended ignores every signal.
    """
    if state.ended:
        return state, ()
    given: Any = signal  # a compiled module would trust the annotation, and the annotation is in doubt here
    at_ms = given.at_ms
    if type(at_ms) is not int or not 0 <= at_ms < _FAR_FUTURE_MS:
        _check_time(signal)
    suspended = state.phase is _IDLE and state.data.cycle is not None
    step = StepContext(state.data, at_ms, suspended=suspended, recorded=recorded)
    try:
        phase, postponed, ended = _advance(step, state.phase, state.postponed, signal)
        after = SessionState(phase, step.close(), postponed, ended)
    except BaseException as error:  # noqa: ASYNC103 - a bug of ours becomes an error of the step, whatever its class
        if travels(error):
            raise
        crash = Crashed.from_exception(error)
    else:
        return after, tuple(step.effects)
    # Raised outside the `except`, so that it carries no frames, whose locals its keeper must not keep.
    raise InternalError(describe(crash))


def _check_time(signal: signals.Signal) -> None:
    given: Any = signal  # a compiled module would trust the annotation, and the annotation is in doubt here
    try:
        is_time = issubclass(type(given.at_ms), int) and math.isfinite(given.at_ms)
    except (TypeError, OverflowError):
        is_time = False
    if not is_time:  # no clock returns this: a bug in the code that made the signal
        message = f"{type(signal).__name__} has the time {given.at_ms!r:.50}: expected whole milliseconds since 1970"
        raise InternalError(message)


def _advance(
    step: StepContext, phase: Phase, postponed: tuple[signals.Signal, ...], signal: signals.Signal
) -> tuple[Phase, tuple[signals.Signal, ...], bool]:
    """Process a signal and its follow-up work until only the mailbox can supply more."""
    todo: list[signals.Signal] = [signal]  # next signal last
    while True:
        before = phase
        if todo:
            taken = todo.pop()
            decided = verdict(phase, step.data, taken)
            if decided is _TAKE:
                phase = settle_step(step, TAKERS[type(taken)](step, phase, taken))
            elif decided is Verdict.DROP:
                step.data.dropped += not is_ephemeral_signal(taken)
            else:
                postponed = _postponed(step, postponed, taken)
        elif phase is not _IDLE:
            return phase, postponed, False
        elif step.data.stopping is not None and teardown.may_end(step):
            teardown.finish_session(step)
            step.ask(End(describe(Shutdown(step.data.stopping))))
            return phase, postponed, True
        elif step.data.queue and step.data.cycle is None and step.data.teardown is None:
            phase = settle_step(step, cycle.start_next(step))
        else:
            return phase, postponed, False
        if postponed and phase is not before:
            todo += reversed(postponed)
            postponed = ()


def settle_step(step: StepContext, after: Next) -> Phase:
    if type(after) is BreakOff:
        after = teardown.abort_by_plugin(step, after.reason)
    held = step.data.held
    if held is not None and held.prompt is not None and (after is Phase.IDLE) is (step.data.cycle is None):
        # It was judged while a cycle was suspended, which has resumed or ended.
        waiting_hooks.back_to_queue(step)
    if step.data.wishes or step.data.loans:
        child_sessions.look_after(step)
    if after is _IDLE:
        if step.data.updates:
            settings.apply_updates(step)
        if step.data.cycle is not None and not step.suspended:
            interactions.begin_wait(step)
    return after


def _postponed(
    step: StepContext, postponed: tuple[signals.Signal, ...], signal: signals.Signal
) -> tuple[signals.Signal, ...]:
    if len(postponed) < MAX_POSTPONED:
        return (*postponed, signal)
    if not isinstance(signal, signals.Asked):
        message = f"{MAX_POSTPONED} signals are postponed, and no caller of this {type(signal).__name__} can be notified"
        raise InternalError(message)
    step.refuse(signal.signal_id, MailboxFull("too many callers are already waiting (postpone queue)"))
    return postponed


# Messages of users. A prompt starts a cycle or is queued, a steer joins the running cycle, `go_on` continues
# without words.
#
# An accepted message leaves its queue only in the step that adds it to the history or publishes that it was
# dropped.


_NO_WORDS: Final = ()
"""Content recorded for a message without words. No prompt has this content."""


def admit(step: StepContext, phase: Phase, signal: Prompt) -> Next:
    """Start a prompt, queue it, or refuse it if the queue is full.

    A prompt that arrives while a cycle waits for the user supersedes the pending interactions.
    """
    data = step.data
    if not signal.content:  # it would block the queue: no prompt after it would ever start
        step.refuse(signal.signal_id, PromptError("the prompt has no content: give one block or more"))
        return phase
    if (signal.client_id is not None or data.stopping is not None) and _is_answered(
        step, signal, _said(signal), PromptReceipt
    ):
        return phase
    if signal.settings is not None and _refuses_tools(step, signal, signal.settings):
        return phase
    position = len(data.queue)
    is_free = phase is Phase.IDLE and data.teardown is None and not position and data.held is None
    if not is_free and position >= data.config.max_prompt_queue:
        message = f"{position} prompts are already queued, the limit is {data.config.max_prompt_queue}: wait for the end of a cycle"
        step.refuse(signal.signal_id, PromptQueueFull(message))
        return phase
    askers = (signal.signal_id,) if signal.reply == "text" else ()
    prompt = waiting_prompt(signal, askers)
    if is_free:
        say_received(step, prompt)
        _give_receipt(
            step,
            signal,
            PromptReceipt(ref=signal.ref, queued=False, seq=step.data.seq, request_id=signal.request_id),
        )
        return _start_cycle(step, phase, prompt)
    if data.cycle is not None and phase is Phase.IDLE:
        if data.held is not None:
            waiting_hooks.back_to_queue(step)
        supersede(step)
    position = len(step.data.queue)
    step.data.queue = (*step.data.queue, prompt)
    say_queued(step, prompt, position)
    _give_receipt(
        step,
        signal,
        PromptReceipt(
            ref=signal.ref, queued=True, position=position, seq=step.data.seq, request_id=signal.request_id
        ),
    )
    return phase


def _said(signal: Prompt | GoOn) -> object:
    """Return the value that identifies a message whose sender supplies no digest: its content and its settings."""
    content = signal.content if isinstance(signal, Prompt) else _NO_WORDS
    return content if signal.settings is None else (content, signal.settings)


def _refuses_tools(step: StepContext, signal: Prompt | GoOn, settings: PromptSettings) -> bool:
    """Refuse a message with a client tool that would replace a tool of the session. Nothing of it is admitted."""
    faults = [
        f"settings: tools has {spec.name!r}, which the session has already: give it another name"
        for spec in settings.tools
        if step.data.tools.get(spec.name) is not None
    ]
    if faults:
        step.refuse(signal.signal_id, OptionError(faults))
    return bool(faults)


def go_on(step: StepContext, phase: Phase, signal: GoOn) -> Next:
    """Continue the conversation without a prompt. Refused unless the session is idle and the last message is not an answer."""
    if _is_answered(step, signal, _said(signal), PromptReceipt):
        return phase
    if signal.settings is not None and _refuses_tools(step, signal, signal.settings):
        return phase
    fault = _why_not_on(step.data, phase)
    if fault is not None:
        step.refuse(signal.signal_id, CannotGoOn(fault))
        return phase
    step.publish(AgentStart(ref=signal.ref, request_id=signal.request_id, goes_on=True, via=signal.via))
    receipt = PromptReceipt(ref=signal.ref, queued=False, seq=step.data.seq, request_id=signal.request_id)
    if signal.client_id is not None:
        remember(step, signal.client_id, _said(signal), receipt, digest=signal.digest)
    step.reply(signal.signal_id, receipt)
    return cycle.start_without_words(step, signal)


def _why_not_on(data: Known, phase: Phase) -> str | None:
    if phase is not Phase.IDLE:
        return "the session is running: wait for the end of its cycle"
    if data.cycle is not None:
        return "the cycle waits for a user: decide or abort it"
    if data.teardown is not None or data.queue:
        return "stopped work has not ended yet: wait for AbortSettled"
    last = data.history.messages[-1] if len(data.history) else None
    if last is None:
        return "there is no conversation yet: prompt instead"
    if isinstance(last, AssistantMessage):
        return "the conversation ends with an answer, not with results or a user's message: prompt instead"
    return None


def _start_cycle(step: StepContext, phase: Phase, prompt: QueuedPrompt) -> Next:
    """Start a prompt, unless it answers a pending interaction of the suspended cycle. Otherwise it ends that cycle."""
    if prompt.settings is not None:
        lend_to_cycle(step, prompt.settings)
    waiting = step.data.interventions
    outcome = cycle.before_prompt(step, prompt) if has_listeners(step, BeforePrompt) else None
    if step.data.held is not None:
        return Phase.RUNNING if step.data.cycle is None else phase
    return _checked_prompt(step, prompt, outcome, waiting)


def continue_prompt(
    step: StepContext, phase: Phase, prompt: QueuedPrompt, result: RequestResult, *, is_late: bool
) -> Next:
    """Continue a held prompt with the plugin's result, unless another hook holds it again."""
    waiting = step.data.interventions
    outcome = waiting_hooks.go_on_asking(step, result, is_late=is_late)
    return phase if step.data.held is not None else _checked_prompt(step, prompt, outcome, waiting)


def _checked_prompt(
    step: StepContext,
    prompt: QueuedPrompt,
    outcome: Outcome | None,
    waiting: tuple[Injected, ...],
) -> Next:
    if step.data.cycle is None:
        return cycle.start_checked(step, prompt, outcome)
    step.data.interventions = waiting  # added text belongs to the prompt, not to the suspended cycle
    abort, decision = (outcome.abort, outcome.decision) if outcome is not None else (None, None)
    if abort is not None:
        return cycle.reject_prompt(step, prompt, abort)
    if decision is not None and isinstance(decision.action, ResolveApproval):
        return _resolve(step, prompt, decision.action, by=decision.by)
    supersede(step)
    return cycle.start_checked(step, prompt, outcome)


def _resolve(step: StepContext, prompt: QueuedPrompt, action: ResolveApproval[Any], *, by: str) -> Next:
    """Apply a prompt as a decision. If no such approval is pending, refuse it and name the pending ones."""
    try:
        approval = find_approval_in_chat(step, action.approval_id)
        hold_offered(approval, action.decision)
    except InteractionError as error:
        return cycle.reject_prompt(step, prompt, str(error))
    step.publish(PromptTaken(ref=prompt.ref, approval_id=ApprovalId(approval.id), by=by))
    for asker in prompt.askers:
        cycle.wait_for_reply(step, asker)
    return resolve(step, approval, action.decision)


def steer(step: StepContext, phase: Phase, signal: Steer) -> Next:
    """Queue a steer for the next gap of the running cycle. Without a cycle it becomes a prompt."""
    data = step.data
    if _is_answered(step, signal, signal.text, SteerReceipt):
        return phase
    signal, rejected = _checked_steer(step, signal)
    if rejected:
        return phase
    if data.cycle is None:
        return _steer_becomes_prompt(step, phase, signal)
    full = _why_no_steer(data)
    if full is not None:
        _say(step, signal, "rejected_full")
        step.refuse(signal.signal_id, SteeringQueueFull(full))
        return phase
    queued = QueuedSteer(ref=signal.ref, text=signal.text, via=signal.via, request_id=signal.request_id)
    step.data.steers = (*data.steers, queued)
    _give_steer_receipt(step, signal, "queued")
    held = step.data.held
    if held is not None and held.notes is None and phase is Phase.RUNNING and cycle.has_turns_left(step):
        # Another turn follows whatever the plugin decides about this answer, so the session stops waiting for
        # it.
        waiting_hooks.decide_without(step)
        return cycle.begin_turn(step)
    return hear_steer(step) if step.data.batch else phase


def _why_no_steer(data: Known) -> str | None:
    waiting, most = len(data.steers), data.config.max_steering_queue
    if waiting >= most:
        return f"{waiting} steers are already queued, the limit is {most}: wait for SteeringApplied"
    # Steers left at the end of their cycle join the prompt queue, even a full one. If every cycle ended before
    # its steers were applied, the queue would grow with each cycle. So they need room in it, too.
    both, queued = most + data.config.max_prompt_queue, len(data.queue)
    if queued + waiting >= both:
        return f"{queued} prompts and {waiting} steers are already queued, the limit is {both}: wait for the end of a cycle"
    return None


def _is_answered(
    step: StepContext,
    signal: Prompt | GoOn | Steer,
    said: object,
    kind: type[PromptReceipt] | type[SteerReceipt],
) -> bool:
    """Answer a message without judging it, if the session is stopping or the message is a repeat with a known receipt."""
    data = step.data
    if data.stopping is not None:
        step.refuse(signal.signal_id, SessionDown(data.config.session_id, data.stopping))
        return True
    try:
        digest = None if isinstance(signal, Steer) else signal.digest
        known = recall(step, signal.client_id, said, kind, digest=digest)
    except ClientIdReused as error:
        step.refuse(signal.signal_id, error)
        return True
    if known is not None:
        step.reply(signal.signal_id, known)
    return known is not None


def _checked_steer(step: StepContext, signal: Steer) -> tuple[Steer, bool]:
    """Ask the plugins about a steer. Return it with the text they put before it, and whether they refused it."""
    if not has_listeners(step, BeforeSteering):
        return signal, False
    waiting = step.data.interventions
    outcome = ask_plugins(step, BeforeSteering(text=signal.text))
    step.data.interventions = waiting  # added text belongs to the steer, not to the next request
    if outcome.abort is not None:
        _give_steer_receipt(step, signal, "rejected_by_plugin")
        return signal, True
    if outcome.prompt is not None:
        signal = replace(signal, text=f"{outcome.prompt}\n\n{signal.text}")
    return signal, False


def _steer_becomes_prompt(step: StepContext, phase: Phase, signal: Steer) -> Next:
    data = step.data
    position = len(data.queue)
    is_free = phase is Phase.IDLE and data.teardown is None and not position and data.held is None
    if not is_free and position >= data.config.max_prompt_queue:
        _say(step, signal, "rejected_full")
        message = f"{position} prompts are already queued, the limit is {data.config.max_prompt_queue}: wait for the end of a cycle"
        step.refuse(signal.signal_id, PromptQueueFull(message))
        return phase
    _give_steer_receipt(step, signal, "became_prompt")
    prompt = prompt_of_steer(signal)
    if is_free:
        say_received(step, prompt)
        return cycle.start_cycle(step, prompt)
    step.data.queue = (*data.queue, prompt)
    say_queued(step, prompt, position)
    return phase


def _say(step: StepContext, signal: Steer, status: SteerStatus) -> None:
    step.publish(SteeringReceived(ref=signal.ref, text=signal.text, queued_at_ms=signal.at_ms, status=status))


def _give_receipt(step: StepContext, signal: Prompt, receipt: PromptReceipt) -> None:
    if signal.client_id is not None:
        remember(step, signal.client_id, _said(signal), receipt, digest=signal.digest)
    if signal.reply == "receipt":
        step.reply(signal.signal_id, receipt)


def _give_steer_receipt(
    step: StepContext, signal: Steer, status: Literal["queued", "became_prompt", "rejected_by_plugin"]
) -> None:
    _say(step, signal, status)
    receipt = SteerReceipt(ref=signal.ref, status=status, seq=step.data.seq, request_id=signal.request_id)
    remember(step, signal.client_id, signal.text, receipt)
    step.reply(signal.signal_id, receipt)


# --- handlers of the signals


def _go_on_held(step: StepContext, phase: Phase, result: RequestResult, *, is_late: bool = False) -> Next:
    held = waiting_hooks.now_held(step)
    if held.prompt is not None:
        return continue_prompt(step, phase, held.prompt, result, is_late=is_late)
    outcome = waiting_hooks.go_on_asking(step, result, is_late=is_late)
    if step.data.held is not None:
        return phase
    if held.stop_reason is not None:
        return cycle.finish_checked(step, held.stop_reason, outcome)
    return batch.close_checked(step, held.notes or (), outcome.abort)


def _compact(step: StepContext, phase: Phase, signal: signals.Compact) -> Phase:
    """Shorten the history: at once in idle, otherwise before the next request."""
    data = step.data
    if data.stopping is not None:
        step.refuse(signal.signal_id, SessionDown(data.config.session_id, data.stopping))
        return phase
    if data.compaction is None:  # otherwise the running compaction serves, and its end is the answer
        step.data.compact_asked = signal.reason or "asked"
    step.reply(signal.signal_id, None)
    is_free = phase is Phase.IDLE and data.cycle is None and data.teardown is None
    return Phase.RUNNING if is_free and compaction_run.begin_compaction(step) else phase


def _ended(step: StepContext, phase: Phase, signal: _Ending) -> Next:
    owner = step.ended(signal.effect_id)
    match owner, signal:
        case effect_owners.OfStream(), signals.ResponseCompleted():
            return response.completed(step, phase, signal)
        case effect_owners.OfCall(call_id), signals.ToolFinished():
            return batch.call_finished(step, phase, signal, call_id)
        case effect_owners.OfStream(), signals.StreamFailed():
            return response.response_failed(step, phase, signal)
        case effect_owners.OfStallTimer(), signals.TimerFired():
            return response.look_at_silence(step, phase, signal)
        case effect_owners.OfPause(), signals.TimerFired():
            return cycle.send_request(step)
        case effect_owners.OfRetry(call_id), signals.TimerFired():
            return batch.pause_is_over(step, call_id)
        case effect_owners.OfStoppedCall(call_id), signals.ToolFinished():
            return batch.stopped_call_ended(step, phase, signal, call_id)
        case effect_owners.OfSurvivor(call_id), signals.ToolFinished():
            return batch.survivor_finished(step, phase, signal, call_id)
        case effect_owners.OfChild(), signals.ToolFinished():
            return batch.child_ended(step, phase, signal)
        case effect_owners.OfLoan(), signals.ToolFinished():
            return batch.loan_ended(step, phase, signal)
        case effect_owners.OfHostCheck(call_id), signals.HostJudged():
            return batch.host_judged(step, signal, call_id)
        case effect_owners.OfHostReport(call_id), signals.HostTold():
            return batch.host_told(step, phase, signal, call_id)
        case effect_owners.OfAgent(name), signals.AgentEnded():
            return batch.agent_ended(step, phase, signal, name)
        case effect_owners.OfAgentWait(call_id), signals.TimerFired():
            return batch.wait_is_over(step, call_id)
        case effect_owners.OfInteraction(interaction_id), signals.TimerFired():
            return decisions.time_is_up(step, phase, interaction_id)
        case effect_owners.OfPluginRequest() as asked, signals.PluginRequestFinished():
            plugin_request_finished(step, asked, signal)
            return phase
        case effect_owners.OfContext(), signals.ContextGathered():
            return cycle.go_on_with_context(step, signal)
        case effect_owners.OfHeldHook(), signals.PluginRequestFinished():
            return _go_on_held(step, phase, signal.result)
        case effect_owners.OfHoldTimer(), signals.TimerFired():
            # The usage of an abandoned request is unknown, so its whole reservation is booked.
            return _go_on_held(
                step, phase, RequestFailed(error=waiting_hooks.TOO_LATE, usage=None), is_late=True
            )
        case effect_owners.OfSummary(), signals.ResponseCompleted():
            compaction_run.summarised(step, signal.message.text, signal.usage)
            return phase
        case effect_owners.OfSummary() | effect_owners.OfTranscript(), signals.StreamFailed():
            return cycle.go_on_after_compaction(
                step, compaction_run.go_on_without_summary(step, signal.usage)
            )
        case effect_owners.OfSummaryTimer(), signals.TimerFired():
            return cycle.go_on_after_compaction(step, compaction_run.stop_waiting(step))
        case effect_owners.OfTranscript(), signals.PluginRequestFinished():
            return cycle.go_on_after_compaction(step, compaction_run.saved(step, signal.result))
        case effect_owners.OfDrain(), signals.TeardownFinished():
            return batch.drained(step, phase)
        case effect_owners.OfTeardown(), signals.TeardownFinished():
            teardown.teardown_settled(step, signal.receipt, signal.values)
            return phase
        case _:
            message = f"{type(signal).__name__} came for {type(owner).__name__}, which does not expect it"
            raise InternalError(message)


def _agent_idled(step: StepContext, phase: Phase, signal: signals.AgentIdled) -> Next:
    owner = step.data.open.get(signal.effect_id)
    assert isinstance(owner, effect_owners.OfAgent)  # noqa: S101 - `verdict` dropped the signal otherwise
    return batch.agent_idled(step, phase, signal, owner.name)


def _put_aside(step: StepContext, phase: Phase, signal: signals.StepCrashed) -> Next:
    """Report a signal that crashed the core, and answer for it: to its caller, or to the cycle that waits for it."""
    step.data.quarantined += 1
    step.publish(SignalQuarantined(signal_kind=signal.signal_kind, error=signal.error))
    step.refuse(signal.asked_by, InternalError(signal.error.message))
    if signal.signal_kind == signals.Recovered.__name__:
        # No task works on open effects: same as after a crash.
        incarnation = step.data.incarnation + 1
        why = signals.Restarted(at_ms=signal.at_ms, reason=signal.error.message, incarnation=incarnation)
        return teardown.restarted(step, why)
    if signal.owed_by is None:
        return phase
    owner = step.data.open.get(signal.owed_by)
    if owner is None:
        return phase
    if isinstance(owner, effect_owners.OfAgent):  # it still runs, and its messages would be dropped
        step.ask(KillTools(effect_ids=(signal.owed_by,)))
    return _ended(step, phase, _stand_in(owner, signal, signal.owed_by))


def _stand_in(owner: effect_owners.Owner, signal: signals.StepCrashed, effect_id: EffectId) -> _Ending:
    at_ms, error = signal.at_ms, signal.error
    match owner:
        # For a transcript, too, no summary: code that uses one may crash again.
        case effect_owners.OfStream() | effect_owners.OfSummary() | effect_owners.OfTranscript():
            return signals.StreamFailed(at_ms=at_ms, effect_id=effect_id, error=error)
        case (
            effect_owners.OfCall()
            | effect_owners.OfSurvivor()
            | effect_owners.OfStoppedCall()
            | effect_owners.OfChild()
            | effect_owners.OfLoan()
        ):
            return signals.ToolFinished(
                at_ms=at_ms, effect_id=effect_id, text=error.message, is_error=True, started_at_ms=at_ms
            )
        case effect_owners.OfHostCheck():  # the verdict is unknown, and a call without permission does not run
            return signals.HostJudged(at_ms=at_ms, effect_id=effect_id, deny=f"Not run: {error.message}")
        case effect_owners.OfHostReport():
            return signals.HostTold(at_ms=at_ms, effect_id=effect_id)
        case effect_owners.OfContext():  # same as a failed gathering
            return signals.ContextGathered(at_ms=at_ms, effect_id=effect_id)
        case effect_owners.OfAgent():
            return signals.AgentEnded(at_ms=at_ms, effect_id=effect_id, reason=error.message, is_lost=True)
        case effect_owners.OfDrain() | effect_owners.OfTeardown():
            return signals.TeardownFinished(at_ms=at_ms, effect_id=effect_id, receipt=AbortReceipt())
        case effect_owners.OfPluginRequest() | effect_owners.OfHeldHook():
            result = RequestFailed(error=error, usage=None)
            return signals.PluginRequestFinished(at_ms=at_ms, effect_id=effect_id, result=result)
        case (
            effect_owners.OfStallTimer()
            | effect_owners.OfPause()
            | effect_owners.OfSummaryTimer()
            | effect_owners.OfRetry()
            | effect_owners.OfInteraction()
            | effect_owners.OfAgentWait()
            | effect_owners.OfHoldTimer()
        ):
            return signals.TimerFired(at_ms=at_ms, effect_id=effect_id)
        case _ as never:
            assert_never(never)


def _start(step: StepContext, phase: Phase, signal: signals.SessionBegan) -> Phase:
    step.data.started_at_ms = signal.at_ms
    data = step.data
    step.publish(SessionStart(model=data.model.model, tools=data.tools.names, plugins=data.stack.names))
    if has_listeners(step, SessionStarted):
        abort = ask_plugins(step, SessionStarted()).abort
        if abort is not None:
            step.data.stopping = f"refused by a plugin: {abort}"
            return Phase.IDLE
    return phase


def _plugin_lagged(step: StepContext, signal: signals.PluginLagged) -> None:
    step.publish(PluginSlow(plugin=signal.plugin, hook=signal.hook, milliseconds=signal.milliseconds))


def _by(kind: type[S], take: Callable[[StepContext, Phase, S], Next]) -> tuple[type[Any], Take]:
    return kind, take


def _in_any(kind: type[S], take: Callable[[StepContext, S], Next]) -> tuple[type[Any], Take]:
    """Adapt a handler that does not depend on the phase."""

    def taken(step: StepContext, _: Phase, signal: S) -> Next:
        return take(step, signal)

    return kind, taken


def _staying(kind: type[S], take: Callable[[StepContext, S], None]) -> tuple[type[Any], Take]:
    """Adapt a handler that never changes the phase."""

    def taken(step: StepContext, phase: Phase, signal: S) -> Phase:
        take(step, signal)
        return phase

    return kind, taken


def _telling(kind: type[A], tell: Callable[[Phase, Known, int], object]) -> tuple[type[Any], Take]:
    """Adapt a function that answers a query from the phase, the session's data and the time of the query."""

    def taken(step: StepContext, phase: Phase, signal: A) -> Phase:
        step.reply(signal.signal_id, tell(phase, step.data, signal.at_ms))
        return phase

    return kind, taken


_GIVEN: Final = dict(
    (
        _by(signals.Prompt, admit),
        _by(signals.GoOn, go_on),
        _by(signals.Steer, steer),
        _by(signals.AbortCycle, teardown.abort),
        _by(signals.AbortTool, batch.abort_tool),
        _in_any(signals.StopSession, teardown.stop_session),
        _staying(signals.ReplyQuery, lambda step, signal: cycle.wait_for_reply(step, signal.signal_id)),
        _telling(signals.StatusQuery, status_of),
        _telling(signals.MessagesQuery, lambda _, data, __: data.history.messages[:]),
        _telling(signals.SnapshotQuery, snapshot_of),
        _staying(signals.ReceiptQuery, receipts.tell_receipt),
        _by(signals.Approve, decisions.approve),
        _by(signals.Reject, decisions.reject_call),
        _by(signals.Respond, decisions.answer_question),
        _by(signals.Decline, decisions.decline_question),
        _staying(signals.RevokeRule, approval_rules.revoke),
        _staying(signals.AgentCommand, agent_calls.obey),
        _by(signals.AnswerCall, client_calls.answer_call),
        _staying(signals.ToolAsked, batch.tool_asked),
        _staying(signals.ToolWantsChild, child_sessions.wanted),
        _staying(signals.ChangeModel, settings.switch_model),
        _by(signals.UpdatePluginOpts, settings.update_plugin_opts),
        _staying(signals.ChangePlugins, settings.change_plugins),
        _staying(signals.ChangeTools, settings.change_tools),
        _staying(signals.ToolSourceReported, settings.tell_of_tool_source),
        _by(signals.Compact, _compact),
        _by(signals.SessionBegan, _start),
        _in_any(signals.Restarted, teardown.restarted),
        _by(signals.Recovered, recovery.recovered),
        _in_any(signals.Parked, teardown.parked),
        _by(signals.StepCrashed, _put_aside),
        _staying(signals.BudgetLent, raise_budget),
        _staying(signals.PluginLagged, _plugin_lagged),
        _in_any(signals.StreamStarted, response.stream_started),
        _by(signals.ChunksArrived, response.arrived),
        _by(signals.ResponseCompleted, _ended),
        _by(signals.StreamFailed, _ended),
        _staying(signals.ToolProgressed, batch.tool_progressed),
        _staying(signals.ChildStarted, child_sessions.child_started),
        _staying(signals.ChildPublished, child_sessions.child_published),
        _staying(signals.ToolEmitted, batch.tool_emitted),
        _in_any(signals.ToolAnsweredEarly, batch.call_detached),
        _by(signals.ToolFinished, _ended),
        _by(signals.HostJudged, _ended),
        _by(signals.HostTold, _ended),
        _by(signals.AgentIdled, _agent_idled),
        _by(signals.AgentEnded, _ended),
        _by(signals.TimerFired, _ended),
        _by(signals.PluginRequestFinished, _ended),
        _by(signals.ContextGathered, _ended),
        _by(signals.TeardownFinished, _ended),
    )
)
# Total: a row of the table without a handler fails at import.
TAKERS: Final[Mapping[type[signals.Signal], Take]] = MappingProxyType(
    {kind: _GIVEN[kind] for kind in LEGALITY}
)
"""The handler of each signal, by its class."""
