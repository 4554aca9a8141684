"""What the user says: a prompt starts a cycle or waits for one, a steer goes into the cycle that runs; and a cycle without words.

Each function returns the phase that follows. A message that was accepted leaves its queue only in the step that puts it
into the history, or is thrown away aloud.
"""

from typing import Any, Final

import msgspec

from agentrail.core.protocol.actions import ResolveApproval
from agentrail.core.protocol.hooks import BeforeSteering, RequestResult
from agentrail.core.protocol.signals import GoOn, Prompt, Steer
from agentrail.core.session import cycle, holding
from agentrail.core.session.decisions import (
    find_approval_in_chat,
    hear_steer,
    hold_offered,
    resolve,
    supersede,
)
from agentrail.core.session.hooking import ask_plugins, has_listeners
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt, recall, remember
from agentrail.core.session.state import Known, Next, Phase, QueuedPrompt, QueuedSteer
from agentrail.core.session.step_context import (
    StepContext,
    prompt_of_steer,
    say_queued,
    say_received,
    waiting_prompt,
)
from agentrail.core.stack.outcome import Injected, Outcome
from agentrail.errors import (
    CannotGoOn,
    ClientIdReused,
    InteractionError,
    PromptError,
    PromptQueueFull,
    SessionDown,
    SteeringQueueFull,
)
from agentrail.events import AgentStart, PromptTaken, SteeringReceived, SteerStatus
from agentrail.messages import ApprovalId, AssistantMessage

_NO_WORDS: Final = ()
"""What is said when nothing is: no prompt has this content."""


def admit(step: StepContext, phase: Phase, signal: Prompt) -> Next:
    """Start a prompt at once, or put it at the end of the queue, or say that there is no room.

    A prompt that comes while a cycle waits for a person supersedes what it waits for.
    """
    data = step.data
    if not signal.content:  # it would wait in the queue, and nothing behind it would ever start
        step.refuse(signal.signal_id, PromptError("the prompt has no content: give one block or more"))
        return phase
    if _is_answered(step, signal, _said(signal), PromptReceipt):
        return phase
    position = len(data.queue)
    is_free = phase is Phase.IDLE and data.teardown is None and not position and data.held is None
    if not is_free and position >= data.config.max_prompt_queue:
        message = f"{position} prompts wait already, at most {data.config.max_prompt_queue} may: wait for the next end"
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
        return _start(step, phase, prompt)
    if data.cycle is not None and phase is Phase.IDLE:
        if data.held is not None:
            holding.back_to_queue(step)
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
    """Give what a message is known by, where its sender names no digest: the words, and what was wanted for them."""
    content = signal.content if isinstance(signal, Prompt) else _NO_WORDS
    return content if signal.settings is None else (content, signal.settings)


def go_on(step: StepContext, phase: Phase, signal: GoOn) -> Next:
    """Let the model answer what the conversation ends with, if the session is idle and something stands there."""
    if _is_answered(step, signal, _said(signal), PromptReceipt):
        return phase
    fault = _why_not_on(step.data, phase)
    if fault is not None:
        step.refuse(signal.signal_id, CannotGoOn(fault))
        return phase
    step.publish(AgentStart(ref=signal.ref, request_id=signal.request_id, goes_on=True, via=signal.via))
    receipt = PromptReceipt(ref=signal.ref, queued=False, seq=step.data.seq, request_id=signal.request_id)
    remember(step, signal.client_id, _said(signal), receipt, digest=signal.digest)
    step.reply(signal.signal_id, receipt)
    return cycle.start_without_words(step, signal)


def _why_not_on(data: Known, phase: Phase) -> str | None:
    """Say why a session cannot go on without new words, if that is so."""
    if phase is not Phase.IDLE:
        return "the session is at work: wait for the end of its cycle"
    if data.cycle is not None:
        return "the cycle waits for a person: decide what waits, or abort it"
    if data.teardown is not None or data.queue:
        return "what an abort stopped is not gone yet: wait for AbortSettled"
    last = data.history.messages[-1] if len(data.history) else None
    if last is None:
        return "there is no conversation yet: prompt instead"
    if isinstance(last, AssistantMessage):
        return (
            "the conversation ends with an answer, and not with results or a user's message: prompt instead"
        )
    return None


def _start(step: StepContext, phase: Phase, prompt: QueuedPrompt) -> Next:
    """Start a prompt; one that answers what the suspended cycle waits for is not started, and one that does not ends it."""
    waiting = step.data.interventions
    outcome = cycle.before_prompt(step, prompt)
    if step.data.held is not None:
        return Phase.RUNNING if step.data.cycle is None else phase
    return _checked_prompt(step, prompt, outcome, waiting)


