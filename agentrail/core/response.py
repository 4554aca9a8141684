"""The response: its first chunk, its deltas, its end. Each function returns the phase that follows."""

from typing import Final, assert_never

import msgspec

from agentrail.core import compacting
from agentrail.core.batch import begin_batch
from agentrail.core.cycle import fail, finish, send_request
from agentrail.core.effects import SetTimer
from agentrail.core.gates import settle_call_ids
from agentrail.core.hooking import consult, somebody_listens, take
from agentrail.core.hooks import AfterResponse
from agentrail.core.listening import hear, hear_at_once, hear_rest
from agentrail.core.owners import OfPause
from agentrail.core.projection import model_of, models_of
from agentrail.core.request import TextDelta, ThinkingDelta, UsageUpdate
from agentrail.core.retries import (
    Attempts,
    CompactFirst,
    GiveUp,
    NextModel,
    RetryAfter,
    RetryOptions,
    decide_retry,
)
from agentrail.core.signals import ChunksArrived, ResponseCompleted, StreamFailed, StreamStarted, TimerFired
from agentrail.core.silence import look, note_chunk
from agentrail.core.spending import learn_from, lost_usage, spend, spend_on_failure
from agentrail.core.state import BreakOff, Next, Phase, Stream
from agentrail.core.work import Work
from agentrail.errors import ErrorInfo
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

HEARD: Final = frozenset({TextDelta, ThinkingDelta})
"""The chunks that mean something before the response is complete; the shell need not deliver others."""

REFUSED: Final = ErrorInfo(
    code="content_refused", message="the model refused to answer, without a word: ask for something else"
)
EMPTY: Final = ErrorInfo(code="protocol_error", message="the model sent an empty response", retryable=True)


def started(work: Work, _: StreamStarted) -> Phase:
    """The first chunk is here."""
    note_chunk(work)
    work.publish(MessageStart(attempt=work.cycle.attempts.number))
    return Phase.STREAMING


def arrived(work: Work, _: Phase, signal: ChunksArrived) -> Phase:
    """Pass deltas on.

    Text that waited together is published together: the subscriber pays per wake-up, not per token.
    """
    note_chunk(work)
    said: list[str] = []
    thought: list[str] = []
    for chunk in signal.chunks:
        match chunk:
            case TextDelta(text=text):
                said.append(text)
            case ThinkingDelta(text=text):
                thought.append(text)
            case UsageUpdate(usage=usage):
                work.data.stream = msgspec.structs.replace(work.stream, usage=usage)
            case _:  # calls are in the completed message; half of a call is of no use to anybody
                pass
    if thought:
        _publish_thinking(work, "".join(thought))
    if said:
        hear(work, "".join(said))
    return Phase.STREAMING


def completed(work: Work, phase: Phase, signal: ResponseCompleted) -> Next:
    """Put the response into the history, then run its calls or end the cycle."""
    if not signal.message.content:
        error = REFUSED if signal.stop_reason == "refused" else EMPTY
        return _try_again(work, phase, error, usage=signal.usage, jitter=signal.jitter)
    spend(work, signal.usage)
    stream = work.stream
    if stream.text:
        hear_rest(work)
    else:
        hear_at_once(work, signal.message)
    message = _with_own_ids(work, signal.message)
    before = work.data.history
    work.data.history = before.with_response(message)
    work.data.stream = None
    learn_from(work, signal.usage)
    if signal.stop_reason == "context_window":
        work.data.compact_asked = "the window was full"
    outcome = None
    if somebody_listens(work, AfterResponse):
        outcome = consult(work, AfterResponse(message=message))
        if outcome.message is not None:  # who reads the event reads what the history says
            message = outcome.message
            work.data.history = before.with_response(message)
    work.publish(
        ResponseComplete(
            message=message,
            usage=signal.usage,
            stop_reason=signal.stop_reason,
            attempt=work.cycle.attempts.number,
        )
    )
    if outcome is not None:
        take(work, outcome)
        if outcome.abort is not None:
            return BreakOff(outcome.abort)
    if work.data.history.open:
        return begin_batch(work, signal.stop_reason, withheld=stream.last_turn)
    return finish(work, signal.stop_reason)


def failed(work: Work, phase: Phase, signal: StreamFailed) -> Phase:
    """There is no response: try again, ask another model, or give the cycle up."""
    return _try_again(work, phase, signal.error, usage=signal.usage, jitter=signal.jitter)


def look_at_silence(work: Work, phase: Phase, signal: TimerFired) -> Phase:
    """See whether the stream has been silent for too long; then the attempt has failed."""
    error = look(work, signal.pinged_at_ms)
    if error is None:
        return phase
    return _try_again(work, phase, error, usage=lost_usage(work), jitter=signal.jitter)


def _try_again(work: Work, phase: Phase, error: ErrorInfo, *, usage: TokenUsage, jitter: float) -> Phase:
    """Do what the policy says about a failed attempt. The history has no trace of it, and what was shown is withdrawn."""
    spend_on_failure(work, phase, usage)
    cycle = work.cycle
    if phase is Phase.STREAMING:
        work.publish(StreamError(error=error, attempt=cycle.attempts.number, discarded=True))
    if work.stream.model != model_of(work.data).model:  # another was chosen meanwhile: it has not failed yet
        number = cycle.attempts.number + 1
        work.data.cycle = msgspec.structs.replace(cycle, attempts=Attempts(number=number))
        return send_request(work)
    names = tuple(facts.model for facts in models_of(work.data))
    facts = model_of(work.data)
    options = RetryOptions(
        models=names,
        max_retries=work.data.config.max_retries if facts.max_retries is None else facts.max_retries,
        stall_policy=facts.stalls.stall_policy,
    )
    attempts, remedy = decide_retry(error, cycle.attempts, jitter, options)
    work.data.cycle = msgspec.structs.replace(cycle, attempts=attempts)
    match remedy:
        case RetryAfter(delay_ms):
            work.publish(Retry(attempt=attempts.number, delay_ms=delay_ms, error=error))
            timer = work.mint("w")
            stream = work.stream
            work.data.stream = Stream(
                effect_id=timer, model=stream.model, pausing=True, last_turn=stream.last_turn
            )
            work.start(SetTimer(effect_id=timer, at_ms=work.at_ms + delay_ms), OfPause())
            return Phase.RUNNING
        case NextModel(model):
            before = names[cycle.attempts.model]
            work.publish(ModelSwitched(from_model=before, to_model=model, by="fallback"))
            return send_request(work)
        case CompactFirst():
            work.publish(ContextOverflow(error=error))
            work.data.stream = None
            return (
                Phase.RUNNING
                if compacting.begin(work, error=error)
                else fail(work, compacting.overflowed(work, error))
            )
        case GiveUp(final):
            is_overflow = error.code == "context_overflow"
            return fail(work, compacting.overflowed(work, final) if is_overflow else final)
        case _ as never:
            assert_never(never)


def _publish_thinking(work: Work, text: str) -> None:
    if not work.stream.thinking:
        work.data.stream = msgspec.structs.replace(work.stream, thinking=True)
        work.publish(ThinkingStart(attempt=work.cycle.attempts.number))
    work.publish(ThinkingDeltaEvent(delta=text, attempt=work.cycle.attempts.number))


def _with_own_ids(work: Work, message: AssistantMessage) -> AssistantMessage:
    calls = message.calls
    if not calls:
        return message
    call_ids, used = settle_call_ids(calls, work.data.call_ids, work.stream.effect_id)
    work.data.call_ids = used
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
