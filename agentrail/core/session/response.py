"""The response: its first chunk, its deltas, its end. Each function returns the next phase."""

from typing import Final, assert_never

from msgspec.structs import replace

from agentrail.core.policy.calls import settle_call_ids
from agentrail.core.policy.patience import (
    MAX_PAUSE_MS,
    Attempts,
    CompactFirst,
    GiveUp,
    NextModel,
    RetryAfter,
    RetryOptions,
    decide_retry,
)
from agentrail.core.protocol.effects import SetTimer
from agentrail.core.protocol.hooks import AfterResponse
from agentrail.core.protocol.request import ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.protocol.signals import (
    ChunksArrived,
    ResponseCompleted,
    StreamFailed,
    StreamStarted,
    TimerFired,
)
from agentrail.core.session import compaction_run
from agentrail.core.session.batch import begin_batch
from agentrail.core.session.cycle import ask_and_send, fail, finish, look, note_chunk, send_request
from agentrail.core.session.effect_owners import OfPause
from agentrail.core.session.inline_tags import append_text, flush, publish_tags
from agentrail.core.session.plugin_hooks import apply_outcome, consult
from agentrail.core.session.reservations import learn_from, spend, spend_lost, spend_on_failure
from agentrail.core.session.state import BreakOff, Next, Phase, Stream
from agentrail.core.session.step_context import StepContext, has_listeners
from agentrail.core.session.views import model_of, models_of
from agentrail.errors import ErrorInfo
from agentrail.errors.advice import Advice, advise, with_advice
from agentrail.events import (
    ContextOverflow,
    MessageStart,
    ModelSwitched,
    ResponseComplete,
    Retry,
    StreamError,
    ThinkingDelta as ThinkingDeltaEvent,
    ThinkingStart,
)
from agentrail.messages import AssistantMessage, TokenUsage, ToolCall

HEARD_CHUNKS: Final = frozenset({TextDelta, ReasoningDelta})
"""The chunks that matter before the response is complete. The shell need not deliver others."""

REFUSED: Final = ErrorInfo(
    code="content_refused",
    message="the model refused to answer without giving a reason: ask for something else",
)
_EMPTY_RESPONSE: Final = ErrorInfo(
    code="protocol_error",
    message=with_advice("the model sent an empty response", advise(Advice.EMPTY)),
    retryable=True,
)
_STOPPED: Final = ErrorInfo(
    code="process_stopped", message="the process stopped while the model answered", retryable=True
)


def stream_started(step: StepContext, _: StreamStarted) -> Phase:
    note_chunk(step)
    step.publish(MessageStart(attempt=step.cycle.attempts.number))
    return Phase.STREAMING


def arrived(step: StepContext, _: Phase, signal: ChunksArrived) -> Phase:
    """Publish deltas.

    Text that waited together is published together: the subscriber pays per wake-up, not per token.
    """
    note_chunk(step)
    chunks = signal.chunks
    if len(chunks) == 1 and type(chunks[0]) is TextDelta:  # nearly all signals
        append_text(step, (chunks[0].text,))
        return Phase.STREAMING
    said: list[str] = []
    thought: list[str] = []
    for chunk in chunks:
        match chunk:
            case TextDelta(text=text):
                said.append(text)
            case ReasoningDelta(text=text):
                thought.append(text)
            case UsageUpdate(usage=usage):
                step.data.stream = replace(step.stream, usage=usage)
            case _:  # calls are in the completed message, and half of a call is useless
                pass
    if thought:
        _publish_thinking(step, "".join(thought))
    if said:
        append_text(step, said)
    return Phase.STREAMING


def completed(step: StepContext, phase: Phase, signal: ResponseCompleted) -> Next:
    """Add the response to the history, then run its calls or end the cycle."""
    if not signal.message.content:
        error = REFUSED if signal.stop_reason == "refused" else _EMPTY_RESPONSE
        return _try_again(step, phase, error, usage=signal.usage, jitter=signal.jitter)
    spend(step, signal.usage)
    if signal.misfit != step.cycle.misfit:
        step.data.cycle = replace(step.cycle, misfit=signal.misfit)
    stream = step.stream
    if stream.text:
        flush(step)
    else:
        publish_tags(step, signal.message)
    message = _with_own_ids(step, signal.message)
    before = step.data.history
    step.data.history = before.with_response(message)
    step.data.stream = None
    learn_from(step, signal.usage)
    step.data.context_tokens = signal.usage.input
    if signal.stop_reason == "context_window":
        step.data.compact_asked = "the window was full"
    outcome = None
    if has_listeners(step, AfterResponse):
        outcome = consult(step, AfterResponse(message=message))
        if outcome.message is not None:  # the event and the history must agree
            message = outcome.message
            step.data.history = before.with_response(message)
    step.publish(
        ResponseComplete(
            message=message,
            usage=signal.usage,
            stop_reason=signal.stop_reason,
            attempt=step.cycle.attempts.number,
        )
    )
    if outcome is not None:
        apply_outcome(step, outcome)
        if outcome.abort is not None:
            return BreakOff(outcome.abort)
    if step.data.history.open:
        return begin_batch(step, signal.stop_reason, withheld=stream.last_turn)
    return finish(step, signal.stop_reason)