def continue_prompt(
    step: StepContext, phase: Phase, prompt: QueuedPrompt, result: RequestResult, *, is_late: bool
) -> Next:
    """Do what a prompt that was held comes to, now that the answer is there, unless it is held once more."""
    waiting = step.data.interventions
    outcome = holding.go_on_asking(step, result, is_late=is_late)
    return phase if step.data.held is not None else _checked_prompt(step, prompt, outcome, waiting)


def _checked_prompt(
    step: StepContext,
    prompt: QueuedPrompt,
    outcome: Outcome | None,
    waiting: tuple[Injected, ...],
) -> Next:
    if step.data.cycle is None:
        return cycle.start_checked(step, prompt, outcome)
    step.data.interventions = (
        waiting  # what is said here belongs to the prompt, and not to the cycle that waits
    )
    abort, decision = (outcome.abort, outcome.decision) if outcome is not None else (None, None)
    if abort is not None:
        return cycle.reject_prompt(step, prompt, abort)
    if decision is not None and isinstance(decision.action, ResolveApproval):
        return _resolve(step, prompt, decision.action, by=decision.by)
    supersede(step)
    return cycle.start_checked(step, prompt, outcome)


def _resolve(step: StepContext, prompt: QueuedPrompt, action: ResolveApproval[Any], *, by: str) -> Next:
    """Take a prompt as a decision; one about nothing that waits is refused like any prompt, with what does wait."""
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
    """Let the running cycle hear something at its next gap; without a cycle it is a prompt."""
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
    _say(step, signal, "queued")
    _give_steer_receipt(
        step,
        signal,
        SteerReceipt(ref=signal.ref, status="queued", seq=step.data.seq, request_id=signal.request_id),
    )
    held = step.data.held
    if held is not None and held.notes is None and phase is Phase.RUNNING and cycle.has_turns_left(step):
        # There will be another turn whatever a plugin says of this answer, so that is not waited for any more.
        holding.decide_without(step)
        return cycle.begin_turn(step)
    return hear_steer(step) if step.data.batch else phase


def _why_no_steer(data: Known) -> str | None:
    """Say why no more steers may wait, if that is so."""
    waiting, most = len(data.steers), data.config.max_steering_queue
    if waiting >= most:
        return f"{waiting} steers wait already, at most {most} may: wait for SteeringApplied"
    # Those that meet the end of their cycle go on top of a queue of prompts that may be full. When every cycle ends before
    # it hears them, the queue would grow with each cycle: so they need room there, too.
    both, queued = most + data.config.max_prompt_queue, len(data.queue)
    if queued + waiting >= both:
        return (
            f"{queued} prompts and {waiting} steers wait already, at most {both} may: wait for the next end"
        )
    return None


def _is_answered(
    step: StepContext,
    signal: Prompt | GoOn | Steer,
    said: object,
    kind: type[PromptReceipt] | type[SteerReceipt],
) -> bool:
    """Answer what needs no look at the session: it is ending, or the message came before, and has its receipt."""
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
    """Ask the plugins about a steer: with what they put in front of it, and whether they refuse it."""
    if not has_listeners(step, BeforeSteering):
        return signal, False
    waiting = step.data.interventions
    outcome = ask_plugins(step, BeforeSteering(text=signal.text))
    step.data.interventions = waiting  # what is said here belongs to the steer, and not to the next request
    if outcome.abort is not None:
        _say(step, signal, "rejected_by_plugin")
        receipt = SteerReceipt(
            ref=signal.ref, status="rejected_by_plugin", seq=step.data.seq, request_id=signal.request_id
        )
        _give_steer_receipt(step, signal, receipt)
        return signal, True
    if outcome.prompt is not None:
        signal = msgspec.structs.replace(signal, text=f"{outcome.prompt}\n\n{signal.text}")
    return signal, False


def _steer_becomes_prompt(step: StepContext, phase: Phase, signal: Steer) -> Next:
    data = step.data
    position = len(data.queue)
    is_free = phase is Phase.IDLE and data.teardown is None and not position and data.held is None
    if not is_free and position >= data.config.max_prompt_queue:
        _say(step, signal, "rejected_full")
        message = f"{position} prompts wait already, at most {data.config.max_prompt_queue} may: wait for the next end"
        step.refuse(signal.signal_id, PromptQueueFull(message))
        return phase
    _say(step, signal, "became_prompt")
    _give_steer_receipt(
        step,
        signal,
        SteerReceipt(ref=signal.ref, status="became_prompt", seq=step.data.seq, request_id=signal.request_id),
    )
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
    remember(step, signal.client_id, _said(signal), receipt, digest=signal.digest)
    if signal.reply == "receipt":
        step.reply(signal.signal_id, receipt)


def _give_steer_receipt(step: StepContext, signal: Steer, receipt: SteerReceipt) -> None:
    remember(step, signal.client_id, signal.text, receipt)
    step.reply(signal.signal_id, receipt)
