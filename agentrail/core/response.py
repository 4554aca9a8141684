"""The response: its first chunk, its deltas, its end. Each function returns the phase that follows."""

from typing import Final

import msgspec

from agentrail.core.batch import begin_batch
from agentrail.core.cycle import fail, finish
from agentrail.core.gates import settle_call_ids
from agentrail.core.request import TextDelta, ThinkingDelta
from agentrail.core.signals import ChunksArrived, ResponseCompleted, StreamFailed
from agentrail.core.state import Phase
from agentrail.core.work import Work
from agentrail.errors import ErrorInfo
from agentrail.events import (
    MessageDelta,
    MessageStart,
    ResponseComplete,
    StreamError,
    ThinkingDelta as ThinkingDeltaEvent,
    ThinkingStart,
)
from agentrail.messages import AssistantMessage, ToolCall

HEARD: Final = frozenset({TextDelta, ThinkingDelta})
"""The chunks that mean something before the response is complete; the shell need not deliver others."""

EMPTY: Final = ErrorInfo(code="protocol_error", message="the model sent an empty response", retryable=True)


def started(work: Work) -> Phase:
    """The first chunk is here."""
    work.publish(MessageStart())
    return Phase.STREAMING


def arrived(work: Work, signal: ChunksArrived) -> Phase:
    """Pass deltas on and remember the visible text, which an abort keeps.

    Text that waited together is published together: the subscriber pays per wake-up, not per token.
    """
    said: list[str] = []
    thought: list[str] = []
    for chunk in signal.chunks:
        match chunk:
            case TextDelta(text=text):
                said.append(text)
            case ThinkingDelta(text=text):
                thought.append(text)
            case _:  # calls and usage are in the completed message; half of a call is of no use to anybody
                pass
    if thought:
        _publish_thinking(work, "".join(thought))
    if said:
        text = "".join(said)
        stream = work.stream
        work.change(stream=msgspec.structs.replace(stream, text=stream.text.appended(text)))
        work.publish(MessageDelta(delta=text))
    return Phase.STREAMING


def completed(work: Work, phase: Phase, signal: ResponseCompleted) -> Phase:
    """Put the response into the history, then run its calls or end the cycle."""
    cycle = work.cycle
    work.change(
        cycle=msgspec.structs.replace(cycle, usage=cycle.usage + signal.usage),
        usage=work.data.usage + signal.usage,
    )
    if not signal.message.content:
        return _give_up(work, phase, EMPTY)
    stream = work.stream
    message = _with_own_ids(work, signal.message)
    work.change(history=work.data.history.with_response(message), stream=None)
    work.publish(ResponseComplete(message=message, usage=signal.usage, stop_reason=signal.stop_reason))
    if work.data.history.open:
        return begin_batch(work, signal.stop_reason, withheld=stream.last_turn)
    return finish(work, signal.stop_reason)


def failed(work: Work, phase: Phase, signal: StreamFailed) -> Phase:
    """Give the cycle up, since there will be no response."""
    return _give_up(work, phase, signal.error)


def _give_up(work: Work, phase: Phase, error: ErrorInfo) -> Phase:
    """End the cycle; what was streamed so far is withdrawn, the history has no trace of it."""
    if phase is Phase.STREAMING:
        work.publish(StreamError(error=error, discarded=True))
    return fail(work, error)


def _publish_thinking(work: Work, text: str) -> None:
    if not work.stream.thinking:
        work.change(stream=msgspec.structs.replace(work.stream, thinking=True))
        work.publish(ThinkingStart())
    work.publish(ThinkingDeltaEvent(delta=text))


def _with_own_ids(work: Work, message: AssistantMessage) -> AssistantMessage:
    calls = message.calls
    if not calls:
        return message
    call_ids, used = settle_call_ids(calls, work.data.call_ids, work.stream.effect_id)
    work.change(call_ids=used)
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