def response_failed(step: StepContext, phase: Phase, signal: StreamFailed) -> Phase:
    """Retry without a response: with the same model, with another one, or fail the cycle."""
    return _try_again(step, phase, signal.error, usage=signal.usage, jitter=signal.jitter)


def look_at_silence(step: StepContext, phase: Phase, signal: TimerFired) -> Phase:
    """Check whether the stream has been silent for too long. If so, the attempt has failed."""
    error = look(step, signal.pinged_at_ms)
    if error is None:
        return phase
    return _try_again(step, phase, error, usage=None, jitter=signal.jitter)


def _try_again(
    step: StepContext, phase: Phase, error: ErrorInfo, *, usage: TokenUsage | None, jitter: float
) -> Phase:
    """Apply the retry policy to a failed attempt. The history has no trace of it, and streamed text is withdrawn."""
    spend_on_failure(step, phase, usage)
    cycle = step.cycle
    if phase is Phase.STREAMING:
        step.publish(StreamError(error=error, attempt=cycle.attempts.number, discarded=True))
    if step.stream.model != model_of(step.data).model:
        # Another model was chosen meanwhile, and it has not failed yet.
        number = cycle.attempts.number + 1
        step.data.cycle = replace(cycle, attempts=Attempts(number=number))
        if step.data.semantics > 1:
            step.publish(Retry(attempt=number, delay_ms=0, error=error))
        return send_request(step)
    names = tuple(facts.model for facts in models_of(step.data))
    facts = model_of(step.data)
    options = RetryOptions(
        models=names,
        max_retries=step.data.config.max_retries if facts.max_retries is None else facts.max_retries,
        stall_policy=facts.stalls.stall_policy,
    )
    attempts, remedy = decide_retry(error, cycle.attempts, jitter, options)
    step.data.cycle = replace(cycle, attempts=attempts)
    match remedy:
        case RetryAfter(delay_ms):
            step.publish(Retry(attempt=attempts.number, delay_ms=delay_ms, error=error))
            timer = step.mint("w")
            stream = step.stream
            due_at_ms = step.at_ms + delay_ms
            step.data.stream = Stream(
                effect_id=timer,
                model=stream.model,
                pausing=True,
                last_turn=stream.last_turn,
                due_at_ms=due_at_ms,
            )
            step.start(SetTimer(effect_id=timer, at_ms=due_at_ms), OfPause())
            return Phase.RUNNING
        case NextModel(model):
            before = names[cycle.attempts.model]
            step.publish(ModelSwitched(from_model=before, to_model=model, by="fallback"))
            return send_request(step)
        case CompactFirst():
            step.publish(ContextOverflow(error=error))
            step.data.stream = None
            return (
                Phase.RUNNING
                if compaction_run.begin_compaction(step, error=error)
                else fail(step, compaction_run.overflowed(step, error))
            )
        case GiveUp(final):
            is_overflow = error.code == "context_overflow"
            return fail(step, compaction_run.overflowed(step, final) if is_overflow else final)
        case _ as never:
            assert_never(never)


def send_anew(step: StepContext, phase: Phase) -> Next:
    """Send a request again that was out when the process stopped, as another attempt. Plugins are asked about it again.

    This is not a failure of the model, so it uses up no retry. Its usage is unknown and is estimated.
    """
    spend_lost(step)
    cycle, error = step.cycle, _STOPPED
    if phase is Phase.STREAMING:
        step.publish(StreamError(error=error, attempt=cycle.attempts.number, discarded=True))
    step.ended(step.stream.effect_id)
    step.data.stream = None
    attempts = replace(cycle.attempts, number=cycle.attempts.number + 1)
    step.data.cycle = replace(step.cycle, attempts=attempts, handed=None)
    step.publish(Retry(attempt=attempts.number, delay_ms=0, error=error))
    return ask_and_send(step)


def pause_request_anew(step: StepContext) -> None:
    """Set the timer between two attempts again after its shell was lost. A timer that is already due fires at once.

    No pause is longer than the longest one, although the store's clock may have been set back meanwhile.
    """
    stream = step.stream
    step.ended(stream.effect_id)
    timer = step.mint("w")
    due_at_ms = min(stream.due_at_ms, step.at_ms + MAX_PAUSE_MS)
    step.start(SetTimer(effect_id=timer, at_ms=due_at_ms), OfPause())
    step.data.stream = replace(stream, effect_id=timer)


def _publish_thinking(step: StepContext, text: str) -> None:
    if not step.stream.thinking:
        step.data.stream = replace(step.stream, thinking=True)
        step.publish(ThinkingStart(attempt=step.cycle.attempts.number))
    step.publish(ThinkingDeltaEvent(delta=text, attempt=step.cycle.attempts.number))


def _with_own_ids(step: StepContext, message: AssistantMessage) -> AssistantMessage:
    calls = message.calls
    if not calls:
        return message
    call_ids, used = settle_call_ids(calls, step.data.call_ids, step.stream.effect_id)
    step.data.call_ids = used
    if call_ids == tuple(call.call_id for call in calls):
        return message
    fresh = iter(call_ids)
    content = tuple(
        ToolCall(call_id=next(fresh), name=block.name, arguments=block.arguments, malformed=block.malformed)
        if isinstance(block, ToolCall)
        else block
        for block in message.content
    )
    return AssistantMessage(content=content, model=message.model, stop_reason=message.stop_reason)
